"""Functions of columns, by the names that R and statsmodels give them."""

from collections.abc import Sequence
from itertools import pairwise

from analyst_client.terms.expression import INTERACTION, EqualKnots, Expression, as_expression, as_whole, call

Argument = str | Expression


def exp(argument: Argument) -> Expression:
    """Return an exponential; the bounds of its argument are within ±300.

    Examples
    --------
    >>> from analyst_client.terms import exp
    >>> exp("kappa")
    exp(kappa)
    """
    return call("exp", argument)


def sqrt(argument: Argument) -> Expression:
    """Return a square root; the bounds of its argument are not below 0.

    Examples
    --------
    >>> from analyst_client.terms import sqrt
    >>> sqrt("kappa")
    sqrt(kappa)
    """
    return call("sqrt", argument)


def minimum(*arguments: Argument | float) -> Expression:
    """Return the least of several.

    Examples
    --------
    >>> from analyst_client.terms import minimum
    >>> minimum("creatinine", 2.0)
    minimum(creatinine, 2.0)
    """
    return call("minimum", *arguments)


def maximum(*arguments: Argument | float) -> Expression:
    """Return the largest of several.

    Examples
    --------
    >>> from analyst_client.terms import maximum
    >>> maximum("kappa", "lambda", 0.5)
    maximum(kappa, lambda, 0.5)
    """
    return call("maximum", *arguments)


def cut(argument: Argument, points: Sequence[float]) -> Expression:
    """Return the category in which a number is, between cut points within its bounds.

    Parameters
    ----------
    argument : str or Expression
        A number.
    points : sequence of float
        Increasing. Its levels are called ``60 to 70``: from 60 on, and below 70.

    Examples
    --------
    >>> cut("age", [60, 70])
    cut(age, [60.0, 70.0])
    """
    return Expression("cut", (as_expression(argument),), (_numbers(points),))


def reference(argument: Argument, level: str) -> Expression:
    """Return a category with another level first: beside a constant, coefficients are differences from that one.

    Examples
    --------
    >>> from analyst_client.terms import reference
    >>> reference("sex", "M")
    reference(sex, 'M')
    """
    if not isinstance(level, str):
        raise ValueError(f"a level is a text, such as {str(level)!r}")  # noqa: TRY004 -- one kind of error for arguments
    return Expression("reference", (as_expression(argument),), (level,))


def poly(argument: Argument, degree: int) -> Expression:
    """Return Legendre polynomials of a number over its bounds: 1 to `degree`, orthogonal where it is uniform.

    They span what powers span, with far less noise in a fit; `LinearFit.raw_powers` has coefficients of powers.

    Examples
    --------
    >>> from analyst_client.terms import poly
    >>> poly("age", 2)
    polynomial(age, 2)
    """
    if as_whole(degree, "a degree") == 1:
        return as_expression(argument)
    return Expression("polynomial", (as_expression(argument),), (as_whole(degree, "a degree"),))


def bs(argument: Argument, df: int | None = None, knots: Sequence[float] | None = None, degree: int = 3) -> Expression:
    """Return B-splines of a number.

    Parameters
    ----------
    argument : str or Expression
    df : int, optional
        Number of terms beside a constant: ``df - degree`` knots at equal distances between the declared bounds. Not at
        quantiles, which nobody knows.
    knots : sequence of float, optional
        Within the bounds, in place of `df`.
    degree : int

    Examples
    --------
    >>> bs("age", knots=[60, 70, 80]).to_json()
    {'spline': ['age', [60.0, 70.0, 80.0], 3]}
    """
    degree = as_whole(degree, "a degree")
    placed = _place(df, knots, least=degree, name=f"bs(x, df={degree + 1})")
    return Expression("spline", (as_expression(argument),), (placed, degree))


def ns(argument: Argument, df: int | None = None, knots: Sequence[float] | None = None) -> Expression:
    """Return natural cubic splines of a number: straight at both of its bounds.

    Parameters
    ----------
    argument : str or Expression
    df : int, optional
        Number of terms beside a constant: ``df - 1`` knots at equal distances between the declared bounds.
    knots : sequence of float, optional
        Within the bounds, in place of `df`.

    Examples
    --------
    >>> from analyst_client.terms import ns
    >>> ns("age", df=3)
    natural_spline(age, 2 knots)
    """
    return Expression("natural_spline", (as_expression(argument),), (_place(df, knots, least=1, name="ns(x, df=2)"),))


def interaction(*factors: Argument) -> Expression:
    """Return the products of the terms of several features: every one of each with every one of the others.

    Examples
    --------
    >>> interaction("sex", poly("age", 2)).to_json()
    {'interaction': ['sex', {'polynomial': ['age', 2]}]}
    """
    return call(INTERACTION, *factors)


def _place(df: int | None, knots: Sequence[float] | None, *, least: int, name: str) -> "tuple[float, ...] | EqualKnots":
    if (df is None) == (knots is None):
        raise ValueError(f"a spline has df or knots, such as {name}")
    if knots is not None:
        return _numbers(knots)
    count = as_whole(df, "df") - least
    if count < 1:
        raise ValueError(f"df is at least {least + 1}: {name}")
    return EqualKnots(count)


def _numbers(values: Sequence[float]) -> tuple[float, ...]:
    if isinstance(values, str | int | float):
        raise ValueError("knots and cut points are a list of numbers")  # noqa: TRY004 -- one kind of error for arguments
    points = tuple(float(value) for value in values)
    if not points or not all(low < high for low, high in pairwise(points)):
        raise ValueError("knots and cut points are numbers that increase")
    return points
