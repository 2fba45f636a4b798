"""Buying a refinement: its price and its problem, its reservation, and its releases one after another."""

import math
from collections.abc import Mapping
from dataclasses import asdict, replace

from analyst_client.errors import CuratorError
from analyst_client.estimators.warn import warn_caller
from analyst_client.kinds.gram.arguments import as_features
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.planning.prices import gdp_delta, number_of, zcdp_delta
from analyst_client.refinement.holding import Holding, Seller, key_of
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.refinement import Refinement, buy, rules_of
from analyst_client.refinement.rules import RefinementRules
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.requests import price

_SPENT = 1.0 - 1e-9
"""Part of a price that is spent: costs are rounded up, one by one, in units of 10⁻¹²."""


def refine_at(
    seller: Seller,
    declared: Dataset,
    request: ReleaseRequest,
    *,
    expected_rows: float | None,
    project: str | None,
    reservation: str | None,
    rules: RefinementRules | None,
    family: str = "gaussian",
) -> Refinement:
    """Follow the plan, and hold the price as long as something has to be paid; see `CuratorClient.refine`.

    Parameters
    ----------
    seller : Seller
    declared : Dataset
    request : ReleaseRequest
        One release of the model, at the whole price.
    expected_rows : float or None
    project, reservation : str or None
    rules : RefinementRules or None
        `GeneralizedRules` of a family that is not gaussian.
    family : str
        Of the target.

    Raises
    ------
    ValueError
        When the target, or the rules, are not those of the family; nothing was charged.
    BaseException
        With a note that says what is held, or that it was given back.
    """
    stated = price(request.epsilon, request.delta, request.mu, request.rho)
    named = request.targets if request.target is None else [request.target]
    targets = as_features(named, "target") if named else []
    if len(targets) != 1:
        raise ValueError("a refinement is of one target: name it")
    request = replace(request, project=project)
    said = {name: value for name in ("where", "weight", "project") if (value := getattr(request, name)) is not None}
    problem = Problem.of(
        seller.quote(declared.name, request),
        as_features(request.features, "features"),
        targets[0],
        rows=float(expected_rows or declared.rows or declared.row_capacity / 4.0),
        mu=_mu_of(stated, declared) * math.sqrt(_SPENT),
        accountant=declared.accountant,
        options=tuple(said.items()),
        family=family,
    )
    kind = rules_of(family)
    if rules is not None and not isinstance(rules, kind):
        raise ValueError(f"rules of a {family} refinement are {kind.__name__}")
    rules = rules or kind()
    key = key_of(declared, request, family=family, rows=problem.rows, rules=[kind.__name__, asdict(rules)])
    holding = Holding(seller, declared, key, stated, project=project, given=reservation)
    try:
        found = buy(problem, rules, lambda asked: seller.quote(declared.name, asked), holding.release)
    except BaseException as error:
        holding.explain(error)
        raise
    try:
        holding.close()
    except CuratorError as error:  # what was bought is here
        warn_caller(f"the reservation {holding.id} could not be closed: {error}", UserWarning)
    return found


def _mu_of(stated: Mapping[str, float], dataset: Dataset) -> float:
    """Return a price as µ; under zCDP as √(2ρ). Raise `ValueError` where there is no Gaussian noise."""
    if dataset.accountant == "pure":
        raise ValueError(
            f"a refinement is of Gaussian noise, and {dataset.name!r} counts in pure ε: ask for a release with "
            "mechanism='laplace'"
        )
    if "mu" in stated:
        return stated["mu"]
    if "rho" in stated:
        return math.sqrt(2.0 * stated["rho"])
    if dataset.accountant == "zcdp":
        return math.sqrt(2.0 * number_of(zcdp_delta, stated["epsilon"], stated["delta"]))
    return number_of(gdp_delta, stated["epsilon"], stated["delta"])
