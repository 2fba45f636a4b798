"""Effect of one person on a table, exactly, in lattice units; docs/privacy.md has the proofs.

A row is in at most one cell, and adds q² to it. Added or removed, m rows of a person move the table furthest where all
are in one cell: by m q² in L1 and in L2. Replaced, they leave one cell for another: 2 m q² in L1, √2 m q² in L2.
"""

from fractions import Fraction

from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.lattice import UNIT


def table_l2_squared(adjacency: Adjacency, rows_per_person: int) -> Fraction:
    """Bound a table in L2, squared: m² q⁴ when rows are added or removed, 2 m² q⁴ when they are replaced."""
    return Fraction(_cells(adjacency) * (rows_per_person * UNIT**2) ** 2)


def table_l1(adjacency: Adjacency, rows_per_person: int) -> Fraction:
    """Bound a table in L1: m q² when rows are added or removed, 2 m q² when they are replaced."""
    return Fraction(_cells(adjacency) * rows_per_person * UNIT**2)


def _cells(adjacency: Adjacency) -> int:
    """Return how many cells a row that moves changes."""
    return 2 if adjacency is Adjacency.REPLACE_ONE else 1
