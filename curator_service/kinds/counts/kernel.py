"""What a row contributes to counts: one, in units of q², to the cell of each table that it falls into."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from curator_service.kinds.counts.tables import Table
from curator_service.privacy.design import Term
from curator_service.privacy.lattice import UNIT, FlagArray, IntArray, RowArray, StoredArray

_TABLE_PRODUCTS, _AXIS_PRODUCTS, _HALVING_PRODUCTS = 250, 250, 30
"""What a row takes in a table, on an axis, and at each halving of its edges, in products of two numbers."""


@dataclass(frozen=True, slots=True)
class CountsKernel:
    """Σ one-hot over rows: see `datasets.engines.base.RowKernel`. A mapped row names its cell in each table, or 0."""

    tables: tuple[Table, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns of all axes, each once."""
        return tuple(dict.fromkeys(axis.column.name for table in self.tables for axis in table.axes))

    @property
    def width(self) -> int:
        """Tables."""
        return len(self.tables)

    @property
    def products(self) -> int:
        """What one row takes, in products."""
        axes = [axis for table in self.tables for axis in table.axes]
        halvings = sum(axis.size.bit_length() for axis in axes)
        return self.width * _TABLE_PRODUCTS + len(axes) * _AXIS_PRODUCTS + halvings * _HALVING_PRODUCTS

    @property
    def cached_terms(self) -> tuple[Term, ...] | None:
        """None: a count is no product that snapshots keep."""
        return None

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Find each row's cells."""
        for i, table in enumerate(self.tables):
            np.multiply(table.find_cells(stored, len(out)), counted, out=out[:, i])

    def sum(self, rows: RowArray) -> IntArray:
        """Count rows by cell; cell 0 is none."""
        cells = rows.astype(np.int64)
        counts = [np.bincount(cells[:, i], minlength=t.size + 1)[1:] for i, t in enumerate(self.tables)]
        return np.concatenate(counts) * UNIT**2
