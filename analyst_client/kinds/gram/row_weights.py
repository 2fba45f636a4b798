"""The weight of a row under the ball, written as an expression: so a score can weigh rows as a release did."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.legendre import leg2poly

from analyst_client.schema.columns import Column, DerivedColumn, Term
from analyst_client.terms.expression import Expression, call, col

_FILLED = frozenset({"midpoint", "indicator"})
"""Rules by which a row without a value counts all the same."""


def write_weight(terms: Sequence[Term], columns: Sequence[Column], norm: float) -> Expression:
    r"""Return :math:`w^2 = \min(1, R^2/(1 + \lVert x\rVert^2))` of the terms x beside the constant.

    Terms and columns are those of a release, or its quote; R is in scaled units. Raise `ValueError` where no expression
    of a curator gives the length of a row.

    Examples
    --------
    >>> terms = Term("(constant)", "constant"), Term("sex[M]", "level", "sex", level="M")
    >>> write_weight(terms, [Column.categorical("sex", ["F", "M"])], 1.2)
    minimum(1.0, 1.44 / (1.0 + (sex in ['M'])))
    """
    named = {column.name: column for column in columns}
    features: dict[str | None, list[Term]] = {}
    for term in terms:
        if term.kind != "constant":
            features.setdefault(term.column, []).append(term)
    squares = [_square(own, named) for own in features.values()]
    return call("minimum", 1.0, call("divide", round(norm**2, 12), call("add", 1.0, *squares)))


def _square(own: Sequence[Term], named: Mapping[str, Column]) -> Expression:
    """Return the sum of squares of the terms of one feature: of an interaction the product of its factors' sums."""
    if own[0].factors:
        factors = [list(dict.fromkeys(at)) for at in zip(*(term.factors for term in own), strict=True)]
        return call("multiply", *(_square(factor, named) for factor in factors))
    first = own[0]
    (name,) = first.columns
    column = named[name]
    value = column.expression if isinstance(column, DerivedColumn) else col(name)
    if column.missing in _FILLED and (column.type == "numeric" or isinstance(column, DerivedColumn)):
        raise ValueError(
            f"a row that misses {name} counts by the rule {column.missing!r}, and no expression of a curator is a "
            "number there: ask with rows='box', under which rows need no weight"
        )
    if column.type != "numeric":
        levels = [str(term.level) for term in own if term.kind == "level"]
        truth = value.isin(levels) if levels else value
        if column.missing not in _FILLED:
            return truth
        flagged = any(term.kind == "missing" for term in own)
        return truth | value.is_missing() if flagged else truth & ~value.is_missing()
    center, scale = (first.center, first.scale) if first.basis is None else (first.basis.center, first.basis.scale)
    square = (((value - center) if center else value) / scale) ** 2
    if first.basis is None:
        return square
    if first.basis.word != "polynomial":
        raise ValueError(
            f"{first.column} is a spline, whose length no expression of a curator gives: take poly(…) or cut(…), or "
            "ask with rows='box', under which rows need no weight"
        )
    return _polynomial([term.basis.place + 1 for term in own if term.basis is not None], square)


def _polynomial(degrees: Sequence[int], square: Expression) -> Expression:
    """Return the sum of squares of Legendre polynomials by Horner's rule: it is even, so one of the number's square."""
    whole = sum((Polynomial(leg2poly(np.eye(degree + 1)[degree])) ** 2 for degree in degrees), Polynomial([0.0]))
    *lower, found = whole.coef[::2].tolist()
    for coefficient in reversed(lower):
        found = call("add", coefficient, call("multiply", square, found))
    return call("maximum", 0.0, found)  # as it is; bounds of the sum alone would go below
