"""What a ``counts`` release is without its values."""

from functools import cached_property
from typing import Any

from curator_service.datasets.schemas import render_column
from curator_service.kinds.counts.tables import Table, outputs_of, read_tables
from curator_service.kinds.listing import Listing
from curator_service.privacy.mechanism import Output


class CountsListing(Listing):
    """What a release is, or what a request asks it to be: its tables."""

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables, in order."""
        return read_tables(self.request, self.declared)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of an axis, in the manifest's order."""
        used = {axis.column.name for table in self.tables for axis in table.axes}
        return tuple(name for name in self.declared if name in used)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The cells of each table."""
        return outputs_of(self.tables)

    def describe(self) -> dict[str, Any]:
        """Return columns, and the cells of each table's axes."""
        names = (output.statistic for output in self.outputs)
        return {
            "columns": [render_column(self.declared[name]) for name in self.columns],
            "tables": [
                {"name": name, "axes": [axis.description for axis in table.axes]}
                for name, table in zip(names, self.tables, strict=True)
            ],
        }

    @property
    def row_rule(self) -> list[Any]:
        """Every row counts for one: equal cells are equal sums, whatever else is asked."""
        return [self.kind]

    @property
    def entries(self) -> list[Any]:
        """The tables, in their one order."""
        return [self.request["tables"]]
