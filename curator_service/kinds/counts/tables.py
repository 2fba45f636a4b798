"""Tables: which cell of which table a row falls into, from declarations alone."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from curator_service.kinds.counts.schema import AxisRequest
from curator_service.kinds.features import read_column, state_feature
from curator_service.privacy.bins import cut_points, equal_edges, find_bins
from curator_service.privacy.design import Column, MissingRule
from curator_service.privacy.lattice import MISSING, IntArray, StoredArray


@dataclass(frozen=True)
class Axis:
    """A column in cells: bins between edges, or levels; last a cell for a missing value, where one is asked."""

    column: Column
    edges: tuple[float, ...] | None
    missing: bool

    @classmethod
    def of(cls, column: Column, asked: AxisRequest) -> "Axis":
        """Return what an axis means. Raise `ValueError`, naming the rule, where it means nothing."""
        numeric = column.is_number
        if numeric != ((asked.edges is None) != (asked.bins is None)) or (not numeric and asked.edges is not None):
            rule = "needs either edges or bins" if numeric else "has its levels as cells: leave out edges and bins"
            raise ValueError(f"the {column.type} column {column.name!r} {rule}")
        if asked.missing and column.missing is MissingRule.COMPLETE:
            raise ValueError(f"the column {column.name!r} is declared complete: no value of it is missing")
        edges = asked.edges
        if asked.bins is not None:
            edges = equal_edges(asked.bins, column.lower, column.upper)
        if edges is not None:
            if not (column.lower <= edges[0] and edges[-1] <= column.upper):
                raise ValueError(f"edges must be within the declared bounds, {column.lower:g} to {column.upper:g}")
            cut_points(edges, column.lower, column.upper)
        # Minus zero is the same edge, and would be another text.
        return cls(column, None if edges is None else tuple(edge + 0.0 for edge in edges), asked.missing)

    @property
    def bin_count(self) -> int:
        """Cells beside that of a missing value."""
        return len(self.column.levels) if self.edges is None else len(self.edges) - 1

    @property
    def size(self) -> int:
        """Cells in all."""
        return self.bin_count + self.missing

    @property
    def holds_every_row(self) -> bool:
        """True if each row is in one of its cells, for all values."""
        bounds = self.edges is None or (self.edges[0], self.edges[-1]) == (self.column.lower, self.column.upper)
        return bounds and (self.missing or self.column.missing is MissingRule.COMPLETE)

    @property
    def request(self) -> dict[str, Any]:
        """The axis as a canonical request states it."""
        return self._state({})

    @property
    def description(self) -> dict[str, Any]:
        """The axis as answers describe it."""
        return self._state({"cells": list(self.column.levels)})

    def _state(self, levels: dict[str, Any]) -> dict[str, Any]:
        cells = levels if self.edges is None else {"edges": list(self.edges)}
        return {"column": state_feature(self.column), **cells, "missing": self.missing}

    @cached_property
    def _cuts(self) -> IntArray:
        assert self.edges is not None
        return cut_points(self.edges, self.column.lower, self.column.upper)

    def find_cells(self, stored: StoredArray) -> IntArray:
        """Return the cell of each value, −1 for none; a code that is no level's is in none.

        By arithmetic: `np.where` takes longer where a processor cannot foresee what is chosen.
        """
        if self.edges is None:
            cells = (stored.astype(np.int64) + 1) * ((stored >= 0) & (stored < self.bin_count)) - 1
        else:
            cells = find_bins(stored, self._cuts)
        if self.missing:  # a missing value is in no other cell, so its −1 is brought to the last one
            cells += (stored == MISSING) * np.int64(self.bin_count + 1)
        return cells


@dataclass(frozen=True)
class Table:
    """A joint histogram: cells of all axes, the last one's next to each other."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        """Cells in all."""
        return math.prod(self.shape)

    @property
    def request(self) -> dict[str, Any]:
        """The table as a canonical request states it."""
        return {"axes": [axis.request for axis in self.axes]}

    @property
    def key(self) -> str:
        """Sorting key of tables; of one dataset, equal for equal tables alone."""
        return json.dumps([axis.request for axis in self.axes])

    def find_cells(self, stored: Mapping[str, StoredArray], count: int) -> IntArray:
        """Return one more than the cell of each row, and 0 for a row that is in none."""
        index, inside = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_)
        for axis in self.axes:
            cells = axis.find_cells(axis.column.read(stored, count))
            index, inside = index * axis.size + cells, inside & (cells >= 0)
        found: IntArray = (index + 1) * inside
        return found


def read_tables(request: Mapping[str, Any], declared: Mapping[str, Column]) -> tuple[Table, ...]:
    """Return the tables of a canonical request, which was checked when it was made."""

    def axis_of(axis: Mapping[str, Any]) -> Axis:
        edges = tuple(map(float, axis["edges"])) if "edges" in axis else None
        return Axis(read_column(axis["column"], declared), edges, axis["missing"])

    return tuple(Table(tuple(map(axis_of, table["axes"]))) for table in request["tables"])
