"""Rivals of the refined regression, tuned in hindsight: private gradient descent, boosted AdaSSP and DP-EBM.

Sets, splits and made-up public bounds are those of ``studies.refinement``, and so are ε, δ and the µ² that they
come to. Rows are scaled to [−1, 1] by the bounds, and everybody is given the number of training rows. Beside the
refined regression stand:

- gradient descent [1]_: the squared loss with a constant, each row's gradient clipped, all rows in every step, normal
  noise, µ²/T for each of T steps; momentum, and the mean of the second half of the steps, where they help;
- boosted AdaSSP [2]_: a noisy XᵀX once, then T rounds of Xᵀr of clipped residuals r, each µ²/3T;
- DP-EBM [3]_, of the package ``interpret``, by its own accounting. It is no line, but a sum of curves.

The first two are simulated with ideal noise. Each rival is tuned in hindsight: all of a grid is tried on some splits,
and what is best there on all of them; shown is the setting with the least error on test rows. That takes the rows, the
test rows and free repeats; no analyst has any of these. The luck of the noise is counted in favour of the rival too.

``interpret`` is no dependency of this project. ``pip install --no-deps --target DIR interpret-core`` puts it into a
folder of its own, and ``PYTHONPATH=DIR:.`` finds it; where it is missing the columns of DP-EBM are left out.

The refined column is read from what ``studies.refinement`` printed. Results are kept in a file as they come, and
those that are in it are not computed again, so a new refined column takes a second. Prints Markdown.

    python -m studies.rivals --data DIR [--refined FILE] [--results FILE] [--epsilons 1 0.1] [--bounds tight loose]

References
----------
.. [1] M. Abadi and others, "Deep learning with differential privacy", CCS 2016; composed as J. Dong, A. Roth and W. Su,
   "Gaussian differential privacy", JRSS B 2022.
.. [2] S. Tang and others, "Improved differentially private regression via gradient boosting", arXiv:2303.03451,
   algorithm 1.
.. [3] H. Nori and others, "Accuracy, interpretability, and differential privacy via explainable boosting", ICML 2021.
"""

import argparse
import dataclasses
import importlib.util
import itertools
import json
import math
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from analyst_client.planning.prices import gdp_delta, number_of
from bench.uci import load
from studies.protocol import BESIDE, DELTA, SIGNAL, Floats, draw_bounds, error_without_privacy

GOAL = 0.03
"""How far in R² the refined regression may be below a line of a rival."""


@dataclass(frozen=True)
class Price:
    """What may be spent, as (ε, δ) and as µ."""

    epsilon: float
    mu: float

    @classmethod
    def of(cls, epsilon: float) -> "Price":
        """Return the price at δ = 1e-6."""
        return cls(epsilon, number_of(gdp_delta, epsilon, DELTA))


@dataclass(frozen=True)
class Split:
    """Rows within [−1, 1], the target last, and the error without privacy in the same unit."""

    train: Floats
    test: Floats
    least: float


class Setting(Protocol):
    """Choices that a rival is tuned over."""

    def words(self) -> str:
        """Say them in a cell of a table."""


class Rival(Protocol):
    """A method and the grid that it is tuned over; the first setting of the grid is its default, if it has one."""

    name: str
    grid: Sequence[Any]

    def errors(
        self, split: Split, settings: Sequence[Any], price: Price, generator: np.random.Generator
    ) -> list[float]:
        """Return the mean squared error of each setting on test rows, each fitted once."""


@dataclass(frozen=True)
class Steps:
    """Setting of gradient descent.

    Attributes
    ----------
    steps : int
    clip : float
        Norm to which the gradient of a row is clipped.
    rate, momentum : float
        θ moves by ``rate`` times a mean of past gradients, whose weights fall by the factor ``momentum`` a step.
    averaged : bool
        Whether the mean of the second half of the steps is returned, not the last.
    """

    steps: int
    clip: float
    rate: float
    momentum: float = 0.0
    averaged: bool = False

    def words(self) -> str:
        """Say them."""
        more = (", momentum" if self.momentum else "") + (", averaged" if self.averaged else "")
        return f"{self.steps} steps, clip {self.clip:g}, rate {self.rate:g}{more}"


def descend(x: Floats, y: Floats, settings: Sequence[Steps], mu: float, generator: np.random.Generator) -> Floats:
    """Fit by gradient descent with noise, side by side for settings of equally many steps.

    Parameters
    ----------
    x : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    settings : sequence of Steps
    mu : float
        What all steps cost together; infinite for no noise.
    generator : Generator

    Returns
    -------
    ndarray of shape (2, settings, d)
        Coefficients after the last step, and their mean over the second half of the steps.
    """
    (steps,) = {setting.steps for setting in settings}
    n, d = x.shape
    clip, rate, momentum = (
        np.array([[getattr(setting, name)] for setting in settings]) for name in ("clip", "rate", "momentum")
    )
    deviation = clip * math.sqrt(steps) / mu
    # The gradient of a row, x (x·θ − y), is a unit vector times ‖x‖ (x·θ − y): that number is what is clipped.
    lengths = np.sqrt(np.sum(x**2, axis=1, keepdims=True))
    units, scaled, target = x / lengths, x * lengths, (y * lengths[:, 0])[:, None]
    lower, upper = (-clip.T).astype(x.dtype), clip.T.astype(x.dtype)
    theta, velocity, total = np.zeros((3, len(settings), d))
    for step in range(steps):
        sizes = scaled @ theta.T.astype(x.dtype)
        sizes -= target
        np.clip(sizes, lower, upper, out=sizes)
        gradient = (sizes.T @ units + deviation * generator.standard_normal(theta.shape)) / n
        velocity = momentum * velocity + (1 - momentum) * gradient
        theta = theta - rate * velocity
        if step >= steps // 2:
            total += theta
    return np.stack([theta, total / (steps - steps // 2)])


class GradientDescent:
    """Gradient descent with clipped gradients."""

    name = "gradient descent"
    clips = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    grid: Sequence[Steps] = [
        Steps(*choices)
        for choices in (
            *itertools.product((10, 30, 100, 300), clips, (0.1, 0.3, 1.0, 3.0, 10.0), (0.0, 0.9), (False, True)),
            *itertools.product((1000,), clips, (1.0, 3.0, 10.0), (0.9,), (False, True)),
        )
    ]

    def errors(
        self, split: Split, settings: Sequence[Steps], price: Price, generator: np.random.Generator
    ) -> list[float]:
        """Return errors on test rows."""
        x, new = with_constant(split.train), with_constant(split.test)
        runs = sorted(
            {dataclasses.replace(setting, averaged=False) for setting in settings}, key=lambda each: each.steps
        )
        fitted = {}
        for _, group in itertools.groupby(runs, key=lambda each: each.steps):
            together = list(group)
            both = descend(x.astype(np.float32), split.train[:, -1].astype(np.float32), together, price.mu, generator)
            for k, run in enumerate(together):
                for averaged in (False, True):
                    fitted[dataclasses.replace(run, averaged=averaged)] = both[int(averaged), k]
        return [error_of(new @ fitted[setting], split.test) for setting in settings]


@dataclass(frozen=True)
class Rounds:
    """Setting of boosted AdaSSP.

    Attributes
    ----------
    rounds : int
    length : float
        Norm to which rows are clipped, as a share of the longest possible one.
    clip : float
        To which residuals are clipped.
    search : float
        Share of µ² for λ_min; XᵀX and all rounds have half of the rest each. The paper's are a third each.
    """

    rounds: int
    length: float
    clip: float
    search: float = 1 / 3

    def shares(self) -> tuple[float, float, float]:
        """Return shares of µ² for XᵀX, for λ_min and for each round."""
        return (1 - self.search) / 2, self.search, (1 - self.search) / 2 / self.rounds

    def words(self) -> str:
        """Say them."""
        return f"{self.rounds} rounds, rows {self.length:g}, residuals {self.clip:g}, λ_min {self.search:.2f}"


def shorten(x: Floats, length: float) -> Floats:
    """Clip rows to a norm."""
    clipped: Floats = x * np.minimum(1.0, length / np.sqrt(np.sum(x**2, axis=1, keepdims=True)))
    return clipped


def boost(x: Floats, y: Floats, setting: Rounds, mu: float, generator: np.random.Generator) -> Floats:
    """Fit by boosted AdaSSP.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Rows that are no longer than the square root of d; they are clipped to ``setting.length`` times that.
    y : ndarray of shape (n,)
    setting : Rounds
    mu : float
        What all costs together; infinite for no noise.
    generator : Generator

    Returns
    -------
    ndarray of shape (d,)
        Coefficients of clipped rows.
    """
    d = x.shape[1]
    length = setting.length * math.sqrt(d)
    x = shorten(x, length)
    gram_sd, least_sd = (length**2 / (math.sqrt(share) * mu) for share in setting.shares()[:2])
    round_sd = length * setting.clip / (math.sqrt(setting.shares()[2]) * mu)
    A = x.T @ x
    least = float(np.linalg.eigvalsh(A)[0]) + least_sd * generator.standard_normal()
    penalty = max(0.0, 1.96 * math.sqrt(d) * gram_sd - max(0.0, least - 1.96 * least_sd))
    upper = np.triu(generator.standard_normal((d, d)))
    noisy = A + gram_sd * (upper + np.triu(upper, 1).T) + (penalty + 1e-9 * len(x)) * np.eye(d)
    theta = np.zeros(d)
    for _ in range(setting.rounds):
        gradient = x.T @ np.clip(y - x @ theta, -setting.clip, setting.clip)
        theta = theta + np.linalg.solve(noisy, gradient + round_sd * generator.standard_normal(d))
    return theta


class BoostedAdaSSP:
    """AdaSSP, boosted."""

    name = "boosted AdaSSP"
    grid: Sequence[Rounds] = [
        Rounds(*choices)
        for choices in itertools.product(
            (1, 3, 10, 30, 100), (0.3, 0.5, 0.7, 1.0), (0.01, 0.03, 0.1, 0.3, 1.0), (1 / 3, 0.05)
        )
    ]

    def errors(
        self, split: Split, settings: Sequence[Rounds], price: Price, generator: np.random.Generator
    ) -> list[float]:
        """Return errors on test rows."""
        x, new = with_constant(split.train), with_constant(split.test)
        found = []
        for setting in settings:
            theta = boost(x, split.train[:, -1], setting, price.mu, generator)
            found.append(error_of(shorten(new, setting.length * math.sqrt(x.shape[1])) @ theta, split.test))
        return found


@dataclass(frozen=True)
class Curves:
    """Setting of DP-EBM; the defaults are those of the package."""

    rounds: int = 300
    rate: float = 0.01
    bins: int = 32

    def words(self) -> str:
        """Say them."""
        return f"{self.rounds} rounds, rate {self.rate:g}, {self.bins} bins"


class ExplainableBoosting:
    """DP-EBM, a sum of curves of one column each."""

    name = "DP-EBM"
    grid: Sequence[Curves] = [
        Curves(),
        *(
            Curves(rounds, rate, bins)
            for (rounds, rate), bins in itertools.product(
                ((10, 0.1), (10, 0.3), (30, 0.03), (30, 0.1), (100, 0.01), (100, 0.03)), (8, 32)
            )
        ),
    ]

    @staticmethod
    def is_installed() -> bool:
        """Return whether the package is there."""
        return importlib.util.find_spec("interpret") is not None

    def errors(
        self, split: Split, settings: Sequence[Curves], price: Price, generator: np.random.Generator
    ) -> list[float]:
        """Return errors on test rows; needs ``pip install --no-deps --target DIR interpret-core``, see above."""
        from interpret.privacy import DPExplainableBoostingRegressor  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

        features = split.train.shape[1] - 1
        found = []
        for setting in settings:
            model = DPExplainableBoostingRegressor(
                feature_types=["continuous"] * features,
                max_bins=setting.bins,
                learning_rate=setting.rate,
                max_rounds=setting.rounds,
                n_jobs=1,
                random_state=int(generator.integers(2**31)),
                epsilon=price.epsilon,
                delta=DELTA,
                privacy_bounds=np.tile([-1.0, 1.0], (features, 1)),
                privacy_target_min=-1.0,
                privacy_target_max=1.0,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that noise of a fixed seed protects nobody
                model.fit(split.train[:, :-1], split.train[:, -1])
            found.append(error_of(model.predict(split.test[:, :-1]), split.test))
        return found


LINES: Sequence[Rival] = (GradientDescent(), BoostedAdaSSP())
CURVES = ExplainableBoosting()


def with_constant(rows: Floats) -> Floats:
    """Put 1 in place of the target, first."""
    return np.hstack([np.ones((len(rows), 1)), rows[:, :-1]])


def error_of(predicted: Floats, rows: Floats) -> float:
    """Return the mean squared error of predictions that are cut to the target's bounds."""
    return float(np.mean((np.clip(predicted, -1.0, 1.0) - rows[:, -1]) ** 2))


def splits_of(data: Floats, masks: Floats, kind: str, count: int) -> list[Split]:
    """Return the first splits of a set within made-up bounds."""
    bounds = draw_bounds(data, kind, seed=7)
    center, scale = bounds.mean(axis=1), (bounds[:, 1] - bounds[:, 0]) / 2
    found = []
    for mask in masks.T[:count]:
        train, test = (np.clip((data[rows] - center) / scale, -1, 1) for rows in (~mask, mask))
        found.append(Split(train, test, error_without_privacy(train, test)))
    return found


def tune(rival: Rival, splits: Sequence[Split], price: Price, screened: int, kept: int) -> tuple[Floats, Floats]:
    """Try a grid on the first splits, and the default and what was best there on all.

    Parameters
    ----------
    rival : Rival
    splits : sequence of Split
    price : Price
    screened, kept : int
        Splits that all of the grid is tried on, and settings that are tried on all splits.

    Returns
    -------
    places : ndarray of int
        Places in the grid of the settings that were kept, the default first.
    errors : ndarray of shape (settings kept,)
        Their mean errors over all splits.
    """
    generators = [np.random.default_rng([k, *rival.name.encode()]) for k in range(len(splits))]
    first = [
        rival.errors(split, rival.grid, price, generator)
        for split, generator in zip(splits[:screened], generators, strict=False)
    ]
    order = np.argsort(np.mean(first, axis=0), kind="stable")
    places = np.concatenate([[0], order[order != 0][:kept]])
    chosen = [rival.grid[place] for place in places]
    rest = [
        rival.errors(split, chosen, price, generator)
        for split, generator in zip(splits[screened:], generators[screened:], strict=True)
    ]
    return places, np.mean([*np.array(first)[:, places], *rest], axis=0)


Results = dict[str, dict[str, Any]]


def measure(rival: Rival, splits: Sequence[Split], price: Price, screened: int, kept: int) -> dict[str, Any]:
    """Return R² of a rival in hindsight and at its default, and the setting."""
    variance = float(np.mean([np.var(split.test[:, -1]) for split in splits]))
    places, errors = tune(rival, splits, price, screened, kept)
    best = int(np.argmin(errors))
    return {
        "tuned": round(1 - errors[best] / variance, 4),
        "default": round(1 - errors[0] / variance, 4),
        "setting": rival.grid[places[best]].words(),
        "splits": len(splits),
    }


def key_of(name: str, kind: str, epsilon: float, method: str) -> str:
    """Name a result."""
    return f"{name}, {kind} bounds, ε = {epsilon:g}, {method}"


def refined_of(text: str) -> dict[tuple[str, str, float], float]:
    r"""Read R² of refined regressions, by set, bounds and ε, from what ``studies.refinement`` printed.

    Examples
    --------
    >>> printed = "ε = 1, tight bounds\n\n| set | R² | refined |\n| --- | ---: | ---: |\n| wine | 0.652 | 0.639 |"
    >>> refined_of(printed)
    {('wine', 'tight', 1.0): 0.639}
    """
    found: dict[tuple[str, str, float], float] = {}
    epsilon, kind, place = 0.0, "", -1
    for line in text.splitlines():
        if heading := re.search(r"ε = ([\d.]+), (\w+) bounds", line):
            epsilon, kind, place = float(heading[1]), heading[2], -1
            continue
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if "refined" in cells:
            place = cells.index("refined")
        elif kind and 0 < place < len(cells) and not cells[0].startswith("---"):
            found[cells[0], kind, epsilon] = float(cells[place].strip("*"))
    return found


def keep(results: Results, path: Path) -> None:
    """Write results to a file that is whole at every moment."""
    beside = path.with_name(f"{path.name}.part")
    beside.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def number(value: float | None) -> str:
    """Show R² to three digits, one below −1 shortly, and none as a dash."""
    if value is None:
        return "–"
    return "below −1" if value < -1 else f"{round(value, 3) + 0.0:.3f}".replace("-", "−")


def table(
    names: Sequence[str], kind: str, epsilon: float, results: Results, refined: Mapping[tuple[str, str, float], float]
) -> Iterator[str]:
    """Return the lines of a table of R²; a refined regression that misses the goal is bold in the last column."""
    curves = any(key_of(name, kind, epsilon, CURVES.name) in results for name in names)
    heads = ["no privacy", "refined", *(rival.name for rival in LINES), *(["DP-EBM", "tuned"] if curves else [])]
    yield f"| set | {' | '.join(heads)} | refined − best line |"
    yield "| --- |" + " ---: |" * (len(heads) + 1)
    for name in names:
        here: Mapping[str, Any] = {
            method: results.get(key_of(name, kind, epsilon, method), {})
            for method in ("no privacy", *(rival.name for rival in LINES), CURVES.name)
        }
        own = refined.get((name, kind, epsilon))
        lines = [here[rival.name].get("tuned") for rival in LINES]
        known = [value for value in lines if value is not None]
        gap = None if own is None or not known else own - max(known)
        cells = [here["no privacy"].get("tuned"), own, *lines]
        cells += [here[CURVES.name].get(which) for which in ("default", "tuned")] if curves else []
        shown = number(gap) if gap is None or gap >= -GOAL else f"**{number(gap)}**"
        yield f"| {name} | {' | '.join(map(number, cells))} | {shown} |"


def settings_table(names: Sequence[str], kind: str, epsilon: float, results: Results) -> Iterator[str]:
    """Return the lines of a table of the settings that were best."""
    methods = [rival.name for rival in (*LINES, CURVES)]
    methods = [each for each in methods if any(key_of(name, kind, epsilon, each) in results for name in names)]
    yield f"| set | {' | '.join(methods)} |"
    yield "| --- |" + " --- |" * len(methods)
    for name in names:
        cells = (results.get(key_of(name, kind, epsilon, each), {}).get("setting", "–") for each in methods)
        yield f"| {name} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=[*SIGNAL, *BESIDE])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 0.1])
    parser.add_argument("--bounds", nargs="+", default=["tight", "loose"])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--screened", type=int, default=15_000, help="rows that all of a grid is tried on, in splits")
    parser.add_argument("--kept", type=int, default=8, help="settings that are tried on all splits")
    parser.add_argument("--refined", type=Path, help="what studies.refinement printed")
    parser.add_argument("--results", type=Path, help="where results are kept")
    options = parser.parse_args(arguments)
    results: Results = {}
    if options.results is not None and options.results.exists():
        results = json.loads(options.results.read_text(encoding="utf-8"))
    refined = refined_of(options.refined.read_text(encoding="utf-8")) if options.refined is not None else {}
    rivals = [*LINES, *([CURVES] if CURVES.is_installed() else [])]
    cells = list(itertools.product(options.epsilons, options.bounds))
    asked = [(epsilon, kind, name) for (epsilon, kind), name in itertools.product(cells, options.sets)]
    if CURVES not in rivals and any(
        key_of(name, kind, epsilon, CURVES.name) not in results for epsilon, kind, name in asked
    ):
        print("The package `interpret` is not installed: DP-EBM is not computed.")
    for epsilon, kind, name in asked:
        wanted = {key_of(name, kind, epsilon, rival.name): rival for rival in rivals}
        wanted = {key: rival for key, rival in wanted.items() if key not in results}
        plain = key_of(name, kind, epsilon, "no privacy")
        if not wanted and plain in results:
            continue
        splits = splits_of(*load(options.data / name), kind, options.splits)
        least = sum(split.least for split in splits) / sum(float(np.var(split.test[:, -1])) for split in splits)
        results[plain] = {"tuned": round(1 - least, 4)}
        screened = min(math.ceil(options.screened / len(splits[0].train)), len(splits))
        for key, rival in wanted.items():
            results[key] = measure(rival, splits, Price.of(epsilon), screened, options.kept)
            if options.results is not None:
                keep(results, options.results)
            print(f"{key}: {number(results[key]['tuned'])}", file=sys.stderr, flush=True)
    for epsilon, kind in cells:
        print(f"\nε = {epsilon:g}, {kind} bounds\n")
        print(*table(options.sets, kind, epsilon, results, refined), sep="\n")
    for epsilon, kind in cells:
        print(f"\nSettings at ε = {epsilon:g}, {kind} bounds\n")
        print(*settings_table(options.sets, kind, epsilon, results), sep="\n")


if __name__ == "__main__":
    main()
