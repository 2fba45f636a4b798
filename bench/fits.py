"""What `client.fit` is worth: twelve real sets, six models of each, beside the best explicit call in hindsight.

The list was fixed before `fit` was written. Four of the sets (`HELD_BACK`) were looked at once, at the end. Bounds are
what somebody would declare who knows the field and not the rows; those of UCI sets, whose columns were centred, are
their ranges, widened by 5 to 25 % a side.
"""

import io
import math
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.populations import Declared, Population, _named, _read, column_names
from bench.refined import Population as Made
from bench.run import ROOT
from bench.uci import load

Frame = dict[str, Any]


@dataclass(frozen=True)
class Set:
    """Rows, their declarations, and six models.

    Attributes
    ----------
    source : str
        A folder of the data, or a package of Python or R with the name of a set.
    declared : mapping of str to bounds, levels or None
        None is a boolean.
    family : str
    models : tuple of (str, str or None)
        Formulas, each with a condition on rows.
    """

    source: str
    declared: Mapping[str, Declared]
    family: str
    models: tuple[tuple[str, str | None], ...]


def _uci_models(count: int) -> tuple[tuple[str, str | None], ...]:
    """Return the six models of a set whose columns have no names."""
    every = " + ".join(column_names(count + 1)[:-1][:10])
    return (
        ("y ~ x1", None),
        ("y ~ x1 + x2 + x3", None),
        (f"y ~ {every}", None),
        ("y ~ x1 * x2 + x3", None),
        ("y ~ poly(x1, 2) + x2 + x3", None),
        ("y ~ x1 + x2", "x3 > 0"),
    )


SETS: dict[str, Set] = {
    "flchain": Set(
        "flchain",
        {
            "age": (50.0, 100.0),
            "sex": ["F", "M"],
            "creatinine": (0.0, 3.0),
            "lambda": (0.0, 6.0),
            "kappa": (0.0, 6.0),
        },
        "gaussian",
        (
            ("kappa ~ age", None),
            ("kappa ~ age + sex", None),
            ("kappa ~ age + sex + creatinine + `lambda`", None),
            ("kappa ~ age * sex + creatinine", None),
            ("log(kappa + 0.1) ~ poly(age, 2) + sex + log(creatinine + 0.1)", None),
            ("kappa ~ sex + creatinine", "age >= 65"),
        ),
    ),
    "cps": Set(
        "cps",
        {
            "earnings": (math.exp(0.5), math.exp(5.0)),
            "education": (4.0, 22.0),
            "age": (18.0, 70.0),
            "gender": ["female", "male"],
            "region": ["Northeast", "Midwest", "South", "West"],
        },
        "gaussian",
        (
            ("log(earnings) ~ education", None),
            ("log(earnings) ~ education + age + gender", None),
            ("log(earnings) ~ education + age + gender + region", None),
            ("log(earnings) ~ education * gender + age", None),
            ("log(earnings) ~ education + poly(age, 2) + gender", None),
            ("earnings ~ education + age", "gender == 'female'"),
        ),
    ),
    "airfoil": Set("uci", {}, "gaussian", _uci_models(5)),
    "protein": Set("uci", {}, "gaussian", _uci_models(9)),
    "elevators": Set("uci", {}, "gaussian", _uci_models(18)),
    "sml": Set("uci", {}, "gaussian", _uci_models(26)),
    "fair": Set(
        "statsmodels fair",
        {
            "rate_marriage": (1.0, 5.0),
            "age": (15.0, 50.0),
            "yrs_married": (0.0, 30.0),
            "children": (0.0, 8.0),
            "religious": (1.0, 4.0),
            "educ": (8.0, 20.0),
            "affair": None,
        },
        "binomial",
        (
            ("affair ~ rate_marriage", None),
            ("affair ~ rate_marriage + age + religious", None),
            ("affair ~ rate_marriage + age + yrs_married + children + religious + educ", None),
            ("affair ~ rate_marriage * religious + age", None),
            ("affair ~ rate_marriage + poly(yrs_married, 2)", None),
            ("affair ~ rate_marriage + religious", "children >= 1"),
        ),
    ),
    "nafld": Set(
        "R survival nafld1",
        {"age": (18.0, 100.0), "male": None, "bmi": (10.0, 80.0), "height": (120.0, 220.0), "status": None},
        "binomial",
        (
            ("status ~ age", None),
            ("status ~ age + male", None),
            ("status ~ age + male + bmi + height", None),
            ("status ~ age * male", None),
            ("status ~ poly(age, 2) + male", None),
            ("status ~ age + bmi", "male"),
        ),
    ),
    "hmda": Set(
        "R AER HMDA",
        {
            "pirat": (0.0, 1.0),
            "lvrat": (0.0, 1.5),
            "unemp": (0.0, 15.0),
            "selfemp": None,
            "condomin": None,
            "afam": None,
            "single": None,
            "hschool": None,
            "deny": None,
        },
        "binomial",
        (
            ("deny ~ pirat", None),
            ("deny ~ pirat + lvrat + afam", None),
            ("deny ~ pirat + lvrat + unemp + selfemp + condomin + afam + single", None),
            ("deny ~ pirat * afam", None),
            ("deny ~ poly(pirat, 2) + lvrat", None),
            ("deny ~ pirat + lvrat", "not single"),
        ),
    ),
    "randhie": Set(
        "statsmodels randhie",
        {
            "mdvis": (0.0, 50.0),
            "lncoins": (0.0, 5.0),
            "lpi": (0.0, 8.0),
            "physlm": (0.0, 1.0),
            "disea": (0.0, 60.0),
            "hlthf": None,
            "hlthp": None,
        },
        "poisson",
        (
            ("mdvis ~ disea", None),
            ("mdvis ~ lncoins + disea + hlthp", None),
            ("mdvis ~ lncoins + lpi + physlm + disea + hlthf + hlthp", None),
            ("mdvis ~ lncoins * hlthf + disea", None),
            ("mdvis ~ poly(disea, 2) + lncoins", None),
            ("mdvis ~ lncoins + disea", "physlm == 0"),
        ),
    ),
    "doctor": Set(
        "R AER DoctorVisits",
        {
            "visits": (0.0, 15.0),
            "gender": ["male", "female"],
            "age": (0.15, 0.9),
            "income": (0.0, 2.0),
            "illness": (0.0, 5.0),
            "reduced": (0.0, 14.0),
            "private": None,
        },
        "poisson",
        (
            ("visits ~ illness", None),
            ("visits ~ gender + age + illness", None),
            ("visits ~ gender + age + income + illness + reduced + private", None),
            ("visits ~ gender * age + illness", None),
            ("visits ~ poly(age, 2) + reduced", None),
            ("visits ~ illness + income", "gender == 'female'"),
        ),
    ),
    "nmes": Set(
        "R AER NMES1988",
        {
            "visits": (0.0, 90.0),
            "health": ["average", "poor", "excellent"],
            "chronic": (0.0, 8.0),
            "gender": ["female", "male"],
            "school": (0.0, 18.0),
            "age": (6.5, 11.0),
            "insurance": None,
        },
        "poisson",
        (
            ("visits ~ chronic", None),
            ("visits ~ health + chronic", None),
            ("visits ~ health + chronic + gender + school + insurance", None),
            ("visits ~ chronic * gender + school", None),
            ("visits ~ poly(chronic, 2) + insurance", None),
            ("visits ~ chronic + school", "gender == 'female'"),
        ),
    ),
}
HELD_BACK = ("elevators", "sml", "hmda", "nmes")


def read_set(name: str, data: Path) -> tuple[Frame, Mapping[str, Declared]]:
    """Return rows, levels and booleans by their positions, and what is declared."""
    listed = SETS[name]
    source, *place = listed.source.split()
    match source:
        case "uci":
            return _named(Made.within(load(data / "uci" / name)[0], seed=7))
        case "flchain":
            rows = _read(ROOT / "examples" / "flchain" / "flchain.csv")
        case "cps":
            rows = _read(data / "cps" / "cpssw8.csv")
        case "statsmodels":
            from statsmodels import datasets  # noqa: PLC0415 -- for its sets alone

            rows = dict(getattr(datasets, place[0]).load_pandas().data)
            rows = {key: column.to_numpy() for key, column in rows.items()}
            if name == "fair":
                rows["affair"] = rows["affairs"] > 0.0
        case _:
            rows = _read_r(*place)
    return {column: _as_positions(rows[column], own) for column, own in listed.declared.items()}, listed.declared


def _read_r(package: str, name: str) -> Frame:
    """Read a set of a package of R: its rows are not ours to bring along."""
    code = f"suppressMessages(library({package})); data({name}); write.csv({name}, row.names = FALSE)"
    if package == "survival":
        code = f"write.csv(survival::{name}, row.names = FALSE)"
    import pandas as pd  # noqa: PLC0415 -- for real sets alone

    text = subprocess.run(["Rscript", "-e", code], check=True, capture_output=True, text=True).stdout
    return {str(key): column.to_numpy() for key, column in pd.read_csv(io.StringIO(text)).items()}


def _as_positions(values: Any, own: Declared) -> Any:
    """Return numbers; of levels and of booleans their positions, not a number where missing."""
    import pandas as pd  # noqa: PLC0415 -- for real sets alone

    if isinstance(own, list):
        codes = pd.Categorical(values, categories=own).codes.astype(float)
        codes[codes < 0] = math.nan
        return codes
    if own is None and values.dtype == object:
        return pd.Series(values).map({"yes": 1.0, "no": 0.0}).to_numpy()
    return values.astype(float)


def populations(data: Path) -> dict[str, Callable[[], Population]]:
    """Return how the populations are made, by the set's name and the model's number."""
    found: dict[str, Callable[[], Population]] = {}
    for name, listed in SETS.items():
        for number, (formula, _) in enumerate(listed.models, 1):
            found[f"{name} {number}"] = lambda name=name, formula=formula: _population_of(name, formula, data)
    return found


def _population_of(name: str, formula: str, data: Path) -> Population:
    frame, declared = read_set(name, data)
    target, _, terms = (part.strip() for part in formula.partition("~"))
    n = min(len(next(iter(frame.values()))), 20_000)
    return Population(name, frame, declared, [terms], target, (n,), SETS[name].family, formula=True)
