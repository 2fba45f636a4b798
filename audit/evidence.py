"""Statistics of the audit: likelihood ratios, exact binomial tests, confidence bounds, power."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv, ndtr, ndtri

LEVEL = 1e-6
"""A cell fails when its guarantee is rejected at this level: an honest cell fails once in a million runs, at most."""

CONFIDENCE = 0.999
"""Of the lower bounds in the table, each one-sided."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Law:
    """The stated noise of each entry of an answer.

    Attributes
    ----------
    distribution : str
        ``discrete_gaussian`` or ``discrete_laplace``. At the scales of a release, 2¹⁰ and up, the discrete law and the
        continuous one differ by less than a millionth in every likelihood ratio.
    sd : ndarray of float64, shape (k,)
        Standard deviations in scaled units.
    """

    distribution: str
    sd: Floats

    @property
    def is_gaussian(self) -> bool:
        """True if the noise is Gaussian; else it is Laplace."""
        return self.distribution == "discrete_gaussian"

    def separation(self, zero: Floats, one: Floats) -> float:
        """Return how far apart the law puts two exact answers: µ for Gaussian noise, ε for Laplace noise."""
        moves = np.abs(one - zero) / self.sd
        return float(np.sqrt(np.sum(moves**2)) if self.is_gaussian else math.sqrt(2) * np.sum(moves))

    def log_likelihood_ratio(self, answers: Floats, zero: Floats, one: Floats) -> Floats:
        """Return log p(answer | one) − log p(answer | zero) of each answer, shape (n, k) to (n,)."""
        to_zero, to_one = (answers - zero) / self.sd, (answers - one) / self.sd
        if self.is_gaussian:
            ratios: Floats = np.sum(to_zero**2 - to_one**2, axis=-1) / 2
            return ratios
        ratios = math.sqrt(2) * np.sum(np.abs(to_zero) - np.abs(to_one), axis=-1)
        return ratios

    def sample(self, count: int, generator: np.random.Generator) -> Floats:
        """Draw noise to reckon with, shape (count, k); the audited noise is never drawn here."""
        if self.is_gaussian:
            return generator.normal(0, self.sd, (count, len(self.sd)))
        return generator.laplace(0, self.sd / math.sqrt(2), (count, len(self.sd)))


def success_bound_of_mu(mu: float) -> float:
    """Return Φ(µ/2): how often a guess of a fair coin can be right after a µ-GDP answer."""
    return float(ndtr(mu / 2))


def success_bound_of_epsilon(epsilon: float) -> float:
    """Return e^ε/(1 + e^ε): the same after an ε-DP answer, given any event of the answer."""
    return 1 / (1 + math.exp(-epsilon))


def mu_of_success(probability: float) -> float:
    """Return the least µ at which a guess can be right so often; 0 for half or less.

    Examples
    --------
    >>> round(mu_of_success(success_bound_of_mu(1.0)), 12), mu_of_success(0.4)
    (1.0, 0.0)
    """
    return max(0.0, 2 * float(ndtri(probability)))


def epsilon_of_success(probability: float) -> float:
    """Return the least ε at which a guess can be right so often; 0 for half or less."""
    return max(0.0, math.log(probability / (1 - probability))) if 0 < probability < 1 else probability and math.inf


def binomial_p_value(successes: int, trials: int, bound: float) -> float:
    """Return P(X ≥ successes) for X ~ Bin(trials, bound): exact, as a value of the incomplete beta function.

    Examples
    --------
    >>> binomial_p_value(2, 2, 0.5), binomial_p_value(0, 2, 0.5)
    (0.25, 1.0)
    """
    return 1.0 if successes <= 0 else float(betainc(successes, trials - successes + 1, bound))


def lower_bound(successes: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the one-sided lower confidence bound of Clopper and Pearson on a probability."""
    return 0.0 if successes <= 0 else float(betaincinv(successes, trials - successes + 1, 1 - confidence))


def critical_count(trials: int, bound: float, level: float = LEVEL) -> int:
    """Return the fewest successes that reject the bound at the level; trials + 1 where none do."""
    low, high = 0, trials + 1
    while low < high:
        middle = (low + high) // 2
        if binomial_p_value(middle, trials, bound) <= level:
            high = middle
        else:
            low = middle + 1
    return low


def power(trials: int, probability: float, bound: float, level: float = LEVEL) -> float:
    """Return the chance that the bound is rejected when guesses are right with some probability."""
    needed = critical_count(trials, bound, level)
    return 0.0 if needed > trials else binomial_p_value(needed, trials, probability)
