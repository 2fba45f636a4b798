"""Noise for exact sums: one draw for each entry that leaves, added in integers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import Protocol

import numpy as np

from curator_service.privacy.lattice import UNIT, IntArray
from curator_service.privacy.parts import Part
from curator_service.privacy.samplers import Distribution, NoiseSource
from curator_service.privacy.sums import LIMB_BITS, carry, split

STEP_DENOMINATOR = UNIT**2
"""Contributions of a row are products of two lattice entries: one scaled unit is q² integers."""


class Packing(StrEnum):
    """Entries of an array that leave, row by row."""

    FULL = "full"
    UPPER = "upper"


@dataclass(frozen=True, slots=True)
class Output:
    """Output of one statistic.

    Attributes
    ----------
    statistic : str
    shape : tuple of int
    packing : Packing
        ``upper``: of a symmetric matrix each unordered pair once, its upper triangle by rows.
    """

    statistic: str
    shape: tuple[int, ...]
    packing: Packing = Packing.FULL

    @property
    def size(self) -> int:
        """Count of the numbers that leave."""
        if self.packing is Packing.UPPER:
            return self.shape[0] * (self.shape[0] + 1) // 2
        return math.prod(self.shape)


class NoisePlan(Protocol):
    """Plan of a release's noise: parts, and as many outputs in the same order."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each statistic with the scales of its noise."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Output of each."""


@dataclass(frozen=True, slots=True)
class ExactSums:
    """Exact sums; a type of its own, so that they cannot reach an answer.

    Attributes
    ----------
    values : ndarray of int64
        With a leading axis of two limbs where the row capacity is above `sums.INT64_CAPACITY_MAX`.
    """

    values: IntArray

    def __repr__(self) -> str:
        """Hide the numbers: a traceback or a log must not show them."""
        return f"{type(self).__name__}(<{self.values.size} entries>)"


@dataclass(frozen=True, slots=True)
class NoisyStatistics:
    """Noisy integers in lattice units, flat, per statistic: they may leave."""

    values: Mapping[str, list[int]]

    def scaled(self, statistic: str) -> list[float]:
        """Return noisy integers times the public step 1/q², each rounded once to float64."""
        return [value / STEP_DENOMINATOR for value in self.values[statistic]]


def draw_noise(plan: NoisePlan, noise: NoiseSource) -> IntArray:
    """Draw the noise of one release. It needs no data, so it can be drawn before anything is locked.

    Returns
    -------
    ndarray of int64
        One draw for each released entry, in the order of `perturb`. For one release only.
    """
    distribution = plan.parts[0].distribution  # one for all parts: a plan has one mechanism
    return np.array(noise.sample(distribution, _scales(plan)), dtype=np.int64)


def add_noise(sums: IntArray, draws: IntArray) -> list[int]:
    """Add noise to exact sums, at a cost that depends on how many they are and on nothing else about them.

    Every kind of release adds its noise here: Python's integers, and whatever else looks at one sum at a time, cost
    less for zeros, and a zero tells what nobody has paid for.

    Parameters
    ----------
    sums : ndarray of int64, shape (k,)
        At most `samplers.SUM_MAX` in size, by a public bound on what a row contributes and on how many there are.
    draws : ndarray of int64, shape (k,)
        Drawn before the sums were read.

    Returns
    -------
    list of int
        Noisy integers.

    Raises
    ------
    ValueError
        If there are more or fewer draws than sums.
    TypeError
        If either is not of int64.

    Notes
    -----
    A sum and 60 scales of noise stay below 2⁶³. A draw beyond that (chance below e⁻⁶⁰ at the largest scale) makes the
    noisy integer wrap round: what is returned is its residue modulo 2⁶⁴, a function of the noisy integer alone. So it
    is post-processing, whatever the draw, and no check of a draw is needed that the sums could decide.
    """
    if sums.dtype != np.int64 or draws.dtype != np.int64:
        raise TypeError("sums and draws are of int64")
    if sums.shape != draws.shape:
        raise ValueError("one draw for each entry")
    noisy: list[int] = (sums + draws).tolist()
    return noisy


def add_noise_to_limbs(limbs: IntArray, draws: IntArray) -> list[int]:
    """Add noise to exact sums that may not fit int64, as `add_noise` does: at one cost, whatever they are.

    Parameters
    ----------
    limbs : ndarray of int64, shape (2, k)
        Sums of `sums.split` of batches.
    draws : ndarray of int64, shape (k,)

    Returns
    -------
    list of int
        Noisy integers, exactly, whatever the draws: a high limb of sums is below 2⁴⁵ and one of draws at most 2³⁷.

    Raises
    ------
    ValueError
        If there are more or fewer draws than sums.
    TypeError
        If either is not of int64.

    Notes
    -----
    Sums and draws are added limb by limb and carried in int64, which is the same work for a 0 as for any other sum.
    What comes after, of Python's integers, sees noisy integers alone: carried limbs are a function of the number that
    they stand for.
    """
    if limbs.dtype != np.int64 or draws.dtype != np.int64:
        raise TypeError("sums and draws are of int64")
    if limbs.shape != (2, *draws.shape):
        raise ValueError("one draw for each entry")
    low, high = carry(limbs + split(draws)).tolist()
    return [(above << LIMB_BITS) + below for below, above in zip(low, high, strict=True)]


def perturb(exact: ExactSums, plan: NoisePlan, draws: IntArray) -> NoisyStatistics:
    """Add a draw to every entry that the plan releases.

    Parameters
    ----------
    exact : ExactSums
        Of every output of the plan, flat, in their order.
    draws : ndarray of int64
        From `draw_noise`.

    Returns
    -------
    NoisyStatistics
        Nothing here, and nothing after, looks at the value of a draw.

    Raises
    ------
    ValueError
        If there are more or fewer draws than entries.
    """
    of_limbs = exact.values.ndim == 2  # by the row capacity
    if exact.values.shape[of_limbs:] != (sum(output.size for output in plan.outputs),):
        raise ValueError("one exact sum for each entry")
    noisy = iter((add_noise_to_limbs if of_limbs else add_noise)(exact.values, draws))
    return NoisyStatistics({output.statistic: list(islice(noisy, output.size)) for output in plan.outputs})


def noise_sd(distribution: Distribution, scale: int) -> float:
    """Return the standard deviation of noise in scaled units.

    The discrete Gaussian's is σ: its variance is below σ², by about 8π²σ² e^−2π²σ² in proportion [1]_. The discrete
    Laplace's variance is 2p/(1−p)² with p = e^(−1/t), which is 1/(2 sinh²(1/2t)).

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, section 2.
    """
    if distribution is Distribution.DISCRETE_GAUSSIAN:
        return scale / STEP_DENOMINATOR
    return 1 / (math.sqrt(2) * math.sinh(1 / (2 * scale))) / STEP_DENOMINATOR


@lru_cache(maxsize=8)
def upper_triangle(order: int) -> IntArray:
    """Return the places of the upper triangle, by rows, in a square matrix that is written by rows."""
    rows, columns = np.triu_indices(order)
    return rows * order + columns


def _scales(plan: NoisePlan) -> IntArray:
    """Return the scale of each released entry, in the order of `perturb`."""
    scales = np.empty(sum(output.size for output in plan.outputs), dtype=np.int64)
    start = 0
    for part, output in zip(plan.parts, plan.outputs, strict=True):
        if part.statistic != output.statistic:
            raise ValueError("parts and outputs are of the same statistics, in the same order")
        diagonal, offdiagonal = part.scales
        of_part = scales[start : start + output.size]
        of_part[:] = diagonal
        if output.packing is Packing.UPPER:
            order = output.shape[0]
            of_part[upper_triangle(order) % (order + 1) != 0] = offdiagonal
        start += output.size
    return scales
