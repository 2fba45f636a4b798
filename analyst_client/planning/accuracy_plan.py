"""Before spending: what a wanted accuracy costs, and how many rows it takes.

Everything follows from the quote, which is free, and from what is assumed of the rows. Nothing is asked of the curator.
"""

import math
from dataclasses import dataclass

from analyst_client.kinds.gram.quote import Quote
from analyst_client.level import takes_level
from analyst_client.planning.assumptions import Assumptions
from analyst_client.planning.expectation import Expectation
from analyst_client.planning.prices import PriceScale, bisect
from analyst_client.planning.wording import figures, percent, price_text, rounded_up
from analyst_client.schema.amounts import Cost

STRENGTH_MIN, STRENGTH_MAX = 1e-6, 1e6
ROWS_MAX = 1e15
TOLERANCE = 1e-9


@dataclass(frozen=True, repr=False)
class AccuracyPlan:
    """Cost or number of rows that a wanted accuracy takes; printed, it is a sentence.

    Attributes
    ----------
    parameter : str
    half_length : float
        The wanted one, raw units.
    expected : float
        The one to expect at the quote, as it is.
    rows : float
        Number of rows: as assumed, or, from `rows_for`, as needed.
    cost : Cost or None
        The cost that is needed; the quote's, from `rows_for`; None where none would do.
    is_laplace : bool
    text : str

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> from analyst_client import Assumptions, epsilon_for
    >>> plan = epsilon_for(0.002, "age", QUOTE, Assumptions.of(QUOTE, rows=7000, residual_sd=0.5))
    >>> plan.is_feasible, round(plan.epsilon, 2)
    (True, 0.85)
    """

    parameter: str
    half_length: float
    expected: float
    rows: float
    cost: Cost | None
    is_laplace: bool
    text: str

    @property
    def is_feasible(self) -> bool:
        """True if some cost gives the accuracy."""
        return self.cost is not None

    @property
    def epsilon(self) -> float:
        """The ε to ask for: at the stated δ, or pure with Laplace noise; infinite where none would do."""
        if self.cost is None:
            return math.inf
        return self.cost.pure_epsilon if self.is_laplace and self.cost.pure_epsilon else self.cost.epsilon

    @property
    def mu(self) -> float | None:
        """The same as µ; None where the account does not count it."""
        return None if self.cost is None else self.cost.mu

    @property
    def share_of_budget(self) -> float:
        """Its part of the population's limit; above 1 it cannot be charged."""
        return math.inf if self.cost is None else self.cost.share_of_budget

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text

    __repr__ = __str__


@takes_level
def epsilon_for(
    half_length: float,
    parameter: str,
    quote: Quote,
    assumptions: Assumptions,
    delta: float | None = None,
    *,
    level: float = 0.95,
    target: str | None = None,
) -> AccuracyPlan:
    """Find the smallest cost at which an interval is expected to be as short as wanted.

    Parameters
    ----------
    half_length : float
        Raw units: the target's per unit of the term.
    parameter : str
        A term, or ``"(constant)"`` for the intercept.
    quote : Quote
        The request, at any cost.
    assumptions : Assumptions
        Of this quote's terms, targets and row map.
    delta : float, optional
        The δ at which ε is stated. Default that of the quote.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).
    target : str, optional
        One of the targets, if there are several.

    Returns
    -------
    AccuracyPlan
        Without a cost when sampling error alone is larger than wanted; its text then says how many rows would do.

    Raises
    ------
    ValueError
        When there is no such parameter, or a number makes no sense.

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> assumptions = Assumptions.of(QUOTE, rows=6000, residual_sd=0.5, coefficients={"lambda": 0.6})
    >>> epsilon_for(0.005, "age", QUOTE, assumptions)  # doctest: +NORMALIZE_WHITESPACE
    ±0.005 on age needs ε = 0.357 (µ = 0.0905, δ = 1e-06), 2 % of the budget;
    at the quoted ε = 1 expect ±0.0022, 71 % of its variance privacy noise.
    >>> epsilon_for(0.0005, "age", QUOTE, assumptions)  # doctest: +NORMALIZE_WHITESPACE
    ±0.0005 on age is out of reach at any ε: sampling error alone is ±0.00119 with 6,000 rows.
    34,100 rows would do without privacy noise, 45,000 at the quoted ε = 1.
    """
    prices = PriceScale(quote)
    prices.check_delta(delta)
    expectation, j = _wanted(half_length, parameter, quote, assumptions, level, target)

    def at(strength: float) -> float:
        return float(expectation.at(prices.noise(quote.noise, strength)).half_lengths[j])

    now = expectation.at()
    expected = float(now.half_lengths[j])
    wanted = f"±{figures(half_length)} on {parameter}"
    if at(STRENGTH_MAX) > half_length:
        sampling = at(STRENGTH_MAX)
        least = assumptions.rows * (sampling / half_length) ** 2
        rows = _rows_needed(expectation, half_length, j)
        text = (
            f"{wanted} is out of reach at any ε: sampling error alone is ±{figures(sampling)} with "
            f"{assumptions.rows:,.0f} rows. {rounded_up(least)} rows would do without privacy noise, "
            f"{rounded_up(rows)} at the quoted {price_text(quote.cost)}."
        )
        return AccuracyPlan(parameter, half_length, expected, assumptions.rows, None, prices.is_laplace, text)
    strength = bisect(lambda s: at(s) > half_length, STRENGTH_MIN, STRENGTH_MAX, TOLERANCE)
    cost = prices.cost(strength * (1.0 + TOLERANCE), delta)
    share = cost.share_of_budget
    budget = f"{percent(share)} of the budget" if share <= 1.0 else f"{share:.3g} times the whole budget"
    if math.isinf(expected):
        quoted = f"at the quoted {price_text(quote.cost)} most intervals would be unbounded"
    else:
        quoted = (
            f"at the quoted {price_text(quote.cost)} expect ±{figures(expected)}, "
            f"{percent(float(now.privacy_shares[j]))} of its variance privacy noise"
        )
    text = f"{wanted} needs {price_text(cost, in_full=True)}, {budget}; {quoted}."
    return AccuracyPlan(parameter, half_length, expected, assumptions.rows, cost, prices.is_laplace, text)


@takes_level
def rows_for(
    half_length: float,
    parameter: str,
    quote: Quote,
    assumptions: Assumptions,
    *,
    level: float = 0.95,
    target: str | None = None,
) -> AccuracyPlan:
    """Find how many rows it takes, at the quoted cost, for an interval to be as short as wanted.

    Sampling error falls as one over the root of the number of rows, privacy noise as one over it.

    Parameters
    ----------
    half_length : float
        Raw units: the target's per unit of the term.
    parameter : str
        A term, or ``"(constant)"`` for the intercept.
    quote : Quote
        The request, at the cost that will be charged.
    assumptions : Assumptions
        Of this quote's terms, targets and row map.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).
    target : str, optional
        One of the targets, if there are several.

    Returns
    -------
    AccuracyPlan
        Its `rows` are those needed.

    Raises
    ------
    ValueError
        When there is no such parameter, or a number makes no sense.

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> assumptions = Assumptions.of(QUOTE, rows=6000, residual_sd=0.5, coefficients={"lambda": 0.6})
    >>> rows_for(0.001, "age", QUOTE, assumptions)
    ±0.001 on age needs 16,200 rows at the quoted ε = 1; with the assumed 6,000 expect ±0.0022.
    """
    expectation, j = _wanted(half_length, parameter, quote, assumptions, level, target)
    rows = _rows_needed(expectation, half_length, j)
    now = expectation.at()
    expected = float(now.half_lengths[j])
    found = "unbounded intervals in most releases" if math.isinf(expected) else f"±{figures(expected)}"
    text = (
        f"±{figures(half_length)} on {parameter} needs {rounded_up(rows)} rows at the quoted {price_text(quote.cost)}; "
        f"with the assumed {assumptions.rows:,.0f} expect {found}."
    )
    return AccuracyPlan(
        parameter,
        half_length,
        expected,
        float(math.ceil(rows)),
        quote.cost,
        "laplace" in quote.noise.distribution,
        text,
    )


def _wanted(
    half_length: float, parameter: str, quote: Quote, assumptions: Assumptions, level: float, target: str | None
) -> tuple[Expectation, int]:
    if not 0.0 < half_length < math.inf:
        raise ValueError(
            f"half_length must be positive, in the target's unit per unit of the term, not {half_length!r}"
        )
    return Expectation(quote, assumptions, target, level), assumptions.parameter_index(parameter)


def _rows_needed(expectation: Expectation, half_length: float, j: int) -> float:
    """Return the least number of rows at the quoted noise."""

    def too_few(rows: float) -> bool:
        return float(expectation.at(rows=rows).half_lengths[j]) > half_length

    # A little more than one degree of freedom: just one may be less after rounding.
    least = (1.0 + TOLERANCE) * (len(expectation.assumptions.terms) + 1.0) / expectation.assumptions.weight
    return bisect(too_few, least, ROWS_MAX, TOLERANCE) if too_few(least) else least
