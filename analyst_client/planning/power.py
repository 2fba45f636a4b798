"""Power and sample sizes: how likely a true effect is to be found, at other ε and with other numbers of rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.summary import Summary
from analyst_client.kinds.gram.quote import Quote
from analyst_client.level import takes_level
from analyst_client.planning.accuracy_plan import ROWS_MAX, STRENGTH_MAX, STRENGTH_MIN
from analyst_client.planning.assumptions import Assumptions
from analyst_client.planning.expectation import Expectation, Point
from analyst_client.planning.prices import PriceScale, bisect
from analyst_client.planning.wording import figures, frame, percent, price_text, rounded_up

if TYPE_CHECKING:
    import pandas as pd

EPSILONS = (0.1, 0.3, 1.0, 3.0)
ROW_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class PowerTable:
    """The power of a two-sided test, by ε or number of rows, and by the size of the effect.

    Attributes
    ----------
    title : str
    index_name : str
        ``"epsilon"`` or ``"rows"``.
    index : tuple of float
        One for each row of the table.
    effects : tuple of float
        True values of the coefficient, raw units: one for each column.
    power : ndarray of shape (len(index), len(effects))
        Probability that the test rejects a coefficient of 0; NaN where most releases would have unbounded intervals.
    half_lengths : ndarray of shape (len(index),)
        Expected half length of the interval of the coefficient that is assumed.
    shares_of_budget : tuple of float
        One for each row of the table.
    wanted : float
    needed : tuple of float
        For each effect, the ε or the number of rows that gives the wanted power; infinite where none does.
    facts : tuple of (str, str)

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> from analyst_client import Assumptions
    >>> from analyst_client.planning import power_table
    >>> assumptions = Assumptions.of(QUOTE, rows=7000, residual_sd=0.5)
    >>> table = power_table("age", [0.002, 0.004], QUOTE, assumptions)
    >>> table.effects, table.power[-1].round(2).tolist()
    ((0.002, 0.004), [0.89, 1.0])
    """

    title: str
    index_name: str
    index: tuple[float, ...]
    effects: tuple[float, ...]
    power: FloatArray
    half_lengths: FloatArray
    shares_of_budget: tuple[float, ...]
    wanted: float
    needed: tuple[float, ...]
    facts: tuple[tuple[str, str], ...]

    def summary(self) -> Summary:
        """Return it as a table, as text and HTML."""
        by_price = self.index_name == "epsilon"
        heads = (
            "ε" if by_price else "rows",
            *(("of the budget",) if by_price else ()),
            "±",
            *map(figures, self.effects),
        )
        rows = []
        for k, value in enumerate(self.index):
            first = (figures(value), percent(self.shares_of_budget[k])) if by_price else (f"{value:,.0f}",)
            cells = ["–" if math.isnan(power) else f"{power:.2f}" for power in self.power[k]]
            rows.append((*first, figures(self.half_lengths[k]), *cells))
        last = (f"power {self.wanted:g}", *(("",) if by_price else ()), "", *map(self._needed_text, self.needed))
        notes = ["Each column is a true effect; ± is the expected half length of the interval."]
        if np.isnan(self.power).any():
            notes.append("–: most releases would have unbounded intervals.")
        return Summary(self.title, self.facts, heads, (*rows, last), tuple(notes), "Power by true effect")

    def records(self) -> list[dict[str, Any]]:
        """Return one record for each ε or number of rows, and effect."""
        return [
            {
                self.index_name: value,
                "share_of_budget": self.shares_of_budget[k],
                "half_length": float(self.half_lengths[k]),
                "effect": effect,
                "power": float(self.power[k, e]),
            }
            for k, value in enumerate(self.index)
            for e, effect in enumerate(self.effects)
        ]

    def to_frame(self) -> "pd.DataFrame":
        """Return the records as a data frame. Needs pandas."""
        records = self.records()
        return frame({name: [record[name] for record in records] for name in records[0]})

    def __str__(self) -> str:
        """Return the table as text."""
        return self.summary().as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def _needed_text(self, value: float) -> str:
        if math.isinf(value):
            return "never"
        return f"ε {figures(value)}" if self.index_name == "epsilon" else rounded_up(value)


@takes_level
def power_table(
    parameter: str,
    effects: Sequence[float],
    quote: Quote,
    assumptions: Assumptions,
    *,
    epsilons: Sequence[float] = EPSILONS,
    delta: float | None = None,
    level: float = 0.95,
    power: float = 0.8,
    target: str | None = None,
) -> PowerTable:
    r"""Return the power to find effects, by ε.

    Parameters
    ----------
    parameter : str
        The tested term.
    effects : sequence of float
        True coefficients, raw units.
    quote : Quote
        The request, at any cost.
    assumptions : Assumptions
        The tested coefficient is replaced by each effect; the residual variance stays.
    epsilons : sequence of float
        Each ε at `delta`, or pure with Laplace noise.
    delta : float, optional
        Default that of the quote.
    level : float
        An effect is found where its interval at this level leaves out 0: by a two-sided test of size 1 − level.
    power : float
        Power for which the last line of the table says the ε.
    target : str, optional
        One of the targets, if there are several.

    Returns
    -------
    PowerTable
        One row for each ε, one column for each effect.

    Raises
    ------
    ValueError
        When there is no such parameter, or a number makes no sense.

    Notes
    -----
    The power at a true β is :math:`\Phi(|\beta|/e - z) + \Phi(-|\beta|/e - z)`, with z the root of the critical value
    and e the expected half length over z.

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> assumptions = Assumptions.of(QUOTE, rows=6000, residual_sd=0.5, coefficients={"lambda": 0.6})
    >>> power_table("age", [0.002, 0.004], QUOTE, assumptions).power.round(2).tolist()
    [[0.06, 0.08], [0.1, 0.27], [0.43, 0.95], [0.82, 1.0]]
    """
    prices = PriceScale(quote)
    strengths = [prices.strength(epsilon, delta) for epsilon in epsilons]
    cases = _cases(parameter, effects, quote, assumptions, level, power, target)
    stated = "pure ε" if prices.is_laplace else f"ε at δ = {prices.check_delta(delta):g}"

    def at(case: Expectation, strength: float) -> Point:
        return case.at(prices.noise(quote.noise, strength))

    def needed(case: Expectation, effect: float) -> float:
        strength = _least(lambda s: cases.power(at(case, s), effect), power, STRENGTH_MIN, STRENGTH_MAX)
        if math.isinf(strength):
            return strength
        cost = prices.cost(strength, delta)
        return float(cost.pure_epsilon if prices.is_laplace and cost.pure_epsilon else cost.epsilon)

    return cases.table(
        "epsilon",
        tuple(float(epsilon) for epsilon in epsilons),
        strengths,
        at,
        needed,
        [prices.cost(strength, delta).share_of_budget for strength in strengths],
        (("assumed rows", f"{assumptions.rows:,.0f}"), ("cost", stated)),
    )


@takes_level
def sample_size_table(
    parameter: str,
    effects: Sequence[float],
    quote: Quote,
    assumptions: Assumptions,
    *,
    rows: Sequence[float] | None = None,
    level: float = 0.95,
    power: float = 0.8,
    target: str | None = None,
) -> PowerTable:
    """Return the power to find effects at the quoted cost, by number of rows.

    Parameters
    ----------
    parameter : str
        The tested term.
    effects : sequence of float
        True coefficients, raw units.
    quote : Quote
        The request, at the cost that will be charged.
    assumptions : Assumptions
        The tested coefficient is replaced by each effect; the residual variance stays.
    rows : sequence of float, optional
        Numbers of complete rows. Default from a quarter to four times the assumed number.
    level : float
        An effect is found where its interval at this level leaves out 0: by a two-sided test of size 1 − level.
    power : float
        Power for which the last line of the table says the number of rows.
    target : str, optional
        One of the targets, if there are several.

    Returns
    -------
    PowerTable
        One row for each number of rows, one column for each effect.

    Raises
    ------
    ValueError
        When there is no such parameter, or a number makes no sense.

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> assumptions = Assumptions.of(QUOTE, rows=6000, residual_sd=0.5, coefficients={"lambda": 0.6})
    >>> sample_size_table("age", [0.002, 0.004], QUOTE, assumptions, rows=[3000, 6000]).power.round(2).tolist()
    [[0.16, 0.49], [0.43, 0.95]]
    """
    counts = [assumptions.rows * factor for factor in ROW_FACTORS] if rows is None else [float(count) for count in rows]
    cases = _cases(parameter, effects, quote, assumptions, level, power, target)
    least = (len(assumptions.terms) + 1.0) / assumptions.weight
    if not all(least <= count <= ROWS_MAX for count in counts):
        raise ValueError(f"rows must be numbers of rows, each at least {math.ceil(least)} for these terms")

    def at(case: Expectation, count: float) -> Point:
        return case.at(rows=count)

    def needed(case: Expectation, effect: float) -> float:
        return _least(lambda count: cases.power(at(case, count), effect), power, least, ROWS_MAX)

    return cases.table(
        "rows",
        tuple(counts),
        counts,
        at,
        needed,
        [quote.cost.share_of_budget] * len(counts),
        (("cost", f"{price_text(quote.cost, in_full=True)}, {percent(quote.cost.share_of_budget)} of the budget"),),
    )


@dataclass(frozen=True, eq=False)
class _Cases:
    """One expectation for each effect, and one for the coefficient that is assumed."""

    parameter: str
    j: int
    effects: tuple[float, ...]
    expectations: tuple[Expectation, ...]
    assumed: Expectation
    wanted: float
    level: float

    def power(self, point: Point, effect: float) -> float:
        """Return the power of the test; NaN where intervals are unbounded."""
        half, z = float(point.half_lengths[self.j]), math.sqrt(float(point.critical[self.j]))
        if math.isinf(half):
            return math.nan
        shift = abs(effect) / half * z
        return 0.5 * (math.erfc((z - shift) / math.sqrt(2.0)) + math.erfc((z + shift) / math.sqrt(2.0)))

    def table(
        self,
        index_name: str,
        index: tuple[float, ...],
        places: Sequence[float],
        at: Callable[[Expectation, float], Point],
        needed: Callable[[Expectation, float], float],
        shares: Sequence[float],
        facts: tuple[tuple[str, str], ...],
    ) -> PowerTable:
        """Fill the table."""
        pairs = list(zip(self.expectations, self.effects, strict=True))
        power = np.array([[self.power(at(case, place), effect) for case, effect in pairs] for place in places])
        return PowerTable(
            f"power to find an effect of {self.parameter}, two-sided at {1.0 - self.level:.6g}",
            index_name,
            index,
            self.effects,
            power.reshape(len(places), len(pairs)),
            np.array([at(self.assumed, place).half_lengths[self.j] for place in places]),
            tuple(shares),
            self.wanted,
            tuple(needed(case, effect) for case, effect in pairs),
            facts,
        )


def _cases(
    parameter: str,
    effects: Sequence[float],
    quote: Quote,
    assumptions: Assumptions,
    level: float,
    power: float,
    target: str | None,
) -> _Cases:
    if not effects or not all(math.isfinite(effect) and effect != 0.0 for effect in effects):
        raise ValueError("effects must be true coefficients other than 0, in raw units, such as [0.1, 0.2]")
    if not 1.0 - level < power < 1.0:
        raise ValueError(f"power must be above 1 − level and below 1, such as 0.8, not {power!r}")
    assumed = Expectation(quote, assumptions, target, level)
    chosen = tuple(float(effect) for effect in effects)
    expectations = tuple(
        Expectation(quote, assumptions.with_coefficient(parameter, effect, target), target, level) for effect in chosen
    )
    return _Cases(parameter, assumptions.parameter_index(parameter), chosen, expectations, assumed, power, level)


def _least(power_at: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Return the least ε or number of rows with the wanted power; infinite where none has it."""

    def too_little(place: float) -> bool:
        return not power_at(place) >= wanted  # NaN is too little

    if too_little(high):
        return math.inf
    return bisect(too_little, low, high, TOLERANCE)
