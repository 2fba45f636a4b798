"""Effects of a release on the ledger: charges, refusals, replays, stored answers."""

import time
from pathlib import Path
from typing import Any

import pytest
from scenes import ASYNC, PATIENCE_S, Gate, Interrupted
from support import CountingNoise, World, body, open_world, problem

from curator_service.identity.policy import Role
from curator_service.kinds.gram.schema import GramRequest
from curator_service.kinds.registry import KINDS
from curator_service.kit.db import Statement
from curator_service.privacy.accountant import Price
from curator_service.releases import catalogue, repository
from curator_service.releases.preparation import prepare

RELEASES = "/v1/datasets/cohort/releases"
PATHS = pytest.mark.parametrize("rows", [{"map": "box"}, {"map": "ball"}], ids=["at once", "pass"])


@PATHS
def test_a_budget_of_one_request_buys_exactly_one(both: World, rows: dict[str, str]) -> None:
    api = both.api()
    price = {"epsilon": 1.0, "delta": 1e-6}
    assert api.post(RELEASES, json=body(price=price, rows=rows), key="first").status_code == 201
    refused = api.post(RELEASES, json=body(price=price, rows=rows, fresh=True), key="second")
    problem(refused, "budget-exceeded", 409)
    assert len([e for e in both.entries() if e["kind"] == "charge"]) == 1


def test_a_charge_at_once_is_one_entry_and_one_of_a_pass_is_reserved_first(both: World) -> None:
    api, before = both.api(), both.account()
    at_once = api.post(RELEASES, json=body(rows={"map": "box"}), key="k1").json()
    a_pass = api.post(RELEASES, json=body(rows={"map": "ball"}), key="k2").json()
    first, reserve, charge = both.entries()[before.sequence :]
    assert (first["kind"], reserve["kind"], charge["kind"]) == ("charge", "reserve", "charge")
    assert "reservation" not in first
    assert charge["reservation"] == reserve["reservation"]
    assert (reserve["units"], reserve["posted"], reserve["pending"]) == (
        charge["units"],
        first["units"],
        charge["units"],
    )
    account = both.account()
    assert (account.posted, account.pending) == (int(first["units"]) + int(charge["units"]), 0)
    assert [answer["receipt"] for answer in (at_once, a_pass)] == [first, charge]
    assert both.curator.ledger.verify("town").ok
    assert both.discrepancies() == []


@PATHS
def test_thrice_a_third_fits_exactly(tmp_path: Path, database_url: str | None, rows: dict[str, str]) -> None:
    with open_world(tmp_path, url=database_url, limit=Price(rho=0.15)) as world:
        api = world.api()
        # One statistic of one scale costs its price but for the rounding of sigma, which is far below one part in 1e9.
        request = body(targets=[], rows=rows, statistics=["xtx"], price={"rho": 0.05}, fresh=True)
        codes = [api.post(RELEASES, json=request, key=f"k{i}").status_code for i in range(4)]
        assert codes == [201, 201, 201, 409]
        account = world.account()
        assert account.limit == 300_000_000_000
        assert account.posted <= account.limit
        assert account.pending == 0


def test_budget_exceeded_states_requested_and_remaining(both: World) -> None:
    api = both.api()
    refused = problem(api.post(RELEASES, json=body(price={"mu": 0.5}), key="k"), "budget-exceeded", 409)
    account = both.account()
    assert int(refused["remaining"]["units"]) == account.limit - account.posted
    assert int(refused["requested"]["units"]) > account.limit
    assert refused["requested"]["mu"] == pytest.approx(0.5, rel=1e-6)
    assert set(refused["largest"]) == {"epsilon", "delta", "mu", "rho"}


@pytest.mark.parametrize("notion", [("epsilon", "delta"), ("mu",), ("rho",)], ids=lambda names: names[0])
@pytest.mark.parametrize("spent_first", [0.05, 0.2, 0.2366])
def test_the_largest_price_that_a_refusal_states_passes(
    world: World, notion: tuple[str, ...], spent_first: float
) -> None:
    api = world.api()
    assert api.post(RELEASES, json=body(price={"mu": spent_first}), key="k1").status_code == 201
    refused = problem(api.post(RELEASES, json=body(price={"mu": 0.5}), key="k2"), "budget-exceeded", 409)
    price = {name: refused["largest"][name] for name in notion}
    bought = api.post(RELEASES, json=body(price=price, fresh=True), key="k3")
    assert bought.status_code == 201, bought.text


@PATHS
def test_a_refusal_leaves_no_entry_and_no_key(both: World, rows: dict[str, str]) -> None:
    api, before, entries = both.api(), both.account(), both.entries()
    problem(api.post(RELEASES, json=body(price={"mu": 0.5}, rows=rows), key="k"), "budget-exceeded", 409)
    assert both.account() == before
    assert both.entries() == entries
    assert both.sql("SELECT count(*) FROM idempotency_keys")[0][0] == 0
    assert api.post(RELEASES, json=body(), key="k").status_code == 201  # a refused key is open to any request


@PATHS
def test_a_key_replays_the_same_bytes_after_later_releases_and_a_restart(both: World, rows: dict[str, str]) -> None:
    api = both.api()
    first = api.post(RELEASES, json=body(rows=rows), key="k")
    assert (first.status_code, first.headers["curator-answer"]) == (201, "new")
    assert api.post(RELEASES, json=body(rows=rows, fresh=True), key="other").status_code == 201
    posted = both.account().posted
    for client in (api, both.api(noise=CountingNoise())):
        again = client.post(RELEASES, json=body(rows=rows), key="k")
        assert (again.status_code, again.headers["curator-answer"]) == (201, "replayed")
        assert again.content == first.content
    assert both.account().posted == posted


@PATHS
def test_a_key_is_replayed_when_the_budget_is_spent(world: World, rows: dict[str, str]) -> None:
    api, price = world.api(), {"epsilon": 1.0, "delta": 1e-6}
    request = body(price=price, rows=rows, fresh=True)
    first = api.post(RELEASES, json=request, key="k")
    assert first.status_code == 201
    assert api.post(RELEASES, json=request, key="k").content == first.content


@pytest.mark.parametrize(
    "change",
    [
        {"features": ["age"]},
        {"price": {"mu": 0.051}},
        {"fresh": True},
        {"rows": {"map": "box"}},
        {"targets": ["dose"]},
        {"intercept": False},
        {"project": "another"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_key_cannot_be_used_for_another_request(world: World, change: dict[str, object]) -> None:
    api = world.api()
    assert api.post(RELEASES, json=body(), key="k").status_code == 201
    before = world.account()
    problem(api.post(RELEASES, json=body(**change), key="k"), "idempotency-key-reused", 422)
    assert world.account() == before


def test_a_key_that_is_worked_on_is_taken_over_by_nobody(both: World) -> None:
    """Not even after the last look at it: the database decides, whatever became of the jobs of other keys."""
    assert both.api().post(RELEASES, json=body(), key="of-a-job-that-ended").status_code == 201
    ada = next(p for p in both.curator.identity.list_principals() if p.name == "ada")
    noise, claimed = Interrupted(), []

    def take_over() -> None:
        with both.curator.database.begin() as connection:
            known = repository.find_key(connection, ada.id, "k")
            assert known.release_id is None
            claim = repository.claim_key(
                connection, ada.id, "k", known.fingerprint, reservation_id=known.reservation_id
            )
            claimed.append(claim)

    noise.act = take_over
    answer = both.api(noise=noise).post(RELEASES, json=body(fresh=True), key="k")
    assert (answer.status_code, claimed) == (201, [False])


def test_a_key_cannot_be_used_for_another_dataset(world: World) -> None:
    twin = world.register("twin", "town", world_rows())
    world.grant("ada", twin)
    api = world.api()
    assert api.post(RELEASES, json=body(), key="k").status_code == 201
    problem(api.post("/v1/datasets/twin/releases", json=body(), key="k"), "idempotency-key-reused", 422)


def world_rows() -> list[dict[str, str]]:
    """Return rows of another dataset about the same people."""
    from support import make_rows

    return make_rows(30, seed=11)


@PATHS
def test_the_same_key_of_another_principal_is_independent(both: World, rows: dict[str, str]) -> None:
    ada = both.api().post(RELEASES, json=body(rows=rows, fresh=True), key="k")
    ben = both.api("ben").post(RELEASES, json=body(rows=rows, fresh=True), key="k")
    assert (ada.status_code, ben.status_code) == (201, 201)
    assert ada.json()["id"] != ben.json()["id"]
    assert len([e for e in both.entries() if e["kind"] == "charge"]) == 2


@PATHS
def test_a_stored_answer_costs_nothing_for_any_analyst_with_a_grant(both: World, rows: dict[str, str]) -> None:
    first = both.api().post(RELEASES, json=body(rows=rows), key="k")
    before = both.account()
    for who, key in (("ada", "k2"), ("ben", "k")):
        again = both.api(who).post(RELEASES, json=body(rows=rows), key=key)
        assert (again.status_code, again.headers["curator-answer"]) == (200, "stored")
        assert again.content == first.content
    assert both.account() == before
    assert both.noise.calls == 1


@PATHS
def test_a_stored_answer_is_served_when_the_budget_is_spent(world: World, rows: dict[str, str]) -> None:
    request = body(price={"epsilon": 1.0, "delta": 1e-6}, rows=rows)
    first = world.api().post(RELEASES, json=request, key="k")
    assert world.api("ben").post(RELEASES, json=request, key="k").content == first.content


def test_a_stored_answer_ties_its_key(world: World) -> None:
    api = world.api()
    first = api.post(RELEASES, json=body(), key="k1")
    assert api.post(RELEASES, json=body(), key="k2").status_code == 200
    problem(api.post(RELEASES, json=body(features=["age"]), key="k2"), "idempotency-key-reused", 422)
    assert api.post(RELEASES, json=body(), key="k2").content == first.content


SPELLINGS = [
    {},
    {"intercept": False},
    {"statistics": ["xtx", "xty"]},
    {"statistics": ["xty", "yty"]},
    {"statistics": ["xtx", "xty", "yty", "lambda_min"]},
    {"statistics": ["lambda_min", "xty"]},
    {"statistics": ["lambda_min"], "targets": []},
    {"targets": []},
    {"rows": {"map": "box"}},
    {"rows": {"map": "ball"}},
    {"features": ["age"], "intercept": False},
    {"shares": {"xtx": 0.3333333333, "xty": 0.3333333333, "yty": 0.3333333333}},
    {"shares": {"xtx": 0.7, "xty": 0.2, "yty": 0.1}},
]


@pytest.mark.parametrize("change", SPELLINGS, ids=str)
def test_defaults_spelled_out_and_left_out_are_the_same_request(world: World, change: dict[str, object]) -> None:
    api = world.api()
    first = api.post(RELEASES, json=body(**change), key="k1")
    assert first.status_code == 201, first.text
    spelled = first.json()["request"]
    again = api.post(RELEASES, json=spelled, key="k2")
    assert (again.status_code, again.headers.get("curator-answer")) == (200, "stored"), again.text
    assert again.content == first.content


def test_one_and_one_point_zero_are_the_same_price(world: World) -> None:
    api = world.api()
    first = api.post(RELEASES, json=body(price={"epsilon": 1, "delta": 1e-6}), key="k1")
    again = api.post(
        RELEASES,
        content=first.request.content.replace(b'"epsilon":1', b'"epsilon":1.0'),
        key="k2",
        headers={"Content-Type": "application/json"},
    )
    assert again.headers["curator-answer"] == "stored"


@PATHS
def test_fresh_draws_again_and_charges_again(both: World, rows: dict[str, str]) -> None:
    api = both.api()
    first = api.post(RELEASES, json=body(rows=rows), key="k1")
    posted = both.account().posted
    second = api.post(RELEASES, json=body(rows=rows, fresh=True), key="k2")
    assert second.headers["curator-answer"] == "new"
    assert second.json()["statistics"] != first.json()["statistics"]
    assert both.account().posted == 2 * posted


def test_a_stored_answer_is_not_served_across_datasets_of_one_population(world: World) -> None:
    twin = world.register("twin", "town", world_rows())
    world.grant("ada", twin)
    api = world.api()
    first = api.post(RELEASES, json=body(), key="k1")
    other = api.post("/v1/datasets/twin/releases", json=body(), key="k2")
    assert (first.status_code, other.status_code) == (201, 201)
    assert other.headers["curator-answer"] == "new"


def test_datasets_of_one_population_share_one_budget(world: World) -> None:
    twin = world.register("twin", "town", world_rows())
    world.grant("ada", twin)
    api, price = world.api(), {"epsilon": 1.0, "delta": 1e-6}
    assert api.post(RELEASES, json=body(price=price), key="k1").status_code == 201
    problem(api.post("/v1/datasets/twin/releases", json=body(price=price), key="k2"), "budget-exceeded", 409)


def test_no_grant_no_replay(world: World) -> None:
    """A key's answer is the dataset's: without the grant it is not there."""
    api = world.api()
    assert api.post(RELEASES, json=body(), key="k").status_code == 201
    cohort = world.curator.datasets.list_all()[0].id
    world.end_grant("ada", cohort)
    problem(api.post(RELEASES, json=body(), key="k"), "dataset-not-found", 404)


@PATHS
def test_a_refused_request_does_not_hide_an_answer_that_was_stored_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, rows: dict[str, str]
) -> None:
    """Whoever asks the same while the first is being bought joins it, also when it takes the last of the budget."""
    price = {"epsilon": 1.0, "delta": 1e-6}
    request = GramRequest.model_validate(body(price=price, rows=rows))
    find_exact, state = catalogue.find_exact, {"armed": True}
    dataset = world.curator.datasets.list_all()[0]
    ben = next(p for p in world.curator.identity.list_principals() if Role.ANALYST in p.roles and p.name == "ben")
    prepared = prepare(KINDS, dataset, request)

    def bought_just_after(*arguments: object, **options: object) -> object:
        found = find_exact(*arguments, **options)  # type: ignore[arg-type]
        if state.pop("armed", False):
            assert world.curator.releases.release(prepared, ben, "ben-key") is not None
        return found

    monkeypatch.setattr(catalogue, "find_exact", bought_just_after)
    answer = world.api().post(RELEASES, json=body(price=price, rows=rows), key="ada-key")
    assert (answer.status_code, answer.headers.get("curator-answer")) == (200, "stored"), answer.text


def test_a_refused_request_does_not_hide_an_answer_that_is_posted_in_this_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the last of the budget: it was running when the stored ones were looked at, and is stored after."""
    gate, find_exact = Gate(), catalogue.find_exact
    request = body(price={"epsilon": 1.0, "delta": 1e-6})
    with open_world(tmp_path, noise=gate) as world:
        assert world.api("ben").post(RELEASES, json=request, key="k", headers=ASYNC).status_code == 202
        gate.await_entry()

        def posted_just_after(*arguments: object, **options: object) -> object:
            found = find_exact(*arguments, **options)  # type: ignore[arg-type]
            if not gate.opened.is_set():
                gate.opened.set()
                deadline = time.monotonic() + PATIENCE_S
                while world.account().pending and time.monotonic() < deadline:
                    time.sleep(0.01)
            return found

        monkeypatch.setattr(catalogue, "find_exact", posted_just_after)
        answer = world.api().post(RELEASES, json=request, key="ada-key")
        if answer.status_code != 200:
            problem(answer, "release-in-progress", 409)
            answer = world.api().post(RELEASES, json=request, key="ada-key")
        assert (answer.status_code, answer.headers.get("curator-answer")) == (200, "stored"), answer.text


def test_a_purchase_asks_the_database_as_often_however_much_was_sold(
    both: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five look-ups and fourteen statements of the unit of work; each is an exchange with PostgreSQL's server."""
    asked: list[str] = []
    for name in ("execute", "execute_each"):
        honest = getattr(Statement, name)

        def count(self: Statement, *given: Any, honest: Any = honest, **values: Any) -> Any:
            asked.append(type(self).__name__)
            return honest(self, *given, **values)

        monkeypatch.setattr(Statement, name, count)
    api, counts = both.api(), []
    for i in range(6):
        asked.clear()
        assert api.post(RELEASES, json=body(rows={"map": "box"}, fresh=True), key=f"k{i}").status_code == 201
        counts.append(len(asked))
    assert counts[2:] == [22] * 4  # the first ones also read what a process learns once
