"""Logistic regression by score steps, beside other private ones, on sets of the UCI collection and on flchain.

The target of a UCI set is whether its response is above 0, where the collection puts its mean; of flchain it is death.
Public bounds are made up as `studies.protocol.draw_bounds` does, ``tight`` or ``loose``; those of flchain are of
its manifest. Each split of a set is a dataset of a real server, from which two things are bought at the same price: a
refinement (`client.refine` with ``family="binomial"``), and one release of XᵀX and Xᵀy, whose fit is the approximation
of `LogisticRegression`.

Beside them stands gradient descent on clipped gradients [1]_ of terms within public bounds, simulated with ideal noise
at the same µ²: of a grid of steps, norms and rates the best *in hindsight*, by the log loss on test rows of all splits.
No private method could choose so well.

A cell is accuracy in % / log loss on test rows, means over splits. Prints Markdown.

    python -m studies.logistic --data DIR [--epsilons 0.3 1] [--bounds tight loose] [--splits 3]

DIR holds uci/NAME/data.csv.gz and uci/NAME/test_mask.csv.gz, and flchain/flchain.csv.

References
----------
.. [1] M. Abadi and others, "Deep learning with differential privacy", CCS 2016.
"""

import argparse
import csv
import itertools
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client import CuratorClient, EstimationWarning, LogisticRegression
from analyst_client.planning.prices import gdp_delta, number_of
from analyst_client.terms import col
from bench.serving import Server, open_population, serve
from bench.uci import column_names, load
from curator_service.container import Curator
from curator_service.privacy.accountant import Price
from studies.protocol import DELTA, draw_bounds
from studies.refinement import register

Floats = npt.NDArray[Any]
SETS = ("airfoil", "bike", "elevators", "protein", "wine", "flchain")
STEPS, NORMS, RATES = (10, 30, 100), (0.1, 0.3, 1.0, 3.0), (0.3, 1.0, 3.0, 10.0, 30.0)
RIDGE = 1e-3
"""Of the fit without privacy, on standard scores: it keeps separated classes finite."""


@dataclass(frozen=True)
class Study:
    """Rows, whose last column is the response; where it is cut; test rows by split; and public bounds."""

    rows: Floats
    threshold: float
    masks: npt.NDArray[np.bool_]
    bounds: Floats

    def split(self, k: int) -> tuple[Floats, Floats]:
        """Return training rows and test rows."""
        return self.rows[~self.masks[:, k]], self.rows[self.masks[:, k]]

    def target(self, rows: Floats) -> Floats:
        """Return the boolean target of rows."""
        cut: Floats = (rows[:, -1] > self.threshold).astype(float)
        return cut


def read_study(folder: Path, name: str, kind: str) -> Study:
    """Read a set, with its bounds."""
    if name != "flchain":
        rows, masks = load(folder / "uci" / name)
        return Study(rows, 0.0, masks, draw_bounds(rows, kind, seed=7))
    with (folder / "flchain" / "flchain.csv").open() as file:
        read = [row for row in csv.DictReader(file) if row["creatinine"]]
    numbers = [[float(row[column]) for column in ("age", "creatinine", "lambda", "kappa")] for row in read]
    flags = [[row["sex"] == "M", row["mgus"] == "yes", row["death"] == "dead"] for row in read]
    rows = np.hstack([np.array(numbers), np.array(flags, dtype=float)])
    masks = np.random.default_rng(3).uniform(size=(len(rows), 10)) < 0.1
    bounds = np.array([(50, 100), (0, 3), (0, 6), (0, 6), (0, 1), (0, 1), (0, 1)], dtype=float)
    return Study(rows, 0.5, masks, bounds)


def judged(index: Floats, target: Floats) -> tuple[float, float]:
    """Return accuracy in % and log loss of log odds."""
    loss = np.logaddexp(0.0, np.where(target > 0.5, -index, index))
    return 100.0 * float(np.mean((index > 0.0) == (target > 0.5))), float(np.mean(loss))


def fitted(x: Floats, y: Floats) -> Floats:
    """Return the coefficients of maximum likelihood, by Newton's method."""
    theta = np.zeros(x.shape[1])
    penalty = RIDGE * np.eye(len(theta))
    for _ in range(40):
        mean = 1.0 / (1.0 + np.exp(-np.clip(x @ theta, -30.0, 30.0)))
        H = (x * (mean * (1.0 - mean))[:, None]).T @ x + penalty
        theta = theta + np.clip(np.linalg.solve(H, x.T @ (y - mean) - penalty @ theta), -2.0, 2.0)
    return theta


def without_privacy(study: Study, k: int) -> tuple[float, float]:
    """Judge logistic regression on the rows themselves."""
    train, test = study.split(k)
    center, scale = train[:, :-1].mean(axis=0), np.maximum(train[:, :-1].std(axis=0), 1e-9)
    x, new = (np.hstack([np.ones((len(rows), 1)), (rows[:, :-1] - center) / scale]) for rows in (train, test))
    return judged(new @ fitted(x, study.target(train)), study.target(test))


def gradient_descent(study: Study, splits: int, mu: float) -> tuple[float, float]:
    """Judge private gradient descent with the steps, norm and rate that were best for the test rows."""
    center, scale = study.bounds[:-1].mean(axis=1), np.ptp(study.bounds[:-1], axis=1) / 2.0
    found: dict[tuple[int, float, float], list[tuple[float, float]]] = {}
    for k in range(splits):
        train, test = study.split(k)
        x, new = (
            np.hstack([np.ones((len(rows), 1)), np.clip((rows[:, :-1] - center) / scale, -1.0, 1.0)])
            for rows in (train, test)
        )
        y, lengths = study.target(train), np.sqrt(np.sum(x**2, axis=1))
        for steps, norm, rate in itertools.product(STEPS, NORMS, RATES):
            generator, theta = np.random.default_rng([k, steps]), np.zeros(x.shape[1])
            for _ in range(steps):
                residual = y - 1.0 / (1.0 + np.exp(-np.clip(x @ theta, -30.0, 30.0)))
                clipped = residual * np.minimum(1.0, norm / np.maximum(np.abs(residual) * lengths, 1e-12))
                noise = norm * np.sqrt(steps) / mu * generator.standard_normal(len(theta))
                theta = theta + rate / norm * (x.T @ clipped + noise) / len(x)
            found.setdefault((steps, norm, rate), []).append(judged(new @ theta, study.target(test)))
    means = [tuple(np.mean(each, axis=0).tolist()) for each in found.values()]
    return min(means, key=lambda mean: mean[1])


def bought(server: Server, name: str, study: Study, k: int, epsilon: float) -> list[tuple[float, float]]:
    """Buy a refinement and one release, and judge both fits."""
    token = server.analyst(name, f"{name}-at-{epsilon}")
    train, test = study.split(k)
    features, target = column_names(train.shape[1])[:-1], col("y") > study.threshold
    price: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "expected_rows": len(train)}
    with CuratorClient(f"http://127.0.0.1:{server.port}", token, memory=None) as client, warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)
        one = client.release(name, features, target=target, statistics=["xtx", "xty"], **price)
        refinement = client.refine(name, features, target=target, family="binomial", **price)
        fits = [LogisticRegression().fit(one), LogisticRegression().fit(refinement)]
    return [judged(fit.decision_function(test[:, :-1], clip=True), study.target(test)) for fit in fits]


def main() -> None:
    """Register, buy, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0])
    parser.add_argument("--bounds", nargs="+", default=["tight", "loose"])
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    studies = {
        (name, kind): read_study(options.data, name, kind)
        for kind in options.bounds
        for name in options.sets
        if name != "flchain" or kind == options.bounds[0]
    }

    def set_up(curator: Curator, folder: Path) -> None:
        open_population(curator, "uci", Price(mu=1000.0))
        for (name, kind), study in studies.items():
            for k in range(options.splits):
                register(curator, folder, f"{name}-{kind}-{k}", study.split(k)[0], study.bounds)

    with serve(set_up) as server:
        for epsilon in sorted(options.epsilons):  # what was told with less noise would answer again, for nothing
            mu = number_of(gdp_delta, epsilon, DELTA)
            print(f"\nε = {epsilon:g}: accuracy in % / log loss\n")
            print(
                "| set | bounds | majority | without privacy | one Gram | gradient descent, in hindsight | refinement |"
            )
            print("| --- | --- |" + " ---: |" * 5)
            for (name, kind), study in studies.items():
                splits = range(options.splits)
                found = [bought(server, f"{name}-{kind}-{k}", study, k, epsilon) for k in splits]
                one, refined = (tuple(np.mean([each[j] for each in found], axis=0)) for j in range(2))
                plain = tuple(np.mean([without_privacy(study, k) for k in splits], axis=0))
                shares = [float(np.mean(study.target(study.split(k)[1]))) for k in splits]
                majority = 100.0 * float(np.mean([max(share, 1.0 - share) for share in shares]))
                descent = gradient_descent(study, options.splits, mu)
                cells = " | ".join(f"{accuracy:.1f} / {loss:.3f}" for accuracy, loss in (plain, one, descent, refined))
                print(
                    f"| {name} | {kind if name != 'flchain' else 'manifest'} | {majority:.1f} | {cells} |", flush=True
                )


if __name__ == "__main__":
    main()
