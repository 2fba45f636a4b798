"""Entries, their hashes, and the verification of a chain. Pure functions over the stored text."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = 1
GENESIS = "0" * 64
_OPENING_TERMS = ("adjacency", "accountant", "delta", "time")
_DOMAIN = f"curator-ledger-entry:{FORMAT}\n".encode()


def canonical(payload: Mapping[str, Any]) -> str:
    """Return the canonical JSON (RFC 8785) of an object of strings and integers alone.

    Examples
    --------
    >>> canonical({"b": "x", "a": 1})
    '{"a":1,"b":"x"}'
    """
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def entry_hash(payload: str) -> str:
    """Hash an entry's canonical text, in hexadecimal SHA-256."""
    return hashlib.sha256(_DOMAIN + payload.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A row of the log: its place, its text, its hash."""

    sequence: int
    payload: str
    entry_hash: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """An entry as the holder of a release keeps it: everything the entry says, and its hash."""

    payload: str
    entry_hash: str

    @property
    def text(self) -> str:
        """The receipt as a JSON object."""
        return f'{self.payload[:-1]},"entry_hash":"{self.entry_hash}"}}'


@dataclass(frozen=True, slots=True)
class AccountState:
    """An account as its row states it, or as its chain implies it.

    Attributes
    ----------
    limit, posted, pending : int
        Units.
    sequence : int
    head : str
        The hash of the last entry.
    terms : tuple of str
        Adjacency, accountant, delta and time of creation, which the opening entry fixes for good.
    """

    limit: int = 0
    posted: int = 0
    pending: int = 0
    sequence: int = 0
    head: str = GENESIS
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """What a verification found.

    Attributes
    ----------
    entries : int
        How many entries were read up to the first bad one.
    bad_sequence : int or None
        The first sequence at which the chain does not hold.
    reason : str
    """

    entries: int
    bad_sequence: int | None = None
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether every entry holds and the account agrees."""
        return self.bad_sequence is None


def verify_chain(population: str, entries: Iterable[StoredEntry], account: AccountState) -> Verification:
    """Check every entry's hash, link, place and meaning, and the account's row against their sum.

    Parameters
    ----------
    population : str
    entries : iterable of StoredEntry
        In the order of their sequence.
    account : AccountState
        What the account's row says.

    Returns
    -------
    Verification
    """
    state, count = AccountState(), 0
    for entry in entries:
        count += 1
        expected = state.sequence + 1
        reason, state = _check_entry(population, entry, state)
        if reason:
            return Verification(count, expected, reason)
    if state != account:
        return Verification(count, state.sequence + 1, _disagreement(state, account))
    return Verification(count)


def _check_entry(population: str, entry: StoredEntry, state: AccountState) -> tuple[str, AccountState]:
    expected = state.sequence + 1
    if entry.sequence != expected:
        return f"sequence {entry.sequence} stands where {expected} belongs", state
    if entry_hash(entry.payload) != entry.entry_hash:
        return "the hash does not match the entry's text", state
    try:
        payload = json.loads(entry.payload)
        units = int(payload["units"])
        kind, link = payload["kind"], payload["previous_hash"]
        place = payload["format"], payload["population"], payload["sequence"]
        terms = tuple(str(payload[name]) for name in _OPENING_TERMS) if kind == "open" else state.terms
    except (ValueError, KeyError, TypeError):
        return "the entry's text is not an entry", state
    if place != (FORMAT, population, expected):
        return "format, population or sequence inside the entry do not match its place", state
    if link != state.head:
        return "the entry does not follow the one before", state
    limit, posted = state.limit, state.posted
    if kind == "open" and expected == 1:
        limit = units
    elif kind == "charge" and units > 0:
        posted += units
    elif kind != "dataset" or units != 0:
        return f"an entry of kind {kind!r} with {units} units does not belong here", state
    if posted > limit:
        return "the charges exceed the limit", state
    return "", AccountState(limit, posted, 0, expected, entry.entry_hash, terms)


def _disagreement(chain: AccountState, account: AccountState) -> str:
    if account.sequence > chain.sequence:
        return f"the log ends at {chain.sequence}, the account's row says {account.sequence}: entries are missing"
    if account.sequence < chain.sequence:
        return f"the log ends at {chain.sequence}, the account's row says {account.sequence}: entries were added"
    fields = [
        name
        for name in ("limit", "posted", "pending", "head", "terms")
        if getattr(chain, name) != getattr(account, name)
    ]
    return f"the account's row and the log disagree on {', '.join(fields)}"
