"""Contribution of a row to marginals: for each column q² to a bin of each level, or its moments."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from curator_service.datasets.engines.numpy import tile_rows
from curator_service.kinds.counting import AXIS_PRODUCTS, CELL_PRODUCTS, HALVING_PRODUCTS, weigh_rows
from curator_service.kinds.marginals.marginals import Marginal, Moments
from curator_service.privacy.design import Column, Term
from curator_service.privacy.expressions.work import work_in_tiles
from curator_service.privacy.lattice import FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.selection import EVERY_ROW, Selection
from curator_service.privacy.sums import EXACT_BLOCK_ROWS

_MOMENTS_PRODUCTS, _WEIGHED_PRODUCTS = 400, 500
"""What a row takes for its moments of a column, and for weighing them, in products of two numbers."""


@dataclass(frozen=True, slots=True)
class MarginalsKernel:
    """Σ of what values add over rows: see `datasets.engines.base.RowKernel`.

    A mapped row has its place in each column of each marginal, or 0, and what it weighs where rows have weights.
    """

    marginals: tuple[Marginal, ...]
    selection: Selection = EVERY_ROW

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns of all marginals, each once."""
        read = (name for column in self._asked for name in column.reads)
        return tuple(dict.fromkeys((*read, *self.selection.reads)))

    @property
    def _asked(self) -> list[Column]:
        return [column for marginal in self.marginals for column in marginal.columns]

    @property
    def width(self) -> int:
        """Columns of all marginals, and the weight."""
        return len(self._asked) + (self.selection.weight is not None)

    @property
    def products(self) -> int:
        """Work of one row, in products."""
        own = CELL_PRODUCTS * (self.selection.weight is not None)
        own += sum(len(marginal.columns) * self._column_products(marginal) for marginal in self.marginals)
        computed = sum(column.work for column in (*self._asked, *self.selection.columns))
        return own + work_in_tiles(computed, tile_rows(self.width))

    def _column_products(self, marginal: Marginal) -> int:
        if isinstance(marginal, Moments):
            return _MOMENTS_PRODUCTS + _WEIGHED_PRODUCTS * (self.selection.weight is not None)
        return CELL_PRODUCTS + AXIS_PRODUCTS + marginal.column_size.bit_length() * HALVING_PRODUCTS

    @property
    def cached_terms(self) -> tuple[Term, ...] | None:
        """No cached terms: a marginal is no product that snapshots keep."""
        return None

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Find each row's places, and its weight."""
        counted = weigh_rows(self.selection, stored, counted, out)
        places = iter(out.T)
        for marginal in self.marginals:
            for i, column in enumerate(marginal.columns):
                np.multiply(marginal.place(i, column.read(stored, len(out))), counted, out=next(places))

    def sum(self, rows: RowArray) -> IntArray:
        """Sum what rows add by marginal and column; place 0 adds nothing."""
        assert len(rows) <= EXACT_BLOCK_ROWS
        weights = None if self.selection.weight is None else rows[:, -1]
        places = iter(rows.T)
        return np.concatenate([m.sum(next(places), weights) for m in self.marginals for _ in m.columns])
