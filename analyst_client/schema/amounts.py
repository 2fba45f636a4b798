"""Amounts of privacy in each of its notions, and the cost of a request."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from analyst_client.display.model import (
    Bar,
    Inline,
    Table,
    bar,
    join,
    number,
    percent,
    quiet,
    ratio,
    strong,
    swatch,
    table,
)
from analyst_client.schema.reading import Readable
from analyst_client.schema.wire import Fields

NOTIONS = {"gdp": "mu", "zcdp": "rho", "pure": "epsilon"}
"""In which an account's price is stated."""


def price_of_units(accountant: str, units: int) -> dict[str, float]:
    """Return the price that an account reads as so many units: in the middle of them, as it rounds down.

    Examples
    --------
    >>> price_of_units("zcdp", 250_000_000_000)
    {'rho': 0.2500000000005}
    """
    amount = (units + 0.5) * 1e-12
    return {NOTIONS[accountant]: math.sqrt(amount) if accountant == "gdp" else amount}


def _read_epsilon(fields: Fields, name: str) -> float:
    return math.inf if fields.is_null(name) else fields.number(name)


@dataclass(frozen=True)
class Amount(Readable):
    """An amount of privacy in each of its notions.

    Attributes
    ----------
    mu, rho : float or None
        Gaussian DP and zero-concentrated DP; None where the account's number says nothing of a notion.
    epsilon, delta : float
        Approximate DP at the stated `delta`; an `epsilon` too large to be stated is infinite.
    units : int or None
        The ledger's own integer: 10⁻¹² of µ², ρ or ε, as the account counts. It adds up; (ε, δ) does not.
    pure_epsilon : float or None
        The ε of one Laplace release alone, with δ = 0. The `epsilon` of an account that counts µ² or ρ is larger: it is
        what the account's number implies.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> left = client.budget("flchain").remaining
    >>> left.epsilon, left.delta, round(left.mu, 3)
    (3.0, 1e-06, 0.648)
    """

    mu: float | None
    rho: float | None
    epsilon: Annotated[float, _read_epsilon]
    delta: float
    units: int | None = None
    pure_epsilon: float | None = None


@dataclass(frozen=True)
class Cost(Amount):
    """Cost of a request.

    Attributes
    ----------
    share_of_budget : float
        Its part of the population's limit, 0 to 1.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> cost = client.releases("flchain")[-1].cost
    >>> round(cost.epsilon, 3), cost.delta, round(cost.share_of_budget, 3)
    (0.495, 1e-06, 0.036)
    """

    share_of_budget: Annotated[float, Fields.number] = 0.0


CLASS_OF_PART = {"spent": "spent", "drawn": "spent", "held": "held", "left": "left"}


def show_amounts(
    caption: Inline,
    parts: Sequence[tuple[str, "Amount"]],
    whole: tuple[str, "Amount"],
    *,
    share_used: float | None = None,
) -> tuple[Table, Bar]:
    """Return the table and the bar of an amount and its parts; `share_used` serves where units are not stated."""
    named = [*parts, whole]
    shares = [ratio(amount.units, whole[1].units) for _, amount in named]
    rows = [
        (
            join(swatch(CLASS_OF_PART.get(name, "none")), name),
            percent(share),
            number(amount.epsilon),
            number(amount.delta),
        )
        for (name, amount), share in zip(named, shares, strict=True)
    ]
    known = [(name, share) for (name, _), share in zip(parts, shares, strict=False) if share is not None]
    if len(known) < len(parts) and share_used is not None:
        known = [("spent", share_used), ("left", 1.0 - share_used)]
    label = ", ".join(f"{name} {percent(share)}" for name, share in known)
    return (
        table(caption, ("amount", "share", "ε", "at δ"), rows, numeric=(1, 2, 3), total=len(parts)),
        bar([(CLASS_OF_PART[name], share) for name, share in known], label),
    )


def write_cost(cost: "Cost") -> Inline:
    """Show a cost, its share of the budget first."""
    views = f"ε = {number(cost.epsilon)} at δ = {number(cost.delta)}"
    if cost.mu is not None:
        views += f", µ = {number(cost.mu)}"
    elif cost.rho is not None:
        views += f", ρ = {number(cost.rho)}"
    if cost.pure_epsilon is not None:
        views += f"; by itself ε = {number(cost.pure_epsilon)} at δ = 0"
    return join(strong(percent(cost.share_of_budget)), " of the budget ", quiet(f"({views})"))
