"""Statistics of a ``score`` release."""

import math
from enum import StrEnum
from fractions import Fraction

from curator_service.privacy.lattice import UNIT
from curator_service.privacy.mechanism import Output, Packing

NORM_STEPS = range(-8, 4)
NORM_RATIO = Fraction(8, 5)
"""Edges of the histogram of norms: 1.6^i times the norm to which contributions are shrunk."""


class Statistic(StrEnum):
    """The statistics, in the order in which they are drawn and sent."""

    SCORE = "score"
    NORMS = "norms"
    MEAT = "meat"


def norm_edges() -> tuple[int, ...]:
    """Return the squares of the edges, in squared lattice units, rounded down."""
    return tuple(math.floor(UNIT**2 * NORM_RATIO ** (2 * step)) for step in NORM_STEPS)


def output_of(statistic: Statistic, count: int) -> Output:
    """Return what leaves of a statistic of contributions of so many numbers."""
    match statistic:
        case Statistic.SCORE:
            return Output(statistic, (count,))
        case Statistic.NORMS:
            return Output(statistic, (len(NORM_STEPS) + 1,))
        case Statistic.MEAT:
            return Output(statistic, (count, count), Packing.UPPER)
