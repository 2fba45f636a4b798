"""What a row contributes to counts: one, in units of q², to the cell of each table that it falls into."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from curator_service.datasets.engines.numpy import tile_rows
from curator_service.kinds.counts.tables import Table
from curator_service.privacy.design import Term
from curator_service.privacy.expressions.work import work_in_tiles
from curator_service.privacy.lattice import UNIT, FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.selection import EVERY_ROW, Selection
from curator_service.privacy.sums import EXACT_BLOCK_ROWS

_TABLE_PRODUCTS, _AXIS_PRODUCTS, _HALVING_PRODUCTS = 250, 250, 30
"""What a row takes in a table, on an axis, and at each halving of its edges, in products of two numbers."""


@dataclass(frozen=True, slots=True)
class CountsKernel:
    """Σ one-hot over rows: see `datasets.engines.base.RowKernel`.

    A mapped row names its cell in each table, or 0, and what it adds to them where rows have weights.
    """

    tables: tuple[Table, ...]
    selection: Selection = EVERY_ROW

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns of all axes, each once."""
        axes = (name for table in self.tables for axis in table.axes for name in axis.column.reads)
        return tuple(dict.fromkeys((*axes, *self.selection.reads)))

    @property
    def width(self) -> int:
        """Tables, and the weight."""
        return len(self.tables) + (self.selection.weight is not None)

    @property
    def products(self) -> int:
        """What one row takes, in products."""
        axes = [axis for table in self.tables for axis in table.axes]
        halvings = sum(axis.size.bit_length() for axis in axes)
        computed = sum(column.work for column in {*(axis.column for axis in axes), *self.selection.columns})
        own = self.width * _TABLE_PRODUCTS + len(axes) * _AXIS_PRODUCTS + halvings * _HALVING_PRODUCTS
        return own + work_in_tiles(computed, tile_rows(self.width))

    @property
    def cached_terms(self) -> tuple[Term, ...] | None:
        """None: a count is no product that snapshots keep."""
        return None

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Find each row's cells, and its weight."""
        counted = self.selection.select(stored, counted)
        weights = self.selection.weigh(stored, len(out))
        if weights is not None:
            np.multiply(weights, UNIT**2, out=out[:, -1])
            np.trunc(out[:, -1], out=out[:, -1])
            out[:, -1] *= counted
        for i, table in enumerate(self.tables):
            np.multiply(table.find_cells(stored, len(out)), counted, out=out[:, i])

    def sum(self, rows: RowArray) -> IntArray:
        """Count rows by cell; cell 0 is none."""
        cells = rows.astype(np.int64)
        if self.selection.weight is None:
            counts = [np.bincount(cells[:, i], minlength=t.size + 1)[1:] for i, t in enumerate(self.tables)]
            return np.concatenate(counts) * UNIT**2
        # Integers of at most q² each, in so few rows that float64 holds every sum of them.
        assert len(rows) <= EXACT_BLOCK_ROWS
        sums = [np.bincount(cells[:, i], rows[:, -1], t.size + 1)[1:] for i, t in enumerate(self.tables)]
        return np.concatenate(sums).astype(np.int64)
