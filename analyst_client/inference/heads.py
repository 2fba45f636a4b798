"""The head of a summary: the number of rows, the charge, and the baseline levels."""

import math
from collections.abc import Iterable, Iterator, Sequence

from analyst_client.display.model import number
from analyst_client.inference.equations import Equations
from analyst_client.kinds.gram.release import Release
from analyst_client.schema.amounts import Cost
from analyst_client.schema.columns import Column, Term

NOT_TOLD = "not told, as rows are weighted"
PLAIN_LABELS = ("false", "true")


def people_text(equations: Equations) -> str:
    """Return how many rows a fit is of, where that is told."""
    if equations.people is None:
        return "not told, without a constant" if equations.counts_alike else NOT_TOLD
    return f"{equations.people:,.0f} rows, noisy"


def head_of(equations: Equations) -> list[tuple[str, str]]:
    """Return n, what was charged for releases, and the baseline levels."""
    spent = spent_text(_charges([site.release for site in equations.sites]))
    return stated(people_text(equations), spent, equations.columns, equations.combined or equations.terms)


def stated(n: str, spent: str, columns: Iterable[Column], terms: Iterable[Term]) -> list[tuple[str, str]]:
    """Return n, what was charged, and the baseline levels, as far as there are any."""
    facts = [("n", n), ("privacy charged", spent), ("baseline", baseline_text(columns, terms))]
    return [(name, value) for name, value in facts if value]


def _charges(releases: Sequence[Release]) -> Iterator[tuple[object, Cost | None]]:
    """Return whose budget each release was charged to, and its cost; steps that releases share once."""
    yield from ((release.people, release.cost) for release in releases)
    yield from {step.text: (release.people, step.cost) for release in releases for step in release.steps}.values()


def spent_text(costs: Iterable[tuple[object, Cost | None]]) -> str:
    """Return the (ε, δ) of releases by whose budget they were charged to; empty where none was charged.

    Examples
    --------
    >>> spent_text([("north", Cost(0.16738, None, 0.68, 1e-6))] * 2)
    'ε = 1 at δ = 1e-06'
    """
    charged: dict[object, list[Cost]] = {}
    for owner, cost in costs:
        if cost is not None:
            charged.setdefault(owner, []).append(cost)
    return "; ".join(dict.fromkeys(_total_text(several) for several in charged.values()))


def _total_text(costs: Sequence[Cost]) -> str:
    """Return what costs of one budget add up to: µ², ρ, or ε and δ themselves."""
    from analyst_client.planning.prices import epsilon_of, gdp_delta, zcdp_delta  # noqa: PLC0415 -- it imports fits

    epsilon, delta = costs[0].epsilon, costs[0].delta
    if len(costs) > 1:
        mus = [cost.mu for cost in costs if cost.mu is not None]
        rhos = [cost.rho for cost in costs if cost.rho is not None]
        if len(mus) == len(costs):
            epsilon = epsilon_of(gdp_delta, math.sqrt(sum(mu**2 for mu in mus)), delta)
        elif len(rhos) == len(costs):
            epsilon = epsilon_of(zcdp_delta, sum(rhos), delta)
        else:
            epsilon, delta = sum(cost.epsilon for cost in costs), sum(cost.delta for cost in costs)
    return f"ε = {number(epsilon)} at δ = {number(delta)}"


def baseline_text(columns: Iterable[Column], terms: Iterable[Term]) -> str:
    """Return the level of each column that coefficients compare with.

    Examples
    --------
    >>> columns = [Column.categorical("sex", ["F", "M"]), Column.boolean("mgus", ("no", "yes"))]
    >>> baseline_text(columns, [Term("sex[M]", "level", "sex", level="M"), Term("mgus", "boolean", "mgus")])
    'sex F, mgus no'
    """
    coded = {(term.column, term.level) for term in terms}
    found = []
    for column in columns:
        if column.type == "categorical" and any(name == column.name for name, _ in coded):
            found += [f"{column.name} {level}" for level in column.levels if (column.name, level) not in coded]
        elif column.type == "boolean" and column.levels != PLAIN_LABELS and (column.name, None) in coded:
            found.append(f"{column.name} {column.levels[0]}")
    return ", ".join(dict.fromkeys(found))  # a refinement has its columns as they were asked, and as they were cut
