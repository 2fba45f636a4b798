"""The register: a chain of the curator's own acts, signed, anchored and verified as every chain of the ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

from curator_service.entries.base import REGISTER, Entry, Event
from curator_service.kit.db import Connection
from curator_service.ledger import repository
from curator_service.ledger.accounts.unit_of_work import Ledger, Refused
from curator_service.ledger.chain.attestation import holds_by_keys_that_follow, is_attested
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.chain.signing import KeyUnreadable
from curator_service.ledger.service import LedgerService
from curator_service.ledger.trust.guard import unverified

_PAGE = 1000


class ActsUnit:
    """A unit of work that changes tables, and says so in the register.

    Attributes
    ----------
    connection : Connection
    """

    def __init__(self, ledger: Ledger) -> None:
        self.connection: Connection = ledger.connection
        self.receipts: list[Receipt] = []
        self._ledger = ledger

    def act(self, event: Event) -> None:
        """Append an act."""
        self.receipts += self._ledger.act(event)


class Register:
    """The chain of the curator's own acts."""

    def __init__(self, ledger: LedgerService) -> None:
        self._ledger = ledger

    @contextmanager
    def unit(self) -> Iterator[ActsUnit]:
        """Open a unit of work: table and entry are durable together, and anchored before it returns.

        Raises
        ------
        LedgerUnverified
            Under a seal.
        Unavailable
        """
        try:
            with self._ledger.unit() as ledger:
                unit = ActsUnit(ledger)
                yield unit
        except Refused:
            raise unverified() from None
        for receipt in unit.receipts:
            self._ledger.guard.anchor_before_send(receipt, just_written=True)

    def is_open(self) -> bool:
        """Tell whether acts can be written now: the curator is neither sealed nor in doubt."""
        return not self._ledger.guard.reason()

    def list_acts(self, after: int) -> tuple[int, list[Event]] | None:
        """Return what attested acts after a sequence say, and the last sequence there is; None without a register.

        None also where a file of this machine cannot be read, so that this process cannot tell: it releases nothing
        then, and goes on serving what is stored. Keys that do not follow from the first attest nothing.
        """
        found: list[Entry[Event]] = []
        place = after
        with self._ledger.database.read() as connection:
            while page := repository.list_entries(connection, REGISTER, after=place, count=_PAGE):
                place = page[-1].sequence
                try:
                    attested = [one for one in page if is_attested(REGISTER, one, self._holds)]
                except KeyUnreadable:
                    return None
                found += [Entry.read(from_json(one.payload_text)) for one in attested]
        # What is not attested may stand far above the end: it must not hide what will be written there.
        last = max((entry.place.sequence for entry in found), default=after)
        if place and not last:
            return 1, []  # there is a register, of which nothing is believed
        return (last, [entry.said for entry in found]) if last else None

    def _holds(self, receipt: Receipt) -> bool:
        return holds_by_keys_that_follow(self._ledger.guard.keys, receipt)

    def list_entries(self, *, after: int, count: int) -> list[dict[str, Any]]:
        """Return a page of the chain, each entry with its hash and signature."""
        with self._ledger.database.read() as connection:
            page = repository.list_entries(connection, REGISTER, after=after, count=count)
        return [entry.render() for entry in page]
