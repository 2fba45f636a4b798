"""Without noise an answer is the exact sum over mapped rows, and fits on it are those of scikit-learn.

The expectation is computed here in plain Python from the rows' text and the declared rules, and shares no code with
the service.
"""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from support import COLUMNS, ROWS, World, ZeroNoise, body, find_discrepancies, open_world

from analyst_client import OLS, Release, Ridge
from curator_service.datasets.snapshot import Storage
from curator_service.kinds import wide
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.releases import acts, preparation, publisher

Q = 2**17 - 1
DECLARED = {name: (kind, missing, public) for name, kind, missing, public, _unit in COLUMNS}
RELEASES = "/v1/datasets/cohort/releases"
KEYS = itertools.count()
EVERYTHING = [name for name in DECLARED if name not in {"kappa", "lambda", "dose"}]


@pytest.fixture(scope="module", params=list(Adjacency), ids=lambda adjacency: adjacency.value)
def exact(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a world without noise and with a budget that does not matter."""
    folder = tmp_path_factory.mktemp("exact")
    with open_world(folder, adjacency=request.param, limit=Price(mu=100.0), noise=ZeroNoise()) as world:
        yield world


def on_lattice(text: str, lower: float, upper: float) -> int:
    """Map a number to the request lattice: round to 2**-30, clip, round to 1/q, half to even."""
    center, scale = lower / 2 + upper / 2, upper / 2 - lower / 2
    stored = max(-(2**30), min(2**30, round((float(text) - center) / scale * 2**30)))
    return round(Fraction(stored * Q, 2**30))


def code_feature(name: str, text: str, *, intercept: bool) -> list[int]:
    """Return the entries of one feature in one row."""
    kind, missing, public = DECLARED[name]
    if kind == "numeric":
        entries = [0 if text == "" else on_lattice(text, *public)]
    elif kind == "boolean":
        entries = [Q if text in {"yes", "true", "1"} else 0]
    else:
        entries = [Q if text == level else 0 for level in public[1 if intercept else 0 :]]
    return [*entries, Q if text == "" else 0] if missing == "indicator" else entries


def code_row(row: dict[str, str], request: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Return the terms and targets of one row before the map; zeros for one that counts for nothing."""
    terms = [Q] if request["intercept"] else []
    for name in request["features"]:
        terms += code_feature(name, row[name], intercept=request["intercept"])
    targets = [code_feature(name, row[name], intercept=True)[0] for name in request["targets"]]
    omitted = any(row[name] == "" and DECLARED[name][1] == "omit" for name in request["features"])
    omitted |= any(row[name] == "" and DECLARED[name][1] in {"omit", "indicator"} for name in request["targets"])
    return ([0] * len(terms), [0] * len(targets)) if omitted else (terms, targets)


def map_row(terms: list[int], targets: list[int], rows: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Apply the row map in integers."""
    if rows["map"] == "box":
        return terms, targets
    if rows["map"] in {"unit", "unit_xy"}:
        return divide_row(terms, targets, rows["map"])
    radius = math.floor(Fraction(rows["norm"]) * Q)
    squared = sum(z * z for z in terms)
    if squared <= radius**2:
        return terms, targets
    divisor = math.isqrt(squared) + 1

    def shrink(z: int) -> int:
        size = abs(z) * radius // divisor
        return size if z >= 0 else -size

    return [shrink(z) for z in terms], [shrink(z) for z in targets]


def divide_row(terms: list[int], targets: list[int], kind: str) -> tuple[list[int], list[int]]:
    """Divide the terms beside the constant, here the first, by their norm; under unit_xy the targets too."""
    squared = sum(z * z for z in terms[1:])
    divisor = math.isqrt(squared * 2**16) + 1

    def divide(z: int) -> int:
        size = min(abs(z) * Q * 2**8 // divisor, Q) if squared else 0
        return size if z >= 0 else -size

    return terms[:1] + [divide(z) for z in terms[1:]], [divide(y) for y in targets] if kind == "unit_xy" else targets


def mapped_rows(request: dict[str, Any]) -> list[tuple[list[int], list[int]]]:
    """Return every row as the curator must see it."""
    return [map_row(*code_row(row, request), request["rows"]) for row in ROWS]


REQUESTS: dict[str, dict[str, Any]] = {
    "numeric box": {"features": ["age"], "rows": {"map": "box"}},
    "omit box": {"features": ["creatinine", "stage", "frail"], "targets": ["lambda"], "rows": {"map": "box"}},
    "omit ball": {"features": ["creatinine", "stage", "frail"], "targets": ["lambda"], "rows": {"map": "ball"}},
    "midpoint box": {"features": ["weight", "smoker", "ward"], "rows": {"map": "box"}},
    "indicator box": {"features": ["height", "treated", "region"], "rows": {"map": "box"}},
    "indicator ball": {"features": ["height", "treated", "region"], "rows": {"map": "ball", "norm": 1.2}},
    "indicator target": {"features": ["age"], "targets": ["dose"], "rows": {"map": "box"}},
    "no constant": {"features": ["sex", "age", "region"], "intercept": False, "rows": {"map": "box"}},
    "no constant, ball": {"features": ["sex", "age"], "intercept": False, "rows": {"map": "ball", "norm": 1.05}},
    "boolean target": {"features": ["age", "sex"], "targets": ["alive", "smoker"], "rows": {"map": "box"}},
    "unit": {"features": ["age", "weight", "region"], "rows": {"map": "unit"}},
    "unit of one column, which is 0 for some": {"features": ["smoker"], "rows": {"map": "unit"}},
    "unit with omission": {"features": ["creatinine", "age"], "targets": ["lambda"], "rows": {"map": "unit_xy"}},
    "unit_xy": {"features": ["age", "weight"], "targets": ["kappa", "dose"], "rows": {"map": "unit_xy"}},
    "unit_xy, 0 for some": {"features": ["smoker"], "rows": {"map": "unit_xy"}},
    "several targets": {"features": ["sex"], "targets": ["kappa", "dose", "lambda"], "rows": {"map": "ball"}},
    "small ball": {"features": ["age", "weight"], "rows": {"map": "ball", "norm": 0.1}},
    "everything box": {"features": EVERYTHING, "targets": ["kappa", "dose"], "rows": {"map": "box"}},
    "everything ball": {"features": EVERYTHING, "targets": ["kappa", "dose"], "rows": {"map": "ball"}},
    "as declared, default": {"features": ["age", "sex", "weight", "region"]},
    "gram alone": {"features": ["age", "kappa"], "targets": [], "rows": {"map": "box"}},
}


def buy(world: World, **request: Any) -> dict[str, Any]:
    """Buy a release of every statistic."""
    request = {"price": {"mu": 0.5}, **request}
    targets = request.get("targets", ["kappa"])
    statistics = ["xtx", "xty", "yty", "lambda_min"] if targets else ["xtx", "lambda_min"]
    api = world.api()
    answer = api.post(RELEASES, json=body(statistics=statistics, **request), key=f"k{next(KEYS)}")
    assert answer.status_code in {200, 201}, answer.text
    content: dict[str, Any] = answer.json()
    return content


@pytest.mark.parametrize("name", list(REQUESTS))
def test_statistics_without_noise_are_the_exact_sums_over_mapped_rows(exact: World, name: str) -> None:
    released = buy(exact, **REQUESTS[name])
    rows = mapped_rows(released["request"])
    d, t = len(released["terms"]), len(released["targets"])
    assert all(len(terms) == d and len(targets) == t for terms, targets in rows)
    xtx = [sum(x[i] * x[j] for x, _ in rows) for i in range(d) for j in range(i, d)]
    assert released["statistics"]["xtx"]["values"] == [value / Q**2 for value in xtx]
    if t:
        xty = [sum(x[i] * y[k] for x, y in rows) for i in range(d) for k in range(t)]
        yty = [sum(y[k] ** 2 for _, y in rows) for k in range(t)]
        assert released["statistics"]["xty"]["values"] == [value / Q**2 for value in xty]
        assert released["statistics"]["yty"]["values"] == [value / Q**2 for value in yty]
    matrix = np.array([x for x, _ in rows], dtype=np.float64) / Q
    smallest = np.linalg.eigvalsh(matrix.T @ matrix)[0]
    assert released["statistics"]["lambda_min"]["values"][0] == pytest.approx(smallest, abs=1e-8)


def augmented(release: Release, penalty: float) -> tuple[Any, Any]:
    """Return mapped lattice rows in scaled units, with one more row for the penalty of each term but the constant."""
    rows = mapped_rows(release.request)
    x = np.array([terms for terms, _ in rows], dtype=np.float64) / Q
    y = np.array([targets for _, targets in rows], dtype=np.float64) / Q
    penalised = np.diag([0.0 if term.kind == "constant" else math.sqrt(penalty) for term in release.terms])
    return np.vstack([x, penalised]), np.vstack([y, np.zeros((len(penalised), y.shape[1]))])


FITS = {
    "numeric box": REQUESTS["numeric box"],
    "midpoint box": REQUESTS["midpoint box"],
    "indicator ball": REQUESTS["indicator ball"],
    "omit ball": REQUESTS["omit ball"],
    "no constant": {"features": ["sex", "age"], "intercept": False, "rows": {"map": "box"}},
    "several targets": REQUESTS["several targets"],
    "default": {"features": ["age", "sex", "weight", "creatinine"]},
}


@pytest.mark.parametrize("name", list(FITS))
@pytest.mark.parametrize("penalty", [0.0, 0.7, 30.0])
def test_fits_equal_scikit_learn_on_mapped_lattice_rows(exact: World, name: str, penalty: float) -> None:
    """Row weights and the weighted constant are in the rows; the constant is not penalised."""
    bought = buy(exact, **FITS[name])
    release = Release.from_text(exact.api().get(f"/v1/releases/{bought['id']}").text, "stored")
    fit = (OLS() if penalty == 0.0 else Ridge(penalty)).fit(release)
    x, y = augmented(release, penalty)
    reference = LinearRegression(fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(np.atleast_2d(fit.scaled_coef_), reference.coef_, rtol=1e-9, atol=1e-9)
    # And in raw units, by what the terms and targets say of themselves.
    first = int(release.has_constant)
    centers = np.array([term.center for term in release.terms[first:]])
    scales = np.array([term.scale for term in release.terms[first:]])
    for k, target in enumerate(release.targets):
        coef = reference.coef_[k, first:] * target.scale / scales
        constant = reference.coef_[k, 0] if first else 0.0
        np.testing.assert_allclose(np.atleast_2d(fit.coef_)[k], coef, rtol=1e-9, atol=1e-9)
        intercept = target.center + target.scale * constant - coef @ centers
        np.testing.assert_allclose(np.atleast_1d(fit.intercept_)[k], intercept, rtol=1e-9, atol=1e-9)


def test_a_box_fit_equals_scikit_learn_on_the_clipped_raw_rows(exact: World) -> None:
    """Units, categories and clipping: coefficients are in the manifest's units."""
    features = ["age", "sex", "creatinine", "smoker"]
    released = buy(exact, features=features, targets=["kappa"], rows={"map": "box"})
    fit = OLS().fit(Release.from_text(exact.api().get(f"/v1/releases/{released['id']}").text, "stored"))

    def clipped(row: dict[str, str], name: str) -> float:
        return float(np.clip(float(row[name]), *DECLARED[name][2]))

    kept = [row for row in ROWS if row["creatinine"] != ""]
    x = [
        [
            clipped(row, "age"),
            float(row["sex"] == "M"),
            float(row["sex"] == "X"),
            clipped(row, "creatinine"),
            float(row["smoker"] == "yes"),
        ]
        for row in kept
    ]
    reference = LinearRegression().fit(x, [clipped(row, "kappa") for row in kept])
    np.testing.assert_allclose(fit.coef_, reference.coef_, rtol=1e-4, atol=1e-4)
    assert fit.intercept_ == pytest.approx(reference.intercept_, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", ["numeric box", "midpoint box", "indicator box", "gram alone", "boolean target"])
def test_the_cached_gram_and_a_pass_over_rows_give_the_same_answer(
    exact: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = buy(exact, **REQUESTS[name], fresh=True)
    calls = []

    def always(*asked: object) -> bool:
        calls.append(asked)
        return True

    acts._prepare_again.cache_clear()  # a plan remembers whether it needs a pass
    monkeypatch.setattr("curator_service.kinds.gram.kernel.needs_pass", always)
    passed = buy(exact, **REQUESTS[name], fresh=True)
    assert calls
    assert passed["statistics"] == cached["statistics"]


def test_the_manifest_alone_decides_what_needs_a_pass(exact: World) -> None:
    """By declaration: a column declared `omit` needs one although this world might hold no missing value."""
    api = exact.api()

    def pass_over_rows(**request: Any) -> bool:
        answer = api.post("/v1/datasets/cohort/quotes", json=body(**request))
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["pass_over_rows"])

    box = {"map": "box"}
    for column, (_, missing, _public) in DECLARED.items():
        if column != "kappa":
            assert pass_over_rows(features=[column], rows=box) == (missing == "omit"), column
    assert pass_over_rows(features=["age"], targets=["dose"], rows=box)  # a target has no indicator
    assert pass_over_rows(features=["age"], rows={"map": "ball"})


def test_quotes_read_no_rows(exact: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a quote read rows")

    monkeypatch.setattr(Storage, "sum_rows", fail)
    monkeypatch.setattr(publisher, "draw_noise", fail)
    monkeypatch.setattr(preparation, "perturb", fail)
    for request in REQUESTS.values():
        assert exact.api().post("/v1/datasets/cohort/quotes", json=body(**request)).status_code == 200


def test_the_tolerance_of_lambda_min_is_that_of_the_declared_capacity(exact: World) -> None:
    """For one row and for a thousand: how many there are must show in no scale, price, sensitivity or answer."""
    capacity, terms = 10**7, 2
    tolerance = math.ceil(Fraction(3 * (terms + 2) ** 2 * capacity * Q**2, 2**53)) + 1
    assert tolerance > 900
    told = []
    for name, count in (("single", 1), ("thousand", 1000)):
        rows = [{"age": repr(50 + 37 * i % 50)} for i in range(count)]
        columns = [column for column in COLUMNS if column[0] == "age"]
        dataset = exact.register(name, "town", rows, columns=columns, row_capacity=capacity)
        exact.grant("ada", dataset)
        asked = body(features=["age"], targets=[], statistics=["lambda_min"], rows={"map": "box"}, price={"mu": 0.05})
        quote = exact.api().post(f"/v1/datasets/{name}/quotes", json=asked).json()
        answer = exact.api().post(f"/v1/datasets/{name}/releases", json=asked, key=name).json()
        (value,) = answer["statistics"]["lambda_min"]["values"]
        assert round(Fraction(value) * Q**2) % tolerance == 0
        (part,) = answer["receipt"]["mechanism"]
        assert math.isqrt(int(part["sensitivity"])) == terms * Q**2 + 3 * tolerance
        told.append((part, answer["noise"], answer["receipt"]["units"], quote["noise"], quote["duration_s"]))
    assert told[0] == told[1]


WIDE: dict[str, dict[str, Any]] = {
    "ball": body(
        features=["age", "sex"],
        statistics=["xtx", "xty", "yty", "lambda_min"],
        rows={"map": "ball"},
        price={"mu": 0.01},
    ),
    "kept since registration": body(
        features=["age", "weight"], statistics=["xtx", "xty", "lambda_min"], price={"mu": 0.01}, rows={"map": "box"}
    ),
    "counts": {"kind": "counts", "tables": [{"axes": [{"column": "sex"}]}], "price": {"mu": 0.01}},
    "marginals": {
        "kind": "marginals",
        "marginals": [{"type": "tree", "columns": ["age"], "levels": 2}, {"type": "moments", "columns": ["age"]}],
        "price": {"mu": 0.01},
    },
}


def test_sums_in_limbs_are_released_as_sums_in_one_integer_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest capacity of one integer is lowered below the cohort's: answers are the same, and all take a pass."""
    told: list[dict[str, Any]] = []
    for name in ("narrow", "wide"):
        if name == "wide":
            monkeypatch.setattr(wide, "INT64_CAPACITY_MAX", 999)
        with open_world(tmp_path / name) as world:
            api = world.api()
            quotes = [api.post("/v1/datasets/cohort/quotes", json=asked).json() for asked in WIDE.values()]
            answers = [api.post(RELEASES, json=asked, key=named.replace(" ", "-")) for named, asked in WIDE.items()]
            assert [answer.status_code for answer in answers] == [201] * len(WIDE)
            told.append({"statistics": [answer.json()["statistics"] for answer in answers]})
            assert [quote["pass_over_rows"] for quote in quotes] == [True, name == "wide", True, True]
            assert find_discrepancies(world.curator, "town") == []
    assert told[0] == told[1]
