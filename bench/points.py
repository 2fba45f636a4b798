"""Which point to report: coefficients of every estimator, on the sets and models of `bench.fits`.

Of each estimator: the root mean square error of its coefficients, in standard errors without privacy, by median over
slopes; the share of its points that its own 95 % interval does not hold; and the R² of its predictions of all rows over
that without privacy. Releases are bought as a newcomer types them. Prints Markdown.

    python -m bench.points --data DIR [--sets flchain cps …] [--repeats 24] [--epsilons 0.3 1 3] [--jobs 2]
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from analyst_client import OLS, SSP, AdaSSP, EmpiricalBayes, EstimationError, RefinedRegression
from bench.figures import solve, unit_target
from bench.fits import HELD_BACK, SETS, Call, Floats, kept_rows, population_of, truth_of
from bench.populations import DELTA, raw_map

MODEL = 3
"""The model of each set that has the most features."""
ESTIMATORS: dict[str, Any] = {
    "OLS": OLS(),
    "SSP": SSP(),
    "AdaSSP": AdaSSP(),
    "EmpiricalBayes": EmpiricalBayes(),
    "RefinedRegression": RefinedRegression(),
}
Told = dict[str, tuple[Floats, Floats, float]]


def run_once(name: str, epsilon: float, data: Path, seed: int) -> Told:
    """Return errors in standard errors, whether intervals miss points, and the R² of predictions, by estimator."""
    population, truth = population_of(name, MODEL, data), truth_of(name, MODEL, data)[1:]
    draw = population.draw(population.rows[0], seed)
    known = ~np.isnan(draw.x).any(axis=1) & ~np.isnan(draw.y)
    L, _ = raw_map(population.coded, "gaussian")
    plain, covariance = solve(draw.x[known], unit_target(population, draw.y[known]), "gaussian")
    errors = np.sqrt(np.diag(L @ covariance @ L.T))[1:]
    kept = np.flatnonzero(kept_rows(population, None))
    seen = kept[np.linspace(0, len(kept) - 1, 2000).astype(int)]
    frame = {column: values[seen] for column, values in population.raw.items()}
    target = population.coded.target
    y = target.center + target.scale * population.coded.y[seen]
    best = target.center + target.scale * population.coded.x[seen] @ plain
    call = Call(
        draw.client, ("rows", SETS[name].models[MODEL - 1][0]), {"epsilon": epsilon, "delta": DELTA}, 0, "gaussian"
    )
    release, refinement = call.release(), call.refine()
    found: Told = {}
    for label, estimator in ESTIMATORS.items():
        with suppress(EstimationError, np.linalg.LinAlgError):
            fit = estimator.fit(refinement if label == "RefinedRegression" else release)
            low, high = np.asarray(fit.conf_int())[1:].T
            missed = (fit.coef_ < low) | (fit.coef_ > high)
            predicted = np.asarray(fit.predict(frame, clip=True))
            gained = (1.0 - np.mean((y - predicted) ** 2) / np.var(y)) / (1.0 - np.mean((y - best) ** 2) / np.var(y))
            found[label] = (fit.coef_ - truth) / errors, missed, float(gained)
    return found


def _run(name: str, epsilon: float, data: Path, seed: int) -> Told:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return run_once(name, epsilon, data, seed)


def line(told: Sequence[tuple[Floats, Floats, float]]) -> str:
    """Return the cells of an estimator."""
    if not told:
        return "– | – | –"
    error = np.sqrt(np.median(np.array([one[0] for one in told]) ** 2, axis=0))
    missed, kept = np.mean([one[1] for one in told]), np.median([one[2] for one in told])
    return f"{np.median(error):.1f} | {missed:.0%} | {kept:.2f}"


def main() -> int:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of real sets")
    linear = [name for name, one in SETS.items() if one.family == "gaussian" and name not in HELD_BACK]
    parser.add_argument("--sets", nargs="+", default=linear)
    parser.add_argument("--repeats", type=int, default=24)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(
        "| set | ε | estimator | error | outside its interval | R² kept | told |\n| --- | "
        + "---: | " * 1
        + "--- | "
        + "---: | " * 4
    )
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.sets:
            for epsilon in options.epsilons:
                told = list(pool.map(partial(_run, name, epsilon, options.data), range(options.repeats), chunksize=4))
                for label in ESTIMATORS:
                    own = [one[label] for one in told if label in one]
                    print(f"| {name} | {epsilon:g} | {label} | {line(own)} | {len(own) / len(told):.0%} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
