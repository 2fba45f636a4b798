"""The guard of the ledger: the seal, and what may leave."""

import logging
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus

from curator_service.kit.clock import timestamp
from curator_service.kit.db import Database
from curator_service.kit.problems import Problem, Unavailable
from curator_service.ledger.accounts.unit_of_work import Trust
from curator_service.ledger.chain.attestation import is_attested
from curator_service.ledger.chain.entries import Receipt, StoredEntry
from curator_service.ledger.chain.keys import find_seal, set_seal
from curator_service.ledger.chain.signing import KeyRing, KeyUnreadable, Signer, SigningError
from curator_service.ledger.trust.anchor import Anchor, AnchorError
from curator_service.ledger.trust.inspection import Inspection

log = logging.getLogger("curator_service")
SEEN_BY_CLIENT = "which a client has seen, signed by this curator"
"""How the reason of a seal ends where a client brought a checkpoint of another history, while the curator ran."""


class LedgerUnverified(Problem):
    """The curator is sealed: its ledger does not hold, or is behind what somebody saw of it."""

    slug = "ledger-unverified"
    status = HTTPStatus.SERVICE_UNAVAILABLE
    title = "The ledger cannot be verified, so nothing is released"


class Guard:
    """Keeps releases from leaving a ledger that cannot be trusted.

    Parameters
    ----------
    trust : Trust
        The anchor among it.
    now : callable
        The clock.

    Attributes
    ----------
    inspection : Inspection
        What a start looks at.
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
        self.inspection = Inspection(database, keys, trust)
        self.now = now
        self._doubt = ""

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
        """Inspect everything that was stored, and seal the curator if it does not hold; return why, or nothing."""
        self._doubt = ""
        reason = self.reason()
        if reason:
            return reason
        try:
            reason = self.inspection.find_fault(timestamp(self.now()))
        except (AnchorError, SigningError) as error:
            self._doubt = str(error)
            return self._doubt
        if reason:
            self.seal(reason)
        return reason

    def compact_anchor(self) -> None:
        """Keep the anchor short while this process runs; under a seal every line may be evidence, and stays."""
        if self.reason():
            return
        try:
            self.inspection.compact_anchor()
        except (AnchorError, SigningError) as error:
            log.error("%s", error)  # noqa: TRY400 -- the message says it all

    def check_attested(self, population: str, entry: StoredEntry) -> None:
        """Check that an entry is one of this curator's before anything is served on it; seal the curator if not.

        Raises
        ------
        LedgerUnverified
        """
        try:
            attested = is_attested(population, entry, self.trust.holds)
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


def unverified() -> LedgerUnverified:
    """Build the refusal of a sealed curator."""
    return LedgerUnverified(
        "The curator is sealed: its ledger does not hold, or is behind what was seen of it. Nothing was charged. "
        "Stored releases can be read; new ones wait until an admin has reconciled the ledger: `curator ledger status` "
        "says why."
    )
