"""Columns, terms and targets of a release, read from answers and quotes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from analyst_client.kinds.combinations import Combinations, read_combinations
from analyst_client.schema.columns import COMBINATION, Column, DerivedColumn, Term
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import Expression, col, read_expression


def read_coding(body: Fields) -> dict[str, Any]:
    """Read what terms and targets are made of, from an answer or a quote; raise `ServiceError` on a wrong one."""
    features = body.each("features", Column.read)
    terms, targets = body.each("terms", Term.read), body.each("targets", Term.read)
    combined = body.each("combined", Term.read) if body.has("combined") else ()
    coded = combined or terms
    named = {column.name: column for column in features}
    known = read_columns(body, named)
    computed = [target.name for target in targets if isinstance(known.get(target.name), DerivedColumn)]
    used = dict.fromkeys([*(name for term in coded for name in term.columns), *computed])
    return {
        "features": tuple(known[column.name] for column in features),
        "inner_columns": tuple(known[name] for name in used if name in known and name not in named),
        "terms": terms,
        "targets": targets,
        "expressions": _read_expressions(body, known, name_features(features, coded)),
        "combined": combined,
        "posted": _read_combinations(body, terms, combined),
    }


def read_columns(body: Fields, features: dict[str, Column]) -> dict[str, Column]:
    """Read the columns that an answer lists, declared, as features and computed, by name."""
    if not body.has("columns"):
        return dict(features)
    declared = {column.name: column for column in body.each("columns", Column.read)}
    derived = (
        body.each("derived", lambda fields: DerivedColumn.read_of(fields, declared)) if body.has("derived") else ()
    )
    return declared | features | {column.name: column for column in derived}


def _read_combinations(body: Fields, terms: Sequence[Term], combined: Sequence[Term]) -> Combinations | None:
    """Read which combinations of which terms a release is of; None where terms are no combinations."""
    are = [term.kind == COMBINATION for term in terms]
    if not any(are) and not combined:
        return None
    if not all(are) or not combined or any(term.kind == COMBINATION for term in combined):
        raise body.fault("terms", "either terms of the request or combinations of those that are listed")
    rows = body.object("request").object("rows")
    return read_combinations(rows, [term.name for term in combined], len(terms))


def _read_expressions(body: Fields, columns: Mapping[str, Column], names: Sequence[str]) -> dict[str, Expression]:
    """Return what each feature and target of a release is asked for as, by name."""
    if not body.has("request"):
        return {name: col(name) for name in names}
    request = body.object("request")
    asked = {role: request.array(role) if request.has(role) else [] for role in ("features", "targets")}
    return read_expressions(request, asked, columns, names)


def read_expressions(
    request: Fields, asked: Mapping[str, Sequence[Any]], columns: Mapping[str, Column], names: Sequence[str]
) -> dict[str, Expression]:
    """Return what features and targets are asked for as, by name; those of bases and interactions are in order.

    Parameters
    ----------
    request : Fields
    asked : mapping of str to sequence
        What the request asks for, by the member that does.
    columns : mapping of str to Column
    names : sequence of str
        Names of features.
    """
    derived = {
        json.dumps(column.expression.to_json()): name
        for name, column in columns.items()
        if isinstance(column, DerivedColumn)
    }
    made = iter([name for name in names if name not in columns])
    found = {}
    for role, values in asked.items():
        for value in values:
            try:
                expression = read_expression(value)
            except ValueError as error:
                raise request.fault(role, f"made of expressions: {error}") from None
            name = value if isinstance(value, str) else derived.get(json.dumps(expression.to_json())) or next(made, "")
            found[name] = expression
    return found


def name_features(columns: Sequence[Column], terms: Sequence[Term]) -> tuple[str, ...]:
    """Return the names of features: of columns by themselves, and of what terms are made of beside them, in order."""
    named = [column.name for column in columns]
    known = [term for term in terms if term.column is not None and (term.kind != "missing" or term.column in named)]
    ordered = list(dict.fromkeys(str(term.column) for term in known))
    if set(ordered) <= set(named):
        return tuple(named)
    return (*ordered, *(name for name in named if name not in ordered))


def check_terms(
    body: Fields,
    columns: Sequence[Column],
    terms: Sequence[Term],
    combined: Sequence[Term],
    targets: Sequence[Term],
) -> None:
    """Refuse terms that no estimator could read."""
    known, coded = {column.name: column for column in columns}, combined or terms
    if not coded or any(term.kind == "constant" for term in coded[1:]):
        raise body.fault("terms", "a list of terms with at most one constant, at its head")
    if len(known) != len(columns) or any(name not in known for term in coded for name in term.columns):
        raise body.fault("terms", "made of the listed features")
    parts = [part for term in coded for part in (term, *term.factors)]
    if any(part.kind == "level" and part.level not in known[str(part.column)].levels for part in parts):
        raise body.fault("terms", "made of declared levels")
    if any(term.kind not in {"numeric", "boolean"} for term in targets):
        raise body.fault("targets", "a list of numeric or boolean targets")
    for name, listed in (("terms", terms), ("combined", combined), ("targets", targets)):
        if len({term.name for term in listed}) != len(listed):
            raise body.fault(name, "a list of distinct names")
