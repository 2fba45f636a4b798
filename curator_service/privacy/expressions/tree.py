"""The tree of an expression: leaves are declared columns and public numbers, calls are operators of `operators`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from curator_service.privacy.design import Column, ColumnType


class Type(StrEnum):
    """Type of an expression's value for a row. A truth is the number 0 or 1 wherever a number is asked for."""

    NUMBER = "number"
    TRUTH = "truth"
    LEVEL = "level"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A declared column."""

    column: Column

    @property
    def type(self) -> Type:
        """Type of the column's values."""
        by_type = {ColumnType.NUMERIC: Type.NUMBER, ColumnType.BOOLEAN: Type.TRUTH, ColumnType.CATEGORICAL: Type.LEVEL}
        return by_type[self.column.type]


@dataclass(frozen=True, slots=True)
class Literal:
    """A public number."""

    value: float

    @property
    def type(self) -> Type:
        """A number."""
        return Type.NUMBER


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, of expressions and of public parameters.

    Attributes
    ----------
    operator : str
    arguments : tuple of Expression
    parameters : tuple of float or of str
        Cut points, levels, an exponent.
    type : Type
    """

    operator: str
    arguments: "tuple[Expression, ...]"
    parameters: tuple[float, ...] | tuple[str, ...] = ()
    type: Type = Type.NUMBER


Expression = Leaf | Literal | Call
_ONE_PARAMETER = frozenset({"power", "reference"})


def leaves(tree: Expression) -> Iterator[Leaf]:
    """Yield every leaf that is a column, in order, as often as it stands there."""
    match tree:
        case Leaf():
            yield tree
        case Call():
            for argument in tree.arguments:
                yield from leaves(argument)


def count(tree: Expression) -> int:
    """Return how many nodes a tree has."""
    return 1 + (sum(map(count, tree.arguments)) if isinstance(tree, Call) else 0)


def to_json(tree: Expression) -> Any:
    """Return the canonical JSON of a tree."""
    match tree:
        case Leaf():
            return tree.column.name
        case Literal():
            return tree.value
        case Call():
            parameters = list(tree.parameters)
            listed = parameters if tree.operator in _ONE_PARAMETER else [parameters] * bool(parameters)
            return {tree.operator: [*map(to_json, tree.arguments), *listed]}


def sort_key(tree: Expression) -> str:
    """Return a text that orders trees, equal for equal ones alone."""
    return json.dumps(to_json(tree))
