"""Queries of releases and idempotency keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from curator_service.db import InsertIfAbsent, Statement
from curator_service.ledger.chain import Receipt
from curator_service.ledger.models import LedgerEntryRow
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
    receipt: Receipt

    @property
    def body(self) -> bytes:
        """The bytes that are sent: the answer with its receipt as the last member."""
        return f'{self.answer[:-1]},"receipt":{self.receipt.text}}}'.encode()


_COLUMNS = (
    ReleaseRow.id,
    ReleaseRow.dataset_id,
    ReleaseRow.population,
    ReleaseRow.sequence,
    ReleaseRow.request_digest,
    ReleaseRow.answer,
    LedgerEntryRow.payload,
    LedgerEntryRow.entry_hash,
)
_ENTRY = (LedgerEntryRow.population == ReleaseRow.population) & (LedgerEntryRow.sequence == ReleaseRow.sequence)
_RELEASES = select(*_COLUMNS).join(LedgerEntryRow, _ENTRY)
_BY_ID = Statement(_RELEASES.where(ReleaseRow.id == bindparam("id")))
_BY_KEY = Statement(
    select(IdempotencyKeyRow.fingerprint, *_COLUMNS)
    .join(ReleaseRow, ReleaseRow.id == IdempotencyKeyRow.release_id)
    .join(LedgerEntryRow, _ENTRY)
    .where(IdempotencyKeyRow.principal_id == bindparam("principal"), IdempotencyKeyRow.key == bindparam("key"))
)
_BY_REQUEST = Statement(
    _RELEASES.where(ReleaseRow.dataset_id == bindparam("dataset"), ReleaseRow.request_digest == bindparam("digest"))
    .order_by(ReleaseRow.sequence)
    .limit(1)
)
_PAGE_OF_DATASET = Statement(
    _RELEASES.where(ReleaseRow.dataset_id == bindparam("dataset"), ReleaseRow.sequence > bindparam("after"))
    .order_by(ReleaseRow.sequence)
    .limit(bindparam("count"))
)
_PAGE_OF_POPULATION = Statement(
    _RELEASES.where(ReleaseRow.population == bindparam("population"), ReleaseRow.sequence > bindparam("after"))
    .order_by(ReleaseRow.sequence)
    .limit(100)
)
_INSERT = Statement(insert(ReleaseRow))
_CLAIM_KEY = InsertIfAbsent(IdempotencyKeyRow)


def _release(row: tuple[Any, ...]) -> StoredRelease:
    release_id, dataset_id, population, sequence, request_digest, answer, payload, entry_hash = row
    receipt = Receipt(payload, entry_hash)
    return StoredRelease(release_id, dataset_id, population, sequence, request_digest, answer, receipt)


def find_release(connection: Connection, release_id: str) -> StoredRelease | None:
    """Return a release by id, or None."""
    row = _BY_ID.first(connection, id=release_id)
    return None if row is None else _release(row)


def find_by_key(connection: Connection, principal_id: str, key: str) -> tuple[str, StoredRelease] | None:
    """Return the fingerprint and the answer of a used key, or None."""
    row = _BY_KEY.first(connection, principal=principal_id, key=key)
    return None if row is None else (row[0], _release(row[1:]))


def find_by_request(connection: Connection, dataset_id: str, request_digest: str) -> StoredRelease | None:
    """Return the first answer to the same canonical request on the same snapshot, or None."""
    row = _BY_REQUEST.first(connection, dataset=dataset_id, digest=request_digest)
    return None if row is None else _release(row)


def list_releases(connection: Connection, dataset_id: str, *, after: int, count: int) -> list[StoredRelease]:
    """Return up to `count` releases of a dataset after a sequence, in order."""
    rows = _PAGE_OF_DATASET.all(connection, dataset=dataset_id, after=after, count=count)
    return [_release(row) for row in rows]


def iterate_population(connection: Connection, population: str) -> Iterator[StoredRelease]:
    """Yield every release of a population, in order, in pages."""
    after = 0
    while rows := _PAGE_OF_POPULATION.all(connection, population=population, after=after):
        for row in rows:
            release = _release(row)
            after = release.sequence
            yield release


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


def claim_key(connection: Connection, principal_id: str, key: str, fingerprint: str, release_id: str) -> bool:
    """Claim a key for a release of this unit of work; False if somebody has it.

    Of two simultaneous claims the second waits for the first to commit or to be undone.
    """
    claimed = _CLAIM_KEY.changed(
        connection, principal_id=principal_id, key=key, fingerprint=fingerprint, release_id=release_id
    )
    return claimed == 1
