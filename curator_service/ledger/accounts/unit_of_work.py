"""The ledger of one unit of work: what may happen to an account, and the entry of each step."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypedDict

from pydantic_core import from_json

from curator_service.entries.account import EPOCH_FIRST, GENESIS, OpenThresholds, Unfounded
from curator_service.entries.amounts import Void
from curator_service.entries.base import FORMAT, REGISTER, Entry, Event, Place
from curator_service.entries.rules import Asked, find_broken
from curator_service.entries.terms import Key, Open
from curator_service.entries.told import Registration, Told
from curator_service.kit.db import Connection
from curator_service.ledger import repository
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.chain.attestation import Holds, is_attested
from curator_service.ledger.chain.entries import (
    Checkpoint,
    Receipt,
    SignedCheckpoint,
    StoredEntry,
    canonical,
    entry_hash,
)
from curator_service.ledger.chain.signing import Signer
from curator_service.ledger.repository import Head, Population
from curator_service.ledger.trust.anchor import Anchor
from curator_service.privacy.accountant import GDP
from curator_service.privacy.adjacency import Adjacency


class Refused(Exception):
    """The database decided against a unit of work, which is undone: an amount does not fit, or a state has changed."""


class Contradiction(Exception):
    """A unit of work found the ledger changed or wound back under a running curator; the message says how."""


@dataclass(frozen=True, slots=True)
class Payer:
    """Payer of a charge, its permit and source: the account, or a reservation of a part of it."""

    principal_id: str
    permit_id: str
    project: str = ""
    reservation_id: str | None = None

    @property
    def stated(self) -> "StatedPayer":
        """Payer, as the ledger's entry states it."""
        return {"actor": self.principal_id, "permit": self.permit_id, "project": self.project or None}


class StatedPayer(TypedDict):
    """Members of an entry that name the payer."""

    actor: str
    permit: str
    project: str | None


class Ledger:
    """The ledger of one unit of work. Every step locks the account first, and raises `Refused` to undo all of it.

    Parameters
    ----------
    connection : Connection
        Inside `Database.begin`.
    """

    def __init__(self, connection: Connection, signer: Signer, trust: "Trust") -> None:
        self.connection = connection
        self.signer = signer
        self.trust = trust

    def charge(self, population: str, dataset_id: str, cost: int, payer: Payer, moment: str) -> Head:
        """Charge a cost to the account, or to the payer's reservation, decided by the database in one statement.

        Parameters
        ----------
        cost : int
            Units.
        moment : str
            The time that the entry will state.

        Returns
        -------
        Head
            The entry's place.
        """
        if cost <= 0:
            raise ValueError("a charge is positive")
        if payer.reservation_id is None:
            return self._spend(population, dataset_id, payer, moment, posted=cost, pending=0)
        repository.lock(self.connection, population)
        if not reservations.draw(self.connection, payer.reservation_id, payer.principal_id, cost):
            raise Refused
        return self._spend(population, dataset_id, payer, moment, posted=cost, pending=-cost)

    def _take(self, population: str, *, posted: int, pending: int) -> Head:
        """Lock the account, move it, and take the next sequence; nothing under a seal."""
        head = repository.move(self.connection, population, posted=posted, pending=pending)
        if head is None:
            raise Refused
        self.check(head, limit=head.limit, posted=head.posted - posted, pending=head.pending - pending)
        return head

    def _spend(self, population: str, dataset_id: str, payer: Payer, moment: str, *, posted: int, pending: int) -> Head:
        """Take from the account what a permit allows: to whoever pays, of this dataset, now and within its limit."""
        head = self._take(population, posted=posted, pending=pending)
        moved = repository.move_share(
            self.connection,
            population,
            payer.permit_id,
            principal=payer.principal_id,
            dataset=dataset_id,
            posted=posted,
            pending=pending,
            moment=moment,
        )
        if not moved:
            raise Refused
        return head

    def use(self, population: str, dataset_id: str, payer: Payer, moment: str) -> Head:
        """Take the next sequence for a payer whose permit holds now, without moving an amount."""
        return self._spend(population, dataset_id, payer, moment, posted=0, pending=0)

    def reserve(self, reservation: Reservation, details: str | None = None) -> Receipt:
        """Hold an amount of the account, or of an analyst's reservation, and say so in the chain."""
        if reservation.units <= 0:
            raise ValueError("a reservation is positive")
        place = reservation.population, reservation.dataset_id, _payer(reservation), reservation.created_at
        if reservation.drawn_from is None:
            held = reservation.units
            head = self._spend(*place, posted=0, pending=held)
        else:
            head = self._spend(*place, posted=0, pending=0)
            drawn = reservations.draw(
                self.connection, reservation.drawn_from, reservation.principal_id, reservation.units
            )
            if not drawn:
                raise Refused
        stored = replace(
            reservation, sequence=head.sequence, details=reservation.details if details is None else details
        )
        reservations.insert_reservation(self.connection, stored)
        return self.record(head, reservations.entry_of(reservation), reservation.units)

    def post(self, reservation: Reservation, moment: str) -> Head:
        """Turn what a job holds into a charge: only while its reservation is open and its permit lasts, never twice."""
        units = reservation.units
        repository.lock(self.connection, reservation.population)
        if not reservations.close_reservation(self.connection, reservation.id, reservations.DONE, drawn=units):
            raise Refused
        payer = _payer(reservation)
        return self._spend(reservation.population, reservation.dataset_id, payer, moment, posted=units, pending=-units)

    def release(self, reservation: Reservation, outcome: str, moment: str, *, actor: str) -> Receipt:
        """Give back what is left of a reservation: to the account, or to the one that a job drew on."""
        repository.lock(self.connection, reservation.population)
        current = reservations.find_reservation(self.connection, reservation.id)
        if current is None or not reservations.close_reservation(self.connection, reservation.id, outcome):
            raise Refused
        left = current.units - current.drawn
        drawn_from, to = current.drawn_from, None
        if drawn_from is not None and reservations.draw(self.connection, drawn_from, current.principal_id, -left):
            to = drawn_from
            head = self.next(current.population)
        else:
            head = self._take(current.population, posted=0, pending=-left)
            repository.give_back_share(self.connection, current.population, current.permit_id, left)
            if drawn_from is not None:
                reservations.undraw(self.connection, drawn_from, left)
        void = Void(
            **_payer(current).stated | {"actor": actor},
            reservation=current.id,
            holder=current.principal_id,
            time=moment,
            outcome=outcome,
            to=to,
        )
        return self.record(head, void, left)

    def next(self, population: str) -> Head:
        """Take the next sequence without moving an amount."""
        return self._take(population, posted=0, pending=0)

    def note(self, population: str, event: Event) -> Receipt:
        """Append an entry that charges nothing."""
        return self.record(self.next(population), event, 0)

    def act(self, event: Event) -> list[Receipt]:
        """Append an act of the curator to the register, which the first one opens; other accounts are locked before.

        Parameters
        ----------
        event : Event
            Never with a secret.

        Returns
        -------
        list of Receipt
            To be anchored, in this order, when the unit of work is committed.
        """
        opening = self.open_register(event.time)
        return [*opening, self.note(REGISTER, event)]

    def open_register(self, moment: str, *, above: int = 0) -> list[Receipt]:
        """Begin the register, where there is none: in an epoch above every one that was seen of a lost one."""
        if repository.find_population(self.connection, REGISTER) is not None:
            return []
        self.trust.anchor.refresh()
        epoch = max(EPOCH_FIRST, self.trust.anchor.floor(REGISTER)[0] + 1, above + 1)
        account = Population(
            name=REGISTER,
            adjacency=Adjacency.ADD_REMOVE,
            accountant=GDP,
            delta=0.0,
            limit=0,
            highest_limit=0,
            posted=0,
            pending=0,
            sequence=1,
            head=GENESIS,
            created_at=moment,
            epoch=epoch,
            sealed="",
        )
        if not repository.insert_population(self.connection, account):
            return []  # another unit of work has just begun it
        head = Head(REGISTER, 1, GENESIS, epoch, 0, 0, 0)
        return [self.record(head, opening_of(account, actor="curator", time=moment), 0)]

    def record(self, head: Head, event: Event, units: int) -> Receipt:
        """Append an entry to the chain of a locked account, hashed and signed.

        Raises
        ------
        Contradiction
            If its sequence is one that somebody on this machine has seen taken.
        """
        self.trust.anchor.refresh()
        if (head.epoch, head.sequence) <= self.trust.anchor.floor(head.population):
            raise Contradiction(f"sequence {head.sequence} of {head.population!r} was given out twice")
        place = Place(
            format=FORMAT,
            population=head.population,
            sequence=head.sequence,
            previous_hash=head.previous_hash,
            units=str(units),
            epoch=head.epoch,
            limit=str(head.limit),
            posted=str(head.posted),
            pending=str(head.pending),
            key_id=self.signer.key_id,
        )
        payload_text = canonical(event.payload | dict(place))
        digest = entry_hash(payload_text)
        checkpoint = Checkpoint(
            head.population,
            head.sequence,
            digest,
            head.epoch,
            head.limit,
            head.posted,
            head.pending,
            self.signer.key_id,
        )
        signed = SignedCheckpoint(checkpoint, self.signer.sign(checkpoint))
        entry = StoredEntry(head.sequence, payload_text, digest, signed.signature)
        repository.append_entry(self.connection, head.population, entry)
        if event.charged is not None:
            repository.add_spending(self.connection, head.population, event.charged, units)
        receipt = Receipt.of(payload_text, signed)
        self.trust.heads[head.population] = receipt
        return receipt

    def check(self, head: Head, *, limit: int, posted: int, pending: int) -> None:
        """Compare a locked account, as it was before it moved, with the last entry; and ask the seal once more.

        The lock may have been waited for: what was true when the statement began need not be true any more.

        Raises
        ------
        Refused
            If the curator was sealed in the meantime.
        Contradiction
            If account and entry differ, or the entry is not signed by this curator.
        """
        entry, sealed = repository.find_head_and_seal(self.connection, head.population)
        if sealed:
            raise Refused
        if entry is None:
            if head.previous_hash != GENESIS:
                raise Contradiction(f"the ledger of {head.population!r} has lost its entries")
            return
        if entry.entry_hash != head.previous_hash or entry.sequence != head.sequence - 1:
            raise Contradiction(f"the account of {head.population!r} does not point to its last entry")
        receipt = Receipt(entry.payload_text, entry.entry_hash, entry.signature)
        known = self.trust.heads.get(head.population)
        if known == receipt:
            receipt = known
        elif not self.trust.holds(receipt):
            raise Contradiction(f"the last entry of {head.population!r} is not one that this curator signed")
        stated = receipt.signed.checkpoint
        asked = limit, posted, pending, entry.sequence, head.epoch
        if (stated.limit, stated.posted, stated.pending, stated.sequence, stated.epoch) != asked:
            raise Contradiction(f"the account of {head.population!r} is not what its last entry says")

    def check_registered(self, dataset: "Registration") -> None:
        """Compare a dataset with what the ledger registered, the account locked; see `Trust.check_registered`."""
        self.trust.check_registered(self.connection, dataset)

    def check_latest(self, dataset: Registration, head: Head, payer: Payer, asked: Asked) -> None:
        """Compare a dataset and the payer with the ledger's statements, before the head's entry is written.

        Raises
        ------
        Refused
            If the permit is of another project, or a rule does not allow what is asked: it has just been changed.
        Contradiction
            If it is not the version that was registered last, or not the permit that was granted last: whoever may
            change the tables could put back rows that have ended, or let people spend more, for a moment.
        """
        self.trust.check_latest(self.connection, dataset, head)
        self.trust.check_permit(self.connection, dataset, payer)
        self.trust.check_terms(dataset.population, payer, asked)

    def find_session(self, head: Head, session: str, opened_at: int) -> OpenThresholds | None:
        """Return a threshold session as the chain tells of it before an entry, or None where it has ended.

        The last attested answer says how many there were, so no other one is read. The hashes from the account's last
        entry back to it say that none is gone.

        Raises
        ------
        Contradiction
            If it is not as many as are known already, an entry since then is gone or changed, or cannot be read.
        """
        told, holds = self.trust.follow(self.connection, head), self.trust.holds
        if session not in told.sessions:
            return None
        found = repository.iterate_answers_back(
            self.connection, head.population, session, after=opened_at, before=head.sequence
        )
        last = next((stored for stored in found if is_attested(head.population, stored, holds)), None)
        if last is not None:
            _tell(told, last)
        self._check_links(head, opened_at if last is None else last.sequence)
        return told.sessions.get(session)

    def _check_links(self, head: Head, after: int) -> None:
        """Check that each entry between one and a head is the one that the next one names."""
        named = ""
        for stored in repository.iterate_entries(self.connection, head.population, after=after - 1):
            if stored.sequence >= head.sequence:
                break
            if named and f'"previous_hash":"{named}"' not in stored.payload_text:
                raise Contradiction(f"the entry before {stored.sequence} of {head.population!r} is gone")
            named = entry_hash(stored.payload_text)
        if named != head.previous_hash:
            raise Contradiction(f"the entries of {head.population!r} do not lead to its last one")


def _payer(reservation: Reservation) -> Payer:
    return Payer(reservation.principal_id, reservation.permit_id, reservation.project)


def opening_of(account: Population, *, actor: str, time: str, **approval: str) -> Open:
    """Return what the first entry of an account says."""
    return Open(
        actor=actor,
        time=time,
        adjacency=account.adjacency,
        accountant=account.accountant.name,
        delta=repr(account.delta),
        **approval,
    )


def read_told(connection: Connection, told: Told, holds: Holds, *, after: int = repository.BEFORE_ALL) -> Told:
    """Add what the attested entries of a chain after a sequence say beside amounts.

    Raises
    ------
    Contradiction
        If one that is signed cannot be read.
    """
    found = repository.iterate_rare(connection, told.population, after=after)
    # All of them, or none: a signature that cannot be checked now is asked for again, and no answer is counted twice.
    attested = [stored for stored in found if is_attested(told.population, stored, holds)]
    for stored in attested:
        _tell(told, stored)
    return told


def _tell(told: Told, stored: StoredEntry) -> None:
    try:
        Entry.read(from_json(stored.payload_text)).said.tell(told)
    except (ValueError, KeyError, TypeError, Unfounded):
        raise Contradiction(f"an entry of {told.population!r} cannot be read") from None


@dataclass(slots=True)
class Trust:
    """Evidence that a unit of work checks the ledger against.

    Attributes
    ----------
    anchor : Anchor
    holds : callable
        Whether a receipt is whole, and signed by this curator.
    heads : dict of str to Receipt
        The last entry of each population that this process wrote or verified.
    told : dict of str to (Told, int)
        Of each population what its chain was found to say, and up to which sequence, under the account's lock.
    """

    anchor: Anchor
    holds: Holds
    heads: dict[str, Receipt] = field(default_factory=dict)
    told: dict[str, tuple[Told, int]] = field(default_factory=dict)

    def _find_told(self, population: str) -> tuple[Told, int]:
        return self.told.setdefault(population, (Told(population), repository.BEFORE_ALL))

    def check_registered(self, connection: Connection, dataset: Registration) -> None:
        """Compare a dataset, as a request was planned with it, with what the ledger registered.

        The rows of the tables say what it is, and whoever may change them could lower its noise, let other people pay,
        or read what was released to others, for a moment.

        Raises
        ------
        Contradiction
            If no attested entry of the population's chain registered it so.
        """
        known, after = self._find_told(dataset.population)
        if dataset not in known.versions:
            # Without the account's lock: what was told last is not to be known by this, versions alone are.
            found = read_told(connection, Told(known.population, known.terms), self.holds, after=after)
            known.versions |= found.versions
        if dataset not in known.versions:
            raise Contradiction(f"the dataset {dataset.name!r} is not one that {dataset.population!r} registered")

    def follow(self, connection: Connection, head: Head) -> Told:
        """Return what a chain says before an entry that is to be written, its account locked."""
        known, after = self._find_told(head.population)
        read_told(connection, known, self.holds, after=after)
        self.told[head.population] = known, head.sequence - 1
        return known

    def check_latest(self, connection: Connection, dataset: Registration, head: Head) -> None:
        """Compare a dataset with the version that the ledger registered last; see `Ledger.check_latest`."""
        known = self.follow(connection, head)
        if known.latest.get(dataset.dataset_id) != dataset:
            raise Contradiction(f"the dataset {dataset.name!r} is not what {dataset.population!r} registered last")

    def check_permit(self, connection: Connection, dataset: Registration, payer: Payer) -> None:
        """Compare a permit with what the ledger said of it last; after `check_latest`, which has read that."""
        said = self.told[dataset.population][0].permits.get(payer.permit_id)
        share = repository.find_share(connection, dataset.population, payer.permit_id)
        if (
            said is None
            or share is None
            or (share.limit, share.expires_at) != (said.limit, said.expires_at)
            or payer.principal_id not in said.people
            or dataset.name not in said.datasets
        ):
            raise Contradiction(f"the permit {payer.permit_id!r} is not what {dataset.population!r} granted last")

    def check_terms(self, population: str, payer: Payer, asked: Asked) -> None:
        """Refuse another project, and what a rule does not allow, as the ledger had them last; after `check_permit`.

        A permit may be given another project at any time. What was held before goes by the old one.
        """
        said = self.told[population][0].permits.get(payer.permit_id)
        if said is None:
            return
        renamed = payer.reservation_id is None and payer.project != said.project
        if renamed or find_broken(said.rules, asked) is not None:
            raise Refused


def announce_key(trust: Trust) -> Callable[[Connection, Signer, str], None]:
    """Return what writes into every chain that a new key signs from now on."""

    def announce(connection: Connection, signer: Signer, moment: str) -> None:
        ledger = Ledger(connection, signer, trust)
        for population in repository.list_chains(connection):
            ledger.note(population.name, Key(actor="curator", signing_key=signer.key_id, time=moment))

    return announce


def new_id(prefix: str) -> str:
    """Return a new random id."""
    return f"{prefix}{secrets.token_hex(12)}"
