"""Logistic regression on real boolean targets, through the real server, beside scikit-learn's without privacy.

flchain: death, and sex, from what the laboratory measured. With --data two more: hours with 100 or more rentals
(bike) and wines of quality 6 or better (wine). Ten random splits, a fifth of the rows held out; three fresh releases
of XᵀX and Xᵀy for each split and ε. Bounds of flchain come from clinical knowledge, as in its manifest; those of the
other sets are the columns' ranges, rounded outward, for every method alike. Without privacy: LogisticRegression of
scikit-learn without a penalty, on the same training rows, clipped and coded alike. Prints Markdown.

    python -m bench.logistic [--data DIR]

DIR holds NAME/data.csv.gz as in the collection treforevans/uci_datasets.
"""

import argparse
import csv
import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression as Reference
from sklearn.metrics import log_loss, roc_auc_score

from analyst_client import Column, CuratorClient, LogisticRegression
from analyst_client.kinds.gram.design import design_matrix
from analyst_client.schema.columns import terms_of
from bench.serving import Server, open_population, serve
from bench.uci import outward
from curator_service.container import Curator
from curator_service.privacy.accountant import Price
from examples.flchain.cohort import HERE

EPSILONS = (0.3, 1.0, 3.0)
DELTA = 1e-6
SPLITS, RELEASES = 10, 3
LABORATORY = (
    Column.numeric("creatinine", 0, 3),
    Column.numeric("kappa", 0, 6),
    Column.numeric("lambda", 0, 6),
    Column.numeric("age", 50, 100),
    Column.numeric("sample_yr", 1995, 2003),
)
SEX = Column.boolean("sex", ("F", "M"))
LOG_RENTALS = -4.536  # the collection centred the logarithms: this is that of one rental
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """Rows, the columns that explain, and the boolean column to be explained.

    Attributes
    ----------
    name : str
    features : tuple of Column
    target : Column
    rows : dict of str to list of str
        Raw values as a CSV file has them, complete rows only.
    """

    name: str
    features: tuple[Column, ...]
    target: Column
    rows: dict[str, list[str]]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows[self.target.name])

    def split(self, k: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return which rows are registered and which held out."""
        order = np.random.default_rng(2012 + k).permutation(len(self))
        return order[len(self) // 5 :], order[: len(self) // 5]

    def frame(self, chosen: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.generic]]:
        """Return the features of rows as an analyst would have them."""
        return {
            column.name: np.array([self.rows[column.name][i] for i in chosen]).astype(
                float if column.type == "numeric" else str
            )
            for column in self.features
        }

    def truth(self, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return the target of rows."""
        return np.array([self.rows[self.target.name][i] == self.target.levels[1] for i in chosen])

    def coded(self, chosen: npt.NDArray[np.int64]) -> Floats:
        """Return the terms of rows beside the constant, clipped and scaled."""
        return design_matrix(self.frame(chosen), self.features, terms_of(self.features, True), clip=True)[:, 1:]

    def register(self, curator: Curator, folder: Path, k: int) -> None:
        """Register the rows of a split."""
        columns = (*self.features, self.target)
        text = f'name = "{self.name}-{k}"\npopulation = "bench"\nrow_capacity = 20_000\nrows_are_persons = true\n'
        for column in columns:
            text += f'[[columns]]\nname = "{column.name}"\ntype = "{column.type}"\nmissing = "complete"\n'
            numeric = column.type == "numeric"
            text += f"lower = {column.lower}\nupper = {column.upper}\n" if numeric else ""
            text += "" if numeric else f"levels = {json.dumps(column.levels)}\n"
        (folder / "manifest.toml").write_text(text, encoding="utf-8")
        with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([column.name for column in columns])
            writer.writerows([self.rows[column.name][i] for column in columns] for i in self.split(k)[0])
        curator.datasets.register(folder / "manifest.toml", folder / "rows.csv", actor="bench")


def flchain_tasks() -> list[Task]:
    """Return death and sex, of the rows that have every laboratory value."""
    with (HERE / "flchain.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if all(row[column.name] for column in LABORATORY)]
    table = {name: [row[name] for row in rows] for name in rows[0]}
    dead = Column.boolean("death", ("alive", "dead"))
    return [Task("death", (*LABORATORY, SEX), dead, table), Task("sex", LABORATORY, SEX, table)]


def uci_task(
    name: str, folder: Path, target: str, column: int, threshold: float, left_out: tuple[int, ...] = ()
) -> Task:
    """Return whether a column of a UCI set reaches a threshold."""
    data = np.loadtxt(folder / "data.csv.gz", delimiter=",")
    kept = [j for j in range(data.shape[1]) if j not in {column, *left_out}]
    features = tuple(Column.numeric(f"x{j + 1}", *outward(data[:, j].min(), data[:, j].max())) for j in kept)
    table = {f"x{j + 1}": [repr(float(value)) for value in data[:, j]] for j in kept}
    table[target] = ["yes" if value >= threshold else "no" for value in data[:, column]]
    return Task(name, features, Column.boolean(target, ("no", "yes")), table)


def accuracy_auc_loss(truth: npt.NDArray[np.bool_], odds: Floats) -> tuple[float, float, float]:
    """Return accuracy, area under the ROC curve, and log loss."""
    probability = np.clip(0.5 + 0.5 * np.tanh(odds / 2.0), 1e-12, 1.0 - 1e-12)
    return (
        float(np.mean((odds > 0.0) == truth)),
        float(roc_auc_score(truth, odds)),
        float(log_loss(truth, probability)),
    )


def measure(task: Task, server: Server) -> None:
    """Buy, fit, compare, print one row for each ε."""
    features = [column.name for column in task.features]
    splits = []
    for k in range(SPLITS):
        train, test = task.split(k)
        truth = task.truth(test)
        reference = Reference(C=math.inf, tol=1e-6, max_iter=5000).fit(task.coded(train), task.truth(train))
        found = accuracy_auc_loss(truth, reference.decision_function(task.coded(test)))
        token = server.analyst(f"{task.name}-{k}", f"{task.name}-{k}")
        splits.append((f"{task.name}-{k}", token, task.frame(test), truth, found))
    without = np.median([split[-1] for split in splits], axis=0)
    majority = statistics.median(max(truth.mean(), 1.0 - truth.mean()) for *_, truth, _ in splits)
    for epsilon in EPSILONS:
        scores, differences = [], []
        for name, token, frame, truth, reference in splits:
            with CuratorClient(f"http://127.0.0.1:{server.port}", token, memory=None) as client:
                for _ in range(RELEASES):
                    release = client.release(
                        name,
                        features,
                        target=task.target.name,
                        epsilon=epsilon,
                        delta=DELTA,
                        statistics=["xtx", "xty"],
                        fresh=True,
                    )
                    odds = LogisticRegression().fit(release).decision_function(frame, clip=True)
                    scores.append(accuracy_auc_loss(truth, odds))
                    differences.append(100.0 * (scores[-1][0] - reference[0]))
        accuracy, auc, loss = np.median(scores, axis=0)
        cells = [
            task.name,
            f"{len(task)}",
            f"{len(features)}",
            f"{epsilon:g}",
            f"{majority:.3f}",
            f"{without[0]:.3f}, {without[1]:.3f}, {without[2]:.3f}",
            f"{accuracy:.3f} / {min(score[0] for score in scores):.3f}, {auc:.3f}, {loss:.3f}",
            f"{statistics.median(differences):+.2f} / {min(differences):+.2f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Register, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    folder = parser.parse_args().data
    tasks = flchain_tasks()
    if folder is not None:
        # The last two features of bike are casual and registered rentals, whose sum is the response.
        tasks.append(uci_task("bike", folder / "bike", "busy", 17, math.log(100.0) + LOG_RENTALS, (15, 16)))
        # In this copy of wine the quality is the last feature, centred at 5.636: 6 and better is above 0.
        tasks.append(uci_task("wine", folder / "wine", "good", 10, 0.0))

    def set_up(curator: Curator, temporary: Path) -> None:
        open_population(curator, "bench", Price(mu=100.0))
        for task in tasks:
            for k in range(SPLITS):
                task.register(curator, temporary, k)

    print("| target | rows | features | ε | majority | without privacy | LogisticRegression | difference, points |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with serve(set_up) as server:
        for task in tasks:
            measure(task, server)


if __name__ == "__main__":
    main()
