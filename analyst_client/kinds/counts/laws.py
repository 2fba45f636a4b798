"""Laws of the noise of counts: sums of independent draws, Gaussian or Laplace.

A curator's draws lie on a grid so fine that in float64 its discrete laws are the continuous ones.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

SCALE_OF_SD = math.sqrt(0.5)
"""The scale b of Laplace noise of standard deviation 1."""


def laplace_tail(x: float, draws: int) -> float:
    r"""Return the probability that a sum of n Laplace draws of scale 1 exceeds x ≥ 0, exactly.

    Notes
    -----
    The sum is G − H, with G and H independent and Gamma(n). G exceeds x + H when, of the arrivals of two Poisson
    processes of rate 1, j < n of the first come within x, and then n of the second before n − j of the first:

    .. math:: \Pr[S > x] = \sum_{j<n} e^{-x}\frac{x^j}{j!}\Pr[\mathrm{Bin}(2n-1-j, \tfrac12) \ge n].

    Terms beyond :math:`x + 12\sqrt x + 60` are smaller than float64 notices.

    Examples
    --------
    >>> laplace_tail(2.0, 1) == math.exp(-2.0) / 2.0, round(laplace_tail(0.0, 7), 12)
    (True, 0.5)
    """
    from scipy import special  # noqa: PLC0415 -- the import of the client stays quick

    j = np.arange(min(draws, int(x + 12.0 * math.sqrt(x)) + 60))
    arrived = np.exp(special.xlogy(j, x) - x - special.gammaln(j + 1))
    return float(arrived @ special.betainc(draws, draws - j, 0.5))


def noise_tail(x: float, draws: int, *, laplace: bool) -> float:
    """Return the probability that a sum of n draws of standard deviation 1 exceeds x ≥ 0."""
    if laplace:
        return laplace_tail(x / SCALE_OF_SD, draws)
    return 0.5 * math.erfc(x / math.sqrt(2.0 * draws))


@lru_cache(maxsize=4096)
def noise_quantile(tail: float, draws: int, *, laplace: bool) -> float:
    """Return what a sum of n draws of standard deviation 1 exceeds with a probability below one half.

    Examples
    --------
    >>> round(noise_quantile(0.025, 1, laplace=False), 3), round(noise_quantile(0.025, 1, laplace=True), 3)
    (1.96, 2.118)
    """
    if not 0.0 < tail < 0.5:
        raise ValueError("a level is above 0 and below 1")
    return find_root(lambda x: noise_tail(x, draws, laplace=laplace) - tail, math.sqrt(draws))


def noise_quantiles(tail: float, draws: NDArray[np.int64], *, laplace: bool) -> NDArray[np.float64]:
    """Return `noise_quantile` for an array of numbers of draws."""
    unique, places = np.unique(draws, return_inverse=True)
    found = np.array([noise_quantile(tail, int(n), laplace=laplace) for n in unique])
    return found[places].reshape(draws.shape)


def contrast_quantile(tail: float, parts: Sequence[tuple[float, int]], *, laplace: bool) -> float:
    r"""Return a number that a weighted sum of draws exceeds with at most this probability.

    Weights are not negative; draws have standard deviation 1, and all are independent.

    Notes
    -----
    Exact for Gaussian noise, and for equal weights. For Laplace noise the smaller of two bounds. A Laplace draw is a
    normal one of random variance, so a larger weight makes the tail of a sum heavier: all weights may be raised to the
    largest. And a sum exceeds :math:`\sum w_k q_k` only where a part exceeds its :math:`q_k`.
    """
    parts = [(weight, draws) for weight, draws in parts if weight > 0.0 and draws]
    if not parts:
        return 0.0
    if not laplace:
        return noise_quantile(tail, 1, laplace=False) * math.sqrt(sum(weight**2 * draws for weight, draws in parts))
    raised = max(weight for weight, _ in parts) * noise_quantile(tail, sum(draws for _, draws in parts), laplace=True)
    union = sum(weight * noise_quantile(tail / len(parts), draws, laplace=True) for weight, draws in parts)
    return min(raised, union)


def combined_quantile(tail: float, *, laplace: bool) -> float:
    """Return a number that any weighted sum of independent draws, of standard deviation 1 in all, seldom exceeds.

    It does so with the probability `tail` at most, below one half.

    Notes
    -----
    Exact for Gaussian noise. A sum of Laplace draws lies between one draw and, for many of like weights, a normal
    variable: this is the larger of both quantiles. That none between exceeds it is not proved; it was looked for by
    inverting characteristic functions, at weights of all sorts and with a normal part beside them.

    Examples
    --------
    >>> round(combined_quantile(0.025, laplace=False), 3), round(combined_quantile(0.025, laplace=True), 3)
    (1.96, 2.118)
    """
    normal = noise_quantile(tail, 1, laplace=False)
    return max(normal, noise_quantile(tail, 1, laplace=True)) if laplace else normal


def largest_error(level: float, tables: Iterable[tuple[int, float]], *, laplace: bool) -> float:
    r"""Return α such that with probability `level` the noise of every cell is within α, exactly.

    Tables are (cells, sd), with one independent draw in each cell.

    Notes
    -----
    With β for 1 less the level: the draws are independent, so
    :math:`\prod_t (1 - 2\bar F_t(\alpha))^{k_t} = 1-\beta`. For one table of k cells with Laplace noise of scale b that
    is :math:`\alpha = b\ln\frac{1}{1-(1-\beta)^{1/k}}`, below the union bound :math:`b\ln(k/\beta)`.

    Examples
    --------
    >>> round(largest_error(0.95, [(1, 1.0)], laplace=False), 3)
    1.96
    """
    sizes = list(tables)
    if not sizes or max(sd for _, sd in sizes) == 0.0:
        return 0.0

    def excess(x: float) -> float:
        tails = [(k, noise_tail(x / sd, 1, laplace=laplace)) for k, sd in sizes if sd > 0.0]
        within = sum(k * (math.log1p(-2.0 * tail) if tail < 0.5 else -math.inf) for k, tail in tails)
        return max(math.log(level) - within, -1.0) if math.isfinite(within) else 1.0

    return find_root(excess, max(sd for _, sd in sizes))


def largest_error_bound(level: float, tables: Iterable[tuple[int, float]], *, laplace: bool) -> float:
    r"""Return the simple bound of `largest_error`, by the union of all k cells at the largest noise.

    Notes
    -----
    With β for 1 less the level. Laplace: :math:`\alpha = b\ln(k/\beta)`, the utility of the Laplace mechanism (Dwork
    and Roth, "The Algorithmic Foundations of Differential Privacy", 2014, theorem 3.8). Gaussian:
    :math:`\alpha = \sigma\sqrt{2\ln(2k/\beta)}`, from :math:`\Pr[|Z|>t]\le 2e^{-t^2/2}`.

    Examples
    --------
    >>> round(largest_error_bound(0.95, [(10, math.sqrt(2.0))], laplace=True), 3)  # ln 200
    5.298
    """
    sizes = list(tables)
    cells, sd = sum(k for k, _ in sizes), max((sd for _, sd in sizes), default=0.0)
    if laplace:
        return sd * SCALE_OF_SD * math.log(cells / (1.0 - level))
    return sd * math.sqrt(2.0 * math.log(2.0 * cells / (1.0 - level)))


def query_error(level: float, weights: ArrayLike, sd: float, *, laplace: bool) -> float:
    r"""Return α such that with probability `level` a linear query over a table's cells is within α of the exact one.

    Notes
    -----
    With β for 1 less the level: the query :math:`q^\top y` has the noise :math:`\sum q_iZ_i`. Gaussian:
    :math:`\alpha = z\sigma|q|_2`. Laplace:
    exact where all weights that are not 0 have one size, as for a count of some cells; otherwise Chernoff's bound,
    :math:`\alpha = \min_t [\ln(2/\beta) - \sum\ln(1-b^2q_i^2t^2)]/t` with :math:`0 < t < 1/(b\max|q_i|)`. Either way it
    is :math:`O(\sqrt{|\mathcal X|}\,b\log(1/\beta))`, not :math:`|\mathcal X|`.
    """
    q = np.abs(np.asarray(weights, dtype=np.float64).ravel())
    q = q[q > 0.0]
    if not np.isfinite(q).all():
        raise ValueError("weights must be finite")
    if not len(q) or sd == 0.0:
        return 0.0
    if not laplace:
        return noise_quantile((1.0 - level) / 2.0, 1, laplace=False) * sd * float(np.linalg.norm(q))
    if np.all(q == q[0]):
        return noise_quantile((1.0 - level) / 2.0, len(q), laplace=True) * sd * float(q[0])
    scaled = sd * SCALE_OF_SD * q
    t = np.linspace(0.0, 1.0, 2001)[1:-1] / np.max(scaled)
    exponents = math.log(2.0 / (1.0 - level)) - np.array([np.sum(np.log1p(-((scaled * at) ** 2))) for at in t])
    return float(np.min(exponents / t))  # every t gives a bound


def find_root(decreasing: Callable[[float], float], step: float) -> float:
    """Return where a decreasing function of positive numbers is 0."""
    from scipy import optimize  # noqa: PLC0415 -- the import of the client stays quick

    high = step
    while decreasing(high) > 0.0:
        high *= 2.0
    return float(optimize.brentq(decreasing, 0.0, high, xtol=1e-12 * step, rtol=1e-13))
