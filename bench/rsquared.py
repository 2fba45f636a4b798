"""Coverage of the population's R² by intervals of refined fits, in columns as they are declared.

Refinements are answered by rows in memory (`bench.ideal`); each repeat draws its rows from a population with
replacement. Beside coverage: the length of intervals, how far R² and the residual deviation are off in the mean and
around it, and how often an interval and the F-test contradict each other. Prints Markdown.

    python -m bench.rsquared [--repeats 200] [--rows 1000 5000 20000] [--epsilons 0.3 1 3] [--data DIR --sets airfoil …]
"""

import argparse
import math
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analyst_client import EstimationError, EstimationWarning, RefinedRegression
from analyst_client.planning.prices import gdp_delta, number_of
from analyst_client.refinement.rules import RefinementRules
from bench.ideal import IdealCurator
from bench.refined import DELTA, Floats, Population, least_squares
from bench.uci import load

KINDS = ("gaussian", "t3", "heteroskedastic", "zero-inflated")


class Told(NamedTuple):
    """R² as one refinement told it."""

    held: bool
    length: float
    rsquared: float
    deviation: float
    """Of residuals, over that of the population."""
    contradicts: bool
    """Whether its F-test and the interval of R² say different things."""


def population_of(kind: str) -> Population:
    """Return a population of a kind: of `bench.refined`, or of counts most of which are 0."""
    if kind != "zero-inflated":
        return Population.of(kind, 4)
    generator = np.random.default_rng(4)
    x, extra = generator.standard_normal((30_000, 4)), 0.8 * generator.standard_normal(30_000)
    counts = generator.poisson(np.exp(-1.5 + 0.5 * x[:, 0] - 0.3 * x[:, 1] + extra)) * (generator.random(30_000) < 0.6)
    return Population.within(np.column_stack([x, np.minimum(counts, 15)]), 4)


def truth(population: Population) -> tuple[float, float]:
    """Return R² and the residual deviation of least squares on the population."""
    rows: Floats = np.clip(population.rows, *population.bounds.T)
    theta, _ = least_squares(rows)
    residual = rows[:, -1] - theta[0] - rows[:, :-1] @ theta[1:]
    return 1.0 - float(residual.var() / rows[:, -1].var()), float(residual.std())


def tell(population: Population, n: int, epsilon: float, rules: RefinementRules, seed: int) -> Told | None:
    """Draw rows, refine and fit; None where the price bought no interval."""
    generator = np.random.default_rng([seed, n, round(1000 * epsilon)])
    rows = population.rows[generator.integers(0, len(population.rows), n)]
    curator = IdealCurator.of_rows(rows, population.bounds, generator)
    fit = RefinedRegression().fit(curator.refine(number_of(gdp_delta, epsilon, DELTA), rules))
    try:
        low, high = fit.rsquared_interval()
    except EstimationError:
        return None
    rsquared, deviation = truth(population)
    differs = fit.f_test().pvalue < 0.05
    contradicts = (differs and high == 0.0) or (not differs and low > 0.0)
    found = float(np.asarray(fit.rsquared_)), math.sqrt(float(np.asarray(fit.scale_)))
    return Told(bool(low <= rsquared <= high), float(high - low), found[0], found[1] / deviation, bool(contradicts))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 5000, 20000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["airfoil", "concrete", "wine", "energy", "protein"])
    options = parser.parse_args()
    warnings.simplefilter("ignore", EstimationWarning)
    populations = [(kind, population_of(kind), options.rows) for kind in options.kinds]
    for name in options.sets if options.data else ():
        rows = load(options.data / name)[0]
        populations.append((name, Population.within(rows, 7), [len(rows)]))
    print(
        f"{options.repeats} repeats\n\n| rows of | n | ε | R² | coverage | length | R² found | deviation | contradict |"
    )
    print("| --- " + "| ---: " * 8 + "|")
    for name, population, counts in populations:
        for n in counts:
            for epsilon in options.epsilons:
                each = [tell(population, n, epsilon, RefinementRules(), seed) for seed in range(options.repeats)]
                told = [one for one in each if one is not None]
                if not told:
                    continue
                held, length, found, deviation, contradicts = np.array(told, dtype=np.float64).T
                print(
                    f"| {name} | {n:,} | {epsilon:g} | {truth(population)[0]:.3f} | {held.mean():.3f} "
                    f"| {np.median(length):.2f} | {found.mean():.3f} ± {found.std():.3f} "
                    f"| {deviation.mean():.2f} ± {deviation.std():.2f} | {contradicts.sum():.0f} of {len(told)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
