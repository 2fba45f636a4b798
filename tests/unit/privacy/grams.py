"""Exact sums of a Gram by their names, so that tests can state what each must be."""

from typing import NamedTuple

import numpy as np

from curator_service.kinds.gram import kernel
from curator_service.kinds.gram.plan import GramPlan
from curator_service.privacy import mechanism
from curator_service.privacy.lattice import IntArray
from curator_service.privacy.mechanism import ExactSums, NoisyStatistics


class SufficientStatistics(NamedTuple):
    """XᵀX, Xᵀy, and yᵀy of each target."""

    xtx: IntArray
    xty: IntArray
    yty: IntArray


def split_gram(gram: IntArray, terms: int) -> SufficientStatistics:
    """Cut the Gram of (terms, targets)."""
    return SufficientStatistics(gram[:terms, :terms], gram[:terms, terms:], np.diagonal(gram)[terms:])


def flat(statistics: SufficientStatistics, plan: GramPlan) -> IntArray:
    """Return the exact sums that leave, as a release has them before noise."""
    gram = np.block([[statistics.xtx, statistics.xty], [statistics.xty.T, np.diag(statistics.yty)]])
    return kernel.flatten(gram, len(statistics.xtx), plan.outputs, plan.lambda_min_tolerance)


def perturb(statistics: SufficientStatistics, plan: GramPlan, draws: IntArray) -> NoisyStatistics:
    """Add noise to exact statistics, as a release does."""
    return mechanism.perturb(ExactSums(flat(statistics, plan)), plan, draws)
