"""Axes of tables: as they are asked, and as they are answered."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from analyst_client.error_base import ServiceError
from analyst_client.schema.columns import Column, DerivedColumn
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

    @property
    def as_asked(self) -> Axis:
        """The axis of a request that it answers."""
        computed = self.column.expression if isinstance(self.column, DerivedColumn) else self.name
        return Axis(computed, self.edges, missing=self.missing)


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


def read_columns(body: Fields) -> Callable[[Fields, str, Any], Column]:
    """Read the columns that an answer lists, declared and computed; return what finds the one that a member names."""
    columns = {column.name: column for column in body.each("columns", Column.read)}
    derived: dict[str, str] = {}
    if body.has("derived"):
        found = body.each("derived", lambda fields: DerivedColumn.read_of(fields, columns))
        derived = {json.dumps(column.expression.to_json()): column.name for column in found}
        columns = columns | {column.name: column for column in found}

    def find_column(fields: Fields, member: str, stated: Any) -> Column:
        name = stated if isinstance(stated, str) else derived.get(json.dumps(stated), "")
        if name not in columns:
            raise fields.fault(member, "one of the listed columns")
        return columns[name]

    return find_column


def read_shapes(body: Fields) -> tuple[TableShape, ...]:
    """Read the tables of an answer or a quote, in its order, with the columns on their axes."""
    find_column = read_columns(body)

    def read_axis(fields: Fields) -> TableAxis:
        column = find_column(fields, "column", fields.members.get("column"))
        edges: tuple[float, ...] | None = None
        if column.type == "numeric":
            given = fields.array("edges")
            edges = tuple(fields_number(fields, value) for value in given)
            if not are_edges(edges):
                raise fields.fault("edges", "at least two numbers that increase")
        elif fields.texts("cells") != column.levels:
            raise fields.fault("cells", "the levels of the column")
        return TableAxis(column, edges, fields.flag("missing"))

    def read_shape(fields: Fields) -> TableShape:
        shape = TableShape(fields.text("name"), fields.each("axes", read_axis))
        if len({axis.name for axis in shape.axes}) < len(shape.axes):
            raise fields.fault("axes", "made of distinct columns")
        return shape

    shapes = body.each("tables", read_shape)
    if len({shape.name for shape in shapes}) < len(shapes):
        raise body.fault("tables", "a list of distinct names")
    return shapes


def read_is_laplace(noise: Fields) -> bool:
    """Read whether noise is Laplace, or Gaussian. Raise `ServiceError` on any other."""
    distribution = noise.text("distribution")
    if distribution not in {"discrete_gaussian", "discrete_laplace"}:
        raise noise.fault("distribution", "a law that this version knows: a newer one may know more")
    return distribution == "discrete_laplace"


def fields_number(fields: Fields, value: Any) -> float:
    """Read a number of an array."""
    return Fields({"edges": value}, fields.where).number("edges")


def are_edges(edges: Sequence[float]) -> bool:
    """Return whether numbers are edges of bins."""
    return len(edges) >= 2 and all(map(math.isfinite, edges)) and all(low < high for low, high in pairwise(edges))


def match_tables(asked: Sequence[Sequence[Axis]], answered: Sequence[TableShape]) -> list[tuple[int, tuple[int, ...]]]:
    """Return for each table that was asked its place among those of an answer, and the places of its axes there.

    Raises
    ------
    ServiceError
        When other tables were answered.
    """
    left = dict(enumerate(answered))
    found = {}
    # Axes with edges of their own go first: else an axis of equal bins could take their answer.
    for number, axes in sorted(enumerate(asked), key=lambda one: sum(axis.bins is not None for axis in one[1])):
        for place, shape in left.items():
            order = tuple(j for axis in axes for j, other in enumerate(shape.axes) if axis.is_answered_by(other))
            if len(order) == len(axes) == len(shape.axes):
                found[number] = (place, order)
                del left[place]
                break
        else:
            raise ServiceError("malformed answer: it has other tables than were asked")
    if left:
        raise ServiceError("malformed answer: it has more tables than were asked")
    return [found[number] for number in range(len(asked))]
