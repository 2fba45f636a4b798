"""Exact discrete Gaussian and discrete Laplace noise, vectorised, from the operating system's randomness.

Both laws give the integer m a weight exp(−γ(m)), with γ(m) = m²/2σ² for the Gaussian of scale σ [1]_ and γ(m) = |m|/t
for the Laplace of scale t. One rejection sampler draws from both. A trial

1. picks a bin k of w = ⌈scale/8⌉ consecutive magnitudes, with probability n_k/2¹⁶, by a table of 2¹⁶ places;
2. picks a magnitude m in it, evenly (Lemire's exact method [2]_), and a sign;
3. keeps ±m with probability (a/n_k) exp(−γ(m)); minus zero is rejected, as plus zero stands for it.

So P(m) ∝ (n_k/w)·(a/n_k) exp(−γ(m)) ∝ exp(−γ(m)). The table has n_k ≥ a exp(−γ) at the bin's lower end, so that the
chance of step 3 is a probability; as w ≥ scale/8, one table serves every scale. Beyond the last bin a tail takes over:
blocks of `scale` magnitudes, block v with probability 2^−(v+1).

The coin of step 3 compares a uniform number with a real one, lazily [3]_: 47 random bits decide where float64, with a
margin far above its error, leaves no doubt; where it does (once in 2³⁴ trials), further bits and exact rationals
decide. Everything else is integer arithmetic. So the law is exactly the stated one. Nothing is kept between calls or
shared across a fork.

References
----------
.. [1] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020.
.. [2] D. Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 29 (2019).
.. [3] C. Karney, "Sampling exactly from the normal distribution", ACM TOMS 42 (2016).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt
from mpmath import libmp

SCALE_MIN = 2**10
"""Least scale of a release: the accounting's σ > 3, with room, and noise far finer than any entry."""

SCALE_MAX = 2**53
"""Largest scale: float64 holds every smaller integer exactly."""

SUM_MAX = 2**63 - 64 * SCALE_MAX
"""Largest exact sum to which noise is added: with 60 scales of noise, and a float's error, it still fits int64."""

BINS_PER_SCALE = 8
_TABLE_BITS = 16
_COIN_BITS = 64 - _TABLE_BITS - 1
_CHUNK = 2**14
_Words = npt.NDArray[np.uint64]
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]


class Distribution(StrEnum):
    """The laws of noise; the member's value is its name in answers and in the ledger."""

    DISCRETE_GAUSSIAN = "discrete_gaussian"
    DISCRETE_LAPLACE = "discrete_laplace"


class NoiseSource(Protocol):
    """Source of noise: injected, so that tests can take its place; never configurable."""

    def sample(self, distribution: Distribution, scales: npt.ArrayLike) -> npt.ArrayLike:
        """Draw one integer for each scale, independently."""
        ...


class SystemNoise:
    """Noise from the operating system's randomness; nothing to seed."""

    def sample(self, distribution: Distribution, scales: npt.ArrayLike) -> _Ints:
        """Draw one integer for each scale, independently.

        Parameters
        ----------
        scales : array of int, shape (k,)
            σ of the discrete Gaussian, t of the discrete Laplace; from 1 to `SCALE_MAX`.

        Returns
        -------
        ndarray of int64, shape (k,)

        Raises
        ------
        ValueError
            If a scale is out of range.
        TypeError
            If it is not an integer.
        """
        entries = np.asarray(scales)
        if not entries.size:
            return np.empty(0, dtype=np.int64)
        if entries.dtype.kind not in "iu":
            raise TypeError("a scale must be an integer from 1 to 2**53")
        if not 1 <= entries.min() <= entries.max() <= SCALE_MAX:
            raise ValueError("a scale must be an integer from 1 to 2**53")
        entries = entries.astype(np.int64, copy=False)
        if len(entries) <= _CHUNK:
            return _sample(distribution, entries)
        parts = range(0, len(entries), _CHUNK)
        return np.concatenate([_sample(distribution, entries[start : start + _CHUNK]) for start in parts])


def _random_words(count: int) -> _Words:
    return np.frombuffer(os.urandom(count * 8), dtype=np.uint64)


def _sample(distribution: Distribution, scales: _Ints) -> _Ints:
    # A trial succeeds in 19 of 20 cases; two at once spare a small release most second rounds.
    tries = 2 if len(scales) < 1000 else 1
    draws, found = _try(distribution, scales, tries)
    pending = np.flatnonzero(~found)
    while pending.size:
        value, found = _try(distribution, scales[pending], tries)
        draws[pending[found]] = value[found]
        pending = pending[~found]
    return draws


def _try(distribution: Distribution, scales: _Ints, tries: int) -> tuple[_Ints, _Bools]:
    """Make one or two trials for each entry; return the first that is kept, and whether one is."""
    if tries == 1:
        return propose(distribution, scales, _random_words(2 * len(scales)).reshape(2, -1))
    value, kept = propose(distribution, np.repeat(scales, 2), _random_words(4 * len(scales)).reshape(2, -1))
    return np.where(kept[::2], value[::2], value[1::2]), kept[::2] | kept[1::2]


def propose(distribution: Distribution, scale: _Ints, words: _Words, *, exactly: bool = False) -> tuple[_Ints, _Bools]:
    """Make one trial per entry.

    Parameters
    ----------
    scale : ndarray of int64, shape (n,)
    words : ndarray of uint64, shape (2, n)
        Random bits: of the bin, the sign and the coin; of the place within the bin.
    exactly : bool
        Decide every coin by exact rationals, as the rare doubtful ones are; for tests.

    Returns
    -------
    ndarray of int64, shape (n,)
        Signed candidates.
    ndarray of bool, shape (n,)
        Which of them are kept.
    """
    law = _LAWS[distribution]
    which = law.bins[words[0] & np.uint64(2**_TABLE_BITS - 1)]
    negative = words[0] & np.uint64(2**_TABLE_BITS) != 0
    coin_word = words[0] >> np.uint64(_TABLE_BITS + 1)
    width = scale + (BINS_PER_SCALE - 1) >> 3
    place, even = _multiply(width.astype(np.uint64), words[1])
    value = which * width + place
    chance = law.ratios[which] * np.exp(-law.decay(value / scale))
    coin = coin_word * 2.0**-_COIN_BITS
    # γ < 1000 is off by less than 2⁻⁴⁰, so its exponential by less than that in proportion; the margin is 2⁻³⁶. Where
    # the exponential underflows, a coin that is not 0 is far above it.
    surely = coin + 2.0**-_COIN_BITS <= chance * (1 - 2.0**-36)
    surely_not = (coin >= chance * (1 + 2.0**-36)) & (coin_word != 0)
    tail = which == law.bin_count
    # A word that stands for no place rejects a trial of the tail too: each bin, and it, must lose the same share.
    doubtful = even & (exactly | tail | ~(surely | surely_not))
    kept = even & surely & ~tail
    for i in np.flatnonzero(doubtful):
        uniform = LazyUniform(int(coin_word[i]), _COIN_BITS)
        if tail[i]:
            value[i], kept[i] = _try_tail(law, int(scale[i]), uniform)
        else:
            ratio = Fraction(law.envelope, law.counts[which[i]])
            kept[i] = uniform.is_below(ratio, law.exact_decay(int(value[i]), int(scale[i])))
    return np.where(negative, -value, value), kept & ~((value == 0) & negative)


def _multiply(width: _Words, word: _Words) -> tuple[_Ints, _Bools]:
    """Return ⌊width · word / 2⁶⁴⌋ and whether it is even-handed: which words to reject is Lemire's rule."""
    half = np.uint64(32)
    low_mask = np.uint64(2**32 - 1)
    a, b = width >> half, width & low_mask
    c, d = word >> half, word & low_mask
    cross_left, cross_right = a * d, b * c
    carry = (b * d >> half) + (cross_left & low_mask) + (cross_right & low_mask)
    high = a * c + (cross_left >> half) + (cross_right >> half) + (carry >> half)
    low = width * word  # modulo 2⁶⁴
    even = low >= width
    few = np.flatnonzero(~even)  # a division for each would cost more than all the rest
    if few.size:
        even[few] = low[few] >= (np.uint64(0) - width[few]) % width[few]
    return high.astype(np.int64), even


def _try_tail(law: "_Law", scale: int, uniform: "LazyUniform") -> tuple[int, bool]:
    """Make a trial beyond the last bin: block v of `scale` magnitudes, then one of them, then the coin."""
    block = 0
    while _random_words(1)[0] & np.uint64(1):
        block += 1
    width = -(-scale // BINS_PER_SCALE)
    value = law.bin_count * width + block * scale + _random_below(scale)
    ratio = Fraction(law.envelope * scale * 2 ** (block + 1), law.counts[-1] * width)
    return value, uniform.is_below(ratio, law.exact_decay(value, scale))


def _random_below(bound: int) -> int:
    while True:
        product = int(_random_words(1)[0]) * bound
        if product % 2**64 >= 2**64 % bound:
            return product >> 64


class LazyUniform:
    """A uniform number in [0, 1) of which as many bits exist as comparisons needed.

    Parameters
    ----------
    value : int
        Its first bits.
    bits : int
        How many they are.
    more : callable
        Gives 64 further random bits.
    """

    def __init__(self, value: int, bits: int, more: Callable[[], int] = lambda: int(_random_words(1)[0])) -> None:
        self._value = value
        self._bits = bits
        self._more = more

    def is_below(self, ratio: Fraction, gamma: Fraction) -> bool:
        """Tell whether the number is below ratio · exp(−gamma), for gamma ≥ 0."""
        while True:
            floor = _floor_exp(ratio, gamma, self._bits)
            # ⌊ratio · exp(−γ) 2ᵇ⌋ is within 1 of `floor`; two numbers that agree so far are told apart by further bits.
            if self._value < floor - 1:
                return True
            if self._value > floor + 1:
                return False
            self._value = self._value << 64 | self._more()
            self._bits += 64


def _floor_exp(ratio: Fraction, gamma: Fraction, bits: int) -> int:
    """Return ⌊ratio · exp(−gamma) · 2^bits⌋ to within 1, by a computation with 64 guard bits."""
    precision = bits + 64 + gamma.__ceil__().bit_length() + ratio.__ceil__().bit_length()
    exponential = libmp.mpf_exp(libmp.from_rational(-gamma.numerator, gamma.denominator, precision), precision)
    factor = libmp.from_rational(ratio.numerator, ratio.denominator, precision)
    floor: int = libmp.to_int(libmp.mpf_shift(libmp.mpf_mul(exponential, factor, precision), bits))
    return floor


@dataclass(frozen=True, slots=True)
class _Law:
    """A law and its table.

    Attributes
    ----------
    decay, exact_decay : callable
        γ in float of m/scale; γ as a rational of m and scale.
    envelope : int
        a: the chance of keeping m in bin k is (a/n_k) exp(−γ(m)).
    counts : tuple of int
        n_k for each bin, the tail's last; they add up to 2¹⁶.
    bins : ndarray of int64, shape (2¹⁶,)
        The bin at each place of the table.
    ratios : ndarray of float64
        a/n_k; of no meaning for the tail.
    """

    decay: Callable[[_Floats], _Floats]
    exact_decay: Callable[[int, int], Fraction]
    envelope: int
    counts: tuple[int, ...]
    bins: _Ints
    ratios: _Floats

    @property
    def bin_count(self) -> int:
        """Number of bins, which is also the tail's place in `counts`."""
        return len(self.counts) - 1


def _make_law(decay: Callable[[_Floats], _Floats], exact_decay: Callable[[int, int], Fraction], bin_count: int) -> _Law:
    """Make the table: the largest envelope a whose counts n_k ≥ a exp(−γ(k/8)) fit into 2¹⁶ places.

    The tail's count must be at least 16 a exp(−γ(bin_count/8)): its first block has half of the tail's probability,
    over up to 8 times the magnitudes of a bin; as γ rises by more than ln 2 from block to block, later ones follow.
    """
    # Upper bounds on exp(−γ) at the lower end of each bin, and of the tail, in units of 2⁻⁶⁴.
    bounds = [_floor_exp(Fraction(1), exact_decay(k, BINS_PER_SCALE), 64) + 2 for k in range(bin_count + 1)]
    bounds[-1] *= 2 * BINS_PER_SCALE
    total = 2**_TABLE_BITS
    envelope = total * 2**64 // sum(bounds)
    while sum(counts := [-(-envelope * bound >> 64) for bound in bounds]) > total:
        envelope -= 1
    counts[-1] += total - sum(counts)
    bins = np.repeat(np.arange(bin_count + 1), counts)
    ratios = envelope / np.array(counts, dtype=np.float64)
    for table in (bins, ratios):
        table.setflags(write=False)
    return _Law(decay, exact_decay, envelope, tuple(counts), bins, ratios)


_LAWS = {
    Distribution.DISCRETE_GAUSSIAN: _make_law(
        lambda x: x * x / 2, lambda m, sigma: Fraction(m * m, 2 * sigma * sigma), 5 * BINS_PER_SCALE
    ),
    Distribution.DISCRETE_LAPLACE: _make_law(lambda x: x, Fraction, 12 * BINS_PER_SCALE),
}
