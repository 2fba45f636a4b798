"""Queries of the dashboard: sessions of browsers, and what pages show that no service lists."""

from dataclasses import asdict, dataclass

from sqlalchemy import BigInteger, bindparam, delete, func, insert, or_, select, update

from curator_service.dashboard.models import BrowserSessionRow, SignInRow
from curator_service.kit.db import Connection, InsertIfAbsent, Statement
from curator_service.ledger.models import LedgerEntryRow, SpendingRow


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it is stored; its members are those of `BrowserSessionRow`."""

    id_hash: str
    principal_id: str
    token_id: str
    began_at: str
    seen_at: str
    confirmed_at: str
    ends_at: str
    issuer: str = ""
    kept: str = ""
    proof: str = ""


_THIS = BrowserSessionRow.id_hash == bindparam("id_hash")
_FIND = Statement(select(*BrowserSessionRow.__table__.columns).where(_THIS))
_INSERT = Statement(insert(BrowserSessionRow))
_SEE = Statement(update(BrowserSessionRow).where(_THIS).values(seen_at=bindparam("moment")))
_CHANGE = Statement(
    update(BrowserSessionRow)
    .where(_THIS)
    .values(confirmed_at=bindparam("confirmed"), kept=bindparam("form"), proof=bindparam("proved"))
)
_END = Statement(delete(BrowserSessionRow).where(_THIS))
_SWEEP = Statement(
    delete(BrowserSessionRow).where(
        or_(BrowserSessionRow.ends_at <= bindparam("moment"), BrowserSessionRow.seen_at <= bindparam("idle_since"))
    )
)
_OLDER_SESSIONS = (
    select(BrowserSessionRow.id_hash)
    .where(BrowserSessionRow.principal_id == bindparam("principal_id"))
    .order_by(BrowserSessionRow.began_at.desc())
    .offset(bindparam("kept"))
)
_END_OLDER = Statement(delete(BrowserSessionRow).where(BrowserSessionRow.id_hash.in_(_OLDER_SESSIONS)))
_USE_SIGN_IN = InsertIfAbsent(SignInRow)
_SWEEP_SIGN_INS = Statement(delete(SignInRow).where(SignInRow.began_at <= bindparam("before")))
_OLDEST = (
    select(SignInRow.id_hash).where(SignInRow.began_at < bindparam("before")).order_by(SignInRow.began_at).limit(1)
)
_DROP_OLDEST = Statement(delete(SignInRow).where(SignInRow.id_hash.in_(_OLDEST)))
_COUNT_SIGN_INS = Statement(select(func.count()).select_from(SignInRow))
_MONTHS = Statement(
    select(SpendingRow.month, func.sum(SpendingRow.units))
    .where(SpendingRow.population == bindparam("population"))
    .group_by(SpendingRow.month)
    .order_by(SpendingRow.month)
)
_STUDIES = Statement(
    select(func.count(SpendingRow.permit_id.distinct()), func.sum(SpendingRow.units)).where(
        SpendingRow.population == bindparam("population"), SpendingRow.units > 0
    )
)
_ENTRY = (LedgerEntryRow.sequence, LedgerEntryRow.payload, LedgerEntryRow.entry_hash, LedgerEntryRow.signature)
_OF_CHAIN = LedgerEntryRow.population == bindparam("population")
_BEFORE = LedgerEntryRow.sequence < bindparam("before", type_=BigInteger)


def find_session(connection: Connection, id_hash: str) -> SessionRecord | None:
    """Return a session by the hash of its id, or None."""
    row = _FIND.first(connection, id_hash=id_hash)
    return None if row is None else SessionRecord(*row)


def insert_session(connection: Connection, record: SessionRecord) -> None:
    """Insert a session."""
    _INSERT.execute(connection, **asdict(record))


def see_session(connection: Connection, id_hash: str, moment: str) -> None:
    """Note that a session is in use."""
    _SEE.execute(connection, id_hash=id_hash, moment=moment)


def change_session(connection: Connection, record: SessionRecord) -> None:
    """Write the moment of a session's last proof of identity, and the form that waits, with the row's proof."""
    _CHANGE.execute(
        connection, id_hash=record.id_hash, confirmed=record.confirmed_at, form=record.kept, proved=record.proof
    )


def end_session(connection: Connection, id_hash: str) -> None:
    """Forget a session."""
    _END.execute(connection, id_hash=id_hash)


def sweep_sessions(connection: Connection, moment: str, idle_since: str) -> None:
    """Forget sessions that are over."""
    _SWEEP.execute(connection, moment=moment, idle_since=idle_since)


def keep_newest_sessions(connection: Connection, principal_id: str, count: int) -> None:
    """Forget the sessions of a principal but for so many that began last."""
    _END_OLDER.execute(connection, principal_id=principal_id, kept=count)


def use_sign_in(connection: Connection, id_hash: str, began_at: str) -> bool:
    """Note that a sign-in is used, by the hash of its secret; False if it was: whoever notes it is the only one."""
    return _USE_SIGN_IN.changed(connection, id_hash=id_hash, began_at=began_at) == 1


def sweep_sign_ins(connection: Connection, before: str) -> int:
    """Forget the sign-ins that began before a moment; return how many are left."""
    _SWEEP_SIGN_INS.execute(connection, before=before)
    row = _COUNT_SIGN_INS.first(connection)
    return 0 if row is None else int(row[0])


def drop_sign_in_before(connection: Connection, began_at: str) -> bool:
    """Forget the sign-in that began first, if it began before a moment; return whether there was one."""
    return _DROP_OLDEST.changed(connection, before=began_at) == 1


def list_months(connection: Connection, population: str) -> list[tuple[str, int]]:
    """Return what was charged to an account in each month, in units; months without a charge are left out."""
    return [(month, int(units)) for month, units in _MONTHS.all(connection, population=population)]


def sum_studies(connection: Connection, population: str) -> tuple[int, int]:
    """Return under how many permits an account was charged, and the units of all these charges."""
    row = _STUDIES.first(connection, population=population)
    return (0, 0) if row is None or row[1] is None else (int(row[0]), int(row[1]))
