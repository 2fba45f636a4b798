"""Bounds and values of expressions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.expressions.elementary import Floats
from curator_service.privacy.expressions.errors import ExpressionError
from curator_service.privacy.expressions.operators import LARGEST, OPERATORS, TRUTH_BOUNDS, Interval
from curator_service.privacy.expressions.tree import Call, Expression, Leaf, Literal, Type
from curator_service.privacy.lattice import MISSING, STORED_UNIT, FlagArray, StoredArray, center_and_scale


@dataclass(frozen=True, slots=True)
class Values:
    """What an expression gives for each row.

    Attributes
    ----------
    numbers : ndarray of float64, shape (n,)
        Finite for every row. Truths are 0 and 1; levels are their places among `levels_of`.
    present : ndarray of bool, shape (n,)
        False where it is missing: the number means nothing then.
    """

    numbers: Floats
    present: FlagArray


@lru_cache(maxsize=4096)
def bounds_of(tree: Expression) -> Interval:
    """Return what the values of an expression lie between, from declarations alone.

    Raises
    ------
    ExpressionError
        Where there are no bounds, or only ones that no scale can hold.
    """
    match tree:
        case Literal(value):
            return value, value
        case Leaf(column):
            return (column.lower, column.upper) if column.type is ColumnType.NUMERIC else TRUTH_BOUNDS
        case Call(operator) if operator in OPERATORS:
            lower, upper = OPERATORS[operator].bounds([bounds_of(a) for a in tree.arguments], tree.parameters)
            if max(-lower, upper) > LARGEST:
                raise ExpressionError(f"values of up to {max(-lower, upper):.3g} are too large; divide them first")
            return lower, upper
    return TRUTH_BOUNDS


def levels_of(tree: Expression) -> tuple[str, ...]:
    """Return the levels of an expression that gives one, in order."""
    match tree:
        case Leaf(column):
            return column.levels
        case Call("cut", _, points):
            return tuple(f"{low:g} to {high:g}" for low, high in zip(points[:-1], points[1:], strict=True))
        case Call("reference", (argument,), (level,)):
            return (str(level), *(other for other in levels_of(argument) if other != level))
    raise AssertionError("not a level")


def evaluate(tree: Expression, stored: Mapping[str, StoredArray], count: int) -> Values:
    """Compute an expression for every row.

    Parameters
    ----------
    tree : Expression
    stored : mapping of str to ndarray of int32, shape (n,)
        Stored integers of every column in it. Whatever they are, also in a damaged file, each row has a number.
    count : int
        n.

    Notes
    -----
    A value is missing where something is missing that it is computed of. In three-valued logic: ``and`` is false where
    one side is false, ``or`` is true where one is true, whatever the other misses.
    """
    match tree:
        case Literal(value):
            return Values(np.full(count, value), np.ones(count, np.bool_))
        case Leaf(column):
            return _read(column, stored[column.name])
        case Call("missing", (argument,)):
            found = evaluate(argument, stored, count)
            return Values((~found.present).astype(np.float64), np.ones(count, np.bool_))
    assert isinstance(tree, Call)
    found = [evaluate(argument, stored, count) for argument in tree.arguments]
    present = np.logical_and.reduce([values.present for values in found])
    numbers = [values.numbers for values in found]
    match tree.operator:
        case "in":
            codes = [levels_of(tree.arguments[0]).index(str(level)) for level in tree.parameters]
            return Values(np.logical_or.reduce([numbers[0] == code for code in codes]).astype(np.float64), present)
        case "cut":
            passed = [numbers[0] >= float(point) for point in tree.parameters[1:-1]]
            return Values(np.add.reduce([np.zeros(count), *passed]), present)
        case "reference":
            place = float(levels_of(tree.arguments[0]).index(str(tree.parameters[0])))
            code = numbers[0]
            return Values(np.where(code == place, 0.0, code + (code < place)), present)
        case "and" | "or" as operator:
            decides = 0.0 if operator == "and" else 1.0
            decided = [values.present & (values.numbers == decides) for values in found]
            present |= np.logical_or.reduce(decided)
            # What is missing must not decide.
            numbers = [np.where(values.present, values.numbers, 1.0 - decides) for values in found]
    rule = OPERATORS[tree.operator]
    return Values(rule.compute(numbers, [bounds_of(a) for a in tree.arguments], tree.parameters), present)


def _read(column: Column, stored: StoredArray) -> Values:
    present = stored != MISSING
    if column.type is not ColumnType.NUMERIC:
        last = 1 if column.type is ColumnType.BOOLEAN else len(column.levels) - 1
        return Values(np.clip(stored, 0, last).astype(np.float64), present)
    center, scale = center_and_scale(column.lower, column.upper)
    parts = np.clip(stored, -STORED_UNIT, STORED_UNIT) / STORED_UNIT
    return Values(np.clip(center + scale * parts, column.lower, column.upper), present)
