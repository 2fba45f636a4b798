"""Queries of releases and idempotency keys."""

from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    bindparam,
    case,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from curator_service.entries.base import Entry
from curator_service.kit.db import Connection, Statement
from curator_service.ledger.accounts.reservations import ENDED, JOB
from curator_service.ledger.chain.entries import Receipt, StoredEntry
from curator_service.ledger.models import LedgerEntryRow, ReservationRow
from curator_service.ledger.repository import ThisMoment
from curator_service.releases.models import IdempotencyKeyRow, KeyCountRow, ReleaseRow


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A published release."""

    id: str
    dataset_id: str
    population: str
    sequence: int
    request_digest: str
    answer: str = field(repr=False)
    receipt: Receipt

    @property
    def etag(self) -> str:
        """The entity tag of its body: the hash of its entry, which has that of the answer."""
        return f'"{self.receipt.entry_hash}"'

    @property
    def entry(self) -> StoredEntry:
        """The ledger's entry of it."""
        return StoredEntry(self.sequence, self.receipt.payload_text, self.receipt.entry_hash, self.receipt.signature)

    def read_entry(self) -> Entry[Any]:
        """Read that entry.

        Raises
        ------
        ValueError, KeyError, TypeError
            If it is none; an attested one is one.
        """
        return Entry.read(from_json(self.receipt.payload_text))

    @property
    def body(self) -> bytes:
        """The bytes that are sent: the answer with its receipt as the last member."""
        return f'{self.answer[:-1]},"receipt":{self.receipt.text}}}'.encode()


@dataclass(frozen=True, slots=True)
class KnownKey:
    """Request of a key, and its answer, the reservation that works on it, or the entry that states its answer."""

    fingerprint: str
    release_id: str | None
    reservation_id: str | None
    entry: tuple[str, int] | None = None


_COLUMNS = (
    ReleaseRow.id,
    ReleaseRow.dataset_id,
    ReleaseRow.population,
    ReleaseRow.sequence,
    ReleaseRow.request_digest,
    ReleaseRow.answer,
    LedgerEntryRow.payload,
    LedgerEntryRow.entry_hash,
    LedgerEntryRow.signature,
)
_ENTRY = (LedgerEntryRow.population == ReleaseRow.population) & (LedgerEntryRow.sequence == ReleaseRow.sequence)
_RELEASES = select(*_COLUMNS).join(LedgerEntryRow, _ENTRY)
_BY_ID = Statement(_RELEASES.where(ReleaseRow.id == bindparam("id")))
_FOLLOWING = Statement(
    _RELEASES.where(ReleaseRow.id > bindparam("after")).order_by(ReleaseRow.id).limit(bindparam("count"))
)
_KEY = Statement(
    select(
        IdempotencyKeyRow.fingerprint,
        IdempotencyKeyRow.release_id,
        IdempotencyKeyRow.reservation_id,
        IdempotencyKeyRow.population,
        IdempotencyKeyRow.sequence,
    ).where(IdempotencyKeyRow.principal_id == bindparam("principal"), IdempotencyKeyRow.key == bindparam("key"))
)
_OF_RESERVATION = Statement(
    select(IdempotencyKeyRow.release_id)
    .where(IdempotencyKeyRow.reservation_id == bindparam("reservation"), IdempotencyKeyRow.release_id.is_not(None))
    .limit(1)
)
_INSERT = Statement(insert(ReleaseRow))


class _ClaimKey(Statement):
    """Insert a key, or take over one whose job was given up; a key with another request or an answer stays."""

    def __init__(self) -> None:
        super().__init__(insert(IdempotencyKeyRow))

    def _build(self, dialect: Any) -> Any:
        insertion = (sqlite if dialect.name == "sqlite" else postgresql).insert(IdempotencyKeyRow)
        # By its text: in this place SQLAlchemy correlates nothing, and the inner SELECT would be about every key.
        of_this_key: ColumnElement[str] = literal_column("idempotency_keys.reservation_id")
        given_up = exists().where(
            ReservationRow.id == of_this_key,
            ReservationRow.state == ENDED,
            ReservationRow.id.startswith(JOB, autoescape=True),
        )
        return insertion.on_conflict_do_update(
            index_elements=[IdempotencyKeyRow.principal_id, IdempotencyKeyRow.key],
            set_={
                "release_id": insertion.excluded.release_id,
                "reservation_id": insertion.excluded.reservation_id,
            },
            where=(IdempotencyKeyRow.fingerprint == insertion.excluded.fingerprint)
            & IdempotencyKeyRow.release_id.is_(None)
            & given_up,
        )


_CLAIM_KEY = _ClaimKey()


class _CountKey(Statement):
    """Count a key of a day, by the database's own clock, which is one for all hosts; another day begins anew."""

    def __init__(self) -> None:
        super().__init__(insert(KeyCountRow))

    def _build(self, dialect: Any) -> Any:
        today = func.substr(ThisMoment(), 1, 10)
        values = {"principal_id": bindparam("principal"), "day": today, "keys": 1}
        insertion = (sqlite if dialect.name == "sqlite" else postgresql).insert(KeyCountRow).values(values)
        is_today = KeyCountRow.day == insertion.excluded.day
        return insertion.on_conflict_do_update(
            index_elements=[KeyCountRow.principal_id],
            set_={"day": insertion.excluded.day, "keys": case((is_today, KeyCountRow.keys + 1), else_=1)},
            where=or_(~is_today, KeyCountRow.keys < bindparam("most", type_=BigInteger)),
        )


_COUNT_KEY = _CountKey()
_ANSWER_KEY = Statement(
    update(IdempotencyKeyRow)
    .where(IdempotencyKeyRow.principal_id == bindparam("principal"), IdempotencyKeyRow.key == bindparam("asked"))
    .values(population=bindparam("chain"), sequence=bindparam("place"))
)
_ANSWER_KEYS = Statement(
    update(IdempotencyKeyRow)
    .where(IdempotencyKeyRow.reservation_id == bindparam("reservation"), IdempotencyKeyRow.release_id.is_(None))
    .values(release_id=bindparam("release"))
)


def _release(row: tuple[Any, ...]) -> StoredRelease:
    release_id, dataset_id, population, sequence, request_digest, answer, payload_text, entry_hash, signature = row
    receipt = Receipt(payload_text, entry_hash, signature)
    return StoredRelease(release_id, dataset_id, population, sequence, request_digest, answer, receipt)


def find_release(connection: Connection, release_id: str) -> StoredRelease | None:
    """Return a release by id, or None."""
    row = _BY_ID.first(connection, id=release_id)
    return None if row is None else _release(row)


def list_following(connection: Connection, after: str, count: int) -> list[StoredRelease]:
    """Return so many releases after an id, in the order of ids."""
    return [_release(row) for row in _FOLLOWING.all(connection, after=after, count=count)]


def find_key(connection: Connection, principal_id: str, key: str) -> KnownKey | None:
    """Return what a used key stands for, or None."""
    row = _KEY.first(connection, principal=principal_id, key=key)
    if row is None:
        return None
    fingerprint, release_id, reservation_id, population, sequence = row
    return KnownKey(fingerprint, release_id, reservation_id, None if population is None else (population, sequence))


def find_release_of(connection: Connection, reservation_id: str) -> str | None:
    """Return the id of the release that a job led to, or None."""
    row = _OF_RESERVATION.first(connection, reservation=reservation_id)
    return None if row is None else row[0]


def insert_release(connection: Connection, release: StoredRelease) -> None:
    """Insert a published release."""
    _INSERT.execute(
        connection,
        id=release.id,
        dataset_id=release.dataset_id,
        population=release.population,
        sequence=release.sequence,
        request_digest=release.request_digest,
        answer=release.answer,
    )


def claim_key(
    connection: Connection,
    principal_id: str,
    key: str,
    fingerprint: str,
    *,
    release_id: str | None = None,
    reservation_id: str | None = None,
) -> bool:
    """Claim a key for an answer, or for the reservation that will lead to one; False if somebody has it.

    Of two simultaneous claims the second waits for the first to commit or to be undone. A key whose job was given up
    is open to the same request.
    """
    claimed = _CLAIM_KEY.changed(
        connection,
        principal_id=principal_id,
        key=key,
        fingerprint=fingerprint,
        release_id=release_id,
        reservation_id=reservation_id,
        population=None,
        sequence=None,
    )
    return claimed == 1


def count_key(connection: Connection, principal_id: str, most: int) -> bool:
    """Count a key that a principal uses for the first time; False if as many were used today as may be."""
    return _COUNT_KEY.changed(connection, principal=principal_id, most=most) == 1


def answer_key(connection: Connection, principal_id: str, key: str, population: str, sequence: int) -> None:
    """Give a key that was just claimed the entry that states its answer."""
    _ANSWER_KEY.execute(connection, principal=principal_id, asked=key, chain=population, place=sequence)


def answer_keys(connection: Connection, reservation_id: str, release_id: str) -> None:
    """Give every key that waits for a job its answer."""
    _ANSWER_KEYS.execute(connection, reservation=reservation_id, release=release_id)
