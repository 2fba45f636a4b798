"""Exact discrete Gaussian noise, vectorised, from the operating system's randomness.

The algorithm is that of Canonne, Kamath and Steinke [1]_ with its two coins tossed as one. For a scale σ a trial
draws U uniform on {0, …, σ − 1} and V with P(V ≥ v) = e⁻ᵛ, sets m = U + σV, and keeps ±m with probability exp(−γ),

    γ = U/σ + (U/σ + V − 1)²/2 ,

so that P(m) ∝ e⁻ᵛ e^(−γ) ∝ e^(−m²/2σ²); minus zero is rejected, as plus zero stands for it.

Every coin compares a uniform number with a real one, lazily [2]_: 64 random bits decide where float64, with a margin
far above its error, leaves no doubt; where it does (once in 2³⁵ trials), further bits and exact rationals decide. So
the law is exactly the discrete Gaussian's, and no float decides alone. Nothing is kept between calls or shared across
a fork.

References
----------
.. [1] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, algorithm 3.
.. [2] C. Karney, "Sampling exactly from the normal distribution", ACM TOMS 42 (2016).
"""

import operator
import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt
from mpmath import libmp

SIGMA_MIN = 2**10
"""Least scale of a release: the accounting's σ > 3, with room, and noise far finer than any entry."""

SIGMA_MAX = 2**53
"""Largest scale: float64 holds every smaller integer exactly."""

_WORD_BITS = 64
_CHUNK = 2**16
_Words = npt.NDArray[np.uint64]
_Ints = npt.NDArray[np.int64]


class NoiseSource(Protocol):
    """Where noise comes from: injected, so that tests can take its place; never configurable."""

    def sample_discrete_gaussian(self, sigmas: Sequence[int]) -> list[int]:
        """Draw one integer from each discrete Gaussian N_Z(0, sigma²), independently."""
        ...


class SystemNoise:
    """Noise from the operating system's randomness; nothing to seed."""

    def sample_discrete_gaussian(self, sigmas: Sequence[int]) -> list[int]:
        """Draw one integer from each discrete Gaussian N_Z(0, sigma²), independently.

        Parameters
        ----------
        sigmas : sequence of int
            Scales, from 1 to `SIGMA_MAX`.

        Returns
        -------
        list of int

        Raises
        ------
        ValueError
            If a scale is out of range.
        TypeError
            If it is not an integer.
        """
        if not all(1 <= operator.index(sigma) <= SIGMA_MAX for sigma in sigmas):
            raise ValueError("sigma must be an integer from 1 to 2**53")
        scales = np.array(sigmas, dtype=np.int64)
        draws: list[int] = []
        for start in range(0, len(scales), _CHUNK):
            draws += _sample(scales[start : start + _CHUNK]).tolist()
        return draws


def _random_words(count: int) -> _Words:
    return np.frombuffer(os.urandom(count * _WORD_BITS // 8), dtype=np.uint64)


def _sample(scales: _Ints) -> _Ints:
    draws = np.zeros(len(scales), dtype=np.int64)
    pending = np.arange(len(scales))
    # A trial succeeds in 24 to 48 of 100 cases; many at once cost a small release hardly more than one.
    tries = 16 if len(scales) < 200 else 2
    while pending.size:
        sigma = np.repeat(scales[pending], tries)
        value, kept = propose(sigma, _random_words(3 * sigma.size).reshape(3, -1))
        kept = kept.reshape(-1, tries)
        found = kept.any(axis=1)
        first = kept.argmax(axis=1)
        draws[pending[found]] = value.reshape(-1, tries)[found, first[found]]
        pending = pending[~found]
    return draws


def propose(sigma: _Ints, words: _Words, *, exactly: bool = False) -> tuple[_Ints, npt.NDArray[np.bool_]]:
    """Make one trial per entry.

    Parameters
    ----------
    sigma : ndarray of int64, shape (n,)
    words : ndarray of uint64, shape (3, n)
        Random bits: of U and the sign, of V, of the coin.
    exactly : bool
        Decide every coin by exact rationals, as the rare doubtful ones are; for tests.

    Returns
    -------
    ndarray of int64, shape (n,)
        Signed candidates.
    ndarray of bool, shape (n,)
        Which of them are kept.
    """
    scale = sigma.astype(np.float64)
    mask = (np.uint64(1) << np.frexp(scale)[1].astype(np.uint64)) - np.uint64(1)
    offset = (words[0] & mask).astype(np.int64)
    negative = words[0] >> np.uint64(63) == 1  # a bit that no mask of 53 or 54 bits reaches
    right = np.searchsorted(_EXP_WORDS, words[1], side="right")
    steps = len(_EXP_WORDS) - right  # how many thresholds ⌊e⁻ᵛ 2⁶⁴⌋ lie above the word
    value = offset + sigma * steps
    ratio = offset / scale
    chance = np.exp(-(ratio + (ratio + steps - 1) ** 2 / 2))
    coin = words[2].astype(np.float64) * 2.0**-_WORD_BITS
    # γ ≤ 1000 is off by less than 2⁻⁴⁰, so its exponential by less than that in proportion; the margin is 2⁻³⁶. A word
    # stands for an interval of length 2⁻⁶⁴, and rounds to float64 within 2⁻⁵³ in proportion.
    surely = coin + 2.0**-63 <= chance * (1 - 2.0**-36)
    surely_not = coin - 2.0**-63 >= chance * (1 + 2.0**-36)
    in_range = offset < sigma
    # A word equal to a threshold, or 0, which is below all of them, leaves V open.
    open_steps = (np.searchsorted(_EXP_WORDS, words[1], side="left") != right) | (words[1] == 0)
    doubtful = in_range & (exactly | open_steps | ~(surely | surely_not))
    for i in np.flatnonzero(doubtful):
        value[i], surely[i] = _decide_exactly(int(sigma[i]), int(offset[i]), int(words[1, i]), int(words[2, i]))
    kept = in_range & surely & ~((value == 0) & negative)
    return np.where(negative, -value, value), kept


def _decide_exactly(sigma: int, offset: int, word_of_steps: int, word_of_coin: int) -> tuple[int, bool]:
    steps, geometric = 0, LazyUniform(word_of_steps)
    while geometric.is_below_exp(Fraction(steps + 1)):
        steps += 1
    ratio = Fraction(offset, sigma)
    gamma = ratio + (ratio + steps - 1) ** 2 / 2
    return offset + sigma * steps, LazyUniform(word_of_coin).is_below_exp(gamma)


class LazyUniform:
    """A uniform number in [0, 1) of which as many bits exist as comparisons needed.

    Parameters
    ----------
    word : int
        Its first 64 bits.
    more : callable
        Gives 64 further random bits.
    """

    def __init__(self, word: int, more: Callable[[], int] = lambda: int(_random_words(1)[0])) -> None:
        self._value = word
        self._bits = _WORD_BITS
        self._more = more

    def is_below_exp(self, gamma: Fraction) -> bool:
        """Tell whether the number is below exp(−gamma), for gamma ≥ 0."""
        if gamma == 0:
            return True
        while True:
            floor = _floor_exp(gamma, self._bits)
            # ⌊exp(−γ) 2ᵇ⌋ is within 1 of `floor`; exp of a rational other than 0 is never a fraction with a power of 2.
            if self._value < floor - 1:
                return True
            if self._value > floor + 1:
                return False
            self._value = self._value << _WORD_BITS | self._more()
            self._bits += _WORD_BITS


def _floor_exp(gamma: Fraction, bits: int) -> int:
    """Return ⌊exp(−gamma) 2^bits⌋ to within 1, by a computation with 64 guard bits."""
    precision = bits + 64 + gamma.__ceil__().bit_length()
    exponent = libmp.from_rational(-gamma.numerator, gamma.denominator, precision)
    scaled = libmp.mpf_shift(libmp.mpf_exp(exponent, precision), bits)
    floor: int = libmp.to_int(scaled)
    return floor


def _exp_words() -> _Words:
    """Return ⌊e⁻ᵛ 2⁶⁴⌋ for v = 44, …, 1, ascending: the last below 2 is the last that a word can lie under."""
    words = np.array([_floor_exp(Fraction(v), _WORD_BITS) for v in range(44, 0, -1)], dtype=np.uint64)
    words.setflags(write=False)
    return words


_EXP_WORDS = _exp_words()
