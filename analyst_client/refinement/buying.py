"""Buying a refinement: its reservation, its problem, and its releases one after another."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from analyst_client.errors import CuratorError
from analyst_client.kinds.gram.arguments import as_features
from analyst_client.kinds.gram.request import Asked, ReleaseRequest
from analyst_client.planning.prices import gdp_delta, number_of, zcdp_delta
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.refinement import Refinement, buy, rules_of
from analyst_client.refinement.rules import RefinementRules
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.requests import price
from analyst_client.terms.expression import Expression

if TYPE_CHECKING:
    from analyst_client.client import CuratorClient

HELD_S = 24 * 3600
"""How long a reservation holds what is not spent yet."""
_SPENT = 1.0 - 1e-9
"""Part of a price that is spent: costs are rounded up, one by one, in units of 10⁻¹²."""


@dataclass(frozen=True)
class Ask:
    """What `CuratorClient.refine` was asked beside the features."""

    target: str | Expression | None
    where: str | Expression | None
    weight: str | Expression | None
    epsilon: float | None
    delta: float | None
    mu: float | None
    rho: float | None
    expected_rows: float | None
    project: str | None
    reservation: str | None
    family: str = "gaussian"

    @property
    def price(self) -> dict[str, float]:
        """The whole price, as on the wire."""
        return price(self.epsilon, self.delta, self.mu, self.rho)

    def mu_at(self, dataset: Dataset) -> float:
        """Return the price as µ; under zCDP as √(2ρ)."""
        stated = self.price
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


def refine_at(
    client: "CuratorClient", dataset: str, features: Asked, ask: Ask, rules: RefinementRules | None = None
) -> Refinement:
    """Hold the price, follow the plan, and give back what is left; see `CuratorClient.refine`."""
    declared = client.dataset(dataset)
    mu = ask.mu_at(declared)
    options = {name: value for name in ("where", "weight") if (value := getattr(ask, name)) is not None}
    given = options if ask.target is None else options | {"target": ask.target}
    request = _whole(client, dataset, features, given | ask.price)
    named = request.targets or ([] if request.target is None else [request.target])  # a comparison has no truth
    targets = as_features(named, "target") if named else []
    if len(targets) != 1:
        raise ValueError("a refinement is of one target: name it")
    quote = client.quote(dataset, request)
    expected = ask.expected_rows or declared.rows or declared.row_capacity / 4.0
    problem = Problem.of(
        quote,
        as_features(request.features, "features"),
        targets[0],
        rows=float(expected),
        mu=mu * math.sqrt(_SPENT),
        accountant=declared.accountant,
        options=tuple((name, getattr(request, name)) for name in options),
        family=ask.family,
    )
    if rules is not None and not isinstance(rules, rules_of(ask.family)):
        raise ValueError(f"rules of a {ask.family} refinement are {rules_of(ask.family).__name__}")
    held = ask.reservation or _reserve(client, dataset, ask)
    problem = replace(problem, options=(*problem.options, ("reservation", held)))

    def release(asked: Any) -> Any:
        return client.release(dataset, asked)

    try:
        found = buy(problem, rules or rules_of(ask.family)(), lambda asked: client.quote(dataset, asked), release)
    except CuratorError as error:
        error.add_note(f"what is held waits in reservation={held!r}: the same call with it goes on where this ended")
        raise
    if ask.reservation is None:
        client.close_reservation(held)
    return found


def _reserve(client: "CuratorClient", dataset: str, ask: Ask) -> str:
    price: dict[str, Any] = ask.price
    return client.reserve(dataset, expires_in_s=HELD_S, project=ask.project, **price).id


def _whole(client: "CuratorClient", dataset: str, features: Asked, options: dict[str, Any]) -> ReleaseRequest:
    """Return the request of one release of the model, with a formula read and knots placed."""
    request, _ = client._read(dataset, features, options | {"rows": "box"})
    assert isinstance(request, ReleaseRequest)
    return request
