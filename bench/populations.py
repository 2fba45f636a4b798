"""Populations of rows whose truth is known: real sets, and made ones, with what an analyst would type of each.

The truth is that of the population's rows as they are *declared*: cut to public bounds, and nothing else. Each has one
more column, `nothing`, which has the values of another column but is drawn by itself, so that its coefficient is 0. In
a `shuffled` population the target is drawn by itself, and all coefficients are 0.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client.inference.units import raw_units
from analyst_client.kinds.gram.design import code_target, design_matrix
from analyst_client.schema.columns import Term
from bench.desk import DeskClient, Stored, store
from bench.refined import Population as Made
from bench.run import ROOT
from bench.uci import column_names, load
from curator_service.datasets.manifest import Manifest
from curator_service.privacy.design import ColumnType

Floats = npt.NDArray[np.float64]
NOTHING = "nothing"
ROWS_MOST = 20_000
DELTA = 1e-6
INDEX = Term("index", "numeric", "index", 0.0, 1.0)
"""The linear predictor of a generalised model, which has no unit."""
Declared = tuple[float, float] | list[str] | None
"""Bounds of a number, levels of a category, or None for a boolean."""


@dataclass(frozen=True, eq=False)
class Population:
    """Rows, their declarations, and one model.

    Attributes
    ----------
    name : str
    frame : mapping of str to ndarray of shape (N,)
        Raw numbers; levels and booleans by their positions; NaN where missing.
    declared : mapping of str to bounds, levels or None
    features : sequence of str
        Columns, or the right side of a formula by its terms.
    target : str
        A column, or what a formula computes.
    rows : tuple of int
        Rows of a draw.
    family : str
    formula : bool
        Whether the model is asked for by a formula.
    shuffled : bool
        Whether the target is drawn by itself.
    second : Population or None
        Of another hospital, of the same coefficients; None where it has the same rows.
    """

    name: str
    frame: Mapping[str, Floats]
    declared: Mapping[str, Declared]
    features: Sequence[str]
    target: str
    rows: tuple[int, ...]
    family: str = "gaussian"
    formula: bool = False
    shuffled: bool = False
    second: "Population | None" = None

    @cached_property
    def manifest(self) -> Manifest:
        """Declarations: a capacity some 2½ times the rows, as of a hospital that does not tell how many it has."""
        step = 10 ** math.floor(math.log10(2.5 * max(self.rows)))
        whole = {"whole": True} if self.family == "poisson" else {}
        columns = [_column(name, own) | (whole if name == self.target else {}) for name, own in self.declared.items()]
        capacity = math.ceil(2.5 * max(self.rows) / step) * step
        body = {"name": "rows", "population": "rows", "row_capacity": capacity, "columns": columns}
        return Manifest.model_validate(body)

    @cached_property
    def stored(self) -> Stored:
        """The rows as a curator stores them."""
        return store(self.manifest, self.frame)

    @cached_property
    def quoted(self) -> dict[bytes, str]:
        """Quotes that curators of these declarations gave."""
        return {}

    @property
    def asked(self) -> tuple[Any, dict[str, Any]]:
        """Typed arguments: the model, and the target if the formula does not name it."""
        if self.formula:
            return f"{self.target} ~ {' + '.join(self.features)}", {}
        return list(self.features), {"target": self.target}

    @cached_property
    def raw(self) -> dict[str, npt.NDArray[Any]]:
        """The rows as a data frame has them: levels by their names."""
        found: dict[str, npt.NDArray[Any]] = {}
        for name, own in self.declared.items():
            levels = np.array(own, dtype=object) if isinstance(own, list) else None
            values = self.frame[name]
            found[name] = values if levels is None else levels[values.astype(int)]
        return found

    @cached_property
    def coded(self) -> "Coded":
        """The rows as they are declared, coded as a release codes them."""
        client = DeskClient(self.manifest, self.stored, np.random.default_rng(0))
        model, target = self.asked
        quote = client.quote("rows", model, epsilon=1.0, delta=DELTA, rows="box", **target)
        x = design_matrix(self.raw, quote.columns, quote.terms, clip=True)
        y = code_target(self.raw, quote.targets[0], quote.columns, clip=True)
        return Coded(x, y, quote.terms, quote.targets[0])

    @property
    def nothing_places(self) -> list[int]:
        """Places of the terms whose coefficients are 0."""
        terms = self.coded.terms
        return list(range(1, len(terms))) if self.shuffled else [i for i, t in enumerate(terms) if t.column == NOTHING]

    def draw(self, n: int, seed: int) -> "Draw":
        """Draw rows with replacement; `nothing`, and a target that is shuffled, by themselves."""
        generator = np.random.default_rng([seed, n, *self.name.encode()])
        coded = self.coded
        known = np.flatnonzero(coded.known)  # what is drawn by itself is missing nowhere
        picked = generator.integers(0, len(coded.x), n)
        nothing, other = (known[generator.integers(0, len(known), n)] for _ in range(2))
        places = {NOTHING: nothing} | ({self.target: other} if self.shuffled else {})
        stored = {name: values[places.get(name, picked)] for name, values in self.stored.items()}
        x, y = coded.x[picked], coded.y[places.get(self.target, picked)]
        alone = [i for i, term in enumerate(coded.terms) if term.column == NOTHING]
        x[:, alone] = coded.x[nothing][:, alone]
        return Draw(DeskClient(self.manifest, stored, generator, self.quoted), x, y, generator, picked)

    def shuffle(self) -> "Population":
        """Return it with a target that nothing explains."""
        return replace(self, name=f"{self.name}, shuffled", shuffled=True)


@dataclass(frozen=True, eq=False)
class Coded:
    """Rows in scaled terms, NaN where one is left out."""

    x: Floats
    y: Floats
    terms: tuple[Term, ...]
    target: Term

    @cached_property
    def known(self) -> npt.NDArray[np.bool_]:
        """Rows that count."""
        found: npt.NDArray[np.bool_] = ~np.isnan(self.x).any(axis=1) & ~np.isnan(self.y)
        return found


@dataclass(frozen=True, eq=False)
class Draw:
    """Rows of one repeat: a client of their curator, the rows as coded, the source of other draws, and their places."""

    client: DeskClient
    x: Floats
    y: Floats
    generator: np.random.Generator
    picked: npt.NDArray[np.int64]


def _column(name: str, own: Declared) -> dict[str, Any]:
    match own:
        case None:
            return {"name": name, "type": ColumnType.BOOLEAN}
        case (float() | int() as low, float() | int() as high):
            return {"name": name, "type": ColumnType.NUMERIC, "lower": low, "upper": high}
        case levels:
            return {"name": name, "type": ColumnType.CATEGORICAL, "levels": list(levels)}


def _population(
    name: str,
    frame: Mapping[str, Any],
    declared: Mapping[str, Declared],
    features: Sequence[str],
    target: str,
    *,
    like: str,
    rows: tuple[int, ...] = (),
    **members: Any,
) -> Population:
    """Return a population, with a column `nothing` like another one."""
    kept = {column: np.asarray(frame[column], dtype=np.float64) for column in declared}
    n = min(len(kept[like]), ROWS_MOST)
    kept[NOTHING] = kept[like]
    bounds = {**declared, NOTHING: declared[like]}
    return Population(name, kept, bounds, [*features, NOTHING], target, rows or (n,), **members)


def made(kind: str) -> Population:
    """Draw a population of five features of correlation ¼, see `bench.refined.Population`; `groups` has a category."""
    if kind == "zero-inflated":
        generator, d = np.random.default_rng(9), 5
        amounts = np.exp(0.7 * generator.standard_normal((60_000, d)))
        x = np.where(generator.uniform(size=amounts.shape) < 0.6, 0.0, amounts)
        wanted = x @ np.array([1.0, -0.5, 1.0, -0.5, 1.0]) + generator.standard_normal(len(x))
        found = Made.within(np.column_stack([x, np.maximum(wanted, 0.0)]), seed=9)
    else:
        found = Made.of(kind, 5)
    frame, declared = _named(found)
    if kind == "groups":
        frame |= {name: frame[name] > 0.0 for name in ("x2", "x3")}
        declared |= {"x2": ["no", "yes"], "x3": None}
    rows = (1_000, 5_000, 20_000) if kind == "gaussian" else (5_000,)
    return _population(kind, frame, declared, column_names(6)[:-1], "y", like="x1", rows=rows)


def hospitals() -> Population:
    """Return a population of two hospitals with the same coefficients, of residual deviations 0.1 and 0.5."""
    generator, size = np.random.default_rng(4), 40_000
    x = np.column_stack([np.ones(size), generator.standard_normal((size, 3))])
    noise = generator.standard_normal(size)
    noise -= x @ np.linalg.lstsq(x, noise)[0]  # so that least squares finds the same coefficients at both
    both = [np.column_stack([x[:, 1:], 0.3 * x[:, 1] - 0.2 * x[:, 2] + sd * noise]) for sd in (0.1, 0.5)]
    bounds = Made.within(both[1], seed=4).bounds
    frames = [_named(Made(rows, bounds)) for rows in both]
    names = ["x1", "x2", "x3"]
    first, second = (_population("hospitals", *one, names, "y", like="x1", rows=(20_000,)) for one in frames)
    return replace(first, second=second)


def _named(found: Made) -> tuple[dict[str, Any], dict[str, Declared]]:
    names = column_names(found.rows.shape[1])
    declared: dict[str, Declared] = {
        name: (float(low), float(high)) for name, (low, high) in zip(names, found.bounds, strict=True)
    }
    return dict(zip(names, found.rows.T, strict=True)), declared


def made_generalized(kind: str) -> Population:
    """Draw a population of a boolean or of counts; bounds four times as wide as numbers are.

    `logit` and `counts` are what their families say. In `logit, rare` one column is true of one row in a hundred, and
    another nearly a copy of a third; `logit, one in nine` is of a rare class; `counts, overdispersed` vary more than a
    Poisson law has it.
    """
    generator, n = np.random.default_rng(77), 60_000
    x = generator.standard_normal((n, 4))
    x[:, 1] = 0.6 * x[:, 0] + 0.8 * x[:, 1]
    x[:, 2] = x[:, 2] > 0.5
    eta = x @ np.array([0.8, -0.5, 0.7, 0.0])
    if kind == "logit, rare":
        x = np.column_stack([x, x[:, 0] + 0.05 * generator.standard_normal(n), generator.uniform(size=n) < 0.01])
    counts = kind.startswith("counts")
    if counts:
        mean = np.exp(0.7 + 0.5 * eta) * (generator.gamma(1.5, 1 / 1.5, n) if "over" in kind else 1.0)
        y = np.minimum(generator.poisson(mean), 60)
    else:
        start = -2.8 if "nine" in kind else -0.7
        y = generator.uniform(size=n) < 1.0 / (1.0 + np.exp(-start - eta))
    names = "abcdef"[: x.shape[1]]
    declared: dict[str, Declared] = {name: None if name in "cf" else (-10.0, 10.0) for name in names}
    declared["y"] = (0.0, 60.0) if counts else None
    frame = dict(zip(names, x.T, strict=True)) | {"y": y}
    family = "poisson" if counts else "binomial"
    return _population(kind, frame, declared, list(names), "y", like="a", rows=(5_000,), family=family)


def uci(folder: Path) -> Population:
    """Read a set of the UCI collection."""
    frame, declared = _named(Made.within(load(folder)[0], seed=7))
    return _population(folder.name, frame, declared, [*frame][:-1], "y", like="x1")


COHORT: dict[str, Declared] = {
    "age": (50.0, 100.0),
    "sex": ["F", "M"],
    "creatinine": (0.0, 3.0),
    "lambda": (0.0, 6.0),
    "kappa": (0.0, 6.0),
}
WORKERS: dict[str, Declared] = {
    "earnings": (math.exp(0.5), math.exp(5.0)),
    "education": (4.0, 22.0),
    "age": (18.0, 70.0),
    "gender": ["female", "male"],
}
EXPERIENCE = "minimum(maximum(age - education - 6, 0), 55)"


def flchain(target: str = "kappa", family: str = "gaussian") -> Population:
    """Read the cohort of the README."""
    rows = _read(ROOT / "examples" / "flchain" / "flchain.csv")
    frame = rows | {"sex": rows["sex"] == "M", "mgus": rows["mgus"] == "yes"}
    declared = COHORT | {"mgus": None}
    features = ["age", "sex", "creatinine", "lambda"]
    name = "flchain" if target == "kappa" else f"flchain, {target}"
    return _population(name, frame, declared, features, target, like="age", family=family)


def cps(folder: Path) -> Population:
    """Read the workers of the Current Population Survey, with a Mincer equation."""
    rows = _read(folder / "cpssw8.csv")
    frame = rows | {"gender": rows["gender"] == "male"}
    features = ["education", EXPERIENCE, "gender"]
    return _population("cps", frame, WORKERS, features, "log(earnings)", like="education", formula=True)


def _read(path: Path) -> dict[str, Any]:
    import pandas as pd  # noqa: PLC0415 -- for real sets alone

    return {str(name): column.to_numpy() for name, column in pd.read_csv(path).items()}


AFFAIRS: dict[str, Declared] = {
    "rate_marriage": (1.0, 5.0),
    "age": (15.0, 50.0),
    "yrs_married": (0.0, 30.0),
    "children": (0.0, 8.0),
    "religious": (1.0, 4.0),
    "educ": (8.0, 20.0),
    "affair": None,
}
VOTES: dict[str, Declared] = {
    "selfLR": (1.0, 7.0),
    "age": (18.0, 100.0),
    "educ": (1.0, 7.0),
    "income": (0.0, 25.0),
    "vote": None,
}
VISITS: dict[str, Declared] = {
    "mdvis": (0.0, 50.0),
    "lncoins": (0.0, 5.0),
    "lpi": (0.0, 8.0),
    "fmde": (0.0, 9.0),
    "physlm": (0.0, 1.0),
    "disea": (0.0, 60.0),
    "hlthg": None,
    "hlthf": None,
    "hlthp": None,
}
ARRESTS: dict[str, Declared] = {"age": (16.0, 60.0), "prio": (0.0, 20.0)} | dict.fromkeys(
    ("fin", "race", "wexp", "mar", "paro", "arrest")
)
TUMOURS: dict[str, Declared] = {
    "age": (18.0, 90.0),
    "tsize": (0.0, 120.0),
    "progrec": (0.0, 1000.0),
    "estrec": (0.0, 1000.0),
    "pnodes": (0.0, 40.0),
}
PACKAGED: dict[str, tuple[str, dict[str, Declared], str]] = {
    "fair": ("statsmodels", AFFAIRS, "rate_marriage"),
    "fair, binomial": ("statsmodels", AFFAIRS, "affair"),
    "anes96, binomial": ("statsmodels", VOTES, "vote"),
    "randhie": ("statsmodels", VISITS, "mdvis"),
    "randhie, poisson": ("statsmodels", VISITS, "mdvis"),
    "rossi, binomial": ("lifelines", ARRESTS, "arrest"),
    "gbsg2": ("lifelines", TUMOURS, "pnodes"),
}
"""Sets that come with a package: its name, the declarations, and the target."""


def packaged(name: str) -> Population:
    """Load a set that comes with a package."""
    package, declared, target = PACKAGED[name]
    set_name, _, family = name.partition(", ")
    sets = import_module(f"{package}.datasets")
    rows = (
        getattr(sets, set_name).load_pandas().data if package == "statsmodels" else getattr(sets, f"load_{set_name}")()
    )
    frame: dict[str, Any] = {"affair": rows["affairs"] > 0.0} if set_name == "fair" else {}
    frame |= {column: rows[column].to_numpy() for column in declared if column not in frame}
    features = [column for column in declared if column != target]
    like = "disea" if set_name == "randhie" else "age"
    return _population(name, frame, declared, features, target, like=like, family=family or "gaussian")


MADE = ("gaussian", "t3", "heteroskedastic", "zero-inflated", "groups")
MADE_GENERALIZED = ("logit", "logit, rare", "logit, one in nine", "counts", "counts, overdispersed")
UCI = ("airfoil", "bike", "concrete", "elevators", "protein", "wine")


def populations(data: Path | None) -> dict[str, Callable[[], Population]]:
    """Return how populations are made, by name. Real sets need their folder, and say so where they are left out."""
    found: dict[str, Callable[[], Population]] = {}

    def add(name: str, make: Callable[..., Population], *given: Any) -> None:
        found[name] = lambda: make(*given)

    for kind in MADE:
        add(kind, made, kind)
    add("gaussian, shuffled", lambda: replace(made("gaussian").shuffle(), rows=(5_000,)))
    add("hospitals", hospitals)
    for kind in MADE_GENERALIZED:
        add(kind, made_generalized, kind)
    add("flchain", flchain)
    add("flchain, shuffled", lambda: flchain().shuffle())
    add("flchain, mgus", flchain, "mgus", "binomial")
    missing = []
    for name, make in (("cps", cps), *((name, uci) for name in UCI)):
        folders = [] if data is None else [data / name, data / "uci" / name]
        if folder := next((one for one in folders if one.is_dir()), None):
            add(name, make, folder)
        else:
            missing.append(name)
    for name, (package, *_) in PACKAGED.items():
        if find_spec(package) is None:
            missing.append(name)
        else:
            add(name, packaged, name)
    if missing:
        sys.stderr.write(f"left out, as their rows are not here: {', '.join(missing)}\n")
    return found


def raw_map(coded: Coded, family: str) -> tuple[Floats, Floats]:
    """Return L and l: coefficients in raw units are Lθ + l."""
    return raw_units(coded.terms, coded.target if family == "gaussian" else INDEX, "box")
