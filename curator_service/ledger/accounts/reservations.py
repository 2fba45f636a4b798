"""Queries of reservations: amounts that analysts or jobs hold. Whoever changes one holds its account."""

from dataclasses import dataclass

from sqlalchemy import BigInteger, bindparam, delete, exists, func, insert, or_, select, update

from curator_service.entries.account import FOR_EVER
from curator_service.entries.amounts import Reserve
from curator_service.kit.db import Connection, InsertIfAbsent, Statement
from curator_service.ledger.models import ReservationRow, ShareRow, WorkerRow

JOB, RESERVATION = "job_", "res_"
RUNNING, DONE, VOIDED, CANCELLED, CLOSED, EXPIRED = "running", "done", "voided", "cancelled", "closed", "expired"
OPEN, ENDED = "open", "closed"


@dataclass(frozen=True, slots=True)
class Reservation:
    """An amount that is held.

    Attributes
    ----------
    id : str
        ``job_…``, or ``res_…`` of an analyst. A closed one never opens again, so the id is the fence of its worker.
    drawn_from : str or None
        The reservation of an analyst that a job draws on, by its id.
    permit_id : str
        The permit under which it is held.
    units, drawn : int
        What was reserved, and what of it was spent or passed on to a job.
    state : str
        ``open`` or ``closed``.
    outcome : str
        ``running`` while open; then ``done``, ``voided``, ``cancelled``, ``closed`` or ``expired``.
    request_digest : str
        Of a job's request; empty where a fresh draw was asked for, and for an analyst's.
    details : str
        JSON for whoever shows it.
    owner : str
        The worker of a job.
    expires_at : str
        When an analyst's ends; empty for a job.
    sequence : int
        Of its entry in the ledger.
    """

    id: str
    population: str
    dataset_id: str
    principal_id: str
    permit_id: str
    project: str
    drawn_from: str | None
    units: int
    drawn: int
    state: str
    outcome: str
    request_digest: str
    details: str
    owner: str
    created_at: str
    expires_at: str
    sequence: int = 0

    @property
    def left(self) -> int:
        """Units that can still be drawn."""
        return self.units - self.drawn if self.state == OPEN else 0


_COLUMNS = (
    ReservationRow.id,
    ReservationRow.population,
    ReservationRow.dataset_id,
    ReservationRow.principal_id,
    ReservationRow.permit_id,
    ReservationRow.project,
    ReservationRow.study_id,
    ReservationRow.units,
    ReservationRow.drawn_units,
    ReservationRow.state,
    ReservationRow.outcome,
    ReservationRow.request_digest,
    ReservationRow.details,
    ReservationRow.owner,
    ReservationRow.created_at,
    ReservationRow.expires_at,
    ReservationRow.sequence,
)
_INSERT = Statement(insert(ReservationRow))
_THIS = ReservationRow.id == bindparam("reservation")
_FIND = Statement(select(*_COLUMNS).where(_THIS))
_OPEN = ReservationRow.state == OPEN
_LIST_OPEN = Statement(
    select(*_COLUMNS).where(_OPEN, ReservationRow.population == bindparam("population")).order_by(ReservationRow.id)
)
_LIST_ALL_OPEN = Statement(select(*_COLUMNS).where(_OPEN).order_by(ReservationRow.created_at, ReservationRow.id))
_LIST_OPEN_OF = Statement(
    select(*_COLUMNS)
    .where(_OPEN, ReservationRow.principal_id == bindparam("principal"))
    .order_by(ReservationRow.created_at, ReservationRow.id)
)
_JOBS = Statement(
    select(ReservationRow.id, ReservationRow.owner, WorkerRow.beat)
    .outerjoin(WorkerRow, WorkerRow.id == ReservationRow.owner)
    .where(_OPEN, ReservationRow.owner != "")
)
_SUMMARISE_JOBS = Statement(
    select(func.count(), func.coalesce(func.min(ReservationRow.created_at), "")).where(
        _OPEN, ReservationRow.owner != ""
    )
)
_EXPIRED = Statement(
    select(ReservationRow.id).where(
        _OPEN,
        ReservationRow.owner == "",
        or_(
            ReservationRow.expires_at <= bindparam("moment"),
            exists().where(
                ShareRow.population == ReservationRow.population,
                ShareRow.permit_id == ReservationRow.permit_id,
                ShareRow.expires_at != FOR_EVER,
                ShareRow.expires_at <= bindparam("moment"),
            ),
        ),
    )
)
_HELD_PAST = Statement(
    select(func.coalesce(func.sum(ReservationRow.units - ReservationRow.drawn_units), 0)).where(
        _OPEN,
        ReservationRow.population == bindparam("population"),
        ReservationRow.owner == "",
        ReservationRow.expires_at > bindparam("past"),
    )
)
_RUNNING = Statement(
    select(*_COLUMNS)
    .where(
        _OPEN,
        ReservationRow.dataset_id == bindparam("dataset"),
        ReservationRow.request_digest != "",
    )
    .order_by(ReservationRow.sequence)
)
_CLOSE = Statement(
    update(ReservationRow)
    .where(_THIS, _OPEN)
    .values(
        state=ENDED,
        outcome=bindparam("ended"),
        drawn_units=ReservationRow.drawn_units + bindparam("drawn", type_=BigInteger),
    )
)
_DRAW = Statement(
    update(ReservationRow)
    .where(
        _THIS,
        _OPEN,
        ReservationRow.principal_id == bindparam("principal"),
        ReservationRow.drawn_units + bindparam("drawn", type_=BigInteger) <= ReservationRow.units,
    )
    .values(drawn_units=ReservationRow.drawn_units + bindparam("drawn"))
)
_UNDRAW = Statement(
    update(ReservationRow)
    .where(_THIS, ReservationRow.state == ENDED)
    .values(drawn_units=ReservationRow.drawn_units - bindparam("undrawn", type_=BigInteger))
)
_REGISTER = InsertIfAbsent(WorkerRow)
_BEAT = Statement(update(WorkerRow).where(WorkerRow.id == bindparam("worker")).values(beat=WorkerRow.beat + 1))
_RETIRE = Statement(delete(WorkerRow).where(WorkerRow.id == bindparam("worker")))


def insert_reservation(connection: Connection, reservation: Reservation) -> None:
    """Insert an open reservation."""
    _INSERT.execute(
        connection,
        id=reservation.id,
        population=reservation.population,
        dataset_id=reservation.dataset_id,
        principal_id=reservation.principal_id,
        permit_id=reservation.permit_id,
        project=reservation.project,
        study_id=reservation.drawn_from,
        units=reservation.units,
        drawn_units=reservation.drawn,
        state=reservation.state,
        outcome=reservation.outcome,
        request_digest=reservation.request_digest,
        details=reservation.details,
        owner=reservation.owner,
        created_at=reservation.created_at,
        expires_at=reservation.expires_at,
        sequence=reservation.sequence,
    )


def find_reservation(connection: Connection, reservation_id: str) -> Reservation | None:
    """Return a reservation, or None."""
    row = _FIND.first(connection, reservation=reservation_id)
    return None if row is None else Reservation(*row)


def list_running(connection: Connection, dataset_id: str) -> list[Reservation]:
    """Return the jobs of a dataset whose answers others may be served."""
    return [Reservation(*row) for row in _RUNNING.all(connection, dataset=dataset_id)]


def list_open(connection: Connection, population: str) -> list[Reservation]:
    """Return a population's open reservations."""
    return [Reservation(*row) for row in _LIST_OPEN.all(connection, population=population)]


def list_held(connection: Connection, *, of: str | None) -> list[Reservation]:
    """Return everybody's open reservations and jobs, the oldest first; with `of`, those of one principal."""
    found = _LIST_ALL_OPEN.all(connection) if of is None else _LIST_OPEN_OF.all(connection, principal=of)
    return [Reservation(*row) for row in found]


def list_jobs(connection: Connection) -> list[tuple[str, str, int | None]]:
    """Return every open job with its worker and the worker's beat; None where the worker is not known."""
    return [(job, owner, beat) for job, owner, beat in _JOBS.all(connection)]


def summarise_jobs(connection: Connection) -> tuple[int, str]:
    """Return the number of open jobs, and when the oldest was asked for."""
    row = _SUMMARISE_JOBS.first(connection)
    assert row is not None
    return int(row[0]), str(row[1])


def list_expired(connection: Connection, moment: str) -> list[str]:
    """Return the open reservations of analysts that expired, alone or with their permit."""
    return [row[0] for row in _EXPIRED.all(connection, moment=moment)]


def sum_held(connection: Connection, population: str, *, past: str) -> int:
    """Return what analysts' reservations that last beyond a moment hold of a population, in units."""
    row = _HELD_PAST.first(connection, population=population, past=past)
    assert row is not None
    return int(row[0])


def close_reservation(connection: Connection, reservation_id: str, outcome: str, *, drawn: int = 0) -> bool:
    """Close an open reservation; False if it is closed, or there is none."""
    return _CLOSE.changed(connection, reservation=reservation_id, ended=outcome, drawn=drawn) == 1


def draw(connection: Connection, reservation_id: str, principal_id: str, units: int) -> bool:
    """Draw on an open reservation of this analyst; a negative amount gives back. False if it does not hold so much."""
    return _DRAW.changed(connection, reservation=reservation_id, principal=principal_id, drawn=units) == 1


def undraw(connection: Connection, reservation_id: str, units: int) -> None:
    """Count an amount as not drawn from a reservation that has ended; it is the account that gets it back."""
    _UNDRAW.execute(connection, reservation=reservation_id, undrawn=units)


def register_worker(connection: Connection, worker: str) -> None:
    """Announce a worker."""
    _REGISTER.execute(connection, id=worker, beat=0)


def beat(connection: Connection, worker: str) -> bool:
    """Show that a worker lives; False if it is not announced."""
    return _BEAT.changed(connection, worker=worker) == 1


def retire_worker(connection: Connection, worker: str) -> None:
    """Take leave of a worker."""
    _RETIRE.execute(connection, worker=worker)


def entry_of(reservation: Reservation) -> Reserve:
    """Return what the ledger's entry says of a reservation."""
    return Reserve(
        reservation=reservation.id,
        actor=reservation.principal_id,
        time=reservation.created_at,
        permit=reservation.permit_id,
        project=reservation.project or None,
        drawn_from=reservation.drawn_from,
        expires_at=reservation.expires_at or None,
    )
