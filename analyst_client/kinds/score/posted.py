"""Members of a score request and its answer: terms, a target, a loss, coefficients and directions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

from analyst_client.arrays import FloatArray
from analyst_client.error_base import ServiceError
from analyst_client.kinds.arrays import frozen
from analyst_client.kinds.combinations import BITS_MAX, Combinations, read_combinations
from analyst_client.kinds.gram.coding import check_terms, name_features, read_columns, read_expressions
from analyst_client.kinds.gram.quote import order_terms
from analyst_client.kinds.score import LOSSES, STATISTICS
from analyst_client.schema.columns import COMBINATION, Column, DerivedColumn, Term
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import Expression
from analyst_client.terms.matching import match_features


class Posted(NamedTuple):
    """θ, one combination of terms, and P over the norm, k of them, as whole numbers over a power of two."""

    coefficients: Combinations
    directions: Combinations


class Asked(NamedTuple):
    """The members of a request that decide a row's contribution and the released statistics.

    Attributes
    ----------
    features : list
        As on the wire.
    target : str or dict
    intercept : bool
    loss : str
    posted : Posted
    statistics : frozenset of str
    """

    features: list[Any]
    target: Any
    intercept: bool
    loss: str
    posted: Posted
    statistics: frozenset[str]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PostedScore:
    """The terms, the loss, the coefficients and the directions of an answer or a quote.

    Attributes
    ----------
    columns : tuple of Column
        Columns that terms are made of, and a target that is computed.
    terms : tuple of Term
        D of them, the constant first if there is one.
    target : Term
    expressions : mapping of str to Expression
        Features and the target as they are asked for, by name.
    loss : str
    statistics : tuple of str
    posted : Posted
    """

    columns: tuple[Column, ...]
    terms: tuple[Term, ...]
    target: Term
    expressions: Mapping[str, Expression]
    loss: str
    statistics: tuple[str, ...]
    posted: Posted

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the D terms, the constant included."""
        return tuple(term.name for term in self.terms)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features: of columns, bases and interactions."""
        return tuple(name for name in self.expressions if name != self.target.name)

    @cached_property
    def coefficients(self) -> FloatArray:
        """Coefficients θ as the curator used them, exactly, of shape (D,)."""
        return frozen(self.posted.coefficients.matrix(self.term_names, 1)[:, 0])

    @cached_property
    def directions(self) -> FloatArray:
        """Directions P over the norm as the curator used them, exactly, of shape (D, k)."""
        return self.posted.directions.matrix(self.term_names, self.posted.directions.count)

    @property
    def title(self) -> str:
        """The loss, the target and the features, in words."""
        return f"{self.loss} score of {self.target.name} ~ {', '.join(self.feature_names)}"

    def arranged_as(self, asked: Asked) -> Self:
        """Return this with its terms in the order that was asked. Raise `ServiceError` when it is of something else."""
        named = match_features(self.expressions, self.columns, {"features": asked.features, "targets": [asked.target]})
        if named is None:
            raise ServiceError("malformed answer: a score of other columns than were asked")
        if (self.loss, self.terms[0].kind == "constant") != (asked.loss, asked.intercept):
            raise ServiceError("malformed answer: a score of another loss than was asked, or of other terms")
        if frozenset(self.statistics) != asked.statistics:
            raise ServiceError("malformed answer: other statistics of a score than were asked")
        if self.posted != asked.posted:
            raise ServiceError("malformed answer: a score at other coefficients or through other directions than asked")
        return self.in_order([*named.features, *named.targets])

    def in_order(self, names: Sequence[str]) -> Self:
        """Return this with its terms in the order of features; the target stands among these."""
        return replace(
            self,
            terms=tuple(self.terms[j] for j in order_terms(self.terms, names)),
            expressions={name: self.expressions[name] for name in names},
        )


def read_posted(body: Fields) -> dict[str, Any]:
    """Read what was posted, by the names of `PostedScore`; raise `ServiceError` where something is wrong."""
    request = body.object("request")
    terms, target = body.each("terms", Term.read), Term.read(body.object("target"))
    if any(term.kind == COMBINATION for term in terms):
        raise body.fault("terms", "terms of the request")
    known = read_columns(body, {})
    named = _named(request.array("features"), known)
    computed = [target.name] if isinstance(known.get(target.name), DerivedColumn) else []
    used = dict.fromkeys([*named, *(name for term in terms for name in term.columns), *computed])
    columns = tuple(known[name] for name in used if name in known)
    check_terms(body, columns, terms, (), [target])
    features = name_features([known[name] for name in named], terms)
    asked = {"features": request.array("features"), "target": [request.members.get("target")]}
    expressions = read_expressions(request, asked, known, features)
    if len(expressions) <= len(asked["features"]) or list(expressions)[-1] != target.name:
        raise body.fault("target", "the target of the request, and none of its features")
    names = [term.name for term in terms]
    return {
        "columns": columns,
        "terms": terms,
        "target": target,
        "expressions": expressions,
        "loss": _read_choice(request, "loss", LOSSES),
        "statistics": _read_statistics(request),
        "posted": Posted(
            read_coefficients(request.object("coefficients"), names),
            read_combinations(request.object("directions"), names),
        ),
    }


def _named(features: Sequence[Any], known: Mapping[str, Column]) -> list[str]:
    """Return the names of the features that are columns, declared or computed."""
    computed = {c.name: c.expression.to_json() for c in known.values() if isinstance(c, DerivedColumn)}
    return [name for value in features for name in known if value == computed.get(name, name)]


def _read_choice(fields: Fields, name: str, known: Sequence[str]) -> str:
    value = fields.text(name)
    if value not in known:
        raise fields.fault(name, "one that this version knows: a newer one may know more")
    return value


def _read_statistics(request: Fields) -> tuple[str, ...]:
    stated = request.texts("statistics")
    if not stated or len(set(stated)) < len(stated) or not set(stated) <= set(STATISTICS):
        raise request.fault("statistics", "a list of statistics that this version knows: a newer one may know more")
    return stated


def as_coefficients(coefficients: Mapping[str, float], bits: int = BITS_MAX) -> Combinations:
    """Return coefficients as they are posted, rounded to as many bits as can be. Raise `ValueError` on wrong ones."""
    if not isinstance(coefficients, Mapping):
        raise ValueError("coefficients are given by the names of terms, such as {'age': 0.5}")  # noqa: TRY004 -- one kind of error for arguments
    columns = {name: [float(value)] for name, value in coefficients.items()}
    if all(abs(value) < 2.0 ** -(bits + 1) for (value,) in columns.values()):  # zeros, or what is rounded to them
        return Combinations({}, 0)
    return Combinations.nearest(columns, "coefficients", bits=bits)


def read_coefficients(fields: Fields, names: Sequence[str]) -> Combinations:
    """Read coefficients of terms of these names from an answer."""
    weights = fields.object("weights").members
    if all(number == 0 for number in weights.values()):
        return Combinations({}, 0)
    columns = {"bits": fields.members.get("bits"), "matrix": {name: [number] for name, number in weights.items()}}
    return read_combinations(Fields(columns, fields.where), names, 1)


def coefficient_members(coefficients: Combinations) -> dict[str, Any]:
    """Return coefficients as on the wire."""
    return {"bits": coefficients.bits, "weights": {name: number for name, (number,) in coefficients.numbers.items()}}
