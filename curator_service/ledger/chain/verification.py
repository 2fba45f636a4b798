"""The verification of a chain: pure functions of its stored text."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from pydantic_core import from_json

from curator_service.entries.account import Account, Unfounded
from curator_service.entries.base import FORMAT, KINDS, Entry, Event
from curator_service.entries.recovery import Reconcile
from curator_service.entries.terms import Open
from curator_service.ledger.chain.entries import Checkpoint, StoredEntry, entry_hash


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a verification.

    Attributes
    ----------
    entries : int
        How many entries were read up to the first bad one.
    bad_sequence : int or None
        The first sequence at which the chain does not hold.
    reason : str
    state : Account
        What the entries up to there imply.
    """

    entries: int
    bad_sequence: int | None
    reason: str
    state: Account

    @property
    def ok(self) -> bool:
        """True if every entry holds and the account agrees."""
        return self.bad_sequence is None


_NO_ENTRY = "the entry's text is not an entry"
_UNSIGNED = "the signature is not one of this curator's on this entry"

SignatureCheck = Callable[[Checkpoint, str], bool]
Watch = Callable[[StoredEntry, Entry[Event]], None]
"""Is shown each entry that holds, as it was read."""


def verify_chain(
    population: str,
    entries: Iterable[StoredEntry],
    account: Account,
    holds: SignatureCheck,
    *,
    every_signature: bool = True,
    watch: Watch = lambda _stored, _entry: None,
) -> Verification:
    """Check every entry's hash, link, place and meaning, its signature, and the account's rows against their sum.

    Parameters
    ----------
    entries : iterable of StoredEntry
        In the order of their sequence.
    account : Account
        What the account's rows say.
    holds : callable
        Whether a signature on a checkpoint is one of the curator's.
    every_signature : bool
        Otherwise the last one alone, which covers the hashes of all entries before.
    watch : callable
        Is shown each entry that holds: so that its text is read once.
    """
    state, count, last = Account(), 0, None
    for stored in entries:
        count += 1
        expected = state.sequence + 1
        try:
            entry = _read(stored)
            last = _apply(population, stored, entry, state)
        except (Unfounded, ValueError, KeyError, TypeError) as bad:  # nobody need have signed it: it may say anything
            reason = str(bad) if isinstance(bad, Unfounded) else _NO_ENTRY
            return Verification(count, expected, reason, state)
        if every_signature and not holds(last, stored.signature):
            return Verification(count, expected, _UNSIGNED, state)
        signature = stored.signature
        watch(stored, entry)
    if last is None:
        return Verification(0, 1, "there are no entries, not even the opening one", state)
    if not every_signature and not holds(last, signature):
        return Verification(count, state.sequence, _UNSIGNED, state)
    if state != account:
        return Verification(count, state.sequence + 1, _disagreement(state, account), state)
    return Verification(count, None, "", state)


def _read(stored: StoredEntry) -> Entry[Event]:
    """Read an entry whose text is the one that was hashed."""
    payload: dict[str, Any] = from_json(stored.payload_text)
    if payload["format"] != FORMAT:
        raise Unfounded(f"the entry is not of the format {FORMAT}, the only one that there is")
    if entry_hash(stored.payload_text) != stored.entry_hash:
        raise Unfounded("the hash does not match the entry's text")
    if payload["kind"] not in KINDS:
        raise Unfounded(f"an entry of kind {payload['kind']!r} does not belong here")
    return Entry.read(payload)


def _apply(population: str, stored: StoredEntry, entry: Entry[Event], state: Account) -> Checkpoint:
    """Add an entry to the state; return its checkpoint."""
    place = entry.place
    _check_place(population, stored, entry, state)
    entry.move(state)
    state.sequence, state.head = stored.sequence, stored.entry_hash
    if (place.epoch, place.limit, place.posted, place.pending) != (
        state.epoch,
        str(state.limit),
        str(state.posted),
        str(state.pending),
    ):
        raise Unfounded("the entry states another account than the entries up to it add up to")
    return Checkpoint(
        population,
        stored.sequence,
        stored.entry_hash,
        state.epoch,
        state.limit,
        state.posted,
        state.pending,
        place.key_id,
    )


def _check_place(population: str, stored: StoredEntry, entry: Entry[Event], state: Account) -> None:
    place, expected = entry.place, state.sequence + 1
    if isinstance(entry.said, Reconcile):
        expected = max(expected, place.sequence)  # it leaves out the sequences that were lost
    if stored.sequence != expected:
        raise Unfounded(f"sequence {stored.sequence} stands where {expected} belongs")
    if (place.population, place.sequence) != (population, expected):
        raise Unfounded("population or sequence inside the entry do not match its place")
    if place.previous_hash != state.head:
        raise Unfounded("the entry does not follow the one before")
    if isinstance(entry.said, Open) is not (state.sequence == 0):
        raise Unfounded(f"an entry of kind {entry.said.kind!r} does not belong here")


def _disagreement(chain: Account, account: Account) -> str:
    if account.sequence != chain.sequence:
        verdict = "entries are missing" if account.sequence > chain.sequence else "entries were added"
        return f"the log ends at {chain.sequence}, the account's row says {account.sequence}: {verdict}"
    names = [one.name for one in fields(Account) if one.compare]
    differ = [name for name in names if getattr(chain, name) != getattr(account, name)]
    return f"the account's row and the log disagree on {', '.join(differ)}"
