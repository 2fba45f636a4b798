"""Coverage of the intervals, and size of the tests, of what a Gram knows beside coefficients.

Rows are drawn anew for each repeat: a number z, a boolean and a category of three levels, x = z and a hidden cause, w
of x and the hidden cause, a mediator m, and a target; all but the boolean and the category normal, within wide bounds.
Noise is Gaussian, or Laplace, of the size that a curator adds at ε under the row map "box" (inf: none). A cell is the
share of repeats whose 95 % interval holds the truth, or, for tests of a hypothesis that is true, the share with p <
0.05, and how many repeats had an answer. ``!`` marks what is further from 0.95 or 0.05 than four standard errors.
Prints Markdown.

    python -m bench.analyses [--repeats 4000] [--rows 300 3000 30000] [--epsilons 0.5 2 inf] [--noise gaussian laplace]
        [--parts described …]
"""

import argparse
import math
import os
import warnings
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt

from analyst_client import OLS, Column, EstimationError, Release, correlations, describe, table_one, ttest_ind
from analyst_client.analyses import mediation, partial_correlations, standardized_coefficients, two_stage_least_squares
from analyst_client.inference.estimates import Estimate
from analyst_client.inference.noise import NoiseLaw
from analyst_client.kinds import Noise
from bench.simulation import DELTA, ROW_CAPACITY, STATISTICS
from curator_service.kinds.gram.defaults import default_row_maps
from curator_service.kinds.gram.kind import Gram
from curator_service.kinds.gram.plan import default_shares, plan_gram
from curator_service.privacy.accountant import GDP, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import Column as Declared
from curator_service.privacy.design import ColumnType, make_design
from curator_service.privacy.row_maps import make_row_map

Floats = npt.NDArray[np.float64]
BOUND = 6.0
SHARES = (0.5, 0.3, 0.2)
COLUMNS: list[str | Column] = [
    Column.numeric("z", -BOUND, BOUND),
    Column.numeric("x", -BOUND, BOUND),
    Column.numeric("m", -BOUND, BOUND),
    Column.numeric("w", -BOUND, BOUND),
    Column.boolean("smoker", ("no", "yes")),
    Column.categorical("site", ["A", "B", "C"]),
]
TARGET: list[str | Column] = [Column.numeric("y", -2.0 * BOUND, 2.0 * BOUND)]
SD_Y = math.sqrt(0.75**2 * 2.0 + 0.5**2 * 1.0 + 0.5**2 * 0.21 + 0.5**2)
TRUTHS = {
    "mean of x": 0.0,
    "sd of x": math.sqrt(2.0),
    "share of smoker": 0.3,
    "share of A": 0.5,
    "mean of x in A": 0.0,
    "mean of y in C": 0.0,
    "share of smoker in B": 0.3,
    "correlation of z, x": math.sqrt(0.5),
    "correlation of z, smoker": 0.0,
    "correlation of smoker, y": 0.5 * math.sqrt(0.21) / SD_Y,
    "correlation of smoker, B": 0.0,
    "partial correlation of x, m": 0.5 * math.sqrt(1.0 / 1.25),
    "contrast x + m": 1.0,
    "standardised x": 0.5 * math.sqrt(2.0) / SD_Y,
    "t test of y by smoker": 0.5,
    "2SLS of x": 0.5,
    "indirect effect": 0.25,
}
TESTS = ("t test of z by smoker", "F of site", "F of site, z", "p of a correlation of 0", "p of φ = 0")


def draw_rows(generator: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Draw n rows: raw terms, and the target."""
    z, hidden, at_m, at_w, at_y = generator.standard_normal((5, n))
    smoker, site = generator.random(n) < 0.3, generator.choice(3, n, p=SHARES)
    x = z + hidden
    m = 0.5 * x + at_m
    w = 0.5 * x - 0.7 * hidden + at_w
    y = 0.5 * x + 0.5 * m + 0.5 * (smoker - 0.3) + at_y * 0.5
    return np.column_stack([z, x, m, w, smoker, site == 1, site == 2]).astype(np.float64), y


def noise_at(epsilon: float, mechanism: Mechanism) -> Noise:
    """Return the noise that a curator adds at a price."""
    if math.isinf(epsilon):
        return Noise(0.0, 0.0, 0.0, 0.0)
    numbers = [Declared(name, ColumnType.NUMERIC, lower=-BOUND, upper=BOUND) for name in "zxmw"]
    smoker = Declared("smoker", ColumnType.BOOLEAN, levels=("no", "yes"))
    site = Declared("site", ColumnType.CATEGORICAL, levels=("A", "B", "C"))
    target = Declared("y", ColumnType.NUMERIC, lower=-2.0 * BOUND, upper=2.0 * BOUND)
    design = make_design((*numbers, smoker, site), (target,), intercept=True)
    plan = plan_gram(
        design,
        make_row_map(default_row_maps(design)[2]),
        Adjacency.ADD_REMOVE,
        row_capacity=ROW_CAPACITY,
        price=Price(epsilon=epsilon, delta=DELTA if mechanism is Mechanism.GAUSSIAN else None),
        shares=default_shares(STATISTICS, mechanism),
        accountant=GDP,
        mechanism=mechanism,
    )
    return Noise(distribution=plan.parts[0].distribution, **Gram().state_noise(plan.parts))


def release_of(generator: np.random.Generator, n: int, noise: Noise) -> Release:
    """Return a release of fresh rows."""
    raw, y = draw_rows(generator, n)
    raw[:, :4] = np.clip(raw[:, :4] / BOUND, -1.0, 1.0)
    y = np.clip(y / (2.0 * BOUND), -1.0, 1.0)
    X = np.column_stack([np.ones(n), raw])
    law = NoiseLaw.of(noise, X.shape[1])
    xtx, xty = law.draw(generator, 1)
    laplace = law.excess_kurtosis > 0.0
    sd = math.sqrt(law.yty or 0.0)
    yty = generator.laplace(0.0, sd * math.sqrt(0.5)) if laplace else generator.normal(0.0, sd)
    gram = X.T @ X + xtx[0]
    return Release.from_arrays(
        (gram + gram.T) / 2.0, X.T @ y + xty[0], y @ y + yty, features=COLUMNS, targets=TARGET, noise=noise
    )


PARTS = (
    "described",
    "by_site",
    "correlated",
    "partial",
    "hypotheses",
    "standardised",
    "compared",
    "instruments",
    "mediated",
)


def read(release: Release, parts: Sequence[str]) -> tuple[dict[str, Estimate], dict[str, float]]:
    """Return every estimate of a truth, and every p-value of a true hypothesis; what raises is left out."""
    found: dict[str, Estimate] = {}
    pvalues: dict[str, float] = {}

    def described() -> None:
        table = describe(release)
        found["mean of x"], found["sd of x"] = table["x", "", "mean"], table["x", "", "sd"]
        found["share of smoker"], found["share of A"] = table["smoker", "yes", "share"], table["site", "A", "share"]

    def by_site() -> None:
        table = table_one(release, "site")
        found["mean of x in A"], found["mean of y in C"] = table["x", "", "mean", "A"], table["y", "", "mean", "C"]
        found["share of smoker in B"] = table["smoker", "yes", "share", "B"]

    def correlated() -> None:
        numbers = correlations(release, ["z", "x", "smoker"])
        found["correlation of z, x"], found["correlation of z, smoker"] = numbers["z", "x"], numbers["z", "smoker"]
        found["correlation of smoker, y"] = correlations(release, ["smoker", "y"])["smoker", "y"]
        found["correlation of smoker, B"] = correlations(release, ["smoker", "site[B]"])["smoker", "site[B]"]
        pvalues["p of a correlation of 0"] = correlations(release, ["z", "site[C]"])["z", "site[C]"].pvalue
        pvalues["p of φ = 0"] = correlations(release, ["smoker", "site[C]"])["smoker", "site[C]"].pvalue

    def partial() -> None:
        found["partial correlation of x, m"] = partial_correlations(release, ["x", "m"], ["z"])["x", "m"]

    def hypotheses() -> None:
        fit = OLS().fit(release)
        found["contrast x + m"] = fit.t_test("x + m = 1")["x + m = 1"]
        pvalues["F of site"], pvalues["F of site, z"] = fit.f_test("site").pvalue, fit.f_test(["site", "z"]).pvalue

    def standardised() -> None:
        found["standardised x"] = standardized_coefficients(release)["x"]

    def compared() -> None:
        found["t test of y by smoker"] = ttest_ind(release, "y", "smoker")["yes − no"]
        pvalues["t test of z by smoker"] = ttest_ind(release, "z", "smoker")["yes − no"].pvalue

    def instruments() -> None:
        found["2SLS of x"] = two_stage_least_squares(release, "w", ["x"], ["z"])["x"]

    def mediated() -> None:
        found["indirect effect"] = mediation(release, "y", "x", "m")["indirect"]

    known = (described, by_site, correlated, partial, hypotheses, standardised, compared, instruments, mediated)
    for part in (one for one in known if one.__name__ in parts):
        try:
            part()
        except EstimationError:
            continue
    return found, pvalues


def run_repeat(case: tuple[int, int, Noise], parts: Sequence[str] = PARTS) -> dict[str, float]:
    """Return of each figure whether its interval holds the truth, or its test rejects a true hypothesis."""
    seed, n, noise = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, pvalues = read(release_of(np.random.default_rng([seed, n]), n, noise), parts)
    right = {name: float(one.conf_low <= TRUTHS[name] <= one.conf_high) for name, one in found.items()}
    return right | {name: float(p < 0.05) for name, p in pvalues.items() if not math.isnan(p)}


def describe_cell(outcomes: list[float], expected: float) -> str:
    """Return a share, how many repeats it is of, and a mark where it is off."""
    if not outcomes:
        return "–"
    share, error = float(np.mean(outcomes)), math.sqrt(0.95 * 0.05 / len(outcomes))
    return f"{share:.3f}{' !' if abs(share - expected) > 4.0 * error else ''} ({len(outcomes):,})"


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=4000)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 3000, 30000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 2.0, math.inf])
    parser.add_argument("--noise", nargs="+", default=["gaussian", "laplace"])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    cells: dict[tuple[str, float, int], dict[str, list[float]]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for mechanism, epsilon, n in product(options.noise, options.epsilons, options.rows):
            noise = noise_at(epsilon, Mechanism(mechanism))
            cell: dict[str, list[float]] = defaultdict(list)
            cases = [(seed, n, noise) for seed in range(options.repeats)]
            for outcome in workers.map(partial(run_repeat, parts=options.parts), cases, chunksize=20):
                for name, right in outcome.items():
                    cell[name].append(right)
            cells[mechanism, epsilon, n] = cell
    print(f"{options.repeats} repeats\n")
    heads = [f"{mechanism}, ε {epsilon:g}, n {n:,}" for mechanism, epsilon, n in cells]
    for title, names, expected in (("coverage", tuple(TRUTHS), 0.95), ("size", TESTS, 0.05)):
        print(f"| {title} | {' | '.join(heads)} |\n| --- |{' ---: |' * len(heads)}")
        for name in names:
            print(f"| {name} | {' | '.join(describe_cell(cell[name], expected) for cell in cells.values())} |")
        print()


if __name__ == "__main__":
    main()
