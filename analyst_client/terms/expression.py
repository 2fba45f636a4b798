"""Expressions of columns, computed row by row: the JSON tree of requests and answers.

A node is a column, a number, or an operator with its arguments; docs/api.md lists the operators. The curator brings a
tree into one form, derives its bounds, and says what is wrong with it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

COLUMN, NUMBER = "column", "number"
BASES = frozenset({"polynomial", "spline", "natural_spline"})
INTERACTION = "interaction"
_ARGUMENTS = {"cut": 1, "in": 1, "power": 1, "reference": 1, "polynomial": 1, "spline": 1, "natural_spline": 1}
"""Number of arguments before the parameters, for operators that have parameters."""


@dataclass(frozen=True)
class EqualKnots:
    """So many knots, at equal distances between declared bounds: placed when these are known."""

    count: int

    def __repr__(self) -> str:
        """Write the expression in words."""
        return f"{self.count} knots"


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """A function of one row's columns; made by `col` and the functions beside it, and by operators of Python.

    ``+ - * / **`` compute, ``< <= > >= == !=`` compare, ``& | ~`` join conditions. Nothing is computed here: it is what
    a curator is asked to compute.

    Attributes
    ----------
    operator : str
    arguments : tuple of Expression
    parameters : tuple
        A column's name, a number, or what an operator has beside its arguments.

    Examples
    --------
    >>> log(col("creatinine") + 1).to_json()
    {'log': [{'add': ['creatinine', 1.0]}]}
    >>> (col("age") >= 60) & (col("sex") == "F")
    (age >= 60.0) & (sex in ['F'])
    """

    operator: str
    arguments: "tuple[Expression, ...]" = ()
    parameters: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """Refuse several terms where one number is asked for."""
        for argument in self.arguments:
            if argument.operator == INTERACTION or (argument.operator in BASES and self.operator != INTERACTION):
                raise ValueError(f"{argument!r} is several terms, and stands as a feature or in an interaction alone")

    def to_json(self) -> Any:
        """Return it as requests write it."""
        if self.operator in {COLUMN, NUMBER}:
            return self.parameters[0]
        if any(isinstance(p, EqualKnots) for p in self.parameters):
            raise ValueError(f"{self} has no knots yet: they follow from the bounds that a curator declares")
        parameters = [list(p) if isinstance(p, tuple) else p for p in self.parameters]
        return {self.operator: [*(argument.to_json() for argument in self.arguments), *parameters]}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it is made of, each once, in order."""
        return tuple(dict.fromkeys(node.parameters[0] for node in self.nodes() if node.operator == COLUMN))

    def nodes(self) -> "Iterator[Expression]":
        """Yield every node, this one first."""
        yield self
        for argument in self.arguments:
            yield from argument.nodes()

    def __repr__(self) -> str:
        """Write it as Python would."""
        text = self._text()
        return text[1:-1] if text.startswith("(") else text

    def _text(self) -> str:
        if self.operator == COLUMN:
            return str(self.parameters[0])
        if self.operator == NUMBER:
            return repr(self.parameters[0])
        parts = [argument._text() for argument in self.arguments]
        if self.operator in _BETWEEN:
            return f"({_BETWEEN[self.operator].join(parts)})"
        if self.operator in _AROUND:
            return f"({_AROUND[self.operator](parts[0], self.parameters)})"
        plain = [part[1:-1] if part.startswith("(") else part for part in parts]
        shown = [str(list(p)) if isinstance(p, tuple) else repr(p) for p in self.parameters]
        return f"{self.operator}({', '.join([*plain, *shown])})"

    def __bool__(self) -> bool:
        """Refuse: no row is here to decide it."""
        raise TypeError("an expression is no condition of Python: join conditions with & and |, not with and and or")

    def __add__(self, other: object) -> "Expression":
        """Sum."""
        return call("add", self, other)

    def __radd__(self, other: object) -> "Expression":
        """Sum."""
        return call("add", other, self)

    def __sub__(self, other: object) -> "Expression":
        """Difference."""
        return call("subtract", self, other)

    def __rsub__(self, other: object) -> "Expression":
        """Difference."""
        return call("subtract", other, self)

    def __mul__(self, other: object) -> "Expression":
        """Product of two numbers."""
        return call("multiply", self, other)

    def __rmul__(self, other: object) -> "Expression":
        """Product of two numbers."""
        return call("multiply", other, self)

    def __truediv__(self, other: object) -> "Expression":
        """Quotient."""
        return call("divide", self, other)

    def __rtruediv__(self, other: object) -> "Expression":
        """Quotient."""
        return call("divide", other, self)

    def __pow__(self, exponent: int) -> "Expression":
        """Power with a whole exponent."""
        return Expression("power", (self,), (as_whole(exponent, "an exponent"),))

    def __neg__(self) -> "Expression":
        """Opposite."""
        return call("negate", self)

    def __abs__(self) -> "Expression":
        """Size."""
        return call("absolute", self)

    def __lt__(self, other: object) -> "Expression":
        """Return the condition ``self < other``."""
        return call("less", self, other)

    def __le__(self, other: object) -> "Expression":
        """Return the condition ``self <= other``."""
        return call("less_equal", self, other)

    def __gt__(self, other: object) -> "Expression":
        """Return the condition ``self > other``."""
        return call("greater", self, other)

    def __ge__(self, other: object) -> "Expression":
        """Return the condition ``self >= other``."""
        return call("greater_equal", self, other)

    def __eq__(self, other: object) -> "Expression":  # type: ignore[override]  # a condition, as data frames have it
        """Return the condition that this equals a number, or has a level."""
        return self.isin([other]) if isinstance(other, str) else call("equal", self, other)

    def __ne__(self, other: object) -> "Expression":  # type: ignore[override]
        """Return the condition that this differs from a number or a level."""
        return ~self.isin([other]) if isinstance(other, str) else call("not_equal", self, other)

    __hash__ = object.__hash__

    def __and__(self, other: object) -> "Expression":
        """Return the condition that both hold."""
        return call("and", self, other)

    def __or__(self, other: object) -> "Expression":
        """Return the condition that at least one holds."""
        return call("or", self, other)

    def __invert__(self) -> "Expression":
        """Return the condition that this does not hold."""
        return call("not", self)

    def between(self, lower: float, upper: float) -> "Expression":
        """Return whether it is from `lower` to `upper`, both included."""
        return call("between", self, lower, upper)

    def isin(self, levels: "list[str] | tuple[str, ...]") -> "Expression":
        """Return whether a category is at one of these levels."""
        if isinstance(levels, str) or not all(isinstance(level, str) for level in levels):
            raise ValueError("levels are a list of texts, such as ['F', 'M']; compare a number with == or between")
        return Expression("in", (self,), (tuple(levels),))

    def is_missing(self) -> "Expression":
        """Return whether the value of a column is missing."""
        return call("missing", self)


_BETWEEN = {
    "add": " + ", "subtract": " - ", "multiply": " * ", "divide": " / ", "less": " < ", "less_equal": " <= ",
    "greater": " > ", "greater_equal": " >= ", "equal": " == ", "not_equal": " != ",
    "and": " & ", "or": " | ", INTERACTION: ":",
}  # fmt: skip
_AROUND: Mapping[str, Callable[[str, tuple[Any, ...]], str]] = {
    "negate": lambda inner, _: f"-{inner}",
    "not": lambda inner, _: f"~{inner}",
    "power": lambda inner, parameters: f"{inner} ** {parameters[0]:g}",
    "in": lambda inner, parameters: f"{inner} in {list(parameters[0])}",
}


NOTHING = Expression(NUMBER, (), (0.0,))


def call(operator: str, *arguments: object) -> Expression:
    """Return an operator of expressions, numbers, and names of columns as text."""
    return Expression(operator, tuple(map(as_expression, arguments)))


def col(name: str) -> Expression:
    """Return a column, by its name.

    Examples
    --------
    >>> (col("weight") / col("height") ** 2).to_json()
    {'divide': ['weight', {'power': ['height', 2]}]}
    """
    if not isinstance(name, str):
        raise ValueError("a column is named by a text")  # noqa: TRY004 -- one kind of error for arguments
    return Expression(COLUMN, (), (name,))


def log(argument: "str | Expression") -> Expression:
    """Return a natural logarithm; the bounds of its argument are above 0.

    Examples
    --------
    >>> from analyst_client.terms import col, log
    >>> log(col("kappa") + 1)
    log(kappa + 1.0)
    """
    return call("log", argument)


def as_expression(value: object) -> Expression:
    """Return an expression: itself, a number, or a column by its name."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, str):
        return col(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no column, number or expression")  # noqa: TRY004 -- one kind of error
    try:
        return Expression(NUMBER, (), (float(value),))
    except OverflowError:
        raise ValueError("a number is too large") from None


def as_whole(value: object, what: str) -> int:
    """Return a whole number; raise `ValueError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ValueError(f"{what} is a whole number, not {value!r}")
    return int(value)


def read_expression(value: Any) -> Expression:
    """Return the tree of an answer's JSON.

    Raises
    ------
    ValueError
        When it is none.
    """
    if isinstance(value, str | int | float):
        return as_expression(value)
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError("an expression is a column, a number, or an object of one operator")
    ((operator, parts),) = value.items()
    if not isinstance(parts, list) or not parts:
        raise ValueError(f"{operator!r} has no arguments")
    count = _ARGUMENTS.get(operator, len(parts))
    parameters = tuple(tuple(part) if isinstance(part, list) else part for part in parts[count:])
    if any(isinstance(part, dict) for part in parameters):
        raise ValueError(f"{operator!r} has a parameter that is none")
    return Expression(operator, tuple(map(read_expression, parts[:count])), parameters)


def sort_key(expression: Expression) -> str:
    """Return a text that is equal for equal trees alone."""
    return json.dumps(expression.to_json())
