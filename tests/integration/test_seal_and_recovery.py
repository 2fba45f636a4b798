"""A ledger that does not hold, or that was wound back, releases nothing until what was spent is accounted for."""

import base64
import fcntl
import json
import os
import shutil
import sqlite3
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from scenes import (
    ASYNC,
    BUDGET_OF,
    COHORT,
    RELEASES,
    RESERVATIONS,
    Gate,
    another_worker,
    assert_sound,
    box,
    checkpoint_of,
    head_of,
    kinds,
    open_reservations,
    seen,
)
from support import (
    ADMIN,
    Api,
    CountingNoise,
    World,
    body,
    csv_text,
    fresh_database,
    make_rows,
    manifest_text,
    open_population,
    open_world,
    problem,
)
from typer.testing import CliRunner

from curator_service import backup
from curator_service.backup import BackupError, read_backup, write_backup
from curator_service.cli.main import app as cli
from curator_service.container import make_curator
from curator_service.identity.policy import Role
from curator_service.kit.clock import timestamp
from curator_service.kit.db import SchemaError
from curator_service.ledger.chain.entries import SignedCheckpoint, canonical
from curator_service.ledger.trust import inspection
from curator_service.ledger.trust.anchor import Anchor
from curator_service.ledger.trust.client_checkpoints import CheckpointInvalid
from curator_service.ledger.trust.guard import LedgerUnverified
from curator_service.ledger.trust.recovery import Reconciliation, ReconciliationError, reconcile
from curator_service.privacy.accountant import Price
from curator_service.settings import Settings

pytestmark = pytest.mark.crashes


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest, database_url: str | None) -> Iterator[str | None]:
    """Return another fresh database of the same kind; None is the embedded one."""
    if database_url is None:
        yield None
        return
    with fresh_database(request.getfixturevalue("postgres_server")) as url:
        yield url


LIVES: list[World] = []
"""What was restored in the course of a test."""


@pytest.fixture(autouse=True)
def _end_other_lives() -> Iterator[None]:
    yield
    while LIVES:
        LIVES.pop().close()


# --- Scenes


def buy(api: Api, key: str, **changes: Any) -> dict[str, Any]:
    answer = api.post(RELEASES, json=box(**{"fresh": True, "price": {"mu": 0.05}, **changes}), key=key)
    assert answer.status_code == 201, answer.text
    release: dict[str, Any] = answer.json()
    return release


def start(world: World) -> str:
    """Start the curator as a process does; return why it is sealed."""
    witness = another_worker(world)
    try:
        return witness.ledger.guard.start()
    finally:
        witness.database.dispose()


def database_file(world: World) -> Path:
    return Path(str(world.curator.database.url.database))


def copy_database(source: Path, target: Path) -> None:
    """Copy an embedded database as it stands, over whatever the target holds, also under a running service."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def tamper(world: World, *statements: str) -> None:
    """Run raw SQL as an intruder would: without triggers and foreign keys."""
    with closing(sqlite3.connect(database_file(world))) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def restore(world: World, file: Path, *, url: str | None = None, name: str = "restored") -> World:
    """Restore a backup into an empty database elsewhere, beside the keys and the anchor that survived."""
    settings = Settings(
        data_dir=world.folder / name,
        keys_dir=world.settings.keys_folder,
        anchor_dir=world.settings.anchor_folder,
        database_url=url,
    )
    curator = make_curator(settings, noise=world.noise, now=world.clock)
    read_backup(curator, file)
    restored = World(settings, curator, world.clock, world.folder, world.noise, dict(world.tokens))
    LIVES.append(restored)
    return restored


def account_for(world: World, *receipts: dict[str, Any], anchor_lost: bool = False) -> dict[str, Reconciliation]:
    """Reconcile as the command line does."""
    worker = another_worker(world)
    try:
        worker.keys.recover(timestamp(world.clock()))
        evidence = [SignedCheckpoint.read(receipt) for receipt in receipts]
        done = reconcile(worker.ledger, evidence, actor="operator:test", anchor_lost=anchor_lost)
        return {one.population: one for one in done}
    finally:
        worker.database.dispose()


def begin_anew(world: World) -> None:
    """Lose the anchor, and say that it is lost and that the database was not restored: a mistake, or a lie."""
    shutil.rmtree(world.settings.anchor_folder)
    witness = another_worker(world)
    witness.ledger.guard.inspection.begin_anchor()
    witness.database.dispose()
    assert start(world) == ""


def account_somehow(world: World, *receipts: dict[str, Any]) -> None:
    """Reconcile; where that asks for the word that an anchor is lost, say it."""
    try:
        account_for(world, *receipts)
    except ReconciliationError:
        account_for(world, *receipts, anchor_lost=True)


@pytest.fixture
def used(tmp_path: Path) -> Iterator[World]:
    """Return a world with two releases of ada's, and an unsealed curator that was started once."""
    with open_world(tmp_path) as world:
        world.add_token("rita", *ADMIN)
        assert start(world) == ""
        api = world.api()
        stored = api.post(RELEASES, json=box(features=["age", "sex", "weight"], price={"mu": 0.1}), key="stored")
        assert stored.status_code == 201
        buy(api, "fresh")
        yield world


def serve(world: World, who: str = "ada") -> Api:
    """Return a client of a process that was started now, as every process is."""
    api = world.api(who)
    api.app.state.curator.ledger.guard.start()
    return api


def assert_sealed(world: World, secret: str, *, changed: int = 0, registered: bool = True) -> None:
    """Assert that the curator is sealed for good and for all, and that the operator is told why."""
    assert_closed(world, secret, changed=changed, registered=registered)
    shown = CliRunner().invoke(cli, ["ledger", "status", "--json"], env=environment(world))
    assert (shown.exit_code, json.loads(shown.stdout)["sealed"]) == (1, True)
    assert secret in json.loads(shown.stdout)["reason"]


def assert_closed(world: World, secret: str, *, changed: int = 0, registered: bool = True) -> None:
    """Assert that nothing new leaves or grows, that what is stored can be read, and that no caller learns why.

    A release whose own entry was `changed` is nobody's answer any more. Of a dataset that is not as it was `registered`
    nobody is given an answer that was not his.
    """
    api, admin, before = serve(world), serve(world, "root"), world.entries()
    world.curator.ledger.guard.start()
    small = box(features=["age"], price={"mu": 0.01})
    asked = {"price": {"mu": 0.01}, "expires_in_s": 60}
    limit = {"limit": {"mu": 0.3}, "reason": "more"}
    refused = [
        api.post(RELEASES, json=box(fresh=True), key="n1"),
        api.post(RELEASES, json=body(), key="n2"),
        api.post(RELEASES, json=body(), key="n3", headers=ASYNC),
        api.post(RELEASES, json=small, key="n4"),  # a block of what is stored
        api.post(RESERVATIONS, json=asked, key="n5"),
        admin.post("/v1/admin/populations/town/limits", json=limit),
        admin.post("/v1/admin/populations/town/limits", json=limit | {"limit": {"mu": 0.2}}),
    ]
    for answer in refused:
        problem(answer, "ledger-unverified", 503)
        assert "Nothing was charged" in answer.json()["detail"]
        for telling in (secret, "sequence", str(world.folder), "anchor", "hash"):
            assert telling not in answer.text
    with pytest.raises(LedgerUnverified):
        world.register("late", "town", make_rows(20, seed=33))
    with pytest.raises(LedgerUnverified):
        open_population(world.curator, "city", Price(mu=1))
    assert world.entries() == before
    assert api.get("/healthz", token=None).status_code == 200
    ready = api.get("/readyz", token=None)
    assert (ready.status_code, ready.json()) == (503, {"status": "sealed"})
    for address in (COHORT, BUDGET_OF, RELEASES, "/v1/keys"):
        assert api.get(address).status_code == 200
    for sequence, release in enumerate(api.get(RELEASES).json()["releases"], start=5):
        assert api.get(f"/v1/releases/{release['id']}").status_code == (503 if sequence == changed else 200)
    assert world.api("audra").get("/v1/ledger/town").status_code == 200
    stored = box(features=["age", "sex", "weight"], price={"mu": 0.1})
    replayed = api.post(RELEASES, json=stored, key="stored")
    reader = serve(world, "ben").post(RELEASES, json=stored, key="n6")
    if changed == 5:
        problem(replayed, "ledger-unverified", 503)
    else:
        assert replayed.headers["curator-answer"] == "replayed"
    if changed == 5 or not registered:  # whose answers these are is not known
        problem(reader, "ledger-unverified", 503)
    else:
        assert reader.headers["curator-answer"] == "stored"
    assert secret in world.curator.ledger.guard.reason()


def environment(world: World) -> dict[str, str]:
    found = {
        "CURATOR_DATA_DIR": str(world.settings.data_dir),
        "CURATOR_KEYS_DIR": str(world.settings.keys_folder),
        "CURATOR_ANCHOR_DIR": str(world.settings.anchor_folder),
    }
    return found | ({"CURATOR_DATABASE_URL": world.settings.database_url} if world.settings.database_url else {})


# --- What seals at the start


def change_entry(world: World) -> None:
    tamper(world, "UPDATE ledger_entries SET payload = replace(payload, 'cohort', 'cohorn') WHERE sequence = 5")


def change_account(world: World) -> None:
    tamper(world, "UPDATE populations SET posted_units = posted_units - 1 WHERE name = 'town'")


def change_signature(world: World) -> None:
    tamper(
        world,
        "UPDATE ledger_entries SET signature = (SELECT signature FROM ledger_entries WHERE population = 'town' "
        "AND sequence = 5) WHERE population = 'town' AND sequence = 6",
    )


def forget_reservations(world: World) -> None:
    """Let what is reserved be spent twice."""
    api = world.api()
    api.post(RESERVATIONS, json={"price": {"mu": 0.05}, "expires_in_s": 60}, key="s")
    tamper(
        world,
        "UPDATE reservations SET state = 'closed'",
        "UPDATE populations SET pending_units = 0",
        "UPDATE shares SET pending_units = 0",
    )


def lift_a_part(world: World) -> None:
    tamper(world, "UPDATE shares SET posted_units = 0")


def widen_a_bound(world: World) -> None:
    """Let one person count for more than the noise hides."""
    tamper(world, "UPDATE datasets SET manifest = replace(manifest, '100.0', '1000.0') WHERE name = 'cohort'")


def go_back_behind_the_anchor(world: World) -> None:
    copy_database(database_file(world), world.folder / "old.sqlite3")
    buy(world.api(), "spent")
    copy_database(world.folder / "old.sqlite3", database_file(world))


def fork(world: World) -> None:
    """Go back, and grow another history to the same length, away from the anchor."""
    go_back_behind_the_anchor(world)
    anchor = world.settings.anchor_folder
    anchor.rename(anchor.with_name("away"))
    buy(world.api(), "spent-otherwise")
    shutil.rmtree(anchor)
    anchor.with_name("away").rename(anchor)


def write_garbage_into_the_anchor(world: World) -> None:
    with Anchor(world.settings.anchor_folder).path.open("ab") as file:
        file.write(b"no checkpoint\n")


def put_a_foreign_anchor(world: World) -> None:
    """An anchor of another curator's, with the same names."""
    with open_world(world.folder / "foreign", moment=world.clock().replace(year=2027)) as other:
        buy(other.api(), "k")
        shutil.rmtree(world.settings.anchor_folder)
        shutil.copytree(other.settings.anchor_folder, world.settings.anchor_folder)


def lose_the_key_rows(world: World) -> None:
    tamper(world, "DELETE FROM signing_keys")


def change_a_public_key(world: World) -> None:
    tamper(world, f"UPDATE signing_keys SET public_key = '{base64.b64encode(b'x' * 32).decode()}'")


DAMAGES: list[tuple[Callable[[World], None], str]] = [
    (change_entry, "broken at sequence 5"),
    (change_account, "disagree on posted"),
    (change_signature, "signature is not one of this curator's"),
    (forget_reservations, "disagree on pending, shares, reservations"),
    (lift_a_part, "disagree on shares"),
    (widen_a_bound, "is not the one that the ledger registered"),
    (go_back_behind_the_anchor, "has no entry at sequence 7"),
    (fork, "has another entry at sequence 7"),
    (put_a_foreign_anchor, "not signed by any key of this curator"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_a_start_seals_a_ledger_with(used: World, damage: Callable[[World], None], reason: str) -> None:
    damage(used)
    assert reason in start(used)
    place = {change_entry: 5, change_signature: 6}.get(damage, 0)
    assert_sealed(used, reason, changed=place, registered=damage is not widen_a_bound)
    assert reason in start(used)  # nothing but a reconciliation lifts it


def lose_the_key_rows_and_the_anchor(world: World) -> None:
    lose_the_key_rows(world)
    shutil.rmtree(world.settings.anchor_folder)


@pytest.mark.parametrize(
    "damage",
    [lose_the_key_rows, lose_the_key_rows_and_the_anchor, change_a_public_key],
    ids=lambda damage: damage.__name__,
)
def test_a_start_seals_a_curator_whose_keys_do_not_hold(used: World, damage: Callable[[World], None]) -> None:
    damage(used)
    assert "key" in start(used)
    # Keys attest whose tokens hold: without them nobody is let in, and what is let in is refused.
    answer = used.api().post(RELEASES, json=box(fresh=True), key="n")
    assert (answer.status_code, answer.json()["type"]) in {
        (401, "/problems/authentication-required"),
        (503, "/problems/ledger-unverified"),
    }


def lose_the_private_key(world: World) -> Callable[[], object]:
    (key,) = world.settings.keys_folder.glob("key_*.pem")
    away = key.rename(key.with_suffix(".away"))
    return lambda: away.rename(key)


def break_the_anchor(world: World) -> Callable[[], object]:
    path = Anchor(world.settings.anchor_folder).path
    whole = path.read_bytes()
    write_garbage_into_the_anchor(world)
    return lambda: path.write_bytes(whole)


def lose_the_anchor(world: World) -> Callable[[], object]:
    folder = world.settings.anchor_folder
    away = folder.rename(folder.with_name("away"))
    return lambda: (shutil.rmtree(folder, ignore_errors=True), away.rename(folder))


@pytest.mark.parametrize(
    ("lose", "reason"),
    [
        (lose_the_private_key, "copy it from where the curator was set up"),
        (break_the_anchor, "holds a line that is no checkpoint"),
        (lose_the_anchor, "Bring the anchor back"),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_a_process_that_lacks_what_it_needs_releases_nothing_until_it_is_started_with_it(
    used: World, lose: Callable[[World], Callable[[], object]], reason: str
) -> None:
    bring_back = lose(used)
    assert reason in start(used)
    assert_closed(used, reason)
    bring_back()
    assert start(used) == ""
    buy(serve(used), "again", price={"mu": 0.01})
    assert_sound(used)


def test_a_further_host_begins_an_anchor_of_its_own_by_an_explicit_act(used: World) -> None:
    settings = used.settings.model_copy(update={"anchor_dir": used.folder / "of a further host"})
    host = replace(used, settings=settings)
    assert "there is no anchor in" in start(host)
    result = CliRunner().invoke(cli, ["ledger", "begin-anchor", "--json"], env=environment(host))
    assert result.exit_code == 0, result.output
    assert start(host) == ""
    api = serve(host)
    assert buy(api, "there", price={"mu": 0.01})["receipt"]["sequence"] == 7
    assert buy(used.api(), "here", price={"mu": 0.01})["receipt"]["sequence"] == 8
    assert start(host) == ""


def test_rows_that_change_while_an_anchor_is_shortened_hide_no_lost_entry(
    used: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts run; somebody winds the database back, and shows the lost entries while a line is looked for."""
    monkeypatch.setattr(inspection, "LINES_MAX", 3)
    host = replace(used, settings=used.settings.model_copy(update={"anchor_dir": used.folder / "of a further host"}))
    copy_database(database_file(used), used.folder / "old.sqlite3")
    lost = [buy(used.api(), key, price={"mu": 0.01})["receipt"] for key in ("a", "b")]
    copy_database(used.folder / "old.sqlite3", database_file(used))
    further = another_worker(host)
    further.ledger.guard.inspection.begin_anchor()
    further.database.dispose()
    for key in ("c", "d", "e"):
        buy(serve(host), key, price={"mu": 0.01})
    buy(used.api(), "f", price={"mu": 0.01})  # above all that this host has seen
    kept = {entry["sequence"]: entry["entry_hash"] for entry in used.entries()}
    shown = {entry["sequence"]: entry["entry_hash"] for entry in lost}
    for hashes, act in ((shown, used.curator.ledger.guard.compact_anchor), (kept, lambda: None)):
        tamper(
            used,
            *(
                f"UPDATE ledger_entries SET entry_hash = '{hashes[sequence]}' "
                f"WHERE population = 'town' AND sequence = {sequence}"
                for sequence in shown
            ),
        )
        act()
    assert "has another entry at sequence 7" in start(used)


@pytest.mark.parametrize("beside", ["rows", "an anchor", "both"])
def test_an_empty_ledger_beside_what_is_stored_is_sealed(used: World, beside: str) -> None:
    for file in used.settings.data_dir.glob("curator.sqlite3*"):
        file.unlink()
    if beside == "rows":
        shutil.rmtree(used.settings.anchor_folder)
    if beside == "an anchor":
        shutil.rmtree(used.settings.data_dir / "datasets")
    fresh = another_worker(used)
    fresh.database.upgrade()
    assert fresh.ledger.guard.start() != ""
    with pytest.raises(LedgerUnverified):
        open_population(fresh, "town", Price(mu=1))
    fresh.database.dispose()


def test_a_new_curator_is_not_sealed(tmp_path: Path) -> None:
    curator = make_curator(Settings(data_dir=tmp_path / "data"))
    curator.database.upgrade()
    assert curator.ledger.guard.start() == ""
    curator.close()


def test_a_seal_of_one_process_holds_for_all_and_keeps_its_first_reason(both: World) -> None:
    running = both.api()
    assert running.post(RELEASES, json=box(fresh=True), key="k1").status_code == 201
    both.curator.ledger.guard.seal("the first reason")
    both.curator.ledger.guard.seal("a later one")
    problem(running.post(RELEASES, json=box(fresh=True), key="k2"), "ledger-unverified", 503)
    assert both.curator.ledger.guard.reason() == "the first reason"


def test_a_seal_stops_what_is_being_worked_on(tmp_path: Path, database_url: str | None) -> None:
    gate = Gate()
    with open_world(tmp_path, url=database_url, noise=gate) as world:
        api = world.api()
        job = api.post(RELEASES, json=body(), key="k", headers=ASYNC).json()
        gate.await_entry()
        world.curator.ledger.guard.seal("a reason")
        gate.opened.set()
        assert world.api("ben").post(RELEASES, json=body(), key="k").status_code in {409, 503}
        api.app.state.curator.job_runner.stop()
        account_for(world)
        assert api.get(f"/v1/jobs/{job['id']}").json()["state"] == "voided"
        assert "charge" not in kinds(world)
        assert (world.account().posted, world.account().pending) == (0, 0)
        assert world.api().post(RELEASES, json=body(), key="k").headers["curator-answer"] == "new"
        assert_sound(world)


def test_under_a_seal_nobody_is_told_that_what_is_held_has_ended(tmp_path: Path) -> None:
    gate = Gate()
    with open_world(tmp_path, noise=gate) as world:
        api = world.api()
        reservation = api.post(RESERVATIONS, json={"price": {"mu": 0.05}, "expires_in_s": 60}, key="s").json()
        job = api.post(RELEASES, json=body(), key="k", headers=ASYNC).json()
        gate.await_entry()
        world.curator.ledger.guard.seal("a reason")
        for address in (f"/v1/reservations/{reservation['id']}", f"/v1/jobs/{job['id']}"):
            problem(api.request("DELETE", address), "ledger-unverified", 503)
            assert api.get(address).json()["state"] in {"open", "running"}
        gate.opened.set()


# --- What a client brings back


def test_a_genuine_checkpoint_of_any_age_is_fine(both: World) -> None:
    api = both.api()
    heads = [head_of(api)]
    for i in range(3):
        release = buy(api, f"k{i}", price={"mu": 0.02})
        heads += [checkpoint_of(release["receipt"]), head_of(api)]
        both.curator.keys.rotate(timestamp(both.clock()))
    for head in (*heads, head_of(api), heads[0]):
        for who in ("ada", "ben"):
            assert both.api(who).get(BUDGET_OF, headers=seen(head)).status_code == 200
        assert api.get(BUDGET_OF, headers=seen(head)).status_code == 200  # the worker knows keys made since it began
    assert start(both) == ""
    assert api.post(RELEASES, json=box(fresh=True), key="last", headers=seen(heads[-1])).status_code == 201


def spelled(checkpoint: dict[str, Any], blanks: int) -> str:
    """Return a header that says a checkpoint in other letters: JSON takes any number of blanks."""
    return base64.urlsafe_b64encode((" " * blanks + canonical(checkpoint)).encode()).decode()


def test_a_checkpoint_is_not_remembered_once_for_each_way_to_spell_it(used: World) -> None:
    checkpoints = used.curator.ledger.client_checkpoints
    head = head_of(used.api())
    forged = head | {"signature": "A" * 40_000}

    def send(blanks: int) -> None:
        checkpoints.receive(spelled(head, blanks), "town")
        with pytest.raises(CheckpointInvalid):
            checkpoints.receive(spelled(forged | {"limit": str(blanks)}, 0), "town")

    send(40_000)
    tracemalloc.start()
    for blanks in range(40_001, 40_201):
        send(blanks)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1_000_000  # 200 texts have twenty times as much


def test_what_a_client_saw_is_written_down_once_however_it_is_spelled(used: World) -> None:
    go_back_behind_the_anchor(used)
    later = checkpoint_of(Anchor(used.settings.anchor_folder).read()["town"].payload)
    begin_anew(used)
    checkpoints = serve(used).app.state.curator.ledger.client_checkpoints
    before = len(Anchor(used.settings.anchor_folder).log())
    for blanks in range(5):
        checkpoints.receive(spelled(later, blanks), "town")
    assert len(Anchor(used.settings.anchor_folder).log()) == before + 1


@pytest.mark.parametrize("reads_first", [False, True], ids=["a purchase", "a read"])
def test_a_client_that_saw_more_seals_a_curator_without_an_anchor(used: World, reads_first: bool) -> None:
    go_back_behind_the_anchor(used)
    later = checkpoint_of(Anchor(used.settings.anchor_folder).read()["town"].payload)
    begin_anew(used)  # nobody here can know
    api, before = serve(used), used.entries()
    if reads_first:
        assert api.get(BUDGET_OF, headers=seen(later)).status_code == 200
        answer = api.post(RELEASES, json=box(fresh=True), key="n")
    else:
        answer = api.post(RELEASES, json=box(fresh=True), key="n", headers=seen(later))
    problem(answer, "ledger-unverified", 503)
    assert used.entries() == before
    assert_sealed(used, "which a client has seen, signed by this curator")
    account_somehow(used)  # what the client brought is evidence by now
    assert used.account().posted >= int(later["posted"])
    assert used.api().get(BUDGET_OF, headers=seen(later)).status_code == 200
    assert (used.curator.ledger.guard.reason(), start(used)) == ("", "")


def test_a_client_that_saw_another_entry_in_its_place_seals(used: World) -> None:
    copy_database(database_file(used), used.folder / "old.sqlite3")
    lost = buy(used.api(), "spent")["receipt"]
    copy_database(used.folder / "old.sqlite3", database_file(used))
    begin_anew(used)
    kept = buy(used.api(), "spent-otherwise")["receipt"]
    assert (kept["sequence"], kept["entry_hash"] == lost["entry_hash"]) == (lost["sequence"], False)
    api = used.api()
    assert api.get(BUDGET_OF, headers=seen(checkpoint_of(kept))).status_code == 200
    refused = api.post(RELEASES, json=box(fresh=True), key="n", headers=seen(checkpoint_of(lost)))
    problem(refused, "ledger-unverified", 503)
    assert "has another entry at sequence 7" in used.curator.ledger.guard.reason()


def forge(checkpoint: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**checkpoint, **change}.items() if value is not ...}


GARBLED: list[dict[str, Any]] = [
    {"sequence": 99},
    {"entry_hash": "0" * 64},
    {"posted": "0"},
    {"epoch": 2},
    {"limit": "1"},
    {"limit": "1" * 5000},
    {"signature": ""},
    {"signature": base64.b64encode(b"x" * 64).decode()},
    {"signature": "é"},
    {"key_id": "key_0000000000000000"},
    {"population": "valley"},
    {"population": "nowhere"},
    {"sequence": "5"},
    {"sequence": True},
    {"sequence": 2**70, "posted": "9" * 5000},
    {"posted": 5},
    {"posted": ...},
    {"signature": ...},
    {"entry_hash": ["a list"]},
    {"entry_hash": {}},
    {"key_id": ["a list"]},
    {"key_id": None},
    {"population": ["town"]},
    {"signature": 7},
]


@pytest.mark.parametrize("change", GARBLED, ids=lambda change: "-".join(f"{k}:{v}" for k, v in change.items())[:40])
def test_a_checkpoint_that_the_curator_never_signed_is_refused_and_seals_nothing(
    used: World, change: dict[str, Any]
) -> None:
    api, before = used.api(), used.entries()
    headers = seen(forge(head_of(api), change))
    for answer in (
        api.get(BUDGET_OF, headers=headers),
        api.post(RELEASES, json=box(fresh=True), key="n", headers=headers),
    ):
        problem(answer, "checkpoint-invalid", 400)
    assert (used.curator.ledger.guard.reason(), used.entries()) == ("", before)


def test_checkpoints_of_another_curator_or_of_other_people_seal_nothing(used: World, tmp_path: Path) -> None:
    with open_world(tmp_path / "other", moment=used.clock().replace(year=2027)) as other:
        for i in range(5):
            buy(other.api(), f"k{i}", price={"mu": 0.01})
        foreign = head_of(other.api())
    neighbour = used.api("root").get("/v1/ledger/valley/checkpoint").json()["checkpoint"]
    for checkpoint in (foreign, neighbour):
        problem(used.api().get(BUDGET_OF, headers=seen(checkpoint)), "checkpoint-invalid", 400)
    assert used.curator.ledger.guard.reason() == ""


def test_whoever_has_no_access_cannot_even_show_a_checkpoint(used: World) -> None:
    lost = checkpoint_of(buy(used.api(), "k", price={"mu": 0.01})["receipt"])
    used.add_token("carl", Role.ANALYST)
    for token in (None, used.tokens["carl"], "cur_nobody"):
        answer = used.api().get(BUDGET_OF, headers=seen(forge(lost, {"sequence": 99})), token=token)
        assert answer.status_code in {401, 404}


# --- A database that is changed or replaced under a running service

LAST = "population = 'town' AND sequence = 8"
CHANGES = {
    "gives back what was spent": ["UPDATE populations SET posted_units = posted_units - 1000 WHERE name = 'town'"],
    "raises the limit": ["UPDATE populations SET limit_units = 2 * limit_units WHERE name = 'town'"],
    "begins another epoch": ["UPDATE populations SET epoch = 2 WHERE name = 'town'"],
    "points to another head": [f"UPDATE populations SET head_hash = '{'0' * 64}' WHERE name = 'town'"],
    "skips a sequence": ["UPDATE populations SET head_sequence = 9 WHERE name = 'town'"],
    "takes the last entry away": [f"DELETE FROM ledger_entries WHERE {LAST}"],
    "takes all entries away": ["DELETE FROM ledger_entries WHERE population = 'town'"],
    "changes the last entry": [f"UPDATE ledger_entries SET payload = replace(payload, 'cohort', 'c') WHERE {LAST}"],
    "signs the last entry otherwise": [f"UPDATE ledger_entries SET signature = '{'A' * 86}==' WHERE {LAST}"],
    "takes the signature away": [f"UPDATE ledger_entries SET signature = '' WHERE {LAST}"],
}


@pytest.mark.parametrize("own", [True, False], ids=["the worker that wrote it", "another worker"])
@pytest.mark.parametrize("change", CHANGES)
def test_whoever_changes_the_account_or_its_last_entry_is_found_before_the_next_release(
    used: World, change: str, own: bool
) -> None:
    api, other = used.api(), used.api()
    buy(other, "k", price={"mu": 0.01})
    buy(api, "own", price={"mu": 0.01})
    assert used.account().sequence == 8
    tamper(used, *CHANGES[change])
    before = used.entries()
    for request in (box, body):
        answer = (api if own else other).post(RELEASES, json=request(fresh=True, price={"mu": 0.01}), key="n")
        problem(answer, "ledger-unverified", 503)
    assert used.entries() == before
    assert used.curator.ledger.guard.reason() != ""


def test_a_sequence_that_is_given_out_twice_seals_before_anything_leaves(used: World) -> None:
    api = used.api()
    buy(api, "k1", price={"mu": 0.01})
    copy_database(database_file(used), used.folder / "old.sqlite3")
    buy(api, "k2", price={"mu": 0.01})
    copy_database(used.folder / "old.sqlite3", database_file(used))
    before = used.entries()
    problem(api.post(RELEASES, json=box(fresh=True), key="k3"), "ledger-unverified", 503)
    assert used.entries() == before
    assert "given out twice" in used.curator.ledger.guard.reason()
    assert_sealed(used, "given out twice")


def test_a_worker_that_did_not_see_the_lost_entries_is_sealed_by_the_one_that_did(used: World) -> None:
    first, second = used.api(), used.api()
    copy_database(database_file(used), used.folder / "old.sqlite3")
    lost = buy(first, "k2", price={"mu": 0.01})
    copy_database(used.folder / "old.sqlite3", database_file(used))
    refused = second.post(RELEASES, json=box(fresh=True), key="k3", headers=seen(checkpoint_of(lost["receipt"])))
    problem(refused, "ledger-unverified", 503)
    assert kinds(used).count("charge") == 2


def test_a_worker_that_did_not_see_the_lost_entries_is_stopped_by_the_anchor_of_the_one_that_did(used: World) -> None:
    """I5 of two processes: the first one wrote down what it gave out, before it did."""
    first, second = used.api(), used.api()
    buy(second, "k1", price={"mu": 0.01})
    copy_database(database_file(used), used.folder / "old.sqlite3")
    buy(first, "k2", price={"mu": 0.01})
    buy(first, "k3", price={"mu": 0.01})
    copy_database(used.folder / "old.sqlite3", database_file(used))
    refused = second.post(RELEASES, json=box(fresh=True), key="k4")
    assert refused.status_code == 503, "an answer left a ledger that is behind its anchor"
    problem(second.post(RELEASES, json=box(fresh=True), key="k5"), "ledger-unverified", 503)
    assert used.curator.ledger.guard.reason() != ""


@pytest.mark.parametrize("reserves", [False, True], ids=["release", "reservation"])
def test_an_answer_waits_for_an_anchor_that_cannot_be_written(
    used: World, monkeypatch: pytest.MonkeyPatch, reserves: bool
) -> None:
    """The charge stands; the answer leaves with a repeat, and costs nothing more."""
    api = used.api()

    def ask() -> Any:
        if reserves:
            return api.post(RESERVATIONS, json={"price": {"mu": 0.01}, "expires_in_s": 60}, key="k")
        return api.post(RELEASES, json=box(fresh=True, price={"mu": 0.01}), key="k")

    def full(*_place: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        for _ in range(2):
            refused = problem(ask(), "busy", 503)
            assert "same Idempotency-Key" in refused["detail"]
    count = len(used.entries())
    assert ask().status_code == 201
    assert len(used.entries()) == count == 7
    assert Anchor(used.settings.anchor_folder).read()["town"].checkpoint.sequence == count
    assert_sound(used)


def test_nothing_is_charged_beside_an_anchor_that_cannot_be_read(used: World) -> None:
    api, before = used.api(), used.entries()
    bring_back = break_the_anchor(used)
    for request in (box, body):
        problem(api.post(RELEASES, json=request(fresh=True, price={"mu": 0.01}), key="k"), "busy", 503)
    assert (used.entries(), used.account().pending) == (before, 0)
    bring_back()
    assert api.post(RELEASES, json=box(fresh=True, price={"mu": 0.01}), key="k2").status_code == 201
    assert_sound(used)


# --- Backups, and what is lost between them


def rows_of(world: World) -> dict[str, list[tuple[Any, ...]]]:
    """Return everything that a backup keeps, but for the seal."""
    tables = (
        "populations", "ledger_entries", "shares", "reservations", "releases", "idempotency_keys", "datasets",
        "snapshots", "principals", "tokens", "grants", "permits", "spending", "proposals", "signing_keys",
    )  # fmt: skip
    return {table: sorted(world.sql(f"SELECT * FROM {table}"), key=repr) for table in tables}


def live(world: World) -> None:
    """Let something of everything happen."""
    world.add_token("rita", *ADMIN)
    world.permit()
    api, admin = world.api(), world.api("root")
    buy(api, "kept", price={"mu": 0.03})
    assert api.post(RELEASES, json=body(price={"mu": 0.03}), key="pass").status_code == 201
    assert api.post(RELEASES, json=body(price={"mu": 0.03}), key="again").status_code == 200
    reservation = api.post(
        RESERVATIONS, json={"price": {"mu": 0.1}, "expires_in_s": 600, "project": "kidney"}, key="s"
    ).json()
    assert api.post(RELEASES, json=body(reservation=reservation["id"], fresh=True), key="drawn").status_code == 201
    (permit,) = (p["id"] for p in api.get("/v1/permits").json()["permits"] if not p["project"])
    part = {"people": ["ada"], "datasets": ["cohort"], "reason": "a part"}
    assert admin.post(f"/v1/permits/{permit}", json={"limit": {"mu": 0.2}} | part).status_code == 200
    assert admin.post(f"/v1/permits/{permit}", json={"limit": {"mu": 0.22}} | part).status_code == 202


def test_a_backup_of_one_database_is_a_curator_on_the_other(
    tmp_path: Path, database_url: str | None, request: pytest.FixtureRequest
) -> None:
    """From SQLite to PostgreSQL, and from PostgreSQL to SQLite, row for row and byte for byte."""
    server = request.getfixturevalue("postgres_server")
    with open_world(tmp_path, url=database_url) as world, fresh_database(server) as other_url:
        live(world)
        released = world.api().post(RELEASES, json=box(fresh=True, price={"mu": 0.03}), key="kept").content
        write_backup(world.curator, tmp_path / "backup.tar")
        moved = restore(world, tmp_path / "backup.tar", url=other_url if database_url is None else None)
        assert moved.curator.database.is_sqlite is not world.curator.database.is_sqlite
        assert rows_of(moved) == rows_of(world)
        assert "restored from a backup" in start(moved)
        assert "restored from a backup" in moved.curator.ledger.guard.reason()
        problem(moved.api().post(RELEASES, json=box(fresh=True), key="n"), "ledger-unverified", 503)
        assert account_for(moved)["town"].written_off == 0
        replayed = moved.api().post(RELEASES, json=box(fresh=True, price={"mu": 0.03}), key="kept")
        assert replayed.content == released
        assert moved.api().post(RELEASES, json=body(fresh=True, price={"mu": 0.03}), key="new").status_code == 201
        assert_sound(moved)


def test_what_was_spent_since_the_backup_is_accounted_for_to_the_unit(
    tmp_path: Path, database_url: str | None, elsewhere: str | None
) -> None:
    with open_world(tmp_path, url=database_url) as world:
        api = world.api()
        kept = buy(api, "kept")
        reservation = api.post(RESERVATIONS, json={"price": {"mu": 0.05}, "expires_in_s": 600}, key="held").json()
        write_backup(world.curator, tmp_path / "backup.tar")
        lost = [buy(api, f"lost{i}", price={"mu": 0.07}) for i in range(2)]
        limits = {"limit": {"mu": 0.21}, "reason": "less"}
        assert world.api("root").post("/v1/admin/populations/town/limits", json=limits).status_code == 200
        head = head_of(api)
        before = world.account()

        restored = restore(world, tmp_path / "backup.tar", url=elsewhere)
        refused = restored.api().post(RELEASES, json=box(fresh=True), key="n")
        problem(refused, "ledger-unverified", 503)
        done = account_for(restored)
        spent = sum(int(release["cost"]["units"]) for release in lost)
        kept_through = reservation["receipt"]["sequence"]
        assert done["town"] == Reconciliation("town", kept_through, head["sequence"], spent, 2)
        assert (done["valley"].written_off, done["valley"].epoch) == (0, 2)
        account = restored.account()
        assert (account.posted, account.limit, account.pending) == (before.posted, before.limit, 0)
        assert open_reservations(restored) == {}
        entry = restored.entries()[-1]
        assert (entry["kind"], entry["sequence"], entry["epoch"]) == ("reconcile", head["sequence"] + 1, 2)
        assert (entry["units"], entry["voided"]) == (str(spent), {reservation["id"]: reservation["reserved"]["units"]})
        assert_sound(restored)
        assert start(restored) == ""

        again = restored.api()
        assert again.get(f"/v1/releases/{kept['id']}").json() == kept
        dear = box(fresh=True, price={"mu": 0.21})
        remaining = problem(again.post(RELEASES, json=dear, key="n"), "budget-exceeded", 409)["remaining"]["units"]
        assert int(remaining) == before.limit - before.posted
        new = buy(again, "lost0", price={"mu": 0.02})  # its key was lost with the database
        assert (new["receipt"]["epoch"], new["receipt"]["sequence"]) == (2, head["sequence"] + 2)
        # Old clients come back with what they saw: it is accounted for.
        for receipt in (kept["receipt"], *(release["receipt"] for release in lost), new["receipt"]):
            assert again.get(BUDGET_OF, headers=seen(checkpoint_of(receipt))).status_code == 200
        assert again.get(BUDGET_OF, headers=seen(head)).status_code == 200
        assert restored.curator.ledger.guard.reason() == ""
        assert start(restored) == ""
        assert_sound(restored)


def test_a_database_that_was_restored_by_other_means_is_sealed_by_its_anchor_alone(used: World) -> None:
    go_back_behind_the_anchor(used)
    assert "which its anchor in" in start(used)
    lost = Anchor(used.settings.anchor_folder).read()["town"].checkpoint
    assert account_for(used)["town"].lost_through == lost.sequence
    assert (start(used), used.account().posted) == ("", lost.posted)


def test_what_a_receipt_proves_counts_where_the_anchor_is_older(used: World) -> None:
    """Another host's worker moved its own anchor; its analyst kept the receipt."""
    write_backup(used.curator, used.folder / "backup.tar")
    anchor = used.settings.anchor_folder
    buy(used.api(), "lost0", price={"mu": 0.05})
    shutil.copytree(anchor, used.folder / "older")
    last = buy(used.api(), "lost1", price={"mu": 0.06})["receipt"]
    later = used.account().posted
    shutil.rmtree(anchor)
    shutil.copytree(used.folder / "older", anchor)
    restored = restore(used, used.folder / "backup.tar")
    assert account_for(restored, last)["town"].lost_through == last["sequence"]
    assert restored.account().posted == later
    assert_sound(restored)


def test_a_lost_entry_that_nobody_told_of_seals_again(used: World) -> None:
    write_backup(used.curator, used.folder / "backup.tar")
    shutil.copytree(used.settings.anchor_folder, used.folder / "older")
    known, unknown = (buy(used.api(), f"lost{i}", price={"mu": 0.02})["receipt"] for i in range(2))
    shutil.rmtree(used.settings.anchor_folder)
    shutil.copytree(used.folder / "older", used.settings.anchor_folder)
    restored = restore(used, used.folder / "backup.tar")
    account_for(restored, known)
    api = restored.api()
    assert api.get(BUDGET_OF, headers=seen(checkpoint_of(known))).status_code == 200
    new = buy(api, "new", price={"mu": 0.02})["receipt"]
    refused = api.post(RELEASES, json=box(fresh=True), key="n", headers=seen(checkpoint_of(unknown)))
    problem(refused, "ledger-unverified", 503)
    account_for(restored, unknown)
    assert restored.account().posted >= int(new["posted"]) + int(unknown["units"])  # all three have left
    for receipt in (known, unknown, new):
        assert api.get(BUDGET_OF, headers=seen(checkpoint_of(receipt))).status_code == 200
    assert (restored.curator.ledger.guard.reason(), start(restored)) == ("", "")
    assert_sound(restored)


def test_what_a_client_brought_back_is_kept_as_evidence_even_of_an_older_epoch(used: World) -> None:
    write_backup(used.curator, used.folder / "backup.tar")
    shutil.copytree(used.settings.anchor_folder, used.folder / "older")
    unknown = buy(used.api(), "lost", price={"mu": 0.02})["receipt"]
    shutil.rmtree(used.settings.anchor_folder)
    shutil.copytree(used.folder / "older", used.settings.anchor_folder)
    restored = restore(used, used.folder / "backup.tar")
    account_for(restored)
    new = buy(restored.api(), "new", price={"mu": 0.02})["receipt"]
    api = restored.api()
    assert api.get(BUDGET_OF, headers=seen(checkpoint_of(unknown))).status_code == 200
    assert restored.curator.ledger.guard.reason() != ""
    account_for(restored)  # nobody hands in a receipt
    assert restored.account().posted >= int(new["posted"]) + int(unknown["units"])
    assert api.get(BUDGET_OF, headers=seen(checkpoint_of(unknown))).status_code == 200
    assert restored.curator.ledger.guard.reason() == ""


@pytest.mark.parametrize(("lost_count", "kept_count"), [(1, 2), (2, 1), (2, 2)])
def test_both_branches_of_a_fork_are_accounted_for(used: World, lost_count: int, kept_count: int) -> None:
    """Without its anchor a restored curator went on, before a client came back: answers of both lives have left."""
    copy_database(database_file(used), used.folder / "old.sqlite3")
    lost = [buy(used.api(), f"lost{i}", price={"mu": 0.03})["receipt"] for i in range(lost_count)]
    copy_database(used.folder / "old.sqlite3", database_file(used))
    common = used.account().posted
    begin_anew(used)
    kept = [buy(used.api(), f"kept{i}", price={"mu": 0.02})["receipt"] for i in range(kept_count)]
    api = used.api()
    assert api.get(BUDGET_OF, headers=seen(checkpoint_of(lost[-1]))).status_code == 200
    assert used.curator.ledger.guard.reason() != ""
    account_somehow(used, lost[-1])
    assert used.account().posted >= common + sum(int(receipt["units"]) for receipt in (*lost, *kept))
    for receipt in (lost[-1], *kept):
        assert api.get(BUDGET_OF, headers=seen(checkpoint_of(receipt))).status_code == 200
    assert used.curator.ledger.guard.reason() == ""
    assert_sound(used)


@pytest.mark.parametrize("sold", [0, 1, 8], ids=["nothing", "less than production", "more than production"])
def test_a_second_history_under_the_same_key_is_accounted_for_once(used: World, sold: int) -> None:
    """A backup that was tried with production's key: its epoch is a new one, and its sequences are below this head."""
    file = used.folder / "backup.tar"
    write_backup(used.curator, file)
    for i in range(5):
        buy(used.api(), f"later{i}", price={"mu": 0.02})
    settings = Settings(
        data_dir=used.folder / "tried",
        keys_dir=used.settings.keys_folder,
        anchor_dir=used.folder / "tried-anchor",
    )
    curator = make_curator(settings, noise=used.noise, now=used.clock)
    read_backup(curator, file)
    tried = World(settings, curator, used.clock, used.folder, used.noise, dict(used.tokens))
    LIVES.append(tried)
    account_for(tried, anchor_lost=True)
    seen_there = [checkpoint_of(tried.api().get(BUDGET_OF).json()["checkpoint"])]
    if sold:
        limits = "/v1/admin/populations/town/limits"
        raised = tried.api("root").post(limits, json={"limit": {"mu": 0.5}, "reason": "to try it"}).json()
        assert tried.api("rita").post(f"/v1/admin/proposals/{raised['id']}/approve").status_code == 200
    for i in range(sold):
        seen_there.append(checkpoint_of(buy(tried.api(), f"tried{i}", price={"mu": 0.02})["receipt"]))
    for checkpoint in reversed(seen_there):
        used.api().get(BUDGET_OF, headers=seen(checkpoint))
    assert "which a client has seen" in used.curator.ledger.guard.reason()
    account_for(used)
    written_off = used.account().posted
    for checkpoint in seen_there:
        assert used.api().get(BUDGET_OF, headers=seen(checkpoint)).status_code == 200
        assert used.curator.ledger.guard.reason() == ""
    assert start(used) == ""
    assert account_for(used)["town"].written_off == 0
    assert used.account().posted == written_off
    assert_sound(used)


def test_a_higher_limit_that_was_lost_is_still_the_highest(
    tmp_path: Path, database_url: str | None, elsewhere: str | None
) -> None:
    with open_world(tmp_path, url=database_url) as world:
        world.add_token("rita", *ADMIN)
        buy(world.api(), "kept")
        write_backup(world.curator, tmp_path / "backup.tar")
        limits = "/v1/admin/populations/town/limits"
        raised = world.api("root").post(limits, json={"limit": {"mu": 0.5}, "reason": "more"}).json()
        assert world.api("rita").post(f"/v1/admin/proposals/{raised['id']}/approve").status_code == 200
        lowered = world.api("root").post(limits, json={"limit": {"mu": 0.3}, "reason": "less"})
        assert lowered.status_code == 200
        before = world.account()
        assert (before.limit, before.highest_limit) == (90_000_000_000, 250_000_000_000)
        restored = restore(world, tmp_path / "backup.tar", url=elsewhere)
        assert restored.account().highest_limit == restored.account().limit < before.limit
        account_for(restored)
        assert (restored.account().limit, restored.account().highest_limit) == (before.limit, before.highest_limit)
        assert_sound(restored)


def test_without_the_anchor_everything_that_was_left_is_written_off(
    tmp_path: Path, database_url: str | None, elsewhere: str | None
) -> None:
    with open_world(tmp_path, url=database_url) as world:
        world.add_token("rita", *ADMIN)
        api = world.api()
        buy(api, "kept")
        write_backup(world.curator, tmp_path / "backup.tar")
        lost = buy(api, "lost")
        shutil.rmtree(world.settings.anchor_folder)
        restored = restore(world, tmp_path / "backup.tar", url=elsewhere)
        before = rows_of(restored)
        with pytest.raises(ReconciliationError, match="there is no anchor of 'town'"):
            account_for(restored, lost["receipt"])
        assert rows_of(restored) == before
        assert restored.curator.ledger.guard.reason() != ""
        done = account_for(restored, anchor_lost=True)
        assert (done["town"].lost_through, restored.account().remaining) == (None, 0)
        assert restored.account("valley").remaining == 0
        client = restored.api()
        problem(client.post(RELEASES, json=box(fresh=True), key="n"), "budget-exceeded", 409)
        assert client.get(BUDGET_OF, headers=seen(checkpoint_of(lost["receipt"]))).status_code == 200
        assert restored.curator.ledger.guard.reason() == ""
        limit = {"limit": {"mu": 0.3}, "reason": "what is known to be unspent"}
        raised = restored.api("root").post("/v1/admin/populations/town/limits", json=limit)
        approve = f"/v1/admin/proposals/{raised.json()['id']}/approve"
        assert restored.api("rita").post(approve).status_code == 200
        buy(client, "new", price={"mu": 0.02})
        assert_sound(restored)


def test_keys_that_were_made_after_the_backup_come_back_from_their_files(
    tmp_path: Path, database_url: str | None, elsewhere: str | None
) -> None:
    with open_world(tmp_path, url=database_url) as world:
        first = buy(world.api(), "kept", price={"mu": 0.02})["receipt"]
        write_backup(world.curator, tmp_path / "backup.tar")
        signers = [world.curator.keys.rotate(timestamp(world.clock())).key_id for _ in range(2)]
        lost = buy(world.api(), "lost", price={"mu": 0.02})["receipt"]
        assert lost["key_id"] == signers[-1] != first["key_id"]
        restored = restore(world, tmp_path / "backup.tar", url=elsewhere)
        assert [key.key_id for key in restored.curator.keys.list_keys()] == [first["key_id"]]
        assert account_for(restored)["town"].lost_through == lost["sequence"]
        keys = restored.api().get("/v1/keys").json()
        assert {key["key_id"] for key in keys["keys"]} == {first["key_id"], *signers}
        assert keys["active"] == buy(restored.api(), "new", price={"mu": 0.02})["receipt"]["key_id"]
        assert restored.api().get(BUDGET_OF, headers=seen(checkpoint_of(lost))).status_code == 200
        assert start(restored) == ""
        assert_sound(restored)


def test_a_key_whose_file_is_lost_too_proves_nothing(used: World) -> None:
    write_backup(used.curator, used.folder / "backup.tar")
    made = used.curator.keys.rotate(timestamp(used.clock())).key_id
    buy(used.api(), "lost", price={"mu": 0.02})
    (used.settings.keys_folder / f"{made}.pem").unlink()
    restored = restore(used, used.folder / "backup.tar")
    with pytest.raises(ReconciliationError, match="not signed by any key"):
        account_for(restored)
    with pytest.raises(ReconciliationError, match="not signed by any key"):
        account_for(restored, anchor_lost=True)
    assert restored.curator.ledger.guard.reason() != ""


def test_a_second_restore_of_the_same_backup_accounts_for_both_lives(used: World) -> None:
    write_backup(used.curator, used.folder / "backup.tar")
    first = buy(used.api(), "first-life", price={"mu": 0.03})["receipt"]
    one = restore(used, used.folder / "backup.tar", name="one")
    account_for(one)
    second = buy(one.api(), "second-life", price={"mu": 0.04})["receipt"]
    spent = one.account().posted
    two = restore(used, used.folder / "backup.tar", name="two")
    done = account_for(two)["town"]
    assert (done.lost_through, two.account().posted) == (second["sequence"], spent)
    assert done.epoch > second["epoch"] > first["epoch"]
    api = two.api()
    third = buy(api, "third-life", price={"mu": 0.02})["receipt"]
    for receipt in (first, second, third):
        assert api.get(BUDGET_OF, headers=seen(checkpoint_of(receipt))).status_code == 200
        assert two.curator.ledger.guard.reason() == ""
    assert start(two) == ""
    assert_sound(two)


def test_reconciling_what_holds_writes_nothing_off(used: World) -> None:
    before = used.account()
    reservation = used.api().post(RESERVATIONS, json={"price": {"mu": 0.05}, "expires_in_s": 60}, key="s").json()
    used.curator.ledger.guard.seal("a false alarm")
    done = account_for(used)
    assert (done["town"].written_off, done["town"].epoch) == (0, 2)
    after = used.account()
    assert (after.posted, after.limit, after.pending, after.epoch) == (before.posted, before.limit, 0, 2)
    shown = used.api().get(f"/v1/reservations/{reservation['id']}").json()
    assert (shown["state"], shown["remaining"]["units"]) == ("voided", "0")
    buy(used.api(), "n", price={"mu": 0.01})
    assert account_for(used)["town"].epoch == 3
    assert (start(used), used.account().epoch) == ("", 3)
    assert_sound(used)


def test_a_running_worker_goes_on_when_the_seal_is_lifted(used: World) -> None:
    api = used.api()
    buy(api, "k1", price={"mu": 0.01})
    used.curator.ledger.guard.seal("a false alarm")
    problem(api.post(RELEASES, json=box(fresh=True), key="k2"), "ledger-unverified", 503)
    account_for(used)
    assert buy(api, "k2", price={"mu": 0.01})["receipt"]["epoch"] == 2
    assert api.get("/readyz", token=None).status_code == 200


def forged(receipt: dict[str, Any]) -> dict[str, Any]:
    return receipt | {"posted": "0", "sequence": 99}


def test_evidence_must_be_signed_and_of_people_that_the_ledger_knows(used: World, tmp_path: Path) -> None:
    receipt = buy(used.api(), "k", price={"mu": 0.01})["receipt"]
    used.curator.ledger.guard.seal("a reason")
    before = rows_of(used)
    with open_world(tmp_path / "other", moment=used.clock().replace(year=2027)) as other:
        foreign = buy(other.api(), "k")["receipt"]
    for evidence in (forged(receipt), foreign):
        with pytest.raises(ReconciliationError, match="not signed by any key"):
            account_for(used, evidence)
    assert rows_of(used) == before
    tamper(
        used,
        "DELETE FROM ledger_entries WHERE population = 'valley'",
        "DELETE FROM datasets WHERE population = 'valley'",
        "DELETE FROM shares WHERE population = 'valley'",
        "DELETE FROM populations WHERE name = 'valley'",
    )
    with pytest.raises(ReconciliationError, match="no population 'valley'"):
        account_for(used)
    assert used.curator.ledger.guard.reason() == "a reason"


def test_a_broken_chain_cannot_be_reconciled(used: World) -> None:
    change_entry(used)
    start(used)
    for anchor_lost in (False, True):
        with pytest.raises(ReconciliationError, match="broken at sequence 5"):
            account_for(used, anchor_lost=anchor_lost)
    assert used.curator.ledger.guard.reason() != ""


def test_an_empty_ledger_cannot_be_reconciled(used: World) -> None:
    used.curator.database.dispose()
    for file in used.settings.data_dir.glob("curator.sqlite3*"):
        file.unlink()
    assert CliRunner().invoke(cli, ["db", "upgrade"], env=environment(used)).exit_code == 0
    result = CliRunner().invoke(cli, ["restore", "--reconcile", "--json"], env=environment(used))
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == 1
    assert "restore a backup first" in result.stderr


def test_the_command_line_backs_up_restores_and_reconciles(used: World) -> None:
    run: Callable[..., Any] = lambda world, *words, code=0: command(world, *words, code=code)  # noqa: E731
    file, saved = used.folder / "backup.tar", used.folder / "release.json"
    ((entries,),) = used.sql("SELECT count(*) FROM ledger_entries")
    assert run(used, "backup", str(file))["rows"]["ledger_entries"] == entries
    api = used.api()
    lost = api.post(RELEASES, json=box(fresh=True, price={"mu": 0.05}), key="lost")
    saved.write_bytes(lost.content)
    posted = used.account().posted
    ended = next(permit for permit in used.curator.permits.list_permits() if "ada" in permit.people.values())
    used.curator.permits.end(ended.id, "over", "operator:test")
    settings = Settings(
        data_dir=used.folder / "new", keys_dir=used.settings.keys_folder, anchor_dir=used.settings.anchor_folder
    )
    new = World(settings, make_curator(settings, now=used.clock), used.clock, used.folder, CountingNoise(), used.tokens)
    assert "restored" in run(new, "restore", str(file))
    assert run(new, "ledger", "status", code=1)["sealed"]
    reconciled = run(new, "restore", "--reconcile", "--receipt", str(saved))
    (done,) = [one for one in reconciled["reconciled"] if one["population"] == "town"]
    # What was ended since holds again, as the backup has it: whoever restores is told, to look through it.
    assert ended.id in {permit["id"] for permit in reconciled["active_permits"]}
    assert all(permit["ended_at"] is None for permit in reconciled["active_permits"])
    table = CliRunner().invoke(cli, ["restore", "--reconcile"], env=environment(new) | {"COLUMNS": "200"}).stdout
    assert "look through them" in " ".join(table.split())
    assert ended.id in table
    assert done["lost_through"] == lost.json()["receipt"]["sequence"] + 1  # the end of the permit
    assert done["written_off_units"] == lost.json()["cost"]["units"]
    assert new.account().posted == posted
    assert not run(new, "ledger", "status")["sealed"]
    assert all(result["ok"] for result in run(new, "ledger", "verify"))
    refused = CliRunner().invoke(cli, ["restore", str(file)], env=environment(new))
    assert (refused.exit_code, "not empty" in refused.stderr) == (1, True)
    new.close()


def command(world: World, *words: str, code: int) -> Any:
    result = CliRunner().invoke(cli, [*words, "--json"], env=environment(world))
    assert result.exit_code == code, result.output + repr(result.exception)
    return json.loads(result.stdout)


# --- The backup's file


def test_a_backup_holds_one_instant_while_writes_go_on(
    tmp_path: Path, database_url: str | None, elsewhere: str | None
) -> None:
    with open_world(tmp_path, url=database_url, limit=Price(mu=1.0)) as world:
        api, stop, bought = world.api(), threading.Event(), []

        def keep_buying() -> None:
            while not stop.is_set() and len(bought) < 300:
                bought.append(buy(api, f"k{len(bought)}", price={"mu": 0.01})["id"])

        writer = threading.Thread(target=keep_buying)
        writer.start()
        try:
            files = [tmp_path / f"backup{i}.tar" for i in range(3)]
            for file in files:
                write_backup(world.curator, file)
        finally:
            stop.set()
            writer.join()
        restored = restore(world, files[-1], url=elsewhere)
        found = restored.curator.ledger.verify("town")
        assert found.ok, found.reason
        assert restored.discrepancies() == []
        held = [row[0] for row in restored.sql("SELECT id FROM releases WHERE population = 'town' ORDER BY sequence")]
        assert held == bought[: len(held)]
        account_for(restored)
        assert restored.account().posted == world.account().posted


def test_a_backup_holds_no_secret_of_the_machine_and_never_replaces_a_file(used: World) -> None:
    file = used.folder / "backup.tar"
    write_backup(used.curator, file)
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        names = archive.getnames()
    files = [name.removeprefix("tables/key_counts") for name in names]  # a table, of numbers of requests
    assert not [name for name in files if "key_" in name or "anchor" in name or "workers" in name]
    assert b"PRIVATE KEY" not in file.read_bytes()
    before = file.read_bytes()
    with pytest.raises(BackupError, match="never replaces"):
        write_backup(used.curator, file)
    assert file.read_bytes() == before
    assert sorted(path.name for path in used.folder.glob("*backup*")) == ["backup.tar"]


def test_what_a_killed_backup_left_is_in_no_later_ones_way_and_is_read_by_nobody_else(used: World) -> None:
    """Whoever opened what was left has not opened what comes."""
    file, part = used.folder / "backup.tar", used.folder / ".backup.tar.part"
    part.write_bytes(b"rows of patients")
    part.chmod(0o644)
    with part.open("rb") as left:
        write_backup(used.curator, file)
        assert left.read() == b"rows of patients"
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in used.folder.glob("*backup*")) == ["backup.tar"]


def test_a_backup_is_readable_by_nobody_else_from_its_first_instant(
    used: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    umask, opened = os.umask(0), tarfile.open

    def look(*args: Any, **options: Any) -> Any:
        modes.extend(file.stat().st_mode & 0o777 for file in used.folder.glob(".backup.tar.part"))
        return opened(*args, **options)

    monkeypatch.setattr(tarfile, "open", look)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # it must be so before anything could be changed
    try:
        write_backup(used.curator, used.folder / "backup.tar")
    finally:
        os.umask(umask)
    assert modes == [0o600]


def test_two_backups_of_one_name_are_not_written_at_once(used: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file, opened = used.folder / "backup.tar", tarfile.open
    tried: list[str] = []

    def write_another(*args: Any, **options: Any) -> Any:
        if not tried:
            tried.append("begun")
            with pytest.raises(BackupError, match="being written") as refused:
                write_backup(used.curator, file)
            tried.append(str(refused.value))
        return opened(*args, **options)

    monkeypatch.setattr(tarfile, "open", write_another)
    write_backup(used.curator, file)
    assert len(tried) == 2
    with tarfile.open(file) as archive:
        assert "backup.json" in archive.getnames()


def test_of_two_backups_that_begin_at_the_same_instant_one_is_refused(
    used: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of a file and its lock it looks like one that was left."""
    file, part, lock = used.folder / "backup.tar", used.folder / ".backup.tar.part", fcntl.flock
    met = []

    def take_over(descriptor: int, how: int) -> None:
        if not met and part.exists() and os.path.samestat(os.fstat(descriptor), part.stat()):
            met.append(part)
            part.unlink()
            part.write_bytes(b"of the other one")
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", take_over)
    with pytest.raises(BackupError, match="being written"):
        write_backup(used.curator, file)
    assert met
    assert part.read_bytes() == b"of the other one"
    assert not file.exists()


def test_a_backup_that_fails_leaves_nothing(used: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_write_tables", mock.Mock(side_effect=BackupError("the disk is full")))
    with pytest.raises(BackupError, match="full"):
        write_backup(used.curator, used.folder / "backup.tar")
    assert not list(used.folder.glob("*backup*"))


def places_in(file: Path) -> dict[str, int]:
    """Return a byte of each kind of content of a backup, by where it stands in the file."""
    with tarfile.open(file) as archive:
        members = {member.name: member for member in archive.getmembers()}
    chosen = {
        "an entry": "tables/ledger_entries/00000000.jsonl",
        "a token": "tables/tokens/00000000.jsonl",
        "a dataset": "tables/datasets/00000000.jsonl",
        "rows": next(name for name in members if name.endswith(".rows")),
        "sums of rows": next(name for name in members if name.endswith("gram.npy")),
    }
    return {kind: members[name].offset_data + members[name].size // 2 for kind, name in chosen.items()}


@pytest.mark.parametrize("change", ["an entry", "a token", "a dataset", "rows", "sums of rows", 0.3, 0.8, 0.99, 0.0])
def test_a_changed_or_cut_backup_is_refused_and_nothing_is_changed(used: World, change: str | float) -> None:
    file, bad = used.folder / "backup.tar", used.folder / "bad.tar"
    write_backup(used.curator, file)
    content = bytearray(file.read_bytes())
    if isinstance(change, float):
        end = next(i for i in range(len(content), 0, -1) if content[i - 1])  # the archive's end is padding
        content = content[: int(change * end)]
    else:
        content[places_in(file)[change]] ^= 0x01
    bad.write_bytes(content)
    settings = Settings(data_dir=used.folder / "new", keys_dir=used.settings.keys_folder)
    curator = make_curator(settings, now=used.clock)
    with pytest.raises(BackupError):
        read_backup(curator, bad)
    curator.database.upgrade()
    assert curator.ledger.list_populations() == []
    assert curator.identity.list_principals() == []
    assert not list((settings.data_dir / "datasets").glob("*"))
    read_backup(curator, file)
    assert curator.ledger.get_population("town").posted == used.account().posted
    curator.close()


def test_a_backup_is_restored_into_an_empty_database_only(used: World, tmp_path: Path) -> None:
    file = used.folder / "backup.tar"
    write_backup(used.curator, file)
    before = rows_of(used)
    with pytest.raises(BackupError, match="not empty"):
        read_backup(used.curator, file)
    assert rows_of(used) == before
    assert used.curator.ledger.guard.reason() == ""


@pytest.mark.parametrize("revision", ["0000", "9999"])
def test_a_backup_of_a_schema_that_this_version_does_not_know_is_refused(
    used: World, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    file = used.folder / "backup.tar"
    with monkeypatch.context() as patch:
        patch.setattr(used.curator.database, "revisions", lambda: (revision, revision))
        write_backup(used.curator, file)
    curator = make_curator(Settings(data_dir=used.folder / "new"), now=used.clock)
    with pytest.raises(SchemaError, match="of another version, which this one cannot read"):
        read_backup(curator, file)
    assert curator.database.revisions()[0] is None
    assert not list((used.folder / "new" / "datasets").glob("*"))
    curator.close()


def test_a_file_that_is_no_backup_is_refused(used: World) -> None:
    curator = make_curator(Settings(data_dir=used.folder / "new"), now=used.clock)
    text, table = used.folder / "text", used.folder / "table.tar"
    text.write_text(csv_text(make_rows(3)) + manifest_text())
    with tarfile.open(table, "w") as archive:
        archive.add(text, "backup.json")
    for file in (text, table, used.folder / "absent", used.folder):
        with pytest.raises(BackupError):
            read_backup(curator, file)
    curator.close()


def test_a_curator_can_be_restored_where_one_was_started_on_nothing(used: World) -> None:
    """The first reflex after a loss is to start it again; that must not stand in the way."""
    file = used.folder / "backup.tar"
    write_backup(used.curator, file)
    posted = used.account().posted
    settings = Settings(
        data_dir=used.folder / "new", keys_dir=used.settings.keys_folder, anchor_dir=used.settings.anchor_folder
    )
    curator = make_curator(settings, now=used.clock)
    curator.database.upgrade()
    assert curator.ledger.guard.start() != ""
    read_backup(curator, file)
    new = replace(used, settings=settings, curator=curator, apis=[], apps=[])
    account_for(new)
    assert new.account().posted == posted
    new.close()
