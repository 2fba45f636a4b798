"""A ledger of the first schema, whose entries were not signed, is taken over whole and signed from then on."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support import EPOCH, Api, Ticking

from curator_service.app import create_app
from curator_service.container import Curator, make_curator
from curator_service.identity.policy import Role
from curator_service.ledger.chain.entries import GENESIS, canonical
from curator_service.settings import Settings

LIMIT, COST = 56_028_963_825, 2_500_000_000
MOMENT = "2026-01-01T00:00:00Z"
ANSWER = '{"id":"rel_000000000000000000000001","dataset":"cohort","cost":{"units":"2500000000"}}'
MANIFEST = {
    "name": "cohort",
    "population": "town",
    "description": "",
    "row_capacity": 100,
    "subject": None,
    "rows_per_subject": None,
    "columns": [{"name": "age", "type": "numeric", "lower": 0.0, "upper": 1.0, "missing": "complete"}],
}


def first_schema_chain(actor: str) -> list[dict[str, Any]]:
    """Return a chain as the first schema wrote it: an opening, a registration, a charge."""
    manifest = json.dumps(MANIFEST)
    facts: list[dict[str, Any]] = [
        {"kind": "open", "units": str(LIMIT), "adjacency": "add_remove", "accountant": "gdp", "delta": "1e-06"},
        {
            "kind": "dataset",
            "units": "0",
            "dataset": "cohort",
            "manifest_digest": hashlib.sha256(manifest.encode()).hexdigest(),
            "snapshot": "0" * 64,
        },
        {
            "kind": "charge",
            "units": str(COST),
            "dataset": "cohort",
            "release": "rel_000000000000000000000001",
            "request_digest": "1" * 64,
            "answer_digest": hashlib.sha256(ANSWER.encode()).hexdigest(),
            "snapshot": "0" * 64,
        },
    ]
    rows, previous = [], GENESIS
    for sequence, fact in enumerate(facts, 1):
        who = actor if fact["kind"] == "charge" else "operator:old"
        payload = canonical(
            {
                **fact,
                "format": 1,
                "population": "town",
                "sequence": sequence,
                "previous_hash": previous,
                "actor": who,
                "time": MOMENT,
            }
        )
        previous = hashlib.sha256(b"curator-ledger-entry:1\n" + payload.encode()).hexdigest()
        rows.append({"population": "town", "sequence": sequence, "payload": payload, "entry_hash": previous})
    return rows


@pytest.fixture
def old(tmp_path: Path, database_url: str | None) -> Iterator[tuple[Curator, Settings, str]]:
    """Return a curator on a populated database of the first schema, and an analyst's token."""
    settings = Settings(data_dir=tmp_path / "data", database_url=database_url)
    curator = make_curator(settings, now=Ticking(EPOCH))
    curator.database.upgrade("0001")
    token = curator.identity.create_token("ada", Role.ANALYST)
    actor = curator.identity.list_principals()[0].id
    chain = first_schema_chain(actor)
    with curator.database.engine.begin() as connection:

        def insert(table: str, **values: Any) -> None:
            names = ", ".join(f'"{name}"' for name in values)
            marks = ", ".join(f":{name}" for name in values)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), values)

        insert(
            "populations",
            name="town",
            adjacency="add_remove",
            accountant="gdp",
            delta="1e-06",
            limit_units=LIMIT,
            posted_units=COST,
            pending_units=0,
            head_sequence=3,
            head_hash=chain[-1]["entry_hash"],
            created_at=MOMENT,
        )
        insert(
            "datasets",
            id="ds_1",
            name="cohort",
            population="town",
            manifest=json.dumps(MANIFEST),
            row_count=10,
            lattice_digest="2" * 64,
            snapshot_nonce="3" * 64,
            snapshot_commitment="0" * 64,
            created_at=MOMENT,
        )
        for row in chain:
            insert("ledger_entries", **row)
        insert("grants", principal_id=actor, dataset_id="ds_1", created_at=MOMENT)
        insert(
            "releases",
            id="rel_000000000000000000000001",
            dataset_id="ds_1",
            population="town",
            sequence=3,
            request_digest="1" * 64,
            answer=ANSWER,
        )
        insert(
            "idempotency_keys",
            principal_id=actor,
            key="old",
            fingerprint="1" * 64 + ":any",
            release_id="rel_000000000000000000000001",
        )
    yield curator, settings, token.text
    curator.database.dispose()


def test_an_unsigned_ledger_is_taken_over_and_signed(old: tuple[Curator, Settings, str]) -> None:
    curator, settings, token = old
    curator.database.upgrade()
    assert curator.ledger.guard.start() == ""
    found = curator.ledger.verify("town")
    assert (found.ok, found.reason, found.entries) == (True, "", 4)
    assert [entry["kind"] for entry in curator.ledger.list_entries("town")] == ["open", "dataset", "charge", "key"]
    (share,) = found.state.shares.values()
    assert share.posted == COST  # what the analyst spent before counts against a limit that is set later
    api = Api(create_app(settings, now=Ticking(EPOCH)), token)
    kept = api.get("/v1/releases/rel_000000000000000000000001")
    assert kept.status_code == 200
    assert kept.text.startswith(ANSWER[:-1])
    api.app.state.curator.database.dispose()
    api.close()


def test_an_unsigned_entry_that_was_changed_before_it_was_taken_over_seals(old: tuple[Curator, Settings, str]) -> None:
    curator, _settings, _token = old
    with curator.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE populations SET posted_units = 1")
    curator.database.upgrade()
    assert "town" in curator.ledger.guard.start()
    assert curator.ledger.guard.reason()


def test_a_signed_ledger_cannot_pass_for_an_unsigned_one(old: tuple[Curator, Settings, str]) -> None:
    """Whoever drops the keys and signs nothing gets a new key, and is told apart by the anchor."""
    curator, settings, _token = old
    curator.database.upgrade()
    assert curator.ledger.guard.start() == ""
    with curator.database.engine.begin() as connection:
        for trigger in ("signing_keys_no_delete", "signing_keys_append_only"):
            if curator.database.is_sqlite == trigger.endswith("delete"):
                table = "" if curator.database.is_sqlite else " ON signing_keys"
                connection.exec_driver_sql(f"DROP TRIGGER {trigger}{table}")
        connection.exec_driver_sql("DELETE FROM signing_keys")
    again = make_curator(settings, now=Ticking(EPOCH))
    assert "not signed by any key" in again.ledger.guard.start()
    again.database.dispose()


def test_the_new_schema_goes_back_and_forth_with_what_it_holds(old: tuple[Curator, Settings, str]) -> None:
    curator, _settings, _token = old
    curator.database.upgrade()
    assert curator.ledger.guard.start() == ""
    curator.database.downgrade("0001")
    with curator.database.engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM ledger_entries")).scalar() == 4
        assert connection.execute(text("SELECT key, release_id FROM idempotency_keys")).all() == [
            ("old", "rel_000000000000000000000001")
        ]
        with pytest.raises(Exception, match="append-only"):
            connection.exec_driver_sql("DELETE FROM idempotency_keys")
    curator.database.upgrade()
    with curator.database.engine.connect() as connection:
        assert connection.execute(text("SELECT key FROM idempotency_keys")).all() == [("old",)]
