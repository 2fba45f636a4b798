"""Columns, terms and targets of a release, read from answers and quotes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analyst_client.display.model import Inline, join, quiet, untrusted
from analyst_client.kinds.columns import column_namer, read_columns
from analyst_client.kinds.combinations import Combinations, read_combinations
from analyst_client.schema.answers import Stated
from analyst_client.schema.columns import COMBINATION, Column, DerivedColumn, Term, write_words
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import Expression, col, read_expression


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Coded(Stated):
    """Columns, terms and targets of a release or a quote.

    Attributes
    ----------
    features : tuple of Column
        Columns that are features by themselves: not those that only a basis or an interaction is made of.
    inner_columns : tuple of Column
        Columns that only a basis or an interaction is made of, and targets that are computed.
    terms, targets : tuple of Term
        Rows of XᵀX, the constant first if there is one; columns of Xᵀy.
    expressions : mapping of str to Expression
        Features and targets as they are asked for, by name.
    combined : tuple of Term
        Of rows of combinations, see `CombinedRows`, the terms that `terms` are combined of; else none.
    posted : Combinations or None
        The weights of these combinations, as the curator used them.

    Examples
    --------
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> release.feature_names, release.term_names
    (('age', 'sex', 'creatinine', 'lambda'), ('(constant)', 'age', 'sex[M]', 'creatinine', 'lambda'))
    """

    features: tuple[Column, ...]
    inner_columns: tuple[Column, ...]
    terms: tuple[Term, ...]
    targets: tuple[Term, ...]
    expressions: Mapping[str, Expression] = field(compare=False)
    combined: tuple[Term, ...] = ()
    posted: Combinations | None = None

    @classmethod
    def read_stated(cls, body: Fields) -> dict[str, Any]:
        """Read what terms and targets are made of; raise `ServiceError` on a wrong one."""
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

    @property
    def coded_terms(self) -> tuple[Term, ...]:
        """The terms that columns are coded as: what is combined, or else `terms`."""
        return self.combined or self.terms

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that terms are made of, and targets that are computed."""
        return (*self.features, *self.inner_columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features: of columns, bases and interactions."""
        return name_features(self.features, self.coded_terms)

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the D terms, the constant included."""
        return tuple(term.name for term in self.terms)

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the T targets."""
        return tuple(term.name for term in self.targets)

    @property
    def order(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the features and of the targets."""
        return self.feature_names, self.target_names

    @property
    def _title(self) -> str:
        return f"{', '.join(self.target_names) or 'no target'} ~ {', '.join(self.feature_names)}"

    def _caption(self) -> Inline:
        return write_formula(self.dataset, self.feature_names, self.targets)


def write_formula(dataset: str, features: Sequence[str], targets: Sequence[Term]) -> Inline:
    """Write a request as a formula."""
    explained = [write_words([term.name for term in targets]), " ~ "] if targets else []
    return join(*explained, write_words(features), quiet(" of "), untrusted(dataset))


def order_terms(terms: Sequence[Term], features: Sequence[str]) -> list[int]:
    """Return the places of terms in the order of their columns; those of one column stay together as they are."""
    rank = {name: i for i, name in enumerate(features, 1)} | {None: 0}
    return sorted(range(len(terms)), key=lambda i: rank.get(terms[i].column, len(rank)))


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
    """Return what features and targets, by the member that asks for them, are asked for as, by name.

    `names` are those of features, of which bases and interactions are in order.
    """
    name_of, made = column_namer(columns), iter([name for name in names if name not in columns])
    found = {}
    for role, values in asked.items():
        for value in values:
            try:
                expression = read_expression(value)
            except ValueError as error:
                raise request.fault(role, f"made of expressions: {error}") from None
            name = value if isinstance(value, str) else name_of(expression.to_json()) or next(made, "")
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
