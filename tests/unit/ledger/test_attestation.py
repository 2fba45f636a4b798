"""Believed entries: signed ones in their place."""

import hashlib
import json
from collections.abc import Callable

import pytest
from support import World, body

from curator_service.entries.amounts import Charge
from curator_service.ledger.chain.attestation import is_attested, list_attested
from curator_service.ledger.chain.entries import Receipt, StoredEntry, canonical, entry_hash
from curator_service.ledger.repository import iterate_entries

RELEASES = "/v1/datasets/cohort/releases"


@pytest.fixture
def entries(world: World) -> list[StoredEntry]:
    """Return the chain of a population with two releases."""
    api = world.api()
    for key in ("a", "b"):
        assert api.post(RELEASES, json=body(fresh=True), key=key).status_code == 201
    with world.curator.database.read() as connection:
        return list(iterate_entries(connection, "town"))


def believes(world: World, population: str, entry: StoredEntry) -> bool:
    return is_attested(population, entry, world.curator.ledger.guard.trust.holds)


def test_what_the_curator_wrote_is_believed(world: World, entries: list[StoredEntry]) -> None:
    assert all(believes(world, "town", entry) for entry in entries)
    with world.curator.database.read() as connection:
        found = list_attested(connection, "town", Charge, world.curator.ledger.guard.trust.holds)
    assert [entry.said.kind for entry in found] == ["charge", "charge"]


def test_of_some_that_say_a_value_the_forged_ones_are_left_out(world: World, entries: list[StoredEntry]) -> None:
    """No other signature is verified, and what is no entry says nothing."""
    first, _ = (json.loads(entry.payload_text) for entry in entries if '"kind":"charge"' in entry.payload_text)
    last = entries[-1]
    stray = [first | {"sequence": last.sequence + 1, "release": "rel_forged"}, ["kind", "charge"]]
    texts = [*map(canonical, stray), '{"kind":"charge"']
    for i, text in enumerate(texts, start=1):
        values = f"'town', {last.sequence + i}, '{text}', '{entry_hash(text)}', '{last.signature}'"
        world.sql(
            f"INSERT INTO ledger_entries (population, sequence, payload, entry_hash, signature) VALUES ({values})"
        )
    asked: list[str] = []

    def holds(receipt: Receipt) -> bool:
        asked.append(json.loads(receipt.payload_text)["release"])
        return world.curator.ledger.guard.trust.holds(receipt)

    with world.curator.database.read() as connection:
        found = list_attested(connection, "town", Charge, holds, about=("release", {first["release"], "rel_forged"}))
    assert [entry.said.release for entry in found] == [first["release"]]
    assert sorted(asked) == sorted([first["release"], "rel_forged"])


FORGERIES: dict[str, Callable[[StoredEntry, StoredEntry], StoredEntry]] = {
    "another place": lambda a, _: StoredEntry(a.sequence + 1, a.payload_text, a.entry_hash, a.signature),
    "before the chain": lambda a, _: StoredEntry(-a.sequence, a.payload_text, a.entry_hash, a.signature),
    "a signature of another entry": lambda a, b: StoredEntry(a.sequence, a.payload_text, a.entry_hash, b.signature),
    "no signature": lambda a, _: StoredEntry(a.sequence, a.payload_text, a.entry_hash, ""),
    "another text": lambda a, _: StoredEntry(
        a.sequence, a.payload_text.replace("cohort", "cohorn"), a.entry_hash, a.signature
    ),
    "another text and its hash": lambda a, _: StoredEntry(
        a.sequence,
        a.payload_text.replace("cohort", "cohorn"),
        entry_hash(a.payload_text.replace("cohort", "cohorn")),
        a.signature,
    ),
    "no entry": lambda a, _: StoredEntry(a.sequence, "[]", a.entry_hash, a.signature),
    "a place alone": lambda a, _: StoredEntry(
        a.sequence, f'{{"population":"town","sequence":{a.sequence}}}', a.entry_hash, a.signature
    ),
}


@pytest.mark.parametrize("name", list(FORGERIES))
def test_a_forgery_is_not_believed(world: World, entries: list[StoredEntry], name: str) -> None:
    *_, charge, last = (entry for entry in entries if json.loads(entry.payload_text)["kind"] == "charge")
    assert not believes(world, "town", FORGERIES[name](charge, last))


def test_an_entry_of_another_population_is_not_believed(world: World, entries: list[StoredEntry]) -> None:
    assert not believes(world, "valley", entries[0])


def test_an_entry_of_the_format_without_signatures_is_not_believed(world: World, entries: list[StoredEntry]) -> None:
    """That format was never released: neither its own hash nor an entry that follows it makes it one."""
    payload_text = canonical(json.loads(entries[0].payload_text) | {"format": 1})
    for digest in (
        entry_hash(payload_text),
        hashlib.sha256(b"curator-ledger-entry:1\n" + payload_text.encode()).hexdigest(),
    ):
        assert not believes(world, "town", StoredEntry(1, payload_text, digest, ""))
