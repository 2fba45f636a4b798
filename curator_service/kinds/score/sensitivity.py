"""Effect of one person on each statistic of a score, exactly, in lattice units; docs/privacy.md has the proofs.

A contribution g has k integers and a norm of q at most; `score` adds q g, so that a scaled unit is q² as everywhere.

*Score.* ‖q g‖ ≤ q², and two of them are at most twice that apart. In L1 √k times as much.
*Norms.* A row adds at most q² to one of the bins; replaced, it leaves one and enters one.
*Meat.* g gᵀ is what a row of norm q adds to XᵀX: its bounds are those of `gram`, where the norm is bounded.

Weights make g shorter, and less than q² of a row's q²; with m rows of a person each bound is m times as large.
"""

from fractions import Fraction

from curator_service.kinds.gram.sensitivity import xtx_norm_l1, xtx_norm_l2_squared
from curator_service.kinds.score.statistics import Statistic
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.conversions import root_up
from curator_service.privacy.lattice import UNIT


def score_l2_squared(statistic: Statistic, adjacency: Adjacency, rows_per_person: int) -> Fraction:
    """Bound a statistic in L2, squared: m² q⁴ times 1 when rows are added, 4, 2 and 2 when they are replaced."""
    replaces = adjacency is Adjacency.REPLACE_ONE
    match statistic:
        case Statistic.SCORE:
            squared = Fraction((4 if replaces else 1) * UNIT**4)
        case Statistic.NORMS:
            squared = Fraction((2 if replaces else 1) * UNIT**4)
        case Statistic.MEAT:
            squared = Fraction(xtx_norm_l2_squared(UNIT**2, adjacency))
    return squared * rows_per_person**2


def score_l1(statistic: Statistic, count: int, adjacency: Adjacency, rows_per_person: int) -> Fraction:
    """Bound a statistic of contributions of k numbers in L1."""
    twice = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    match statistic:
        case Statistic.SCORE:
            bound = Fraction(twice * root_up(Fraction(count * UNIT**4)))
        case Statistic.NORMS:
            bound = Fraction(twice * UNIT**2)
        case Statistic.MEAT:
            bound = xtx_norm_l1(UNIT**2, ((1, 1),) * count, adjacency)
    return bound * rows_per_person
