"""What a row contributes to counts: one, in units of q², to the cell of each table that it falls into."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from curator_service.datasets.engines.numpy import tile_rows
from curator_service.kinds.counts.tables import Table
from curator_service.privacy.design import Term
from curator_service.privacy.expressions.work import work_in_tiles
from curator_service.privacy.lattice import UNIT, FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.selection import EVERY_ROW, Selection
from curator_service.privacy.sums import EXACT_BLOCK_ROWS

_TABLE_PRODUCTS, _AXIS_PRODUCTS, _HALVING_PRODUCTS = 250, 250, 30
"""What a row takes in a table, on an axis, and at each halving of its edges, in products of two numbers."""

_LANES = 8
"""Rows next to each other are counted apart: a processor waits for an addition to the same number, and rows that are in
one cell, as those are that a condition leaves out, would take up to three times as long as others."""


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
        # Integers of at most q² each, in so few rows that float64 holds every sum of them.
        assert len(rows) <= EXACT_BLOCK_ROWS
        weights = None if self.selection.weight is None else rows[:, -1]
        cells, lanes = rows.astype(np.int64), np.arange(len(rows)) & (_LANES - 1)
        sums = [_count(cells[:, i] + lanes * (t.size + 1), weights, t.size + 1) for i, t in enumerate(self.tables)]
        return np.concatenate(sums).astype(np.int64) * (UNIT**2 if weights is None else 1)


def _count(places: IntArray, weights: RowArray | None, size: int) -> npt.NDArray[Any]:
    """Count by lane and cell; return the sums of lanes, without the cell of nothing."""
    found: npt.NDArray[Any] = np.bincount(places, weights, _LANES * size).reshape(_LANES, size)
    summed: npt.NDArray[Any] = found.sum(axis=0)
    return summed[1:]
