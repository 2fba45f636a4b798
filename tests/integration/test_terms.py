"""Expressions, bases, conditions and weights in requests: exact sums of a slow program, charged once, verified."""

from typing import Any

import pytest
from rows_on_disk import read_columns
from sums_slowly import rows_of, sum_slowly
from support import World, body, problem

from curator_service.kinds.registry import KINDS
from curator_service.privacy.lattice import UNIT

QUOTES, RELEASES = "/v1/datasets/cohort/quotes", "/v1/datasets/cohort/releases"
BOX = {"rows": {"map": "box"}, "price": {"mu": 0.01}}
LOG = {"log": [{"add": ["creatinine", 1]}]}
YOUNG = {"less": ["age", 70]}
WEIGHT = {"divide": ["age", 100]}


@pytest.fixture
def rows(world: World) -> list[dict[str, int]]:
    """Return the stored rows of the cohort."""
    return [dict(row) for row in rows_of(read_columns(world.curator.datasets.storage, find(world)))]


def find(world: World) -> Any:
    return next(found for found in world.curator.datasets.list_all() if found.name == "cohort")


def make_kernel(world: World, request: dict[str, Any]) -> Any:
    kind = KINDS[request["kind"]]
    return kind.kernel(kind.plan(find(world), kind.request_model.model_validate(request)).plan)


def sums(world: World, request: dict[str, Any]) -> Any:
    """Return the exact sums of a request, from a pass over rows."""
    dataset = find(world)
    return world.curator.datasets.storage.sum_rows(dataset.folder, dataset.manifest, make_kernel(world, request))


REQUESTS = [
    {"features": ["age", LOG]},
    {"features": [LOG, {"interaction": ["sex", "age"]}, {"interaction": ["region", "height"]}], "targets": ["dose"]},
    {"features": ["age", {"cut": ["weight", [70, 100]]}], "where": YOUNG},
    {"features": ["smoker", {"power": ["height", 2]}], "where": {"in": ["stage", ["I", "III"]]}, "weight": WEIGHT},
    {"features": ["age", {"reference": ["sex", "M"]}], "targets": [{"sqrt": ["kappa"]}], "weight": WEIGHT},
    {"features": [{"missing": ["lambda"]}, {"maximum": ["kappa", 2]}], "intercept": False},
    {"features": [{"polynomial": ["age", 3]}, {"interaction": ["sex", {"spline": ["kappa", [1, 2.5]]}]}]},
    {"features": [{"natural_spline": ["age", [60, 75, 90]]}], "where": YOUNG, "rows": {"map": "ball", "norm": 1.1}},
    {"features": ["age", "ward"], "weight": WEIGHT, "rows": {"map": "unit_xy"}},
]


@pytest.mark.parametrize("asked", REQUESTS)
def test_sums_are_those_of_the_slow_program(world: World, rows: list[dict[str, int]], asked: dict[str, Any]) -> None:
    request = body(**(BOX | asked))
    assert sums(world, request).ravel().tolist() == sum_slowly(make_kernel(world, request), rows)


def test_a_condition_and_its_opposite_divide_the_rows(world: World) -> None:
    whole = sums(world, body(features=["age", LOG], **BOX))
    parts = [sums(world, body(features=["age", LOG], where=where, **BOX)) for where in (YOUNG, {"not": [YOUNG]})]
    assert (parts[0] + parts[1] == whole).all()
    assert parts[0].any()
    assert parts[1].any()


def test_no_cached_sum_serves_a_condition_a_weight_or_what_is_computed(world: World) -> None:
    api = world.api()
    for asked in ({}, {"where": YOUNG}, {"weight": WEIGHT}, {"features": [{"polynomial": ["age", 2]}]}):
        quote = api.post(QUOTES, json=body(**(BOX | {"features": ["age"]} | asked))).json()
        assert quote["pass_over_rows"] is bool(asked)


def test_counts_are_of_the_rows_that_are_selected(world: World, rows: list[dict[str, int]]) -> None:
    tables = [{"axes": [{"column": {"cut": ["age", [60, 75]]}}, {"column": "sex"}]}]
    request = {"kind": "counts", "tables": tables, "price": {"mu": 0.01}, "where": {"in": ["region", ["north"]]}}
    found = sums(world, request)
    assert found.tolist() == sum_slowly(make_kernel(world, request), rows)
    weighted = sums(world, request | {"weight": WEIGHT})
    assert weighted.tolist() == sum_slowly(make_kernel(world, request | {"weight": WEIGHT}), rows)
    assert (weighted <= found).all()
    assert (weighted >= found // UNIT**2 * (UNIT**2 // 2)).all()  # nobody is younger than 50


def test_what_means_the_same_is_charged_once(world: World) -> None:
    api = world.api()
    asked = body(features=["age", {"interaction": ["sex", "age"]}, LOG], where={"greater": [70, "age"]}, **BOX)
    again = body(
        features=[{"log": [{"add": [1, "creatinine"]}]}, {"interaction": ["age", "sex"]}, "age"], where=YOUNG, **BOX
    )
    first = api.post(RELEASES, json=asked, key="one")
    assert first.status_code == 201
    spent = world.account().posted
    second = api.post(RELEASES, json=again, key="two")
    assert (second.status_code, second.json()["id"]) == (200, first.json()["id"])
    assert world.account().posted == spent
    part = api.post(RELEASES, json=body(features=[LOG], where=YOUNG, **(BOX | {"price": {"mu": 0.005}})), key="part")
    assert part.json()["derived_from"] == first.json()["id"]
    other = api.post(RELEASES, json=body(features=["age"], where=YOUNG, **BOX), key="other")
    assert "derived_from" not in other.json()  # it counts rows that miss creatinine too
    assert world.discrepancies() == []


def test_other_rows_and_other_weights_are_other_requests(world: World) -> None:
    api = world.api()
    asked = body(features=["age"], **BOX)
    ids = [
        api.post(RELEASES, json=asked | more, key=f"key-{i}").json()["id"]
        for i, more in enumerate(({}, {"where": YOUNG}, {"where": {"not": [YOUNG]}}, {"weight": WEIGHT}))
    ]
    assert len(set(ids)) == 4
    assert len([entry for entry in world.entries() if entry["kind"] == "charge"]) == 4
    assert world.discrepancies() == []


@pytest.mark.parametrize(
    ("asked", "pointer", "rule"),
    [
        ({"features": [{"log": ["creatinine"]}]}, "/features/0/log", "above 0"),
        ({"features": [{"interaction": ["age", {"log": ["kappa"]}]}]}, "/features/0/interaction/1/log", "above 0"),
        ({"features": [{"interaction": ["age", "age"]}]}, "/features/0/interaction", "stands in it once"),
        ({"features": [{"spline": ["sex", [1]]}]}, "/features/0/spline/0", "of a number"),
        ({"features": [{"polynomial": ["age", 99]}]}, "/features/0/polynomial/1", "degree"),
        ({"features": ["age"], "targets": [{"cut": ["kappa", [1]]}]}, "/targets/0", "cannot be a target"),
        ({"features": ["age"], "where": "age"}, "/where", "a condition"),
        ({"features": ["age"], "weight": "age"}, "/weight", "between 0 and 1"),
        ({"features": ["age", {"add": ["age", 0]}]}, "/features/1", "named twice"),
        (
            {
                "features": [
                    {"spline": ["age", list(range(51, 100)), 1]},
                    {"spline": ["weight", list(range(41, 91)), 5]},
                    {"spline": ["height", list(range(141, 191)), 5]},
                ]
            },
            "/features",
            "at most 128",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(world: World, asked: dict[str, Any], pointer: str, rule: str) -> None:
    refused = problem(world.api().post(RELEASES, json=body(**(BOX | asked)), key="key"), "request-invalid", 422)
    assert refused["errors"][0]["pointer"] == pointer
    assert rule in refused["errors"][0]["detail"]
    assert [entry["kind"] for entry in world.entries() if entry["kind"] == "charge"] == []
