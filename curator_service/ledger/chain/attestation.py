"""Attested entries: this curator signed them, in the place where they stand.

Whoever may insert into the log can put entries there, and rows beside it. What decides about a charge, or is served as
an answer, is believed on an entry that is attested, and on nothing else.
"""

from collections.abc import Callable, Collection

from pydantic_core import from_json

from curator_service.entries.base import E, Entry
from curator_service.kit.db import Connection
from curator_service.ledger import repository
from curator_service.ledger.chain.entries import Receipt, StoredEntry, entry_hash
from curator_service.ledger.chain.signing import KeyRing, KeyUnreadable, SigningError, Verifier

Holds = Callable[[Receipt], bool]
"""Whether a receipt is whole, and signed by this curator."""


def holds_receipt(keys: KeyRing, receipt: Receipt) -> bool:
    """Tell whether a receipt is whole, and signed by one of the curator's keys.

    Raises
    ------
    SigningError
        If the public keys do not follow from each other.
    """
    return _holds(lambda key_id: keys.verifier(knowing=key_id), receipt)


def holds_by_keys_that_follow(keys: KeyRing, receipt: Receipt) -> bool:
    """Tell whether a receipt is whole, and signed by a key that follows from the first; other keys are ignored.

    Raises
    ------
    KeyUnreadable
        If the file that names the first key cannot be read.
    """
    try:
        return holds_receipt(keys, receipt)
    except KeyUnreadable:
        raise
    except SigningError:
        verifier = keys.verifier_of_those_that_follow()
    return _holds(lambda _: verifier, receipt)


def _holds(find_verifier: Callable[[str], Verifier], receipt: Receipt) -> bool:
    try:
        checkpoint = receipt.signed.checkpoint
    except (ValueError, KeyError, TypeError):
        return False
    whole = entry_hash(receipt.payload_text) == receipt.entry_hash
    return find_verifier(checkpoint.key_id).holds(checkpoint, receipt.signature) and whole


def is_attested(population: str, entry: StoredEntry, holds: Holds) -> bool:
    """Tell whether an entry stands where it was written, in its population's chain, and is signed."""
    try:
        payload = from_json(entry.payload_text)
        place = payload["population"], payload["sequence"]
    except (ValueError, KeyError, TypeError):
        return False
    return place == (population, entry.sequence) and holds(
        Receipt(entry.payload_text, entry.entry_hash, entry.signature)
    )


def list_attested(
    connection: Connection,
    population: str,
    kind: type[E],
    holds: Holds,
    *,
    after: int = repository.BEFORE_ALL,
    about: tuple[str, Collection[str]] | None = None,
) -> list[Entry[E]]:
    """Return the attested entries of one kind after a sequence, in order.

    With `about`, a member and some values, those alone that say one of them there: no other signature is verified.
    """
    found = repository.iterate_kind(connection, population, kind.kind, after=after)
    return [
        Entry.read(from_json(entry.payload_text))
        for entry in found
        if (about is None or _says(entry, *about)) and is_attested(population, entry, holds)
    ]


def _says(entry: StoredEntry, member: str, values: Collection[str]) -> bool:
    try:
        return from_json(entry.payload_text).get(member) in values
    except (ValueError, AttributeError, TypeError):
        return False
