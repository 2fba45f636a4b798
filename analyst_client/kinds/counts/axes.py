"""Axes of tables: as they are asked, and as they are answered."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

from analyst_client.schema.columns import Column
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import Expression, as_expression
from analyst_client.terms.matching import names_column

MISSING = "(missing)"


@dataclass(frozen=True)
class Axis:
    """An axis of a table that is asked for: a column, and how it is cut into cells.

    Parameters
    ----------
    column : str or Expression
        Name of the column, or what is computed of some: see `analyst_client.terms`.
    edges : sequence of float, optional
        Of a numeric column: bins ``[a, b)`` between these, in the column's unit and within its bounds. A bin that ends
        at the upper bound holds the bound too.
    bins : int, optional
        Of a numeric column, in place of edges: so many equal bins of its bounds.
    missing : bool
        Whether a last cell counts the rows that miss the value. Otherwise they are in no cell of the table.

    Raises
    ------
    ValueError
        When edges and bins are both given, or are none.

    Examples
    --------
    >>> Axis("age", edges=[50, 60, 70, 101]).members
    {'column': 'age', 'edges': [50.0, 60.0, 70.0, 101.0]}
    """

    column: str | Expression
    edges: Sequence[float] | None = None
    bins: int | None = None
    missing: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be sent."""
        if not isinstance(self.column, str | Expression):
            raise ValueError("an axis is the name of one column, or Axis(name, …)")  # noqa: TRY004 -- one kind of error for arguments
        if self.edges is not None and self.bins is not None:
            raise ValueError(f"{self.column!r}: give edges or bins, not both")
        if self.bins is not None and (isinstance(self.bins, bool) or not isinstance(self.bins, int) or self.bins < 1):
            raise ValueError(f"{self.column!r}: bins is a whole number of at least 1")
        if self.edges is not None:
            edges = tuple(float(edge) for edge in self.edges)
            if not are_edges(edges):
                raise ValueError(f"{self.column!r}: edges are at least two finite numbers that increase")
            object.__setattr__(self, "edges", edges)

    @property
    def members(self) -> dict[str, Any]:
        """Members of the axis in a request: what was set, and nothing else."""
        body: dict[str, Any] = {"column": self.expression.to_json()}
        if self.edges is not None:
            body["edges"] = list(self.edges)
        if self.bins is not None:
            body["bins"] = self.bins
        return body | ({"missing": True} if self.missing else {})

    @property
    def expression(self) -> Expression:
        """The column, or what is computed."""
        return as_expression(self.column)

    def is_answered_by(self, axis: "TableAxis") -> bool:
        """Return whether an axis of an answer is this one; the curator made edges of bins."""
        if self.missing != axis.missing or not names_column(self.expression, axis.column):
            return False
        low, high = axis.column.lower, axis.column.upper
        if self.bins is None or axis.edges is None or low is None or high is None:
            return self.bins is None and self.edges == axis.edges
        if self.bins != axis.bins:
            return False
        width = (high - low) / self.bins
        return all(abs(low + k * width - edge) < 0.01 * width for k, edge in enumerate(axis.edges))


@dataclass(frozen=True)
class TableAxis:
    """An axis of an answer.

    Attributes
    ----------
    column : Column
    edges : tuple of float or None
        Of a numeric column: one more than its bins.
    missing : bool
        Whether its last cell counts the rows that miss the value.
    """

    column: Column
    edges: tuple[float, ...] | None
    missing: bool

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def bins(self) -> int:
        """Number of cells for values that are there."""
        return len(self.column.levels) if self.edges is None else len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.bins + self.missing

    @property
    def covers(self) -> bool:
        """True if every row falls into a cell, by the declarations of the column."""
        ends = self.edges is None or (self.edges[0], self.edges[-1]) == (self.column.lower, self.column.upper)
        return ends and (self.missing or self.column.missing == "complete")

    @property
    def labels(self) -> tuple[str, ...]:
        """Cells in words.

        Examples
        --------
        >>> TableAxis(Column.numeric("age", 50, 100), (50.0, 60.0, 100.0), missing=True).labels
        ('[50, 60)', '[60, 100]', '(missing)')
        """
        if self.edges is None:
            cells = list(self.column.levels)
        else:
            closed = self.edges[-1] == self.column.upper
            cells = [f"[{low:g}, {high:g})" for low, high in pairwise(self.edges)]
            cells[-1] = cells[-1][:-1] + "]" if closed else cells[-1]
        return (*cells, MISSING) if self.missing else tuple(cells)


@dataclass(frozen=True)
class TableShape:
    """Axes of a table, and its name in the answer."""

    name: str
    axes: tuple[TableAxis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of cells, one for each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def title(self) -> str:
        """Columns in words.

        Examples
        --------
        >>> TableShape("table_0", ()).title
        'all rows in cells'
        """
        return " × ".join(axis.name for axis in self.axes) or "all rows in cells"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns, one for each axis."""
        return tuple(axis.column for axis in self.axes)

    def arranged(self, order: Sequence[int]) -> Self:
        """Return this table with its axes in another order, each by its place here."""
        return replace(self, axes=tuple(self.axes[j] for j in order))

    def places_of(self, asked: Sequence[Axis]) -> tuple[int, ...] | None:
        """Return the places of the axes that were asked; None where this is another table."""
        order = tuple(j for axis in asked for j, other in enumerate(self.axes) if axis.is_answered_by(other))
        return order if len(order) == len(asked) == len(self.axes) else None


def read_shape(fields: Fields, find_column: Callable[[Fields, str, Any], Column]) -> TableShape:
    """Read a table of an answer or a quote, with the columns on its axes."""

    def read_axis(fields: Fields) -> TableAxis:
        column = find_column(fields, "column", fields.members.get("column"))
        edges: tuple[float, ...] | None = None
        if column.type == "numeric":
            edges = tuple(Fields({"edges": edge}, fields.where).number("edges") for edge in fields.array("edges"))
            if not are_edges(edges):
                raise fields.fault("edges", "at least two numbers that increase")
        elif fields.texts("cells") != column.levels:
            raise fields.fault("cells", "the levels of the column")
        return TableAxis(column, edges, fields.flag("missing"))

    shape = TableShape(fields.text("name"), fields.each("axes", read_axis))
    if len({axis.name for axis in shape.axes}) < len(shape.axes):
        raise fields.fault("axes", "made of distinct columns")
    return shape


def are_edges(edges: Sequence[float]) -> bool:
    """Return whether numbers are edges of bins."""
    return len(edges) >= 2 and all(map(math.isfinite, edges)) and all(low < high for low, high in pairwise(edges))
