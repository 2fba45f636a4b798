"""Match each requested feature to a feature of the answer: a curator rewrites and reorders equal expressions.

What is computed is compared by its values on made-up rows, so an answer of something else is noticed too.
"""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.schema.columns import Column, DerivedColumn, stored_columns
from analyst_client.terms.expression import BASES, COLUMN, INTERACTION, Expression, as_expression, read_expression
from analyst_client.terms.values import Values, evaluate

ROWS, AGREEMENT = 512, 0.95
"""Rows that are made up, and the part on which two expressions agree: rounding may move one across a cut point."""
MISSING_SHARE = 0.1


class Named(NamedTuple):
    """Names of features and targets, in the order that was asked."""

    features: tuple[str, ...]
    targets: tuple[str, ...]


def match_features(
    known: Mapping[str, Expression], columns: Sequence[Column], request: Mapping[str, Any]
) -> Named | None:
    """Return the names of what a request asks for; None where an answer has something else.

    Parameters
    ----------
    known : mapping of str to Expression
        Features and targets of an answer.
    columns : sequence of Column
        The answer's.
    request : mapping
        Members ``features`` and ``targets``, as JSON.
    """
    rows = None
    found: list[list[str]] = []
    left = dict(known)
    for role in ("features", "targets"):
        found.append([])
        for value in request.get(role, []):
            asked = read_expression(value)
            name = asked.parameters[0] if asked.operator == COLUMN else None
            if name is None:
                rows = make_rows(columns) if rows is None else rows
                name = _find(asked, left, rows)
            if name not in left:
                return None
            del left[name]
            found[-1].append(name)
    return None if left else Named(tuple(found[0]), tuple(found[1]))


def name_of(asked: "str | Expression", known: Mapping[str, Expression], columns: Sequence[Column]) -> str:
    """Return the name of one feature or target; a text that is none is returned as it is."""
    expression = as_expression(asked)
    if expression.operator == COLUMN:
        return str(expression.parameters[0])
    return _find(expression, known, make_rows(columns)) or repr(expression)


def names_column(asked: Expression, column: Column) -> bool:
    """Return True if a column of an answer is the requested expression."""
    if not isinstance(column, DerivedColumn):
        return (asked.operator, asked.parameters) == (COLUMN, (column.name,))
    return is_same(asked, column.expression, make_rows([column]))


def _find(asked: Expression, known: Mapping[str, Expression], rows: Mapping[str, Values]) -> str | None:
    exact = [name for name, expression in known.items() if expression.to_json() == asked.to_json()]
    return next(iter(exact), None) or next((name for name, one in known.items() if is_same(asked, one, rows)), None)


def is_same(asked: Expression, answered: Expression, rows: Mapping[str, Values]) -> bool:
    """Return whether two features are the same function of a row."""
    word = asked.operator
    if not {word, answered.operator} & {INTERACTION, *BASES}:
        return _same_values(asked, answered, rows)
    if word != answered.operator or len(asked.arguments) != len(answered.arguments):
        return False
    if word in BASES and not _same_parameters(asked, answered):
        return False
    return any(
        all(is_same(one, other, rows) for one, other in zip(asked.arguments, order, strict=True))
        for order in permutations(answered.arguments)
    )


def _same_values(asked: Expression, answered: Expression, rows: Mapping[str, Values]) -> bool:
    try:
        one, other = evaluate(_open(asked), rows), evaluate(answered, rows)
    except ValueError:
        return False
    if one.is_category != other.is_category:
        return False
    a, b = (_ranks(values) if values.is_category else values.numbers for values in (one, other))
    a, b = np.broadcast_arrays(a, b)
    scale = float(np.nanmax(np.abs(b), initial=1e-300))
    return bool(np.mean((np.abs(a - b) <= 1e-7 * scale) | (np.isnan(a) & np.isnan(b))) >= AGREEMENT)


def _same_parameters(asked: Expression, answered: Expression) -> bool:
    one, other = ((*expression.parameters, 3)[:2] for expression in (asked, answered))
    degrees = one[0] == other[0] if asked.operator == "polynomial" else one[1] == other[1]
    if asked.operator == "polynomial" or not degrees:
        return bool(degrees)
    return len(one[0]) == len(other[0]) and np.allclose(one[0], other[0], rtol=1e-12)


def _open(expression: Expression) -> Expression:
    """Leave no number outside of cut points: an analyst may leave out the bounds before and behind them."""
    arguments = tuple(map(_open, expression.arguments))
    parameters = expression.parameters
    if expression.operator == "cut":
        parameters = ((-np.inf, *parameters[0], np.inf),)
    return Expression(expression.operator, arguments, parameters)


def _ranks(values: Values) -> FloatArray:
    """Return levels numbered by those that occur, in order."""
    known = ~np.isnan(values.numbers)
    found = np.full(len(values.numbers), np.nan)
    found[known] = np.unique(values.numbers[known], return_inverse=True)[1]
    return found


def make_rows(columns: Sequence[Column]) -> dict[str, Values]:
    """Return made-up rows of the columns that an analyst would have, evenly within their bounds."""
    generator = np.random.default_rng(0)
    found = {}
    for column in stored_columns(columns):
        if column.type == "numeric":
            low, high = (-1.0, 1.0) if column.lower is None or column.upper is None else (column.lower, column.upper)
            numbers = low + (high - low) * generator.random(ROWS)
        else:
            numbers = generator.integers(len(column.levels), size=ROWS).astype(np.float64)
        if column.missing != "complete":
            numbers[generator.random(ROWS) < MISSING_SHARE] = np.nan
        found[column.name] = Values(numbers, column.levels, column.type == "boolean")
    return found
