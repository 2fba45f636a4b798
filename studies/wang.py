"""AdaSSP on six UCI sets as Wang (2018) ran it: the same preparation, folds, prices and error, at a served curator.

Source: Y.-X. Wang, "Revisiting differentially private linear regression" (UAI 2018, arXiv:1803.02596), section 6, and
the program that the paper names (github.com/yuxiangw/optimal_dp_linear_regression), which says what the paper does not.

Protocol. Columns are standardised over all rows, training and test together; each row is divided by its own norm; the
target is centred and divided by its largest absolute value; no constant; δ = 1e-6; ten folds of a tenth each; the error
is the mean squared error on the held-out fold. All of that reads the data, unpaid, as his does. The training rows of a
fold are a dataset of a real curator, bounds m ± k·σ with one k for all columns, and are released through HTTP with the
row map ``unit``: XᵀX, Xᵀy and λ_min. Calibrations are ``wang2018``, which is his noise, and ``analytic``, which spends
the same (ε, δ) to the end. Beside them stands his program's arithmetic with ideal noise, written down again.

Published errors are those that his repository stores, of which the paper's table has three digits. Prints Markdown.

    python -m studies.wang --data DIR [--releases 5] [--figure studies/images/literature_wang.png]

DIR holds NAME/data.csv.gz (last column: the target) and NAME/test_mask.csv.gz, as in the collection
treforevans/uci_datasets.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analyst_client import AdaSSP
from bench.uci import load
from studies.common import (
    DELTA,
    Panel,
    Shelf,
    draw_panels,
    head,
    line,
    mean_squared_error,
    number,
    open_shelf,
    over_folds,
    parser_of,
    shown,
)
from studies.metrics import Floats, Proportion

EPSILONS = (1.0, 0.1)
CALIBRATIONS = ("wang2018", "analytic")
RELEASE = {"rows": "unit", "intercept": False, "statistics": ["xtx", "xty", "lambda_min"]}
WRITTEN_AGAIN = "his program, written again"


@dataclass(frozen=True)
class Published:
    """Errors that Wang's repository stores of a set: of zero, of ridge, and AdaSSP's mean and deviation over folds."""

    trivial: float
    ridge: float
    adassp: dict[float, tuple[float, float]]

    def mean(self, epsilon: float) -> Proportion:
        """Return the mean over ten folds with its standard error."""
        value, deviation = self.adassp[epsilon]
        return Proportion(value, deviation / math.sqrt(10))


PUBLISHED = {
    "airfoil": Published(0.1033, 0.0533, {1.0: (0.0588, 0.0109), 0.1: (0.0912, 0.0163)}),
    "bike": Published(0.1073, 0.0279, {1.0: (0.0287, 0.0014), 0.1: (0.0472, 0.0042)}),
    "concrete": Published(0.1274, 0.0445, {1.0: (0.0637, 0.0076), 0.1: (0.1320, 0.0346)}),
    "elevators": Published(0.0367, 0.0086, {1.0: (0.0132, 0.0011), 0.1: (0.0261, 0.0028)}),
    "protein": Published(0.1671, 0.1189, {1.0: (0.1199, 0.0022), 0.1: (0.1259, 0.0025)}),
    "wine": Published(0.0566, 0.0202, {1.0: (0.0326, 0.0047), 0.1: (0.0627, 0.0071)}),
}


def prepared(data: Floats) -> Floats:
    """Return standardised columns and, last, the centred target over its largest absolute value.

    Examples
    --------
    >>> prepared(np.array([[1.0, 0.0], [3.0, 4.0]])).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    features, target = data[:, :-1], data[:, -1] - data[:, -1].mean()
    sd = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)
    return np.column_stack([scaled, target / np.abs(target).max()])


def directions(features: Floats) -> Floats:
    """Divide rows by their norms; a row of zeros stays.

    Examples
    --------
    >>> directions(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.where(norms > 0.0, norms, 1.0), dtype=np.float64)


def ridge(X: Floats, y: Floats) -> Floats:
    """Fit without privacy and a penalty of 1, as Wang's reference does."""
    return np.asarray(np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y), dtype=np.float64)


def adassp_again(X: Floats, y: Floats, epsilon: float, generator: np.random.Generator) -> Floats:
    """Fit as Wang's program does, on rows of norm 1 and targets within 1, with ideal noise.

    It differs from the paper's algorithm 2 in two ways: 1 is added to the diagonal of XᵀX before anything else, and
    noise beside the diagonal is that of it over √2.
    """
    d = X.shape[1]
    scale, logarithm = 3.0 / epsilon, math.log(6.0 / DELTA)
    sd = scale * math.sqrt(logarithm)
    A = X.T @ X + np.eye(d)
    least = float(np.linalg.eigvalsh(A)[0]) + sd * generator.standard_normal() - scale * logarithm
    wanted = scale * math.sqrt(d * logarithm * math.log(2.0 * d**2 / 0.05))
    noise = generator.standard_normal((d, d))
    noisy = A + sd * (noise + noise.T) / 2.0 + max(0.0, wanted - max(least, 0.0)) * np.eye(d)
    return np.asarray(np.linalg.solve(noisy, X.T @ y + sd * generator.standard_normal(d)), dtype=np.float64)


@dataclass(frozen=True)
class Found:
    """Errors of a set: without privacy, and of each way at each price."""

    trivial: Proportion
    ridge: Proportion
    private: dict[tuple[str, float], Proportion]


def measure(shelf: Shelf, name: str, folder: Path, releases: int) -> Found:
    """Register the training rows of each fold, release them, fit and predict the held-out fold."""
    data, masks = load(folder)
    rows = prepared(data)
    reach = float(np.ceil(np.abs(rows[:, :-1]).max()))
    bounds = [*((-reach, reach) for _ in range(rows.shape[1] - 1)), (-1.0, 1.0)]
    zero, plain = [], []
    private: dict[tuple[str, float], list[list[float]]] = {}
    for k, mask in enumerate(masks.T):
        train, (Z, truth) = rows[~mask], (rows[mask][:, :-1], rows[mask][:, -1])
        X, y, generator = directions(train[:, :-1]), train[:, -1], np.random.default_rng([2018, k])
        zero.append(float(np.mean(truth**2)))
        plain.append(mean_squared_error(truth, directions(Z) @ ridge(X, y)))
        shelf.offer(f"{name}-{k}", bounds, train)
        for epsilon in EPSILONS:
            for calibration in CALIBRATIONS:
                asked = {"epsilon": epsilon, "calibration": calibration, **RELEASE}
                fits = [AdaSSP().fit(shelf.buy(f"{name}-{k}", **asked)) for _ in range(releases)]
                errors = [mean_squared_error(truth, fit.predict(Z, clip=False)) for fit in fits]
                private.setdefault((calibration, epsilon), []).append(errors)
            again = [directions(Z) @ adassp_again(X, y, epsilon, generator) for _ in range(releases)]
            errors = [mean_squared_error(truth, predicted) for predicted in again]
            private.setdefault((WRITTEN_AGAIN, epsilon), []).append(errors)
    means = {key: over_folds(folds) for key, folds in private.items()}
    return Found(Proportion.of(zero), Proportion.of(plain), means)


def tables(found: dict[str, Found]) -> str:
    """Return a table without privacy, and one for each ε."""
    lines = [head(["set"], ["zero: published", "ours", "ridge: published", "ours"])]
    for name, of in found.items():
        published = PUBLISHED[name]
        cells = (number(published.trivial), number(of.trivial.value), number(published.ridge), number(of.ridge.value))
        lines.append(line(name, *cells))
    ways = (WRITTEN_AGAIN, *CALIBRATIONS)
    for epsilon in EPSILONS:
        lines += [f"\nε = {epsilon:g}:\n", head(["set"], ["published", *ways])]
        for name, of in found.items():
            means = (PUBLISHED[name].mean(epsilon), *(of.private[way, epsilon] for way in ways))
            lines.append(line(name, *map(shown, means)))
    return "\n".join(lines)


def panel(epsilon: float, found: dict[str, Found]) -> Panel:
    """Return the errors at a price, as parts of the error of predicting zero; one place for each set."""

    def part(of: Proportion, name: str) -> Proportion:
        trivial = PUBLISHED[name].trivial
        return Proportion(of.value / trivial, of.error / trivial)

    series = {
        "published": {float(place): part(PUBLISHED[name].mean(epsilon), name) for place, name in enumerate(found)},
        **{
            way: {float(place): part(of.private[way, epsilon], name) for place, (name, of) in enumerate(found.items())}
            for way in (WRITTEN_AGAIN, *CALIBRATIONS)
        },
        "ridge, no privacy": {float(place): part(of.ridge, name) for place, (name, of) in enumerate(found.items())},
    }
    return Panel(
        f"ε = {epsilon:g}",
        "",
        "error over that of predicting zero",
        series,
        {"predicting zero": 1.0},
        (False, False),
        (0.0, 1.25),
        tuple(found),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw."""
    parser = parser_of(__doc__, "literature_wang.png", reads=True)
    parser.add_argument("--sets", nargs="+", default=list(PUBLISHED))
    parser.add_argument("--releases", type=int, default=5)
    options = parser.parse_args(arguments)
    with open_shelf() as shelf:
        found = {name: measure(shelf, name, options.data / name, options.releases) for name in options.sets}
        first = f"{options.sets[0]}-0"
        charged = [shelf.charged(first, epsilon=e, calibration="wang2018", **RELEASE) for e in EPSILONS]
    print(tables(found))
    for epsilon, really in zip(EPSILONS, charged, strict=True):
        print(f"\n`wang2018` at ε = {epsilon:g} is charged as ε = {really:.3g}.")
    draw_panels(options.figure, [panel(epsilon, found) for epsilon in EPSILONS], columns=2)


if __name__ == "__main__":
    main()
