"""Rows of combinations over HTTP: exact sums of a slow program, what is refused, and what is one request."""

from typing import Any

import numpy as np
import pytest
from rows_on_disk import read_columns
from sums_slowly import rows_of, sum_slowly
from support import World, body, problem

from curator_service.kinds.registry import KINDS
from curator_service.privacy.lattice import UNIT

QUOTES, RELEASES = "/v1/datasets/cohort/quotes", "/v1/datasets/cohort/releases"
BITS = 10


def linear(matrix: dict[str, list[int]], bits: int = BITS) -> dict[str, Any]:
    return {"map": "linear", "bits": bits, "matrix": matrix}


MATRIX = {"(constant)": [700, -300], "age": [90, 2000], "sex[M]": [0, -512]}
ASKED = {"features": ["age", "sex"], "targets": ["dose"], "price": {"mu": 0.01}}


def find(world: World) -> Any:
    return next(found for found in world.curator.datasets.list_all() if found.name == "cohort")


def make_kernel(world: World, request: dict[str, Any]) -> Any:
    kind = KINDS[request["kind"]]
    return kind.kernel(kind.plan(find(world), kind.request_model.model_validate(request)).plan)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rows": linear({"age": [1]}, 0)},
        {"rows": linear({"age": [2**35 - 5], "sex[M]": [-5]}, 0)},
        {"rows": linear({name: [3 * k + len(name) for k in range(7)] for name in MATRIX}, 3)},
        {"targets": [], "rows": linear({"sex[M]": [1, 2, 3], "(constant)": [1, 0, 1]}, 2)},
        {"targets": ["dose", "kappa"], "where": {"less": ["age", 70]}},
        {"weight": {"divide": ["age", 100]}},
        {"features": ["age", "creatinine", "ward"], "rows": linear({"creatinine": [900, 3], "age": [5, 600]})},
        {
            "features": [{"polynomial": ["age", 2]}],
            "rows": linear({"polynomial(age, 2)[2]": [900], "(constant)": [400]}),
        },
    ],
)
def test_sums_are_those_of_the_slow_program(world: World, changes: dict[str, Any]) -> None:
    request = body(**(ASKED | {"rows": linear(MATRIX)} | changes))
    dataset, kernel = find(world), make_kernel(world, request)
    rows = [dict(row) for row in rows_of(read_columns(world.curator.datasets.storage, dataset))]
    found = world.curator.datasets.storage.sum_rows(dataset.folder, dataset.manifest, kernel)
    assert found.ravel().tolist() == sum_slowly(kernel, rows)
    count = len(kernel.design.terms)
    assert np.trace(found[:count, :count]) <= len(rows) * UNIT**2


def test_an_answer_states_combinations_and_what_they_are_of(world: World) -> None:
    api = world.api()
    answered = api.post(RELEASES, json=body(**ASKED, rows=linear(MATRIX)), key="one")
    assert answered.status_code == 201
    answer = answered.json()
    assert [term["name"] for term in answer["terms"]] == ["combination[1]", "combination[2]"]
    assert [term["name"] for term in answer["combined"]] == ["(constant)", "age", "sex[M]", "sex[X]"]
    assert len(answer["statistics"]["xtx"]["values"]) == 3
    assert len(answer["statistics"]["xty"]["values"]) == 2
    quote = api.post(QUOTES, json=body(**ASKED, rows=linear(MATRIX))).json()
    assert quote["pass_over_rows"] is True
    # Noise is that of a ball of norm 1, whatever the weights.
    ball = api.post(QUOTES, json=body(**ASKED, rows={"map": "ball", "norm": 1})).json()
    assert quote["noise"] == ball["noise"] == answer["noise"]
    assert world.discrepancies() == []


def test_equal_weights_are_one_request(world: World) -> None:
    api = world.api()
    first = api.post(RELEASES, json=body(**ASKED, rows=linear(MATRIX)), key="one")
    spent = world.account().posted
    finer = {name: [4 * weight for weight in row] for name, row in reversed(MATRIX.items())} | {"sex[X]": [0, 0]}
    again = body(**(ASKED | {"features": ["sex", "age"]}), rows=linear(finer, BITS + 2))
    second = api.post(RELEASES, json=again, key="two")
    assert (second.status_code, second.json()["id"]) == (200, first.json()["id"])
    # A part of what it holds is cut out of it.
    less = ASKED | {"statistics": ["xty"], "price": {"mu": 0.001}}
    part = api.post(RELEASES, json=body(**less, rows=linear(MATRIX)), key="part")
    assert part.json()["derived_from"] == first.json()["id"]
    assert world.account().posted == spent
    others = [
        {"rows": linear(MATRIX | {"age": [90, 2001]})},
        {"rows": linear(MATRIX, BITS + 1)},
        {"rows": {"map": "ball", "norm": 1.0}},
        {"features": ["age"], "rows": linear({name: MATRIX[name] for name in ("(constant)", "age")})},
        {"features": ["age", "sex", "smoker"], "rows": linear(MATRIX)},
    ]
    ids = {api.post(RELEASES, json=body(**(ASKED | other)), key=f"k{i}").json()["id"] for i, other in enumerate(others)}
    assert len(ids | {first.json()["id"]}) == 6
    assert world.discrepancies() == []


@pytest.mark.parametrize(
    ("changes", "pointer", "rule"),
    [
        ({"rows": linear({"weight": [1]})}, "/rows/matrix/weight", "they make (constant), age, sex[M], sex[X]"),
        ({"rows": linear({"age": [1, 2], "sex[M]": [1]})}, "/rows/matrix/sex[M]", "1 numbers, where"),
        ({"rows": linear({"age": [1, 0], "sex[M]": [1, 0]})}, "/rows/matrix", "combination 2 are all 0"),
        ({"rows": linear({"age": [2**35], "sex[M]": [1]})}, "/rows/matrix", "at most 2^35"),
        ({"rows": linear({"age": [2**35 + 1]})}, "/rows/matrix/age/0", "less than or equal"),
        ({"rows": linear({"age": [1.5]})}, "/rows/matrix/age/0", "integer"),
        ({"rows": linear({})}, "/rows/matrix", "at least 1"),
        ({"rows": linear({"age": []})}, "/rows/matrix/age", "at least 1"),
        ({"rows": linear(MATRIX, 31)}, "/rows/bits", "less than or equal to 30"),
        ({"rows": {"map": "linear", "matrix": MATRIX}}, "/rows/bits", "required"),
        ({"rows": linear({"tree": ["x"]})}, "/rows/matrix/tree/0", "integer"),
        ({"rows": {"norm": 1.0}}, "/rows/map", "one of"),
        ({"rows": {"map": ["box"]}}, "/rows/map", "one of"),
        ({"rows": 5}, "/rows", "object"),
        ({"rows": linear(MATRIX) | {"norm": 2}}, "/rows/norm", "not"),
        ({"rows": linear(MATRIX), "expected_rows": 100}, "", "leave out"),
    ],
)
def test_what_means_nothing_is_refused_at_its_place(
    world: World, changes: dict[str, Any], pointer: str, rule: str
) -> None:
    for path in (QUOTES, RELEASES):
        refused = problem(world.api().post(path, json=body(**(ASKED | changes)), key="key"), "request-invalid", 422)
        found = [(error["pointer"], error["detail"]) for error in refused["errors"]]
        assert any(at.startswith(pointer) and rule in detail for at, detail in found), found
    assert world.account().posted == 0
