"""Requests of scores over HTTP: exact sums of a slow program, what is refused, and what is one request."""

import math
from typing import Any

import numpy as np
import pytest
from rows_on_disk import read_columns
from sums_slowly import rows_of, sum_slowly
from support import World, problem

from curator_service.kinds.registry import KINDS
from curator_service.kinds.score.statistics import Statistic
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.losses import DIGESTS

QUOTES, RELEASES = "/v1/datasets/cohort/quotes", "/v1/datasets/cohort/releases"
WEIGHTS = {"(constant)": 100, "age": -300, "sex[M]": 7}
MATRIX = {"(constant)": [900, -300], "age": [90, 2000], "sex[X]": [0, -512]}


def at(weights: dict[str, int], bits: int = 9) -> dict[str, Any]:
    return {"bits": bits, "weights": weights}


def through(matrix: dict[str, list[int]], bits: int = 9) -> dict[str, Any]:
    return {"bits": bits, "matrix": matrix}


def ask(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "score",
        "features": ["age", "sex"],
        "target": "dose",
        "loss": "linear",
        "coefficients": at(WEIGHTS),
        "directions": through(MATRIX),
        "statistics": ["score", "norms", "meat"],
        "price": {"mu": 0.01},
        **changes,
    }


def find(world: World, name: str = "cohort") -> Any:
    return next(found for found in world.curator.datasets.list_all() if found.name == name)


def make_kernel(world: World, request: dict[str, Any]) -> Any:
    kind = KINDS[request["kind"]]
    return kind.kernel(kind.plan(find(world), kind.request_model.model_validate(request)).plan)


SCORES: list[dict[str, Any]] = [
    {},
    {"loss": "logistic", "target": "alive"},
    {"loss": "logistic", "target": {"less": ["age", 70]}, "features": ["kappa"], "coefficients": at({"kappa": 9000})},
    {"loss": "poisson", "target": "kappa", "where": {"less": ["age", 70]}},
    {"coefficients": at({})},
    {"coefficients": at({"age": 2**35}, 0), "directions": through({"age": [2**35, -1], "sex[M]": [0, 3]}, 0)},
    {"weight": {"divide": ["age", 100]}},
    {"intercept": False, "coefficients": at({"age": 5}), "directions": through({"sex[F]": [2**9]})},
    {"features": ["creatinine", {"spline": ["age", [70]]}], "coefficients": at({}), "statistics": ["norms", "score"]},
]


def fitting(changes: dict[str, Any]) -> dict[str, Any]:
    """Return a request whose directions are of terms that it has."""
    request = ask(**changes)
    if request["features"] != ["age", "sex"] and "directions" not in changes:
        request["directions"] = through({"(constant)": [300, 5]})
    return request


@pytest.mark.parametrize("changes", SCORES)
def test_sums_are_those_of_the_slow_program(world: World, changes: dict[str, Any]) -> None:
    request = fitting(changes)
    dataset, kernel = find(world), make_kernel(world, request)
    rows = [dict(row) for row in rows_of(read_columns(world.curator.datasets.storage, dataset))]
    found = world.curator.datasets.storage.sum_rows(dataset.folder, dataset.manifest, kernel).tolist()
    assert found == sum_slowly(kernel, rows)
    assert kernel.statistics == tuple(s for s in Statistic if s in request["statistics"])


def test_an_answer_is_what_it_says_it_is(world: World) -> None:
    api = world.api()
    quote = api.post(QUOTES, json=ask()).json()
    assert quote["pass_over_rows"] is True
    answered = api.post(RELEASES, json=ask(), key="one")
    assert answered.status_code == 201
    answer = answered.json()
    assert answer["noise"] == quote["noise"]
    assert [term["name"] for term in answer["terms"]] == ["(constant)", "age", "sex[M]", "sex[X]"]
    assert answer["target"]["name"] == "dose"
    shapes = {name: (s["shape"], s["packing"], len(s["values"])) for name, s in answer["statistics"].items()}
    assert shapes == {"score": ([2], "full", 2), "norms": ([13], "full", 13), "meat": ([2, 2], "upper", 3)}
    assert answer["request"]["shares"] == {"score": 94 / 140, "norms": 6 / 140, "meat": 40 / 140}
    # Δ = 1 in scaled units, so a share s of µ² is noise of 1/(µ √s).
    for name, share in answer["request"]["shares"].items():
        sd = answer["noise"]["sd"]["meat_diagonal" if name == "meat" else name]
        assert math.isclose(sd, 1 / (0.01 * math.sqrt(share)), rel_tol=0.01)
    again = api.post(RELEASES, json=answer["request"], key="two")
    assert (again.status_code, again.json()["id"]) == (200, answer["id"])
    assert world.discrepancies() == []


@pytest.mark.parametrize("changes", SCORES)
def test_noisy_values_are_the_sums_and_noise_of_the_size_that_is_stated(world: World, changes: dict[str, Any]) -> None:
    request = fitting(changes) | {"price": {"mu": 0.05}}
    dataset, kernel = find(world), make_kernel(world, request)
    exact = world.curator.datasets.storage.sum_rows(dataset.folder, dataset.manifest, kernel) / UNIT**2
    answer = world.api().post(RELEASES, json=request, key="key").json()
    said = np.concatenate([answer["statistics"][s.value]["values"] for s in kernel.statistics])
    assert np.abs(said - exact).max() < 7 * max(answer["noise"]["sd"].values())


def test_what_means_the_same_is_charged_once(world: World) -> None:
    api = world.api()
    first = api.post(RELEASES, json=ask(), key="one")
    spent = world.account().posted
    again = ask(
        features=["sex", "age"],
        coefficients=at({name: 8 * w for name, w in reversed(WEIGHTS.items())} | {"sex[X]": 0}, 12),
        directions=through({name: [2 * w for w in row] for name, row in reversed(MATRIX.items())}, 10),
        statistics=["meat", "score", "norms"],
    )
    second = api.post(RELEASES, json=again, key="two")
    assert (second.status_code, second.json()["id"]) == (200, first.json()["id"])
    assert world.account().posted == spent
    others: list[dict[str, Any]] = [
        {"coefficients": at(WEIGHTS | {"age": -301})},
        {"directions": through(MATRIX, 10)},
        {"loss": "logistic", "target": "alive"},
        {"target": "kappa"},
        {"where": {"less": ["age", 70]}},
        {"weight": {"divide": ["age", 100]}},
        {"intercept": False, "coefficients": at({}), "directions": through({"age": [1]})},
        {"statistics": ["score"]},
    ]
    ids = {api.post(RELEASES, json=ask(**other), key=f"k{i}").json()["id"] for i, other in enumerate(others)}
    assert len(ids | {first.json()["id"]}) == 1 + len(others)
    assert world.discrepancies() == []


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown term": ({"coefficients": at({"weight": 1})}, "/coefficients/weights/weight", "they make (constant)"),
    "an unknown direction": ({"directions": through({"dose": [1]})}, "/directions/matrix/dose", "they make"),
    "lists of two lengths": (
        {"directions": through({"age": [1, 2], "sex[M]": [1]})},
        "/directions/matrix/sex[M]",
        "1 n",
    ),
    "no direction": ({"directions": through({"age": [0]})}, "/directions/matrix", "all 0"),
    "weights too large": ({"coefficients": at({"age": 2**35, "sex[M]": 1})}, "/coefficients/weights", "2^35"),
    "a logistic loss of a number": ({"loss": "logistic"}, "/target", "a comparison such as"),
    "counts below 0": ({"loss": "poisson"}, "/target", "may be -10"),
    "counts of a boolean": ({"loss": "poisson", "target": "alive"}, "/target", "is a boolean"),
    "a category": ({"target": "region"}, "/target", "cannot be a target"),
    "a feature as the target": ({"target": "age"}, "/target", "a feature and a target"),
    "no such loss": ({"loss": "hinge"}, "/loss", "linear"),
    "another link": ({"loss": "logistic", "target": "alive", "link": "0" * 64}, "/link", "is another"),
    "a link of none": ({"link": DIGESTS["logistic"]}, "/link", "is another"),
    "a statistic twice": ({"statistics": ["score", "score"]}, "", "named twice"),
    "other shares": ({"shares": {"score": 1.0}}, "", "shares must name"),
    "shares of 2": ({"shares": {"score": 1.0, "norms": 0.5, "meat": 0.5}}, "", "add up to 1"),
    "no statistic": ({"statistics": []}, "/statistics", "at least 1"),
    "31 bits": ({"coefficients": at({}, 31)}, "/coefficients/bits", "less than or equal to 30"),
    "a published formula": ({"calibration": "classical"}, "", "analytic alone"),
    "a row map": ({"rows": {"map": "box"}}, "/rows", "not"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_means_nothing_is_refused_at_its_place(world: World, case: str) -> None:
    changes, pointer, rule = WRONG[case]
    for path in (QUOTES, RELEASES):
        refused = problem(world.api().post(path, json=ask(**changes), key="key"), "request-invalid", 422)
        found = [(error["pointer"], error["detail"]) for error in refused["errors"]]
        assert any(place.startswith(pointer) and rule in detail for place, detail in found), found
    assert world.account().posted == 0


def test_laplace_noise_follows_from_the_number_of_directions(world: World) -> None:
    request = ask(mechanism="laplace", price={"epsilon": 0.1})
    answer = world.api().post(RELEASES, json=request, key="key").json()
    share = answer["request"]["shares"]["score"]
    # Δ₁ = √2 for two directions; an account in µ charges the whole, so noise is that of the ε stated.
    assert math.isclose(answer["noise"]["sd"]["score"], math.sqrt(2) * math.sqrt(2) / (0.1 * share), rel_tol=0.01)
    assert world.discrepancies() == []
