"""Test R² on UCI regression sets, through the real server: OLS without privacy, SSP and AdaSSP.

Release k of a set is bought on the training rows of split k; bounds are the columns' ranges over the whole set, rounded
outward to two significant digits. A hospital could not do that (its bounds are public knowledge, not read off the
data); here it is done for every method alike. Prints a Markdown table.

    python -m bench.uci --data DIR [--sets airfoil bike protein] [--splits 10]

DIR holds NAME/data.csv.gz (last column: the response) and NAME/test_mask.csv.gz (one 0/1 column per split), as in
the collection treforevans/uci_datasets.
"""

import argparse
import math
import statistics
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analyst_client import SSP, AdaSSP, CuratorClient
from analyst_client.estimators.linear import LinearFit
from analyst_client.kinds.gram.release import Release
from bench.serving import open_population, serve
from curator_service.container import Curator
from curator_service.privacy.accountant import Price

EPSILONS = (0.3, 1.0, 3.0)
DELTA = 1e-6
Floats = npt.NDArray[np.float64]


def outward(low: float, high: float) -> tuple[float, float]:
    """Round a range outward to two significant digits of its width."""
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1) if high > low else 1.0
    lower, upper = math.floor(low / step) * step, math.ceil(high / step) * step
    return (lower, upper) if upper > lower else (lower - step, upper + step)


def load(folder: Path) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Read a set and its test masks."""
    data = np.loadtxt(folder / "data.csv.gz", delimiter=",")
    mask = np.loadtxt(folder / "test_mask.csv.gz", delimiter=",").astype(bool)
    return data, mask


def manifest(name: str, bounds: list[tuple[float, float]], rows: int) -> str:
    """Write the manifest of a set."""
    head = f'name = "{name}"\npopulation = "uci"\nrow_capacity = {rows}\nrows_are_persons = true\n'
    columns = (
        f'[[columns]]\nname = "{column}"\ntype = "numeric"\nmissing = "complete"\n'
        f"lower = {lower!r}\nupper = {upper!r}\n"
        for column, (lower, upper) in zip(column_names(len(bounds)), bounds, strict=True)
    )
    return head + "".join(columns)


def column_names(count: int) -> list[str]:
    """Name the columns x1, x2, … and y."""
    return [*(f"x{i + 1}" for i in range(count - 1)), "y"]


def r_squared(truth: Floats, predicted: Floats) -> float:
    """Return R² of a prediction on test rows."""
    return float(1 - np.sum((truth - predicted) ** 2) / np.sum((truth - truth.mean()) ** 2))


def score(estimator: LinearFit, release: Release, test: Floats) -> float:
    """Fit on a release and score on test rows."""
    return r_squared(test[:, -1], estimator.fit(release).predict(test[:, :-1], clip=True))


def without_privacy(train: Floats, test: Floats) -> float:
    """Score least squares on the rows themselves."""
    ones = np.ones((len(train), 1))
    coefficients, *_ = np.linalg.lstsq(np.hstack([ones, train[:, :-1]]), train[:, -1], rcond=None)
    return r_squared(test[:, -1], coefficients[0] + test[:, :-1] @ coefficients[1:])


def main() -> None:
    """Register, buy, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["airfoil", "bike", "protein"])
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    sets = {name: load(options.data / name) for name in options.sets}

    def set_up(curator: Curator, folder: Path) -> None:
        open_population(curator, "uci", Price(mu=100.0))
        for name, (data, mask) in sets.items():
            bounds = [outward(column.min(), column.max()) for column in data.T]
            for k in range(options.splits):
                (folder / "manifest.toml").write_text(manifest(f"{name}-{k}", bounds, 10**6))
                np.savetxt(
                    folder / "rows.csv",
                    data[~mask[:, k]],
                    delimiter=",",
                    fmt="%.17g",
                    comments="",
                    header=",".join(column_names(data.shape[1])),
                )
                curator.datasets.register(folder / "manifest.toml", folder / "rows.csv", actor="bench")

    print("| set | rows | features | ε | OLS without privacy | SSP | AdaSSP |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with serve(set_up) as server:
        for name, (data, mask) in sets.items():
            clients = {k: server.analyst(f"{name}-{k}", f"{name}-{k}") for k in range(options.splits)}
            features = column_names(data.shape[1])[:-1]
            exact = [without_privacy(data[~mask[:, k]], data[mask[:, k]]) for k in clients]
            for epsilon in EPSILONS:
                found: dict[str, list[float]] = {"SSP": [], "AdaSSP": []}
                for k, token in clients.items():
                    with CuratorClient(f"http://127.0.0.1:{server.port}", token, memory=None) as client:
                        release = client.release(
                            f"{name}-{k}", features, target="y", epsilon=epsilon, delta=DELTA, expected_rows=len(data)
                        )
                    for estimator in (SSP(), AdaSSP()):
                        found[type(estimator).__name__].append(score(estimator, release, data[mask[:, k]]))
                cells = [f"{statistics.median(r):.3f} / {min(r):.3f}" for r in (exact, *found.values())]
                print(f"| {name} | {len(data)} | {len(features)} | {epsilon:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
