"""Coverage and length of the 95 % intervals of refined fits, with ideal normal noise in place of a curator's.

A refinement is followed by the client's own plan, answered by `bench.ideal`, and fitted by `RefinedRegression`. Each
repeat draws its rows from a population of rows, with replacement, and refines them. Intervals are compared with the
coefficients of least squares on the columns of the *population* as that refinement cut them, and their lengths with
those of least squares without privacy on the same rows. AdaSSP is fitted on one release of the same rows for the whole
price, with the row map ``ball``; it has the declared bounds, and its intervals are compared with the population in
these.

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

import numpy as np
import numpy.typing as npt

from analyst_client import AdaSSP, EstimationError, EstimationWarning, RefinedRegression
from analyst_client.inference.quantiles import student_quantile
from analyst_client.planning.prices import gdp_delta, number_of
from analyst_client.refinement.plan import Refined
from analyst_client.refinement.rules import RefinementRules
from bench.ideal import IdealCurator
from bench.uci import load, outward

DELTA = 1e-6
POPULATION = 30_000
KINDS = ("gaussian", "skewed", "t3", "heteroskedastic", "collinear")
Floats = npt.NDArray[np.float64]


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
    curator = IdealCurator.of_rows(rows, population.bounds, generator)
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


HEAD = "| coverage | worst coefficient | where bounded | bounded | length | one release: bounded | length | a second |"


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 5000, 20000])
    parser.add_argument("--features", type=int, nargs="+", default=[4, 10])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["airfoil", "bike", "concrete", "elevators", "protein", "wine"])
    options = parser.parse_args()
    rules = RefinementRules()
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
