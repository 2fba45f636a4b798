"""Effect of one person on a marginal, exactly, in lattice units; docs/privacy.md has the proofs.

A row adds a vector for each column, and columns are independent of each other: squares of L2 add up over c columns, and
so does L1. With m rows of a person either is m times as large. For one row and one column, in units of q²:

*Tree of L levels, flat.* A value is in one bin of each level, L cells in all, and a flat histogram is one level. Added
or removed, a row moves those: L in L1, L in L2 squared. Replaced, it leaves L cells and enters L at most: 2 L, 2 L. A
weight w in [0, 1] adds w to them, so no more.

*Moments.* A row adds f(u) = (1/2, u, u² − 1/2), u in [−1, 1]. Added or removed: ‖f‖² = 1/2 + u⁴ ≤ 3/2, and in L1 at
most 2, both at u = ±1. Replaced, the first number stays: ‖f(u) − f(v)‖² = (u − v)² (1 + (u + v)²) ≤ d² (1 + (2 − d)²),
d = |u − v| ≤ 2, which is 4 at most, at d = 2; in L1 d (1 + |u + v|) ≤ d (3 − d) ≤ 9/4, at d = 3/2: u = 1, v = −1/2. A
missing value adds 0, and moves no more than one row alone: 3/2 < 4, 2 < 9/4. On the lattice f is (h, q z, z² − h − 1)
with z = q u and h = (q² − 1)/2, which leaves every bound as it is, or makes it less.

*Weighted moments* are w f(u), each number truncated towards zero, with w a multiple of 1/q². Added or removed, no
number grows. Replaced, numbers of one sign may differ by 1 more than before they were truncated, and both bounds hold
all the same, for any weights: docs/privacy.md shows that what a weight below 1 takes off outweighs it.
"""

from fractions import Fraction

from curator_service.kinds.marginals.marginals import Marginal, Moments, Tree
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.lattice import UNIT


def marginal_l2_squared(marginal: Marginal, adjacency: Adjacency, rows_per_person: int) -> Fraction:
    """Bound a marginal in L2, squared: c m² q⁴ times 1, L or 3/2 when rows are added, 2, 2 L or 4 when replaced."""
    return len(marginal.columns) * _column_l2_squared(marginal, adjacency) * (rows_per_person * UNIT**2) ** 2


def marginal_l1(marginal: Marginal, adjacency: Adjacency, rows_per_person: int) -> Fraction:
    """Bound a marginal in L1: c m q² times 1, L or 2 when rows are added, 2, 2 L or 9/4 when they are replaced."""
    return len(marginal.columns) * _column_l1(marginal, adjacency) * (rows_per_person * UNIT**2)


def _column_l2_squared(marginal: Marginal, adjacency: Adjacency) -> Fraction:
    if isinstance(marginal, Moments):
        return Fraction(4) if adjacency is Adjacency.REPLACE_ONE else Fraction(3, 2)
    return _cells(marginal, adjacency)


def _column_l1(marginal: Marginal, adjacency: Adjacency) -> Fraction:
    if isinstance(marginal, Moments):
        return Fraction(9, 4) if adjacency is Adjacency.REPLACE_ONE else Fraction(2)
    return _cells(marginal, adjacency)


def _cells(marginal: Marginal, adjacency: Adjacency) -> Fraction:
    """Return how many cells of a column a row that moves changes."""
    levels = marginal.levels if isinstance(marginal, Tree) else 1
    return Fraction(levels * (2 if adjacency is Adjacency.REPLACE_ONE else 1))
