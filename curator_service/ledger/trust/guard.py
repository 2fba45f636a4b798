"""What seals the curator: a ledger that does not hold, or that is behind what somebody saw of it."""

import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any

from pydantic_core import from_json

from curator_service.kit.clock import timestamp
from curator_service.kit.db import Connection, Database
from curator_service.kit.problems import Problem, Unavailable
from curator_service.ledger import repository
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.unit_of_work import Trust
from curator_service.ledger.chain.attestation import Holds, is_attested, list_attested
from curator_service.ledger.chain.entries import Checkpoint, Receipt, SignedCheckpoint, StoredEntry, entry_hash
from curator_service.ledger.chain.keys import find_seal, set_seal
from curator_service.ledger.chain.signing import KeyRing, KeyUnreadable, Signer, SigningError, Verifier
from curator_service.ledger.chain.verification import AccountState, Verification, verify_chain
from curator_service.ledger.repository import Population
from curator_service.ledger.trust.anchor import Anchor, AnchorError

log = logging.getLogger("curator_service")

_KNOWN_CHECKPOINTS_MAX = 10_000


class LedgerUnverified(Problem):
    """The curator is sealed: its ledger does not hold, or is behind what somebody saw of it."""

    slug = "ledger-unverified"
    status = HTTPStatus.SERVICE_UNAVAILABLE
    title = "The ledger cannot be verified, so nothing is released"


class CheckpointInvalid(Problem):
    """A checkpoint that this curator never signed."""

    slug = "checkpoint-invalid"
    status = HTTPStatus.BAD_REQUEST
    title = "This checkpoint is not one of this curator's"


class Guard:
    """Keeps releases from leaving a ledger that cannot be trusted.

    Parameters
    ----------
    database : Database
    keys : KeyRing
    trust : Trust
        The anchor among it.
    now : callable
        The clock.
    """

    def __init__(
        self,
        database: Database,
        keys: KeyRing,
        trust: Trust,
        now: Callable[[], datetime],
    ) -> None:
        self.database = database
        self.keys = keys
        self.trust = trust
        self.checks: list[Callable[[], str]] = []
        self.now = now
        self._doubt = ""
        self._signed: set[str] = set()

    @property
    def degraded_reason(self) -> str:
        """Why this process releases nothing until it is started again; empty where nothing is wrong.

        A key or an anchor could not be read, or the database's file is not the one that was opened.
        """
        return self._doubt or self.database.fault

    @property
    def anchor(self) -> Anchor:
        """The anchor of the machine."""
        return self.trust.anchor

    def signer(self) -> Signer:
        """Return what signs now; call it before a unit of work begins.

        Raises
        ------
        Unavailable
            If this process cannot sign now: its key cannot be read.
        LedgerUnverified
            If the keys do not hold.
        """
        try:
            return self.keys.signer(timestamp(self.now()))
        except KeyUnreadable as error:
            log.error("%s", error)  # noqa: TRY400 -- the message says it all
            raise Unavailable("The curator cannot sign now. Nothing was charged; send the request again.") from None
        except SigningError as error:
            log.error("%s", error)  # noqa: TRY400
            raise unverified() from None

    def status(self) -> tuple[str, str]:
        """Return why and since when the curator is sealed; two empty texts while it is not.

        What is wrong with this process alone is its `degraded_reason`: it ends when the process is started anew.
        """
        if self.database.fault:
            return self.database.fault, ""
        with self.database.read() as connection:
            reason, since = find_seal(connection)
        return (reason, since) if reason else (self.degraded_reason, "")

    def reason(self) -> str:
        """Return why the curator is sealed; empty while it is not."""
        return self.status()[0]

    def check_open(self) -> None:
        """Refuse under a seal.

        Raises
        ------
        LedgerUnverified
        """
        if self.reason():
            raise unverified()

    def seal(self, reason: str) -> None:
        """Refuse releases from now on, on every worker and host, until an admin reconciles."""
        with self.database.begin() as connection:
            changed = set_seal(connection, reason, timestamp(self.now()))
        if changed:
            log.error("SEALED: %s. No release leaves until an admin runs `curator restore --reconcile`.", reason)

    def start(self) -> str:
        """Check everything that was stored, and seal the curator if it does not hold; return why, or nothing.

        Reads every entry once: hashes, links and sums of all, the last signature of each chain, and the anchor.
        """
        self._doubt = ""
        reason = self.reason()
        if reason:
            return reason
        try:
            reason = self._find_fault()
        except (AnchorError, SigningError) as error:
            self._doubt = str(error)
            return self._doubt
        if reason:
            self.seal(reason)
        return reason

    def _find_fault(self) -> str:
        """Return what does not hold. Raise where that cannot be told: an anchor, or a key, that cannot be read."""
        log_of_anchor = self.anchor.log()  # before the database: later it could only be behind
        is_first = not self.keys.list_keys()
        if log_of_anchor and is_first:
            return f"the curator's keys are gone, and its anchor in {self.anchor.folder} is not signed by any key"
        signer = self.keys.signer(timestamp(self.now()))
        with self.database.snapshot() as connection:
            populations = repository.list_populations(connection)
            if log_of_anchor and not populations:
                return f"the ledger is empty, and its anchor in {self.anchor.folder} is not"
            for population in populations:
                found = verify_population(connection, population, signer, every_signature=False)
                if not found.ok:
                    return (
                        f"the ledger of {population.name!r} is broken at sequence {found.bad_sequence}: {found.reason}"
                    )
            fault = self._contradicted_line(connection, log_of_anchor, signer)
            if fault:
                return f"{fault}, which its anchor in {self.anchor.folder} holds"
            heads = [_head_of(connection, population) for population in populations]
        for check in self.checks:
            fault = check()
            if fault:
                return fault
        # An anchor that has lines, but none of some population, is of a machine that never answered about it.
        in_use = any(population.sequence > 1 for population in populations)
        if in_use and not log_of_anchor and not is_first:
            raise AnchorError(
                f"there is no anchor in {self.anchor.folder}, and the ledger has been in use. "
                "Bring the anchor back. Only on a further host, or where the anchor is lost for good and the database "
                "was not restored: `curator ledger begin-anchor`"
            )
        self._begin_anchor(log_of_anchor, heads)
        return ""

    def begin_anchor(self) -> None:
        """Begin an anchor where there is none, beside a ledger that holds: of a further host, or of one that was lost.

        It knows nothing of what left before, so a reconciliation does not take it for a whole one.

        Raises
        ------
        AnchorError, SigningError
        """
        verifier = self.keys.verifier()
        with self.database.snapshot() as connection:
            populations = repository.list_populations(connection)
            for population in populations:
                found = verify_population(connection, population, verifier, every_signature=False)
                if not found.ok:
                    raise AnchorError(f"the ledger of {population.name!r} does not hold: {found.reason}")
            heads = [_head_of(connection, population) for population in populations]
        self._begin_anchor(self.anchor.log(), heads)

    def _begin_anchor(self, log_of_anchor: list[SignedCheckpoint], heads: list[SignedCheckpoint]) -> None:
        for signed in log_of_anchor:
            self.anchor.notice(signed.checkpoint)
        for signed in heads:
            if signed.checkpoint.order >= self.anchor.floor(signed.checkpoint.population):
                self.anchor.move(signed)

    def _contradicted_line(
        self, connection: Connection, log_of_anchor: list[SignedCheckpoint], verifier: Verifier
    ) -> str:
        """Return how the database contradicts the first line of an anchor that it contradicts, or nothing."""
        hashes: dict[str, dict[int, str]] = {}
        for signed in log_of_anchor:
            seen = signed.checkpoint
            if seen.population not in hashes:
                hashes[seen.population] = repository.list_hashes(connection, seen.population)
            if hashes[seen.population].get(seen.sequence) != seen.entry_hash:
                fault = self._contradiction(connection, signed, verifier)
                if fault:
                    return fault
        return ""

    def find_contradiction(self) -> str:
        """Return how the database contradicts this machine's anchor, or nothing.

        Raises
        ------
        AnchorError, SigningError
        """
        log_of_anchor, verifier = self.anchor.log(), self.keys.verifier()
        with self.database.snapshot() as connection:
            return self._contradicted_line(connection, log_of_anchor, verifier)

    def _contradiction(self, connection: Connection, signed: SignedCheckpoint, signer: Verifier) -> str:
        """Return how the database contradicts a checkpoint that this curator signed, or nothing."""
        seen = signed.checkpoint
        if not signer.holds(seen, signed.signature):
            return f"a checkpoint of {seen.population!r} is not signed by any key of this curator"
        entry = repository.find_entry(connection, seen.population, seen.sequence)
        if entry is not None and entry.entry_hash == seen.entry_hash:
            return ""
        population = repository.find_population(connection, seen.population)
        if population is not None and is_written_off(connection, population, seen, self.trust.holds):
            return ""
        what = "has no entry" if entry is None else "has another entry"
        return f"the ledger of {seen.population!r} {what} at sequence {seen.sequence} (epoch {seen.epoch})"

    def receive(self, text: str | None, population: str) -> None:
        """Compare the ledger with a checkpoint that a client sends, and seal the curator if it is behind.

        Parameters
        ----------
        text : str or None
            The ``Curator-Checkpoint`` header: base64url of the checkpoint's canonical JSON.
        population : str
            The population that the request is about.

        Raises
        ------
        CheckpointInvalid
            If it is no checkpoint that this curator signed: nobody else can seal it.
        """
        if text is None:
            return
        signed = _read_header(text, population)
        seen = signed.checkpoint
        verifier = self.keys.verifier(knowing=seen.key_id)
        if text not in self._signed and not verifier.holds(seen, signed.signature):
            raise CheckpointInvalid(
                "The checkpoint in `Curator-Checkpoint` is not signed by any key of this curator. Either it is of "
                "another curator, or its keys were replaced: compare `GET /v1/keys` with the key that you know."
            )
        is_new = text not in self._signed
        if len(self._signed) < _KNOWN_CHECKPOINTS_MAX:
            self._signed.add(text)
        with self.database.read() as connection:
            fault = self._contradiction(connection, signed, verifier)
        if not fault:
            self.anchor.notice(seen)
            return
        self.seal(f"{fault}, which a client has seen, signed by this curator")
        if is_new:
            with suppress(AnchorError):  # it is evidence: a reconciliation reads it there
                self.anchor.keep(signed)

    def check_attested(self, population: str, entry: StoredEntry) -> None:
        """Check that an entry is one of this curator's before anything is served on it; seal the curator if not.

        Raises
        ------
        LedgerUnverified
        """
        try:
            with self.database.read() as connection:
                attested = is_attested(connection, population, entry, self.trust.holds)
        except KeyUnreadable:
            return  # a file of this machine alone: this process is in doubt, and goes on serving what is stored
        except SigningError as error:
            log.error("%s", error)  # noqa: TRY400
            raise unverified() from None
        if not attested:
            self.seal(f"the entry {entry.sequence} of {population!r} is not one that this curator signed")
            raise unverified()

    def anchor_before_send(self, receipt: Receipt, *, just_written: bool = False) -> None:
        """Move the anchor to the entry of an answer: before it, the answer must not leave.

        Under a seal the anchor stays as it is: what a restored ledger holds is not what was seen of it.

        Parameters
        ----------
        receipt : Receipt
            Written by this process, or attested.
        just_written : bool
            Whether this process has just committed it, and the seal was asked in that unit of work.

        Raises
        ------
        Unavailable
            If the anchor cannot be written. The charge stands, and so does the answer.
        """
        if not receipt.signature:
            return  # of the first schema: the entry that covers it moved the anchor
        signed = receipt.signed
        if self.anchor.is_written(signed.checkpoint) or (not just_written and self.reason()):
            return
        try:
            self.anchor.move(signed)
        except AnchorError as error:
            log.error("%s", error)  # noqa: TRY400
            raise Unavailable(
                "The answer is stored and charged, and cannot leave before the ledger's anchor is written. Repeat the "
                "request with the same Idempotency-Key: it costs nothing more."
            ) from None


def _head_of(connection: Connection, population: Population) -> SignedCheckpoint:
    entry = repository.find_entry(connection, population.name, population.sequence)
    assert entry is not None
    return Receipt(entry.payload, entry.entry_hash, entry.signature).signed


def holds_receipt(keys: KeyRing, receipt: Receipt) -> bool:
    """Tell whether a receipt is whole, and signed by one of the curator's keys."""
    try:
        checkpoint = receipt.signed.checkpoint
    except (ValueError, KeyError, TypeError):
        return False
    verifier = keys.verifier(knowing=checkpoint.key_id)
    return entry_hash(receipt.payload) == receipt.entry_hash and verifier.holds(checkpoint, receipt.signature)


def unverified() -> LedgerUnverified:
    """Build the refusal of a sealed curator."""
    return LedgerUnverified(
        "The curator is sealed: its ledger does not hold, or is behind what was seen of it. Nothing was charged. "
        "Stored releases can be read; new ones wait until an admin has reconciled the ledger: `curator ledger status` "
        "says why."
    )


def verify_population(connection: Connection, population: Population, signer: Verifier, **options: Any) -> Verification:
    """Verify a chain against its account, within one consistent read; with options of `verify_chain`."""
    terms = (
        population.adjacency.value,
        population.accountant.name,
        repr(population.delta),
        population.created_at,
    )
    account = AccountState(
        limit=population.limit,
        highest_limit=population.highest_limit,
        posted=population.posted,
        pending=population.pending,
        sequence=population.sequence,
        epoch=population.epoch,
        head=population.head,
        terms=terms,
        shares=repository.list_shares(connection, population.name),
        reservations={r.id: r.left for r in reservations.list_open(connection, population.name)},
    )
    entries = repository.iterate_entries(connection, population.name)
    return verify_chain(population.name, entries, account, signer.holds, **options)


def is_written_off(connection: Connection, population: Population, seen: Checkpoint, holds: Holds) -> bool:
    """Tell whether a reconciliation accounted for the history that a checkpoint is of."""
    if seen.epoch >= population.epoch:
        return False
    reconciled = list_attested(connection, population.name, "reconcile", holds)
    return any(accounts_for(facts, seen) for facts in reconciled)


def accounts_for(facts: Mapping[str, Any], seen: Checkpoint) -> bool:
    """Tell whether one reconciliation accounted for a checkpoint: by its epoch, and a range of sequences in it."""
    if seen.epoch >= facts["epoch"]:
        return False
    ranges = [lost for lost in facts["lost"] if lost["epoch"] == seen.epoch]
    return facts["all"] == "yes" or any(int(r["after"]) < seen.sequence <= int(r["through"]) for r in ranges)


def _read_header(text: str, population: str) -> SignedCheckpoint:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        signed = SignedCheckpoint.read(from_json(raw))
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise CheckpointInvalid(
            "`Curator-Checkpoint` must be base64url of a checkpoint's canonical JSON, as budgets and receipts give it."
        ) from None
    if signed.checkpoint.population != population:
        raise CheckpointInvalid(
            f"The checkpoint is of the population {signed.checkpoint.population!r}, and the request of {population!r}."
        )
    return signed
