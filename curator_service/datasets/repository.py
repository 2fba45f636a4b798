"""Queries of datasets."""

from dataclasses import dataclass, field
from functools import lru_cache

from sqlalchemy import Connection, Row, bindparam, exists, insert, select

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.models import DatasetRow, SnapshotRow
from curator_service.db import insert_if_absent
from curator_service.identity.models import GrantRow
from curator_service.ledger.models import PopulationRow
from curator_service.privacy.adjacency import Adjacency


@dataclass(frozen=True, slots=True)
class Dataset:
    """A registered dataset with its population's adjacency."""

    id: str
    name: str
    population: str
    adjacency: Adjacency
    manifest: Manifest
    row_count: int = field(repr=False)
    commitment: str
    created_at: str


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
).join(PopulationRow, PopulationRow.name == DatasetRow.population)
_GRANTED = exists().where(GrantRow.dataset_id == DatasetRow.id, GrantRow.principal_id == bindparam("principal"))
_BY_NAME = _SELECT.where(DatasetRow.name == bindparam("name"))
_BY_ID = _SELECT.where(DatasetRow.id == bindparam("id"))
_ALL = _SELECT.order_by(DatasetRow.name)


@lru_cache(maxsize=256)
def _manifest(text: str) -> Manifest:
    return Manifest.model_validate_json(text)


def _dataset(row: Row[tuple[object, ...]]) -> Dataset:
    return Dataset(
        id=row.id,
        name=row.name,
        population=row.population,
        adjacency=Adjacency(row.adjacency),
        manifest=_manifest(row.manifest),
        row_count=row.row_count,
        commitment=row.snapshot_commitment,
        created_at=row.created_at,
    )


def find_dataset(connection: Connection, name: str, *, granted_to: str | None) -> Dataset | None:
    """Return a dataset by name; with `granted_to`, only one that this principal was granted."""
    query, values = _BY_NAME, {"name": name}
    if granted_to is not None:
        query, values = query.where(_GRANTED), values | {"principal": granted_to}
    row = connection.execute(query, values).first()
    return None if row is None else _dataset(row)


def find_dataset_by_id(connection: Connection, dataset_id: str, *, granted_to: str | None) -> Dataset | None:
    """Return a dataset by id; with `granted_to`, only one that this principal was granted."""
    query, values = _BY_ID, {"id": dataset_id}
    if granted_to is not None:
        query, values = query.where(_GRANTED), values | {"principal": granted_to}
    row = connection.execute(query, values).first()
    return None if row is None else _dataset(row)


def list_datasets(connection: Connection, *, granted_to: str | None) -> list[Dataset]:
    """Return datasets by name; with `granted_to`, only those that this principal was granted."""
    if granted_to is None:
        return [_dataset(row) for row in connection.execute(_ALL)]
    return [_dataset(row) for row in connection.execute(_ALL.where(_GRANTED), {"principal": granted_to})]


def claim_snapshot(connection: Connection, digest: str, population: str) -> str:
    """Tie a snapshot to a population, unless it is tied already; return the population that has it."""
    values = {"digest": digest, "population": population}
    insert_if_absent(connection, SnapshotRow, values)
    return connection.execute(select(SnapshotRow.population).where(SnapshotRow.digest == digest)).scalar_one()


def insert_dataset(connection: Connection, new: NewDataset) -> None:
    """Insert a registered dataset."""
    dataset = new.dataset
    connection.execute(
        insert(DatasetRow),
        {
            "id": dataset.id,
            "name": dataset.name,
            "population": dataset.population,
            "manifest": dataset.manifest.model_dump_json(),
            "row_count": dataset.row_count,
            "lattice_digest": new.lattice_digest,
            "snapshot_nonce": new.nonce,
            "snapshot_commitment": dataset.commitment,
            "created_at": dataset.created_at,
        },
    )
