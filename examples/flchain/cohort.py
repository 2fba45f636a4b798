"""The cohort's fixed split, and the fit without privacy that no analyst could make."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
FEATURES = ["age", "sex", "creatinine", "lambda"]
TARGET = "kappa"
# The same public bounds as in manifest.toml.
BOUNDS = {"age": (50.0, 100.0), "creatinine": (0.0, 3.0), "lambda": (0.0, 6.0), "kappa": (0.0, 6.0)}
HELD_OUT_SHARE = 0.2

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Rows of the file, cut once for all into what the hospital registers and what nobody fits on."""

    header: list[str]
    registered: list[list[str]]
    held_out: list[list[str]]

    def write_registered(self, path: Path) -> None:
        """Write the rows that the hospital registers."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.header)
            writer.writerows(self.registered)

    def table(self, rows: list[list[str]]) -> npt.NDArray[np.object_]:
        """Return the features of the rows that have all of them and the target, in raw units."""
        wanted = [self.header.index(name) for name in (*FEATURES, TARGET)]
        complete = [[row[i] for i in wanted] for row in rows if all(row[i] for i in wanted)]
        return np.array(
            [[value if i == 1 else float(value) for i, value in enumerate(r)] for r in complete], dtype=object
        )


def load_split() -> Split:
    """Read the cohort and cut it with a fixed seed."""
    with (HERE / "flchain.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    order = np.random.default_rng(2012).permutation(len(rows))
    cut = int(len(rows) * HELD_OUT_SHARE)
    return Split(header, [rows[i] for i in sorted(order[cut:])], [rows[i] for i in sorted(order[:cut])])


def clip(values: npt.ArrayLike, name: str) -> Floats:
    """Clip a column to its public bounds."""
    return np.clip(np.asarray(values, dtype=np.float64), *BOUNDS[name])


def design_matrix(table: npt.NDArray[np.object_]) -> Floats:
    """Return (1, age, sex is M, creatinine, lambda), clipped to the public bounds, in raw units."""
    columns = [np.ones(len(table))]
    for i, name in enumerate(FEATURES):
        columns.append((table[:, i] == "M").astype(float) if name == "sex" else clip(table[:, i], name))
    return np.column_stack(columns)


def fit_without_privacy(table: npt.NDArray[np.object_]) -> Floats:
    """Return least-squares coefficients (constant first) of the clipped rows, in raw units."""
    coefficients, *_ = np.linalg.lstsq(design_matrix(table), clip(table[:, -1], TARGET), rcond=None)
    return coefficients


def r_squared(truth: Floats, predicted: Floats) -> float:
    """Return R² on rows that no fit has seen."""
    return float(1 - np.sum((truth - predicted) ** 2) / np.sum((truth - truth.mean()) ** 2))
