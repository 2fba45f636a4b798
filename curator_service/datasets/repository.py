"""Queries of datasets."""

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, bindparam, exists, select

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.models import DatasetRow, SnapshotRow
from curator_service.db import InsertIfAbsent, Statement
from curator_service.identity.models import GrantRow
from curator_service.ledger.book import Registration
from curator_service.ledger.models import PopulationRow
from curator_service.privacy.accountant import ACCOUNTANTS, Accountant
from curator_service.privacy.adjacency import Adjacency


@dataclass(frozen=True, slots=True)
class Dataset:
    """A registered dataset with its population's adjacency and accountant.

    `row_count` counts persons where the manifest declares a subject. `manifest_digest` is of the declarations as they
    are stored: a later version may read defaults into them that an older one did not know.
    """

    id: str
    name: str
    population: str
    adjacency: Adjacency
    accountant: Accountant
    manifest: Manifest
    row_count: int = field(repr=False)
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
class NewDataset:
    """What a registration writes."""

    dataset: Dataset
    lattice_digest: str = field(repr=False)
    nonce: str = field(repr=False)


_SELECT = select(
    DatasetRow.id,
    DatasetRow.name,
    DatasetRow.population,
    DatasetRow.manifest,
    DatasetRow.row_count,
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


@lru_cache(maxsize=256)
def _manifest(text: str) -> Manifest:
    return Manifest.model_validate_json(text)


def _dataset(row: tuple[Any, ...]) -> Dataset:
    dataset_id, name, population, manifest, row_count, commitment, created_at, adjacency, accountant = row
    return Dataset(
        dataset_id,
        name,
        population,
        Adjacency(adjacency),
        ACCOUNTANTS[accountant],
        _manifest(manifest),
        row_count,
        commitment,
        created_at,
        hashlib.sha256(manifest.encode()).hexdigest(),
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


def claim_snapshot(connection: Connection, digest: str, population: str) -> str:
    """Tie a snapshot to a population, unless it is tied already; return the population that has it."""
    _CLAIM_SNAPSHOT.execute(connection, digest=digest, population=population)
    row = _OWNER_OF_SNAPSHOT.first(connection, digest=digest)
    assert row is not None
    owner: str = row[0]
    return owner


def insert_dataset(connection: Connection, new: NewDataset) -> bool:
    """Insert a registered dataset; False if its name is taken."""
    dataset = new.dataset
    inserted = _INSERT.changed(
        connection,
        id=dataset.id,
        name=dataset.name,
        population=dataset.population,
        manifest=dataset.manifest.model_dump_json(),
        row_count=dataset.row_count,
        lattice_digest=new.lattice_digest,
        snapshot_nonce=new.nonce,
        snapshot_commitment=dataset.commitment,
        created_at=dataset.created_at,
    )
    return inserted == 1
