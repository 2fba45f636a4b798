"""A refinement practised on made-up rows: its steps, how long they take, and what cannot work, before anything is held.

The plan is followed as it will be, and each of its requests is quoted by the curator, for nothing. Answers are made of
rows that are drawn from the declared columns: normal, a little correlated, half of the target explained. They have no
noise. Nothing is known of the rows that the curator holds.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.error_base import CuratorError
from analyst_client.inference.normal_index import sigmoid
from analyst_client.kinds.gram.design import code_target, design_matrix
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.score import MEAT, NORMS, SCORE
from analyst_client.kinds.score.quote import ScoreQuote
from analyst_client.kinds.score.release import NORM_EDGES, ScoreRelease
from analyst_client.planning.dummy_data import dummy_rows
from analyst_client.refinement.belief import TERMS_MAX, TooLargeError
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.questions import Coding, Question
from analyst_client.refinement.refinement import Refinement, follow
from analyst_client.refinement.rules import RefinementRules
from analyst_client.schema.answers import Answer
from analyst_client.schema.columns import Column, Term
from analyst_client.schema.quotes import AnyQuote

Made = TypeVar("Made", Release, ScoreRelease)
BODY_MAX = 64 * 1024
"""Largest request of a curator, in bytes."""
_POSTED_NUMBER, _LONGEST = re.compile(r"(?<![\d.])-?\d+(?=[,\]}])"), "-99999999"
"""A whole number of a body, and one that is as long to write as those of any rows: directions that whiten are at most
100, in units of 2⁻²⁰, and few of them near to that."""
ROWS_MAX = 4000
"""Made-up rows; each counts for as many as are expected."""
CORRELATION, EXPLAINED, REACH = 0.2, 0.5, 4.0
"""Of the made-up columns; of the target; and standard deviations from the middle of a column to its bounds."""
_MISSING = 0.1
"""Share of missing values where a term says that they are."""
_INDEX_MOST = 16.0
"""Size to which an index is cut where its exponential is taken."""


@dataclass(frozen=True)
class Step:
    """A request that a plan pays for, as the curator quotes it.

    Attributes
    ----------
    kind : str
    share : float
        Of the price.
    duration_s : float
        Public time after which its answer shows.
    answer_bytes, answer_bytes_left : int
    is_free : bool
        Whether a stored release answers it.
    """

    kind: str
    share: float
    duration_s: float
    answer_bytes: int
    answer_bytes_left: int
    is_free: bool


@dataclass(frozen=True, eq=False)
class Practice:
    """The expected steps and result of a refinement, on made-up rows.

    Attributes
    ----------
    steps : tuple of Step
    refinement : Refinement or None
        What made-up rows answered; None where the plan could not be followed to its end on them.
    rows : MadeUpRows
    """

    steps: tuple[Step, ...]
    refinement: Refinement | None
    rows: "MadeUpRows"


class MadeUpRows:
    """Rows that are drawn from declared columns, and exact answers about them.

    Parameters
    ----------
    problem : Problem
    quote : Quote
        Of its features and target, as they are asked.
    declared : sequence of Column
        All columns of the dataset.
    """

    def __init__(self, problem: Problem, quote: Quote, declared: Sequence[Column]) -> None:
        self.count = int(min(max(problem.rows, 200.0), ROWS_MAX))
        self.weight = problem.rows / self.count
        fields = [*problem.regressors, problem.target]
        names = list(dict.fromkeys(name for field in fields for name in field.expression.columns))
        columns = [column for column in declared if column.name in names]
        numeric = [column for column in columns if column.lower is not None and column.upper is not None]
        sds = {column.name: (column.upper - column.lower) / (2.0 * REACH) for column in numeric}  # type: ignore[operator]
        gaps = {column.name: _MISSING for column in columns if column.missing == "indicator"}
        even, correlation = self.count > 2 * len(columns), CORRELATION
        self._raw = dummy_rows(columns, self.count, 0, sds=sds, missing=gaps, correlation=correlation, even=even)
        self._columns = {column.name: column for column in columns}
        own = [name for name in problem.target.expression.columns if name not in _names(problem)]
        if own:
            self._explain(own[0], design_matrix(self._raw, quote.columns, quote.terms, clip=True), problem.family)

    def _explain(self, name: str, x: FloatArray, family: str) -> None:
        """Let the terms explain half of a target."""
        column, z = self._columns[name], x[:, 1:] - x[:, 1:].mean(axis=0)
        signal = _standard((z / np.maximum(z.std(axis=0), 1e-9)).sum(axis=1))
        generator = np.random.default_rng(1)
        latent = EXPLAINED**0.5 * signal + (1.0 - EXPLAINED) ** 0.5 * generator.standard_normal(self.count)
        if column.type == "boolean":
            self._raw[name] = latent > 0.0
        elif column.lower is not None and column.upper is not None:
            unit = (column.upper - column.lower) / (2.0 * REACH)
            middle = (column.lower + column.upper) / 2.0
            counts = column.lower + generator.poisson(unit * np.exp(0.5 * signal))
            self._raw[name] = counts if family == "poisson" else middle + unit * latent

    def design(self, columns: Sequence[Column], terms: Sequence[Term]) -> FloatArray:
        """Return the scaled terms of the rows, shape (n, D)."""
        return design_matrix(self._raw, columns, terms, clip=True)

    def target(self, columns: Sequence[Column], term: Term) -> FloatArray:
        """Return a scaled target, cut to its bounds, shape (n,)."""
        return code_target(self._raw, term, columns, clip=True)

    def answer(self, quote: AnyQuote) -> Answer:
        """Return what a quoted request would be answered of these rows, without noise.

        Raises
        ------
        NotImplementedError
            Of a kind that is not known here.
        """
        if isinstance(quote, ScoreQuote):
            return self._score(quote)
        if isinstance(quote, Quote) and quote.combined and quote.posted is not None:
            return self._gram(quote)
        raise NotImplementedError(quote.kind)

    def _score(self, quote: ScoreQuote) -> ScoreRelease:
        x, y = self.design(quote.columns, quote.terms), self.target(quote.columns, quote.target)
        r = residuals(quote.loss, y, x @ quote.coefficients, quote.target)
        g = (x @ quote.directions) * r[:, np.newaxis]
        longest = np.sqrt(np.sum(g**2, axis=1))
        g *= within(longest)[:, np.newaxis]
        counts = np.bincount(np.searchsorted(NORM_EDGES, longest, side="right"), minlength=len(NORM_EDGES) + 1)
        found: dict[str, Any] = {SCORE: g.sum(axis=0), NORMS: counts.astype(np.float64), MEAT: g.T @ g}
        told: dict[str, Any] = dict.fromkeys(found)
        told |= {name: self.weight * found[name] for name in quote.statistics}
        return _answered(ScoreRelease, quote, **told)

    def _gram(self, quote: Quote) -> Release:
        assert quote.posted is not None
        (target,) = quote.targets
        names = [term.name for term in quote.combined]
        v = self.design(quote.columns, quote.combined) @ quote.posted.matrix(names, quote.posted.count)
        kept = within(np.sqrt(np.sum(v**2, axis=1)))
        v, y = v * kept[:, np.newaxis], self.target(quote.columns, target) * kept
        w = self.weight
        moments: dict[str, Any] = {
            "xtx": w * v.T @ v,
            "xty": w * (v.T @ y)[:, np.newaxis],
            "yty": np.array([w * y @ y]),
        }
        return _answered(Release, quote, **moments, lambda_min=None, steps=())


def _answered(of: type[Made], quote: AnyQuote, **statistics: Any) -> Made:
    """Return a release of these statistics; what it has beside them is as quoted."""
    as_quoted = {one.name: getattr(quote, one.name) for one in fields(of) if hasattr(quote, one.name)}
    return of(**({"text": "", "id": "practice", "created_at": None, "receipt": None} | as_quoted | statistics))


def _names(problem: Problem) -> set[str]:
    return {name for field in problem.regressors for name in field.expression.columns}


def _standard(values: FloatArray) -> FloatArray:
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9))


def within(norms: FloatArray) -> FloatArray:
    """Return weights by which no row is longer than 1."""
    return np.minimum(1.0, 1.0 / np.maximum(norms, 1e-300))


def residuals(loss: str, y: FloatArray, eta: FloatArray, target: Term) -> FloatArray:
    """Return the residuals of a loss for a scaled target and an index, as a curator's; see `ScoreRequest`."""
    if loss == "linear":
        return y - eta
    eta = np.clip(eta, -_INDEX_MOST, _INDEX_MOST)
    raw, most = target.center + target.scale * y, target.center + target.scale
    return np.asarray(raw - sigmoid(eta) if loss == "logistic" else (raw - np.minimum(np.exp(eta), most)) / most)


def longest_body(request: Any) -> int:
    """Return how many bytes a request may take, whatever numbers the rows will have it post."""
    text: bytes = request.to_json()
    return len(_POSTED_NUMBER.sub(_LONGEST, text.decode()).encode())


def practise(
    problem: Problem,
    rules: RefinementRules,
    quote: Callable[[Any], Any],
    whole: Quote,
    declared: Sequence[Column],
) -> Practice:
    """Follow a plan on made-up rows.

    Parameters
    ----------
    problem : Problem
    rules : RefinementRules
    quote : callable
        The curator's quote of a request, for nothing.
    whole : Quote
        Of all features and the target, as they are asked.
    declared : sequence of Column
        All columns of the dataset.

    Returns
    -------
    Practice

    Raises
    ------
    TooLargeError
        When the plan has no room for the model: it names the rule, what was asked and the largest that works.
    CuratorError
        When the curator would refuse a step, with a note that says which.
    """
    steps: list[Step] = []
    try:
        return _follow(problem, rules, quote, MadeUpRows(problem, whole, declared), steps)
    except (TooLargeError, CuratorError) as error:
        if isinstance(error, CuratorError) and error.slug not in {"request-invalid", "body-too-large"}:
            raise
        if isinstance(error, TooLargeError) and not error.by_features:
            raise
        if len(whole.terms) > TERMS_MAX:  # fewer columns that a look has room for may still be too many terms
            raise TooLargeError.of_terms(len(whole.terms)) from error
        text = f"step {len(steps) + 1} of this refinement cannot be asked, so nothing was held or charged: {error}"
        largest = _largest(problem, rules, quote, declared, len(steps))
        fit = f"The first {largest} of these {len(problem.features)} features fit, in the dataset's order"
        raise TooLargeError(f"{text}. {fit}") from error


def _largest(
    problem: Problem, rules: RefinementRules, quote: Callable[[Any], Any], declared: Sequence[Column], failed: int
) -> int:
    """Return how many of the features the plan has room for, where all of them failed after so many steps."""
    fails = len(problem.features)
    while True:
        fits = 0
        while fails - fits > 1:
            k = (fits + fails) // 2
            if _passes(problem, rules, quote, declared, k, _StopAfter(failed)):
                fits = k
            else:
                fails = k
        steps: list[Step] = []
        if fits == 0 or _passes(problem, rules, quote, declared, fits, steps):
            return fits
        fails, failed = fits, len(steps)  # a later step is larger


def _passes(
    problem: Problem,
    rules: RefinementRules,
    quote: Callable[[Any], Any],
    declared: Sequence[Column],
    count: int,
    steps: list[Step],
) -> bool:
    """Return whether the plan has room for the first features, as far as `steps` goes."""
    part = replace(problem, features=problem.features[:count])
    features = [field.expression for field in part.regressors]
    whole = ReleaseRequest(features, target=part.target.expression, rows="box", **part.paying(part.mu**2))
    try:
        _follow(part, rules, quote, MadeUpRows(part, quote(whole), declared), steps)
    except _EnoughError:
        pass
    except (TooLargeError, CuratorError):
        return False
    return True


class _EnoughError(Exception):
    """The wanted number of steps was taken."""


class _StopAfter(list[Step]):
    """Steps of which no more than one beyond a number are taken."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def append(self, step: Step) -> None:
        """Take a step. Raise `_EnoughError` where it is one too many."""
        super().append(step)
        if len(self) > self.most:
            raise _EnoughError


def _follow(
    problem: Problem,
    rules: RefinementRules,
    quote: Callable[[Any], Any],
    rows: MadeUpRows,
    steps: list[Step],
) -> Practice:
    answers, codings = list[Answer](), list[Coding]()

    def answer(question: Question) -> Any:
        if (size := longest_body(question.request)) > BODY_MAX:
            rule = f"a request has at most {BODY_MAX:,} bytes, and this one may take {size:,}"
            raise TooLargeError(rule, by_features=True)
        quoted = quote(question.request)
        if question.is_quote:
            codings.append(Coding(quoted.terms, quoted.targets, quoted.feature_names))
            return codings[-1]
        request, is_free = question.request, quoted.stored_release is not None or quoted.derivable_from is not None
        space = quoted.answer_bytes, quoted.answer_bytes_left
        steps.append(Step(request.kind, problem.share_of(request), quoted.duration_s, *space, is_free))
        answers.append(rows.answer(quoted))
        return answers[-1]

    try:
        found = follow(problem, rules, answer)
    except (TooLargeError, CuratorError, _EnoughError):
        raise
    except Exception:
        return Practice(tuple(steps), None, rows)
    refinement = Refinement(problem, rules, tuple(answers), tuple(codings)).keep(found)
    return Practice(tuple(steps), refinement, rows)
