"""Assumptions of standard errors: the cost of row weights, and the effect of one residual variance.

Under the row map `ball` the score's sampling covariance is s²Σw⁴xxᵀ. The client takes s²Σw²xxᵀ, which is never below.
The first table has, for each default ball and set, true standard errors over assumed ones (no privacy noise), and how
far weights move slopes from those of unweighted least squares, in true standard errors: in the median, and the slope
that moves most. The second has, of unweighted rows without privacy noise, standard errors that allow each row a
residual variance of its own (HC3, MacKinnon and White 1985) over those of one for all: the slopes of the README's
models of flchain, and of each set; and the coverage of a 95 % interval of the slope that is worst off. The third has
the coverage of 95 % intervals on releases of the server's own code, under the default row map for the right guess of
rows, and the part of the variance that is privacy noise. Columns within [−1, 1]: uniform, at 0.9 ± 0.05, at
−0.95 ± 0.01, four of five values 0, lognormal beside the bound, and 0/1 with one in twenty. Prints Markdown.

    python -m bench.weights [--data DIR] [--repeats 200] [--terms 1 3] [--rows 500 5000 50000]

DIR holds NAME/data.csv.gz (last column: the response), as in the collection treforevans/uci_datasets.
"""

import argparse
import math
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from analyst_client import OLS, EstimationError, Release
from analyst_client.inference.pooling import pool
from bench.norms import BOUNDS, scaled
from bench.simulation import ROW_MAPS, Hospital
from curator_service.kinds.gram.defaults import default_row_maps
from curator_service.privacy.design import Column, ColumnType, make_design
from examples.flchain.cohort import FEATURES, TARGET, clip, design_matrix, load_split

Floats = npt.NDArray[np.float64]
KINDS = ("uniform", "at 0.9", "at -0.95", "zero-inflated", "skewed", "0/1")
EPSILONS = (0.3, 1.0, 3.0)
MODELS = (("age", "sex", "creatinine", "lambda"), ("age", "sex"))
NORMAL = NormalDist()


# --- Real sets -------------------------------------------------------------------------------------------------------


def tightness(features: Floats, target: Floats, norm: float) -> tuple[Floats, Floats]:
    """Return true over assumed standard errors, and shifts from unweighted coefficients in true standard errors."""
    X = np.column_stack([np.ones(len(features)), features])
    w = np.minimum(1.0, norm / np.linalg.norm(X, axis=1))
    Z, y = X * w[:, np.newaxis], target * w
    A = Z.T @ Z
    (equations,) = pool(Release.from_arrays((A + A.T) / 2.0, Z.T @ y, y @ y, norm=norm))
    assumed = equations.sampling_covariance(np.ones(1))
    inverse = np.linalg.inv(A)
    true = np.diag(inverse @ ((Z * w[:, np.newaxis] ** 2).T @ Z) @ inverse)
    plain, *_ = np.linalg.lstsq(X, target, rcond=None)
    residual = y - Z @ equations.solution
    shift = np.abs(equations.solution - plain) / np.sqrt(residual @ residual / (w @ w) * true)
    return np.sqrt(true / np.diag(inverse @ assumed @ inverse)), shift


def print_sets(folder: Path) -> None:
    """Print the first table."""
    print("| set | rows | bounds | ball | slopes: true / assumed | shift: median, worst |")
    print("| --- | ---: | --- | --- | ---: | ---: |")
    for path in sorted(folder.glob("*/data.csv.gz")):
        data = np.loadtxt(path, delimiter=",")
        for bounds in BOUNDS[:2]:
            rows = scaled(data, bounds)
            for name, norm in zip(ROW_MAPS, norms(rows.shape[1] - 1), strict=False):
                ratio, shift = (values[1:] for values in tightness(rows[:, :-1], rows[:, -1], norm))
                numbers = f"{ratio.min():.2f} to {ratio.max():.2f} | {np.median(shift):.1f}, {shift.max():.1f}"
                print(f"| {path.parent.name} | {len(data)} | {bounds} | {name} | {numbers} |", flush=True)


def norms(d: int) -> list[float]:
    """Return the norms of the default balls for d numeric columns."""
    columns = tuple(Column(f"x{j}", ColumnType.NUMERIC, lower=-1.0, upper=1.0) for j in range(d))
    return [rows["norm"] for rows in default_row_maps(make_design(columns, (), intercept=True)) if "norm" in rows]


# --- One residual variance -------------------------------------------------------------------------------------------


def robust_ratio(X: Floats, y: Floats) -> Floats:
    """Return the standard errors of least squares by HC3 over those of one residual variance."""
    inverse = np.linalg.inv(X.T @ X)
    residual = y - X @ (inverse @ (X.T @ y))
    own = residual / (1.0 - np.sum(X @ inverse * X, axis=1))
    robust = inverse @ ((X * own[:, np.newaxis] ** 2).T @ X) @ inverse
    ratio: Floats = np.sqrt(np.diag(robust) / (residual @ residual / (len(X) - X.shape[1]) * np.diag(inverse)))
    return ratio


def print_robust(folder: Path | None) -> None:
    """Print the second table."""
    print("\n| rows of | n | slopes: HC3 / one residual variance | worst coverage |")
    print("| --- | ---: | --- | ---: |")
    split = load_split()
    table = split.table(split.registered)
    X, y = design_matrix(table), clip(table[:, -1], TARGET)
    for model in MODELS:
        kept = [FEATURES.index(name) + 1 for name in model]
        ratio = robust_ratio(X[:, [0, *kept]], y)[1:]
        named = ", ".join(f"{name} {of:.2f}" for name, of in zip(model, ratio, strict=True))
        print(f"| flchain | {len(y)} | {named} | {coverage_of(ratio):.2f} |")
    for path in sorted(folder.glob("*/data.csv.gz")) if folder else ():
        rows = scaled(np.loadtxt(path, delimiter=","), "range")
        ratio = robust_ratio(np.column_stack([np.ones(len(rows)), rows[:, :-1]]), rows[:, -1])[1:]
        print(
            f"| {path.parent.name} | {len(rows)} | {ratio.min():.2f} to {ratio.max():.2f} | {coverage_of(ratio):.2f} |"
        )


def coverage_of(ratio: Floats) -> float:
    """Return the coverage of a 95 % interval whose standard error is too small by the largest of some ratios."""
    return 2.0 * NORMAL.cdf(NORMAL.inv_cdf(0.975) / float(ratio.max())) - 1.0


# --- Coverage --------------------------------------------------------------------------------------------------------


def draw(kind: str, n: int, d: int, generator: np.random.Generator) -> Floats:
    """Draw n rows of d columns."""
    normal = generator.standard_normal((n, d))
    match kind:
        case "at 0.9":
            drawn = 0.9 + 0.05 * normal
        case "at -0.95":
            drawn = -0.95 + 0.01 * normal
        case "zero-inflated":
            drawn = generator.uniform(-1.0, 1.0, (n, d)) * (generator.random((n, d)) < 0.2)
        case "skewed":
            drawn = -1.0 + 0.1 * np.exp(normal)
        case "0/1":
            drawn = (generator.random((n, d)) < 0.05).astype(np.float64)
        case _:
            drawn = generator.uniform(-1.0, 1.0, (n, d))
    return np.clip(drawn, -1.0, 1.0)


def run_repeat(case: tuple[str, int, int, float, float, int]) -> tuple[str, float, float, float]:
    """Buy once; return the row map, the share of slopes covered, of those with an interval, and of privacy noise."""
    kind, n, d, epsilon, residual_sd, seed = case
    generator = np.random.default_rng(seed)
    features = draw(kind, n, d, generator)
    beta = np.r_[0.1, np.resize([0.3, -0.15], d)]
    target = beta[0] + features @ beta[1:] + residual_sd * generator.standard_normal(n)
    hospital = Hospital.by_default(features, target, epsilon)
    try:
        fit = OLS().fit(hospital.release(epsilon))
        low, high = fit.conf_int()[1:].T
        private = float(np.median(fit.privacy_share_[1:]))
    except EstimationError:
        low, high, private = np.full(d, -np.inf), np.full(d, np.inf), 1.0
    bounded = np.isfinite(high - low)
    return hospital.rows, float(np.mean((low <= beta[1:]) & (beta[1:] <= high))), float(np.mean(bounded)), private


def print_coverage(options: argparse.Namespace) -> None:
    """Print the third table."""
    print(f"\n{options.repeats} repeats, residual sd {options.residual_sd:g}\n")
    print("| columns | d | n | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |")
    print("| --- | ---: | ---: |" + " --- |" * len(EPSILONS))
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for kind, d, n in product(KINDS, options.terms, options.rows):
            cells = []
            for epsilon in EPSILONS:
                cases = [(kind, n, d, epsilon, options.residual_sd, seed) for seed in range(options.repeats)]
                names, *numbers = zip(*workers.map(run_repeat, cases, chunksize=10), strict=True)
                covered, bounded, private = (float(np.mean(values)) for values in numbers)
                error = math.sqrt(covered * (1.0 - covered) / (options.repeats * d))
                cells.append(f"{names[0]}: {covered:.3f} ± {error:.3f}, {bounded:.0%} bounded, {private:.0%} noise")
            print(f"| {kind} | {d} | {n} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--terms", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 5000, 50000])
    parser.add_argument("--residual-sd", type=float, default=0.2, dest="residual_sd")
    options = parser.parse_args()
    if options.data is not None:
        print_sets(options.data)
    print_robust(options.data)
    print_coverage(options)


if __name__ == "__main__":
    main()
