"""Intervals of ratios and of smooth parameters that hold the noise at the hypothesised value, not at the estimate."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from analyst_client.analyses.moments import Moments
from analyst_client.arrays import FloatArray
from analyst_client.inference.equations import SCALE_POINTS
from analyst_client.inference.quadratic import Quadratic, solve_quadratic
from analyst_client.inference.quantiles import student_quantile, variance_points
from analyst_client.inference.score import ConfidenceSet, critical_value

NOISE_POINTS = 401
"""Equally likely values that stand for the privacy noise where it is convolved with a sampling law."""
SMOOTH_RATIO = 3.0
"""Up to it 40 nodes give the tails of a normal law that noise is added to within 1e-5."""


class Ratio(NamedTuple):
    """A ratio of two forms.

    Attributes
    ----------
    value : float
        NaN where the denominator is not positive.
    std_error : float
        By the delta method.
    interval : ConfidenceSet
        Fieller's.
    """

    value: float
    std_error: float
    interval: ConfidenceSet


def noise_of_ratio(moments: Moments, above: FloatArray, below: FloatArray) -> Quadratic:
    r"""Return the variance of the noise in :math:`a - \theta b` of two forms."""
    return Quadratic(
        moments.covariance(above, above), -2.0 * moments.covariance(above, below), moments.covariance(below, below)
    )


def count_interval(moments: Moments, form: FloatArray, level: float) -> tuple[float, float, float, float]:
    """Return a count, the deviation of its noise, and its interval: of the rows there are, so of noise alone."""
    value, variance = moments.value(form), moments.covariance(form, form)
    kurtosis = np.array([moments.kurtosis(form, variance)])
    half = math.sqrt(float(critical_value(level, 1e12, kurtosis)[0]) * variance)
    return value, math.sqrt(variance), max(value - half, 0.0), max(value + half, 0.0)


def proportion(moments: Moments, above: FloatArray, below: FloatArray, level: float) -> Ratio:
    r"""Return a share p of rows, with an interval that inverts its score test.

    Notes
    -----
    With S rows of N, :math:`S - pN` has the binomial variance :math:`p(1-p)N` and the variance of its noise, both at
    the hypothesised p. Without noise that is the interval of Wilson [1]_.

    References
    ----------
    .. [1] E. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.
    """
    rows, noise = max(moments.value(below), 0.0), noise_of_ratio(moments, above, below)
    variance = Quadratic(noise.constant, noise.slope + rows, noise.square - rows)
    (found,) = invert_ratios(moments, [RatioProblem(above, below, variance, math.inf)], level)
    low, high = found.interval.cut(0.0, 1.0)
    return found._replace(interval=ConfidenceSet("interval", min(low, 1.0), max(high, 0.0)))


class RatioProblem(NamedTuple):
    r"""Two forms a and b whose ratio θ is asked for.

    Attributes
    ----------
    above, below : ndarray of shape (P, P)
    variance : Quadratic
        Of :math:`a - \theta b`, sampling and noise, at θ.
    dof : float
        Degrees of freedom of the sampling variance; infinite where it is known given θ.
    points : ndarray of shape (n,) or None
        Equally likely values of the variance at the estimate. None: it is known.
    """

    above: FloatArray
    below: FloatArray
    variance: Quadratic
    dof: float
    points: FloatArray | None = None


def invert_ratios(moments: Moments, problems: Sequence[RatioProblem], level: float) -> list[Ratio]:
    r"""Return ratios, each with the values that :math:`(a - \theta b)^2 \le k\,\mathrm{Var}(\theta)` keeps.

    Critical values are found for all together, which takes about as long as for one.

    Notes
    -----
    Fieller's theorem [1]_: nothing is linearised, so coverage does not depend on how large the noise in b is.

    References
    ----------
    .. [1] E. Fieller, "Some problems in interval estimation", JRSS B 16, 1954.
    """
    alike = defaultdict[tuple[float, int], list[tuple[int, float, FloatArray | None]]](list)
    values, criticals = list[tuple[float, float, float]](), np.zeros(len(problems))
    for i, (above, below, variance, dof, points) in enumerate(problems):
        a, b = moments.value(above), moments.value(below)
        theta = a / b if b > 0.0 else 0.0
        at = max(variance.at(theta), 0.0)
        values.append((a, b, at))
        spread = None if points is None or at == 0.0 else points / at
        kind = min(dof, 1e12), 0 if spread is None else len(spread)
        alike[kind].append((i, moments.kurtosis(above - theta * below, at), spread))
    for (dof, count), members in alike.items():
        places, kurtosis, spreads = zip(*members, strict=True)
        assumed = np.array(spreads) if count else None
        criticals[list(places)] = critical_value(level, dof, np.array(kurtosis), assumed)
    return [
        Ratio(
            a / b if b > 0.0 else math.nan,
            math.sqrt(at) / b if b > 0.0 else math.inf,
            solve_quadratic(
                Quadratic(
                    a**2 - critical * variance.constant,
                    -2.0 * a * b - critical * variance.slope,
                    b**2 - critical * variance.square,
                )
            ),
        )
        for (a, b, at), critical, (_, _, variance, _, _) in zip(values, criticals.tolist(), problems, strict=True)
    ]


def likely_variances(estimate: float, noise_sd: float) -> FloatArray | None:
    """Return equally likely values of a variance that noise leaves uncertain; None where there is no noise in it."""
    return None if noise_sd == 0.0 else variance_points(estimate, noise_sd, SCALE_POINTS)


def noise_points(excess_kurtosis: float) -> FloatArray:
    """Return equally likely values of noise of variance 1, moved by the Cornish-Fisher term of its kurtosis."""
    return _move(_normal_points(), excess_kurtosis)


def noise_nodes(ratio: float, excess_kurtosis: float) -> tuple[FloatArray, FloatArray]:
    """Return values of noise of variance 1, and their weights, to average a distribution function over.

    Parameters
    ----------
    ratio : float
        Deviation of the noise over that of the law whose distribution function it is: where that is no steeper than
        the noise by much, a few nodes of Gauss and Hermite are exact.
    excess_kurtosis : float
        Of the noise: points are moved by its Cornish-Fisher term.

    Examples
    --------
    >>> [len(noise_nodes(ratio, 0.0)[0]) for ratio in (0.0, 1.0, 5.0)]
    [1, 40, 401]
    """
    if ratio == 0.0:
        return np.zeros(1), np.ones(1)
    if ratio <= SMOOTH_RATIO:
        nodes, weights = _hermite_nodes()
        return _move(nodes, excess_kurtosis), weights
    return noise_points(excess_kurtosis), np.full(NOISE_POINTS, 1.0 / NOISE_POINTS)


def _move(z: FloatArray, excess_kurtosis: float) -> FloatArray:
    moved: FloatArray = z + excess_kurtosis * (z**3 - 3.0 * z) / 24.0
    return moved


@cache
def _hermite_nodes() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    return nodes, weights / weights.sum()


@cache
def _normal_points() -> FloatArray:
    normal = NormalDist()
    return np.array([normal.inv_cdf((k + 0.5) / NOISE_POINTS) for k in range(NOISE_POINTS)])


def invert_tail(
    tail: Callable[[float], float], at: float, low: float, high: float, level: float, step: float = 0.0
) -> tuple[float, float]:
    """Return the values at which the observed statistic has lower tails (1 + level) / 2 and (1 − level) / 2.

    Parameters
    ----------
    tail : callable
        Probability of no more than was observed, at a hypothesised value: decreasing in it.
    at : float
        A value within.
    low, high : float
        Ends of what is possible.
    level : float
    step : float
        How far from `at` the values are sought first, where that is known.
    """
    from scipy import optimize, special  # noqa: PLC0415 -- see `inference.quantiles`

    @cache
    def score(value: float) -> float:  # nearly straight, as a tail is not, so that few steps find where it ends
        return float(special.ndtri(min(max(tail(value), 1e-300), 1.0 - 1e-16)))

    def search(end: float, wanted: float) -> float:
        sign = 1.0 if score(at) > wanted else -1.0
        near, far, width = at, at, step or 0.02 * abs(at) or abs(end - at)
        while far != end:  # the end is mostly near: go there in growing steps
            near, far = far, min(far + width, end) if end > at else max(far - width, end)
            width *= 4.0
            if sign * (score(far) - wanted) <= 0.0:
                return float(optimize.brentq(lambda value: score(value) - wanted, near, far, xtol=1e-13, rtol=1e-11))
        return end  # all that is possible is kept on this side

    quantile = -float(special.ndtri((1.0 - level) / 2.0))
    return search(low, quantile), search(high, -quantile)


def normal_quantile(level: float) -> float:
    """Return the two-sided normal quantile."""
    return student_quantile((1.0 - level) / 2.0, 1e12)
