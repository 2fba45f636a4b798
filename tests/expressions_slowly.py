"""What expressions, bases and products mean, row by row, in Python's own floats and integers: another program."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from curator_service.privacy.design import Column, ColumnType, Curve, Feature, Interaction, Term, TermKind
from curator_service.privacy.expressions import DerivedColumn
from curator_service.privacy.expressions.evaluate import bounds_of
from curator_service.privacy.expressions.tree import Call, Expression, Leaf, Literal, Type
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT

Row = Mapping[str, int]


def compute(tree: Expression, row: Row) -> float | None:
    """Return the value of an expression for one row; None is missing."""
    if isinstance(tree, Literal):
        return tree.value
    if isinstance(tree, Leaf):
        return _read(tree.column, row[tree.column.name])
    found = [compute(argument, row) for argument in tree.arguments]
    if tree.operator == "missing":
        return float(found[0] is None)
    if tree.operator in {"and", "or"}:
        decisive = 0.0 if tree.operator == "and" else 1.0
        return decisive if decisive in found else None if None in found else 1 - decisive
    if None in found:
        return None
    return flush(_apply(tree, [value for value in found if value is not None]))


def flush(value: float) -> float:
    return value if abs(value) >= 1e-100 else 0.0


def _apply(tree: Call, values: list[float]) -> float:
    held = [
        min(max(value, low), high) for value, (low, high) in zip(values, map(bounds_of, tree.arguments), strict=True)
    ]
    first = values[0]
    match tree.operator:
        case "add":
            return _fold(values, lambda a, b: a + b)
        case "multiply":
            return _fold(values, lambda a, b: flush(a * b))
        case "power":
            return _fold([first] * int(tree.parameters[0]), lambda a, b: flush(a * b))
        case "divide":
            return first / held[1]
        case "absolute":
            return abs(first)
        case "minimum":
            return min(values)
        case "maximum":
            return max(values)
        case "sqrt":
            return math.sqrt(held[0])
        case "log":
            return log(held[0])
        case "exp":
            return exp(held[0])
        case "less":
            return float(first < values[1])
        case "less_equal":
            return float(first <= values[1])
        case "equal":
            return float(first == values[1])
        case "not":
            return 1 - first
        case "in":
            return float(_levels(tree.arguments[0])[int(first)] in tree.parameters)
        case "cut":
            return float(sum(first >= float(point) for point in tree.parameters[1:-1]))
        case "reference":
            inner = _levels(tree.arguments[0])
            return float(_levels(tree).index(inner[int(first)]))
    raise AssertionError(tree.operator)


def _fold(values: list[float], combine: Any) -> float:
    total = values[0]
    for value in values[1:]:
        total = combine(total, value)
    return total


def log(x: float) -> float:
    m, e = math.frexp(x)
    if m < math.sqrt(0.5):
        m, e = 2 * m, e - 1
    f = (m - 1) / (m + 1)
    series = 0.0
    for k in reversed(range(12)):
        series = series * (f * f) + 1 / (2 * k + 1)
    return e * float.fromhex("0x1.62e42feep-1") + (2 * f * series + e * float.fromhex("0x1.a39ef35793c76p-33"))


def exp(x: float) -> float:
    high, low = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
    k = round(x / (high + low))
    r = (x - k * high) - k * low
    series = 0.0
    for i in reversed(range(15)):
        series = series * r + 1 / math.factorial(i)
    return math.ldexp(series, k)


def _levels(tree: Expression) -> tuple[str, ...]:
    if isinstance(tree, Leaf):
        return tree.column.levels
    assert isinstance(tree, Call)
    if tree.operator == "reference":
        first = str(tree.parameters[0])
        return (first, *[level for level in _levels(tree.arguments[0]) if level != first])
    return tuple(f"{low} to {high}".replace(".0 ", " ").removesuffix(".0") for low, high in pairwise(tree.parameters))


def _read(column: Column, stored: int) -> float | None:
    if stored == MISSING:
        return None
    if column.type is not ColumnType.NUMERIC:
        return float(min(max(stored, 0), max(1, len(column.levels) - 1)))
    center, scale = column.lower / 2 + column.upper / 2, column.upper / 2 - column.lower / 2
    value = center + scale * (min(max(stored, -STORED_UNIT), STORED_UNIT) / STORED_UNIT)
    return flush(min(max(value, column.lower), column.upper))


def store(column: Column, row: Row) -> int:
    """Return the stored integer of a column, derived or not."""
    if not isinstance(column, DerivedColumn):
        return row[column.name]
    value = compute(column.expression, row)
    if value is None:
        return MISSING
    if column.expression.type is not Type.NUMBER:
        return int(value)
    center, scale = column.lower / 2 + column.upper / 2, column.upper / 2 - column.lower / 2
    return min(max(round((value - center) / scale * STORED_UNIT), -STORED_UNIT), STORED_UNIT)


def code(term: Term, columns: Mapping[str, Column], row: Row) -> int:
    """Return a term of one row, an integer in ``[-q, q]``."""
    if term.kind is TermKind.CONSTANT:
        return UNIT
    if term.kind is TermKind.PRODUCT:
        product = code(term.factors[0], columns, row)
        for factor in term.factors[1:]:
            other = code(factor, columns, row)
            sign = -1 if (product < 0) != (other < 0) else 1
            product = sign * (abs(product) * abs(other) // UNIT)
        return product
    stored = store(columns[term.column or ""], row)
    if term.kind is TermKind.NUMERIC:
        return 0 if stored == MISSING else round(min(max(stored, -STORED_UNIT), STORED_UNIT) * UNIT / STORED_UNIT)
    wanted = {TermKind.BOOLEAN: 1, TermKind.MISSING: MISSING}.get(term.kind, term.level)
    return UNIT if stored == wanted else 0


def list_columns(feature: Feature) -> list[Column]:
    match feature:
        case Interaction(factors):
            return [column for factor in factors for column in list_columns(factor)]
        case Curve(column):
            return [column]
    return [feature]
