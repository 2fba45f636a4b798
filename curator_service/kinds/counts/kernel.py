"""Contribution of a row to counts: one, in units of q², to the cell of each table that it falls into."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from curator_service.datasets.engines.numpy import tile_rows
from curator_service.kinds.counting import AXIS_PRODUCTS, CELL_PRODUCTS, HALVING_PRODUCTS, count_cells, weigh_rows
from curator_service.kinds.counts.tables import Table
from curator_service.privacy.design import Term
from curator_service.privacy.expressions.work import work_in_tiles
from curator_service.privacy.lattice import FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.selection import EVERY_ROW, Selection
from curator_service.privacy.sums import EXACT_BLOCK_ROWS


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
        """Work of one row, in products."""
        axes = [axis for table in self.tables for axis in table.axes]
        halvings = sum(axis.size.bit_length() for axis in axes)
        computed = sum(column.work for column in {*(axis.column for axis in axes), *self.selection.columns})
        own = self.width * CELL_PRODUCTS + len(axes) * AXIS_PRODUCTS + halvings * HALVING_PRODUCTS
        return own + work_in_tiles(computed, tile_rows(self.width))

    @property
    def cached_terms(self) -> tuple[Term, ...] | None:
        """No cached terms: a count is no product that snapshots keep."""
        return None

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Find each row's cells, and its weight."""
        counted = weigh_rows(self.selection, stored, counted, out)
        for i, table in enumerate(self.tables):
            np.multiply(table.find_cells(stored, len(out)), counted, out=out[:, i])

    def sum(self, rows: RowArray) -> IntArray:
        """Count rows by cell; cell 0 is none."""
        assert len(rows) <= EXACT_BLOCK_ROWS
        weights = None if self.selection.weight is None else rows[:, -1]
        return np.concatenate([count_cells(rows[:, i], weights, t.size) for i, t in enumerate(self.tables)])
