"""Listing of a ``counts`` release: the release without its values."""

from functools import cached_property
from typing import Any, ClassVar

from curator_service.kinds.counts.schema import CountsRequest
from curator_service.kinds.counts.tables import Table, read_tables
from curator_service.kinds.items import ItemsListing
from curator_service.privacy.design import Column


class CountsListing(ItemsListing[Table]):
    """Listing of a release, or of a request for one: its tables."""

    member: ClassVar = CountsRequest.member
    noun: ClassVar = CountsRequest.noun

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Tables of the request, in its order."""
        return read_tables(self.request, self.declared)

    @property
    def items(self) -> tuple[Table, ...]:
        """The tables."""
        return self.tables

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """Columns of all axes."""
        return tuple(dict.fromkeys(axis.column for table in self.tables for axis in table.axes))

    def describe_item(self, item: Table) -> dict[str, Any]:
        """Return the cells of a table's axes."""
        return {"axes": [axis.description for axis in item.axes]}
