"""Noise for a scalar, a vector and a symmetric matrix: one draw per unordered pair, added in integers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from curator_service.privacy.lattice import UNIT
from curator_service.privacy.parts import Part, Statistic
from curator_service.privacy.planning import GramPlan
from curator_service.privacy.samplers import Distribution, NoiseSource
from curator_service.privacy.statistics import SufficientStatistics, compute_lambda_min

STEP_DENOMINATOR = UNIT**2
"""Statistics are products of two lattice entries: one scaled unit is q² integers."""


@dataclass(frozen=True, slots=True)
class NoisyStatistics:
    """What may leave: noisy integers in lattice units, flat, per statistic; `xtx` is its upper triangle by rows."""

    values: Mapping[Statistic, list[int]]

    def scaled(self, statistic: Statistic) -> list[float]:
        """Return noisy integers times the public step 1/q², each rounded once to float64."""
        return [value / STEP_DENOMINATOR for value in self.values[statistic]]


def perturb(statistics: SufficientStatistics, plan: GramPlan, noise: NoiseSource) -> NoisyStatistics:
    """Add a fresh draw to every entry that the plan releases.

    Parameters
    ----------
    statistics : SufficientStatistics
    plan : GramPlan
    noise : NoiseSource

    Returns
    -------
    NoisyStatistics
        Nothing here, and nothing after, looks at the value of a draw.
    """
    exact = [_flatten(statistics, part, plan) for part in plan.parts]
    scales = [_scales(part, len(statistics.xtx), len(values)) for part, values in zip(plan.parts, exact, strict=True)]
    distribution = plan.parts[0].distribution  # one for all parts: a plan has one mechanism
    draws = iter(noise.sample(distribution, [scale for part in scales for scale in part]))
    return NoisyStatistics(
        {
            part.statistic: [value + next(draws) for value in values]
            for part, values in zip(plan.parts, exact, strict=True)
        }
    )


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


def _flatten(statistics: SufficientStatistics, part: Part, plan: GramPlan) -> list[int]:
    """Return the entries of a statistic that are released, each unordered pair of XᵀX once."""
    match part.statistic:
        case Statistic.XTX:
            return [value for i, row in enumerate(statistics.xtx.tolist()) for value in row[i:]]
        case Statistic.XTY:
            return [value for row in statistics.xty.tolist() for value in row]
        case Statistic.YTY:
            return list(statistics.yty.tolist())
        case Statistic.LAMBDA_MIN:
            return [compute_lambda_min(statistics.xtx, plan.lambda_min_tolerance)]


def _scales(part: Part, size: int, count: int) -> list[int]:
    """Return the scale of each released entry."""
    diagonal, offdiagonal = part.scales
    if part.statistic is not Statistic.XTX:
        return [diagonal] * count
    return [diagonal if i == j else offdiagonal for i in range(size) for j in range(i, size)]
