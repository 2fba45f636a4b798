"""Expressions as Python that makes them again, with the names of `analyst_client.terms`."""

from analyst_client.terms.expression import _BETWEEN, COLUMN, INTERACTION, NUMBER, EqualKnots, Expression

_NAMES = {"polynomial": "poly", "spline": "bs", "natural_spline": "ns", "absolute": "abs"}
_INFIX = {word: sign for word, sign in _BETWEEN.items() if word != INTERACTION} | {"power": " ** "}
_INFIX |= {"negate": "-", "not": "~"}
_BEFORE = {"negate": [""], "not": [""]}
_METHODS = {"in": "isin", "missing": "is_missing", "between": "between"}


def write_python(expression: Expression) -> str:
    """Write an expression.

    Examples
    --------
    >>> from analyst_client.terms import bs, col, interaction, log
    >>> write_python(log(col("age") + 1.0)), write_python(col("sex") == "F")
    ("log((col('age') + 1.0))", "col('sex').isin(['F'])")
    >>> write_python(interaction("sex", bs("age", df=4)))
    "interaction(col('sex'), bs(col('age'), df=4, degree=3))"
    """
    word, parameters = expression.operator, expression.parameters
    if word == COLUMN:
        return f"col({parameters[0]!r})"
    if word == NUMBER:
        return repr(parameters[0])
    parts = [write_python(argument) for argument in expression.arguments]
    if word in _INFIX:
        return f"({_INFIX[word].join([*_BEFORE.get(word, ()), *parts, *map(repr, parameters)])})"
    said = [repr(list(one) if isinstance(one, tuple) else one) for one in parameters]
    if word in _METHODS:
        return f"{parts[0]}.{_METHODS[word]}({', '.join([*parts[1:], *said])})"
    if word in {"spline", "natural_spline"}:
        knots, *degree = parameters
        least = degree[0] if degree else 1
        said = [f"df={knots.count + least}" if isinstance(knots, EqualKnots) else f"knots={said[0]}"]
        said += [f"degree={one}" for one in degree]
    return f"{_NAMES.get(word, word)}({', '.join([*parts, *said])})"
