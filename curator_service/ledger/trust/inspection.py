"""The inspection of a stored ledger: its chains, its accounts and its anchor, held against each other."""

from collections.abc import Callable, Collection
from typing import Any

from curator_service.entries.account import Account
from curator_service.kit.db import Connection, Database
from curator_service.ledger import repository
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.unit_of_work import Trust
from curator_service.ledger.chain.entries import Receipt, SignedCheckpoint
from curator_service.ledger.chain.keys import list_keys
from curator_service.ledger.chain.signing import KeyRing, Verifier
from curator_service.ledger.chain.verification import Verification, verify_chain
from curator_service.ledger.repository import Population
from curator_service.ledger.trust.anchor import AnchorError
from curator_service.ledger.trust.contradictions import find_contradicted_line, find_needless

LINES_MAX = 1000
"""Of a longer anchor those lines are left out that prove nothing beside the others."""


class Inspection:
    """Inspection of the stored ledger and data.

    Parameters
    ----------
    trust : Trust
        The anchor among it.

    Attributes
    ----------
    checks : list of callable
        What else must hold: each returns what does not, or nothing.
    """

    def __init__(self, database: Database, keys: KeyRing, trust: Trust) -> None:
        self._database = database
        self._keys = keys
        self._anchor = trust.anchor
        self._holds = trust.holds
        self.checks: list[Callable[[], str]] = []

    def find_fault(self, moment: str) -> str:
        """Return what does not hold, or nothing; then the anchor is at least where the ledger is.

        Reads every entry once: hashes, links and sums of all, the last signature of each chain, and the anchor. Makes
        the first key of a new curator.

        Raises
        ------
        AnchorError, SigningError
            If an anchor, or a key, cannot be read: then it cannot be told.
        """
        log_of_anchor = self._anchor.log()  # before the database: later it could only be behind
        with self._database.snapshot() as connection:
            is_signed = bool(list_keys(connection))
            has_accounts = bool(repository.list_chains(connection))
        if not is_signed and (log_of_anchor or has_accounts):
            left = f"anchor in {self._anchor.folder}" if log_of_anchor else "ledger"
            return f"the curator's keys are gone, and its {left} is not signed by any key"
        signer = self._keys.signer(moment)
        with self._database.snapshot() as connection:
            populations = repository.list_chains(connection)
            if log_of_anchor and not populations:
                return f"the ledger is empty, and its anchor in {self._anchor.folder} is not"
            for population in populations:
                found = verify_population(connection, population, signer, every_signature=False)
                if not found.ok:
                    return (
                        f"the ledger of {population.name!r} is broken at sequence {found.bad_sequence}: {found.reason}"
                    )
            fault = find_contradicted_line(connection, log_of_anchor, signer, self._holds)
            if fault:
                return f"{fault}, which its anchor in {self._anchor.folder} holds"
            heads = [_head_of(connection, population) for population in populations]
        for check in self.checks:
            fault = check()
            if fault:
                return fault
        # An anchor that has lines, but none of some population, is of a machine that never answered about it.
        if not log_of_anchor and any(population.sequence > 1 for population in populations):
            raise AnchorError(
                f"there is no anchor in {self._anchor.folder}, and the ledger has been in use. "
                "Bring the anchor back. Only on a further host, or where the anchor is lost for good and the database "
                "was not restored: `curator ledger begin-anchor`"
            )
        self._move_anchor(log_of_anchor, heads)
        self.compact_anchor()
        return ""

    def compact_anchor(self) -> None:
        """Leave out lines of a long anchor that prove nothing beside the others.

        Raises
        ------
        AnchorError, SigningError
        """
        log_of_anchor = self._anchor.log()
        if len(log_of_anchor) <= LINES_MAX:
            return
        with self._database.snapshot() as connection:
            needless = find_needless(connection, log_of_anchor)
        if needless:
            self._anchor.compact(lambda signed: signed not in needless)

    def begin_anchor(self) -> None:
        """Begin an anchor where there is none, beside a ledger that holds: of a further host, or of one that was lost.

        It knows nothing of what left before, so a reconciliation does not take it for a whole one.

        Raises
        ------
        AnchorError, SigningError
        """
        verifier = self._keys.verifier()
        with self._database.snapshot() as connection:
            populations = repository.list_chains(connection)
            for population in populations:
                found = verify_population(connection, population, verifier, every_signature=False)
                if not found.ok:
                    raise AnchorError(f"the ledger of {population.name!r} does not hold: {found.reason}")
            heads = [_head_of(connection, population) for population in populations]
        self._move_anchor(self._anchor.log(), heads)

    def find_contradiction(self) -> str:
        """Return how the database contradicts this machine's anchor, or nothing.

        Raises
        ------
        AnchorError, SigningError
        """
        log_of_anchor, verifier = self._anchor.log(), self._keys.verifier()
        with self._database.snapshot() as connection:
            return find_contradicted_line(connection, log_of_anchor, verifier, self._holds)

    def _move_anchor(self, log_of_anchor: list[SignedCheckpoint], heads: list[SignedCheckpoint]) -> None:
        for signed in log_of_anchor:
            self._anchor.notice(signed.checkpoint)
        for signed in heads:
            if signed.checkpoint.order >= self._anchor.floor(signed.checkpoint.population):
                self._anchor.move(signed)


def verify_population(
    connection: Connection,
    population: Population,
    signer: Verifier,
    without: Collection[int] = frozenset(),
    /,
    **options: Any,
) -> Verification:
    """Verify a chain, without the entries at some sequences, against its account; with options of `verify_chain`.

    Reads within one consistent read.
    """
    terms = (
        population.adjacency.value,
        population.accountant.name,
        repr(population.delta),
        population.created_at,
    )
    account = Account(
        limit=population.limit,
        highest_limit=population.highest_limit,
        posted=population.posted,
        pending=population.pending,
        sequence=population.sequence,
        epoch=population.epoch,
        head=population.head,
        terms=terms,
        shares=repository.list_shares(connection, population.name),
        spending=repository.list_spending(connection, population.name),
        reservations={r.id: r.left for r in reservations.list_open(connection, population.name)},
    )
    stored = repository.iterate_entries(connection, population.name)
    entries = (entry for entry in stored if entry.sequence not in without)
    return verify_chain(population.name, entries, account, signer.holds, **options)


def _head_of(connection: Connection, population: Population) -> SignedCheckpoint:
    entry = repository.find_entry(connection, population.name, population.sequence)
    assert entry is not None
    return Receipt(entry.payload_text, entry.entry_hash, entry.signature).signed
