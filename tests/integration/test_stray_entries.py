"""Entries that nobody signed, inserted by whoever has the service's login: a reconciliation sets them aside."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from scenes import RELEASES, another_worker, box
from support import Price, World, open_world, problem, service_url

from curator_service.container import make_curator
from curator_service.entries.account import GENESIS
from curator_service.ledger.chain.entries import Checkpoint, SignedCheckpoint, canonical, entry_hash
from curator_service.ledger.trust.recovery import SET_ASIDE, Reconciliation, ReconciliationError, reconcile

Row = tuple[int, str, str, str]


def forge(sequence: int) -> Row:
    """Return an entry that lacks nothing but the signature, and takes the limit away."""
    place = {"population": "town", "sequence": sequence, "previous_hash": GENESIS, "units": str(2**50), "epoch": 1}
    account = {"limit": str(2**50), "posted": "0", "pending": "0", "key_id": "key_0"}
    said = {"format": 2, "kind": "reconcile", "actor": "operator:x", "time": "2999-03-01T12:00:00Z", "all": "yes"}
    text = canonical(said | place | account)
    return sequence, text, entry_hash(text), ""


GARBAGE: dict[str, Callable[[int, Row], list[Row]]] = {
    "no text": lambda last, _: [(last + 1, "", "", "")],
    "no entry": lambda last, _: [(last + 1, 'x"kind":"reconcile"x"kind":"dataset"', "0", "0")],
    "unsigned": lambda last, _: [forge(last + 1)],
    "a copy": lambda last, newest: [(last + 1, *newest[1:])],
    "far": lambda last, _: [(2**63 - 1, "x", "x", "x")],
    "before": lambda last, _: [(0, "x", "x", "x"), forge(-5)],
    "many": lambda last, _: [forge(last + i) for i in (1, 2, 5)],
}


def insert(world: World, rows: list[Row]) -> None:
    statement = "INSERT INTO ledger_entries (population, sequence, payload, entry_hash, signature) VALUES ('town', {})"
    database = world.curator.database
    if database.is_sqlite:
        with database.begin() as connection:
            for row in rows:
                connection.cursor().execute(statement.format("?, ?, ?, ?"), row)
    else:
        with psycopg.connect(service_url(str(world.settings.database_url))) as connection:
            connection.cursor().executemany(statement.format("%s, %s, %s, %s"), rows)


def start(world: World) -> str:
    worker = another_worker(world)
    try:
        return worker.ledger.guard.start()
    finally:
        worker.database.dispose()


def account_for(world: World, *receipts: SignedCheckpoint) -> dict[str, Reconciliation]:
    worker = another_worker(world)
    try:
        return {
            one.population: one for one in reconcile(worker.ledger, receipts, actor="operator:x", anchor_lost=False)
        }
    finally:
        worker.database.dispose()


@pytest.fixture
def used(tmp_path: Path, database_url: str | None) -> Any:
    with open_world(tmp_path, url=database_url, limit=Price(mu=5.0)) as world:
        assert start(world) == ""
        for key in ("one", "two"):
            assert world.api().post(RELEASES, json=box(fresh=True), key=key).status_code == 201
        yield world


@pytest.mark.parametrize("kind", GARBAGE)
def test_entries_that_nobody_signed_are_set_aside(used: World, kind: str) -> None:
    before, whole = used.account(), used.sql("SELECT * FROM ledger_entries ORDER BY population, sequence")
    (newest,) = used.sql(
        "SELECT sequence, payload, entry_hash, signature FROM ledger_entries WHERE population = 'town' "
        "ORDER BY sequence DESC LIMIT 1"
    )
    rows = GARBAGE[kind](before.sequence, newest)
    moment = used.curator.ledger.find_newest_moment()
    insert(used, rows)
    assert used.curator.ledger.find_newest_moment() == moment
    assert "'town' is broken" in start(used)
    problem(used.api().post(RELEASES, json=box(fresh=True), key="sealed"), "ledger-unverified", 503)
    done = account_for(used)
    assert {name: one.set_aside for name, one in done.items()} == {"town": len(rows), "valley": 0, "_register": 0}
    assert done["town"].written_off == 0
    kept = (used.settings.anchor_folder / SET_ASIDE).read_bytes()
    assert [tuple(json.loads(line).values())[1:] for line in kept.splitlines()] == sorted(rows)
    entries = used.sql("SELECT * FROM ledger_entries ORDER BY population, sequence")
    assert [row for row in entries if row in whole] == whole
    said = used.entries()[-1]
    assert (said["kind"], said["set_aside"]) == ("reconcile", hashlib.sha256(kept).hexdigest())
    assert (used.account().posted, used.account().limit) == (before.posted, before.limit)
    assert start(used) == ""
    assert used.api().post(RELEASES, json=box(fresh=True), key="next").status_code == 201
    assert used.curator.ledger.verify("town").ok
    with pytest.raises(Exception, match="append"):  # the trigger is there again
        used.sql("DELETE FROM ledger_entries")


def test_an_entry_that_evidence_names_is_not_set_aside(used: World) -> None:
    """Somebody saw it with a signature: then the stored signature was broken, and what it charged counts."""
    account = used.account()
    text = forge(account.sequence + 1)[1]
    signer = used.curator.ledger.guard.signer()
    seen = Checkpoint(
        "town",
        account.sequence + 1,
        entry_hash(text),
        account.epoch,
        account.limit,
        account.posted + 1,
        0,
        signer.key_id,
    )
    insert(used, [forge(seen.sequence)])
    with pytest.raises(ReconciliationError, match="restore a backup whose chain holds"):
        account_for(used, SignedCheckpoint(seen, signer.sign(seen)))
    count = used.sql(f"SELECT count(*) FROM ledger_entries WHERE population = 'town' AND sequence = {seen.sequence}")
    assert count == [(1,)]


def test_a_chain_that_does_not_hold_by_itself_is_not_reconciled(used: World) -> None:
    insert(used, [forge(used.account().sequence + 1)])
    used.sql("UPDATE populations SET posted_units = posted_units - 1 WHERE name = 'town'")
    assert start(used) != ""
    with pytest.raises(ReconciliationError, match="restore a backup whose chain holds"):
        account_for(used)
    assert not (used.settings.anchor_folder / SET_ASIDE).exists()


def test_the_service_s_login_takes_no_entry_out(town: World) -> None:
    assert start(town) == ""
    assert town.api().post(RELEASES, json=box(), key="one").status_code == 201
    insert(town, [forge(town.account().sequence + 1)])
    stored = town.sql("SELECT * FROM ledger_entries ORDER BY population, sequence")
    assert town.served is not None
    service = make_curator(town.served, now=town.clock)
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reconcile(service.ledger, actor="operator:x", anchor_lost=False)
    finally:
        service.database.dispose()
    assert town.sql("SELECT * FROM ledger_entries ORDER BY population, sequence") == stored
    assert not (town.settings.anchor_folder / SET_ASIDE).exists()
