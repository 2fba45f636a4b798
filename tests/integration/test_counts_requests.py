"""Requests of counts over HTTP: what is refused names its place, nobody pays twice, and one job is worked on once."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scenes import ASYNC, QUOTES, RELEASES, Gate, assert_sound, await_job, box, kinds, open_reservations
from support import Api, World, open_world, problem
from test_stored_release_audit import change

from curator_service.kinds.counts import kind as counts_kind
from curator_service.releases.response_time import ResponseTimer

SEX, ALIVE, SMOKER = ({"column": name} for name in ("sex", "alive", "smoker"))


def table(*axes: dict[str, Any]) -> dict[str, Any]:
    return {"axes": list(axes)}


def counts(*tables: dict[str, Any], **changes: Any) -> dict[str, Any]:
    request = {"kind": "counts", "tables": list(tables), "price": {"mu": 0.05}, **changes}
    return {name: value for name, value in request.items() if value is not ...}


def age(**bins: Any) -> dict[str, Any]:
    return table({"column": "age", **bins})


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "too many cells": (
        counts(table({"column": "age", "bins": 100}, {"column": "kappa", "bins": 100}, {"column": "dose", "bins": 11})),
        "/tables/0",
        "110000 cells; at most 100000",
    ),
    "too many cells together": (
        counts(
            table({"column": "age", "bins": 100}, {"column": "kappa", "bins": 100}, {"column": "dose", "bins": 9}),
            table(SEX),
            table({"column": "age", "bins": 100}, {"column": "dose", "bins": 100}),
        ),
        "/tables/2",
        "100003 cells",
    ),
    "too many edges together": (
        counts(age(bins=6000), table(SEX), table({"column": "dose", "bins": 5000})),
        "/tables/2/axes/0",
        "11002 edges; at most 10000",
    ),
    "a column twice": (counts(table(SEX, SEX)), "/tables/0/axes/1/column", "named twice"),
    "four axes": (counts(table(SEX, ALIVE, SMOKER, {"column": "ward"})), "/tables/0/axes", "at most 3"),
    "no axis": (counts(table()), "/tables/0/axes", "at least 1"),
    "no table": (counts(), "/tables", "at least 1"),
    "a table twice": (counts(table(SEX, ALIVE), table(ALIVE, SEX)), "/tables/1", "asked for twice"),
    "a table twice, as bins and as edges": (counts(age(bins=2), age(edges=[50, 75, 100])), "/tables/1", "twice"),
    "a table twice, from zero and from minus zero": (
        counts(table({"column": "dose", "edges": [0.0, 5]}), table({"column": "dose", "edges": [-0.0, 5]})),
        "/tables/1",
        "twice",
    ),
    "no bins": (counts(age()), "/tables/0/axes/0", "either edges or bins"),
    "edges and bins": (counts(age(edges=[50, 60], bins=2)), "/tables/0/axes/0", "either edges or bins"),
    "bins of a category": (counts(table(SEX | {"bins": 2})), "/tables/0/axes/0", "leave out edges and bins"),
    "0 bins": (counts(age(bins=0)), "/tables/0/axes/0/bins", "greater than or equal to 1"),
    "a boolean for bins": (counts(age(bins=True)), "/tables/0/axes/0/bins", "integer"),
    "a boolean for an edge": (counts(age(edges=[True, 60])), "/tables/0/axes/0/edges/0", "number"),
    "a number for missing": (counts(table({"column": "region", "missing": 1})), "/tables/0/axes/0/missing", "boolean"),
    "decreasing edges": (counts(age(edges=[60, 50])), "/tables/0/axes/0", "increase"),
    "equal edges": (counts(age(edges=[60, 60])), "/tables/0/axes/0", "increase"),
    "edges too close": (counts(age(edges=[60, 60.000000001])), "/tables/0/axes/0", "2^30"),
    "denormal edges": (counts(table({"column": "dose", "edges": [0, 5e-324]})), "/tables/0/axes/0", "increase"),
    "one edge": (counts(age(edges=[60])), "/tables/0/axes/0/edges", "at least 2"),
    "edges out of bounds": (counts(age(edges=[-1e308, 1e308])), "/tables/0/axes/0", "50 to 100"),
    "an edge beyond floats": (counts(age(edges=[50, 10**400])), "/tables/0/axes/0/edges/1", "number"),
    "an unknown column": (counts(table({"column": "nobody"})), "/tables/0/axes/0/column", "declares no column"),
    "no name": (counts(table({"column": "größe"})), "/tables/0/axes/0/column", "declares no column"),
    "nothing can be missing": (counts(table(SEX | {"missing": True})), "/tables/0/axes/0", "complete"),
    "an unknown member": (counts(table(SEX | {"levels": ["F"]})), "/tables/0/axes/0/levels", "not permitted"),
    "a member of another kind": (counts(table(SEX), features=["age"]), "/features", "not permitted"),
    "too many shares": (counts(table(SEX), shares=[0.5, 0.5]), "", "one for each table"),
    "shares below 1": (counts(table(SEX), shares=[0.9]), "", "add up to 1"),
    "a share of 0": (counts(table(SEX), table(ALIVE), shares=[1, 0]), "/shares/1", "greater than 0"),
    "a share too small": (counts(table(SEX), table(ALIVE), shares=[1, 1e-300]), "/price", "too small"),
    "a calibration of gram's": (counts(table(SEX), calibration="classical"), "", "analytic"),
    "a price too small": (counts(table(SEX), price={"mu": 1e-300}), "/price", "below the account's smallest unit"),
    "a price below a unit": (counts(table(SEX), price={"rho": 1e-14}), "/price", "below the account's smallest unit"),
    "pure epsilon for Gaussian noise": (counts(table(SEX), price={"epsilon": 0.1}), "/price", "laplace"),
    "no kind": (counts(table(SEX), kind=None), "/kind", "there is gram, counts"),
    "a list of kinds": (counts(table(SEX), kind=["counts"]), "/kind", "there is gram, counts"),
    "another kind": (counts(table(SEX), kind="Counts"), "/kind", "there is gram, counts"),
    "the kind left out": (counts(table(SEX), kind=...), "/features", "required"),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("counts")) as made:
        yield made


@pytest.mark.parametrize("what", WRONG)
def test_a_request_that_means_nothing_is_refused_at_its_place_and_costs_nothing(shared: World, what: str) -> None:
    request, pointer, rule = WRONG[what]
    api = shared.api()
    for address, key in ((QUOTES, None), (RELEASES, "k")):
        content = problem(api.post(address, json=request, key=key), "request-invalid", 422)
        assert content["errors"][0]["pointer"] == pointer
        assert rule.lower() in content["detail"].lower()
    assert kinds(shared) == []


@pytest.mark.parametrize("edge", ["NaN", "Infinity", "9" * 5000])
def test_what_json_has_no_number_for_is_no_body(shared: World, edge: str) -> None:
    body = json.dumps(counts(age(edges=[50, 60]))).replace("60", edge)
    sent = shared.api().post(QUOTES, content=body, headers={"Content-Type": "application/json"})
    problem(sent, "body-malformed", 400)


def test_cells_are_counted_before_bins_become_edges(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short request of many bins must not take the memory of their edges."""
    made: list[int] = []
    honest = counts_kind.Axis.of

    def noted(column: Any, asked: Any) -> Any:
        made.append(asked.bins)
        return honest(column, asked)

    monkeypatch.setattr(counts_kind.Axis, "of", noted)
    names = ("age", "kappa", "dose")
    tables = [table(*({"column": name, "bins": 9_000 - i} for name in names)) for i in range(10)]
    problem(shared.api().post(QUOTES, json=counts(*tables)), "request-invalid", 422)
    assert sum(made) <= 2 * 9_000


def test_who_means_the_same_is_answered_the_same(api: Api, world: World) -> None:
    """Axes have no order; tables have one under a key, as what was stated, and none in what is sold."""
    asked = counts(table(SEX, ALIVE), table(SMOKER), shares=[0.25, 0.75])
    turned = counts(table(ALIVE, SEX), table(SMOKER), shares=[0.25, 0.75])
    reversed_ = counts(table(SMOKER), table(ALIVE, SEX), shares=[0.75, 0.25])
    otherwise = counts(table(SMOKER), table(ALIVE, SEX), shares=[0.25, 0.75])
    first = api.post(RELEASES, json=asked, key="a")
    assert first.status_code == 201
    for request, key, how in ((asked, "a", "replayed"), (turned, "a", "replayed"), (reversed_, "b", "stored")):
        again = api.post(RELEASES, json=request, key=key)
        assert (again.headers["curator-answer"], again.json()["id"]) == (how, first.json()["id"])
    problem(api.post(RELEASES, json=reversed_, key="a"), "idempotency-key-reused", 422)
    other = api.post(RELEASES, json=otherwise, key="c")
    assert other.headers["curator-answer"] == "new"
    assert kinds(world).count("charge") == 2
    assert_sound(world)


def test_the_noise_of_a_table_is_that_of_its_share(api: Api) -> None:
    """µ² adds up over tables: three quarters of it, and one quarter."""
    alone = api.post(QUOTES, json=counts(table(SEX), price={"mu": 0.1})).json()["noise"]["sd"]["table_0"]
    quote = api.post(QUOTES, json=counts(table(SEX), table(SMOKER), price={"mu": 0.1}, shares=[0.75, 0.25])).json()
    sd = {t["axes"][0]["column"]: quote["noise"]["sd"][t["name"]] for t in quote["tables"]}
    assert alone == pytest.approx(10.0, rel=1e-4)  # one person moves a cell by one, and µ is 1/σ
    assert sd == {"sex": pytest.approx(alone / 0.75**0.5, rel=1e-4), "smoker": pytest.approx(2 * alone, rel=1e-4)}


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[tuple[World, Gate]]:
    gate = Gate()
    with open_world(tmp_path, noise=gate) as world:
        yield world, gate
        gate.opened.set()


def test_two_at_once_are_one_job_and_one_charge(gated: tuple[World, Gate]) -> None:
    """Whoever means the same, in another order, waits for what is being worked on."""
    world, gate = gated
    api, other = world.api(), world.api("ben")
    job = api.post(RELEASES, json=counts(table(SEX, ALIVE), table(SMOKER)), key="a", headers=ASYNC)
    assert job.status_code == 202
    gate.await_entry()
    again = other.post(RELEASES, json=counts(table(SMOKER), table(ALIVE, SEX)), key="b", headers=ASYNC)
    assert again.status_code in {202, 409}, again.text
    gate.opened.set()
    assert await_job(api, job.json()["id"])["state"] == "done"
    late = other.post(RELEASES, json=counts(table(SMOKER), table(ALIVE, SEX)), key="c")
    assert late.headers["curator-answer"] == "stored"
    assert (kinds(world).count("charge"), gate.calls, open_reservations(world)) == (1, 1, {})
    assert_sound(world)


def test_a_cancelled_job_of_counts_costs_nothing(gated: tuple[World, Gate]) -> None:
    world, gate = gated
    api = world.api()
    job = api.post(RELEASES, json=counts(table(SEX)), key="a", headers=ASYNC).json()
    gate.await_entry()
    assert api.request("DELETE", f"/v1/jobs/{job['id']}").json()["state"] == "cancelled"
    gate.opened.set()
    assert (world.account().posted, open_reservations(world)) == (0, {})
    assert "charge" not in kinds(world)
    assert_sound(world)


def test_noise_is_drawn_before_the_public_time_begins_and_cells_are_in_it(
    gated: tuple[World, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise of many cells takes longer than a pass over few rows: it must not decide at which public time rows show."""
    world, gate = gated
    gate.opened.set()
    begun: list[tuple[int, float]] = []

    @contextmanager
    def noted(_self: ResponseTimer, duration_s: float) -> Iterator[None]:
        begun.append((gate.calls, duration_s))
        yield

    monkeypatch.setattr(ResponseTimer, "ending_at_public_time", noted)
    api = world.api()
    few, many = (counts(age(bins=bins)) for bins in (1, 2_000))
    assert [api.post(RELEASES, json=request, key=f"k{i}").status_code for i, request in enumerate((few, many))] == [
        201,
        201,
    ]
    assert [calls for calls, _ in begun] == [1, 2]
    assert begun[1][1] - begun[0][1] >= 2_000 * 1e-7


DAMAGE: dict[str, dict[str, str]] = {
    "counts": {
        "noise of another table": "noise = replace(noise, 'table_0', 'table_9')",
        "noise that is a text": """noise = '{"distribution":"discrete_gaussian","sd":{"table_0":"1","table_1":"1"}}'""",
        "a column that is none": """summary = replace(summary, '"column":"sex"', '"column":"nobody"')""",
        "an edge that is none": """summary = replace(summary, '"edges":[50.0', '"edges":[{}')""",
        "a table that is none": """summary = replace(summary, '"tables":[', '"tables":[7,')""",
        "no tables": """summary = replace(summary, '"tables":', '"tablez":')""",
    },
    "gram": {
        "noise of another statistic": "noise = replace(noise, 'xty', 'xyy')",
        "a feature that is none": """summary = replace(summary, '"features":[', '"features":[7,')""",
        "no targets": """summary = replace(summary, '"targets":', '"targetz":')""",
    },
}
STORED: dict[str, list[dict[str, Any]]] = {
    "counts": [
        counts(table(SEX, {"column": "age", "bins": 4}), table({"column": "dose", "edges": [-10, 0, 10]})),
        counts(table(SEX), price={"mu": 0.01}),
        counts(table(SEX), price={"mu": 0.2}),
    ],
    "gram": [
        box(features=["age", "sex", "weight"], targets=["kappa", "dose"], price={"mu": 0.1}),
        box(features=["age", "sex"], targets=["dose"], price={"mu": 0.01}),
        box(features=["age", "sex"], targets=["dose"], price={"mu": 0.2}),
    ],
}


@pytest.mark.parametrize(("name", "damage"), [(name, damage) for name, acts in DAMAGE.items() for damage in acts])
def test_a_listing_that_is_none_seals_the_curator_that_reads_it(world: World, name: str, damage: str) -> None:
    """Whoever is asked for the same, a part or more: nothing fails without a reason, and nothing is sold on top."""
    api = world.api()
    assert api.post(RELEASES, json=STORED[name][0], key="stored").status_code == 201
    assert world.discrepancies() == []
    change(world, f"UPDATE release_listings SET {DAMAGE[name][damage]}")
    found = [api.post(QUOTES, json=request) for request in STORED[name]]
    assert {answer.status_code for answer in found} <= {200, 503}
    assert 503 in {answer.status_code for answer in found}
    assert world.sql("SELECT reason FROM seal") != []
    assert world.discrepancies() != []
