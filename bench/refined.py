"""Coverage and length of the 95 % intervals of refined fits, with ideal normal noise in place of a curator's.

A refinement is followed by the client's own plan, and fitted by `RefinedRegression`; what answers it is rows in memory
and normal noise of the deviations that a curator states. Nothing is rounded, signed or charged. Each repeat draws its
rows from a population of rows, with replacement, and refines them. Intervals are compared with the coefficients of
least squares on the columns of the *population* as that refinement cut them, and their lengths with those of least
squares without privacy on the same rows. AdaSSP is fitted on one release of the same rows for the whole price, with the
row map ``ball``; it has the declared bounds, and its intervals are compared with the population in these.

    python -m bench.refined [--repeats 1000] [--rows 1000 5000 20000] [--features 4 10] [--epsilons 0.3 1 3]
        [--kinds gaussian skewed t3 heteroskedastic collinear] [--data DIR --sets airfoil …]
"""

import argparse
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client import AdaSSP, EstimationError, EstimationWarning, Noise, RefinedRegression, Refinement, Release
from analyst_client.inference.quantiles import student_quantile
from analyst_client.kinds.combinations import Combinations
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.marginals.items import Item, Marginal
from analyst_client.kinds.marginals.release import MarginalsRelease
from analyst_client.kinds.score.posted import Posted
from analyst_client.kinds.score.quote import ScoreNoise
from analyst_client.kinds.score.release import NORM_EDGES, ScoreRelease
from analyst_client.planning.prices import gdp_delta, number_of
from analyst_client.refinement.plan import Question, Refined, refine
from analyst_client.refinement.problem import Field, Problem
from analyst_client.refinement.refinement import Coding
from analyst_client.refinement.rules import RefinementRules
from analyst_client.schema.columns import Column, Term
from analyst_client.terms import col
from analyst_client.terms.expression import Expression
from bench.uci import column_names, load, outward

DELTA = 1e-6
POPULATION = 30_000
KINDS = ("gaussian", "skewed", "t3", "heteroskedastic", "collinear")
Floats = npt.NDArray[np.float64]
_PUBLISHED: dict[str, Any] = {
    "text": "",
    "id": "ideal",
    "dataset": "ideal",
    "created_at": None,
    "cost": None,
    "receipt": None,
}


@dataclass(frozen=True)
class Range:
    """A column, and the range to which it is cut."""

    name: str
    low: float
    high: float

    @property
    def term(self) -> Term:
        """The column as a term."""
        return Term(self.name, "numeric", self.name, (self.low + self.high) / 2.0, (self.high - self.low) / 2.0)

    @property
    def column(self) -> Column:
        """The column as it is declared where it is cut."""
        return Column.numeric(self.name, self.low, self.high, missing="complete")

    def scaled(self, values: Floats) -> Floats:
        """Return values that are cut to the range, within [−1, 1]."""
        term = self.term
        found: Floats = (np.clip(values, self.low, self.high) - term.center) / term.scale
        return found


class IdealCurator:
    """Rows, and answers about them with normal noise of the deviations that a curator states for add_remove.

    Parameters
    ----------
    rows : ndarray of shape (n, d + 1)
        The target last.
    bounds : ndarray of shape (d + 1, 2)
        Declared.
    generator : Generator
    """

    def __init__(self, rows: Floats, bounds: Floats, generator: np.random.Generator) -> None:
        self._rows, self._generator = rows, generator
        self.names = column_names(rows.shape[1])
        self._declared = {name: Range(name, *map(float, own)) for name, own in zip(self.names, bounds, strict=True)}
        self._values = dict(zip(self.names, rows.T, strict=True))
        self._scaled: tuple[tuple[Range, ...], Floats, Floats] | None = None
        self.spent = 0.0

    def problem(self, mu: float) -> Problem:
        """Return the problem of all columns at a price µ."""
        fields = [Field(col(name), name, own.low, own.high) for name, own in self._declared.items()]
        return Problem(tuple(fields[:-1]), fields[-1], float(len(self._rows)), mu)

    def refine(self, mu: float, rules: RefinementRules) -> Refinement:
        """Follow the plan, and keep what was answered."""
        problem, releases = self.problem(mu), []
        steps = refine(problem, rules)
        question = next(steps)
        while True:
            answer = self.answer(question)
            if not question.is_quote:
                releases.append(answer)
            try:
                question = steps.send(answer)
            except StopIteration as end:
                found = end.value
                break
        assert self.spent <= mu**2 * (1.0 + 1e-9)
        refinement = Refinement(problem, rules, tuple(releases))
        vars(refinement)["found"] = found  # answers have no text to read again
        return refinement

    def answer(self, question: Question) -> Any:
        """Answer a quote or a request of any kind."""
        request = question.request
        if question.is_quote:
            features, target = self._ranges(request.features), self._range(request.target)
            terms = (Term("(constant)", "constant"), *(one.term for one in features))
            return Coding(terms, (target.term,), tuple(one.name for one in features))
        self.spent += request.mu**2
        if isinstance(request, ReleaseRequest):
            return self._gram(request)
        return self._score(request) if hasattr(request, "directions") else self._marginals(request)

    def _range(self, asked: Expression | str) -> Range:
        """Read a column, or one that is cut."""
        json, cuts = asked if isinstance(asked, str) else asked.to_json(), {}
        while not isinstance(json, str):
            ((word, (json, number)),) = json.items()
            cuts[word] = float(number)
        own = self._declared[json]
        return Range(json, cuts.get("maximum", own.low), cuts.get("minimum", own.high))

    def _ranges(self, asked: Sequence[Any]) -> tuple[Range, ...]:
        return tuple(map(self._range, asked))

    def _terms(self, features: Sequence[Any], target: Any) -> tuple[tuple[Range, ...], Floats, Floats]:
        """Return the columns as they are cut, and the scaled terms and target of rows."""
        ranges = self._ranges([*features, target])
        if self._scaled is None or self._scaled[0] != ranges:
            z = [one.scaled(self._values[one.name]) for one in ranges]
            self._scaled = ranges, np.column_stack([np.ones(len(self._rows)), *z[:-1]]), z[-1]
        return self._scaled

    def _normal(self, *shape: int) -> Floats:
        return self._generator.standard_normal(shape)

    def _symmetric(self, d: int, sd: float) -> Floats:
        """Return noise of a Gram: as large on the diagonal, and beside it less by √2."""
        beside = np.triu(self._normal(d, d), 1) / math.sqrt(2.0)
        noise: Floats = sd * (beside + beside.T + np.diag(self._normal(d)))
        return noise

    def _marginals(self, request: Any) -> MarginalsRelease:
        items: Sequence[Item] = request.items
        marginals = [self._marginal(k, item, request.mu / math.sqrt(len(items))) for k, item in enumerate(items)]
        asked = {"kind": "marginals"}
        return MarginalsRelease(marginals=tuple(marginals), request=asked, **_PUBLISHED)

    def _marginal(self, k: int, item: Item, mu: float) -> Marginal:
        ranges = self._ranges(item.expressions)
        squared = {"moments": 1.5, "flat": 1.0, "tree": float(item.size or 0)}[item.type]
        sd = math.sqrt(squared * len(ranges)) / mu
        values = np.array([self._tell(item, one.scaled(self._values[one.name])) for one in ranges])
        columns = tuple(one.column for one in ranges)
        return Marginal(
            f"marginal_{k}", item.type, columns, item.size, values + sd * self._normal(*values.shape), sd, False
        )

    def _tell(self, item: Item, u: Floats) -> Floats:
        """Return the exact marginal of a column within [−1, 1]."""
        if item.type == "moments":
            return np.array([len(u) / 2.0, u.sum(), u @ u - len(u) / 2.0])
        bins = 2 ** (item.size or 0) if item.type == "tree" else item.size or 0
        counts = [np.bincount(np.minimum(((u + 1.0) / 2.0 * bins).astype(int), bins - 1), minlength=bins).astype(float)]
        while item.type == "tree" and len(counts[0]) > 2:
            counts.insert(0, counts[0].reshape(-1, 2).sum(axis=1))
        return np.concatenate(counts)

    def _gram(self, request: Any) -> Release:
        ranges, z, y = self._terms(request.features, request.target)
        terms = (Term("(constant)", "constant"), *(one.term for one in ranges[:-1]))
        weights: Combinations = request.rows.combinations
        v = z @ weights.matrix([term.name for term in terms], weights.count)
        w = np.minimum(1.0, 1.0 / np.sqrt(np.sum(v**2, axis=1)))
        v, y = v * w[:, np.newaxis], y * w
        sds = {name: 1.0 / (request.mu * math.sqrt(share)) for name, share in request.shares.items()}
        noise = Noise(sds["xtx"], sds["xtx"] / math.sqrt(2.0), sds["xty"], sds["yty"], distribution="discrete_gaussian")
        combined = [Term(f"combination[{k + 1}]", "combination") for k in range(weights.count)]
        return Release(
            features=tuple(one.column for one in ranges[:-1]),
            inner_columns=(ranges[-1].column,),
            terms=tuple(combined),
            targets=(ranges[-1].term,),
            expressions={},
            xtx=v.T @ v + self._symmetric(weights.count, sds["xtx"]),
            xty=(v.T @ y + sds["xty"] * self._normal(weights.count))[:, np.newaxis],
            yty=np.array([y @ y + sds["yty"] * self._normal(1)[0]]),
            lambda_min=None,
            noise=noise,
            combined=terms,
            posted=weights,
            request={"kind": "gram", "rows": {"map": "linear"}},
            **_PUBLISHED,
        )

    def _score(self, request: Any) -> ScoreRelease:
        ranges, z, y = self._terms(request.features, request.target)
        terms = (Term("(constant)", "constant"), *(one.term for one in ranges[:-1]))
        posted: Posted = request.asked.posted
        names = [term.name for term in terms]
        theta, P = posted.coefficients.matrix(names, 1)[:, 0], posted.directions.matrix(names, posted.directions.count)
        g = (z @ P) * (y - z @ theta)[:, np.newaxis]
        norms = np.sqrt(np.sum(g**2, axis=1))
        g *= np.minimum(1.0, 1.0 / np.maximum(norms, 1e-300))[:, np.newaxis]
        sds = {name: 1.0 / (request.mu * math.sqrt(share)) for name, share in request.shares.items()}
        counts = np.bincount(np.searchsorted(NORM_EDGES, norms, side="right"), minlength=len(NORM_EDGES) + 1)
        meat = sds.get("meat")
        return ScoreRelease(
            score=g.sum(axis=0) + sds["score"] * self._normal(g.shape[1]),
            norms=counts + sds["norms"] * self._normal(len(counts)) if "norms" in sds else None,
            meat=None if meat is None else g.T @ g + self._symmetric(g.shape[1], meat),
            noise=ScoreNoise(sds["score"], sds.get("norms"), meat, meat and meat / math.sqrt(2.0)),
            columns=tuple(one.column for one in ranges),
            terms=terms,
            target=ranges[-1].term,
            expressions={},
            loss="linear",
            statistics=tuple(request.shares),
            posted=posted,
            request={"kind": "score"},
            **_PUBLISHED,
        )

    def one_release(self, mu: float) -> Release:
        """Return XᵀX, Xᵀy and yᵀy of the whole price under the default ball."""
        ranges = tuple(self._declared.values())
        z = np.column_stack([one.scaled(self._values[one.name]) for one in ranges])
        d = z.shape[1] - 1
        x, y = np.column_stack([np.ones(len(z)), z[:, :-1]]), z[:, -1]
        radius = math.sqrt(1.0 + d / 10.0)
        w = np.minimum(1.0, radius / np.sqrt(np.sum(x**2, axis=1)))
        x, y = x * w[:, np.newaxis], y * w
        shares = {"xtx": 50 / 108.5, "xty": 50 / 108.5, "yty": 8.5 / 108.5}
        lengths = {"xtx": radius**2, "xty": radius, "yty": 1.0}
        sds = {name: lengths[name] / (mu * math.sqrt(share)) for name, share in shares.items()}
        return Release.from_arrays(
            x.T @ x + self._symmetric(d + 1, sds["xtx"]),
            x.T @ y + sds["xty"] * self._normal(d + 1),
            y @ y + sds["yty"] * self._normal(1)[0],
            features=[one.column for one in ranges[:-1]],
            targets=[ranges[-1].column],
            noise=Noise(
                sds["xtx"], sds["xtx"] / math.sqrt(2.0), sds["xty"], sds["yty"], distribution="discrete_gaussian"
            ),
            norm=radius,
        )


@dataclass(frozen=True)
class Population:
    """Rows that repeats are drawn from, and the bounds that are declared of their columns."""

    rows: Floats
    bounds: Floats

    @classmethod
    def of(cls, kind: str, d: int, seed: int = 1) -> "Population":
        """Draw one: normal features of correlation ¼, of which the last is skewed, R² ½, and residuals of a kind."""
        generator = np.random.default_rng([seed, d])
        x = 0.5 * generator.standard_normal((POPULATION, 1)) + math.sqrt(0.75) * generator.standard_normal(
            (POPULATION, d)
        )
        x[:, -1] = np.exp(0.5 * x[:, -1])
        if kind == "collinear":
            x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
        slopes = np.where(np.arange(d) % 2 == 0, 1.0, -0.5)
        signal = x @ slopes
        y = signal + float(signal.std()) * _residuals(kind, x, generator)
        rows = np.column_stack([x, y])
        return cls.within(rows, seed)

    @classmethod
    def within(cls, rows: Floats, seed: int) -> "Population":
        """Declare bounds: the range of each column, widened by 5 to 25 % a side, and rounded outward."""
        generator, bounds = np.random.default_rng(seed), []
        for column in rows.T:
            low, high = float(column.min()), float(column.max())
            wider = generator.uniform(0.05, 0.25, 2) * (high - low)
            bounds.append(outward(low - wider[0], high + wider[1]))
        return cls(rows, np.array(bounds))

    def least_squares(self, ranges: Sequence[tuple[float, float]]) -> Floats:
        """Return the coefficients of least squares on columns that are cut."""
        low, high = np.array(ranges).T
        return least_squares(np.clip(self.rows, low, high), with_errors=False)[0]


def _residuals(kind: str, x: Floats, generator: np.random.Generator) -> Floats:
    """Return residuals of mean 0 and variance about 1."""
    n = len(x)
    match kind:
        case "skewed":
            return generator.standard_exponential(n) - 1.0
        case "t3":
            return generator.standard_t(3, n) / math.sqrt(3.0)
        case "heteroskedastic":
            spread = np.exp(0.6 * x[:, 0] - 0.36)
            return generator.standard_normal(n) * spread
        case _:
            return generator.standard_normal(n)


def least_squares(rows: Floats, *, with_errors: bool = True) -> tuple[Floats, Floats]:
    """Return coefficients and standard errors that hold for residuals of any variance."""
    center, scale = rows.mean(axis=0), np.where(rows.std(axis=0) > 0.0, rows.std(axis=0), 1.0)
    z = np.column_stack([np.ones(len(rows)), (rows[:, :-1] - center[:-1]) / scale[:-1]])
    move = np.diag(np.concatenate([[1.0], 1.0 / scale[:-1]]))
    move[0, 1:] = -center[:-1] / scale[:-1]
    inverse = np.linalg.pinv(z.T @ z, rcond=1e-12, hermitian=True)
    theta = inverse @ (z.T @ rows[:, -1])
    if not with_errors:
        return move @ theta, theta
    residual = rows[:, -1] - z @ theta
    half = z * residual[:, np.newaxis]
    sandwich = move @ inverse
    return move @ theta, np.sqrt(np.diag(sandwich @ (half.T @ half) @ sandwich.T))


@dataclass(frozen=True)
class Repeat:
    """Of one refinement: by coefficient whether it is held, and how long intervals are over those without privacy."""

    held: Floats
    length: Floats
    shift: Floats
    one_bounded: float
    one_length: float


def cuts(found: Refined) -> list[tuple[float, float]]:
    """Return the ranges to which a refinement cut its columns."""
    assert found.frame is not None
    terms = (*found.frame.terms[1:], found.frame.target)
    return [(term.center - term.scale, term.center + term.scale) for term in terms]


def run(population: Population, n: int, epsilon: float, rules: RefinementRules, seed: int, one_shot: bool) -> Repeat:
    """Draw rows, refine and fit."""
    generator = np.random.default_rng([seed, n, round(1000 * epsilon)])
    rows = population.rows[generator.integers(0, len(population.rows), n)]
    mu = number_of(gdp_delta, epsilon, DELTA)
    curator = IdealCurator(rows, population.bounds, generator)
    refinement = curator.refine(mu, rules)
    fit = RefinedRegression().fit(refinement)
    d = rows.shape[1]
    try:
        intervals = fit.conf_int()
        ranges = cuts(fit.refined_)
    except EstimationError:
        intervals, ranges = np.tile([-np.inf, np.inf], (d, 1)), [tuple(own) for own in population.bounds]
    truth = population.least_squares(ranges)
    low, high = np.array(ranges).T
    own, errors = least_squares(np.clip(rows, low, high))
    length = (intervals[:, 1] - intervals[:, 0]) / (2.0 * student_quantile(0.025, n) * errors)
    middle = intervals.mean(axis=1) - own if np.isfinite(intervals).all() else np.full(d, np.nan)
    one = np.full((d, 2), np.nan)
    if one_shot:
        one = AdaSSP().fit(curator.one_release(mu)).conf_int()
    bounded = float(np.isfinite(one[1:]).all())
    one_length = float(np.median(((one[:, 1] - one[:, 0]) / (2.0 * student_quantile(0.025, n) * errors))[1:]))
    return Repeat((intervals[:, 0] <= truth) & (truth <= intervals[:, 1]), length, middle / errors, bounded, one_length)


def cell(population: Population, n: int, epsilon: float, rules: RefinementRules, repeats: int, one_shot: bool) -> str:
    """Return a line for a cell: coverage, its worst coefficient's, where bounded, how many are, and lengths."""
    start = time.perf_counter()
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", EstimationWarning)
        found = [run(population, n, epsilon, rules, seed, one_shot) for seed in range(repeats)]
    held, length = np.array([one.held for one in found]), np.array([one.length for one in found])
    by_repeat = held.mean(axis=1)
    bounded = np.isfinite(length[:, 1:])
    each = held.mean(axis=0)
    within = held[:, 1:][bounded].mean() if bounded.any() else math.nan
    error = by_repeat.std() / math.sqrt(repeats)
    cells = [
        f"{by_repeat.mean():.3f} ± {error:.3f}",
        f"{each.min():.3f} ({int(each.argmin())})",
        f"{within:.3f}",
        f"{bounded.mean():.2f}",
        f"{np.median(length[:, 1:]):.2f}",
    ]
    if one_shot:
        cells.append(f"{np.mean([one.one_bounded for one in found]):.2f}")
        cells.append(f"{np.median([one.one_length for one in found]):.2f}")
    else:
        cells += ["–", "–"]
    return " | ".join(cells) + f" | {repeats / (time.perf_counter() - start):.0f}"


HEAD = (
    "| coverage | worst coefficient | where bounded | bounded | length | one release: all bounded | length | a second |"
)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 5000, 20000])
    parser.add_argument("--features", type=int, nargs="+", default=[4, 10])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--predictions", action="store_true", help="the rules for predictions")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["airfoil", "bike", "concrete", "elevators", "protein", "wine"])
    options = parser.parse_args()
    rules = RefinementRules() if options.predictions else RefinementRules.for_intervals()
    print(f"{options.repeats} repeats\n\n| rows of | n | d | ε {HEAD}")
    print("| --- " + "| ---: " * 11 + "|")
    for name, population, n, d, epsilon in _cells(options):
        line = cell(population, n, epsilon, rules, options.repeats, one_shot=name not in KINDS)
        print(f"| {name} | {n:,} | {d} | {epsilon:g} | {line} |", flush=True)


def _cells(options: argparse.Namespace) -> Iterator[tuple[str, Population, int, int, float]]:
    for kind in options.kinds:
        for d in options.features:
            population = Population.of(kind, d)
            for n in options.rows:
                for epsilon in options.epsilons:
                    yield kind, population, n, d, epsilon
    for name in options.sets if options.data else ():
        rows = load(options.data / name)[0]
        yield name, Population.within(rows, seed=7), len(rows), rows.shape[1] - 1, 1.0


if __name__ == "__main__":
    main()
