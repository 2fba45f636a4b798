"""Queries of datasets."""

import hashlib
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, exists, func, select, text

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.models import DatasetRow, SketchRow, SnapshotRow, UnkeyedRow
from curator_service.identity.models import GrantRow
from curator_service.kit.caches import SizedCache
from curator_service.kit.db import Connection, InsertIfAbsent, Statement
from curator_service.ledger.accounts.unit_of_work import Registration
from curator_service.ledger.models import PopulationRow
from curator_service.privacy.accountant import ACCOUNTANTS, Accountant
from curator_service.privacy.adjacency import Adjacency


@dataclass(frozen=True, slots=True)
class Dataset:
    """A registered dataset with its population's adjacency and accountant.

    `manifest_digest` is of the declarations as they are stored: a later version may read defaults into them that an
    older one did not know.
    """

    id: str
    name: str
    population: str
    adjacency: Adjacency
    accountant: Accountant
    manifest: Manifest
    commitment: str
    created_at: str
    manifest_digest: str

    @property
    def registration(self) -> Registration:
        """What the ledger must have registered."""
        return Registration(
            self.population,
            self.adjacency.value,
            self.accountant.name,
            self.id,
            self.name,
            self.manifest_digest,
            self.commitment,
        )


@dataclass(frozen=True, slots=True)
class SealedSketch:
    """A sketch as it is stored: encrypted, under a secret of a key."""

    dataset_id: str
    population: str
    key_id: str
    sealed: str


_SELECT = select(
    DatasetRow.id,
    DatasetRow.name,
    DatasetRow.population,
    DatasetRow.manifest,
    DatasetRow.snapshot_commitment,
    DatasetRow.created_at,
    PopulationRow.adjacency,
    PopulationRow.accountant,
).join(PopulationRow, PopulationRow.name == DatasetRow.population)
_GRANTED = exists().where(GrantRow.dataset_id == DatasetRow.id, GrantRow.principal_id == bindparam("principal"))
_BY_NAME = _SELECT.where(DatasetRow.name == bindparam("name"))
_BY_ID = _SELECT.where(DatasetRow.id == bindparam("id"))
_IN_ORDER = _SELECT.order_by(DatasetRow.name)
_FIND, _FIND_GRANTED = Statement(_BY_NAME), Statement(_BY_NAME.where(_GRANTED))
_FIND_BY_ID, _FIND_BY_ID_GRANTED = Statement(_BY_ID), Statement(_BY_ID.where(_GRANTED))
_LIST, _LIST_GRANTED = Statement(_IN_ORDER), Statement(_IN_ORDER.where(_GRANTED))
_INSERT = InsertIfAbsent(DatasetRow)
_CLAIM_SNAPSHOT = InsertIfAbsent(SnapshotRow)
_OWNER_OF_SNAPSHOT = Statement(select(SnapshotRow.population).where(SnapshotRow.digest == bindparam("digest")))
_KEYS_OF_SNAPSHOTS = Statement(select(SnapshotRow.key_id).distinct())
_INSERT_SKETCH = InsertIfAbsent(SketchRow)
_SKETCHES = Statement(
    select(DatasetRow.id, DatasetRow.population, SketchRow.key_id, SketchRow.sealed)
    .join(SketchRow, SketchRow.dataset_id == DatasetRow.id, isouter=True)
    .order_by(DatasetRow.id)
)
_UNKEYED = Statement(select(UnkeyedRow.id, UnkeyedRow.content).order_by(UnkeyedRow.id))
_COUNT_UNKEYED = Statement(select(func.count()).select_from(UnkeyedRow))
_FORGET_UNKEYED = Statement(delete(UnkeyedRow).where(UnkeyedRow.id == bindparam("id")))
_REGISTRATIONS_LOCK = 0x63757261746F72
"""The number of PostgreSQL's advisory lock that a registration holds until it is committed."""
_LOCK_REGISTRATIONS = Statement(text(f"SELECT pg_advisory_xact_lock({_REGISTRATIONS_LOCK})"))
_LOCK_UNKEYED = Statement(text("LOCK TABLE unkeyed IN ACCESS EXCLUSIVE MODE"))
_EMPTY_UNKEYED = Statement(text("TRUNCATE unkeyed"))


_MANIFESTS: SizedCache[Manifest] = SizedCache(2**26)


def _manifest(text: str, digest: str) -> Manifest:
    """Read a manifest; one may have megabytes, and takes about as much again as it has characters."""
    return _MANIFESTS.get(digest, lambda: Manifest.model_validate_json(text), lambda _: 2 * len(text))


def _dataset(row: tuple[Any, ...]) -> Dataset:
    dataset_id, name, population, manifest, commitment, created_at, adjacency, accountant = row
    digest = hashlib.sha256(manifest.encode()).hexdigest()
    return Dataset(
        dataset_id,
        name,
        population,
        Adjacency(adjacency),
        ACCOUNTANTS[accountant],
        _manifest(manifest, digest),
        commitment,
        created_at,
        digest,
    )


def find_dataset(connection: Connection, name: str, *, granted_to: str | None) -> Dataset | None:
    """Return a dataset by name; with `granted_to`, only one that this principal was granted."""
    if granted_to is None:
        row = _FIND.first(connection, name=name)
    else:
        row = _FIND_GRANTED.first(connection, name=name, principal=granted_to)
    return None if row is None else _dataset(row)


def find_dataset_by_id(connection: Connection, dataset_id: str, *, granted_to: str | None) -> Dataset | None:
    """Return a dataset by id; with `granted_to`, only one that this principal was granted."""
    if granted_to is None:
        row = _FIND_BY_ID.first(connection, id=dataset_id)
    else:
        row = _FIND_BY_ID_GRANTED.first(connection, id=dataset_id, principal=granted_to)
    return None if row is None else _dataset(row)


def list_datasets(connection: Connection, *, granted_to: str | None) -> list[Dataset]:
    """Return datasets by name; with `granted_to`, only those that this principal was granted."""
    if granted_to is None:
        return [_dataset(row) for row in _LIST.all(connection)]
    return [_dataset(row) for row in _LIST_GRANTED.all(connection, principal=granted_to)]


def find_owner(connection: Connection, digest: str) -> str | None:
    """Return the population that a keyed digest is tied to, or None."""
    row = _OWNER_OF_SNAPSHOT.first(connection, digest=digest)
    return None if row is None else row[0]


def claim_snapshot(connection: Connection, digest: str, population: str, key_id: str) -> None:
    """Tie a keyed digest to a population, unless it is tied already."""
    _CLAIM_SNAPSHOT.execute(connection, digest=digest, population=population, key_id=key_id)


def list_keys_of_snapshots(connection: Connection) -> list[str]:
    """Return the keys under which there are digests."""
    return [row[0] for row in _KEYS_OF_SNAPSHOTS.all(connection)]


def insert_sketch(connection: Connection, sketch: SealedSketch) -> None:
    """Insert the sketch of a dataset, unless it has one."""
    _INSERT_SKETCH.execute(connection, dataset_id=sketch.dataset_id, key_id=sketch.key_id, sealed=sketch.sealed)


def list_sketches(connection: Connection) -> list[SealedSketch]:
    """Return the sketch of every dataset; empty texts where there is none."""
    return [
        SealedSketch(name, owner, key or "", sealed or "") for name, owner, key, sealed in _SKETCHES.all(connection)
    ]


def list_unkeyed(connection: Connection) -> dict[str, str]:
    """Return what an earlier version left."""
    return dict(_UNKEYED.all(connection))


def forget_unkeyed(connection: Connection, ids: list[str]) -> None:
    """Delete what was taken over. On PostgreSQL an empty table also gets a new file: the old one holds what it held."""
    on_postgres = connection.dialect.name == "postgresql"
    if on_postgres:
        _LOCK_UNKEYED.execute(connection)  # or two workers that delete, and then empty the table, wait for each other
    for name in ids:
        _FORGET_UNKEYED.execute(connection, id=name)
    if on_postgres and _COUNT_UNKEYED.first(connection) == (0,):
        _EMPTY_UNKEYED.execute(connection)


def lock_registrations(connection: Connection) -> None:
    """Wait for the registration that is being committed, so that what is read from here on shows it.

    An account's lock would not do: two registrations of the same people lock two accounts. The embedded database has
    one writer as it is.
    """
    if connection.dialect.name == "postgresql":
        _LOCK_REGISTRATIONS.execute(connection)


def insert_dataset(connection: Connection, dataset: Dataset) -> bool:
    """Insert a registered dataset; False if its name is taken."""
    inserted = _INSERT.changed(
        connection,
        id=dataset.id,
        name=dataset.name,
        population=dataset.population,
        manifest=dataset.manifest.model_dump_json(),
        snapshot_commitment=dataset.commitment,
        created_at=dataset.created_at,
    )
    return inserted == 1
