"""Which entries may be believed: those that this curator signed, and older ones that a signed one covers by hashes.

Whoever may insert into the log can put entries there, and rows beside it. What decides about a charge, or is served as
an answer, is believed on an entry that is attested, and on nothing else.
"""

from collections.abc import Callable
from typing import Any

from pydantic_core import from_json

from curator_service.kit.db import Connection
from curator_service.ledger import repository
from curator_service.ledger.chain.entries import UNSIGNED_FORMAT, Receipt, StoredEntry, entry_hash

Holds = Callable[[Receipt], bool]
"""Whether a receipt is whole, and signed by this curator."""


def is_attested(connection: Connection, population: str, entry: StoredEntry, holds: Holds) -> bool:
    """Tell whether an entry of a population stands where it was written, and is signed or covered by a signed one."""
    following = repository.iterate_entries(connection, population, after=entry.sequence)
    try:
        facts = _facts_in_place(population, entry)
        while not entry.signature:
            if facts["format"] != UNSIGNED_FORMAT or entry_hash(entry.payload, UNSIGNED_FORMAT) != entry.entry_hash:
                return False
            covering = next(following, None)
            if covering is None:
                return False
            facts = _facts_in_place(population, covering)
            if facts["previous_hash"] != entry.entry_hash:
                return False
            entry = covering
    except (ValueError, KeyError, TypeError):
        return False
    return holds(Receipt(entry.payload, entry.entry_hash, entry.signature))


def list_attested(connection: Connection, population: str, kind: str, holds: Holds) -> list[dict[str, Any]]:
    """Return what the attested entries of one kind say, in order."""
    found = repository.iterate_kind(connection, population, kind)
    return [from_json(entry.payload) for entry in found if is_attested(connection, population, entry, holds)]


def _facts_in_place(population: str, entry: StoredEntry) -> dict[str, Any]:
    facts: dict[str, Any] = from_json(entry.payload)
    if (facts["population"], facts["sequence"]) != (population, entry.sequence):
        raise ValueError("the entry was moved")
    return facts
