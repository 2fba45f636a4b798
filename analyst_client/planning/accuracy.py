"""Expected accuracy of a quote: by formula, or from simulated releases."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.estimators.ridge import OLS
from analyst_client.inference.caveats import CLIPPED_SHARE, beyond_bounds
from analyst_client.inference.summary import Summary, number
from analyst_client.kinds.gram.quote import Quote
from analyst_client.level import takes_level
from analyst_client.planning.assumptions import Assumptions
from analyst_client.planning.expectation import Expectation
from analyst_client.planning.rehearsal import DummyReleases
from analyst_client.planning.wording import figures, frame, percent, price_text
from analyst_client.schema.amounts import Cost

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Accuracy:
    """The accuracy to expect of a release, in raw units.

    Attributes
    ----------
    dataset, target : str
    unit : str or None
        The target's.
    names : tuple of str
        The P parameters: the constant, if there is one, and the terms.
    values : ndarray of shape (P,)
        The assumed coefficients.
    std_errors, half_lengths : ndarray of shape (P,)
        Expected standard errors, and half lengths of intervals; infinite where most releases would have them unbounded.
        Medians over releases if they were simulated.
    privacy_shares : ndarray of shape (P,)
        Share of each variance that is privacy noise, 0 to 1.
    bounded : float
        Share of releases whose intervals are all bounded.
    identification : float
        Strength of the assumed data against the noise; see `LinearFit.identification`. That of a release is
        lower, as its own noise disturbs it.
    rsquared : float
    rsquared_interval : tuple of float
        Expected ends of `LinearFit.rsquared_interval`.
    prediction_sd : float
        Root mean square error of predicting the target of a new row.
    residual_sd : float
        Root mean square error with all coefficients known.
    rows, level : float
    cost : Cost
        The quote's.
    simulated : int
        Number of simulated releases; 0 by formula.
    notes : tuple of str
        Guesses, and reasons for caution.

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> from analyst_client import Assumptions, expected_accuracy
    >>> accuracy = expected_accuracy(QUOTE, Assumptions.of(QUOTE, rows=7000, residual_sd=0.5))
    >>> round(accuracy.half_length("age"), 4)
    0.0018
    """

    dataset: str
    target: str
    unit: str | None
    names: tuple[str, ...]
    values: FloatArray
    std_errors: FloatArray
    half_lengths: FloatArray
    privacy_shares: FloatArray
    bounded: float
    identification: float
    rsquared: float
    rsquared_interval: tuple[float, float]
    prediction_sd: float
    residual_sd: float
    rows: float
    level: float
    cost: Cost
    simulated: int
    notes: tuple[str, ...]

    def half_length(self, parameter: str) -> float:
        """Return the expected half length of one parameter's interval. Raise `ValueError` for an unknown one."""
        return float(self.half_lengths[self._index(parameter)])

    def describe(self, parameter: str) -> str:
        """Return one parameter's expectation as a sentence."""
        j = self._index(parameter)
        if math.isinf(self.half_lengths[j]):
            return f"at the quoted {price_text(self.cost)} most intervals of {parameter} would be unbounded."
        return (
            f"at the quoted {price_text(self.cost)} expect ±{figures(self.half_lengths[j])} on {parameter}, "
            f"{percent(self.privacy_shares[j])} of its variance privacy noise."
        )

    def summary(self) -> Summary:
        """Return it as a table, as text and HTML."""
        unit = f" ({self.unit})" if self.unit else ""
        low, high = self.rsquared_interval
        facts = (
            ("cost", f"{price_text(self.cost)}, {percent(self.cost.share_of_budget)} of the budget"),
            ("assumed rows", f"{self.rows:,.0f}"),
            ("by", f"{self.simulated} simulated releases" if self.simulated else "formula"),
            ("assumed R²", f"{number(self.rsquared)}, to be told as {number(low)} to {number(high)}"),
            (
                "prediction error",
                f"{number(self.prediction_sd)}; {number(self.residual_sd)} with all coefficients known",
            ),
            (
                "identification",
                f"{number(self.identification)}; intervals bounded in {percent(self.bounded)} of releases",
            ),
        )
        heads = ("term", "assumed", "std err", f"{percent(self.level)} interval ±", "privacy")
        columns = (self.names, self.values, self.std_errors, self.half_lengths, self.privacy_shares)
        rows = tuple(
            (name, number(value), number(error), number(half), percent(share))
            for name, value, error, half, share in zip(*columns, strict=True)
        )
        title = f"{self.target}{unit} of {self.dataset}: the accuracy to expect"
        notes = (
            "Standard errors hold sampling and privacy noise; 'privacy' is the latter's share of each variance.",
            *(f"Assumed: {text}." for text in self.notes),
        )
        return Summary(title, facts, heads, rows, notes, "Parameters")

    def to_frame(self) -> "pd.DataFrame":
        """Return one row for each parameter. Needs pandas."""
        return frame(
            {
                "term": list(self.names),
                "assumed": self.values,
                "std_error": self.std_errors,
                "half_length": self.half_lengths,
                "privacy_share": self.privacy_shares,
            }
        )

    def __str__(self) -> str:
        """Return the table as text."""
        return self.summary().as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def _index(self, parameter: str) -> int:
        if parameter not in self.names:
            raise ValueError(f"there is no parameter {parameter!r}; there are {', '.join(self.names)}")
        return self.names.index(parameter)


@takes_level
def expected_accuracy(
    quote: Quote,
    assumptions: Assumptions,
    level: float = 0.95,
    *,
    target: str | None = None,
    simulate: int = 0,
    seed: int = 0,
) -> Accuracy:
    r"""Return the expected accuracy of a release at the quoted cost.

    Parameters
    ----------
    quote : Quote
        The request, with its noise.
    assumptions : Assumptions
        Of this quote's terms, targets and row map.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).
    target : str, optional
        One of the targets, if there are several.
    simulate : int
        Fit so many dummy releases, and report medians, in place of the formula.
    seed : int
        Of the simulation.

    Returns
    -------
    Accuracy
        Expected standard errors, intervals and R², in raw units.

    Raises
    ------
    ValueError
        When the assumptions are of another request, or the quote lacks a statistic that intervals need.

    Notes
    -----
    The formula is the delta method at the assumed moments, :math:`A^{-1}\Omega A^{-1}` with
    :math:`\Omega = s^2A + C(\beta)`: sampling error, which is at most that where rows are weighted (`Site.sampling`),
    and privacy noise. Half lengths are those of the score test's intervals. Both are corrected for what noise in XᵀX
    adds to them, to second order; the share of releases with bounded intervals is counted over draws of it. Where that
    share is 1 the formula agrees with releases to within some percent (docs/benchmarks.md).

    Examples
    --------
    >>> from analyst_client.kinds.gram.examples import QUOTE
    >>> assumptions = Assumptions.of(QUOTE, rows=6000, residual_sd=0.5, coefficients={"lambda": 0.6})
    >>> expected = expected_accuracy(QUOTE, assumptions)
    >>> expected.describe("age")
    'at the quoted ε = 1 expect ±0.0022 on age, 71 % of its variance privacy noise.'
    """
    expectation = Expectation(quote, assumptions, target, level)
    point = expectation.at()
    results, t = point.results, expectation.t
    errors, half, bounded, shares = point.std_errors, point.half_lengths, point.bounded, point.privacy_shares
    if simulate:
        errors, half, shares, bounded = _simulated(quote, assumptions, t, level, simulate, seed)
    moments = assumptions.moments / assumptions.weight
    spread = np.sum(moments * (results.solution.inverse @ results.equations.covariance @ results.solution.inverse))
    scale = assumptions.targets[t].scale
    notes = list(assumptions.notes)
    low, high = results.rsquared_interval(level)
    assumed = assumptions.rsquared(assumptions.targets[t].name)
    notes += [
        f"{percent(outside)} of {assumptions.targets[t].name} beyond its bound of {number(bound)} if it is normal, and "
        "clipped there"
        for bound, outside in beyond_bounds(results).items()
        if outside > CLIPPED_SHARE
    ]
    return Accuracy(
        quote.dataset,
        assumptions.targets[t].name,
        assumptions.targets[t].unit,
        results.names,
        np.array(list(assumptions.parameters(assumptions.targets[t].name).values())),
        errors,
        half,
        shares,
        bounded,
        point.identification,
        assumed if math.isnan(results.rsquared) else results.rsquared,
        (float(low), float(high)),
        math.sqrt(float(assumptions.residual_variances[t]) + float(spread)) * scale,
        assumptions.residual_sd(assumptions.targets[t].name),
        assumptions.rows,
        level,
        quote.cost,
        simulate,
        tuple(notes),
    )


def _simulated(
    quote: Quote, assumptions: Assumptions, t: int, level: float, count: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Fit dummy releases; return median standard errors, half lengths and privacy shares, and how many are bounded."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"simulate must be a number of releases, such as 200, not {count!r}")
    generator = np.random.default_rng(seed)
    dummies = DummyReleases(quote, assumptions)
    target = assumptions.targets[t].name
    rows = None if assumptions.terms[0].kind == "constant" else assumptions.rows * assumptions.weight
    unknown = np.full(len(assumptions.terms), np.inf)
    found: list[list[FloatArray]] = []
    for _ in range(count):
        try:
            fit = OLS().fit(dummies.release(generator), target, rows=rows)
            low, high = fit.conf_int(level).T
            found.append([fit.std_errors_, (high - low) / 2.0, fit.results_[0].noise_share])
        except EstimationError:  # not definite: the noise outweighs the data in some direction
            found.append([unknown, unknown, np.ones(len(unknown))])
    errors, half, shares = np.median(np.array(found), axis=0)
    bounded = float(np.mean([np.isfinite(each[1]).all() for each in found]))
    return errors, half, shares, bounded
