"""A curator of rows in memory, with ideal normal noise: refinements without a server, for measurements and tests.

It answers what the plans of `analyst_client.refinement` ask, of numbers and booleans under add_remove, with noise of
the deviations that a Gaussian curator states. Only posted numbers are rounded; nothing is signed or charged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analyst_client import Release
from analyst_client.kinds import Noise
from analyst_client.kinds.score import MEAT, NORMS, SCORE
from analyst_client.kinds.score.posted import ScoreNoise
from analyst_client.kinds.score.release import NORM_EDGES, ScoreRelease
from analyst_client.refinement import Refinement, RefinementRules
from analyst_client.refinement.practice import residuals, within
from analyst_client.refinement.problem import Field, Problem
from analyst_client.refinement.questions import Coding
from analyst_client.refinement.refinement import buy, rules_of
from analyst_client.schema.columns import COMBINATION, CONSTANT, Column, DerivedColumn, Term, plain_term
from analyst_client.terms import col
from analyst_client.terms.expression import COLUMN, NUMBER, Expression, as_expression
from analyst_client.terms.values import Values, evaluate
from bench.uci import column_names
from curator_service.kinds.gram.plan import default_shares
from curator_service.kinds.gram.statistics import Statistic

Floats = npt.NDArray[np.float64]
_PUBLISHED: dict[str, Any] = {
    "text": "",
    "id": "ideal",
    "dataset": "ideal",
    "created_at": None,
    "cost": None,
    "receipt": None,
}


class Design(NamedTuple):
    """Features and a target as they are coded.

    Attributes
    ----------
    columns : tuple of Column
        The target last.
    expressions : mapping of str to Expression
        By the names of the columns.
    terms : tuple of Term
        The constant first.
    target : Term
    x : ndarray of shape (n, D)
    y : ndarray of shape (n,)
    """

    columns: tuple[Column, ...]
    expressions: Mapping[str, Expression]
    terms: tuple[Term, ...]
    target: Term
    x: Floats
    y: Floats

    @property
    def known(self) -> tuple[Column, ...]:
        """The columns that an answer states: a target as it is declared is not among them."""
        return self.columns if isinstance(self.columns[-1], DerivedColumn) else self.columns[:-1]


@dataclass
class IdealCurator:
    """Rows, and answers about them with normal noise.

    Attributes
    ----------
    columns : mapping of str to ndarray of shape (n,)
        The target last.
    bounds : mapping of str to (float, float)
        Declared, of numbers; a column without is a boolean.
    generator : Generator
    noiseless : bool
    spent : float
        µ² so far.
    """

    columns: Mapping[str, Floats]
    bounds: Mapping[str, tuple[float, float]]
    generator: np.random.Generator
    noiseless: bool = False
    spent: float = field(default=0.0, init=False)
    _last: tuple[list[Any], Design] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Cut values to their bounds."""
        self._values = {
            name: Values(np.clip(column, *self.bounds.get(name, (0.0, 1.0)))) for name, column in self.columns.items()
        }

    @classmethod
    def of_rows(
        cls,
        rows: Floats,
        bounds: Sequence[Sequence[float] | None] | Floats,
        generator: np.random.Generator,
        *,
        noiseless: bool = False,
    ) -> "IdealCurator":
        """Name columns x1, x2, … and y.

        Parameters
        ----------
        rows : ndarray of shape (n, d + 1)
            The target last.
        bounds : sequence of d + 1 pairs
            None in place of a pair: the column is a boolean.
        """
        names = column_names(rows.shape[1])
        pairs = zip(names, bounds, strict=True)
        declared = {name: (float(own[0]), float(own[1])) for name, own in pairs if own is not None}
        return cls(dict(zip(names, rows.T, strict=True)), declared, generator, noiseless)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def problem(
        self, mu: float, family: str = "gaussian", guess: float | None = None, offset: str | None = None
    ) -> Problem:
        """Return the problem of all columns at a price µ, with a guess of the rows; the rows themselves without one."""
        fields = {name: Field(col(name), name, *self.bounds.get(name, (None, None))) for name in self.columns}
        known = None if offset is None else fields.pop(offset)
        *features, target = fields.values()
        return Problem(tuple(features), target, float(guess or self.rows), mu, family=family, offset=known)

    def refine(
        self,
        mu: float,
        rules: RefinementRules | None = None,
        *,
        family: str = "gaussian",
        guess: float | None = None,
        offset: str | None = None,
    ) -> Refinement:
        """Follow the plan of a family, and keep what was answered; its releases have no text to be saved."""
        before = self.spent
        problem = self.problem(mu, family, guess, offset)
        refinement = buy(problem, rules or rules_of(family)(), self.quote, self.release)
        assert self.spent - before <= mu**2 * (1.0 + 1e-9)
        return refinement

    def quote(self, request: Any) -> Any:
        """Return how a request's columns are coded."""
        design = self._design(request)
        return Coding(design.terms, (design.target,), tuple(design.expressions)[:-1])

    def release(self, request: Any) -> Release | ScoreRelease:
        """Answer a request of a score, or of XᵀX and Xᵀy of combined rows."""
        self.spent += request.mu**2
        return self._score(request) if request.kind == "score" else self._gram(request)

    def one_release(self, mu: float) -> Release:
        """Return XᵀX, Xᵀy and yᵀy of all columns at a price µ, under the default ball."""
        design = self._code([*self.columns])
        statistics = (Statistic.XTX, Statistic.XTY, Statistic.YTY)
        shares = {statistic.value: float(share) for statistic, share in default_shares(statistics).items()}
        norm = math.sqrt(1.0 + (design.x.shape[1] - 1) / 10.0)
        found = self._moments(design.x, design.y, norm, mu, shares)
        *features, target = design.columns
        return Release.from_arrays(**found, features=features, targets=[target], norm=norm)

    def _design(self, request: Any) -> Design:
        return self._code([*request.features, request.target])

    def _code(self, asked: Sequence[str | Expression]) -> Design:
        """Code features and a target; the last ones are kept, as plans ask for them again and again."""
        expressions = [as_expression(one) for one in asked]
        stated = [expression.to_json() for expression in expressions]
        if self._last is None or self._last[0] != stated:
            columns = tuple(map(self._column, expressions))
            *features, target = map(plain_term, columns)
            values = [
                (evaluate(expression, self._values).numbers - term.center) / term.scale
                for expression, term in zip(expressions, [*features, target], strict=True)
            ]
            named = dict(zip((column.name for column in columns), expressions, strict=True))
            terms, x = (Term(CONSTANT, "constant"), *features), np.column_stack([np.ones(self.rows), *values[:-1]])
            self._last = stated, Design(columns, named, terms, target, x, values[-1])
        return self._last[1]

    def _column(self, expression: Expression) -> Column:
        """Return a column as it is declared, or as it is derived."""
        name, bounds = repr(expression), self._range(expression)
        column = (
            Column.numeric(name, *bounds, missing="complete") if bounds else Column.boolean(name, missing="complete")
        )
        if expression.operator == COLUMN:
            return column
        sources = tuple(self._column(col(source)) for source in expression.columns)
        return DerivedColumn(**vars(column), expression=expression, sources=sources)

    def _range(self, expression: Expression) -> tuple[float, float] | None:
        """Return the bounds of a column, one that is cut, or the square of a distance; None of a boolean."""
        if expression.operator == COLUMN:
            return self.bounds.get(expression.parameters[0])
        if expression.operator == NUMBER:
            return expression.parameters[0], expression.parameters[0]
        within = [self._range(argument) or (0.0, 1.0) for argument in expression.arguments]
        match expression.operator:
            case "maximum" | "minimum" as name:
                pick = max if name == "maximum" else min
                return pick(low for low, _ in within), pick(high for _, high in within)
            case "subtract":
                (least, most), (low, high) = within
                return least - high, most - low
            case "power":
                return 0.0, max(map(abs, within[0])) ** 2
            case _:
                return None

    def _noise(self, sd: float, *shape: int) -> Floats:
        return (0.0 if self.noiseless else sd) * self.generator.standard_normal(shape)

    def _symmetric(self, d: int, sd: float) -> Floats:
        """Return noise of a Gram: as large on the diagonal, and beside it less by √2."""
        beside = np.triu(self._noise(sd / math.sqrt(2.0), d, d), 1)
        noise: Floats = beside + beside.T + np.diag(self._noise(sd, d))
        return noise

    def _moments(self, x: Floats, y: Floats, norm: float, mu: float, shares: Mapping[str, float]) -> dict[str, Any]:
        """Return statistics of rows that are shrunk to a norm, and their noise, by the names of a release."""
        weights, d = within(np.sqrt(np.sum(x**2, axis=1)) / norm), x.shape[1]
        x, y = x * weights[:, np.newaxis], y * weights
        sds = _deviations(mu, shares, {"xtx": norm**2, "xty": norm, "yty": 1.0})
        xtx, xty, yty = sds["xtx"], sds["xty"], sds.get("yty")
        return {
            "xtx": x.T @ x + self._symmetric(d, xtx),
            "xty": (x.T @ y + self._noise(xty, d))[:, np.newaxis],
            "yty": None if yty is None else np.array([y @ y + self._noise(yty, 1)[0]]),
            "noise": Noise(xtx, xtx / math.sqrt(2.0), xty, yty, distribution="discrete_gaussian"),
        }

    def _gram(self, request: Any) -> Release:
        design, posted = self._design(request), request.rows.combinations
        v = design.x @ posted.matrix([term.name for term in design.terms], posted.count)
        return Release(
            features=design.columns[:-1],
            inner_columns=design.known[len(design.columns) - 1 :],
            terms=tuple(Term(f"combination[{k + 1}]", COMBINATION) for k in range(posted.count)),
            targets=(design.target,),
            expressions=design.expressions,
            lambda_min=None,
            combined=design.terms,
            posted=posted,
            request={"kind": "gram", "rows": {"map": "linear"}},
            **self._moments(v, design.y, 1.0, request.mu, request.shares),
            **_PUBLISHED,
        )

    def _score(self, request: Any) -> ScoreRelease:
        design, posted = self._design(request), request.asked.posted
        names, k = [term.name for term in design.terms], posted.directions.count
        eta = design.x @ posted.coefficients.matrix(names, 1)[:, 0]
        g = design.x @ posted.directions.matrix(names, k)
        g *= residuals(request.loss, design.y, eta, design.target)[:, np.newaxis]
        longest = np.sqrt(np.sum(g**2, axis=1))
        g *= within(longest)[:, np.newaxis]
        shares = request.shares or {SCORE: 1.0}
        sds = _deviations(request.mu, shares, dict.fromkeys(shares, 1.0))
        score, norms, meat = (sds.get(name) for name in (SCORE, NORMS, MEAT))
        counts = np.bincount(np.searchsorted(NORM_EDGES, longest, side="right"), minlength=len(NORM_EDGES) + 1)
        return ScoreRelease(
            score=None if score is None else g.sum(axis=0) + self._noise(score, k),
            norms=None if norms is None else counts + self._noise(norms, len(counts)),
            meat=None if meat is None else g.T @ g + self._symmetric(k, meat),
            noise=ScoreNoise(score, norms, meat, meat and meat / math.sqrt(2.0), distribution="discrete_gaussian"),
            columns=design.known,
            terms=design.terms,
            target=design.target,
            expressions=design.expressions,
            loss=request.loss,
            statistics=tuple(shares),
            posted=posted,
            request={"kind": "score"},
            **_PUBLISHED,
        )


def _deviations(mu: float, shares: Mapping[str, float], lengths: Mapping[str, float]) -> dict[str, float]:
    """Return deviations of noise of statistics that one row moves by so much."""
    return {name: lengths[name] / (mu * math.sqrt(share)) for name, share in shares.items()}
