"""Expressions and bases of an analyst's own rows, as a curator computes them of the hospital's."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.terms.expression import COLUMN, NUMBER, Expression


@dataclass(frozen=True, eq=False)
class Values:
    """Values for each row.

    Attributes
    ----------
    numbers : ndarray of shape (n,)
        NaN where a value is missing. A truth is 0 or 1; a level is its place.
    levels : tuple of str
        Of a category, and the labels of a boolean.
    is_boolean : bool
        Whether it is a column that is true or false.
    """

    numbers: FloatArray
    levels: tuple[str, ...] = ()
    is_boolean: bool = False

    @property
    def is_category(self) -> bool:
        """True if it has levels, and is not true or false."""
        return bool(self.levels) and not self.is_boolean


def evaluate(expression: Expression, rows: Mapping[str, Values]) -> Values:
    """Compute an expression for every row.

    Parameters
    ----------
    expression : Expression
        As answers state it: cut points with the bounds before and behind them.
    rows : mapping of str to Values
        Of every column that it is made of.

    Returns
    -------
    Values
        Missing where something is missing that it is computed of, and where there is none, as for the logarithm of a
        negative number. ``and`` is false where one side is false, whatever the other misses.

    Raises
    ------
    ValueError
        When it has a column, a level or an operator that is not known here.
    """
    name = expression.operator
    if name == COLUMN:
        if expression.parameters[0] not in rows:
            raise ValueError(f"there is no column {expression.parameters[0]!r}")
        return rows[expression.parameters[0]]
    if name == NUMBER:
        return Values(np.array(expression.parameters[0]))
    found = [evaluate(argument, rows) for argument in expression.arguments]
    if name in _OF_LEVELS:
        return _OF_LEVELS[name](found[0], expression.parameters)
    if name not in _OF_NUMBERS:
        raise ValueError(f"this version does not know the operator {name!r}: a newer one may")
    numbers = [values.numbers for values in found]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return Values(_OF_NUMBERS[name](numbers, expression.parameters))


def _known(values: Any, numbers: Sequence[FloatArray]) -> FloatArray:
    """Return values, but NaN where one of the numbers is missing that they were made of."""
    missing = reduce(np.logical_or, map(np.isnan, numbers))
    return np.where(missing, np.nan, np.asarray(values, dtype=np.float64))


def _join(numbers: Sequence[FloatArray], decisive: float) -> FloatArray:
    decided = reduce(np.logical_or, [values == decisive for values in numbers])
    return np.where(decided, decisive, _known(np.full(np.shape(decided), 1.0 - decisive), numbers))


def _is_in(category: Values, parameters: tuple[Any, ...]) -> Values:
    places = [_place(category.levels, level) for level in parameters[0]]
    return Values(_known(np.isin(category.numbers, places), [category.numbers]))


def _cut(number: Values, parameters: tuple[Any, ...]) -> Values:
    points = np.asarray(parameters[0])
    passed = np.clip(np.searchsorted(points, number.numbers, side="right") - 1, 0, len(points) - 2)
    levels = tuple(f"{write_number(low)} to {write_number(high)}" for low, high in pairwise(points.tolist()))
    return Values(_known(passed, [number.numbers]), levels)


def _put_first(category: Values, parameters: tuple[Any, ...]) -> Values:
    codes, levels = category.numbers, category.levels
    first = _place(levels, parameters[0])
    return Values(
        np.where(codes == first, 0.0, codes + (codes < first)), (levels[first], *levels[:first], *levels[first + 1 :])
    )


def _place(levels: tuple[str, ...], level: str) -> int:
    if level not in levels:
        raise ValueError(f"there is no level {level!r}; there are {', '.join(levels)}")
    return levels.index(level)


def write_number(number: float) -> str:
    """Write a cut point as levels do."""
    return repr(number).removesuffix(".0")


_OF_NUMBERS: Mapping[str, Callable[[Sequence[FloatArray], tuple[Any, ...]], FloatArray]] = {
    "add": lambda x, _: reduce(operator.add, x),
    "subtract": lambda x, _: x[0] - x[1],
    "multiply": lambda x, _: reduce(operator.mul, x),
    "divide": lambda x, _: x[0] / x[1],
    "power": lambda x, parameters: x[0] ** int(parameters[0]),
    "negate": lambda x, _: -x[0],
    "absolute": lambda x, _: np.abs(x[0]),
    "minimum": lambda x, _: reduce(np.minimum, x),
    "maximum": lambda x, _: reduce(np.maximum, x),
    "log": lambda x, _: np.log(x[0]),
    "exp": lambda x, _: np.exp(x[0]),
    "sqrt": lambda x, _: np.sqrt(x[0]),
    "not": lambda x, _: 1.0 - x[0],
    "and": lambda x, _: _join(x, 0.0),
    "or": lambda x, _: _join(x, 1.0),
    "missing": lambda x, _: np.isnan(x[0]).astype(np.float64),
    "less": lambda x, _: _known(x[0] < x[1], x),
    "less_equal": lambda x, _: _known(x[0] <= x[1], x),
    "greater": lambda x, _: _known(x[0] > x[1], x),
    "greater_equal": lambda x, _: _known(x[0] >= x[1], x),
    "equal": lambda x, _: _known(x[0] == x[1], x),
    "not_equal": lambda x, _: _known(x[0] != x[1], x),
    "between": lambda x, _: _known((x[1] <= x[0]) & (x[0] <= x[2]), x),
}
_OF_LEVELS: Mapping[str, Callable[[Values, tuple[Any, ...]], Values]] = {
    "in": _is_in,
    "cut": _cut,
    "reference": _put_first,
}


def basis_values(word: str, parameters: tuple[Any, ...], numbers: FloatArray) -> FloatArray:
    """Return the functions of a basis, of shape (n, functions).

    Parameters
    ----------
    word : str
        ``"polynomial"``, ``"spline"`` or ``"natural_spline"``.
    parameters : tuple
        A degree; or knots, in scaled units, and a degree.
    numbers : ndarray of shape (n,)
        Scaled by the bounds to ±1. Splines stay as they are at a bound beyond it; polynomials go on.

    Notes
    -----
    A natural spline shares each function that bends at a bound between its neighbours, in the weights that leave no
    second derivative there: (h₁ c₀ + h₀ c₂)/(h₀ + h₁) for c₁, with h₀ = t₄ − t₁ and h₁ = t₅ − t₂.
    """
    if word == "polynomial":
        return np.asarray(np.polynomial.legendre.legvander(numbers, int(parameters[0]))[:, 1:], dtype=np.float64)
    from scipy.interpolate import BSpline  # noqa: PLC0415 -- most models have no spline

    inner, degree = parameters
    knots = np.array([-1.0] * (degree + 1) + list(inner) + [1.0] * (degree + 1))
    missing = np.isnan(numbers)
    held = np.clip(np.where(missing, 0.0, numbers), -1.0, 1.0)
    values: FloatArray = BSpline.design_matrix(held, knots, degree).toarray()
    if word == "natural_spline":
        for _ in range(2):
            near, far = knots[4] - knots[1], knots[5] - knots[2]
            share = far / (near + far)
            first, second = values[:, 0] + share * values[:, 1], values[:, 2] + (1.0 - share) * values[:, 1]
            values = np.column_stack([first, second, values[:, 3:]])[:, ::-1]
            knots = -knots[::-1]
    return np.where(missing[:, np.newaxis], np.nan, values)
