"""Markov chains for a smooth log density of a few dimensions, and how far to trust them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from analyst_client.arrays import FloatArray

LogDensity = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

LEAPFROG_STEPS = 8
TARGET_ACCEPTANCE = 0.8


def sample_hmc(
    log_density: LogDensity, start: FloatArray, factor: FloatArray, draws: int, rng: np.random.Generator
) -> FloatArray:
    r"""Draw from a density by Hamiltonian Monte Carlo, all chains at once.

    Parameters
    ----------
    log_density : callable
        Takes positions of shape (chains, P); returns log densities of shape (chains,), -inf outside the support, and
        finite gradients of shape (chains, P).
    start : ndarray of shape (chains, P)
    factor : ndarray of shape (P, P)
        :math:`L` of a rough covariance :math:`LL^\top`.
    draws : int
        Per chain, after 450 draws of warm-up.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (chains, draws, P)

    Notes
    -----
    Positions are :math:`L` times standard ones [1]_. Each draw takes a random number of leapfrog steps of a random
    size around a mean one, which stochastic approximation drives to an acceptance of 0.8 during warm-up [2]_ (equation
    6). Twice during warm-up :math:`L` becomes that of the covariance over the draws of all chains so far; the last
    150 settle the step for the final one.

    References
    ----------
    .. [1] R. Neal, "MCMC using Hamiltonian dynamics", Handbook of Markov Chain Monte Carlo, 2011.
    .. [2] M. Hoffman, A. Gelman, "The No-U-Turn Sampler", JMLR 15, 2014.
    """
    chains, size = start.shape
    position, (value, gradient) = start, log_density(start)
    step, kept, seen = StepSize(0.3), np.empty((draws, chains, size)), list[FloatArray]()
    for phase, length in enumerate((150, 150, 150, draws)):
        for k in range(length):
            scale = (step.mean if phase == 3 else step.now) * rng.uniform(0.8, 1.2, (chains, 1))
            momentum = rng.normal(size=(chains, size))
            energy = value - 0.5 * np.sum(momentum**2, axis=1)
            moved, slope, moved_value = position, gradient, value
            with np.errstate(over="ignore", invalid="ignore"):  # a path that diverges is refused
                for _ in range(rng.integers(LEAPFROG_STEPS // 2, LEAPFROG_STEPS + 1)):
                    momentum = momentum + 0.5 * scale * (slope @ factor)
                    moved = moved + scale * (momentum @ factor.T)
                    moved_value, slope = log_density(moved)
                    momentum = momentum + 0.5 * scale * (slope @ factor)
                gain = moved_value - 0.5 * np.sum(momentum**2, axis=1) - energy
            chance = np.exp(np.minimum(np.nan_to_num(gain, nan=-np.inf), 0.0))
            accepted = rng.uniform(size=chains) < chance
            position = np.where(accepted[:, np.newaxis], moved, position)
            gradient = np.where(accepted[:, np.newaxis], slope, gradient)
            value = np.where(accepted, moved_value, value)
            if phase == 3:
                kept[k] = position
            else:
                step.update(float(np.mean(chance)))
                seen.append(position)
        if phase < 2:
            recent = np.concatenate(seen[len(seen) // 3 :])
            weight = len(recent) / (len(recent) + 5.0 * size)
            covariance = weight * np.cov(recent, rowvar=False) + (1.0 - weight) * factor @ factor.T
            factor, step = np.linalg.cholesky(covariance), StepSize(0.5)
    return kept.swapaxes(0, 1)


@dataclass
class StepSize:
    """Dual averaging of a step size (Hoffman and Gelman 2014, section 3.2).

    Attributes
    ----------
    now, mean : float
        The step to try next, and the average to keep.
    """

    now: float

    def __post_init__(self) -> None:
        """Start from the first step."""
        self.mean, self._anchor, self._error, self._count = self.now, math.log(4.0 * self.now), 0.0, 0

    def update(self, acceptance: float) -> None:
        """Learn from the mean acceptance of one draw."""
        self._count += 1
        self._error += (TARGET_ACCEPTANCE - acceptance - self._error) / (self._count + 10.0)
        self.now = math.exp(self._anchor - math.sqrt(self._count) / 0.05 * self._error)
        weight = self._count**-0.75
        self.mean = math.exp(weight * math.log(self.now) + (1.0 - weight) * math.log(self.mean))


def compute_rhat(draws: FloatArray) -> float:
    r"""Compare chains with one another: rank-normalised split :math:`\hat R`.

    Parameters
    ----------
    draws : ndarray of shape (chains, draws)

    Returns
    -------
    float
        The larger of those of location and of spread; 1 for chains that agree, trusted below 1.01.

    Notes
    -----
    Vehtari, Gelman, Simpson, Carpenter, Bürkner, "Rank-normalization, folding, and localization", Bayesian Analysis
    16, 2021, sections 3 and 4.
    """
    halves = split(draws)
    folded = np.abs(halves - np.median(halves))
    return max(split_rhat(normal_scores(halves)), split_rhat(normal_scores(folded)))


def compute_ess(draws: FloatArray) -> float:
    """Estimate the bulk effective sample size: of how many independent draws the mean would be as good.

    Parameters
    ----------
    draws : ndarray of shape (chains, draws)

    Notes
    -----
    Of rank-normalised split chains, with Geyer's initial monotone sequence of pairs of autocorrelations (Vehtari et al.
    2021, section 3.2 and equation 10).
    """
    scores = normal_scores(split(draws))
    chains, n = scores.shape
    centred = scores - scores.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1.0)
    total = covariance[0] + scores.mean(axis=1).var(ddof=1)
    correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    pairs = np.minimum.accumulate(pairs[: negative[0] if len(negative) else len(pairs)])
    time = max(2.0 * float(pairs.sum()) - 1.0, 1.0 / math.log10(chains * n))
    return float(chains * n / time)


def split(draws: FloatArray) -> FloatArray:
    """Return each chain as two, its halves; the middle one of an odd number of draws is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def normal_scores(draws: FloatArray) -> FloatArray:
    """Replace draws by normal quantiles of their ranks (Blom's offset 3/8)."""
    scores = np.empty(draws.size)
    scores[np.argsort(draws, axis=None, kind="stable")] = normal_quantiles(draws.size)
    return scores.reshape(draws.shape)


@lru_cache(maxsize=4)
def normal_quantiles(count: int) -> FloatArray:
    """Return the scores of the ranks 1 to `count`."""
    return np.array([NormalDist().inv_cdf((rank - 0.375) / (count + 0.25)) for rank in range(1, count + 1)])


def split_rhat(halves: FloatArray) -> float:
    """Return the root of the pooled variance over that within chains."""
    n = halves.shape[1]
    within, between = halves.var(axis=1, ddof=1).mean(), halves.mean(axis=1).var(ddof=1)
    return math.sqrt((n - 1.0) / n + float(between / within))
