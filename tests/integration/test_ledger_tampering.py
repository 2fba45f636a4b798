"""Changes behind the service's back: `curator ledger verify` sees each and names the first bad place."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from support import World, body, open_world

from curator_service.cli.ledger import verify_one
from curator_service.container import make_curator
from curator_service.entries.amounts import Charge
from curator_service.kinds.gram import plan as planning
from curator_service.kinds.gram import sensitivity
from curator_service.kinds.gram.kind import Gram
from curator_service.kit.problems import RequestInvalid
from curator_service.ledger.chain.entries import Checkpoint, canonical, entry_hash
from curator_service.ledger.chain.signing import SigningError
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution
from curator_service.releases import acts, audit, charges, publisher, service

RELEASES = "/v1/datasets/cohort/releases"
RESERVATIONS = "/v1/datasets/cohort/reservations"
LAST = 9
FIRST = "SELECT payload FROM ledger_entries WHERE population = 'town' AND sequence = 1"


@pytest.fixture
def tampered(tmp_path: Path) -> Iterator[World]:
    """Return a world with a chain of nine entries and no triggers.

    Open, dataset, two permits, three charges at once (5, 6, 7), and a charge (9) of what was reserved (8).
    """
    with open_world(tmp_path) as world:
        add_charges(world)
        found = [row[0] for row in world.sql("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        assert found
        world.sql(*(f"DROP TRIGGER {name}" for name in found))
        yield world


def tamper(world: World, *statements: str) -> list[tuple[Any, ...]]:
    """Run raw SQL as an intruder would: on the file itself, without foreign keys."""
    with closing(sqlite3.connect(str(world.curator.database.url.database))) as connection:
        rows = [connection.execute(statement).fetchall() for statement in statements]
        connection.commit()
    return rows[-1]


def add_charges(world: World) -> None:
    """Buy three releases without a pass over rows and one with, and see that all is well."""
    api = world.api()
    for i, rows in enumerate(["box", "box", "box", "ball"]):
        assert api.post(RELEASES, json=body(rows={"map": rows}, fresh=True), key=f"k{i}").status_code == 201
    assert [entry["kind"] for entry in world.entries()] == [
        "open", "dataset", "permit", "permit", "charge", "charge", "charge", "reserve", "charge",
    ]  # fmt: skip
    assert world.curator.ledger.verify("town").ok
    assert world.discrepancies() == []


@pytest.mark.postgres
def test_verification_reads_postgresql_the_same_way(tmp_path: Path, postgres_url: str) -> None:
    with open_world(tmp_path, url=postgres_url) as world:
        add_charges(world)
        tables = ("ledger_entries", "releases", "idempotency_keys", "snapshots")
        world.sql(*(f"DROP TRIGGER {table}_append_only ON {table}" for table in tables))
        world.sql("ALTER TABLE releases DROP CONSTRAINT fk_releases_entry")
        world.sql("UPDATE releases SET answer = replace(answer, 'gram', 'gran') WHERE sequence = 6")
        assert len(world.discrepancies()) == 1
        world.sql("DELETE FROM ledger_entries WHERE population = 'town' AND sequence = 7")
        assert bad_sequence(world) == 7
        rewrite(world, 5, rehash=False, units="1")
        assert bad_sequence(world) == 5


def bad_sequence(world: World) -> int | None:
    return world.curator.ledger.verify("town").bad_sequence


def rewrite(world: World, place: int, *, rehash: bool, stolen_key: bool = False, **payload: object) -> str:
    """Change what an entry says, with or without a hash that fits, and the curator's signature; return its hash."""
    (text,) = world.sql(f"SELECT payload FROM ledger_entries WHERE population = 'town' AND sequence = {place}")[0]
    payload_text = canonical({**json.loads(text), **payload})
    assert payload_text != text
    digest = entry_hash(payload_text)
    changes = {"payload": payload_text} | ({"entry_hash": digest} if rehash else {})
    if stolen_key:
        changes["signature"] = sign(world, payload_text)
    quoted = ", ".join(f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in changes.items())
    world.sql(f"UPDATE ledger_entries SET {quoted} WHERE population = 'town' AND sequence = {place}")
    return digest


def sign(world: World, payload_text: str) -> str:
    """Sign an entry as whoever stole the curator's private key could."""
    checkpoint = Checkpoint.read(json.loads(payload_text) | {"entry_hash": entry_hash(payload_text)})
    return world.curator.ledger.guard.signer().sign(checkpoint)


@pytest.mark.parametrize(
    "fact",
    [
        {"units": "1"},
        {"actor": "prn_nobody"},
        {"kind": "dataset"},
        {"time": "2020-01-01T00:00:00Z"},
        {"release": "rel_0"},
        {"answer_digest": "0" * 64},
        {"previous_hash": "0" * 64},
        {"population": "valley"},
        {"sequence": 11},
        {"format": 1},
        {"format": 3},
        {"limit": "1"},
        {"posted": "1"},
        {"pending": "1"},
        {"epoch": 2},
        {"key_id": "key_0000000000000000"},
        {"mechanism": []},
        {"more": "x"},
    ],
    ids=lambda fact: next(iter(fact)),
)
def test_a_changed_entry_is_found(tampered: World, fact: dict[str, object]) -> None:
    rewrite(tampered, 6, rehash=False, **fact)
    assert bad_sequence(tampered) == 6


@pytest.mark.parametrize("place", [8, LAST])
@pytest.mark.parametrize(
    "fact", [{"reservation": "job_0"}, {"units": "1"}, {"from": "res_0"}, {"project": "x"}], ids=str
)
def test_a_changed_reservation_in_the_chain_is_found(tampered: World, place: int, fact: dict[str, object]) -> None:
    rewrite(tampered, place, rehash=False, **fact)
    assert bad_sequence(tampered) == place


@pytest.mark.parametrize(
    "fact", [{"units": "1"}, {"actor": "prn_nobody"}, {"posted": "1"}, {"time": "2020-01-01T00:00:00Z"}], ids=str
)
def test_a_changed_entry_with_a_new_hash_is_found(tampered: World, fact: dict[str, object]) -> None:
    """Nobody but the curator signs it."""
    rewrite(tampered, 6, rehash=True, **fact)
    assert bad_sequence(tampered) == 6


def test_a_changed_entry_with_a_new_hash_and_signature_is_found(tampered: World) -> None:
    rewrite(tampered, 6, rehash=True, stolen_key=True, time="2020-01-01T00:00:00Z")
    assert bad_sequence(tampered) == 7  # the next entry does not follow it
    rewrite(tampered, 6, rehash=True, stolen_key=True, units="1")
    assert bad_sequence(tampered) == 6  # it states what the account was, with another amount


@pytest.mark.parametrize("stolen_key", [False, True])
def test_a_changed_last_entry_with_a_new_hash_is_found(tampered: World, stolen_key: bool) -> None:
    rewrite(tampered, LAST, rehash=True, stolen_key=stolen_key, answer_digest="0" * 64)
    assert bad_sequence(tampered) == (LAST + 1 if stolen_key else LAST)


@pytest.mark.parametrize("place", range(1, LAST + 1))
@pytest.mark.parametrize(
    "source", ["''", "'AAAA'", "'ü'", "(SELECT signature FROM ledger_entries WHERE population = 'valley' LIMIT 1)"]
)
def test_a_changed_signature_is_found(tampered: World, place: int, source: str) -> None:
    tamper(tampered, f"UPDATE ledger_entries SET signature = {source} WHERE population = 'town' AND sequence = {place}")
    assert bad_sequence(tampered) == place


@pytest.mark.parametrize("change", ["public_key = 'AAAA'", "key_id = 'key_0000000000000000'", "previous = 'key_0'"])
def test_a_changed_public_key_is_found(tampered: World, change: str) -> None:
    tamper(tampered, f"UPDATE signing_keys SET {change}")
    with pytest.raises(SigningError):
        make_curator(tampered.settings).ledger.verify("town")


def test_a_mechanism_that_costs_something_else_is_found(tampered: World) -> None:
    (text,) = tampered.sql("SELECT payload FROM ledger_entries WHERE population = 'town' AND sequence = 6")[0]
    stated = json.loads(text)["mechanism"]
    quieter = [part | {"scales": [str(2 * int(scale)) for scale in part["scales"]]} for part in stated]
    for mechanism in ([{}], "none"):
        rewrite(tampered, 6, rehash=True, mechanism=mechanism)
        assert tampered.curator.ledger.verify("town").reason == "the entry's text is not an entry"
        rewrite(tampered, 6, rehash=True, mechanism=stated)
    for mechanism in (quieter, []):
        assert tampered.discrepancies() == []
        rewrite(tampered, 6, rehash=True, mechanism=mechanism)
        assert "the cost of sequence 6" in tampered.discrepancies()
        rewrite(tampered, 6, rehash=True, mechanism=stated)


HALVED: dict[str, tuple[str, dict[str, Any], Adjacency]] = {
    # what is too small: (where it comes from, what is bought, under which adjacency)
    **{
        f"{name}, {rows}, {mechanism}, {adjacency.value}": (
            name,
            {"rows": {"map": rows}, "mechanism": mechanism, "statistics": ["xtx", "xty", "yty", "lambda_min"]},
            adjacency,
        )
        for name, rows, mechanism in (
            ("xtx_box_l2_squared", "box", "gaussian"),
            ("xtx_norm_l2_squared", "ball", "gaussian"),
            ("xty_l2_squared", "unit", "gaussian"),
            ("yty", "unit_xy", "gaussian"),
            ("lambda_min", "box", "gaussian"),
            ("xtx_box_l1", "box", "laplace"),
            ("xtx_norm_l1", "ball", "laplace"),
            ("xty_l1", "box", "laplace"),
            ("yty", "ball", "laplace"),
            ("lambda_min", "ball", "laplace"),
        )
        for adjacency in Adjacency
    },
    "curvature": ("xtx_box_joint_constant", {"rows": {"map": "box"}}, Adjacency.REPLACE_ONE),
}


def forget_plans() -> None:
    """Forget what was planned before a function was changed."""
    planning._plan.cache_clear()
    acts._prepare_again.cache_clear()


@pytest.mark.parametrize("what", list(HALVED))
def test_a_charge_for_half_of_its_sensitivity_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Its cost, its noise, its answer and its signature all agree with what it states."""
    name, changes, adjacency = HALVED[what]
    true = getattr(sensitivity, name)
    with open_world(tmp_path, adjacency=adjacency) as world:
        right = body(**changes, price={"epsilon": 0.2, "delta": 1e-6}, fresh=True)
        if changes.get("mechanism") == "laplace":
            right["price"] = {"epsilon": 0.2}
        assert world.api().post(RELEASES, json=right, key="right").status_code == 201
        assert world.discrepancies() == []
        monkeypatch.setattr(sensitivity, name, lambda *arguments, **more: true(*arguments, **more) / 2)
        forget_plans()
        assert world.api().post(RELEASES, json=right, key="wrong").status_code == 201
        assert world.discrepancies() != []  # the other one is wrong by what is taken for true now
        monkeypatch.setattr(sensitivity, name, true)
        forget_plans()
        assert world.curator.ledger.verify("town").ok
        place = world.entries()[-1]["sequence"]
        assert world.discrepancies() == [f"the sensitivities of sequence {place}"]
        found = verify_one(world.curator, "town")
        assert (found["ok"], found["bad_sequence"]) == (False, place)
        assert f"the sensitivities of sequence {place}" in found["reason"]


@pytest.mark.parametrize("change", ["pairs", "copies", "statistic", "law", "order", "curvature", "request"])
def test_a_charge_that_states_another_mechanism_than_was_asked_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Each of them is less noise, or noise for something else, at a price that its integers bear out."""
    written = charges.state_charge

    def misstate(*given: Any) -> Charge:
        charge = written(*given)
        xtx, *rest = charge.mechanism
        pairs = (xtx.scales[0], str(int(xtx.scales[0]) * 8 // 10))
        laplace = {"distribution": Distribution.DISCRETE_LAPLACE, "norm": "L1"}
        misstated: dict[str, dict[str, Any]] = {
            # The cost would stay as it is, as if pairs weighed √2 in the bound of a box.
            "pairs": {"mechanism": (xtx.model_copy(update={"scales": pairs}), *rest)},
            "copies": {"mechanism": tuple(part.model_copy(update={"copies": 2}) for part in charge.mechanism)},
            "statistic": {"mechanism": (xtx, *(part.model_copy(update={"statistic": "yty"}) for part in rest))},
            "law": {"mechanism": (xtx.model_copy(update=laplace), *rest)},
            "order": {"mechanism": (*rest, xtx)},
            "curvature": {"curvature": "1"},
        }
        return charge.model_copy(update=misstated.get(change, {}))

    monkeypatch.setattr(publisher, "state_charge", misstate)
    monkeypatch.setattr(audit, "_is_charged_right", lambda *_: True)
    monkeypatch.setattr(audit, "agrees_with_charge", lambda *_: True)
    if change == "request":  # one from which no sensitivity follows
        monkeypatch.setattr(Gram, "bounds", Mock(side_effect=RequestInvalid.at("/rows", "not today")))
    request = body(rows={"map": "box"}, targets=["kappa", "dose"])
    assert world.api().post(RELEASES, json=request, key="k").status_code == 201
    assert world.discrepancies() == [f"the sensitivities of sequence {world.entries()[-1]['sequence']}"]


def test_sensitivities_are_derived_once_for_requests_that_differ_in_price(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived = []
    derive = Gram.bounds
    monkeypatch.setattr(Gram, "bounds", lambda *asked: derived.append(asked) or derive(*asked))
    for i in range(6):
        request = body(rows={"map": "box"}, features=["age"] if i % 2 else ["sex"], price={"mu": 0.01 * (i + 1)})
        assert world.api().post(RELEASES, json=request, key=f"k{i}").status_code == 201
    assert world.discrepancies() == []
    assert len(derived) == 2


def test_a_changed_hash_is_found(tampered: World) -> None:
    tamper(tampered, f"UPDATE ledger_entries SET entry_hash = '{'0' * 64}' WHERE population = 'town' AND sequence = 5")
    assert bad_sequence(tampered) == 5


def test_text_that_is_no_entry_is_found(tampered: World) -> None:
    tamper(
        tampered,
        f"UPDATE ledger_entries SET payload = '[]', entry_hash = '{entry_hash('[]')}' "
        "WHERE population = 'town' AND sequence = 5",
    )
    assert bad_sequence(tampered) == 5


@pytest.mark.parametrize("sequence", range(1, LAST + 1))
def test_a_deleted_entry_is_found(tampered: World, sequence: int) -> None:
    tamper(tampered, f"DELETE FROM ledger_entries WHERE population = 'town' AND sequence = {sequence}")
    assert bad_sequence(tampered) == sequence


def test_an_emptied_chain_is_found(tampered: World) -> None:
    tamper(tampered, "DELETE FROM ledger_entries WHERE population = 'town'")
    assert bad_sequence(tampered) == 1


@pytest.mark.parametrize("stolen_key", [False, True])
def test_an_inserted_entry_is_found(tampered: World, stolen_key: bool) -> None:
    """Also one that would be a sound next entry, when the account's row does not know it."""
    last = tampered.entries()[6]
    before = tampered.entries()[-1]
    payload_text = canonical(
        {
            **{name: value for name, value in last.items() if name not in {"entry_hash", "signature"}},
            "sequence": LAST + 1,
            "previous_hash": before["entry_hash"],
            "posted": str(int(before["posted"]) + int(last["units"])),
        }
    )
    signature = sign(tampered, payload_text) if stolen_key else before["signature"]
    tamper(
        tampered,
        f"INSERT INTO ledger_entries VALUES ('town', {LAST + 1}, '{payload_text}', "
        f"'{entry_hash(payload_text)}', '{signature}')",
    )
    assert bad_sequence(tampered) == (LAST + 2 if stolen_key else LAST + 1)


def test_swapped_entries_are_found(tampered: World) -> None:
    tamper(
        tampered,
        "UPDATE ledger_entries SET sequence = 99 WHERE population = 'town' AND sequence = 5",
        "UPDATE ledger_entries SET sequence = 5 WHERE population = 'town' AND sequence = 6",
        "UPDATE ledger_entries SET sequence = 6 WHERE population = 'town' AND sequence = 99",
    )
    assert bad_sequence(tampered) == 5


def test_entries_of_another_population_are_found(tampered: World) -> None:
    tamper(
        tampered,
        "DELETE FROM ledger_entries WHERE population = 'valley' AND sequence = 1",
        "UPDATE ledger_entries SET population = 'valley' WHERE population = 'town' AND sequence = 1",
    )
    assert tampered.curator.ledger.verify("valley").bad_sequence == 1
    assert bad_sequence(tampered) == 1


@pytest.mark.parametrize("tail", [1, 2, 3, 4, 5])
def test_a_cut_tail_is_found(tampered: World, tail: int) -> None:
    tamper(tampered, f"DELETE FROM ledger_entries WHERE population = 'town' AND sequence > {LAST - tail}")
    assert bad_sequence(tampered) == LAST + 1 - tail


@pytest.mark.parametrize(
    "change",
    [
        "limit_units = limit_units + 1",
        "highest_limit_units = highest_limit_units - 1",
        "posted_units = posted_units - 1",
        "posted_units = 0",
        "head_sequence = head_sequence + 1",
        "head_sequence = head_sequence - 1",
        f"head_hash = '{'0' * 64}'",
        "epoch = epoch + 1",
        "posted_units = posted_units - 1, pending_units = pending_units + 1",
    ],
)
def test_a_changed_account_is_found(tampered: World, change: str) -> None:
    tamper(tampered, f"UPDATE populations SET {change} WHERE name = 'town'")
    assert bad_sequence(tampered) is not None


@pytest.mark.parametrize(
    "change",
    [
        "adjacency = 'replace_one'",
        "accountant = 'zcdp'",
        "delta = '1e-05'",
        "pending_units = 1",
        "created_at = '2020-01-01T00:00:00Z'",
    ],
)
def test_an_account_that_differs_from_its_opening_entry_is_found(tampered: World, change: str) -> None:
    """Adjacency decides the noise, and the opening entry fixes it."""
    tamper(tampered, f"UPDATE populations SET {change} WHERE name = 'town'")
    assert bad_sequence(tampered) is not None


@pytest.mark.parametrize(
    "act",
    [
        "UPDATE shares SET posted_units = posted_units - 1 WHERE posted_units > 0",
        "UPDATE shares SET limit_units = 900000000000",
        "UPDATE shares SET permit_id = 'prm_nobody' WHERE posted_units > 0",
        "UPDATE shares SET pending_units = 0",
        "DELETE FROM shares",
        "INSERT INTO shares VALUES ('town', 'prm_free', 900000000000, '', 0, 0)",
        "UPDATE reservations SET units = units + 1 WHERE state = 'open'",
        "UPDATE reservations SET drawn_units = 1 WHERE state = 'open'",
        "UPDATE reservations SET state = 'closed' WHERE state = 'open'",
        "UPDATE reservations SET state = 'open', drawn_units = 0 WHERE state = 'closed'",
        "DELETE FROM reservations WHERE state = 'open'",
    ],
)
def test_a_changed_share_or_reservation_is_found(tampered: World, act: str) -> None:
    """Who may still spend what is part of what the chain adds up to."""
    reservation = {"price": {"mu": 0.01}, "expires_in_s": 3600}
    assert tampered.api().post(RESERVATIONS, json=reservation, key="reserves").status_code == 201
    assert bad_sequence(tampered) is None
    tamper(tampered, act)
    assert bad_sequence(tampered) == LAST + 2


@pytest.mark.parametrize(
    "change",
    [
        'answer = replace(answer, \'"kind":"gram"\', \'"kind":"gran"\')',
        "id = 'rel_000000000000000000000000'",
        "sequence = 77",
        "population = 'valley'",
        f"request_digest = '{'0' * 64}'",
        "dataset_id = (SELECT id FROM datasets WHERE name = 'hidden')",
    ],
    ids=lambda change: change.split(" ")[0],
)
def test_a_changed_release_is_found(tampered: World, change: str) -> None:
    """Each column: a wrong request digest or dataset would hand an answer to whoever did not ask or may not read."""
    if change.startswith("id "):  # nothing may point to it
        tamper(tampered, "DELETE FROM idempotency_keys")
    tamper(tampered, f"UPDATE releases SET {change} WHERE population = 'town' AND sequence = 6")
    assert tampered.discrepancies() != []


@pytest.mark.parametrize(
    "change",
    [
        "manifest = replace(manifest, '\"row_capacity\":', '\"row_capacity\":1')",
        f"snapshot_commitment = '{'0' * 64}'",
        "name = 'renamed'",
    ],
    ids=lambda change: change.split(" ")[0],
)
def test_a_changed_dataset_is_found(tampered: World, change: str) -> None:
    """Bounds decide what noise means: the registration's entry holds the manifest's digest."""
    tamper(tampered, f"UPDATE datasets SET {change} WHERE name = 'cohort'")
    assert any(found.startswith("dataset ") for found in tampered.discrepancies())


def test_a_deleted_release_is_found(tampered: World) -> None:
    tamper(tampered, "DELETE FROM idempotency_keys", "DELETE FROM releases WHERE sequence = 6")
    assert tampered.discrepancies() == ["sequence 6"]


def test_swapped_answers_are_found(tampered: World) -> None:
    tamper(
        tampered,
        "UPDATE releases SET sequence = 99 WHERE sequence = 5",
        "UPDATE releases SET sequence = 5 WHERE sequence = 6",
        "UPDATE releases SET sequence = 6 WHERE sequence = 99",
    )
    assert len(tampered.discrepancies()) == 2


APPEND_ONLY = {
    "ledger_entries": "payload",
    "releases": "answer",
    "idempotency_keys": "fingerprint",
    "signing_keys": "public_key",
}
UNCHANGED = {"snapshots": "digest", "sketches": "sealed"}
"""What an erasure deletes, and nothing alters."""


def test_append_only_tables_refuse_changes(both: World) -> None:
    for rows in ("box", "ball"):
        assert both.api().post(RELEASES, json=body(rows={"map": rows}), key=rows).status_code == 201
    for table, column in (APPEND_ONLY | UNCHANGED).items():
        before = both.sql(f"SELECT * FROM {table}")
        acts = [f"UPDATE {table} SET {column} = 'x'", *([] if table in UNCHANGED else [f"DELETE FROM {table}"])]
        if table == "idempotency_keys":
            acts.append("UPDATE idempotency_keys SET release_id = NULL")
        for act in acts if both.curator.database.is_sqlite else [*acts, f"TRUNCATE {table} CASCADE"]:
            with pytest.raises(Exception, match=r"append-only|never changes"):
                both.sql(act)
        assert both.sql(f"SELECT * FROM {table}") == before


@pytest.mark.parametrize("change", ["fingerprint = 'x'", "key = 'x'", "principal_id = 'prn_nobody'"])
def test_a_key_that_waits_for_its_answer_keeps_its_request(both: World, change: str) -> None:
    """Its answer alone may be written, once: whoever voided its job may not hand it to another request."""
    reservation = {"price": {"mu": 0.01}, "expires_in_s": 3600}
    assert both.api().post(RESERVATIONS, json=reservation, key="waits").status_code == 201
    before = both.sql("SELECT * FROM idempotency_keys")
    with pytest.raises(Exception, match=r"append-only|never changes"):
        both.sql(f"UPDATE idempotency_keys SET {change}")
    with pytest.raises(Exception, match="append-only"):
        both.sql("DELETE FROM idempotency_keys")
    assert both.sql("SELECT * FROM idempotency_keys") == before


@pytest.mark.parametrize("table", list(APPEND_ONLY))
def test_append_only_tables_refuse_replacement(world: World, table: str) -> None:
    """SQLite's REPLACE deletes without firing DELETE triggers, unless recursive triggers are on."""
    assert world.api().post(RELEASES, json=body(), key="k").status_code == 201
    with pytest.raises(Exception, match="append-only"):
        world.sql(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")


def test_a_population_with_history_cannot_be_deleted(both: World) -> None:
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        both.sql("DELETE FROM populations WHERE name = 'town'")


@pytest.mark.parametrize("change", ["posted_units = limit_units + 1", "pending_units = -1", "posted_units = -1"])
def test_the_database_itself_refuses_an_account_beyond_its_limit(both: World, change: str) -> None:
    with pytest.raises(Exception, match=r"(?i)check constraint"):
        both.sql(f"UPDATE populations SET {change} WHERE name = 'town'")


def test_a_history_that_begins_without_signatures_is_refused(tampered: World) -> None:
    """As one of the format that was never released: hashed its own way, and followed by what is signed."""
    payload_text = canonical(json.loads(tamper(tampered, FIRST)[0][0]) | {"format": 1})
    previous = hashlib.sha256(b"curator-ledger-entry:1\n" + payload_text.encode()).hexdigest()
    tamper(
        tampered,
        f"UPDATE ledger_entries SET payload = '{payload_text}', entry_hash = '{previous}', signature = '' "
        "WHERE population = 'town' AND sequence = 1",
    )
    for sequence in range(2, LAST + 1):
        previous = rewrite(tampered, sequence, rehash=True, stolen_key=True, previous_hash=previous)
    tamper(tampered, f"UPDATE populations SET head_hash = '{previous}' WHERE name = 'town'")
    found = tampered.curator.ledger.verify("town")
    assert (found.bad_sequence, "format" in found.reason) == (1, True)
    started = tampered.curator.ledger.guard.start()
    assert "broken at sequence 1" in started
    assert "format" in started
    asked = tampered.api().post(RELEASES, json=body(fresh=True), key="new")
    assert (asked.status_code, asked.json()["type"]) == (503, "/problems/ledger-unverified")


def receipts(world: World) -> list[dict[str, Any]]:
    """Return the receipts of every release, as an analyst reads them."""
    listed = world.api().get(RELEASES).json()["releases"]
    return [world.api().get(f"/v1/releases/{item['id']}").json()["receipt"] for item in listed]


def rewrite_history(world: World, *, stolen_key: bool) -> None:
    """Make the first charge cost nothing to speak of, and everything else agree with it."""
    previous, saved = "", int(world.entries()[4]["units"]) - 1
    for sequence in range(5, LAST + 1):
        posted = str(int(world.entries()[sequence - 1]["posted"]) - saved)
        payload = {"units": "1"} if sequence == 5 else {"previous_hash": previous}
        previous = rewrite(world, sequence, rehash=True, stolen_key=stolen_key, posted=posted, **payload)
    tamper(
        world,
        f"UPDATE populations SET head_hash = '{previous}', posted_units = posted_units - {saved} WHERE name = 'town'",
        f"UPDATE shares SET posted_units = posted_units - {saved} WHERE population = 'town' AND posted_units > 0",
        f"UPDATE spending SET units = units - {saved} WHERE population = 'town'",
    )


def test_replacing_every_hash_from_a_changed_entry_on_is_found(tampered: World) -> None:
    rewrite_history(tampered, stolen_key=False)
    assert bad_sequence(tampered) == 5


def test_replacing_every_hash_and_signature_is_still_found_by_the_holder_of_a_receipt(tampered: World) -> None:
    """Whoever holds the database and the key can rewrite it all; a receipt that has left no longer matches."""
    held = [receipt["entry_hash"] for receipt in receipts(tampered)]
    assert len(held) == 4
    rewrite_history(tampered, stolen_key=True)
    assert bad_sequence(tampered) is None
    assert not set(held) & {entry["entry_hash"] for entry in tampered.entries()}
    assert not set(held) & {receipt["entry_hash"] for receipt in receipts(tampered)}
    assert "which its anchor" in tampered.curator.ledger.guard.start()  # nor does the anchor


@pytest.mark.parametrize("at_once", [1, 2, 4, 100])
def test_an_answer_that_was_edited_and_that_nobody_asks_for_ends_purchases(
    tampered: World, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(service, "CHECKED_AT_ONCE", at_once)
    world, api = tampered, tampered.api()
    rounds = 8 // at_once + 1
    for _ in range(2 * rounds):
        api.app.state.curator.releases.check_stored()
    assert api.post(RELEASES, json=body(fresh=True), key="before").status_code == 201
    tamper(world, "UPDATE releases SET answer = replace(answer, 'gram', 'gran') WHERE sequence = 6")
    for _ in range(rounds):
        api.app.state.curator.releases.check_stored()
    assert api.post(RELEASES, json=body(fresh=True), key="after").status_code == 503
    assert "is not what the ledger says of it" in world.curator.ledger.guard.reason()
