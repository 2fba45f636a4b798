"""Pairs of neighbouring datasets that an honest release moves as far as it is charged, and their exact statistics.

The attacker's own arithmetic, in float64 and from the documents alone: it shares no code with the service.

Where a row is added, its worst place is a corner of what the row map allows: every bound of docs/privacy.md is reached
by one row at once. A row that is counted moves one cell of each table; one that replaces another moves two. A tree is a
table for each of its levels. Moments move most where 1 is added or replaces −1, and in L1 where it replaces −1/2.

Where a row (x, y) replaces (v, w), the joint bound of XᵀX, Xᵀy and yᵀy has two corners. Let A and B be what XᵀX and
Xᵀy cost alone, and t = x·v/R² for two rows of the full norm R. With targets 1 and −1 the release moves by
A(1 − t²) + B(1 + t)/2, which is largest at **t = B/4A**. With a row that counts for nothing in place of the other it
moves by A + B/4 + C, C being the cost of yᵀy. `sensitivity.joint_cost` charges the larger of the two.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audit.evidence import Floats

Row = Mapping[str, float | str | None]
Coded = tuple[float, list[float], list[float]]
"""What a row counts, its terms, the constant included, and its targets, before the row map."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A request and a pair of neighbours.

    Attributes
    ----------
    name : str
    adjacency : str
    request : dict
        As an analyst sends it.
    row : Mapping
        The row of the person whose presence, or whose data, the attacker guesses.
    replaced_by : Mapping or None
        The other row under ``replace_one``.
    accountant : str
    omit : bool
        Whether columns are declared ``omit``: a row that misses a value then counts for nothing.
    rows_per_person : int or None
        Where a subject column says whose rows they are: how many of a person's count. The person has one row more.
    categories : Mapping
        Levels of each categorical column. Every other column is numeric from −1 to 1.
    sharp : bool
        Whether the pair must reach 95 % of what is charged.
    code : callable or None
        Where a request computes: what its expressions mean, in the attacker's words. Of a row to its `Coded`.
    """

    name: str
    adjacency: str
    request: dict[str, Any]
    row: Row
    replaced_by: Row | None = None
    accountant: str = "gdp"
    omit: bool = False
    rows_per_person: int | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sharp: bool = True
    code: Callable[[Row], Coded] | None = None

    @property
    def filler(self) -> Row:
        """A row that is in both datasets: nobody is alone."""
        return {name: self.categories[name][0] if name in self.categories else 0.0 for name in self.row}

    @property
    def datasets(self) -> tuple[list[Row], list[Row]]:
        """The two neighbours, the person of interest last."""
        count = 1 if self.rows_per_person is None else self.rows_per_person + 1
        other = [] if self.replaced_by is None else [self.replaced_by] * count
        return [self.filler, *other], [self.filler, *[self.row] * count]

    def manifest(self, name: str, population: str) -> str:
        """Return the declaration of either neighbour: the same for both, as it is public."""
        lines = [f'name = "{name}"', f'population = "{population}"', "row_capacity = 1000"]
        if self.rows_per_person is None:
            lines.append("rows_are_persons = true")
        else:
            lines += ['subject = "person"', f"rows_per_subject = {self.rows_per_person}"]
        for column in self.row:
            levels = self.categories.get(column)
            public = "lower = -1.0\nupper = 1.0" if levels is None else f"levels = {list(levels)}".replace("'", '"')
            kind = "numeric" if levels is None else "categorical"
            missing = "omit" if self.omit else "complete"
            lines += [f'[[columns]]\nname = "{column}"\ntype = "{kind}"\nmissing = "{missing}"\n{public}']
        return "\n".join(lines) + "\n"

    def csv(self, rows: list[Row]) -> str:
        """Return rows as an admin would upload them."""
        header = ",".join(["person", *self.row])  # where a row is a person it is not declared, and differs
        texts = [",".join(["" if row[c] is None else str(row[c]) for c in self.row]) for row in rows]
        return "\n".join([header, *(f"{min(i, 1)},{text}" for i, text in enumerate(texts))]) + "\n"


def exact_answer(cell: Cell, rows: list[Row]) -> Floats:
    """Return what a release without noise would say, entry by entry, in the order of an answer."""
    counted = rows if cell.rows_per_person is None else rows[: 1 + cell.rows_per_person]
    if cell.request.get("kind") == "counts":
        return np.concatenate([_counts(cell, table, counted).ravel() for table in cell.request["tables"]])
    if cell.request.get("kind") == "marginals":
        return np.concatenate([_marginal(cell, asked, counted).ravel() for asked in cell.request["marginals"]])
    if cell.request.get("kind") == "score":
        found = [_scored(cell, row) for row in counted]
        return np.concatenate([sum(part[name] for part in found) for name in statistics_of(cell.request)])
    mapped = [_mapped(cell, row) for row in counted]
    terms, targets = np.array([x for x, _ in mapped]), np.array([y for _, y in mapped])
    xtx = terms.T @ terms
    parts = {
        "xtx": xtx[np.triu_indices(len(xtx))],
        "xty": (terms.T @ targets).ravel(),
        "yty": np.sum(targets**2, axis=0),
        "lambda_min": np.linalg.eigvalsh(xtx)[:1],
    }
    return np.concatenate([parts[name] for name in statistics_of(cell.request)])


def statistics_of(request: Mapping[str, Any]) -> list[str]:
    """Return the statistics of a request in the order of an answer; cells have their tables and marginals in it."""
    if request.get("kind") == "counts":
        return [f"table_{i}" for i in range(len(request["tables"]))]
    if request.get("kind") == "marginals":
        return [f"marginal_{i}" for i in range(len(request["marginals"]))]
    if request.get("kind") == "score":
        return list(request["statistics"])
    return list(request.get("statistics") or (["xtx", "xty", "yty"] if request.get("targets") else ["xtx"]))


def _counts(cell: Cell, table: Mapping[str, Any], rows: list[Row]) -> Floats:
    """Return how many rows are in each cell of a table; bins are equal parts of −1 to 1."""
    axes = table["axes"]
    sizes = [len(cell.categories[axis["column"]]) if "bins" not in axis else axis["bins"] for axis in axes]
    counts = np.zeros([size + axis.get("missing", False) for size, axis in zip(sizes, axes, strict=True)])
    for row in rows:
        place = []
        for size, axis in zip(sizes, axes, strict=True):
            value = row[axis["column"]]
            if value is None:
                place.append(size if axis.get("missing") else None)
            elif isinstance(value, str):
                place.append(cell.categories[axis["column"]].index(value))
            else:
                place.append(_bin(value, size))
        if None not in place:
            counts[tuple(place)] += _weight(cell, row)
    return counts


def _marginal(cell: Cell, asked: Mapping[str, Any], rows: list[Row]) -> Floats:
    """Return the numbers of each column of a marginal."""
    return np.array(
        [sum(_weight(cell, row) * _numbers(asked, row[column]) for row in rows) for column in asked["columns"]]
    )


def _numbers(asked: Mapping[str, Any], value: float | str | None) -> Floats:
    """Return what a value adds: one to a bin of each level, or its moments; a missing one adds nothing."""
    u, counts = _clipped(value), float(value is not None)
    if asked["type"] == "moments":
        return np.array([0.5, u, u * u - 0.5]) * counts
    sizes = [2**k for k in range(1, asked["levels"] + 1)] if asked["type"] == "tree" else [asked["bins"]]
    return np.concatenate([np.arange(size) == _bin(u, size) for size in sizes]) * counts


def _scored(cell: Cell, row: Row) -> dict[str, Floats]:
    """Return what a row adds to a score, to the histogram of norms, and to the products of gradients."""
    request, first = cell.request, int(cell.request.get("intercept", True))
    if cell.code is None:
        x, targets = _plain(cell, row, first)
        weight = float(all(row[name] is not None for name in [*request["features"], request["target"]]))
    else:
        weight, terms, values = cell.code(row)
        x, targets = np.array(terms), np.array(values)
    theta = np.array(list(request["coefficients"]["weights"].values())) / 2.0 ** request["coefficients"]["bits"]
    eta, y = float(x @ theta), float(targets[0])
    match request["loss"]:
        case "logistic":
            residual = y - 1 / (1 + math.exp(-eta))
        case "poisson":  # of a target with bounds 0 and 1
            residual = y - min(math.exp(eta), 1.0)
        case _:
            residual = y - eta
    directions = np.array(list(request["directions"]["matrix"].values())) / 2.0 ** request["directions"]["bits"]
    gradient = residual * (x @ directions)
    length = _norm(gradient)
    added = weight * min(1.0, 1.0 / max(length, 1e-300)) * gradient
    bins = np.arange(13) == np.sum(length >= 1.6 ** np.arange(-8.0, 4.0))
    return {"score": added, "norms": weight * bins, "meat": np.outer(added, added)[np.triu_indices(len(added))]}


def _weight(cell: Cell, row: Row) -> float:
    return 1.0 if cell.code is None else cell.code(row)[0]


def _bin(value: float, size: int) -> int:
    """Return which of equal bins of −1 to 1 a value is in."""
    return min(size - 1, int((_clipped(value) + 1) / 2 * size))


def _mapped(cell: Cell, row: Row) -> tuple[Floats, Floats]:
    request, first = cell.request, int(cell.request.get("intercept", True))
    if cell.code is None:
        x, y = _plain(cell, row, first)
        return _shrunk(request["rows"], first, x, y)
    weight, terms, targets = cell.code(row)
    x, y = _shrunk(request["rows"], first, np.array(terms), np.array(targets))
    return x * math.sqrt(weight), y * math.sqrt(weight)


def _plain(cell: Cell, row: Row, first: int) -> tuple[Floats, Floats]:
    """Return terms and targets of a request that names columns alone."""
    request = cell.request
    asked = [request["target"]] if request.get("kind") == "score" else request.get("targets", [])
    used = [*request["features"], *asked]
    counts = not any(row[name] is None for name in used)
    terms = [1.0] * first
    for name in request["features"]:
        if name in cell.categories:
            terms += [float(row[name] == level) for level in cell.categories[name][first:]]
        else:
            terms.append(_clipped(row[name]))
    y = np.array([_clipped(row[name]) for name in asked])
    return np.array(terms) * counts, y * counts


def _shrunk(rows: Mapping[str, Any], first: int, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    match rows["map"]:
        case "linear":
            x = x @ np.array(list(rows["matrix"].values())) / 2.0 ** rows["bits"]  # a list for each term, in order
            weight = min(1.0, 1.0 / max(_norm(x), 1e-300))
            return x * weight, y * weight
        case "ball":
            weight = min(1.0, rows["norm"] / max(_norm(x), 1e-300))
            return x * weight, y * weight
        case "unit" | "unit_xy" as name:
            norm = _norm(x[first:])
            x = np.concatenate([x[:first], x[first:] / norm if norm > 0 else x[first:]])
            if name == "unit_xy":
                y = np.clip(y / norm, -1, 1) if norm > 0 else np.zeros_like(y)
    return x, y


def _clipped(value: float | str | None) -> float:
    return 0.0 if value is None else min(1.0, max(-1.0, float(value)))


def _norm(vector: Floats) -> float:
    return math.sqrt(float(vector @ vector))
