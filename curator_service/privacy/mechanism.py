"""Noise for a scalar, a vector and a symmetric matrix: one draw per unordered pair, added in integers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from curator_service.kinds.gram.kernel import SufficientStatistics, compute_lambda_min
from curator_service.kinds.gram.plan import GramPlan
from curator_service.privacy.design import Design
from curator_service.privacy.lattice import UNIT, IntArray
from curator_service.privacy.parts import Part, Statistic
from curator_service.privacy.samplers import Distribution, NoiseSource

STEP_DENOMINATOR = UNIT**2
"""Statistics are products of two lattice entries: one scaled unit is q² integers."""


@dataclass(frozen=True, slots=True)
class NoisyStatistics:
    """What may leave: noisy integers in lattice units, flat, per statistic; `xtx` is its upper triangle by rows."""

    values: Mapping[Statistic, list[int]]

    def scaled(self, statistic: Statistic) -> list[float]:
        """Return noisy integers times the public step 1/q², each rounded once to float64."""
        return [value / STEP_DENOMINATOR for value in self.values[statistic]]


def draw_noise(plan: GramPlan, noise: NoiseSource) -> IntArray:
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


def perturb(statistics: SufficientStatistics, plan: GramPlan, draws: IntArray) -> NoisyStatistics:
    """Add a draw to every entry that the plan releases.

    Parameters
    ----------
    statistics : SufficientStatistics
    plan : GramPlan
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
    exact = [_flatten(statistics, part, plan) for part in plan.parts]
    noisy = iter(add_noise(np.concatenate(exact), draws))
    return NoisyStatistics(
        {part.statistic: list(islice(noisy, len(values))) for part, values in zip(plan.parts, exact, strict=True)}
    )


def value_counts(design: Design) -> dict[Statistic, int]:
    """Return how many numbers each statistic of a design has."""
    terms, targets = len(design.terms), len(design.targets)
    return {
        Statistic.XTX: terms * (terms + 1) // 2,
        Statistic.XTY: terms * targets,
        Statistic.YTY: targets,
        Statistic.LAMBDA_MIN: 1,
    }


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


def _flatten(statistics: SufficientStatistics, part: Part, plan: GramPlan) -> IntArray:
    """Return the entries of a statistic that are released, each unordered pair of XᵀX once."""
    match part.statistic:
        case Statistic.XTX:
            triangle: IntArray = statistics.xtx.ravel()[_upper(len(statistics.xtx))]
            return triangle
        case Statistic.XTY:
            return statistics.xty.ravel()
        case Statistic.YTY:
            return statistics.yty
        case Statistic.LAMBDA_MIN:  # at a public time, for how long the search takes depends on the sums
            return np.array([compute_lambda_min(statistics.xtx, plan.lambda_min_tolerance)], dtype=np.int64)


@lru_cache(maxsize=8)
def _upper(terms: int) -> IntArray:
    """Return the places of the upper triangle, by rows, in a square matrix that is written by rows."""
    rows, columns = np.triu_indices(terms)
    return rows * terms + columns


def _scales(plan: GramPlan) -> IntArray:
    """Return the scale of each released entry, in the order of `_flatten`."""
    sizes, terms = value_counts(plan.design), len(plan.design.terms)
    scales = np.empty(sum(sizes[part.statistic] for part in plan.parts), dtype=np.int64)
    start = 0
    for part in plan.parts:
        diagonal, offdiagonal = part.scales
        of_part = scales[start : start + sizes[part.statistic]]
        of_part[:] = offdiagonal
        if part.statistic is Statistic.XTX:
            of_part[_upper(terms) % (terms + 1) == 0] = diagonal
        else:
            of_part[:] = diagonal
        start += len(of_part)
    return scales
