"""A published verdict on private regression, asked again of a curator: wages in the CPS, 61,395 rows.

Barrientos, Williams, Snoke and Bowen (JASA 2024, arXiv:2110.12055) fit Mincer equations to CPS data under differential
privacy, and find that the methods of the time "would struggle to produce accurate regression estimates and confidence
intervals". Here the same metrics are taken of releases of a real server: log earnings on education, potential
experience and gender, linear and cubic in experience. Experience is no column: it is computed of declared ones in the
request. Row map and shares are chosen for every price from quotes and made-up rows. Prints Markdown, draws a figure.

    python -m studies.cps --data DIR [--releases 200] [--many 1000] [--figure studies/images/verdict.png]
    python -m studies.cps --data DIR --typed 20 [--draws 200]

The second asks as a newcomer types it, with nothing but a formula and ε = 1: `client.refine`, `client.release` beside
it, of four models, so many times. With `--draws` rows are drawn anew each time, and answered in memory (`bench.desk`).

DIR holds cpssw8.csv: earnings (dollars an hour), gender, age, region, education (years), with a header.
"""

import argparse
import csv
import math
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.polynomial import legendre
from scipy.stats import t as student

from analyst_client import (
    OLS,
    AdaSSP,
    Assumptions,
    CuratorClient,
    EstimationError,
    EstimationWarning,
    RefinedRegression,
    Release,
    expected_accuracy,
)
from analyst_client.estimators.linear import LinearFit
from bench.desk import DeskClient, store
from bench.serving import open_population, serve
from curator_service.container import Curator
from curator_service.datasets.manifest import Manifest
from curator_service.privacy.accountant import Price
from studies.figure import draw
from studies.metrics import Agreement, Floats, Inferred, Proportion, holds

EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-6
FILE = "cpssw8.csv"
EXPERIENCE = "minimum(maximum(age - education - 6, 0), 55)"
MANIFEST = f"""
name = "cps"
population = "workers"
description = "Full-time workers; bounds as a labour economist would declare them without looking."
row_capacity = 65_000
rows_are_persons = true
columns = [
  {{name = "earnings", type = "numeric", missing = "omit", lower = {math.exp(0.5)!r}, upper = {math.exp(5.0)!r}}},
  {{name = "education", type = "numeric", missing = "omit", lower = 4, upper = 22}},
  {{name = "age", type = "numeric", missing = "omit", lower = 18, upper = 70}},
  {{name = "gender", type = "categorical", missing = "omit", levels = ["female", "male"]}},
]
"""
KEPT = 0.99
"""Part of their weight that made-up rows keep under the norm that is chosen."""
SHIFT_MAX = 0.1
"""How far weights may move a coefficient of made-up rows, in standard errors without privacy."""
NORMS = tuple(step / 12 for step in range(11, 4, -1))
"""Squared norms that are tried, as parts of that of the longest possible row."""
SHARES = tuple(
    {"xtx": xtx, "xty": round(1.0 - xtx - yty, 3), "yty": yty}
    for yty in (0.02, 0.05, 0.085)
    for xtx in (0.5, 0.45, 0.4, 0.35, 0.3)
)
Request = dict[str, Any]
COVERAGE_MIN = 0.93
TYPED: Request = {"epsilon": 1.0, "delta": DELTA}


@dataclass(frozen=True)
class Workers:
    """The rows as they are, with potential experience."""

    log_earnings: Floats
    education: Floats
    experience: Floats
    male: Floats

    @classmethod
    def read(cls, path: Path) -> "Workers":
        """Read the file."""
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        earnings, age, education = (
            np.array([float(row[name]) for row in rows]) for name in ("earnings", "age", "education")
        )
        male = np.array([float(row["gender"] == "male") for row in rows])
        return cls(np.log(earnings), education, np.clip(age - education - 6.0, 0.0, 55.0), male)

    def pick(self, rows: npt.NDArray[np.int64]) -> "Workers":
        """Return some rows."""
        return Workers(*(column[rows] for column in vars(self).values()))


@dataclass(frozen=True)
class Model:
    """A regression: what is asked, and the same terms of the rows themselves."""

    name: str
    formula: str
    names: tuple[str, ...]
    terms: Callable[[Floats], list[Floats]]
    """Columns of experience."""
    length_max: float
    agreement_min: float
    interaction: bool = False
    """Whether education has another slope for men."""

    def design(self, workers: Workers) -> Floats:
        """Return the terms of the rows."""
        columns = [np.ones(len(workers.male)), workers.education, *self.terms(workers.experience), workers.male]
        return np.column_stack([*columns, workers.education * workers.male] if self.interaction else columns)


def powers(experience: Floats) -> list[Floats]:
    """Return raw powers."""
    return [experience, experience**2, experience**3]


def polynomials(experience: Floats) -> list[Floats]:
    """Return Legendre polynomials over the bounds."""
    return list(legendre.legvander((experience - 27.5) / 27.5, 3)[:, 1:].T)


SLOPES = ("education", "experience", "gender")
POWERS = ("(constant)", "education", "experience", "experience²", "experience³", "gender")
CURVES = ("(constant)", "education", "experience P₁", "experience P₂", "experience P₃", "gender")
LINEAR = Model(
    "linear",
    f"log(earnings) ~ education + {EXPERIENCE} + gender",
    ("(constant)", *SLOPES),
    lambda experience: [experience],
    1.5,
    0.99,
)
CUBIC = Model("cubic", f"log(earnings) ~ education + poly({EXPERIENCE}, 3) + gender", CURVES, polynomials, 3.0, 0.95)
TOLD = Model("cubic, as powers", CUBIC.formula, POWERS, powers, 3.0, 0.95)
RAW = Model(
    "raw powers",
    f"log(earnings) ~ education + {EXPERIENCE} + I({EXPERIENCE}**2) + I({EXPERIENCE}**3) + gender",
    POWERS,
    powers,
    3.0,
    0.95,
)

E, E2, E3 = EXPERIENCE, f"I({EXPERIENCE}**2)", f"I({EXPERIENCE}**3)"
AS_TYPED = tuple(
    Model(name, f"log(earnings) ~ {right}", ("(constant)", "education", *curve, *rest), terms, 1.6, 0.95, len(rest) > 1)
    for name, right, curve, terms, rest in (
        ("linear", f"education + {E} + gender", POWERS[2:3], lambda own: powers(own)[:1], ("gender",)),
        ("square", f"education + {E} + {E2} + gender", POWERS[2:4], lambda own: powers(own)[:2], ("gender",)),
        ("cubic", f"education + {E} + {E2} + {E3} + gender", POWERS[2:5], powers, ("gender",)),
        (
            "interaction",
            f"education + {E} + gender + education:gender",
            POWERS[2:3],
            lambda own: powers(own)[:1],
            ("gender", "education:gender"),
        ),
    )
)
"""What a newcomer writes."""


@dataclass(frozen=True)
class Plain:
    """Least squares on the rows themselves, by textbook formulas."""

    inferred: Inferred
    std_errors: Floats
    rmse: float

    @classmethod
    def of(cls, model: Model, workers: Workers) -> "Plain":
        """Fit."""
        X, y = model.design(workers), workers.log_earnings
        values = np.asarray(np.linalg.lstsq(X, y)[0], dtype=np.float64)
        residual, dof = y - X @ values, len(y) - X.shape[1]
        orthogonal = np.linalg.qr(X)[1]  # X'X of raw powers has a condition near 10¹⁵
        inverse = np.linalg.inv(orthogonal)
        errors = np.sqrt(residual @ residual / dof * np.sum(inverse**2, axis=1))
        half = student.ppf(0.975, dof) * errors
        pvalues = 2.0 * student.sf(np.abs(values / errors), dof)
        intervals = np.column_stack([values - half, values + half])
        return cls(Inferred(values, intervals, pvalues), errors, rmse(X, y, values))


def rmse(X: Floats, y: Floats, values: Floats) -> float:
    """Return the root mean squared error of a model on all rows."""
    return float(np.sqrt(np.mean((y - X @ values) ** 2)))


def made_up_workers(count: int = 20_000) -> dict[str, Any]:
    """Return rows as a labour economist would make them up without looking, earnings at their mean.

    Age 42 ± 11, education 13.5 ± 2.5, half of them men; a Mincer equation of the textbooks: 10 % for a year of school,
    3 % for a first year of experience, nothing for the thirtieth, 25 % between men and women.
    """
    generator = np.random.default_rng(1974)
    age = np.clip(generator.normal(42.0, 11.0, count), 18.0, 70.0).round()
    education = np.clip(generator.normal(13.5, 2.5, count), 4.0, 22.0).round()
    male = np.arange(count) % 2
    experience = np.clip(age - education - 6.0, 0.0, 55.0)
    log_earnings = 1.0 + 0.1 * education + 0.03 * experience - 0.0005 * experience**2 + 0.25 * male
    return {
        "earnings": np.exp(log_earnings),
        "education": education,
        "age": age,
        "gender": np.where(male == 1, "male", "female"),
    }


@dataclass(frozen=True)
class Plan:
    """A request, and what made-up rows say of it."""

    options: Request
    norm_share: float
    kept: float
    half_lengths: Floats


def plan(client: CuratorClient, model: Model, epsilon: float, rows: int) -> Plan:
    """Choose row map and shares from quotes, which are free, and made-up rows.

    The smallest norm under which made-up rows keep their weight and their coefficients; under it the shares with the
    shortest expected intervals, in the geometric mean over the slopes.
    """
    frame = made_up_workers()
    options: Request = {"epsilon": epsilon, "delta": DELTA, "rows": "box"}

    def assume(asked: Request) -> tuple[Assumptions, Floats]:
        quote = client.quote("cps", model.formula, **asked)
        assumed = Assumptions.from_rows(quote, frame, rows=rows, residual_sd=0.5)
        return assumed, assumed.coefficients[:, 0]

    box, unweighted = assume(options)
    errors = np.sqrt(box.residual_variances[0] * np.diag(np.linalg.inv(rows * box.moments)))
    chosen, share = box, 1.0
    for part in NORMS:
        asked = options | {"rows": "ball", "norm": math.sqrt(part * len(box.terms))}
        assumed, weighted = assume(asked)
        if assumed.weight < KEPT or np.max(np.abs(weighted - unweighted) / errors) > SHIFT_MAX:
            break
        chosen, share = assumed, part
    if share < 1.0:
        options |= {"rows": "ball", "norm": math.sqrt(share * len(box.terms))}
    found = []
    for shares in SHARES:
        quote = client.quote("cps", model.formula, **options, shares=shares)
        half = expected_accuracy(quote, chosen).half_lengths
        found.append((float(np.mean(np.log(half[1:]))), shares, half))
    _, shares, half = min(found, key=lambda each: each[0])
    return Plan(options | {"shares": shares}, share, chosen.weight, half)


def fit(release: Release) -> LinearFit:
    """Fit least squares, or AdaSSP where the noisy XᵀX is not definite: intervals are the same."""
    try:
        return OLS().fit(release)
    except EstimationError:
        return AdaSSP().fit(release)


def infer(fitted: LinearFit) -> Inferred:
    """Return what a fit says, in raw units."""
    return Inferred(fitted.params_, fitted.conf_int(), fitted.pvalues_)


def infer_powers(fitted: LinearFit) -> Inferred:
    """Return what a fit on polynomials says of raw powers."""
    told = {one.label[0]: one for one in fitted.raw_powers().estimates}
    curved = [name for name in told if "age" in name]  # experience is an expression of age
    names = ["(constant)", "education", *sorted(curved, key=len), "gender[male]"]
    found = [told[name] for name in names]
    return Inferred(
        np.array([one.value for one in found]),
        np.array([(one.conf_low, one.conf_high) for one in found]),
        np.array([one.pvalue for one in found]),
    )


@dataclass(frozen=True)
class Cell:
    """A model at a price: K releases against the fit without privacy."""

    model: Model
    epsilon: float
    agreement: Agreement
    rmse: Floats
    """Of each release, over that of least squares."""
    plain: Plain

    @property
    def releases(self) -> int:
        """Number of releases."""
        return len(self.rmse)

    @classmethod
    def of(
        cls,
        model: Model,
        epsilon: float,
        workers: Workers,
        fits: list[LinearFit],
        read: Callable[[LinearFit], Inferred],
    ) -> "Cell":
        """Compare fits with the one without privacy."""
        plain, X = Plain.of(model, workers), model.design(workers)
        private = [read(fitted) for fitted in fits]
        errors = [rmse(X, workers.log_earnings, one.values) / plain.rmse for one in private]
        return cls(model, epsilon, Agreement.of(private, plain.inferred, plain.std_errors), np.array(errors), plain)

    def drawn(self) -> tuple[tuple[str, ...], Floats, Floats]:
        """Return names of slopes, median relative lengths, and how often the conclusion is the one without privacy."""
        of = self.agreement
        return self.model.names[1:], np.median(of.length[:, 1:], axis=0), of.conclusion[:, 1:].mean(axis=0)

    def line(self) -> str:
        """Return a line about the model."""
        bounded = np.isfinite(self.agreement.length).all(axis=1)
        covered = self.agreement.covered[bounded, 1:].mean(axis=1)
        cells = (
            f"{self.releases:,}",
            str(Proportion.of(bounded.astype(float))),
            str(Proportion.of(covered)) if len(covered) else "–",
            f"{self.plain.rmse:.4f}",
            f"{np.median(self.rmse):.5f}",
            f"{self.rmse.max():.5f}",
        )
        return f"| {self.model.name} | {self.epsilon:g} | {' | '.join(cells)} |"

    def lines(self) -> Iterator[str]:
        """Return a line for each coefficient, and one for all slopes."""
        for j, name in enumerate(self.model.names):
            shift = Proportion.of(self.agreement.shift[:, j])
            yield self._line(name, f"{shift.value:+.2f} ± {shift.error:.2f}", slice(j, j + 1))
        yield self._line("**all slopes**", "–", slice(1, None))

    def _line(self, name: str, shift: str, picked: slice) -> str:
        of = self.agreement
        proportions = (Proportion.of(flags[:, picked].mean(axis=1)) for flags in (of.sign, of.conclusion, of.covered))
        cells = (
            shift,
            number(float(np.median(of.length[:, picked]))),
            f"{np.median(of.overlap[:, picked]):.3f}",
            *map(str, proportions),
            f"{int(of.wrong[:, picked].sum()):,} of {of.wrong[:, picked].size:,}",
        )
        return f"| {self.model.name} | {self.epsilon:g} | {name} | {' | '.join(cells)} |"


HEAD = (
    "| model | ε | coefficient | shift, OLS s.e. | relative length | overlap | sign | sign and significance | "
    "coverage | wrong sign, p < 0.05 |\n| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def number(value: float, digits: int = 2) -> str:
    """Show a number, or that there is no end."""
    return f"{value:.{digits}f}" if math.isfinite(value) else "∞"


def buy(client: CuratorClient, model: Model, options: Request, count: int) -> list[LinearFit]:
    """Buy releases, each with noise of its own, and fit them."""
    return [fit(client.release("cps", model.formula, **options, fresh=True)) for _ in range(count)]


class FreshClient(CuratorClient):
    """A client that never takes a stored answer: each refinement has noise of its own."""

    def release(self, dataset: str, asked: Any, **options: Any) -> Any:
        """Buy a release with fresh noise."""
        if isinstance(asked, str):
            return super().release(dataset, asked, **options, fresh=True)
        return super().release(dataset, replace(asked, fresh=True), **options)

    def reserve(self, dataset: str, **options: Any) -> Any:
        """Hold an amount of its own, where the same call would go on with the last one's."""
        return super().reserve(dataset, **options | {"idempotency_key": None})


def ask(client: CuratorClient, model: Model, way: str) -> Inferred:
    """Refine or release a model as it is typed, and fit it."""
    if way == "refine":
        return infer(RefinedRegression().fit(client.refine("cps", model.formula, **TYPED)))
    return infer(fit(client.release("cps", model.formula, **TYPED)))


def draw_typed(workers: Workers, model: Model, way: str, seed: int) -> Agreement:
    """Draw as many rows as there are, ask in memory, and compare with least squares on these rows.

    What is held is the coefficient of all rows, of which the drawn ones are a sample.
    """
    generator, whole = np.random.default_rng([seed, *model.name.encode()]), Plain.of(model, workers)
    drawn = workers.pick(generator.integers(0, len(workers.male), len(workers.male)))
    manifest = Manifest.model_validate(tomllib.loads(MANIFEST))
    frame = {"earnings": np.exp(drawn.log_earnings), "education": drawn.education, "gender": drawn.male}
    stored = store(manifest, frame | {"age": drawn.experience + drawn.education + 6.0})
    private, plain = ask(DeskClient(manifest, stored, generator), model, way), Plain.of(model, drawn)
    agreement = Agreement.of([private], plain.inferred, plain.std_errors)
    return replace(agreement, covered=holds(private.intervals, whole.inferred.values)[np.newaxis])


def run_typed(client: CuratorClient, workers: Workers, count: int, draws: int) -> None:
    """Ask as it is typed, compare and print."""
    print("| way | rows | model | releases | relative length | sign and significance | coverage | ", end="")
    print("worst coefficient: length | sign and significance | coverage | met |")
    print("| --- | --- | --- " + "| ---: " * 7 + "| --- |")
    for way, model in product(("refine", "release"), AS_TYPED):
        cells = []
        if count:
            plain = Plain.of(model, workers)
            told = Agreement.of([ask(client, model, way) for _ in range(count)], plain.inferred, plain.std_errors)
            cells.append(("a server's", told))
        if draws:
            each = [draw_typed(workers, model, way, seed) for seed in range(draws)]
            joined = {name: np.concatenate([getattr(one, name) for one in each]) for name in vars(each[0])}
            cells.append(("drawn", Agreement(**joined)))
        for rows, of in cells:
            lengths, agreed, held = np.median(of.length, axis=0), of.conclusion.mean(axis=0), of.covered.mean(axis=0)
            shares = (Proportion.of(flags[:, 1:].mean(axis=1)) for flags in (of.conclusion, of.covered))
            length = float(np.median(of.length[:, 1:]))
            shown = [number(length), *map(str, shares), number(float(lengths.max()))]
            shown += [f"{one.min():.3f} {model.names[int(one.argmin())].strip('()')}" for one in (agreed, held)]
            met = [
                length <= model.length_max and a >= model.agreement_min and h >= COVERAGE_MIN
                for length, a, h in (
                    (lengths.max(), agreed.min(), held.min()),
                    (length, agreed[1:].mean(), held[1:].mean()),
                )
            ]
            shown.append("yes" if all(met) else "all slopes, not each" if met[1] else "no")
            print(f"| {way} | {rows} | {model.name} | {len(of.length)} | {' | '.join(shown)} |", flush=True)


def goals(cells: list[Cell]) -> Iterator[str]:
    """Return a line for each goal, with the worst coefficient beside all slopes together."""
    yield "| model | metric | goal | worst coefficient | all slopes | met |"
    yield "| --- | --- | ---: | ---: | ---: | --- |"
    for cell in cells:
        of, model = cell.agreement, cell.model
        measured: list[tuple[str, Any, Any, float]] = [
            ("sign and significance", of.conclusion, np.mean, model.agreement_min),
            ("coverage", of.covered, np.mean, COVERAGE_MIN),
            ("relative length", of.length, np.median, model.length_max),
        ]
        if model is LINEAR:
            measured.insert(2, ("overlap", of.overlap, np.median, 0.85))
        for name, values, average, goal in measured:
            sign, relation = (-1.0, "≤") if name == "relative length" else (1.0, "≥")
            single, together = average(values, axis=0), float(average(values[:, 1:]))
            worst = int(np.argmin(sign * single))
            met = [bool(sign * value >= sign * goal) for value in (single[worst], together)]
            answer = "yes" if all(met) else "all slopes, not each" if met[1] else "no"
            shown = f"{model.names[worst].strip('()')}: {number(single[worst], 3)} | {number(together, 3)}"
            yield f"| {model.name} | {name} | {relation} {goal:g} | {shown} | {answer} |"


def describe(model: Model, epsilon: float, planned: Plan) -> str:
    """Return a line about a plan."""
    shares = ", ".join(f"{value:g}" for value in planned.options["shares"].values())
    norm = planned.options.get("norm")
    rows = "box" if norm is None else f"ball, R² = {norm**2:.2f}"
    expected = ", ".join("∞" if math.isinf(half) else f"{half:.2g}" for half in planned.half_lengths[1:])
    return f"| {model.name} | {epsilon:g} | {rows} | {planned.kept:.4f} | {shares} | {expected} |"


def run(client: CuratorClient, workers: Workers, releases: int, many: int, figure: Path) -> None:
    """Plan, buy, compare, print, draw."""
    rows = round(len(workers.male), 1 - len(str(len(workers.male))))  # a guess of the right order
    plans = {(model.name, each): plan(client, model, each, rows) for model in (LINEAR, CUBIC, RAW) for each in EPSILONS}
    print("| model | ε | row map | weight kept | shares of XᵀX, Xᵀy, yᵀy | expected half lengths of the slopes |")
    print("| --- | ---: | --- | ---: | --- | --- |")
    for model in (LINEAR, CUBIC, RAW):
        for each in EPSILONS:
            print(describe(model, each, plans[model.name, each]))
    cells: dict[tuple[str, float], Cell] = {}
    print(f"\n{HEAD}", flush=True)
    for model in (LINEAR, CUBIC, RAW):
        for each in EPSILONS:
            count = many if each == EPSILONS[0] and model is not RAW else releases
            fits = buy(client, model, plans[model.name, each].options, count)
            found = [Cell.of(model, each, workers, fits, infer)]
            if model is CUBIC:
                found.append(Cell.of(TOLD, each, workers, fits, infer_powers))
            for cell in found:
                print("\n".join(cell.lines()), flush=True)
                cells[cell.model.name, each] = cell
    print("\n| model | ε | releases | all intervals bounded | coverage of the slopes there | RMSE of OLS | ", end="")
    print("over it: median | largest |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for cell in cells.values():
        print(cell.line())
    print()
    print("\n".join(goals([cell for (_, each), cell in cells.items() if each == 1.0])), flush=True)
    draw(figure, {key: cell.drawn() for key, cell in cells.items()})
    print("\n| model, ε = 1 | rows and shares | largest shift, OLS s.e. | of | relative length | overlap | ", end="")
    print("sign and significance | coverage |\n| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for model in (LINEAR, CUBIC):
        planned = plans[model.name, 1.0].options
        print(row_map_line("as planned", cells[model.name, 1.0]))
        for name, options in other_row_maps(planned, rows).items():
            fits = buy(client, model, options, releases)
            print(row_map_line(name, Cell.of(model, 1.0, workers, fits, infer)), flush=True)


def other_row_maps(planned: Request, rows: int) -> dict[str, Request]:
    """Return requests with other row maps at the price of a planned one."""
    price = {"epsilon": planned["epsilon"], "delta": planned["delta"]}
    return {
        "`box`, shares as planned": {**price, "rows": "box", "shares": planned["shares"]},
        "`box`": {**price, "rows": "box"},
        f"the curator's choice for `expected_rows={rows}`": {**price, "expected_rows": rows},
        "`ball`": {**price, "rows": "ball"},
    }


def row_map_line(name: str, cell: Cell) -> str:
    """Return what a row map gives, over all slopes."""
    of, names = cell.agreement, cell.model.names
    shifts = [Proportion.of(of.shift[:, j]) for j in range(1, len(names))]
    worst = int(np.argmax([abs(shift.value) for shift in shifts]))
    cells = (
        f"{shifts[worst].value:+.2f} ± {shifts[worst].error:.2f}",
        names[worst + 1],
        number(float(np.median(of.length[:, 1:]))),
        f"{np.median(of.overlap[:, 1:]):.3f}",
        str(Proportion.of(of.conclusion[:, 1:].mean(axis=1))),
        str(Proportion.of(of.covered[:, 1:].mean(axis=1))),
    )
    return f"| {cell.model.name} | {name} | {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> None:
    """Serve the rows, and run the experiment against the server."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--many", type=int, default=1000, help="releases at the lowest price, where errors are rare")
    parser.add_argument("--typed", type=int, help="answers to each model as it is typed, and nothing else")
    parser.add_argument("--draws", type=int, default=0, help="beside --typed: as many in memory, of rows drawn anew")
    parser.add_argument("--figure", type=Path, default=Path(__file__).with_name("images") / "verdict.png")
    options = parser.parse_args(arguments)
    workers, kind = Workers.read(options.data / FILE), CuratorClient if options.typed is None else FreshClient

    def set_up(curator: Curator, folder: Path) -> None:
        open_population(curator, "workers", Price(mu=300.0))  # for repeats; no hospital would grant it
        (folder / "manifest.toml").write_text(MANIFEST, encoding="utf-8")
        curator.datasets.register(folder / "manifest.toml", options.data / FILE, actor="experiment")

    with (
        serve(set_up, app="curator_service.app:create_app") as server,
        kind(f"http://127.0.0.1:{server.port}", server.analyst("cps"), memory=None) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", EstimationWarning)  # counted below: intervals without an end
        if options.typed is not None:
            run_typed(client, workers, options.typed, options.draws)
        else:
            run(client, workers, options.releases, options.many, options.figure)


if __name__ == "__main__":
    main()
