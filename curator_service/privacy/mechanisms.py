"""Noise for a scalar, a vector and a symmetric matrix: one draw per unordered pair, added in integers."""

import math
from collections.abc import Mapping, Sequence
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


def draw_noise(plan: GramPlan, noise: NoiseSource) -> list[int]:
    """Draw the noise of one release. It needs no data, so it can be drawn before anything is locked.

    Parameters
    ----------
    plan : GramPlan
    noise : NoiseSource

    Returns
    -------
    list of int
        One draw for each released entry, in the order of `perturb`. For one release only.
    """
    distribution = plan.parts[0].distribution  # one for all parts: a plan has one mechanism
    scales = [_scales(part, len(plan.design.terms), len(plan.design.targets)) for part in plan.parts]
    return noise.sample(distribution, [scale for part in scales for scale in part])


def perturb(statistics: SufficientStatistics, plan: GramPlan, draws: Sequence[int]) -> NoisyStatistics:
    """Add a draw to every entry that the plan releases.

    Parameters
    ----------
    statistics : SufficientStatistics
    plan : GramPlan
    draws : sequence of int
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
    if len(draws) != sum(len(values) for values in exact):
        raise ValueError("one draw for each entry")
    left = iter(draws)
    return NoisyStatistics(
        {
            part.statistic: [value + next(left) for value in values]
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


def _scales(part: Part, terms: int, targets: int) -> list[int]:
    """Return the scale of each released entry, in the order of `_flatten`."""
    diagonal, offdiagonal = part.scales
    match part.statistic:
        case Statistic.XTX:
            return [diagonal if i == j else offdiagonal for i in range(terms) for j in range(i, terms)]
        case Statistic.XTY:
            return [diagonal] * (terms * targets)
        case Statistic.YTY:
            return [diagonal] * targets
        case Statistic.LAMBDA_MIN:
            return [diagonal]
