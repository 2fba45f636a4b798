"""Bounds of acts without a cost: new keys of a day, and holds for longer than an hour."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scenes import (
    ASYNC,
    RELEASES,
    RESERVATIONS,
    another_worker,
    assert_sound,
    await_job,
    box,
    checkpoint_of,
    seen,
)
from support import ADMIN, Api, CountingNoise, World, body, open_world, problem

from curator_service.backup import read_backup, write_backup
from curator_service.container import make_curator
from curator_service.ledger.trust import inspection
from curator_service.ledger.trust.anchor import Anchor
from curator_service.ledger.trust.recovery import Reconciliation, reconcile
from curator_service.privacy.accountant import Price
from curator_service.settings import Settings

PER_DAY = 5
LIMITS = "/v1/admin/populations/town/limits"
BUDGET_STEPS = 64


@pytest.fixture
def frugal(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    """Return a world in which one principal uses five keys a day, once on each database."""
    with open_world(tmp_path, url=database_url, limit=Price(rho=BUDGET_STEPS / 4096), keys_per_day=PER_DAY) as world:
        yield world


def asked(steps: float, expires_in_s: int = 60) -> dict[str, object]:
    return {"price": {"rho": steps / 4096}, "expires_in_s": expires_in_s}


def reserve_and_close(api: Api, key: str) -> int:
    answer = api.post(RESERVATIONS, json=asked(1), key=key)
    if answer.status_code == 201:
        assert api.request("DELETE", f"/v1/reservations/{answer.json()['id']}").status_code == 200
    return int(answer.status_code)


def yesterday(world: World) -> None:
    """Let everything that was counted be of yesterday: a day is the database's own."""
    world.sql("UPDATE key_counts SET day = '2000-01-01'")


def used(world: World) -> int:
    return int(world.sql("SELECT sum(keys) FROM key_counts")[0][0])


def test_reserving_and_giving_back_is_bounded_for_a_day_and_goes_on_the_next(frugal: World) -> None:
    api, before = frugal.api(), len(frugal.entries())
    assert [reserve_and_close(api, f"k{i}") for i in range(PER_DAY)] == [201] * PER_DAY
    refused = api.post(RESERVATIONS, json=asked(1), key="one-more")
    problem(refused, "too-many-requests", 429)
    assert int(refused.headers["retry-after"]) == 12 * 3600 + 1
    assert len(frugal.entries()) == before + 2 * PER_DAY
    assert api.post(RESERVATIONS, json=asked(1), key="k0").headers["curator-answer"] == "replayed"
    assert frugal.api("ben").post(RESERVATIONS, json=asked(1), key="k0").status_code == 201, "somebody else's day"
    yesterday(frugal)
    assert reserve_and_close(api, "one-more") == 201
    assert frugal.sql("SELECT keys FROM key_counts WHERE keys = 1 AND day > '2026'"), "it begins anew"
    assert_sound(frugal)


def test_a_clock_that_is_wrong_on_one_host_begins_no_day(frugal: World) -> None:
    api = frugal.api()
    for i in range(PER_DAY):
        frugal.clock.advance(seconds=3 * 86400 * (1 if i % 2 else -1))
        assert reserve_and_close(api, f"k{i}") == 201
    problem(api.post(RESERVATIONS, json=asked(1), key="one-more"), "too-many-requests", 429)


def test_stored_and_derived_answers_and_cancelled_jobs_are_counted_too(frugal: World) -> None:
    api = frugal.api()
    assert api.post(RELEASES, json=box(price={"mu": 0.05}), key="bought").status_code == 201
    assert api.post(RELEASES, json=box(price={"mu": 0.05}), key="stored").headers["curator-answer"] == "stored"
    part = api.post(RELEASES, json=box(features=["age"], price={"mu": 0.01}), key="derived")
    assert part.headers["curator-answer"] == "derived"
    job = api.post(RELEASES, json=body(price={"mu": 0.01}), key="job", headers=ASYNC)
    assert job.status_code == 202
    await_job(api, job.json()["id"])
    assert used(frugal) == 4
    assert api.post(RELEASES, json=box(price={"mu": 0.05}), key="fifth").headers["curator-answer"] == "stored"
    before = len(frugal.entries()), frugal.sql("SELECT count(*) FROM idempotency_keys")
    for request in (box(price={"mu": 0.05}), box(features=["sex"], price={"mu": 0.01}), body(price={"mu": 0.02})):
        problem(api.post(RELEASES, json=request, key="sixth"), "too-many-requests", 429)
        problem(api.post(RELEASES, json=request, key="sixth", headers=ASYNC), "too-many-requests", 429)
    assert (len(frugal.entries()), frugal.sql("SELECT count(*) FROM idempotency_keys")) == before
    assert api.post(RELEASES, json=box(price={"mu": 0.05}), key="stored").headers["curator-answer"] == "replayed"
    assert frugal.account().pending == 0


def test_a_refused_request_uses_no_key(frugal: World) -> None:
    api = frugal.api()
    for i in range(2 * PER_DAY):
        problem(api.post(RESERVATIONS, json=asked(BUDGET_STEPS + 1), key=f"k{i}"), "budget-exceeded", 409)
    assert reserve_and_close(api, "k") == 201


def test_a_plan_that_has_begun_goes_on_within_twice_the_bound(frugal: World) -> None:
    api = frugal.api()
    held = api.post(RESERVATIONS, json=asked(32), key="plan").json()["id"]
    step = box(fresh=True, price={"mu": 0.01}, reservation=held)
    assert [api.post(RELEASES, json=step, key=f"k{i}").status_code for i in range(1, 2 * PER_DAY)] == [201] * 9
    problem(api.post(RELEASES, json=step, key="one-more"), "too-many-requests", 429)
    assert api.request("DELETE", f"/v1/reservations/{held}").status_code == 200
    problem(api.post(RESERVATIONS, json=asked(1), key="again"), "too-many-requests", 429)


def test_keys_that_come_at_once_do_not_pass_the_bound(frugal: World) -> None:
    apis = [frugal.api() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        runs = pool.map(lambda i: [reserve_and_close(apis[i], f"k{i}-{j}") for j in range(3)], range(8))
        statuses = [status for run in runs for status in run]
    # Whoever looked while another one's reservation was open had the bound of a plan.
    assert PER_DAY <= statuses.count(201) <= 2 * PER_DAY
    assert used(frugal) == statuses.count(201)


def test_half_of_what_is_left_may_be_held_for_longer_than_an_hour(frugal: World) -> None:
    ada, ben = frugal.api(), frugal.api("ben")
    refused = ada.post(RESERVATIONS, json=asked(33, 31_536_000), key="all")
    problem(refused, "budget-exceeded", 409)
    assert "longer than an hour" in refused.json()["detail"]
    largest = int(refused.json()["remaining"]["units"])
    assert ada.post(RESERVATIONS, json=asked(24, 31_536_000), key="long").status_code == 201
    assert largest == frugal.account().limit // 2
    problem(ben.post(RESERVATIONS, json=asked(9, 3601), key="more"), "budget-exceeded", 409)
    assert ben.post(RESERVATIONS, json=asked(8, 3601), key="rest").status_code == 201
    problem(ben.post(RESERVATIONS, json=asked(1, 3601), key="none"), "budget-exceeded", 409)
    whole = ben.post(RESERVATIONS, json=asked(32, 3600), key="an-hour")
    assert whole.status_code == 201, whole.text
    frugal.clock.advance(seconds=3600)
    assert frugal.curator.job_runner.sweep() == [whole.json()["id"]]
    assert_sound(frugal)


def test_what_is_spent_makes_the_half_smaller_and_draws_nothing_back(frugal: World) -> None:
    api = frugal.api()
    held = api.post(RESERVATIONS, json=asked(32, 7200), key="long").json()["id"]
    for i in range(3):
        drawn = api.post(RELEASES, json=box(fresh=True, price={"rho": 8 / 4096}, reservation=held), key=f"k{i}")
        assert drawn.status_code == 201, drawn.text
    # 24 of 64 steps are spent, so 20 may be held, and 8 are.
    problem(api.post(RESERVATIONS, json=asked(13, 7200), key="long2"), "budget-exceeded", 409)
    assert frugal.api("ben").post(RESERVATIONS, json=asked(12, 7200), key="long2").status_code == 201


def test_long_reservations_that_come_at_once_hold_no_more_than_half(frugal: World) -> None:
    apis = [frugal.api(who) for who in ("ada", "ben") * 3]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda api: api.post(RESERVATIONS, json=asked(12, 7200), key=f"k{id(api)}"), apis))
    assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409, 409, 409]
    assert frugal.account().pending <= frugal.account().limit // 2


# --- The anchor


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[World]:
    """Return a started curator on the embedded database, of whose anchor a start keeps three lines as they are."""
    with pytest.MonkeyPatch.context() as patch, open_world(tmp_path) as world:
        patch.setattr(inspection, "LINES_MAX", 3)
        assert start(world) == ""
        yield world


def start(world: World) -> str:
    witness = another_worker(world)
    try:
        return witness.ledger.guard.start()
    finally:
        witness.database.dispose()


def restore(world: World, file: Path, anchor: Path, name: str) -> World:
    settings = Settings(data_dir=world.folder / name, keys_dir=world.settings.keys_folder, anchor_dir=anchor)
    curator = make_curator(settings, now=world.clock)
    read_backup(curator, file)
    return World(settings, curator, world.clock, world.folder, CountingNoise(), dict(world.tokens))


def account_for(world: World) -> Reconciliation:
    done = reconcile(world.curator.ledger, actor="operator:test", anchor_lost=False)
    return next(one for one in done if one.population == "town")


def buy(world: World, *keys: str) -> None:
    for key in keys:
        answer = world.api().post(RELEASES, json=box(fresh=True, price={"mu": 0.05}), key=key)
        assert answer.status_code == 201, answer.text


def run_on(world: World) -> str:
    """Let a process that runs do what it does every ten minutes."""
    world.curator.ledger.guard.compact_anchor()
    return ""


@pytest.mark.parametrize("shorten", [start, run_on])
def test_what_proves_nothing_of_a_long_anchor_is_left_out(embedded: World, shorten: Callable[[World], str]) -> None:
    """What is found of a lost history is the same as by every line, and so is who is answered again."""
    world, folder = embedded, embedded.settings.anchor_folder
    file, whole = world.folder / "backup.tar", world.folder / "whole"
    write_backup(world.curator, file)
    buy(world, "k0", "k1")
    middle = checkpoint_of(world.api().post(RESERVATIONS, json=asked(0.1), key="middle").json()["receipt"])
    buy(world, "k2", "k3")
    shutil.copytree(folder, whole)
    assert len(Anchor(whole).log()) > 5
    assert shorten(world) == ""
    assert len({line.checkpoint.sequence for line in Anchor(folder).log() if line.checkpoint.population == "town"}) <= 3
    buy(world, "last")  # by a process that runs: it writes into the file that was put in its place
    last = world.account()
    assert Anchor(folder).read()["town"].checkpoint.posted == last.posted
    assert start(world) == ""
    with (whole / "checkpoints").open("ab") as log:
        log.write((folder / "checkpoints").read_bytes())
    found = []
    for anchor in (folder, whole):
        restored = restore(world, file, anchor, f"restored-{anchor.name}")
        found.append(account_for(restored))
        assert restored.account().posted == last.posted
        assert restored.api().get("/v1/datasets/cohort/budget", headers=seen(middle)).status_code == 200
        assert restored.curator.ledger.guard.reason() == ""
        restored.close()
    assert found[0] == found[1]


def test_under_a_seal_the_anchor_keeps_every_line(embedded: World) -> None:
    buy(embedded, "k0", "k1", "k2", "k3")
    embedded.curator.ledger.guard.seal("an incident")
    before = Anchor(embedded.settings.anchor_folder).log()
    assert run_on(embedded) == ""
    assert Anchor(embedded.settings.anchor_folder).log() == before


def test_lines_of_an_epoch_that_a_reconciliation_ended_are_kept(embedded: World) -> None:
    """A backup from before the reconciliation is restored: holders of either epoch's entries are answered again."""
    world, folder = embedded, embedded.settings.anchor_folder
    file = world.folder / "backup.tar"
    write_backup(world.curator, file)
    buy(world, "k0", "k1", "k2")
    middle = checkpoint_of(world.api().post(RESERVATIONS, json=asked(0.1), key="middle").json()["receipt"])
    buy(world, "k3")
    account_for(world)
    buy(world, "k4", "k5", "k6", "k7")
    assert start(world) == ""
    again = restore(world, file, folder, "again")
    account_for(again)
    assert again.account().posted == world.account().posted
    assert again.api().get("/v1/datasets/cohort/budget", headers=seen(middle)).status_code == 200
    assert again.curator.ledger.guard.reason() == ""
    again.close()


def test_a_line_that_the_ledger_has_not_stays_for_ever(embedded: World) -> None:
    """A lost history that was accounted for is evidence all the same: the backup may be restored again."""
    world, folder = embedded, embedded.settings.anchor_folder
    file = world.folder / "backup.tar"
    write_backup(world.curator, file)
    buy(world, "k0", "k1", "k2")
    spent = world.account().posted
    first = restore(world, file, folder, "first")
    account_for(first)
    assert first.account().posted == spent
    assert start(first) == ""
    buy(first, "other")
    assert start(first) == ""
    second = restore(world, file, folder, "second")
    account_for(second)
    assert second.account().posted == first.account().posted > spent
    for one in (first, second):
        one.close()


def test_the_highest_limit_is_still_known_of_a_history_that_was_lost(embedded: World) -> None:
    world, folder = embedded, embedded.settings.anchor_folder
    world.add_token("rita", *ADMIN)
    file = world.folder / "backup.tar"
    write_backup(world.curator, file)
    buy(world, "k0")
    raised = world.api("root").post(LIMITS, json={"limit": {"mu": 0.5}, "reason": "more"}).json()
    assert world.api("rita").post(f"/v1/admin/proposals/{raised['id']}/approve").status_code == 200
    buy(world, "k1", "k2")
    lowered = world.api("root").post(LIMITS, json={"limit": {"mu": 0.3}, "reason": "less"})
    assert lowered.status_code == 200, lowered.text
    buy(world, "k3")
    highest = world.account().highest_limit
    assert highest == 250_000_000_000
    assert start(world) == ""
    restored = restore(world, file, folder, "restored")
    account_for(restored)
    assert restored.account().highest_limit == highest
    restored.close()
