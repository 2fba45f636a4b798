"""Attacks on scores, rows of combinations and marginals through the whole service."""

import copy
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import Api, Price, World, ZeroNoise, open_world, problem

from curator_service.kinds.gram import plan as planning
from curator_service.kinds.gram import sensitivity as gram_bounds
from curator_service.kinds.marginals import kind as marginals_kind
from curator_service.kinds.registry import KINDS
from curator_service.kinds.score import kind as score_kind
from curator_service.privacy.adjacency import Adjacency
from curator_service.releases import acts
from curator_service.releases.response_time import pass_duration_s

QUOTES, RELEASES = "/v1/datasets/cohort/quotes", "/v1/datasets/cohort/releases"
JSON = {"Content-Type": "application/json"}
SCORE: dict[str, Any] = {
    "kind": "score",
    "features": ["age", "sex", "creatinine"],
    "target": "dose",
    "loss": "linear",
    "coefficients": {"bits": 9, "weights": {"(constant)": 100, "age": -300, "sex[M]": 7}},
    "directions": {"bits": 9, "matrix": {"(constant)": [900, -300], "age": [90, 2000], "sex[X]": [0, -512]}},
    "statistics": ["score", "norms", "meat"],
    "shares": {"score": 0.5, "norms": 0.25, "meat": 0.25},
    "where": {"less": ["age", 70]},
    "weight": {"divide": ["age", 100]},
    "price": {"mu": 0.001},
}
LINEAR: dict[str, Any] = {
    "kind": "gram",
    "features": ["age", "sex"],
    "targets": ["dose", "kappa"],
    "rows": {"map": "linear", "bits": 10, "matrix": {"(constant)": [700, -300], "age": [90, 2000]}},
    "statistics": ["xtx", "xty", "yty", "lambda_min"],
    "where": {"less": ["age", 70]},
    "price": {"mu": 0.001},
}
MARGINALS: dict[str, Any] = {
    "kind": "marginals",
    "marginals": [
        {"type": "tree", "columns": ["age", "kappa"], "levels": 4},
        {"type": "moments", "columns": ["lambda", {"log": [{"add": ["kappa", 1]}]}]},
    ],
    "shares": [0.5, 0.5],
    "weight": {"divide": ["age", 100]},
    "price": {"mu": 0.001},
}
JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**35, 2**35 + 1, -(2**35), 2**53, 2**64, 10**30, 1e300, 1.0, -0.0, "", "age",
    "(constant)", "\ud800", "\x00", "a" * 3000, "é" * 2000, [], {}, [[]], [1], [True], ["age"], {"age": 1}, {"": [1]},
    {"\ud800": [1]}, {"\x00" * 2000: [1]}, {"age": [2**35]}, {"(constant)": [0]}, {"multiply": ["kappa", 1e99]},
    {"exp": ["kappa"]}, {"interaction": ["age", "sex"]}, {"polynomial": ["age", 3]}, {"missing": ["dose"]},
    {"less": ["kappa", 3]}, "linear", "logistic", "poisson", "meat", "laplace", {"epsilon": 0.01}, "alive", "region",
    "kappa", 30, 31,
]  # fmt: skip


def places_of(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places_of(one, (*place, name))


def mutate(request: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Put something else into a place of a request or two, leave it out, or add a member beside it."""
    changed = copy.deepcopy(request)
    for _ in range(draw.choice([1, 1, 1, 2])):
        *inner, last = draw.choice([place for place in places_of(changed) if place[0] not in {"kind", "price"}])
        around = changed
        for name in inner:
            around = around[name]
        junk, act = copy.deepcopy(draw.choice(JUNK)), draw.random()
        if act < 0.2:
            del around[last]
        elif act < 0.35 and isinstance(around, dict):
            around[draw.choice(["sex[F]", "nope", "\ud800", "x" * 2001, "rows", "target", "targets", "bins"])] = junk
        elif act < 0.35:
            around.append(junk)
        else:
            around[last] = junk
    return changed


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Api]]:
    folder = tmp_path_factory.mktemp("attacked")
    with open_world(folder, limit=Price(mu=100.0), noise=ZeroNoise()) as world:
        yield world, world.api()


@pytest.mark.parametrize("seed", range(6))
def test_a_mutated_body_is_answered_or_refused_in_short_and_pays_for_answers_alone(
    attacked: tuple[World, Api], seed: int
) -> None:
    world, api = attacked
    draw = random.Random(seed)
    for i in range(60):
        text = json.dumps(mutate(draw.choice([SCORE, LINEAR, MARGINALS]), draw)).encode()
        before = world.account().posted
        quote = api.post(QUOTES, content=text, headers=JSON)
        answer = api.post(RELEASES, content=text, headers=JSON, key=f"{seed}-{i}")
        assert (quote.status_code, answer.status_code) in {(200, 201), (200, 200), (422, 422)}, text
        if answer.status_code == 422:
            assert len(answer.content) < 8000
        if answer.status_code != 201:
            assert world.account().posted == before
            continue
        stored = answer.json()
        assert quote.json()["noise"] == stored["noise"]
        if not stored["request"]["fresh"]:  # what an answer states, sent again, is that answer
            again = api.post(RELEASES, json=stored["request"], key=f"again-{seed}-{i}")
            assert (again.status_code, again.json()["id"]) == (200, stored["id"])
    assert world.account().pending == 0
    assert world.discrepancies() == []


def test_names_that_are_no_terms_are_refused_whatever_their_weight_and_not_sent_back_at_length(
    attacked: tuple[World, Api],
) -> None:
    _, api = attacked
    for name in ("nope", "\x00" * 2000, "\U0001f600" * 2000):
        for change, place in (
            ({"coefficients": {"bits": 0, "weights": {name: 0}}}, "/coefficients/weights/"),
            ({"coefficients": {"bits": 0, "weights": {name: 1}}}, "/coefficients/weights/"),
            ({"directions": {"bits": 0, "matrix": {"age": [1], name: [0]}}}, "/directions/matrix/"),
        ):
            refused = api.post(QUOTES, json=SCORE | change)
            (error,) = problem(refused, "request-invalid", 422)["errors"]
            assert error["pointer"].startswith(place)
            assert "make no term" in error["detail"]
            assert len(refused.content) < 3000


SUMS = {
    "score": SCORE
    | {"features": ["age"], "weight": None, "where": None, "target": "kappa"}
    | {"coefficients": {"bits": 9, "weights": {"age": 5}}, "directions": {"bits": 9, "matrix": {"age": [300, 5]}}},
    "combined rows": LINEAR
    | {"features": ["age"], "where": None}
    | {"rows": {"map": "linear", "bits": 9, "matrix": {"age": [300, 5]}}},
}
OTHER_SUMS: dict[str, list[dict[str, Any]]] = {
    "score": [
        {"loss": "poisson"},
        {"target": "alive"},
        {"target": "alive", "loss": "logistic"},
        {"intercept": False},
        {"features": ["age", "creatinine"]},  # rows without it do not count, whatever its weights
        {"where": {"less": ["age", 70]}},
        {"weight": {"divide": ["age", 100]}},
        {"coefficients": {"bits": 8, "weights": {"age": 5}}},
        {"directions": {"bits": 9, "matrix": {"age": [5, 300]}}},
    ],
    "combined rows": [
        {"targets": ["dose", "lambda"]},
        {"intercept": False},
        {"features": ["age", "creatinine"]},
        {"where": {"less": ["age", 70]}},
        {"weight": {"divide": ["age", 100]}},
        {"rows": {"map": "linear", "bits": 9, "matrix": {"age": [5, 300]}}},
    ],
}


@pytest.mark.parametrize("what", list(SUMS))
def test_no_stored_answer_is_served_where_one_member_of_a_request_is_another(world: World, what: str) -> None:
    api = world.api()
    requests = [SUMS[what], *(SUMS[what] | other for other in OTHER_SUMS[what])]
    answers = [api.post(RELEASES, json=request, key=f"k{i}") for i, request in enumerate(requests)]
    assert {(answer.status_code, answer.headers["Curator-Answer"]) for answer in answers} == {(201, "new")}
    assert world.discrepancies() == []


HALVED: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "score": (score_kind, "score_l2_squared", SCORE),
    "score, laplace": (score_kind, "score_l1", SCORE | {"mechanism": "laplace", "price": {"epsilon": 0.01}}),
    "marginals": (marginals_kind, "marginal_l2_squared", MARGINALS),
    "marginals, laplace": (
        marginals_kind,
        "marginal_l1",
        MARGINALS | {"mechanism": "laplace", "price": {"epsilon": 0.01}},
    ),
    "combined rows": (gram_bounds, "xtx_norm_l2_squared", LINEAR),
    "combined rows, laplace": (
        gram_bounds,
        "xty_l1",
        LINEAR | {"mechanism": "laplace", "price": {"epsilon": 0.01}},
    ),
}


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("what", list(HALVED))
def test_a_charge_for_half_of_its_sensitivity_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, adjacency: Adjacency
) -> None:
    place, name, request = HALVED[what]
    true = getattr(place, name)

    def forget() -> None:
        planning._plan.cache_clear()
        acts._prepare_again.cache_clear()

    with open_world(tmp_path, adjacency=adjacency) as world:
        right = request | {"fresh": True}
        assert world.api().post(RELEASES, json=right, key="right").status_code == 201
        assert world.discrepancies() == []
        monkeypatch.setattr(place, name, lambda *given, **more: true(*given, **more) / 2)
        forget()
        assert world.api().post(RELEASES, json=right, key="wrong").status_code == 201
        monkeypatch.setattr(place, name, true)
        forget()
        assert world.curator.ledger.verify("town").ok
        assert world.discrepancies() == [f"the sensitivities of sequence {world.entries()[-1]['sequence']}"]


WIDEST = sys.float_info.max


@pytest.mark.parametrize(
    ("bounds", "is_asked"),
    [
        ((4.8 * 2.0**970, WIDEST), False),  # centre and half range, each rounded, add up to more than a float holds
        ((0.0, 1e101), False),
        ((0.0, 1e-101), False),
        ((0.0, 1e100), True),
        ((0.0, 1e-99), True),
    ],
)
def test_counts_of_bounds_that_floats_cannot_scale_are_refused(
    tmp_path: Path, bounds: tuple[float, float], is_asked: bool
) -> None:
    columns = [("x", "numeric", "complete", (0.0, 1.0), None), ("y", "numeric", "complete", bounds, None)]
    rows = [{"x": "1", "y": repr(bounds[i % 2])} for i in range(20)]
    request = {
        "kind": "score",
        "features": ["x"],
        "target": "y",
        "loss": "poisson",
        "coefficients": {"bits": 0, "weights": {}},
        "directions": {"bits": 0, "matrix": {"x": [1], "(constant)": [1]}},
        "price": {"mu": 0.01},
    }
    with open_world(tmp_path, noise=ZeroNoise()) as world:
        world.grant("ada", world.register("odd", "town", rows, columns=columns))
        answer = world.api().post("/v1/datasets/odd/releases", json=request, key="k")
        if not is_asked:
            assert problem(answer, "request-invalid", 422)["errors"][0]["pointer"] == "/target"
            assert world.account().posted == 0
            return
        assert answer.status_code == 201
        assert abs(answer.json()["statistics"]["score"]["values"][0]) <= len(rows)


def test_a_thousand_directions_of_few_rows_end_within_their_public_time(tmp_path: Path) -> None:
    """What a pass adds for its numbers is the same for ten rows as for a thousand: it has a time of its own."""
    columns = [("age", "numeric", "complete", (50.0, 100.0), None)]
    directions = {"bits": 0, "matrix": {"(constant)": [1] * 1000}}
    nothing = {"bits": 0, "weights": {}}
    common = {"features": ["age"], "price": {"mu": 0.01}}
    requests: list[dict[str, Any]] = [
        {"kind": "score", "target": {"power": ["age", 2]}, "loss": "linear", "coefficients": nothing}
        | {"directions": directions, "statistics": ["meat"]},
        {"kind": "gram", "rows": {"map": "linear", **directions}},
    ]
    with open_world(tmp_path) as world:
        world.register("few", "town", [{"age": "60"}] * 8, columns=columns, row_capacity=10)
        dataset = next(found for found in world.curator.datasets.list_all() if found.name == "few")
        for request in requests:
            kind = KINDS[request["kind"]]
            plan = kind.plan(dataset, kind.request_model.model_validate(request | common)).plan
            kernel = kind.kernel(plan)
            taken = []
            for _ in range(4):
                start = time.thread_time()
                kind.exact(plan, world.curator.datasets.storage.sum_rows(dataset.folder, dataset.manifest, kernel))
                taken.append(time.thread_time() - start)
            assert min(taken) * 2 < pass_duration_s(kernel, 10) + kind.exact_s(plan)
