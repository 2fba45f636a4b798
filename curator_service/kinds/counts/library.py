"""Answers from a stored table for another one: sums over a margin, and coarser bins.

A margin is a sum of cells, so it is exact only over an axis that holds every row; a bin is a sum of the bins that make
it up. Each sum has as many draws of noise as cells were added.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from curator_service.kinds.counts.listing import CountsListing
from curator_service.kinds.counts.tables import Axis, Table
from curator_service.privacy.lattice import IntArray


@dataclass(frozen=True, slots=True)
class _Source:
    """Of which table a table is a sum: its name, the standard deviation of a cell, and where each cell goes, or −1."""

    name: str
    sd: float
    places: IntArray

    def draws(self, size: int) -> IntArray:
        """Return how many cells are added up in each of so many."""
        return np.bincount(self.places[self.places >= 0], minlength=size)


class CountsLibrary:
    """Rules of the library for counts; see `base.LibraryRules`."""

    extras: ClassVar[tuple[str, ...]] = ("draws",)

    def least_sd(self, stored: CountsListing) -> float:
        """Return that of the quietest table: a sum of its cells has no less."""
        return min(stored.sd.values())

    def most_sd(self, asked: CountsListing) -> float:
        """Return that of the quietest table that is asked."""
        return min(asked.sd.values())

    def covers(self, stored: CountsListing, asked: CountsListing) -> bool:
        """Tell whether each table that is asked has all of its columns in one stored table."""
        held = [{axis.column.name for axis in table.axes} for table in stored.tables]
        return all(any({axis.column.name for axis in table.axes} <= names for names in held) for table in asked.tables)

    def block_sd(self, stored: CountsListing, asked: CountsListing) -> dict[str, float] | None:
        """Return the largest standard deviation of each table's cells; None if one is no sum of a stored table's."""
        sd = {}
        for output, table in zip(asked.outputs, asked.tables, strict=True):
            if (source := _find_source(stored, table)) is None:
                return None
            sd[output.statistic] = source.sd * math.sqrt(int(source.draws(table.size).max()))
        return sd

    def cut(
        self, stored: CountsListing, asked: CountsListing, statistics: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Return sums of cells, each rounded once, and how many cells are in each."""
        found = {}
        for output, table in zip(asked.outputs, asked.tables, strict=True):
            source = _find_source(stored, table)
            assert source is not None
            added: list[list[float]] = [[] for _ in range(table.size)]
            for place, value in zip(source.places.tolist(), statistics[source.name]["values"], strict=True):
                if place >= 0:
                    added[place].append(value)
            values = [math.fsum(cells) for cells in added]
            found[output.statistic] = {"values": values, "draws": source.draws(table.size).tolist()}
        return found

    def tell_difference(self, stored: CountsListing, asked: CountsListing, block_sd: Mapping[str, float] | None) -> str:
        """Say why a release that has the columns is no answer."""
        if stored.distribution != asked.distribution:
            return f"its noise is {stored.distribution}, not {asked.distribution}"
        return "its cells are others" if block_sd is None else "its noise is larger"


def _find_source(stored: CountsListing, table: Table) -> _Source | None:
    """Return the stored table of which a table's cells are sums with the least noise, or None."""
    found = []
    for output, source in zip(stored.outputs, stored.tables, strict=True):
        if (places := _find_places(source, table)) is not None:
            found.append(_Source(output.statistic, stored.sd[output.statistic], places))
    return min(found, key=lambda s: s.sd * math.sqrt(int(s.draws(table.size).max())), default=None)


def _find_places(source: Table, table: Table) -> IntArray | None:
    """Return in which cell of a table each cell of another is added, −1 for none; None where its cells are no sums."""
    wanted = {axis.column.name: axis for axis in table.axes}
    if not wanted.keys() <= {axis.column.name for axis in source.axes}:
        return None
    places = np.zeros(1, dtype=np.int64)
    for axis in source.axes:  # both stand in the manifest's order
        coarser = wanted.get(axis.column.name)
        if coarser is None:
            if not axis.holds_every_row:
                return None
            places = np.repeat(places, axis.size)
            continue
        if (cells := _merge(axis, coarser)) is None:
            return None
        whole = places[:, None] * coarser.size + cells
        places = np.where((places[:, None] >= 0) & (cells >= 0), whole, -1).ravel()
    return places


def _merge(axis: Axis, coarser: Axis) -> IntArray | None:
    """Return the cell of a coarser axis that holds each cell of an axis, −1 for none; None if some are cut."""
    if coarser.missing and not axis.missing:
        return None
    cells = np.arange(axis.bin_count)
    if axis.edges is not None and coarser.edges is not None:
        if not set(coarser.edges) <= set(axis.edges):
            return None
        cells = np.searchsorted(coarser.edges, axis.edges[:-1], side="right") - 1
        cells[cells == coarser.bin_count] = -1
    return np.append(cells, coarser.bin_count if coarser.missing else -1) if axis.missing else cells
