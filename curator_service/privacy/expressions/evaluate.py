"""Bounds and values of expressions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise

import numpy as np

from curator_service.privacy.design import Column
from curator_service.privacy.expressions.elementary import Floats, flush
from curator_service.privacy.expressions.errors import ExpressionError
from curator_service.privacy.expressions.operators import LARGEST, OPERATORS, TRUTH_BOUNDS, Interval
from curator_service.privacy.expressions.text import write_number
from curator_service.privacy.expressions.tree import Call, Expression, Leaf, Literal
from curator_service.privacy.lattice import (
    MISSING,
    STORED_UNIT,
    FlagArray,
    StoredArray,
    center_and_scale,
    decimals_of,
    to_decimals,
)


@dataclass(frozen=True, slots=True)
class Values:
    """Values of an expression for each row.

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
            return (column.lower, column.upper) if column.is_number else TRUTH_BOUNDS
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
            return tuple(f"{low} to {high}" for low, high in pairwise(map(write_number, points)))
        case Call("reference", (argument,), (level,)):
            return (str(level), *(other for other in levels_of(argument) if other != level))
    raise AssertionError("not a level")


def evaluate(tree: Expression, stored: Mapping[str, StoredArray], count: int) -> Values:
    """Compute an expression for every row.

    Parameters
    ----------
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
    found = [evaluate(argument, stored, count) for argument in tree.arguments]
    if tree.operator == "missing":
        return Values((~found[0].present).astype(np.float64), np.ones(count, np.bool_))
    present = np.logical_and.reduce([values.present for values in found])
    numbers = [values.numbers for values in found]
    if tree.operator in _DECIDES:
        decides = _DECIDES[tree.operator]
        present |= np.logical_or.reduce([values.present & (values.numbers == decides) for values in found])
        # What is missing must not decide. By arithmetic: a selection takes longer where a processor cannot foresee it.
        numbers = [
            values.numbers * values.present + (1.0 - decides) * np.logical_not(values.present) for values in found
        ]
    if tree.operator in _OF_LEVELS:
        return Values(_OF_LEVELS[tree.operator](tree, numbers[0]), present)
    bounds = [bounds_of(argument) for argument in tree.arguments]
    return Values(flush(OPERATORS[tree.operator].compute(numbers, bounds, tree.parameters)), present)


def _is_in(tree: Call, codes: Floats) -> Floats:
    known = levels_of(tree.arguments[0])
    found: FlagArray = reduce(np.logical_or, (codes == known.index(str(level)) for level in tree.parameters))
    return found.astype(np.float64)


def _cut(tree: Call, numbers: Floats) -> Floats:
    """Return in which interval each number is; beyond the outer cut points it is in the first or in the last."""
    passed = ((numbers >= float(point)).astype(np.float64) for point in tree.parameters[1:-1])
    return reduce(np.add, passed)  # one after the other: a thousand of them would need a thousand times the memory


def _put_first(tree: Call, codes: Floats) -> Floats:
    place = levels_of(tree.arguments[0]).index(str(tree.parameters[0]))
    found: Floats = (codes + (codes < place)) * (codes != place)
    return found


_OF_LEVELS: Mapping[str, Callable[[Call, Floats], Floats]] = {"in": _is_in, "cut": _cut, "reference": _put_first}
_DECIDES: Mapping[str, float] = {"and": 0.0, "or": 1.0}
"""What one side of them decides alone."""


def _read(column: Column, stored: StoredArray) -> Values:
    if not column.is_number:
        last = 1 if column.is_truth else len(column.levels) - 1
        codes = np.clip(stored, 0, last)
        # What is no level of a cluster's column is not another one, as it is none in a one-hot coding.
        return Values(codes.astype(np.float64), codes == stored)
    center, scale = center_and_scale(column.lower, column.upper)
    numbers = np.clip(stored, -STORED_UNIT, STORED_UNIT) / STORED_UNIT
    numbers *= scale
    numbers += center
    # The lattice holds 63.0 as 62.99999998, and `age >= 63` would leave it out.
    numbers = to_decimals(numbers, decimals_of(column.lower, column.upper))
    return Values(flush(np.clip(numbers, column.lower, column.upper, out=numbers)), stored != MISSING)
