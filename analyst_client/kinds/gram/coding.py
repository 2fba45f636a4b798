"""What the terms of a release are made of, as answers and quotes state it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from analyst_client.schema.columns import Column, DerivedColumn, Term
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import Expression, col, read_expression


def read_coding(body: Fields) -> dict[str, Any]:
    """Read what terms and targets are made of, from an answer or a quote; raise `ServiceError` on a wrong one."""
    features = body.each("features", Column.read)
    terms, targets = body.each("terms", Term.read), body.each("targets", Term.read)
    known = {column.name: column for column in features}
    named = known
    if body.has("columns"):
        declared = {column.name: column for column in body.each("columns", Column.read)}
        known = declared | known
        if body.has("derived"):
            derived = body.each("derived", lambda fields: DerivedColumn.read_of(fields, declared))
            known |= {column.name: column for column in derived}
    computed = [target.name for target in targets if isinstance(known.get(target.name), DerivedColumn)]
    used = dict.fromkeys([*(name for term in terms for name in term.columns), *computed])
    return {
        "features": tuple(known[column.name] for column in features),
        "inner_columns": tuple(known[name] for name in used if name in known and name not in named),
        "terms": terms,
        "targets": targets,
        "expressions": _read_expressions(body, known, name_features(features, terms)),
    }


def _read_expressions(body: Fields, columns: Mapping[str, Column], names: Sequence[str]) -> dict[str, Expression]:
    """Return what each feature and target is asked for as, by name; those of bases and interactions are in order."""
    if not body.has("request"):
        return {name: col(name) for name in names}
    request = body.object("request")
    derived = {
        json.dumps(column.expression.to_json()): name
        for name, column in columns.items()
        if isinstance(column, DerivedColumn)
    }
    made = iter([name for name in names if name not in columns])
    found = {}
    for role in ("features", "targets"):
        for value in request.array(role) if request.has(role) else []:
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


def check_terms(body: Fields, columns: Sequence[Column], terms: Sequence[Term], targets: Sequence[Term]) -> None:
    """Refuse terms that no estimator could read."""
    known = {column.name: column for column in columns}
    if not terms or any(term.kind == "constant" for term in terms[1:]):
        raise body.fault("terms", "a list of terms with at most one constant, at its head")
    if len(known) != len(columns) or any(name not in known for term in terms for name in term.columns):
        raise body.fault("terms", "made of the listed features")
    parts = [part for term in terms for part in (term, *term.factors)]
    if any(part.kind == "level" and part.level not in known[str(part.column)].levels for part in parts):
        raise body.fault("terms", "made of declared levels")
    if any(term.kind not in {"numeric", "boolean"} for term in targets):
        raise body.fault("targets", "a list of numeric or boolean targets")
    for name, listed in (("terms", terms), ("targets", targets)):
        if len({term.name for term in listed}) != len(listed):
            raise body.fault(name, "a list of distinct names")
