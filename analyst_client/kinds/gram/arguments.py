"""Arguments as an analyst gives them: names of columns, checked, with a hint where something else was given."""

import re
from collections.abc import Sequence

from analyst_client.terms.expression import COLUMN, Expression, as_expression

FORMULA_CHARACTERS = re.compile(r"[~+*:()^|\s]")
"""Characters of a formula, which no name of a column has."""


class Unstated:
    """An argument of which nothing was said; there is one of it."""

    _only: "Unstated | None" = None

    def __new__(cls) -> "Unstated":
        """Return the one that there is."""
        cls._only = cls._only or super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        """Show that nothing was said."""
        return "unstated"


def as_names(names: Sequence[str], argument: str) -> list[str]:
    """Return the names of a list as texts; a lone text is refused."""
    check_list(names, argument)
    return [str(name) for name in names]


def check_list(names: object, argument: str) -> None:
    """Refuse a lone string, whose letters would become names, and a lone expression."""
    if isinstance(names, str | Expression):
        raise ValueError(f"{argument} must be a list: ask with {suggest_columns(str(names), argument)}")  # noqa: TRY004 -- one kind of error for arguments


def as_features(features: "Sequence[str | Expression]", argument: str) -> list[Expression]:
    """Return a list of features; a text with an operator in it is no name of a column."""
    check_list(features, argument)
    listed = [as_expression(feature) for feature in features]
    for feature in listed:
        name = feature.parameters[0] if feature.operator == COLUMN else ""
        if FORMULA_CHARACTERS.search(name):
            raise ValueError(
                f"{argument} must be names of columns or expressions, and {name!r} is none: write it with "
                "analyst_client.terms, such as log(col('kappa')), or give a whole formula, such as 'kappa ~ log(age)'"
            )
    return listed


def suggest_columns(formula: str, argument: str) -> str:
    """Return the arguments that name the columns of a formula.

    Examples
    --------
    >>> suggest_columns("kappa ~ age + log(sex)", "features")
    "features=['age', 'sex'], target='kappa'"
    >>> suggest_columns("age:sex", "features")
    "features=['age', 'sex']"
    """
    left, tilde, right = formula.rpartition("~")
    call = r"[A-Za-z_.][\w.]*(?=\()"  # of a function, which is no column
    names = re.findall(r"[A-Za-z][\w.-]*", re.sub(call, "", right))
    found = f"{argument}={list(dict.fromkeys(names))!r}"
    explained = re.findall(r"[A-Za-z][\w.-]*", re.sub(call, "", left)) if tilde else []
    return f"{found}, target={explained[0]!r}" if explained else found


def check_target(target: object) -> None:
    """Refuse what is no name of one column, nor an expression. Raise `ValueError`."""
    if target is None or isinstance(target, str | Expression):
        return
    listed = list(target) if isinstance(target, list | tuple) else []
    if listed and all(isinstance(name, str) for name in listed):
        several = "; several are asked for with targets=[…], and a fit without target fits all of them"
        raise ValueError(f"target is one name, such as target={listed[0]!r}{several}")
    raise ValueError("target is the name of one column: no values are given, as the curator holds them")
