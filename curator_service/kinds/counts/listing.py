"""What a ``counts`` release is without its values."""

from functools import cached_property
from typing import Any

from curator_service.datasets.schemas import render_column
from curator_service.kinds.counts.tables import Table, outputs_of, read_tables
from curator_service.kinds.features import list_derived, read_selection, render_derived, state_selection
from curator_service.kinds.listing import Listing
from curator_service.privacy.design import Column
from curator_service.privacy.mechanism import Output
from curator_service.privacy.selection import Selection


class CountsListing(Listing):
    """What a release is, or what a request asks it to be: its tables."""

    @cached_property
    def selection(self) -> Selection:
        """Which rows count, and for how much."""
        return read_selection(self.request.get("where"), self.request.get("weight"), self.declared)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables, in order."""
        return read_tables(self.request, self.declared)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every declared column that is read, in the manifest's order."""
        columns = (*self._axes, *self.selection.columns)
        used = {name for column in columns for name in column.reads}
        return tuple(name for name in self.declared if name in used)

    @property
    def _axes(self) -> tuple[Column, ...]:
        return tuple(dict.fromkeys(axis.column for table in self.tables for axis in table.axes))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The cells of each table."""
        return outputs_of(self.tables)

    def describe(self) -> dict[str, Any]:
        """Return columns, and the cells of each table's axes."""
        names = (output.statistic for output in self.outputs)
        derived = list_derived((*self._axes, *self.selection.columns))
        return {
            "columns": [render_column(self.declared[name]) for name in self.columns],
            "tables": [
                {"name": name, "axes": [axis.description for axis in table.axes]}
                for name, table in zip(names, self.tables, strict=True)
            ],
            **render_derived(derived),
        }

    @property
    def row_rule(self) -> list[Any]:
        """Every row that counts counts for its weight: equal cells are equal sums, whatever else is asked."""
        return [self.kind, state_selection(self.selection)] if self.selection else [self.kind]

    @property
    def entries(self) -> list[Any]:
        """The tables, in their one order."""
        return [self.request["tables"]]
