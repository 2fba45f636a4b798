"""Which entries are believed: signed ones in their place, and older ones that a signed one covers."""

import json
from collections.abc import Callable

import pytest
from support import World, body

from curator_service.ledger.chain.attestation import is_attested, list_attested
from curator_service.ledger.chain.entries import GENESIS, StoredEntry, canonical, entry_hash
from curator_service.ledger.chain.verification import AccountState, verify_chain
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
    with world.curator.database.read() as connection:
        return is_attested(connection, population, entry, world.curator.ledger.guard.trust.holds)


def test_what_the_curator_wrote_is_believed(world: World, entries: list[StoredEntry]) -> None:
    assert all(believes(world, "town", entry) for entry in entries)
    with world.curator.database.read() as connection:
        found = list_attested(connection, "town", "charge", world.curator.ledger.guard.trust.holds)
    assert [facts["kind"] for facts in found] == ["charge", "charge"]


FORGERIES: dict[str, Callable[[StoredEntry, StoredEntry], StoredEntry]] = {
    "another place": lambda a, _: StoredEntry(a.sequence + 1, a.payload, a.entry_hash, a.signature),
    "before the chain": lambda a, _: StoredEntry(-a.sequence, a.payload, a.entry_hash, a.signature),
    "a signature of another entry": lambda a, b: StoredEntry(a.sequence, a.payload, a.entry_hash, b.signature),
    "no signature": lambda a, _: StoredEntry(a.sequence, a.payload, a.entry_hash, ""),
    "another text": lambda a, _: StoredEntry(
        a.sequence, a.payload.replace("cohort", "cohorn"), a.entry_hash, a.signature
    ),
    "another text and its hash": lambda a, _: StoredEntry(
        a.sequence,
        a.payload.replace("cohort", "cohorn"),
        entry_hash(a.payload.replace("cohort", "cohorn")),
        a.signature,
    ),
    "no entry": lambda a, _: StoredEntry(a.sequence, "[]", a.entry_hash, a.signature),
}


@pytest.mark.parametrize("name", list(FORGERIES))
def test_a_forgery_is_not_believed(world: World, entries: list[StoredEntry], name: str) -> None:
    *_, charge, last = (entry for entry in entries if json.loads(entry.payload)["kind"] == "charge")
    assert not believes(world, "town", FORGERIES[name](charge, last))


def test_an_entry_of_another_population_is_not_believed(world: World, entries: list[StoredEntry]) -> None:
    assert not believes(world, "valley", entries[0])


def unsigned(entry: StoredEntry, **changes: object) -> StoredEntry:
    """Write an entry again in the format that had no signatures."""
    payload = canonical(json.loads(entry.payload) | {"format": 1} | changes)
    return StoredEntry(entry.sequence, payload, entry_hash(payload, 1), "")


def test_an_unsigned_entry_is_believed_only_where_a_signed_one_follows_its_hash(
    world: World, entries: list[StoredEntry]
) -> None:
    first = unsigned(entries[0])
    assert not believes(world, "town", first)  # the second entry follows another one
    assert not believes(world, "town", unsigned(entries[-1]))  # nothing follows


def test_no_unsigned_entry_follows_a_signed_one() -> None:
    terms = {"adjacency": "add_remove", "accountant": "gdp", "delta": "1e-06", "actor": "a", "time": "t"}
    chain: list[StoredEntry] = []

    def add(kind: str, units: int, limit: int, *, is_signed: bool, **facts: str) -> None:
        previous = chain[-1].entry_hash if chain else GENESIS
        place = {"population": "p", "sequence": len(chain) + 1, "previous_hash": previous, "units": str(units)}
        account = {"limit": str(limit), "posted": "0", "pending": "0", "epoch": 1, "key_id": "k"}
        version = 2 if is_signed else 1
        payload = canonical(
            {**terms, "kind": kind, "format": version, **place, **(account if is_signed else {}), **facts}
        )
        signature = "s" if is_signed else ""
        chain.append(StoredEntry(len(chain) + 1, payload, entry_hash(payload, version), signature))

    def verified() -> str:
        account = AccountState(limit=1000, highest_limit=1000, sequence=len(chain), head=chain[-1].entry_hash)
        account.terms = ("add_remove", "gdp", "1e-06", "t")
        return verify_chain("p", chain, account, lambda *_: True, every_signature=False).reason

    add("open", 10, 10, is_signed=False)
    add("limit", 1000, 1000, is_signed=False, approved_by="b")
    add("dataset", 0, 1000, is_signed=True)
    assert verified() == ""
    chain.clear()
    add("open", 10, 10, is_signed=True)
    add("limit", 1000, 1000, is_signed=False, approved_by="b")
    add("dataset", 0, 1000, is_signed=True)
    assert "without a signature" in verified()
