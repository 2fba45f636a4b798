"""Test R² of the recipes of docs/recipes.md on UCI sets, through the real server: how rows are mapped, and what bounds.

Release k of a set is bought on the training rows of split k. Bounds are the columns' ranges over the whole set, rounded
outward ("declared"), or numbers of the training rows that a hospital must not read off its data ("the thesis' numbers":
they show what the thesis measured), or numbers bought first and paid for. Prints a Markdown table for each set.

    python -m bench.recipes --data DIR [--sets airfoil elevators bike] [--splits 10]

DIR holds NAME/data.csv.gz (last column: the response) and NAME/test_mask.csv.gz (one 0/1 column per split), as in
the collection treforevans/uci_datasets.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client import AdaSSP, CuratorClient, EmpiricalBayes, Release, RequestInvalidError
from analyst_client.estimators.linear import LinearFit
from bench.serving import Server, open_population, serve
from bench.uci import column_names, load, outward, r_squared
from curator_service.container import Curator
from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price

EPSILONS = (0.3, 1.0, 3.0)
DELTA = 1e-6
ROW_CAPACITY = 50_000
FIRST_SHARE = 0.1
"""Part of µ² that means and standard deviations are bought for."""
DIRECTION_MIN = 1e-4
"""Without noise, directions below this part of the largest singular value are left out: elevators repeats columns."""
Floats = npt.NDArray[np.float64]
Bounds = list[tuple[float, float]]


@dataclass(frozen=True)
class Variant:
    """A row of the table: bounds, request, estimator."""

    name: str
    bounds: str
    options: Mapping[str, Any] = field(default_factory=dict)
    estimator: type[LinearFit] = AdaSSP

    @property
    def intercept(self) -> bool:
        """True if it has a constant."""
        return bool(self.options.get("intercept", True))


NO_CONSTANT: dict[str, Any] = {"intercept": False}
ALGORITHM: dict[str, Any] = {"rows": "unit", "statistics": ["xtx", "xty", "lambda_min"], **NO_CONSTANT}
NIEMINEN: dict[str, Any] = {"rows": "box", "mechanism": "laplace"}
VARIANTS = (
    Variant("row norms (3.3)", "thesis", {"rows": "unit", **NO_CONSTANT}),
    Variant("the same, Algorithm 2 (`wang2018`)", "thesis", {"calibration": "wang2018", **ALGORITHM}),
    Variant("the same, Algorithm 3 (`classical`)", "thesis", {"calibration": "classical", **ALGORITHM}),
    Variant("row norms, with a constant", "thesis", {"rows": "unit"}),
    Variant("row norms, y too (3.4)", "thesis, y", {"rows": "unit_xy", **NO_CONSTANT}),
    Variant("maximum norm (3.5)", "thesis", {"norm": 1.0, **NO_CONSTANT}),
    Variant("maximum norm, numbers of all rows (4.2)", "thesis, before", {"norm": 1.0, **NO_CONSTANT}),
    Variant("maximum norm, with a constant (4.2.1)", "thesis", {"norm": math.sqrt(2.0)}),
    Variant("maximum norm, x_max = 2√d, with a constant", "m ± 2√d·σ", {"norm": math.sqrt(2.0)}),
    Variant("clipped at m + 1.5σ (3.8), `box`", "clipped", {"rows": "box"}),
    Variant("Nieminen (`nieminen2017`)", "m ± 2σ", {"calibration": "nieminen2017", **NIEMINEN}, EmpiricalBayes),
    Variant("the same, `analytic` Laplace", "m ± 2σ", NIEMINEN, EmpiricalBayes),
    Variant("row norms, with a constant", "declared", {"rows": "unit"}),
    Variant("`box`", "declared", {"rows": "box"}),
    Variant("`ball`", "declared", {"rows": "ball"}),
    Variant("row norms (3.3)", "bought", {"rows": "unit", **NO_CONSTANT}),
    Variant("`ball`", "bought", {"rows": "ball"}),
)


def moments(rows: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations of columns."""
    return rows.mean(axis=0), rows.std(axis=0)


def around(center: Floats, reach: Floats | float) -> Bounds:
    """Return bounds around centers."""
    return [(float(c - r), float(c + r)) for c, r in zip(center, np.broadcast_to(reach, center.shape), strict=True)]


def thesis(rows: Floats, *, with_y: bool = False) -> Bounds:
    """Return bounds under which scaled rows are those of equation 3.5: m ± x_max·σ, and ± y_max.

    `with_y`: y's bound is such that y over the norm of the scaled row is at most 1, as in equation 3.4.
    """
    features, y = rows[:, :-1], np.abs(rows[:, -1])
    mean, sd = moments(features)
    norms = np.linalg.norm((features - mean) / sd, axis=1)
    y_max = float(np.max(y / norms) * norms.max()) if with_y else float(y.max())
    return [*around(mean, norms.max() * sd), (-y_max, y_max)]


def declared(rows: Floats) -> Bounds:
    """Return the ranges of columns, rounded outward."""
    return [outward(column.min(), column.max()) for column in rows.T]


def clipped(rows: Floats, known: Bounds) -> Bounds:
    """Return bounds with the upper one of each feature at m + 1.5σ."""
    mean, sd = moments(rows[:, :-1])
    upper = mean + 1.5 * sd
    return [*((low, min(high, float(u))) for (low, high), u in zip(known[:-1], upper, strict=True)), known[-1]]


def bought(first: Release, known: Bounds, *, within: bool) -> Bounds:
    """Return bounds of three standard deviations around the mean, as a release under `box` tells them.

    `within`: never wider than what is declared. Not for row norms, where a column's middle must stand for its mean.
    """
    count = max(float(first.xtx[0, 0]), 1.0)
    mean = np.append(first.xtx[0, 1:], first.xty[0, 0]) / count
    variance = np.append(np.diag(first.xtx)[1:], first.yty[0]) / count - mean**2
    found = []
    for (low, high), m, v in zip(known, mean, variance, strict=True):
        # Noise may put a mean or a deviation beyond what is possible between the declared bounds.
        center = (low + high) / 2 + (high - low) / 2 * float(np.clip(m, -1.0, 1.0))
        reach = 3.0 * (high - low) / 2 * math.sqrt(float(np.clip(v, 1e-4, 1.0)))
        lower, upper = center - reach, center + reach
        if within and max(lower, low) < min(upper, high):
            lower, upper = max(lower, low), min(upper, high)
        found.append((lower, upper))
    return found


FAMILIES: dict[str, Callable[[Floats, Floats], Bounds]] = {
    "declared": lambda _train, data: declared(data),
    "thesis": lambda train, _data: thesis(train),
    "thesis, y": lambda train, _data: thesis(train, with_y=True),
    "thesis, before": lambda _train, data: thesis(data),
    "clipped": lambda train, data: clipped(train, declared(data)),
    "m ± 2σ": lambda train, _data: around(train.mean(axis=0), 2.0 * train.std(axis=0)),
    "m ± 2√d·σ": lambda train, _data: [
        *around(train.mean(axis=0), 2.0 * math.sqrt(train.shape[1] - 1) * train.std(axis=0))[:-1],
        thesis(train)[-1],
    ],
}


def register(curator: Curator, folder: Path, name: str, bounds: Bounds, rows: Floats) -> None:
    """Register rows with the bounds that the manifest declares."""
    names = column_names(len(bounds))
    head = f'name = "{name}"\npopulation = "uci"\nrow_capacity = {ROW_CAPACITY}\nrows_are_persons = true\n'
    columns = (
        f'[[columns]]\nname = "{column}"\ntype = "numeric"\nmissing = "complete"\nlower = {low!r}\nupper = {high!r}\n'
        for column, (low, high) in zip(names, bounds, strict=True)
    )
    (folder / "manifest.toml").write_text(head + "".join(columns))
    header = ",".join(names)
    np.savetxt(folder / "rows.csv", rows, delimiter=",", fmt="%.17g", comments="", header=header)
    curator.datasets.register(folder / "manifest.toml", folder / "rows.csv", actor="bench")


def without_noise(variant: Variant, bounds: Bounds, train: Floats, test: Floats) -> Floats:
    """Predict by least squares on the mapped rows themselves, written down a second time."""
    low, high = np.array(bounds).T
    center, scale = (low + high) / 2, (high - low) / 2
    coded, unseen = (np.clip((rows - center) / scale, -1.0, 1.0) for rows in (train, test))
    (X, y), Z = (coded[:, :-1], coded[:, -1]), unseen[:, :-1]
    lengths, unseen_lengths = (np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, Z))
    constant, unseen_constant = np.ones((len(X), 1)), np.ones((len(Z), 1))
    row_map = variant.options.get("rows", "ball")
    if row_map in {"unit", "unit_xy"}:
        X = X / lengths
    if row_map == "unit":
        Z = Z / unseen_lengths
    if row_map == "unit_xy":
        y = np.clip(y / lengths[:, 0], -1.0, 1.0)
    if variant.intercept:
        X, Z = np.hstack([constant, X]), np.hstack([unseen_constant, Z])
    if row_map == "ball":
        norm = variant.options.get("norm", math.sqrt(1 + (len(bounds) - 1) / 10))
        weight = np.minimum(1.0, norm / np.linalg.norm(X, axis=1))
        X, y = X * weight[:, None], y * weight
    theta, *_ = np.linalg.lstsq(X, y, rcond=DIRECTION_MIN)
    predicted: Floats = center[-1] + scale[-1] * (Z @ theta)
    return predicted


class Shop:
    """One set's training rows at a curator, under every kind of bounds, and its test rows."""

    def __init__(self, server: Server, name: str, data: Floats, mask: npt.NDArray[np.bool_]) -> None:
        self.server, self.name, self.data = server, name, data
        self.train, self.test = data[~mask], data[mask]
        self.features = column_names(data.shape[1])[:-1]
        self.bounds: dict[str, Bounds] = {}
        self.token = server.curator.identity.create_token(name, Role.ANALYST).text

    def offer(self, family: str, bounds: Bounds, folder: Path) -> None:
        """Register the rows once more, under other bounds."""
        dataset = self.dataset(family)
        register(self.server.curator, folder, dataset, bounds, self.train)
        self.server.grant(self.name, dataset)
        self.bounds[family] = bounds

    def dataset(self, family: str) -> str:
        """Name the dataset."""
        return f"{self.name}-{list(FAMILIES).index(family) if family in FAMILIES else family}"

    def buy(self, family: str, **options: Any) -> Release:
        """Buy a release; `fresh`, or the library would answer it from one of another variant that has less noise."""
        with CuratorClient(f"http://127.0.0.1:{self.server.port}", self.token, memory=None) as client:
            return client.release(self.dataset(family), self.features, target="y", fresh=True, **options)

    def predict(self, variant: Variant, epsilon: float, folder: Path) -> Floats:
        """Buy, fit and predict test rows. Raise `RequestInvalidError` where a formula does not sell at this price."""
        price: dict[str, float] = {"epsilon": epsilon}
        if variant.options.get("mechanism") != "laplace":
            price["delta"] = DELTA
        family = variant.bounds
        if family == "bought":
            mu = self.mu(epsilon)
            price = {"mu": mu * math.sqrt(1.0 - FIRST_SHARE)}
            within = variant.options.get("rows") != "unit"
            family = f"bought-{epsilon:g}-{'within' if within else 'around'}"
            first = self.buy("declared", mu=mu * math.sqrt(FIRST_SHARE), rows="box")
            self.offer(family, bought(first, self.bounds["declared"], within=within), folder)
        release = self.buy(family, **price, **variant.options)
        return variant.estimator().fit(release).predict(self.test[:, :-1], clip=True)

    def mu(self, epsilon: float) -> float:
        """Return what a price is in µ."""
        with CuratorClient(f"http://127.0.0.1:{self.server.port}", self.token, memory=None) as client:
            quote = client.quote(self.dataset("declared"), self.features, target="y", epsilon=epsilon, delta=DELTA)
        assert quote.cost.mu is not None
        return quote.cost.mu


def cell(values: list[float]) -> str:
    """Write the median and the worst."""
    return f"{statistics.median(values):.2f} / {min(values):.2f}" if values else "refused"


def table(name: str, shops: list[Shop], folder: Path) -> None:
    """Print a set's table."""
    rows, columns = shops[0].data.shape
    print(f"\n**{name}**, {rows:,} rows, {columns - 1} features:\n")
    head = " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS)
    print(f"| variant | bounds | without noise | {head} | RMSE, ε = 1 |")
    print("| --- | --- | ---: |" + " ---: |" * (len(EPSILONS) + 1))
    for variant in VARIANTS:
        known = [shop.bounds.get(variant.bounds) for shop in shops]
        exact = [
            r_squared(shop.test[:, -1], without_noise(variant, bounds, shop.train, shop.test))
            for shop, bounds in zip(shops, known, strict=True)
            if bounds is not None
        ]
        cells, error = [cell(exact) if exact else "—"], "—"
        for epsilon in EPSILONS:
            found, errors = [], []
            for shop in shops:
                try:
                    predicted = shop.predict(variant, epsilon, folder)
                except RequestInvalidError:
                    break
                found.append(r_squared(shop.test[:, -1], predicted))
                errors.append(math.sqrt(np.mean((shop.test[:, -1] - predicted) ** 2)))
            cells.append(cell(found))
            if epsilon == 1.0 and errors:
                error = f"{statistics.median(errors):.3g}"
        print(f"| {variant.name} | {variant.bounds} | {' | '.join(cells)} | {error} |", flush=True)


def main() -> None:
    """Register, buy, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["airfoil", "elevators", "bike"])
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()

    def set_up(curator: Curator, folder: Path) -> None:
        folders.append(folder)
        open_population(curator, "uci", Price(mu=100.0))

    folders: list[Path] = []
    with serve(set_up) as server:
        for name in options.sets:
            data, mask = load(options.data / name)
            shops = [Shop(server, f"{name}-{k}", data, mask[:, k]) for k in range(options.splits)]
            for shop in shops:
                for family, bounds_of in FAMILIES.items():
                    shop.offer(family, bounds_of(shop.train, data), folders[0])
            table(name, shops, folders[0])


if __name__ == "__main__":
    main()
