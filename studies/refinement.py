"""Refined regression beside AdaSSP, on sets of the UCI collection, through a real server.

Each of the ten splits of a set is a dataset of its own, with made-up public bounds: ``tight``, the range widened by 5
to 25 % a side and rounded outward, or ``loose``, three times as wide around another centre. A refinement is bought of
its training rows, and its squared error on test rows is compared with that of least squares without privacy, or of its
winsorised twin where that is better. AdaSSP is Wang's own algorithm [1]_, run beside the server on the same bounds.

The figure of a cell is the excess of the error over that without privacy, at least 1 % of it, of all splits together.
The last line is the geometric mean of the ratio of AdaSSP's figure to that of the refinement, over sets that hold a
signal. What was spent is what the ledger says. Prints Markdown.

    python -m studies.refinement --data DIR [--epsilons 0.1 1] [--bounds tight loose] [--splits 10]

References
----------
.. [1] Y.-X. Wang, "Revisiting differentially private linear regression", UAI 2018, algorithm 2.
"""

import argparse
import math
import warnings
from pathlib import Path

import numpy as np

from analyst_client import CuratorClient, EstimationWarning, RefinedRegression
from analyst_client.refinement import RefinementRules
from bench.serving import Server, open_population, serve
from bench.uci import column_names, load, manifest
from curator_service.container import Curator
from curator_service.privacy.accountant import Price
from studies.protocol import BESIDE, DELTA, FLOOR, SIGNAL, Floats, adassp, draw_bounds, error_without_privacy

ADASSP_EPSILON = 100.0
"""At which AdaSSP is shown beside."""


def register(curator: Curator, folder: Path, name: str, rows: Floats, bounds: Floats) -> None:
    """Register training rows under a name."""
    listed = [(float(low), float(high)) for low, high in bounds]
    (folder / "manifest.toml").write_text(manifest(name, listed, len(rows)))
    header = ",".join(column_names(rows.shape[1]))
    np.savetxt(folder / "rows.csv", rows, delimiter=",", fmt="%.17g", comments="", header=header)
    curator.datasets.register(folder / "manifest.toml", folder / "rows.csv", actor="experiment")


def refined_error(server: Server, name: str, train: Floats, test: Floats, epsilon: float) -> tuple[float, float]:
    """Buy, fit and predict; return the squared error on test rows, and the µ² that the ledger counts."""
    token = server.analyst(name, f"{name}-at-{epsilon}")
    features = column_names(train.shape[1])[:-1]
    with CuratorClient(f"http://127.0.0.1:{server.port}", token, memory=None) as client:
        before = client.budget(name).posted.mu
        known = {"expected_rows": len(train), "rules": RefinementRules.for_predictions()}
        found = client.refine(name, features, target="y", epsilon=epsilon, delta=DELTA, **known)
        spent = client.budget(name).posted.mu
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)
        fit = RefinedRegression().fit(found)
    error = float(np.mean((fit.predict(test[:, :-1], clip=True) - test[:, -1]) ** 2))
    return error, (spent or 0.0) ** 2 - (before or 0.0) ** 2


def plain_error(train: Floats, test: Floats, bounds: Floats, epsilon: float, seed: int) -> float:
    """Return the squared error of Wang's AdaSSP on test rows, in the target's own unit."""
    center, scale = bounds.mean(axis=1), (bounds[:, 1] - bounds[:, 0]) / 2
    z, new = (np.clip((rows - center) / scale, -1, 1) for rows in (train, test))
    x, beside = (np.hstack([np.ones((len(rows), 1)), rows[:, :-1]]) for rows in (z, new))
    theta = adassp(x, z[:, -1], epsilon, np.random.default_rng(seed))
    predicted = center[-1] + scale[-1] * np.clip(beside @ theta, -1, 1)
    return float(np.mean((predicted - test[:, -1]) ** 2))


def main() -> None:
    """Register, buy, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=[*SIGNAL, *BESIDE])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--bounds", nargs="+", default=["tight", "loose"])
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    sets = {name: load(options.data / name) for name in options.sets}
    drawn = {(name, kind): draw_bounds(sets[name][0], kind, seed=7) for name in sets for kind in options.bounds}

    def set_up(curator: Curator, folder: Path) -> None:
        open_population(curator, "uci", Price(mu=1000.0))
        for (name, kind), bounds in drawn.items():
            data, masks = sets[name]
            for k in range(options.splits):
                register(curator, folder, f"{name}-{kind}-{k}", data[~masks[:, k]], bounds)

    with serve(set_up) as server:
        for epsilon in options.epsilons:
            for kind in options.bounds:
                _compare(server, sets, drawn, kind, epsilon, options.splits)


def _compare(server: Server, sets: dict, drawn: dict, kind: str, epsilon: float, splits: int) -> None:  # type: ignore[type-arg]
    print(f"\nε = {epsilon:g}, {kind} bounds\n")
    print(f"| set | R² | AdaSSP | at ε = {ADASSP_EPSILON:g} | refined | excess: AdaSSP | refined | µ² spent |")
    print("| --- |" + " ---: |" * 7)
    ratios = []
    for name, (data, masks) in sets.items():
        found = []
        for k in range(splits):
            train, test = data[~masks[:, k]], data[masks[:, k]]
            refined, spent = refined_error(server, f"{name}-{kind}-{k}", train, test, epsilon)
            plain = [plain_error(train, test, drawn[name, kind], at, seed=k) for at in (epsilon, ADASSP_EPSILON)]
            found.append((error_without_privacy(train, test), *plain, refined, np.var(test[:, -1]), spent))
        least, plain_, generous, refined, variance, spent = np.mean(found, axis=0).tolist()
        excess = [max(error / least - 1, FLOOR) for error in (plain_, refined)]
        shares = " | ".join(f"{1 - error / variance:.3f}" for error in (least, plain_, generous, refined))
        print(f"| {name} | {shares} | {excess[0]:.3f} | {excess[1]:.3f} | {spent:.6f} |", flush=True)
        ratios += [math.log(excess[0] / excess[1])] if name in SIGNAL else []
    if ratios:
        print(f"\nAdaSSP's excess is {math.exp(float(np.mean(ratios))):.1f} times that of the refinement")


if __name__ == "__main__":
    main()
