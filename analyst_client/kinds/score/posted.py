"""Members of a score request and its answer: terms, a target, a loss, coefficients and directions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

from analyst_client.arrays import FloatArray
from analyst_client.display.model import Table
from analyst_client.error_base import ServiceError
from analyst_client.kinds.arrays import frozen
from analyst_client.kinds.columns import column_namer, read_columns
from analyst_client.kinds.combinations import BITS_MAX, Combinations, read_combinations
from analyst_client.kinds.gram.coding import check_terms, name_features, order_terms, read_expressions
from analyst_client.kinds.score import LOSSES, MEAT, NORMS, SCORE, STATISTICS
from analyst_client.schema.answers import Stated
from analyst_client.schema.columns import COMBINATION, Column, DerivedColumn, Term
from analyst_client.schema.quotes import (
    Deviation,
    Distribution,
    NamedNoise,
    list_noise,
    read_deviation,
    read_is_laplace,
)
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import Expression
from analyst_client.terms.matching import match_features


class Posted(NamedTuple):
    """θ, one combination of terms, and P over the norm, k of them, as whole numbers over a power of two."""

    coefficients: Combinations
    directions: Combinations


class Asked(NamedTuple):
    """The members of a request that decide a row's contribution and the released statistics, as on the wire."""

    features: list[Any]
    target: Any
    intercept: bool
    loss: str
    posted: Posted
    statistics: frozenset[str]


DEVIATIONS = {SCORE: (SCORE,), NORMS: (NORMS,), MEAT: ("meat_diagonal", "meat_offdiagonal")}


@dataclass(frozen=True)
class ScoreNoise(NamedNoise):
    """Standard deviation of the noise of one number of each statistic; None for those not asked.

    Attributes
    ----------
    score, meat_diagonal, meat_offdiagonal : float or None
        In units of the norm to which gradients are clipped, and of its square.
    norms : float or None
        In rows, or in their weight.
    distribution : str
        Law of the noise: ``"discrete_gaussian"`` or ``"discrete_laplace"``.

    Examples
    --------
    >>> from analyst_client.kinds import ScoreRequest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> directions = {"(constant)": [1, 0], "age": [0, 1]}
    >>> options = {"directions": directions, "norm": 2.0, "epsilon": 0.5, "delta": 1e-6}
    >>> request = ScoreRequest(["age"], "kappa", coefficients={"age": 0.3}, **options)
    >>> noise = client.quote("flchain", request).noise
    >>> round(noise.score, 2), noise.norms
    (8.06, None)
    """

    score: Deviation = None
    norms: Deviation = None
    meat_diagonal: Deviation = None
    meat_offdiagonal: Deviation = None
    distribution: Distribution = "unstated"

    def table(self, directions: int) -> Table:
        """Return the table of the noise of each statistic, of so many directions."""
        rows = [
            ("score", directions, self.score),
            ("norms", 13, self.norms),
            ("meat, diagonal", directions, self.meat_diagonal),
            ("meat, off-diagonal", directions * (directions - 1) // 2, self.meat_offdiagonal),
        ]
        return list_noise(self, rows)


def read_score_noise(fields: Fields, statistics: Sequence[str]) -> ScoreNoise:
    """Read the noise of these statistics, which were asked."""
    read_is_laplace(fields)
    named = {name: read_deviation(fields, name) for statistic in statistics for name in DEVIATIONS[statistic]}
    return ScoreNoise(distribution=fields.text("distribution"), **named)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PostedScore(Stated):
    """The terms, the loss, the coefficients, the directions and the noise of an answer or a quote.

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
    noise : ScoreNoise
        Standard deviations of the noise of one number of each statistic.
    """

    columns: tuple[Column, ...]
    terms: tuple[Term, ...]
    target: Term
    expressions: Mapping[str, Expression]
    loss: str
    statistics: tuple[str, ...]
    posted: Posted
    noise: ScoreNoise

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
    def _title(self) -> str:
        return f"{self.loss} score of {self.target.name} ~ {', '.join(self.feature_names)}"

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the features, and the target's among them."""
        return tuple(self.expressions)

    def in_order(self, order: Sequence[str]) -> Self:
        """Return this with its terms in the order of features; the target stands among these."""
        return replace(
            self,
            terms=tuple(self.terms[j] for j in order_terms(self.terms, order)),
            expressions={name: self.expressions[name] for name in order},
        )

    def find_order(self, request: Any) -> list[str]:
        """Return the order that was asked. Raise `ServiceError` when this is of something else."""
        asked: Asked = request.asked
        named = match_features(self.expressions, self.columns, {"features": asked.features, "targets": [asked.target]})
        if named is None:
            raise ServiceError("malformed answer: a score of other columns than were asked")
        if (self.loss, self.terms[0].kind == "constant") != (asked.loss, asked.intercept):
            raise ServiceError("malformed answer: a score of another loss than was asked, or of other terms")
        if frozenset(self.statistics) != asked.statistics:
            raise ServiceError("malformed answer: other statistics of a score than were asked")
        if self.posted != asked.posted:
            raise ServiceError("malformed answer: a score at other coefficients or through other directions than asked")
        return [*named.features, *named.targets]

    @classmethod
    def read_stated(cls, body: Fields) -> dict[str, Any]:
        """Read what was posted, and its noise; raise `ServiceError` where something is wrong."""
        request = body.object("request")
        terms, target = body.each("terms", Term.read), Term.read(body.object("target"))
        if any(term.kind == COMBINATION for term in terms):
            raise body.fault("terms", "terms of the request")
        known = read_columns(body)
        name_of = column_namer(known)
        named = [name for value in request.array("features") if (name := name_of(value)) is not None]
        computed = [target.name] if isinstance(known.get(target.name), DerivedColumn) else []
        used = dict.fromkeys([*named, *(name for term in terms for name in term.columns), *computed])
        columns = tuple(known[name] for name in used if name in known)
        check_terms(body, columns, terms, (), [target])
        features = name_features([known[name] for name in named], terms)
        asked = {"features": request.array("features"), "target": [request.members.get("target")]}
        expressions = read_expressions(request, asked, known, features)
        if len(expressions) <= len(asked["features"]) or list(expressions)[-1] != target.name:
            raise body.fault("target", "the target of the request, and none of its features")
        if (loss := request.text("loss")) not in LOSSES:
            raise request.fault("loss", "one that this version knows: a newer one may know more")
        names, statistics = [term.name for term in terms], request.texts("statistics")
        if not statistics or len(set(statistics)) < len(statistics) or not set(statistics) <= set(STATISTICS):
            raise request.fault("statistics", "a list of statistics that this version knows: a newer one may know more")
        return {
            "columns": columns,
            "terms": terms,
            "target": target,
            "expressions": expressions,
            "loss": loss,
            "statistics": statistics,
            "posted": Posted(
                read_coefficients(request.object("coefficients"), names),
                read_combinations(request.object("directions"), names),
            ),
            "noise": read_score_noise(body.object("noise"), statistics),
        }


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
