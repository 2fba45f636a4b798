"""Coverage and width of 95 % intervals on releases of the server's own code, and of textbook intervals on the same.

Rows are drawn anew for each repeat, with known coefficients (`simulation.Truth`): uniform features that fill their
bounds, or correlated normal ones with three deviations to the bound; default shares, add_remove, and the default row
map for the right guess of rows. Width is the half length of an interval over that of least squares without privacy on
the same rows, in the median. A cell whose intervals are unbounded in some repeats counts those as covering, and its
median may be infinite. Prints Markdown.

    python -m bench.coverage [--repeats 200] [--rows 500 5000 50000] [--terms 3 10 30] [--noise gaussian laplace]
        [--methods fieller delta bootstrap naive]
"""

import argparse
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np
import numpy.typing as npt

from analyst_client import OLS, EstimationError, Release
from analyst_client.inference.quantiles import student_quantile
from bench.simulation import Hospital, Truth
from curator_service.privacy.calibration import Mechanism

EPSILONS = (0.1, 0.5, 1.0, 3.0)
METHODS = ("fieller", "delta", "naive")
Floats = npt.NDArray[np.float64]


def naive_intervals(release: Release) -> Floats:
    """Return textbook intervals: the noisy statistics taken for exact ones."""
    assert release.xtx is not None
    inverse = np.linalg.inv(release.xtx)
    theta = inverse @ release.xty[:, 0]
    dof = max(release.xtx[0, 0] - len(theta), 1.0)
    scale = max((release.yty[0] - release.xty[:, 0] @ theta) / dof, 0.0)
    half = student_quantile(0.025, dof) * np.sqrt(np.maximum(scale * np.diag(inverse), 0.0))
    return np.column_stack([theta - half, theta + half]) * release.targets[0].scale


def half_widths(features: Floats, target: Floats) -> Floats:
    """Return the half lengths of least squares' intervals on the rows themselves."""
    X = np.column_stack([np.ones(len(features)), features])
    inverse = np.linalg.inv(X.T @ X)
    residual = target - X @ (inverse @ (X.T @ target))
    dof = len(X) - X.shape[1]
    half: Floats = student_quantile(0.025, dof) * np.sqrt(residual @ residual / dof * np.diag(inverse))
    return half


def intervals_of(release: Release, method: str) -> Floats:
    """Return the intervals of a method; the whole line where it has none."""
    if method == "naive":
        return naive_intervals(release)
    try:
        return OLS().fit(release).conf_int(method=method)
    except EstimationError:
        return np.tile([-np.inf, np.inf], (len(release.terms), 1))


def run_repeat(case: tuple[int, int, int, bool, tuple[str, ...], tuple[str, ...]]) -> list[tuple[object, ...]]:
    """Draw one hospital, buy at every price, and see what covers."""
    seed, n, d, correlated, mechanisms, methods = case
    truth = Truth.of(d, correlated=correlated)
    rows = truth.draw(np.random.default_rng(seed), n)
    without_privacy = half_widths(*rows)
    found: list[tuple[object, ...]] = []
    for mechanism, epsilon in product(mechanisms, EPSILONS):
        noise = Mechanism(mechanism)
        release = Hospital.by_default(*rows, epsilon, noise).release(epsilon, noise)
        for method in methods:
            start = time.perf_counter()
            low, high = intervals_of(release, method).T
            took = time.perf_counter() - start
            covered = np.mean((low <= truth.beta) & (truth.beta <= high))
            width = np.median(((high - low) / (2.0 * without_privacy))[1:])
            found.append((mechanism, epsilon, method, float(covered), float(width), took))
    return found


def summarise(results: list[list[tuple[object, ...]]], methods: int) -> Iterator[str]:
    """Return one line for each noise and price."""
    table = np.array([[(row[3], row[4], row[5]) for row in repeat] for repeat in results], dtype=np.float64)
    keys = [row[:3] for row in results[0]]
    for start in range(0, len(keys), methods):
        covered, width, took = np.moveaxis(table[:, start : start + methods], 2, 0)
        bounded = np.mean(np.isfinite(width[:, 0]))
        cells = [f"{covered[:, m].mean():.3f} / {np.median(width[:, m]):.2f}" for m in range(methods)]
        head = f"{keys[start][0]} | {keys[start][1]:g} | {bounded:.0%}"
        yield f"{head} | {' | '.join(cells)} | {1e3 * np.median(took[:, 0]):.1f}"


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 5000, 50000])
    parser.add_argument("--terms", type=int, nargs="+", default=[3, 10, 30])
    parser.add_argument("--noise", nargs="+", default=["gaussian", "laplace"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help="the first is timed; also bootstrap")
    options = parser.parse_args()
    heads = " | ".join(f"{method}: coverage / width" for method in options.methods)
    print(f"{options.repeats} repeats\n\n| n | d | features | noise | ε | bounded | {heads} | ms |")
    print("| ---: | ---: | --- | --- | ---: | ---: |" + " ---: |" * (len(options.methods) + 1))
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for n, d, correlated in product(options.rows, options.terms, (False, True)):
            cases = [
                (seed, n, d, correlated, tuple(options.noise), tuple(options.methods))
                for seed in range(options.repeats)
            ]
            results = list(workers.map(run_repeat, cases, chunksize=5))
            for line in summarise(results, len(options.methods)):
                print(f"| {n} | {d} | {'correlated' if correlated else 'independent'} | {line} |", flush=True)


if __name__ == "__main__":
    main()
