"""Queries of releases and idempotency keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import Connection, Row, bindparam, insert, select

from curator_service.db import insert_if_absent
from curator_service.releases.models import IdempotencyKeyRow, ReleaseRow


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A published release."""

    id: str
    dataset_id: str
    population: str
    sequence: int
    request_digest: str
    answer: str = field(repr=False)
    receipt: str

    @property
    def body(self) -> bytes:
        """The bytes that are sent: the answer with its receipt as the last member."""
        return f'{self.answer[:-1]},"receipt":{self.receipt}}}'.encode()


_COLUMNS = (
    ReleaseRow.id,
    ReleaseRow.dataset_id,
    ReleaseRow.population,
    ReleaseRow.sequence,
    ReleaseRow.request_digest,
    ReleaseRow.answer,
    ReleaseRow.receipt,
)
_BY_ID = select(*_COLUMNS).where(ReleaseRow.id == bindparam("id"))
_BY_KEY = (
    select(IdempotencyKeyRow.fingerprint, *_COLUMNS)
    .join(ReleaseRow, ReleaseRow.id == IdempotencyKeyRow.release_id)
    .where(IdempotencyKeyRow.principal_id == bindparam("principal"), IdempotencyKeyRow.key == bindparam("key"))
)
_BY_REQUEST = (
    select(*_COLUMNS)
    .where(ReleaseRow.dataset_id == bindparam("dataset"), ReleaseRow.request_digest == bindparam("digest"))
    .order_by(ReleaseRow.sequence)
    .limit(1)
)
_PAGE = (
    select(*_COLUMNS)
    .where(ReleaseRow.dataset_id == bindparam("dataset"), ReleaseRow.sequence > bindparam("after"))
    .order_by(ReleaseRow.sequence)
    .limit(bindparam("count"))
)
_INSERT = insert(ReleaseRow)


def _release(row: Row[tuple[object, ...]]) -> StoredRelease:
    return StoredRelease(
        row.id, row.dataset_id, row.population, row.sequence, row.request_digest, row.answer, row.receipt
    )


def find_release(connection: Connection, release_id: str) -> StoredRelease | None:
    """Return a release by id, or None."""
    row = connection.execute(_BY_ID, {"id": release_id}).first()
    return None if row is None else _release(row)


def find_by_key(connection: Connection, principal_id: str, key: str) -> tuple[str, StoredRelease] | None:
    """Return the fingerprint and the answer of a used key, or None."""
    row = connection.execute(_BY_KEY, {"principal": principal_id, "key": key}).first()
    return None if row is None else (row.fingerprint, _release(row))


def find_by_request(connection: Connection, dataset_id: str, request_digest: str) -> StoredRelease | None:
    """Return the first answer to the same canonical request on the same snapshot, or None."""
    row = connection.execute(_BY_REQUEST, {"dataset": dataset_id, "digest": request_digest}).first()
    return None if row is None else _release(row)


def list_releases(connection: Connection, dataset_id: str, *, after: int, count: int) -> list[StoredRelease]:
    """Return up to `count` releases of a dataset after a sequence, in order."""
    values = {"dataset": dataset_id, "after": after, "count": count}
    return [_release(row) for row in connection.execute(_PAGE, values)]


def iterate_population(connection: Connection, population: str) -> Iterator[StoredRelease]:
    """Yield every release of a population, in order."""
    query = select(*_COLUMNS).where(ReleaseRow.population == population).order_by(ReleaseRow.sequence)
    for row in connection.execute(query.execution_options(yield_per=100)):
        yield _release(row)


def insert_release(connection: Connection, release: StoredRelease) -> None:
    """Insert a published release."""
    connection.execute(
        _INSERT,
        {
            "id": release.id,
            "dataset_id": release.dataset_id,
            "population": release.population,
            "sequence": release.sequence,
            "request_digest": release.request_digest,
            "answer": release.answer,
            "receipt": release.receipt,
        },
    )


def claim_key(connection: Connection, principal_id: str, key: str, fingerprint: str, release_id: str) -> bool:
    """Claim a key for a release of this unit of work; False if somebody has it.

    Of two simultaneous claims the second waits for the first to commit or to be undone.
    """
    values = {"principal_id": principal_id, "key": key, "fingerprint": fingerprint, "release_id": release_id}
    return insert_if_absent(connection, IdempotencyKeyRow, values)
