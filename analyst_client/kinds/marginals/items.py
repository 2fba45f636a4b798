"""Items of marginals: as they are asked, and as they are answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

from analyst_client.arrays import FloatArray
from analyst_client.kinds.arrays import frozen, read_packed
from analyst_client.schema.columns import Column
from analyst_client.schema.quotes import read_deviation, read_is_laplace
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import Expression, as_expression, sort_key
from analyst_client.terms.matching import names_column

ColumnAsked: TypeAlias = str | Expression


@dataclass(frozen=True)
class _Item:
    columns: Sequence[ColumnAsked]

    type: ClassVar[str]
    fineness: ClassVar[str | None] = None
    """Name of the member that says how fine the bins are."""
    fineness_range: ClassVar[tuple[int, int]] = (0, 0)

    def __post_init__(self) -> None:
        """Refuse what cannot be sent. Sequences are read once."""
        title = type(self).__name__
        if isinstance(self.columns, str | Expression):
            raise ValueError(f"columns is a list: one column is {title}([{self.columns!r}])")  # noqa: TRY004 -- one kind of error for arguments
        columns = tuple(self.columns)
        if not columns or not all(isinstance(column, str | Expression) for column in columns):
            raise ValueError(f"{title} has one or more columns, each a name or an expression")
        if len({sort_key(as_expression(column)) for column in columns}) < len(columns):
            raise ValueError(f"{title} names a column twice: it would be charged twice")
        object.__setattr__(self, "columns", columns)
        low, high = self.fineness_range
        if self.fineness and (not isinstance(self.size, int) or not low <= self.size <= high or self.size is True):
            raise ValueError(f"{self.fineness} is a whole number from {low} to {high:,}, not {self.size!r}")

    @property
    def size(self) -> int | None:
        """Levels of a tree, bins of a flat item; None of moments."""
        return None if self.fineness is None else getattr(self, self.fineness)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The columns, or what is computed."""
        return tuple(map(as_expression, self.columns))

    @property
    def members(self) -> dict[str, Any]:
        """Members of the item in a request."""
        columns = [expression.to_json() for expression in self.expressions]
        return {"type": self.type, "columns": columns} | ({self.fineness: self.size} if self.fineness else {})

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for items that ask for the same."""
        return self.type, self.size, frozenset(map(sort_key, self.expressions))


@dataclass(frozen=True)
class Tree(_Item):
    """Counts of rows in 2, 4, 8, … equal bins of the bounds of each column.

    What is asked of many bins at once, as a quantile is, is told by few coarse ones: its error grows with the logarithm
    of how wide the bounds are.

    Parameters
    ----------
    columns : sequence of str or Expression
        Numeric columns, or what is computed of some: see `analyst_client.terms`.
    levels : int
        From 1 to 14: the finest level has 2 to this power bins.

    Raises
    ------
    ValueError
        When there is no column, or one twice, or `levels` is no such number.

    Examples
    --------
    >>> Tree(["age", "kappa"], levels=6).members
    {'type': 'tree', 'columns': ['age', 'kappa'], 'levels': 6}
    """

    levels: int = 8

    type = "tree"
    fineness = "levels"
    fineness_range = (1, 14)


@dataclass(frozen=True)
class Flat(_Item):
    """Counts of rows in equal bins of the bounds of each column.

    Parameters
    ----------
    columns : sequence of str or Expression
        Numeric columns, or what is computed of some: see `analyst_client.terms`.
    bins : int
        From 2 to 10,000.

    Raises
    ------
    ValueError
        When there is no column, or one twice, or `bins` is no such number.

    Examples
    --------
    >>> Flat(["lambda"]).members
    {'type': 'flat', 'columns': ['lambda'], 'bins': 16}
    """

    bins: int = 16

    type = "flat"
    fineness = "bins"
    fineness_range = (2, 10_000)


@dataclass(frozen=True)
class Moments(_Item):
    """The number of rows, the sum of each column and that of its squares.

    Parameters
    ----------
    columns : sequence of str or Expression
        Numeric columns, or what is computed of some: see `analyst_client.terms`.

    Raises
    ------
    ValueError
        When there is no column, or one twice.

    Examples
    --------
    >>> Moments(["age", "lambda"]).members
    {'type': 'moments', 'columns': ['age', 'lambda']}
    """

    type = "moments"


Item: TypeAlias = Tree | Flat | Moments
ITEMS: dict[str, type[Tree] | type[Flat] | type[Moments]] = {"tree": Tree, "flat": Flat, "moments": Moments}


@dataclass(frozen=True)
class ItemShape:
    """An item of an answer or a quote, without its values.

    Attributes
    ----------
    name : str
        Name in the answer, and of its noise.
    type : str
        ``"tree"``, ``"flat"`` or ``"moments"``.
    columns : tuple of Column
    size : int or None
        Levels of a tree, bins of a flat item.
    """

    name: str
    type: str
    columns: tuple[Column, ...]
    size: int | None

    @property
    def shape(self) -> tuple[int, int]:
        """Columns, and numbers that are told of each."""
        width = {"tree": 2 ** ((self.size or 0) + 1) - 2, "flat": self.size or 0, "moments": 3}[self.type]
        return len(self.columns), width

    @property
    def title(self) -> str:
        """The type and the columns, in words.

        Examples
        --------
        >>> ItemShape("marginal_0", "tree", (Column.numeric("age", 50, 100),), 8).title
        'tree of age'
        """
        return f"{self.type} of {', '.join(column.name for column in self.columns)}"

    def arranged(self, order: Sequence[int]) -> Self:
        """Return this item with its columns in another order, each by its place here."""
        return replace(self, columns=tuple(self.columns[j] for j in order))

    def place_of(self, asked: Expression) -> int | None:
        """Return the place of a column, None where it is not one of them."""
        return next((j for j, column in enumerate(self.columns) if names_column(asked, column)), None)

    def places_of(self, asked: _Item) -> tuple[int, ...] | None:
        """Return the places of an item's columns; None where the item is another one."""
        if (self.type, self.size, len(self.columns)) != (asked.type, asked.size, len(asked.columns)):
            return None
        places = tuple(self.place_of(expression) for expression in asked.expressions)
        found = tuple(place for place in places if place is not None)
        return found if len(set(found)) == len(self.columns) else None


@dataclass(frozen=True, eq=False)
class Marginal(ItemShape):
    """An item of an answer.

    Attributes
    ----------
    values : ndarray of shape (columns, numbers)
        Exact sums plus noise, one independent draw in each, as the curator answered them.
    sd : float
        Standard deviation of a draw.
    is_laplace : bool
        Whether draws are Laplace or Gaussian.
    """

    values: FloatArray
    sd: float
    is_laplace: bool

    def arranged(self, order: Sequence[int]) -> Self:
        """Return this item with its columns in another order, each by its place here."""
        return replace(super().arranged(order), values=frozen(self.values[list(order)]))


def read_item(fields: Fields, find_column: Callable[[Fields, str, Any], Column]) -> ItemShape:
    """Read an item of an answer or a quote."""
    asked = ITEMS.get(fields.text("type"))
    if asked is None:
        raise fields.fault("type", "a type that this version knows: a newer one may know more")
    columns = tuple(find_column(fields, "columns", stated) for stated in fields.array("columns"))
    if not columns or len({column.name for column in columns}) < len(columns):
        raise fields.fault("columns", "made of distinct columns")
    if any(column.type != "numeric" or column.lower is None for column in columns):
        raise fields.fault("columns", "made of numbers with bounds")
    size = None if asked.fineness is None else fields.integer(asked.fineness)
    low, high = asked.fineness_range
    if asked.fineness is not None and size is not None and not low <= size <= high:
        raise fields.fault(asked.fineness, f"from {low} to {high}")
    return ItemShape(fields.text("name"), asked.type, columns, size)


def read_marginal(item: ItemShape, statistics: Fields, noise: Fields) -> Marginal:
    """Read the values of an item. Raise `ServiceError` where something is wrong."""
    columns, numbers = item.shape
    values = read_packed(statistics.object(item.name), [columns, numbers], columns * numbers).reshape(item.shape)
    sd, is_laplace = read_deviation(noise, item.name), read_is_laplace(noise)
    return Marginal(item.name, item.type, item.columns, item.size, values, sd, is_laplace)


def bounds_of(column: Column) -> tuple[float, float]:
    """Return the bounds of a column, which every one of a marginal has."""
    assert column.lower is not None
    assert column.upper is not None
    return column.lower, column.upper


def center_and_scale(column: Column) -> tuple[float, float]:
    """Return the middle of a column's bounds and half their width, computed as the curator does.

    Examples
    --------
    >>> center_and_scale(Column.numeric("age", 50, 100))
    (75.0, 25.0)
    """
    low, high = bounds_of(column)
    return low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
