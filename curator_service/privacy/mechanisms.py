"""Noise for a scalar, a vector and a symmetric matrix: one draw per unordered pair, added in integers."""

from collections.abc import Mapping
from dataclasses import dataclass

from curator_service.privacy.accountant import GaussianPart
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.planning import GramPlan, Statistic
from curator_service.privacy.samplers import NoiseSource
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
    exact = [_flatten(statistics, part) for part in plan.parts]
    scales = [_scales(part, len(statistics.xtx), len(values)) for part, values in zip(plan.parts, exact, strict=True)]
    draws = iter(noise.sample_discrete_gaussian([sigma for part in scales for sigma in part]))
    return NoisyStatistics(
        {
            Statistic(part.statistic): [value + next(draws) for value in values]
            for part, values in zip(plan.parts, exact, strict=True)
        }
    )


def _flatten(statistics: SufficientStatistics, part: GaussianPart) -> list[int]:
    """Return the entries of a statistic that are released, each unordered pair of XᵀX once."""
    match Statistic(part.statistic):
        case Statistic.XTX:
            return [value for i, row in enumerate(statistics.xtx.tolist()) for value in row[i:]]
        case Statistic.XTY:
            return [value for row in statistics.xty.tolist() for value in row]
        case Statistic.YTY:
            return list(statistics.yty.tolist())
        case Statistic.LAMBDA_MIN:
            return [compute_lambda_min(statistics.xtx)]


def _scales(part: GaussianPart, size: int, count: int) -> list[int]:
    """Return the scale of each released entry."""
    if part.sigma_offdiagonal is None:
        return [part.sigma] * count
    return [part.sigma if i == j else part.sigma_offdiagonal for i in range(size) for j in range(i, size)]
