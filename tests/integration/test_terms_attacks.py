"""Attacks on requests with expressions, conditions and weights: on the server, the account, and what is verified."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import World, ZeroNoise, body, cost_of, open_world, problem

from curator_service.kinds.registry import KINDS
from curator_service.privacy.accountant import Price
from curator_service.privacy.lattice import UNIT
from curator_service.releases import publisher

QUOTES, RELEASES = "/v1/datasets/cohort/quotes", "/v1/datasets/cohort/releases"
BOX = {"rows": {"map": "box"}, "price": {"mu": 0.01}}
YOUNG = {"less": ["age", 70]}
WEIGHT = {"divide": ["age", 100]}
LEVELS = [i * 6 / 1001 for i in range(1, 990)]


def cut(column: str, times: int = 1) -> Any:
    return {"cut": [{"multiply": [times, column]}, [times * point for point in LEVELS]]}


def nested(depth: int) -> Any:
    value: Any = "kappa"
    for _ in range(depth):
        value = {"absolute": [{"subtract": ["age", value]}]}
    return value


def folded(column: str, depth: int) -> Any:
    """Return an expression of a long name."""
    value: Any = column
    for i in range(depth):
        value = {"absolute": [{"subtract": [value, 50.123456789 + i]}]}
    return value


def lists(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


FUNCTIONS = [{"spline": [{"multiply": [i, "kappa"]}, [i * k / 9 for k in range(1, 50)]]} for i in (1, 2, 3)]
HOSTILE: dict[str, dict[str, Any]] = {
    "a power beyond floats": {"features": [{"power": [{"add": ["age", 1e99]}, 9]}]},
    "a product beyond floats": {
        "where": {"less": [{"multiply": [*({"add": ["age", i * 1e99]} for i in range(1, 6)), {"sqrt": ["kappa"]}]}, 3]}
    },
    "an infinity": {"features": [{"add": ["age", 10**400]}]},
    "half a character": {"features": [{"\ud800": ["age"]}]},
    "half a character as a column": {"features": ["\ud800"]},
    "half a character deep inside": {"where": {"and": [{"less": ["age", {"\udfff": []}]}, "frail"]}},
    "half a character as a member": {"\udc00/~": 1},
    "a long word": {"features": [{"x" * 60_000: ["age"]}]},
    "a long name": {"features": ["x" * 60_000]},
    "what its canonical form cannot hold": {"features": [nested(14)]},
    "lists in lists": {"features": [{"add": [["age"] * 3, 1]}]},
    "a deep list": {"features": [{"add": [lists(90), 1]}]},
    "a million terms": {"features": [{"interaction": [cut("kappa"), cut("lambda")]}], "targets": ["age"]},
    "a thousand million": {"features": [{"interaction": [cut("kappa", i) for i in (1, 2, 3)]}], "targets": ["age"]},
    "names of many megabytes": {"features": [cut("kappa")], "targets": ["age"]},
    "knots that are one": {"features": [{"natural_spline": ["kappa", [1e-50, 2e-50]]}], "targets": ["age"]},
    "many functions": {"features": FUNCTIONS, "targets": ["age"]},
    "truth as a number": {"features": [{"add": ["age", True]}]},
    "a whole number as a level": {"features": [{"in": ["sex", [0]]}]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_request_is_refused_shortly_and_charges_nothing(world: World, name: str) -> None:
    text = json.dumps(body(**(BOX | HOSTILE[name]))).encode()
    for address, more in ((QUOTES, {}), (RELEASES, {"key": "key"})):
        answer = world.api().post(address, content=text, headers={"content-type": "application/json"}, **more)
        problem(answer, "request-invalid", 422)
        assert len(answer.content) < 5_000
    assert [entry["kind"] for entry in world.entries() if entry["kind"] in {"charge", "hold"}] == []


def test_a_place_is_a_json_pointer(world: World) -> None:
    refused = problem(world.api().post(QUOTES, json=body(features=[{"a/b~c": []}])), "request-invalid", 422)
    assert refused["errors"][0]["pointer"] == "/features/0/a~1b~0c"


@pytest.mark.parametrize("number", [10**20, 2**53, -(10**99), 2**53 + 1])
def test_a_whole_number_of_any_size_is_a_number(world: World, number: int) -> None:
    asked = [body(where={"less": ["age", value]}, **BOX) for value in (number, float(number))]
    first, second = (world.api().post(RELEASES, json=one, key=f"key-{i}") for i, one in enumerate(asked))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert world.discrepancies() == []


POINTS = [60 + i / 7 for i in range(20)]
LONG = [folded(column, 12) for column in ("age", "creatinine")]
LIGHT = {"minimum": [1, {"absolute": [{"multiply": [0.001, LONG[0]]}]}]}
LENGTHY: dict[str, dict[str, Any]] = {
    "a cut": body(features=[{"cut": ["age", POINTS]}], **BOX),
    "a spline": body(features=[{"spline": ["age", POINTS]}], **BOX),
    "an interaction": body(features=[{"interaction": ["smoker", {"cut": ["age", POINTS]}]}], **BOX),
    "features": body(features=LONG, **BOX),
    "targets": body(features=["sex"], targets=LONG, **BOX),
    "a condition and a weight": body(features=["sex"], where={"less": [LONG[0], 3]}, weight=LIGHT, **BOX),
    "combinations": body(features=LONG, rows={"map": "linear"}, price={"mu": 0.01}),
    "a score": {"kind": "score", "features": LONG, "target": "kappa", "loss": "linear", "price": {"mu": 0.01}},
    "tables": {
        "kind": "counts",
        "tables": [{"axes": [{"column": {"less": [one, 3]}}]} for one in LONG],
        "price": {"mu": 0.01},
    },
    "columns": {
        "kind": "marginals",
        "marginals": [{"type": "moments", "columns": LONG}],
        "price": {"mu": 0.01},
    },
}


@pytest.mark.parametrize("name", LENGTHY)
def test_long_names_are_counted_as_space(world: World, name: str) -> None:
    api, asked = world.api(), LENGTHY[name]
    if name in {"combinations", "a score"}:  # weights are posted by the names of terms
        terms = api.post(QUOTES, json=LENGTHY["features"]).json()["terms"]
        weights = {"bits": 1, "matrix": {term["name"]: [1, 2, 1] for term in terms}}
        place = {"rows": {"map": "linear", **weights}} if name == "combinations" else {"directions": weights}
        point = {"bits": 1, "weights": {term["name"]: 1 for term in terms}}
        asked = asked | place | ({"coefficients": point} if name == "a score" else {})
    answer = api.post(RELEASES, json=asked, key="key")
    assert answer.status_code == 201
    counted = api.post(QUOTES, json=asked).json()["answer_bytes"]
    assert len(answer.content) < counted < 1.25 * len(answer.content)


SELECTIONS: list[dict[str, Any]] = [
    {},
    {"where": YOUNG},
    {"where": {"less_equal": ["age", 70]}},
    {"where": {"not": [YOUNG]}},
    {"where": {"less": ["kappa", 70]}},
    {"where": {"missing": ["creatinine"]}},
    {"where": "frail"},
    {"where": {"not": ["frail"]}},
    {"weight": WEIGHT},
    {"weight": {"divide": ["age", 101]}},
    {"weight": {"multiply": [WEIGHT, WEIGHT]}},
    {"weight": WEIGHT, "where": YOUNG},
]


def test_selections_in_any_order_never_share_an_answer_and_cost_what_was_quoted(world: World) -> None:
    api, ids, spent = world.api(), set(), 0
    for i, more in enumerate(SELECTIONS):
        for kind, asked in (
            ("gram", body(features=["age", {"log": [{"add": ["creatinine", 1]}]}], **BOX)),
            ("counts", {"kind": "counts", "tables": [{"axes": [{"column": "sex"}]}], "price": {"mu": 0.01}}),
            (
                "marginals",
                {
                    "kind": "marginals",
                    "marginals": [{"type": "moments", "columns": ["age"]}],
                    "price": {"mu": 0.01},
                },
            ),
        ):
            cost = cost_of(world, asked | more)
            answer = api.post(RELEASES, json=asked | more, key=f"{kind}-{i}")
            assert (answer.status_code, answer.headers["curator-answer"]) == (201, "new")
            spent += cost
            assert world.account().posted == spent
            ids.add(answer.json()["id"])
    assert len(ids) == 3 * len(SELECTIONS)
    assert world.discrepancies() == []


POOL: list[Any] = [
    "age",
    "sex",
    "weight",
    "kappa",
    {"log": [{"add": ["kappa", 1]}]},
    {"log": [{"add": ["kappa", 1.0000000000000002]}]},
    {"reference": ["sex", "M"]},
    {"in": ["sex", ["M"]]},
    {"polynomial": ["age", 2]},
    {"spline": ["age", [70.0], 1]},
    {"spline": ["age", [71.0], 1]},
    {"interaction": ["sex", "age"]},
    {"interaction": ["age", {"reference": ["sex", "M"]}]},
    {"missing": ["creatinine"]},
    {"maximum": ["creatinine", 1]},
]
CONDITIONS: list[dict[str, Any]] = [*SELECTIONS[:3], {"where": {"missing": ["creatinine"]}}, *SELECTIONS[8:10]]


def test_whatever_is_stored_or_cut_out_is_what_was_asked(tmp_path: Path) -> None:
    """Without noise an answer is the exact sums: each is held against a pass of its own."""
    rng, found = random.Random(4), Counter[str]()
    with open_world(tmp_path, limit=Price(mu=100.0), noise=ZeroNoise()) as world:
        api = world.api()
        kind, dataset = KINDS["gram"], world.curator.datasets.list_all()[0]
        wide: list[dict[str, Any]] = []
        for i in range(70):
            price = {"mu": 0.4 / (50 + i) if i % 3 else 0.4}
            if i % 3:  # a part of what was asked before, and now and then of other rows
                whole = rng.choice(wide[-4:])
                features = rng.sample(whole["features"], rng.randint(1, 4))
                asked = whole | {"features": features, "price": price}
                asked |= {"intercept": rng.random() < 0.7} | (rng.choice(CONDITIONS) if rng.random() < 0.3 else {})
            else:
                features = rng.sample(POOL, rng.randint(5, 9))
                rest = [one for one in ("age", "weight", "kappa") if one not in features]
                rows = {"map": "box"} if rng.random() < 0.8 else {"map": "ball", "norm": 0.9}
                asked = body(features=features, targets=rest[:2], rows=rows, price=price, **rng.choice(CONDITIONS))
                wide.append(asked)
            answer = api.post(RELEASES, json=asked, key=f"key-{i}")
            assert answer.status_code in {200, 201}, answer.text
            found[answer.headers["curator-answer"]] += 1
            request = {name: member for name, member in answer.json()["request"].items() if name != "fresh"}
            for stated in (asked, request):
                plan = kind.plan(dataset, kind.request_model.model_validate(stated)).plan
                sums = world.curator.datasets.storage.sum_rows(dataset.folder, dataset.manifest, kind.kernel(plan))
                exact = kind.exact(plan, sums).tolist()
                statistics = answer.json()["statistics"]
                values = [value * UNIT**2 for part in statistics.values() for value in part["values"]]
                # Columns of a stored answer stand in its own, canonical order, and so do those of the plan.
                assert list(map(round, values)) == exact
        assert world.discrepancies() == []
    assert min(found["new"], found["derived"]) >= 10


AXES: list[dict[str, Any]] = [
    {"column": "sex"},
    {"column": {"reference": ["sex", "X"]}},
    {"column": {"in": ["sex", ["M"]]}},
    {"column": {"cut": ["age", [60, 75]]}},
    {"column": {"cut": ["age", [60]]}},
    {"column": {"less": ["creatinine", 1]}, "missing": True},
    {"column": {"less": ["creatinine", 1]}},
    {"column": {"multiply": ["kappa", 2]}, "edges": [0, 3, 6, 12]},
    {"column": {"multiply": ["kappa", 2]}, "edges": [0, 6, 12]},
    {"column": {"multiply": ["kappa", 2]}, "edges": [3, 6]},
    {"column": {"missing": ["lambda"]}},
]


def test_whatever_tables_are_stored_or_summed_are_what_was_asked(tmp_path: Path) -> None:
    rng, found = random.Random(2), Counter[str]()
    with open_world(tmp_path, limit=Price(mu=100.0), noise=ZeroNoise()) as world:
        kind, dataset = KINDS["counts"], world.curator.datasets.list_all()[0]
        for i in range(80):
            axes = rng.sample(AXES, 3 - i % 3)
            if len({json.dumps(axis["column"]) for axis in axes}) < len(axes):
                continue
            asked = {"kind": "counts", "tables": [{"axes": axes}], "price": {"mu": 0.4 if i % 3 == 0 else 0.01}}
            asked |= rng.choice([{}, {"where": YOUNG}, {"weight": WEIGHT}])
            answer = world.api().post(RELEASES, json=asked, key=f"key-{i}")
            assert answer.status_code in {200, 201}, answer.text
            found[answer.headers["curator-answer"]] += 1
            plan = kind.plan(dataset, kind.request_model.model_validate(asked)).plan
            exact = world.curator.datasets.storage.sum_rows(dataset.folder, dataset.manifest, kind.kernel(plan))
            values = answer.json()["statistics"]["table_0"]["values"]
            assert [round(value * UNIT**2) for value in values] == exact.tolist()
        assert world.discrepancies() == []
    assert min(found["new"], found["derived"]) >= 5


def _drop(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda request: request.pop(name)


def _put(**members: Any) -> Callable[[dict[str, Any]], object]:
    return lambda request: request.update(members)


@pytest.mark.parametrize(
    "change",
    [
        _drop("where"),
        _drop("weight"),
        _put(where={"less_equal": ["age", 70.0]}),
        _put(where={"less": ["age", 70.00000000000001]}),
        _put(weight={"divide": ["age", 101.0]}),
        _put(features=["age", {"log": [{"add": ["creatinine", 2.0]}]}]),
        _put(features=["age", {"sqrt": [{"add": ["creatinine", 1.0]}]}]),
        _put(where=None),
        _put(where={"nonsense": ["age"]}),
    ],
)  # fmt: skip
def test_an_answer_that_states_another_expression_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], object]
) -> None:
    honest = publisher.render_answer

    def forged(*arguments: Any, **more: Any) -> str:
        answer = json.loads(honest(*arguments, **more))
        change(answer["request"])
        return json.dumps(answer, separators=(",", ":"))

    monkeypatch.setattr(publisher, "render_answer", forged)
    asked = body(features=["age", {"log": [{"add": ["creatinine", 1]}]}], where=YOUNG, weight=WEIGHT, **BOX)
    assert world.api().post(RELEASES, json=asked, key="key").status_code == 201
    assert len(world.discrepancies()) == 1
