"""A second history under this curator's key: a copy that was reconciled and served, read from a backup of it.

Checkpoints tell how much such a copy counts as spent, its own write-offs included. Its chain tells what it charged.
"""

from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from curator_service.entries.account import Account, Charged
from curator_service.entries.base import Entry
from curator_service.entries.recovery import Reconcile
from curator_service.entries.sessions import AnswerQuestion, OpenSession
from curator_service.kit.db import Connection
from curator_service.ledger import repository
from curator_service.ledger.chain.attestation import Holds, list_attested
from curator_service.ledger.chain.entries import Checkpoint, Receipt, StoredEntry
from curator_service.ledger.repository import Population
from curator_service.ledger.service import LedgerService
from curator_service.ledger.trust.contradictions import accounts_for
from curator_service.ledger.trust.inspection import verify_population

ENTRIES_MAX = 1000
"""Of a longer history the entries cannot be named one by one in the entry that accounts for them."""


class HistoryError(ValueError):
    """A second history cannot be accounted for by its chain; the message says why, and what to do, for the admin."""


@dataclass(frozen=True, slots=True)
class History:
    """Entries that a second history has of a population beyond this one.

    Attributes
    ----------
    population : str
    after : int
        The sequence of the last entry that both have.
    entries : tuple of StoredEntry
        Those after it, to the end of the second history.
    """

    population: str
    after: int
    entries: tuple[StoredEntry, ...]

    @property
    def hashes(self) -> frozenset[str]:
        """The hashes of its entries."""
        return frozenset(entry.entry_hash for entry in self.entries)

    @property
    def head(self) -> Checkpoint:
        """Checkpoint of its last entry."""
        return _checkpoint_of(self.entries[-1])


def read_histories(ledger: LedgerService, other: LedgerService) -> dict[str, History]:
    """Return what another ledger of this curator has beyond this one, by population.

    Raises
    ------
    HistoryError
        If a chain of it does not hold under this curator's keys, shares no entry with this ledger, holds amounts that
        may still be charged, or is too long.
    """
    verifier = ledger.guard.keys.verifier()
    found = {}
    with ledger.database.snapshot() as ours, other.database.snapshot() as theirs:
        for chain in repository.list_populations(theirs):
            verified = verify_population(theirs, chain, verifier, every_signature=True)
            if not verified.ok:
                raise HistoryError(
                    f"the second history of {chain.name!r} does not hold under this curator's keys at sequence "
                    f"{verified.bad_sequence}: {verified.reason}"
                )
            history = _part(ours, theirs, chain.name)
            if history.entries:
                _check_usable(ours, chain, history)
                found[chain.name] = history
    return found


def _part(ours: Connection, theirs: Connection, population: str) -> History:
    """Return what follows the last entry that two chains share; the hash of each entry covers those before."""
    apart: list[StoredEntry] = []
    own, after = repository.iterate_entries(ours, population), 0
    for entry in repository.iterate_entries(theirs, population):
        if not apart and next(own, None) == entry:
            after = entry.sequence
        else:
            apart.append(entry)
    if after == 0:
        raise HistoryError(f"the second history of {population!r} shares no entry with this ledger")
    return History(population, after, tuple(apart))


def _check_usable(ours: Connection, chain: Population, history: History) -> None:
    if len(history.entries) > ENTRIES_MAX:
        raise HistoryError(
            f"the second history of {chain.name!r} has {len(history.entries)} entries of its own, and at most "
            f"{ENTRIES_MAX} can be accounted for one by one: reconcile without --history"
        )
    if chain.pending:
        raise HistoryError(
            f"the second history of {chain.name!r} holds amounts for jobs or reservations, which may have been charged "
            "since: close them there, write its backup anew, and stop it"
        )
    for entry in map(_read, history.entries):
        if isinstance(entry.said, Reconcile) and not _wrote_off_ours(ours, chain.name, entry):
            raise HistoryError(
                f"the second history of {chain.name!r} has itself written off what is not in this ledger, at sequence "
                f"{entry.place.sequence}: a third one has been served. Reconcile without --history"
            )


def _wrote_off_ours(ours: Connection, population: str, entry: Entry[Reconcile]) -> bool:
    """Tell whether a second history wrote off entries of this ledger, which has charged them itself."""
    if entry.said.history is not None:
        return False
    ends = [(lost.epoch, int(lost.through)) for lost in entry.said.lost]
    stored = [repository.find_entry(ours, population, sequence) for _epoch, sequence in ends]
    places = [None if one is None else _read(one).place for one in stored]
    known = [None if one is None else (one.epoch, one.sequence) for one in places]
    last = places[-1] if places and places[-1] is not None else entry.place
    return known == ends and (entry.said.all == "yes" or last.posted == entry.place.posted)


def list_new(connection: Connection, history: History, holds: Holds) -> list[StoredEntry]:
    """Return the entries of a second history for which no reconciliation has accounted.

    Raises
    ------
    HistoryError
        If an earlier reconciliation wrote some off by checkpoints alone.
    """
    reconciled = list_attested(connection, history.population, Reconcile, holds)
    named = {one for entry in reconciled for one in entry.said.told}
    new = [entry for entry in history.entries if entry.entry_hash not in named]
    for seen in map(_checkpoint_of, new):
        if any(accounts_for(entry, seen) for entry in reconciled):
            raise HistoryError(
                f"an earlier reconciliation of {history.population!r} has written off sequence {seen.sequence} of "
                f"epoch {seen.epoch}: what was written off stays so. Reconcile without --history; two privacy officers "
                "may raise the limit"
            )
    return new


def sum_charges(connection: Connection, population: str, entries: list[StoredEntry]) -> dict[Charged, tuple[int, int]]:
    """Return how many charges there are among entries, and their units, by what charges are summed.

    A session that was opened before two histories parted, and answered in the other one too, counts once more: each
    history may have given as many positive answers as it was charged for.
    """
    sums, opened, asked = Account(), set[str](), set[str]()
    for entry in map(_read, entries):
        if entry.said.charged is not None:
            sums.count(entry.said.charged, int(entry.place.units))
        if isinstance(entry.said, OpenSession):
            opened.add(entry.said.session)
        if isinstance(entry.said, AnswerQuestion):
            asked.add(entry.said.session)
    for shared in repository.iterate_kind(connection, population, OpenSession.kind):
        entry = _read(shared)
        if entry.said.session in asked - opened:
            sums.count(entry.said.charged, int(entry.place.units))
    return sums.spending


def _read(entry: StoredEntry) -> Entry[Any]:
    return Entry.read(from_json(entry.payload_text))


def _checkpoint_of(entry: StoredEntry) -> Checkpoint:
    return Receipt(entry.payload_text, entry.entry_hash, entry.signature).signed.checkpoint
