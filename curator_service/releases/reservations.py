"""Reservations as their holders see them: analysts' own, and jobs."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import to_json

from curator_service.datasets.repository import Dataset, find_dataset_by_id
from curator_service.identity.policy import Action, Objects, allowed_objects
from curator_service.identity.repository import Principal, find_principal_by_id
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import Connection, Database
from curator_service.kit.idempotency import check_key, key_reused
from curator_service.kit.problems import NotFound, Problem, RequestInvalid, Unavailable
from curator_service.ledger.accounts import reservations
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.accounts.unit_of_work import Payer, Refused, new_id
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.repository import Population, find_entry, find_population
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.service import Headroom, LedgerService, find_headrooms
from curator_service.ledger.trust.guard import unverified
from curator_service.permits.service import PermitService
from curator_service.releases import repository
from curator_service.releases.keys import KeyClaims
from curator_service.releases.preparation import digest
from curator_service.releases.refusal import reservation_exceeded
from curator_service.releases.repository import KnownKey
from curator_service.releases.response_models import HeldJob, HeldReservation, JobAnswer, ReservationState
from curator_service.releases.schemas import ReservationRequest
from curator_service.releases.submission import (
    ATTEMPTS,
    AnswerKind,
    JobEnded,
    ReservationEnded,
    reservation_not_found,
)

LONG_S = 3600
"""Reservations that last longer than this, in seconds, hold half of what is not spent, together."""
_ID_PATTERN = re.compile(r"(job|res)_[0-9a-f]{24}")
_REASONS = {
    reservations.VOIDED: "The work ended before it was finished. Nothing was charged: send the request again.",
    reservations.EXPIRED: "Its permit ended before it was finished. Nothing was charged.",
    reservations.CANCELLED: "It was cancelled. Nothing was charged.",
}


class ReservationService:
    """Reservations of analysts, and the jobs that hold what they will cost.

    Parameters
    ----------
    now : callable
        The clock.
    """

    def __init__(
        self, database: Database, ledger: LedgerService, permits: PermitService, claims: KeyClaims, now: Clock
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.permits = permits
        self.claims = claims
        self.now = now

    # --- Reservations of analysts

    def reserve(
        self, dataset: Dataset, request: ReservationRequest, analyst: Principal, key: str | None
    ) -> tuple[bytes, AnswerKind]:
        """Hold an amount; the same key gives the same bytes for ever.

        Raises
        ------
        IdempotencyKeyMissing, IdempotencyKeyReused, RequestInvalid, BudgetExceeded, LedgerUnverified, Unavailable
        """
        key, moment = check_key(key), self.now()
        fingerprint = f"{digest(request.model_dump(exclude_none=True), dataset=dataset.id)}:reservation"
        try:
            units = dataset.accountant.units_of(request.price.price)
        except ValueError as error:
            raise RequestInvalid.at("/price", str(error)) from None
        if units <= 0:
            raise RequestInvalid.at("/price", "the amount is below the smallest that the account counts; hold more")
        is_long = request.expires_in_s > LONG_S
        for _ in range(ATTEMPTS):
            with self.database.read() as connection:
                known = repository.find_key(connection, analyst.id, key)
                population = find_population(connection, dataset.population)
                assert population is not None
                use = self.permits.choose(connection, analyst, dataset, request.project)
                payer = (
                    Payer(analyst.id, "") if isinstance(use, Problem) else Payer(analyst.id, use.permit, use.project)
                )
                headrooms = find_headrooms(connection, population, payer)
                if is_long:
                    headrooms = sorted([*headrooms, _long_room(connection, population, moment)], key=_left)
            if known is not None:
                return self._replay(known, fingerprint), AnswerKind.REPLAYED
            if isinstance(use, Problem):
                raise use
            if population.sealed:
                raise unverified()
            if units > headrooms[0].left:
                raise reservation_exceeded(units, population, headrooms[0])
            reservation = Reservation(
                id=new_id(reservations.RESERVATION),
                population=population.name,
                dataset_id=dataset.id,
                principal_id=analyst.id,
                permit_id=payer.permit_id,
                project=payer.project,
                drawn_from=None,
                units=units,
                drawn=0,
                state=reservations.OPEN,
                outcome=reservations.RUNNING,
                request_digest="",
                details="",
                owner="",
                created_at=timestamp(moment),
                expires_at=timestamp(moment + timedelta(seconds=request.expires_in_s)),
            )
            details = to_json(ReservationState.of(reservation, dataset.name, population)).decode()
            try:
                with self.ledger.unit() as ledger:
                    claimed = self.claims.claim(
                        ledger.connection, analyst.id, key, fingerprint, reservation_id=reservation.id
                    )
                    receipt = ledger.reserve(reservation, details) if claimed else None
                    if receipt is not None and is_long:
                        _check_long(ledger.connection, population.name, moment)
            except Refused:
                continue
            if receipt is None:  # somebody used the key in this instant: what it reserved is the answer
                continue
            self.ledger.guard.anchor_before_send(receipt, just_written=True)
            return _with_receipt(details, receipt), AnswerKind.NEW
        raise Unavailable("Too many requests decide about this account at once. Nothing was reserved; send it again.")

    def _replay(self, known: KnownKey, fingerprint: str) -> bytes:
        if known.fingerprint != fingerprint or known.reservation_id is None:
            raise key_reused()
        reservation = self._find(known.reservation_id)
        return _with_receipt(reservation.details, self._receipt(reservation))

    def get_reservation(self, reservation_id: str, analyst: Principal) -> bytes:
        """Return a reservation as it stands.

        Raises
        ------
        ReservationNotFound
        """
        reservation = self._find(reservation_id)
        if not _may_touch(reservation, analyst) or not reservation.id.startswith(reservations.RESERVATION):
            raise reservation_not_found()
        with self.database.read() as connection:
            population = find_population(connection, reservation.population)
        assert population is not None
        shown = ReservationState.of(reservation, json.loads(reservation.details)["dataset"], population)
        return _with_receipt(to_json(shown).decode(), self._receipt(reservation))

    def close_reservation(self, reservation_id: str, analyst: Principal) -> bytes:
        """Give back what is left of a reservation.

        Raises
        ------
        ReservationNotFound, ReservationEnded
        """
        self.get_reservation(reservation_id, analyst)
        if not self.ledger.end(reservation_id, reservations.CLOSED, actor=analyst.id):
            raise ReservationEnded(
                f"The reservation {reservation_id!r} had ended before; nothing of it was held any more."
            )
        return self.get_reservation(reservation_id, analyst)

    def list_reservations(self, *, of: str | None) -> list[HeldReservation]:
        """Return the open reservations, the oldest first; with `of`, those of one principal."""
        found = self._list_held(reservations.RESERVATION, of)
        return [HeldReservation.model_construct(**held, expires_at=one.expires_at) for one, held in found]

    def list_jobs(self, *, of: str | None) -> list[HeldJob]:
        """Return the jobs that wait or run, without their requests; with `of`, those of one principal."""
        return [HeldJob.model_construct(**held) for _, held in self._list_held(reservations.JOB, of)]

    def _list_held(self, prefix: str, of: str | None) -> list[tuple[Reservation, dict[str, Any]]]:
        with self.database.read() as connection:
            found = [one for one in reservations.list_held(connection, of=of) if one.id.startswith(prefix)]
            names = {key: find_principal_by_id(connection, key) for key in {one.principal_id for one in found}}
            datasets = {
                key: find_dataset_by_id(connection, key, granted_to=None) for key in {one.dataset_id for one in found}
            }
            accounts = {key: find_population(connection, key) for key in {one.population for one in found}}
        shown = []
        for one in found:
            account, dataset, holder = accounts[one.population], datasets[one.dataset_id], names[one.principal_id]
            assert account is not None
            assert dataset is not None
            said = {
                "id": one.id,
                "dataset": dataset.name,
                "population": one.population,
                "holder": one.principal_id if holder is None else holder.name,
                "project": one.project or None,
                "permit": one.permit_id,
                "remaining": AmountModel.of(account.view(one.left)),
                "created_at": one.created_at,
            }
            shown.append((one, said))
        return shown

    def _find(self, reservation_id: str) -> Reservation:
        found = None
        if _ID_PATTERN.fullmatch(reservation_id):
            with self.database.read() as connection:
                found = reservations.find_reservation(connection, reservation_id)
        if found is None:
            raise reservation_not_found()
        return found

    def _receipt(self, reservation: Reservation) -> Receipt:
        with self.database.read() as connection:
            entry = find_entry(connection, reservation.population, reservation.sequence)
        assert entry is not None
        self.ledger.guard.check_attested(reservation.population, entry)
        receipt = Receipt(entry.payload_text, entry.entry_hash, entry.signature)
        self.ledger.guard.anchor_before_send(receipt)
        return receipt

    # --- Jobs

    def get_job(self, job_id: str) -> Reservation:
        """Return a job; the caller checks who may see its dataset.

        Raises
        ------
        NotFound
        """
        job = None
        if _ID_PATTERN.fullmatch(job_id) and job_id.startswith(reservations.JOB):
            with self.database.read() as connection:
                job = reservations.find_reservation(connection, job_id)
        if job is None:
            raise job_not_found()
        return job

    def describe_job(self, job: Reservation, dataset: Dataset) -> JobAnswer:
        """Return a job. Its progress is the share of its public time that has passed, and tells no rows."""
        details = json.loads(job.details)
        with self.database.read() as connection:
            release_id = repository.find_release_of(connection, job.id)
        passed_s = (self.now() - _moment(job.created_at)).total_seconds()
        running = job.state == reservations.OPEN
        share = min(0.99, max(0.0, passed_s / max(details["duration_ms"] / 1000, 0.001)))
        state: Any = job.outcome
        return JobAnswer.model_construct(
            id=job.id,
            dataset=dataset.name,
            state=state,
            progress=round(share, 2) if running else 1.0,
            created_at=job.created_at,
            release=None if running else release_id,  # it may have ended since the job was looked at
            reason=_REASONS.get(job.outcome),
            request=json.loads(details["request"]),
        )

    def cancel(self, job: Reservation, analyst: Principal) -> Reservation:
        """Give a job up before it is charged.

        Raises
        ------
        NotFound
            If it is somebody else's.
        JobEnded
        """
        if not _may_touch(job, analyst):
            raise job_not_found()
        if not self.ledger.end(job.id, reservations.CANCELLED, actor=analyst.id):
            raise JobEnded(
                f"The job {job.id!r} had ended before it could be cancelled; GET /v1/jobs/{job.id} says how."
            )
        return self.get_job(job.id)


def _find_long(connection: Connection, population: Population, moment: datetime) -> tuple[int, int]:
    """Return what is held for longer than an hour from now, and how much may be: half of what is not spent."""
    held = reservations.sum_held(connection, population.name, past=timestamp(moment + timedelta(seconds=LONG_S)))
    return held, (population.limit - population.posted) // 2


def _long_room(connection: Connection, population: Population, moment: datetime) -> Headroom:
    held, most = _find_long(connection, population, moment)
    owner = "all reservations of longer than an hour together; one of an hour at most may hold all that is left"
    return Headroom(owner, most, max(0, most - held))


def _check_long(connection: Connection, name: str, moment: datetime) -> None:
    """Decide again once a reservation is made: the account is locked, so whoever was first is counted."""
    population = find_population(connection, name)
    assert population is not None
    held, most = _find_long(connection, population, moment)
    if held > most:
        raise Refused


def _left(room: Headroom) -> int:
    return room.left


def _may_touch(reservation: Reservation, principal: Principal) -> bool:
    """Tell whether a reservation is the principal's own; an admin may end anybody's, so that nobody hoards."""
    everybodys = allowed_objects(principal.roles, Action.END_RESERVATION) is Objects.ALL
    return everybodys or reservation.principal_id == principal.id


def job_not_found() -> NotFound:
    """Build the refusal of a job that is not there or not visible: which of these is not said."""
    return NotFound("There is no job of this id among those that you may see.")


def _with_receipt(body: str, receipt: Receipt) -> bytes:
    return f'{body[:-1]},"receipt":{receipt.text}}}'.encode()


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
