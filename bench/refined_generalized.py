"""Coverage, length and predictions of refined logistic and Poisson regressions, with ideal normal noise.

Each repeat draws its rows from a population of rows, with replacement, and refines them. The truth is the coefficients
of maximum likelihood on the population's columns as they are declared; lengths are over those of the sandwich of
maximum likelihood without privacy on the same rows. Real sets get a rare boolean and a nearly collinear column. Prints
Markdown: the share of intervals with an end, how many of these hold the truth (mean, and the worst coefficient), the
largest mean error of a coefficient in its standard errors, the median relative length, and the log loss (the deviance
of counts) of all rows of the population, less that of their mean alone, with its standard error over repeats.

    python -m bench.refined_generalized [--sets gaussian rare …] [--epsilons .3 1 3] [--rows 5000] [--repeats 200]
        [--data DIR]

DIR holds uci/NAME/data.csv.gz, flchain/flchain.csv and cps/cpssw8.csv, as their README files describe.
"""

import argparse
import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analyst_client import EstimationError, LogisticRegression, PoissonRegression
from analyst_client.planning.prices import gdp_delta, number_of
from analyst_client.refinement import GeneralizedRules
from analyst_client.refinement.family import Family
from bench.ideal import IdealCurator
from bench.uci import outward

Floats = npt.NDArray[np.float64]
DELTA = 1e-6
ROWS = 60_000
MADE = ("gaussian", "rare", "collinear", "counts", "overdispersed")
REAL = (
    "flchain-death",
    "flchain-mgus",
    "flchain-years",
    "cps-high",
    "cps-wage",
    *(
        f"{name}-{rate}"
        for name in ("airfoil", "concrete", "wine", "elevators", "protein")
        for rate in ("half", "tenth")
    ),
)
NORMAL = 1.959964
"""Half of the length of a 95 % interval, in standard errors."""
FITS: dict[str, Any] = {"binomial": LogisticRegression, "poisson": PoissonRegression}


class Population(NamedTuple):
    """Columns, the target last, and the bounds that are declared of those that are numbers."""

    family: str
    columns: Mapping[str, Floats]
    bounds: Mapping[str, tuple[float, float]]

    @property
    def x(self) -> Floats:
        """The features, as they are declared: cut to their bounds."""
        return np.column_stack([self.declared(name) for name in list(self.columns)[:-1]])

    @property
    def y(self) -> Floats:
        """The target, as it is declared."""
        return self.declared(list(self.columns)[-1])

    def declared(self, name: str) -> Floats:
        """Return a column, cut to its bounds."""
        return np.clip(self.columns[name], *self.bounds.get(name, (0.0, 1.0)))

    def rows(self, picked: npt.NDArray[np.intp]) -> "Population":
        """Return some of the rows."""
        return self._replace(columns={name: column[picked] for name, column in self.columns.items()})


def make(kind: str, seed: int = 77) -> Population:
    """Draw normal columns, one of two values, and a target; bounds are four times as wide as the columns are."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((ROWS, 4))
    x[:, 1] = 0.6 * x[:, 0] + 0.8 * x[:, 1]
    x[:, 2] = x[:, 2] > 0.5
    bounds = dict.fromkeys("abd", (-10.0, 10.0))
    index = x @ np.array([0.8, -0.5, 0.7, 0.0])
    columns = dict(zip("abcd", x.T, strict=True))
    if kind == "collinear":
        columns |= {"e": x[:, 0] + 0.1 * generator.standard_normal(ROWS), "f": generator.uniform(size=ROWS) < 0.01}
        bounds["e"] = (-10.0, 10.0)
    if kind not in {"counts", "overdispersed"}:
        chance = 1.0 / (1.0 + np.exp((3.5 if kind == "rare" else 0.7) - index))
        return Population("binomial", _floats(columns | {"y": generator.uniform(size=ROWS) < chance}), bounds)
    mean = np.exp(0.7 + 0.5 * index)
    if kind == "overdispersed":
        mean = mean * generator.gamma(0.7, 1.0 / 0.7, ROWS)
    return Population("poisson", _floats(columns | {"y": generator.poisson(mean)}), bounds | {"y": (0.0, 60.0)})


def read(name: str, folder: Path) -> Population:
    """Read a real set."""
    if name.startswith("flchain"):
        return _read_flchain(name.partition("-")[2], folder)
    if name.startswith("cps"):
        return _read_cps(name.partition("-")[2], folder)
    kind, _, rate = name.partition("-")
    data = np.loadtxt(folder / "uci" / kind / "data.csv.gz", delimiter=",")
    data = data[:, np.ptp(data, axis=0) > 0.0]
    x, response = data[:, :10] if data.shape[1] > 11 else data[:, :-1], data[:, -1]
    columns = {f"x{k + 1}": column for k, column in enumerate(x.T)}
    target = response > np.quantile(response, 0.5 if rate == "half" else 0.9)
    columns = weakened(columns, target)
    return Population("binomial", _floats(columns | {"y": target}), loose(columns))


def weakened(columns: Mapping[str, Floats], target: npt.NDArray[np.bool_]) -> dict[str, Floats]:
    """Add a column that nearly follows from the first, and a boolean that is rarely true, more so with the target."""
    generator = np.random.default_rng(3)
    first = next(iter(columns.values()))
    near = first + 0.15 * first.std() * generator.standard_normal(len(first))
    return {**columns, "near": near, "few": generator.uniform(size=len(first)) < 0.02 + 0.02 * target}


def loose(columns: Mapping[str, Floats]) -> dict[str, tuple[float, float]]:
    """Declare bounds of numbers: half as wide again as they are."""
    found = {}
    for name, column in columns.items():
        if column.dtype != np.bool_ and len(np.unique(column)) > 2:
            wider = (float(column.max()) - float(column.min())) / 4.0
            found[name] = outward(float(column.min()) - wider, float(column.max()) + wider)
    return found


def _floats(columns: Mapping[str, Any]) -> dict[str, Floats]:
    """Return columns as numbers; a column of two values as 0 and 1."""
    found = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
    return {
        name: (column == column.max()).astype(np.float64) if len(np.unique(column)) == 2 else column
        for name, column in found.items()
    }


def _table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def _read_flchain(target: str, folder: Path) -> Population:
    rows = [row for row in _table(folder / "flchain" / "flchain.csv") if row["creatinine"]]
    numbers = ("age", "creatinine", "kappa", "lambda", "sample_yr")
    columns: dict[str, Any] = {name: np.array([float(row[name]) for row in rows]) for name in numbers}
    columns["man"] = np.array([row["sex"] == "M" for row in rows])
    mgus, dead = (
        np.array([row[name] == value for row in rows]) for name, value in (("mgus", "yes"), ("death", "dead"))
    )
    bounds = {"age": (50.0, 100.0), "creatinine": (0.0, 3.0), "kappa": (0.0, 6.0), "lambda": (0.0, 6.0)}
    bounds["sample_yr"] = (1990.0, 2010.0)
    if target == "mgus":
        return Population("binomial", _floats(columns | {"mgus": mgus}), bounds)
    columns |= {f"group{k}": np.array([row["flc_grp"] == str(k) for row in rows]) for k in (2, 5, 9, 10)}
    if target == "death":
        return Population("binomial", _floats(columns | {"mgus": mgus, "death": dead}), bounds)
    years = np.array([float(row["futime"]) // 365 for row in rows])
    return Population("poisson", _floats(columns | {"mgus": mgus, "years": years}), bounds | {"years": (0.0, 20.0)})


def _read_cps(target: str, folder: Path) -> Population:
    rows = _table(folder / "cps" / "cpssw8.csv")
    age, education, hourly = (np.array([float(row[name]) for row in rows]) for name in ("age", "education", "earnings"))
    columns: dict[str, Any] = {
        "age": age,
        "experience": np.maximum(age - education - 6.0, 0.0),
        "woman": np.array([row["gender"] == "female" for row in rows]),
    }
    columns |= {name: np.array([row["region"] == name for row in rows]) for name in ("South", "West", "Midwest")}
    bounds = {"age": (18.0, 70.0), "experience": (0.0, 55.0), "education": (4.0, 22.0)}
    if target == "high":
        columns |= {"education": education, "high": hourly > np.quantile(hourly, 0.92)}
        return Population("binomial", _floats(columns), bounds)
    columns = {name: column for name, column in columns.items() if name != "experience"}
    return Population("poisson", _floats(columns | {"wage": np.floor(hourly)}), bounds | {"wage": (0.0, 80.0)})


def most_likely(family: str, x: Floats, y: Floats, most: float) -> tuple[Floats, Floats]:
    """Return the coefficients of maximum likelihood, the constant first, and the standard errors of the sandwich.

    The expected count is at most `most`, as the curator's is.
    """
    model, spread = Family(family, most), x.std(axis=0)
    spread, center = np.where(spread > 0.0, spread, 1.0), x.mean(axis=0)
    z = np.column_stack([np.ones(len(x)), (x - center) / spread])
    theta = np.zeros(z.shape[1])
    theta[0] = model.link(float(y.mean()) / most)
    for _ in range(40):
        eta = z @ theta
        H = (z * model.slope(eta)[:, np.newaxis]).T @ z + 1e-9 * np.eye(len(theta))
        step = np.linalg.solve(H, z.T @ (y / most - model.mean(eta)))
        theta = theta + step * min(1.0, 4.0 / max(float(np.abs(z @ step).max()), 1e-12))
        if float(np.abs(step).max()) < 1e-10:
            break
    g = z * (y / most - model.mean(z @ theta))[:, np.newaxis]
    move = np.diag(np.append(1.0, 1.0 / spread))
    move[0, 1:] = -center / spread
    half = move @ np.linalg.inv(H)
    return move @ theta, np.sqrt(np.maximum(np.diag(half @ (g.T @ g) @ half.T), 0.0))


def loss(family: str, y: Floats, mean: Floats) -> float:
    """Return the log loss, or half the mean deviance of counts up to what their means do not change."""
    mean = np.maximum(mean, 1e-12)
    if family == "poisson":
        return float(np.mean(mean - y * np.log(mean)))
    return float(-np.mean(y * np.log(mean) + (1.0 - y) * np.log(np.maximum(1.0 - mean, 1e-12))))


class Repeat(NamedTuple):
    """Of one refinement, by coefficient; infinite where an interval has no end.

    Attributes
    ----------
    center, error : ndarray of shape (p,)
    plain : ndarray of shape (p,)
        Standard errors without privacy, of the same rows.
    gain : float
        Loss of predictions less that of the constant.
    rate : float
        Mean prediction over the mean of the target.
    """

    center: Floats
    error: Floats
    plain: Floats
    gain: float
    rate: float


def run(whole: Population, n: int, mu: float, seed: int, rules: GeneralizedRules | None = None) -> Repeat:
    """Draw rows, refine and compare."""
    generator = np.random.default_rng([seed, n, round(1000.0 * mu)])
    drawn = whole.rows(generator.integers(0, len(whole.y), n))
    curator = IdealCurator(drawn.columns, whole.bounds, generator)
    fit = FITS[whole.family]().fit(curator.refine(mu, rules, family=whole.family))
    most = whole.bounds.get(list(whole.columns)[-1], (0.0, 1.0))[1]
    plain = most_likely(whole.family, drawn.x, drawn.y, most)[1]
    center, error = np.zeros_like(plain), np.full(len(plain), np.inf)
    try:
        low, high = fit.conf_int().T
        bounded = np.isfinite(low) & np.isfinite(high)
        center[bounded] = (low[bounded] + high[bounded]) / 2.0
        error[bounded] = (high[bounded] - low[bounded]) / 2.0 / NORMAL
    except EstimationError:
        pass
    some = whole.rows(np.arange(0, len(whole.y), max(len(whole.y) // 6000, 1)))
    features = {name: some.declared(name) for name in list(some.columns)[:-1]}
    predicted = fit.predict_proba(features)[:, 1] if whole.family == "binomial" else fit.predict(features)
    y = some.y
    gain = loss(whole.family, y, predicted) - loss(whole.family, y, np.full(len(y), y.mean()))
    return Repeat(center, error, plain, gain, float(predicted.mean() / y.mean()))


class Line(NamedTuple):
    """Summary of the repeats of one population, number of rows and price."""

    bounded: float
    mean: float
    worst: float
    shift: float
    length: float
    gain: float
    gain_sd: float
    rate: float
    by_coefficient: Floats


def judge(whole: Population, n: int, mu: float, repeats: int, rules: GeneralizedRules | None = None) -> Line:
    """Repeat, and compare with the truth."""
    most = whole.bounds.get(list(whole.columns)[-1], (0.0, 1.0))[1]
    truth, _ = most_likely(whole.family, whole.x, whole.y, most)
    told = [run(whole, n, mu, seed, rules) for seed in range(repeats)]
    center, error, plain = (np.array([getattr(one, name) for one in told]) for name in ("center", "error", "plain"))
    bounded = np.isfinite(error)
    z = np.where(bounded, (center - truth) / np.where(bounded, error, 1.0), np.nan)
    columns = list(zip(z.T, bounded.mean(axis=0) >= 0.5, strict=True))
    held = np.array([np.mean(np.abs(own[~np.isnan(own)]) < NORMAL) if use else np.nan for own, use in columns])
    shift = np.array([np.nanmean(own) if use else np.nan for own, use in columns])
    gains = np.array([one.gain for one in told])
    return Line(
        float(bounded.mean()),
        float(np.mean(np.abs(z[bounded]) < NORMAL)) if bounded.any() else math.nan,
        float(np.nanmin(held)) if any(use for _, use in columns) else math.nan,
        float(np.nanmax(np.abs(shift))) if any(use for _, use in columns) else math.nan,
        float(np.median(error[bounded] / plain[bounded])) if bounded.any() else math.nan,
        float(gains.mean()),
        float(gains.std(ddof=1) / math.sqrt(repeats)),
        float(np.mean([one.rate for one in told])),
        held,
    )


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    print("| set | n | terms | ε | bounded | mean | worst | shift | length | loss − constant | mean prediction |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in options.sets or (*MADE, *(REAL if options.data else ())):
        whole = make(name) if name in MADE else read(name, options.data)
        n = min(options.rows, len(whole.y))
        for epsilon in options.epsilons:
            line = judge(whole, n, number_of(gdp_delta, epsilon, DELTA), options.repeats)
            cells = [f"{100.0 * one:.0f}" for one in (line.bounded,)]
            cells += [f"{one:.3f}" for one in (line.mean, line.worst)]
            cells += [f"{one:.2f}" for one in (line.shift, line.length)]
            cells += [f"{line.gain:.3f} ± {line.gain_sd:.3f}", f"{line.rate:.2f}"]
            print(f"| {name} | {n:,} | {len(whole.columns)} | {epsilon:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
