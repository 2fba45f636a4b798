"""Kalaja's comparisons (2020) at a served curator: algorithms, row norms, the constant and clipping for AdaSSP.

Source: E. Kalaja, "Adaptive algorithm in differential privacy: comparative analysis of pre-processing methods" (MSc
thesis, University of Helsinki, 2020), sections 3.3, 3.4 and chapter 4. The thesis shows its results in figures alone,
so what is compared is what its text says of them.

Protocol. Ten folds; the error is the mean squared error on the held-out fold, the target over its largest absolute
value; δ = 1e-6. Means m, deviations σ, the largest norm x_max and the largest target y_max are of the training rows, as
in its section 4.2: they become the bounds that a manifest declares, under which a row over x_max, or over its own norm,
is the thesis'. No hospital may declare such bounds; the last two lines have public ones. Noise is that of its Algorithm
3, calibration ``classical``, where not said otherwise. Everything is released by a real curator through HTTP. Prints
Markdown.

    python -m studies.kalaja --data DIR [--releases 2] [--figure studies/images/literature_kalaja.png]

DIR holds NAME/data.csv.gz (last column: the target) and NAME/test_mask.csv.gz, as in the collection
treforevans/uci_datasets. Of the thesis' four sets airfoil and elevators are among them; concrete and bike are not the
thesis'.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from analyst_client import SSP, AdaSSP, EstimationWarning
from analyst_client.estimators.linear import LinearFit
from bench.recipes import DIRECTION_MIN, FAMILIES, Bounds, thesis
from bench.uci import load
from studies.common import (
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

SETS = ("airfoil", "concrete", "elevators", "bike")
EPSILONS = (0.1, 0.3, 1.0, 1.9)
"""Below 2: there SSP's two parts, an ε of its half each, reach the end of the classical formula."""
CLIPS = (1.0, 1.2, 1.4, 1.6)
ADASSP = {"statistics": ["xtx", "xty", "lambda_min"], "calibration": "classical", "intercept": False}
ROW = {"rows": "unit", **ADASSP}
MAXIMUM = {"rows": "ball", "norm": 1.0, **ADASSP}
CLIP = "clip {:g}σ"


@dataclass(frozen=True)
class Variant:
    """A line of the tables.

    Attributes
    ----------
    bounds : str
        Which rows under which bounds: a dataset of the shelf.
    options : dict
        Of the request, beside its price.
    estimator : type
    clips_new_rows : bool
        Whether new rows are clipped as those of the release were, equation 3.9.
    """

    bounds: str
    options: dict[str, Any] = field(default_factory=lambda: ROW)
    estimator: type[LinearFit] = AdaSSP
    clips_new_rows: bool = False


VARIANTS = {
    "SSP, row norms": Variant("training", {**ROW, "statistics": ["xtx", "xty"]}, SSP),
    "AdaSSP, row norms": Variant("training"),
    "the same, Algorithm 2 (`wang2018`)": Variant("training", {**ROW, "calibration": "wang2018"}),
    "the same, `analytic`": Variant("training", {**ROW, "calibration": "analytic"}),
    "row norms, y too (3.4)": Variant("training, y", {**ROW, "rows": "unit_xy"}),
    "maximum norm (3.5)": Variant("training", MAXIMUM),
    "maximum norm, numbers of all rows": Variant("all", MAXIMUM),
    "maximum norm, with a constant": Variant("training", {**MAXIMUM, "norm": math.sqrt(2.0), "intercept": True}),
    **{f"maximum norm, clipped at {c:g}σ": Variant(CLIP.format(c), MAXIMUM) for c in CLIPS},
    **{
        f"the same, new rows clipped at {c:g}σ (3.9)": Variant(CLIP.format(c), MAXIMUM, clips_new_rows=True)
        for c in (1.0, 1.6)
    },
    "public bounds: row norms, with a constant, `analytic`": Variant("public", {"rows": "unit"}),
    "public bounds: no row map named, `analytic`": Variant("public", {}),
}
FIGURES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "algorithms",
        {
            "SSP": "SSP, row norms",
            "AdaSSP, Algorithm 3": "AdaSSP, row norms",
            "AdaSSP, Algorithm 2": "the same, Algorithm 2 (`wang2018`)",
            "AdaSSP, analytic": "the same, `analytic`",
        },
    ),
    (
        "maps",
        {
            "row norms": "AdaSSP, row norms",
            "row norms, y too": "row norms, y too (3.4)",
            "maximum norm": "maximum norm (3.5)",
            "maximum norm, clipped at 1.4σ": "maximum norm, clipped at 1.4σ",
        },
    ),
)


def clipped_above(rows: Floats, c: float, of: Floats | None = None) -> Floats:
    """Clip features at m + cσ of themselves, or of other rows; the target, last, stays: equation 3.8.

    Examples
    --------
    >>> clipped_above(np.array([[0.0, 9.0], [2.0, 9.0]]), 0.5).tolist()
    [[0.0, 9.0], [1.5, 9.0]]
    """
    features = (rows if of is None else of)[:, :-1]
    upper = features.mean(axis=0) + c * features.std(axis=0)
    return np.column_stack([np.minimum(rows[:, :-1], upper), rows[:, -1]])


def datasets(train: Floats, data: Floats) -> Iterator[tuple[str, Bounds, Floats]]:
    """Yield each dataset of a fold: its name, its bounds and its rows."""
    known: dict[str, Callable[[Floats, Floats], Bounds]] = {
        "training": FAMILIES["thesis"],
        "training, y": FAMILIES["thesis, y"],
        "all": FAMILIES["thesis, before"],
        "public": FAMILIES["declared"],
    }
    for name, bounds_of in known.items():
        yield name, bounds_of(train, data), train
    for c in CLIPS:
        clipped = clipped_above(train, c)
        yield CLIP.format(c), thesis(clipped), clipped


Errors = dict[tuple[str, float], list[list[float]]]


def add_fold(shelf: Shelf, name: str, rows: tuple[Floats, Floats, Floats], releases: int, errors: Errors) -> None:
    """Register a fold's datasets, and add the errors of every variant at every price.

    Parameters
    ----------
    shelf : Shelf
    name : str
        Of the fold.
    rows : tuple of ndarray
        Training, held out, all.
    releases : int
    errors : dict
        By variant and ε, a list for each fold.
    """
    train, test, data = rows
    places: dict[str, str] = {}
    for place, (bounds_name, bounds, registered) in enumerate(datasets(train, data)):
        places[bounds_name] = f"{name}-{place}"
        shelf.offer(places[bounds_name], bounds, registered)
    unit = float(np.abs(data[:, -1]).max())
    for label, variant in VARIANTS.items():
        new = test
        if variant.clips_new_rows:
            new = clipped_above(test, float(variant.bounds.removeprefix("clip ").removesuffix("σ")), train)
        for epsilon in EPSILONS:
            found = []
            for _ in range(releases):
                fit = variant.estimator().fit(shelf.buy(places[variant.bounds], epsilon=epsilon, **variant.options))
                predicted = fit.predict(new[:, :-1], clip=variant.bounds == "public")
                found.append(mean_squared_error(test[:, -1], predicted, unit))
            errors.setdefault((label, epsilon), []).append(found)


def least_squares(train: Floats, new: Floats) -> Floats:
    """Predict without privacy; directions that repeat others, as elevators has them, are left out."""
    center, scale = train[:, :-1].mean(axis=0), train[:, :-1].std(axis=0)
    X, Z = (np.column_stack([np.ones(len(rows)), (rows[:, :-1] - center) / scale]) for rows in (train, new))
    return np.asarray(Z @ np.linalg.lstsq(X, train[:, -1], rcond=DIRECTION_MIN)[0], dtype=np.float64)


@dataclass(frozen=True)
class Found:
    """Errors of a set: of predicting zero, of least squares, the mean of each variant at each price, and its worst."""

    zero: float
    plain: float
    means: dict[tuple[str, float], Proportion]
    worst: dict[tuple[str, float], float]


def measure(shelf: Shelf, name: str, folder: Path, releases: int) -> Found:
    """Measure all variants on a set."""
    data, masks = load(folder)
    errors: Errors = {}
    unit, plain = float(np.abs(data[:, -1]).max()), []
    for k, mask in enumerate(masks.T):
        train, test = data[~mask], data[mask]
        add_fold(shelf, f"{name}-{k}", (train, test, data), releases, errors)
        plain.append(mean_squared_error(test[:, -1], least_squares(train, test), unit))
    means = {key: over_folds(folds) for key, folds in errors.items()}
    worst = {key: max(map(max, folds)) for key, folds in errors.items()}
    return Found(float(np.mean((data[:, -1] / unit) ** 2)), float(np.mean(plain)), means, worst)


def table(name: str, found: Found) -> str:
    """Return the table of a set."""
    lines = [f"\n**{name}**: predicting zero {number(found.zero)}, least squares {number(found.plain)}.\n"]
    lines.append(head(["variant"], [*(f"ε = {epsilon:g}" for epsilon in EPSILONS), "worst at ε = 1"]))
    for label in VARIANTS:
        cells = [shown(found.means[label, epsilon]) for epsilon in EPSILONS]
        lines.append(line(label, *cells, number(found.worst[label, 1.0])))
    return "\n".join(lines)


def panel(name: str, drawn: dict[str, str], found: Found) -> Panel:
    """Return a set's panel."""
    series = {short: {epsilon: found.means[label, epsilon] for epsilon in EPSILONS} for short, label in drawn.items()}
    values = [point.value for points in series.values() for point in points.values()]
    ylim = (0.8 * min(values), min(1.3 * max(values), 30.0 * found.zero))
    return Panel(name, "ε", "mean squared error", series, {"predicting zero": found.zero}, (True, True), ylim)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw."""
    parser = parser_of(__doc__, "literature_kalaja.png", reads=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--releases", type=int, default=2)
    options = parser.parse_args(arguments)
    panels: dict[str, list[Panel]] = {kind: [] for kind, _ in FIGURES}
    with open_shelf() as shelf, warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)  # SSP's, which the tables count
        for name in options.sets:
            found = measure(shelf, name, options.data / name, options.releases)
            print(table(name, found), flush=True)
            for kind, drawn in FIGURES:
                panels[kind].append(panel(name, drawn, found))
    draw_panels(options.figure, [each for kind, _ in FIGURES for each in panels[kind]], columns=len(options.sets))


if __name__ == "__main__":
    main()
