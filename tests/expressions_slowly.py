"""Values of expressions, bases and products, row by row, in Python's own floats and integers: another program."""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

from curator_service.privacy.bases import Basis, Polynomial, Spline
from curator_service.privacy.design import Column, ColumnType, Term, TermKind
from curator_service.privacy.expressions import DerivedColumn
from curator_service.privacy.expressions.evaluate import bounds_of
from curator_service.privacy.expressions.tree import Call, Expression, Leaf, Literal, Type
from curator_service.privacy.lattice import decimals_of

Q, UPPER, MISSING = 2**17 - 1, 2**30, -(2**31)
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
    if column.type is not ColumnType.NUMERIC:
        return float(stored) if stored in range(max(2, len(column.levels))) else None
    if stored == MISSING:
        return None
    center, scale = column.lower / 2 + column.upper / 2, column.upper / 2 - column.lower / 2
    value = center + scale * (min(max(stored, -UPPER), UPPER) / UPPER)
    decimals = decimals_of(column.lower, column.upper)
    if decimals is not None:
        power = float(f"1e{abs(decimals)}")
        value = round(value * power) / power if decimals >= 0 else round(value / power) * power
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
    return hold(round((value - center) / scale * UPPER))


def hold(stored: int) -> int:
    return min(max(stored, -UPPER), UPPER)


def weigh(column: Column, row: Row) -> float | None:
    """Return the weight of a row, in [0, 1]; None where it is missing."""
    stored = store(column, row)
    if stored == MISSING:
        return None
    center, scale = column.lower / 2 + column.upper / 2, column.upper / 2 - column.lower / 2
    return min(max(center + scale * (hold(stored) / UPPER), 0.0), 1.0)


def code(term: Term, columns: Mapping[str, Column], row: Row) -> int:
    """Return a term of one row, an integer in ``[-q, q]``."""
    if term.kind is TermKind.CONSTANT:
        return Q
    if term.kind is TermKind.PRODUCT:
        product = code(term.factors[0], columns, row)
        for factor in term.factors[1:]:
            other = code(factor, columns, row)
            sign = -1 if (product < 0) != (other < 0) else 1
            product = sign * (abs(product) * abs(other) // Q)
        return product
    column = columns[term.column or ""]
    stored = store(column, row)
    if term.kind in {TermKind.NUMERIC, TermKind.BASIS}:
        if stored == MISSING:
            return 0
        place = round(Fraction(hold(stored) * Q, UPPER))
        return place if term.basis is None else draw(term.basis, term.place or 0, column, Fraction(place, Q))
    wanted = {TermKind.BOOLEAN: 1, TermKind.MISSING: MISSING}.get(term.kind, term.level)
    return Q if stored == wanted else 0


@lru_cache(2**14)
def draw(basis: Basis, place: int, column: Column, u: Fraction) -> int:
    """Return a function of a basis at u in [-1, 1], of a lattice: by exact recurrences, rounded once at the end."""
    if isinstance(basis, Polynomial):
        return round(legendre(place + 1, u) * Q)
    center, scale = column.lower / 2 + column.upper / 2, column.upper / 2 - column.lower / 2
    inner = [Fraction((knot - center) / scale) for knot in basis.knots]
    knots = [Fraction(-1)] * (basis.degree + 1) + inner + [Fraction(1)] * (basis.degree + 1)
    weights = natural_weights(basis, knots)[place] if basis.natural else {place: Fraction(1)}
    value = sum(weight * b_spline(i, basis.degree, knots, u) for i, weight in weights.items())
    return math.floor(value * Q * (1 - Fraction(1, 2**40)))


def legendre(k: int, u: Fraction) -> Fraction:
    """Return P_k(u) by Bonnet's recurrence."""
    before, now = Fraction(1), u
    for j in range(1, k):
        before, now = now, ((2 * j + 1) * u * now - j * before) / (j + 1)
    return now


def b_spline(i: int, degree: int, knots: list[Fraction], u: Fraction) -> Fraction:
    """Return a B-spline by the recurrence of Cox and de Boor; the last interval holds the upper bound."""
    if degree == 0:
        return Fraction(knots[i] <= u < knots[i + 1] or (u == knots[-1] == knots[i + 1] > knots[i]))
    total = Fraction(0)
    if knots[i + degree] > knots[i]:
        total += (u - knots[i]) / (knots[i + degree] - knots[i]) * b_spline(i, degree - 1, knots, u)
    if knots[i + degree + 1] > knots[i + 1]:
        rest = (knots[i + degree + 1] - u) / (knots[i + degree + 1] - knots[i + 1])
        total += rest * b_spline(i + 1, degree - 1, knots, u)
    return total


def natural_weights(basis: Spline, knots: list[Fraction]) -> list[dict[int, Fraction]]:
    """Return each natural spline as a sum of B-splines: the second one from a bound is shared by its neighbours.

    The second derivative of Σ c_i B_i at the lower bound is 6/h₀ times (c₂ − c₁)/h₁ − (c₁ − c₀)/h₀, with h₀ and h₁ the
    distances of the first and the second knot from it.
    """
    last = len(basis.knots) + 3
    kept = {i: {i: Fraction(1)} for i in range(last + 1) if i not in (1, last - 1)}
    second = knots[5] if len(basis.knots) > 1 else knots[-1]
    near, far = knots[4] - knots[0], second - knots[0]
    kept[0][1], kept[2][1] = far / (near + far), near / (near + far)
    second = knots[-6] if len(basis.knots) > 1 else knots[0]
    near, far = knots[-1] - knots[-5], knots[-1] - second
    kept[last][last - 1], kept[last - 2][last - 1] = far / (near + far), near / (near + far)
    return [kept[i] for i in sorted(kept)]
