"""Rules of the ledger: opening a population, charging it, reserving, showing and verifying its chain."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any

from curator_service.entries.account import EPOCH_FIRST, GENESIS
from curator_service.entries.sessions import AnswerQuestion
from curator_service.kit.clock import Clock, timestamp, utc_now
from curator_service.kit.db import Connection, Database, DatabaseReplaced
from curator_service.kit.names import NAME, NAME_RULE
from curator_service.kit.problems import NotFound, Problem, Unavailable
from curator_service.ledger import repository
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.unit_of_work import Contradiction, Ledger, Payer, Refused, opening_of
from curator_service.ledger.chain.attestation import holds_by_keys_that_follow, is_attested
from curator_service.ledger.chain.entries import Receipt, SignedCheckpoint
from curator_service.ledger.chain.signing import KeyUnreadable
from curator_service.ledger.chain.verification import Verification, Watch
from curator_service.ledger.repository import Population
from curator_service.ledger.trust.anchor import AnchorError
from curator_service.ledger.trust.client_checkpoints import ClientCheckpoints
from curator_service.ledger.trust.guard import Guard, unverified
from curator_service.ledger.trust.inspection import verify_population
from curator_service.privacy.accountant import ACCOUNTANTS, PURE, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.conversions import DELTA_MIN

log = logging.getLogger("curator_service")


class BudgetExceeded(Problem):
    """The cost does not fit into what remains."""

    slug = "budget-exceeded"
    status = HTTPStatus.CONFLICT
    title = "The privacy budget does not allow this request"


class PopulationError(ValueError):
    """A population cannot be created or changed as asked; the message says why, for the admin."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """Headroom that one of the limits of a payer leaves.

    Attributes
    ----------
    owner : str
        Whose limit it is, for the text of a refusal.
    limit, left : int
        Units.
    """

    owner: str
    limit: int
    left: int


_LATEST = 20
"""Entries at the end of a chain: that of a cut states a moment of the calendar, which may be long ago."""
DELTA_USUAL_MAX = 1e-4
"""Up to this δ a budget is given without a further word."""


def check_delta(delta: float | None) -> None:
    """Refuse a δ that leaves people without protection as often as somebody would notice.

    Raises
    ------
    PopulationError
    """
    if delta is not None and delta > DELTA_USUAL_MAX:
        raise PopulationError(
            f"delta {delta:g} lets the guarantee fail altogether for a person, so that a row may be published as it "
            f"is, with a probability of up to {delta:g}: take at most {DELTA_USUAL_MAX:g}, and well below one over the "
            "number of persons. Where it is meant, say `curator populations create --accept-large-delta`"
        )


def units_of_limit(accountant: Accountant, limit: Price) -> int:
    """Return a limit in the account's units, rounded down.

    Raises
    ------
    PopulationError
        If it is not valid, or out of range.
    """
    if limit.is_pure and accountant is not PURE:
        raise PopulationError("state delta beside epsilon: a budget of epsilon alone is for the accountant pure")
    try:
        units = accountant.units_of(limit)
    except ValueError as error:
        raise PopulationError(f"the budget is not valid: {error}") from error
    if not 0 < units < 2**60:
        raise PopulationError(
            f"an account holds from 1e-12 to 1e6 of {accountant.symbol}; this budget is outside of it"
        )
    return units


def plan_population(
    name: str,
    adjacency: Adjacency,
    accountant: str,
    limit: Price,
    delta: float,
    moment: str,
    *,
    accepts_delta: bool = False,
) -> Population:
    """Return a population as it will be: the one act that gives people a budget.

    Parameters
    ----------
    adjacency : Adjacency
        Fixed for good.
    accountant : str
        ``gdp``, ``zcdp`` or ``pure``; fixed for good.
    limit : Price
        The budget, in a notion that the accountant knows; rounded down to the account's integers.
    delta : float
        The δ at which (ε, δ) views of the account are shown; 0 under ``pure``.
    accepts_delta : bool
        Whether a δ above `DELTA_USUAL_MAX` is meant.

    Returns
    -------
    Population
        Not stored yet.

    Raises
    ------
    PopulationError
        If a number is out of range, or the name is none.
    """
    if not NAME.fullmatch(name):
        raise PopulationError(f"the name must be {NAME_RULE}")
    if accountant not in ACCOUNTANTS:
        raise PopulationError(f"the accountant must be one of {', '.join(ACCOUNTANTS)}")
    counting = ACCOUNTANTS[accountant]
    if counting is PURE:
        delta = 0.0
    elif not float(DELTA_MIN) <= delta < 1:
        raise PopulationError("delta must be at least 1e-15 and below 1")
    if not accepts_delta:
        check_delta(delta)
        check_delta(limit.delta)
    units = units_of_limit(counting, limit)
    return Population(
        name=name,
        adjacency=adjacency,
        accountant=counting,
        delta=delta,
        limit=units,
        highest_limit=units,
        posted=0,
        pending=0,
        sequence=0,
        head=GENESIS,
        created_at=moment,
        epoch=EPOCH_FIRST,
        sealed="",
    )


def open_population(ledger: Ledger, population: Population, *, actor: str, time: str, **approval: str) -> Receipt:
    """Store a population and begin its chain with the actor, the time, and the approver.

    Raises
    ------
    PopulationError
        If the name is taken.
    """
    if not repository.insert_population(ledger.connection, population):
        raise PopulationError(
            f"the population {population.name!r} exists; a budget is given once, and never refilled by naming it again"
        )
    opening = opening_of(population, actor=actor, time=time, **approval)
    return ledger.record(ledger.next(population.name), opening, population.limit)


class LedgerService:
    """Units of work on the ledger, and what admins and auditors do with it.

    Parameters
    ----------
    now : callable
        The clock.
    """

    def __init__(self, database: Database, guard: Guard, now: Clock = utc_now) -> None:
        self.database = database
        self.guard = guard
        self.client_checkpoints = ClientCheckpoints(guard)
        self.now = now

    @contextmanager
    def unit(self) -> Iterator[Ledger]:
        """Open a unit of work that writes the ledger: all of it durable, or nothing.

        Raises
        ------
        LedgerUnverified
            If the ledger was changed or wound back under this process: the curator seals itself.
        Unavailable
            If the anchor cannot be read.
        """
        if self.guard.degraded_reason:
            raise unverified()
        signer = self.guard.signer()
        try:
            with self.database.begin() as connection:
                yield Ledger(connection, signer, self.guard.trust)
        except Contradiction as found:
            self.guard.seal(str(found))
            raise unverified() from None
        except DatabaseReplaced:
            raise unverified() from None
        except AnchorError as error:
            log.error("%s", error)  # noqa: TRY400 -- the message says it all
            raise Unavailable(
                "The ledger's anchor cannot be read. Nothing was charged unless a repeat with the same "
                "Idempotency-Key returns an answer."
            ) from None

    def end(self, reservation_id: str, outcome: str, *, actor: str) -> bool:
        """Close a reservation and give back what is left; False if it had ended before, or there is none.

        Decided by its state in the database, so that nothing is given back twice, or after it was charged.

        Raises
        ------
        LedgerUnverified
            If the curator is sealed.
        """
        with self.database.read() as connection:
            reservation = reservations.find_reservation(connection, reservation_id)
        if reservation is None or reservation.state != reservations.OPEN:
            return False
        try:
            with self.unit() as ledger:
                ledger.release(reservation, outcome, timestamp(self.now()), actor=actor)
        except Refused:
            self.guard.check_open()  # under a seal it is held until the ledger is reconciled
            return False
        return True

    def create_population(
        self,
        name: str,
        *,
        adjacency: Adjacency,
        accountant: str,
        limit: Price,
        delta: float,
        actor: str,
        accepts_delta: bool = False,
    ) -> Population:
        """Create a population with its budget, as an operator at the machine does: of `plan_population`'s terms.

        Raises
        ------
        PopulationError
            If the name is taken, or a number is out of range.
        LedgerUnverified
            If the curator is sealed.
        """
        moment = timestamp(self.now())
        population = plan_population(name, adjacency, accountant, limit, delta, moment, accepts_delta=accepts_delta)
        self.guard.check_open()
        with self.unit() as ledger:
            receipt = open_population(ledger, population, actor=actor, time=moment)
        self.guard.anchor_before_send(receipt, just_written=True)
        return replace(population, sequence=1)

    def list_populations(self) -> list[Population]:
        """Return every population with its account."""
        with self.database.read() as connection:
            return repository.list_populations(connection)

    def list_chains(self) -> list[Population]:
        """Return the account of every chain: the populations', and the register's, which has no budget."""
        with self.database.read() as connection:
            return repository.list_chains(connection)

    def get_population(self, name: str) -> Population:
        """Return a population.

        Raises
        ------
        NotFound
        """
        with self.database.read() as connection:
            population = repository.find_population(connection, name) if NAME.fullmatch(name) else None
        if population is None:
            raise NotFound("There is no population of this name.")
        return population

    def find_newest_moment(self) -> str:
        """Return the latest moment that the last attested entries of all chains state; empty if there are none."""
        holds = partial(holds_by_keys_that_follow, self.guard.keys)
        with self.database.read() as connection:
            found = [
                (chain.name, entry)
                for chain in repository.list_chains(connection)
                for entry in repository.list_entries(
                    connection, chain.name, after=max(0, chain.sequence - _LATEST), count=_LATEST
                )
            ]
        try:
            attested = [entry for chain, entry in found if is_attested(chain, entry, holds)]
        except KeyUnreadable:
            return ""  # no entry can be believed, and none is written
        return max((json.loads(entry.payload_text).get("time", "") for entry in attested), default="")

    def get_checkpoint(self, population: str) -> SignedCheckpoint:
        """Return the signed checkpoint of a chain's head, and move the anchor to it.

        Raises
        ------
        NotFound
        """
        with self.database.read() as connection:
            entry = repository.find_head(connection, population)
        if entry is None:
            raise NotFound("There is no population of this name.")
        receipt = Receipt(entry.payload_text, entry.entry_hash, entry.signature)
        if self.guard.trust.heads.get(population) != receipt and not self.guard.reason():
            self.guard.check_attested(population, entry)
            self.guard.trust.heads[population] = receipt
        self.guard.anchor_before_send(receipt)
        return receipt.signed

    def list_entries(self, population: str, *, after: int = 0, count: int = 100) -> list[dict[str, Any]]:
        """Return a page of a chain, each entry with its hash and signature."""
        with self.database.read() as connection:
            page = repository.list_entries(connection, population, after=after, count=count)
        told = [entry for entry in page if f'"kind":"{AnswerQuestion.kind}"' in entry.payload_text]
        if told:  # their answers are in the entries themselves: what is seen must not be wound back
            self.guard.anchor_before_send(Receipt(told[-1].payload_text, told[-1].entry_hash, told[-1].signature))
        return [entry.render() for entry in page]

    def verify(self, population: str) -> Verification:
        """Verify a chain against its account, every signature included, in one consistent read.

        Raises
        ------
        NotFound
        SigningError
            If the public keys do not follow from each other.
        """
        with self.database.snapshot() as connection:
            return self.verify_within(connection, population)

    def verify_within(self, connection: Connection, population: str, **watching: Watch) -> Verification:
        """Verify a chain as `verify` does, within a consistent read; `watch` is shown each entry that holds."""
        row = repository.find_population(connection, population)
        if row is None:
            raise NotFound("There is no population of this name.")
        self.guard.keys.forget()  # after the read has begun: no entry in it is signed by a key that is newer
        return verify_population(connection, row, self.guard.keys.verifier(), every_signature=True, **watching)


def find_headrooms(connection: Connection, population: Population, payer: Payer) -> list[Headroom]:
    """Return every limit that binds a payer, the tightest first."""
    if payer.reservation_id is not None:
        reservation = reservations.find_reservation(connection, payer.reservation_id)
        if reservation is not None:
            return [Headroom(f"the reservation {reservation.id!r}", reservation.units, reservation.left)]
    headrooms = [Headroom(f"the population {population.name!r}", population.limit, population.remaining)]
    share = repository.find_share(connection, population.name, payer.permit_id)
    if share is not None and share.limit is not None:
        owner = f"the project {payer.project!r}" if payer.project else "you"
        headrooms.append(Headroom(owner, share.limit, share.limit - share.posted - share.pending))
    return sorted(headrooms, key=lambda room: room.left)
