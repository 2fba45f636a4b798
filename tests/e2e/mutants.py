"""Flaws that the product must not have, put into it on purpose: tests show that they would see them."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import bindparam, select, update

from curator_service.kit.clock import timestamp
from curator_service.kit.db import Connection, InsertIfAbsent, Statement
from curator_service.kit.problems import Unavailable
from curator_service.ledger import repository as ledger_repository
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.accounts.unit_of_work import Ledger
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.models import PopulationRow
from curator_service.ledger.repository import Head, Population
from curator_service.ledger.service import LedgerService
from curator_service.ledger.trust.guard import Guard
from curator_service.releases import repository as release_repository
from curator_service.releases import service
from curator_service.releases.models import IdempotencyKeyRow

READ_CHECK_WRITE, UNCLAIMED_KEY = "read, check, write", "unclaimed key"
POST_UNFENCED, EARLY_ANSWER, VOID_AFTER_CHARGE = "post unfenced", "early answer", "void after charge"


def install(name: str) -> None:
    """Put a flaw into this process; none for an empty name."""
    _FLAWS[name]()


def _compare_nothing() -> None:
    """Let a unit of work go on whatever the last entry says of the account: this alone would stop some flaws."""

    def check(*_: object, **__: object) -> None:
        pass

    Ledger.check = check  # type: ignore[method-assign]


def _read_check_write() -> None:
    """Decide on the account as it was read before, and write what it then adds up to."""
    account = threading.local()
    find = ledger_repository.find_population
    this = PopulationRow.name == bindparam("population")
    write = Statement(
        update(PopulationRow)
        .where(this)
        .values(
            posted_units=bindparam("posted"),
            pending_units=bindparam("pending"),
            head_sequence=PopulationRow.head_sequence + 1,
        )
        .returning(*ledger_repository._HEAD)
    )
    reread = Statement(select(PopulationRow.posted_units, PopulationRow.pending_units).where(this))

    def find_population(connection: Connection, name: str) -> Population | None:
        found = account.read = find(connection, name)
        return found

    def move(connection: Connection, population: str, *, posted: int, pending: int) -> Head | None:
        seen: Population = account.read
        if seen.posted + seen.pending + posted + pending > seen.limit:
            return None
        if pending < 0:  # what was held is held still: it is given back as it should be
            posted_now, pending_now = reread.first(connection, population=population) or (0, 0)
        else:
            posted_now, pending_now = seen.posted, seen.pending
        row = write.first(
            connection, population=population, posted=posted_now + posted, pending=max(0, pending_now + pending)
        )
        return None if row is None else Head(population, *row)

    service.find_population = find_population  # type: ignore[attr-defined]
    ledger_repository.move = move
    _compare_nothing()


def _unclaimed_key() -> None:
    """Look a key up, and write it afterwards whoever has it: nothing decides between two who found it unknown."""

    class Ignored(InsertIfAbsent):
        def changed(self, connection: Connection, /, **values: object) -> int:
            super().changed(connection, **values)
            return 1

    release_repository._CLAIM_KEY = Ignored(IdempotencyKeyRow)  # type: ignore[assignment]


def _post_unfenced() -> None:
    """Post what was drawn, whether its reservation is still open or not."""

    def post(self: Ledger, reservation: Reservation) -> Head:
        current = reservations.find_reservation(self.connection, reservation.id)
        assert current is not None
        held = (
            reservation.units
            if reservations.close_reservation(
                self.connection, reservation.id, reservations.DONE, drawn=reservation.units
            )
            else 0
        )
        return self._take(reservation.population, reservation.shares, posted=reservation.units, pending=-held)

    Ledger.post = post  # type: ignore[method-assign]


def _early_answer() -> None:
    """Send an answer whether the anchor could be moved or not."""
    anchor_before_send = Guard.anchor_before_send

    def let_out_early(self: Guard, receipt: Receipt, **named: Any) -> None:
        with suppress(Unavailable):
            anchor_before_send(self, receipt, **named)

    Guard.anchor_before_send = let_out_early  # type: ignore[method-assign]


def _void_after_charge() -> None:
    """Give a job's amount back when its work has failed, without looking at what became of it."""

    def end(self: LedgerService, reservation_id: str, outcome: str, *, actor: str) -> bool:
        with self.unit() as ledger:
            found = reservations.find_reservation(ledger.connection, reservation_id)
            facts = {"reservation": found.id, "actor": actor, "holder": found.principal_id, "outcome": outcome}
            posted, pending = (-found.units, 0) if found.state == reservations.ENDED else (0, -found.units)
            head = ledger_repository.move(ledger.connection, found.population, posted=posted, pending=pending)
            assert head is not None
            for share in found.shares:
                ledger_repository.settle_share(
                    ledger.connection, found.population, *share, posted=posted, pending=pending
                )
            reservations.close_reservation(ledger.connection, found.id, outcome)
            ledger.record(head, "void", found.units, facts | {"time": timestamp(self.now())})
        return True

    LedgerService.end = end  # type: ignore[method-assign]


_FLAWS: dict[str, Callable[[], None]] = {
    "": lambda: None,
    READ_CHECK_WRITE: _read_check_write,
    UNCLAIMED_KEY: _unclaimed_key,
    POST_UNFENCED: _post_unfenced,
    EARLY_ANSWER: _early_answer,
    VOID_AFTER_CHARGE: _void_after_charge,
}
