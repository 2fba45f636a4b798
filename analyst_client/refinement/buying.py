"""Buying a refinement: its price and its problem, its reservation, and its releases one after another."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from analyst_client.errors import CuratorError, UselessRequestError
from analyst_client.kinds.gram.arguments import as_features
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.planning.prices import gdp_delta, number_of, zcdp_delta
from analyst_client.refinement.plan import least_rows
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.refinement import Refinement, buy, rules_of
from analyst_client.refinement.rules import RefinementRules
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.requests import price

HELD_S = 24 * 3600
"""How long a reservation holds what is not spent yet."""
_SPENT = 1.0 - 1e-9
"""Part of a price that is spent: costs are rounded up, one by one, in units of 10⁻¹²."""


class Seller(Protocol):
    """A curator, as `CuratorClient` asks it."""

    def quote(self, dataset: str, request: Any, /) -> Any:
        """Return the quote of a request."""

    def release(self, dataset: str, request: Any, /) -> Any:
        """Return the release of a request."""

    def reserve(self, dataset: str, *, expires_in_s: int, project: str | None, **price: float) -> Any:
        """Hold an amount."""

    def close_reservation(self, reservation_id: str) -> Any:
        """Give back what is left of it."""


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
    even_so: bool = False,
) -> Refinement:
    """Hold the price, follow the plan, and give back what is left; see `CuratorClient.refine`.

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
    even_so : bool
        Whether to go on where the price tells the mean alone.

    Raises
    ------
    ValueError
        When the target, or the rules, are not those of the family; nothing was charged.
    CuratorError
        With a note that says which reservation holds what is left.
    """
    stated = price(request.epsilon, request.delta, request.mu, request.rho)
    targets = request.named_targets or []
    if len(targets) != 1:
        raise ValueError("a refinement is of one target: name it")
    selecting = {name: value for name in ("where", "weight") if (value := getattr(request, name)) is not None}
    problem = Problem.of(
        seller.quote(declared.name, request),
        as_features(request.features, "features"),
        targets[0],
        rows=float(expected_rows or declared.rows or declared.row_capacity / 4.0),
        mu=_mu_of(stated, declared) * math.sqrt(_SPENT),
        accountant=declared.accountant,
        options=tuple(selecting.items()),
        family=family,
    )
    kind = rules_of(family)
    if rules is not None and not isinstance(rules, kind):
        raise ValueError(f"rules of a {family} refinement are {kind.__name__}")
    if not even_so:
        _check_told(problem, rules or kind())
    held = reservation or str(seller.reserve(declared.name, expires_in_s=HELD_S, project=project, **stated).id)
    problem = replace(problem, options=(*problem.options, ("reservation", held)))
    try:
        found = buy(
            problem,
            rules or kind(),
            lambda asked: seller.quote(declared.name, asked),
            lambda asked: seller.release(declared.name, asked),
        )
    except CuratorError as error:
        error.add_note(f"what is held waits in reservation={held!r}: the same call with it goes on where this ended")
        raise
    if reservation is None:
        seller.close_reservation(held)
    return found


def _check_told(problem: Problem, rules: Any) -> None:
    """Raise `UselessRequestError` where the rules spend the whole price on the mean of the target."""
    least = least_rows(problem, rules)
    if problem.rows < least:
        times = least / problem.rows
        reason = (
            f"at µ = {problem.mu:.3g} and {problem.rows:,.0f} rows a refinement tells the mean of the target alone: "
            f"slopes need {times:.1f} times the µ, or {math.ceil(least):,} rows; state expected_rows= where there are"
        )
        raise UselessRequestError((reason,))


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
