"""Queries of datasets."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sqlalchemy import and_, bindparam, delete, exists, func, insert, or_, select, text, update

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.models import ChangeRow, DatasetRow, SketchRow, SnapshotRow
from curator_service.entries.told import Registration
from curator_service.identity.models import GrantRow
from curator_service.kit.caches import SizedCache
from curator_service.kit.db import Connection, InsertIfAbsent, Statement
from curator_service.ledger.models import PopulationRow
from curator_service.privacy.accountant import ACCOUNTANTS, Accountant
from curator_service.privacy.adjacency import Adjacency

APPEND, REPLACE, ERASE, RETIRE, WITHDRAW = "append", "replace", "erase", "retire", "withdraw"
WITHDRAWN = 0
"""In the place of the version that a change has made: none, now or later."""
PAD = f"pad_{'0' * 32}"
"""In the place of a key, as long as its id: a digest that is random, and of nothing."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A registered dataset with its population's adjacency and accountant.

    `manifest_digest` is of the declarations as they are stored: a later version may read defaults into them that an
    older one did not know. It stays the same for all versions of a dataset: only rows change.

    Attributes
    ----------
    commitment : str
        To the rows of this version.
    folder : str
        The name of the folder that holds them.
    version : int
        1 for the rows that were registered.
    sequence : int
        Of the entry of this version in the ledger; 0 for the first.
    cut_at : str
        When it began; empty after a restore, until rows are cut again.
    retired_at, successor : str
        When the dataset ended, and the name of the one that took its place; empty where it did not, or none did.
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
    folder: str
    version: int = 1
    sequence: int = 0
    cut_at: str = ""
    retired_at: str = ""
    successor: str = ""

    @property
    def is_retired(self) -> bool:
        """True if it has ended: its releases are served, and it has no rows."""
        return bool(self.retired_at)

    @property
    def registration(self) -> Registration:
        """The registration that the ledger must hold."""
        return Registration(
            self.population,
            self.adjacency.value,
            self.accountant.name,
            self.id,
            self.name,
            self.manifest_digest,
            self.commitment,
            self.retired_at,
        )


@dataclass(frozen=True, slots=True)
class Version:
    """The rows of a sketch: those of a dataset, from one of its versions on."""

    dataset_id: str
    population: str
    version: int = 1


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a dataset's rows.

    Attributes
    ----------
    id : str
    dataset_id : str
    number : int
        Its place among those of the dataset.
    act : str
        ``append``, ``replace``, ``erase``, ``retire``, or ``withdraw`` of another one.
    content : str
        What it takes, as JSON: a folder of rows, pseudonyms, a successor, or the id of what is withdrawn.
    actor, asked_at : str
    version : int or None
        The version that it has made; None while it waits for the next cut, `WITHDRAWN` where it makes none.
    """

    id: str
    dataset_id: str
    number: int
    act: str
    content: str = field(repr=False)
    actor: str
    asked_at: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class SealedSketch:
    """A sketch as it is stored: encrypted, under a secret of a key."""

    dataset_id: str
    version: int
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
    DatasetRow.folder,
    DatasetRow.version,
    DatasetRow.sequence,
    DatasetRow.cut_at,
    DatasetRow.retired_at,
    DatasetRow.successor,
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
_OWNERS_OF_SNAPSHOT = Statement(select(SnapshotRow.population).where(SnapshotRow.digest == bindparam("digest")))
_KEYS_OF_SNAPSHOTS = Statement(select(SnapshotRow.key_id).where(SnapshotRow.key_id != PAD).distinct())
_SNAPSHOTS_OF = Statement(
    select(SnapshotRow.digest, SnapshotRow.key_id).where(
        SnapshotRow.dataset_id == bindparam("dataset_id"), SnapshotRow.key_id != PAD
    )
)
_INSERT_SKETCH = InsertIfAbsent(SketchRow)
_SKETCHES = Statement(
    select(DatasetRow.id, SketchRow.version, DatasetRow.population, SketchRow.key_id, SketchRow.sealed)
    .join(SketchRow, SketchRow.dataset_id == DatasetRow.id, isouter=True)
    .order_by(DatasetRow.id, SketchRow.version)
)
_REPLACED_WITH = (
    select(func.coalesce(func.max(ChangeRow.version), 1))
    .where(ChangeRow.dataset_id == bindparam("dataset_id"), ChangeRow.act == REPLACE)
    .scalar_subquery()
)
_OF_DATASET = SketchRow.dataset_id == bindparam("dataset_id")
_OF_PRESENT_ROWS = and_(_OF_DATASET, SketchRow.version >= _REPLACED_WITH)
_PRESENT_SKETCHES = Statement(
    select(SketchRow.version, SketchRow.key_id, SketchRow.sealed).where(_OF_PRESENT_ROWS).order_by(SketchRow.version)
)
_FORGET_SKETCHES = Statement(delete(SketchRow).where(_OF_PRESENT_ROWS))
_FORGET_SNAPSHOTS = Statement(delete(SnapshotRow).where(SnapshotRow.dataset_id == bindparam("dataset_id")))
_CUT = Statement(
    update(DatasetRow)
    .where(
        DatasetRow.id == bindparam("dataset_id"),
        DatasetRow.snapshot_commitment == bindparam("before"),
        DatasetRow.retired_at == "",
    )
    .values(
        snapshot_commitment=bindparam("commitment"),
        folder=bindparam("new_folder"),
        version=bindparam("new_version"),
        sequence=bindparam("entry"),
        cut_at=bindparam("moment"),
    )
)
_RETIRE = Statement(
    update(DatasetRow)
    .where(DatasetRow.id == bindparam("dataset_id"), DatasetRow.retired_at == "")
    .values(retired_at=bindparam("moment"), successor=bindparam("heir"))
)
_CURRENT = Statement(
    select(DatasetRow.snapshot_commitment, DatasetRow.retired_at, DatasetRow.cut_at).where(
        DatasetRow.id == bindparam("dataset_id")
    )
)
_FORGET_CUTS = Statement(update(DatasetRow).values(cut_at=""))
_INSERT_CHANGE = Statement(insert(ChangeRow))
_CHANGES = Statement(
    select(
        ChangeRow.id,
        ChangeRow.dataset_id,
        ChangeRow.number,
        ChangeRow.act,
        ChangeRow.content,
        ChangeRow.actor,
        ChangeRow.asked_at,
        ChangeRow.version,
    ).order_by(ChangeRow.dataset_id, ChangeRow.number)
)
_WAITING_ROWS = Statement(
    select(ChangeRow.dataset_id, DatasetRow.population, ChangeRow.number, ChangeRow.content)
    .join(DatasetRow, DatasetRow.id == ChangeRow.dataset_id)
    .where(
        ChangeRow.version.is_(None), or_(ChangeRow.act == APPEND, ChangeRow.act == REPLACE), DatasetRow.retired_at == ""
    )
    .order_by(ChangeRow.dataset_id, ChangeRow.number)
)
_LAST_CHANGE = Statement(select(func.max(ChangeRow.number)).where(ChangeRow.dataset_id == bindparam("dataset_id")))
_APPLY_CHANGE = Statement(
    update(ChangeRow)
    .where(ChangeRow.id == bindparam("change"), ChangeRow.version.is_(None))
    .values(version=bindparam("made"))
)
_APPLY_CHANGES = Statement(
    update(ChangeRow)
    .where(
        ChangeRow.dataset_id == bindparam("of"),
        ChangeRow.version.is_(None),
        ChangeRow.act != RETIRE,
        ChangeRow.number <= bindparam("last"),
    )
    .values(version=bindparam("made"))
)
_PUT_BACK_CHANGE = Statement(
    update(ChangeRow)
    .where(ChangeRow.id == bindparam("change"))
    .values({field.name: bindparam(f"new_{field.name}") for field in fields(Change) if field.name != "id"})
)
_REGISTRATIONS_LOCK = 0x63757261746F72
"""The number of PostgreSQL's advisory lock that a registration holds until it is committed."""
_LOCK_REGISTRATIONS = Statement(text(f"SELECT pg_advisory_xact_lock({_REGISTRATIONS_LOCK})"))

_MANIFESTS: SizedCache[Manifest] = SizedCache(2**26)


def _manifest(text: str, digest: str) -> Manifest:
    """Read a manifest; one may have megabytes, and takes about as much again as it has characters."""
    return _MANIFESTS.get(digest, lambda: Manifest.model_validate_json(text), lambda _: 2 * len(text))


def _dataset(row: tuple[Any, ...]) -> Dataset:
    dataset_id, name, population, manifest, commitment, created_at, adjacency, accountant, *version = row
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
        *version,
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


def list_owners(connection: Connection, digest: str) -> list[str]:
    """Return the populations that a keyed digest is tied to: more than one where admins said that people are others."""
    return [row[0] for row in _OWNERS_OF_SNAPSHOT.all(connection, digest=digest)]


def list_digests(connection: Connection, dataset_id: str) -> dict[str, str]:
    """Return the keys of the keyed digests that were noted under a dataset."""
    return dict(_SNAPSHOTS_OF.all(connection, dataset_id=dataset_id))


def put_digests(connection: Connection, dataset: "Version", digests: Mapping[str, str]) -> None:
    """Let keyed digests, with their keys, be those that are noted under a dataset, and no others."""
    _FORGET_SNAPSHOTS.execute(connection, dataset_id=dataset.dataset_id)
    of = {"population": dataset.population, "dataset_id": dataset.dataset_id}
    _CLAIM_SNAPSHOT.execute_each(
        connection, [{"digest": digest, "key_id": key_id, **of} for digest, key_id in digests.items()]
    )


def list_keys_of_snapshots(connection: Connection) -> list[str]:
    """Return the keys under which there are digests."""
    return [row[0] for row in _KEYS_OF_SNAPSHOTS.all(connection)]


def insert_sketch(connection: Connection, sketch: SealedSketch) -> None:
    """Insert the sketch of a dataset's version, unless it has one."""
    values = {"dataset_id": sketch.dataset_id, "version": sketch.version}
    _INSERT_SKETCH.execute(connection, **values, key_id=sketch.key_id, sealed=sketch.sealed)


def list_sketches(connection: Connection) -> list[SealedSketch]:
    """Return the sketches of every dataset, the last of each last; empty texts where there is none."""
    return [
        SealedSketch(name, version or 1, owner, key or "", sealed or "")
        for name, version, owner, key, sealed in _SKETCHES.all(connection)
    ]


def list_waiting_rows(connection: Connection) -> list[tuple[Version, str]]:
    """Return rows that wait for a cut of a dataset that has not ended, as versions below zero, and their folders."""
    return [
        (Version(dataset_id, population, -number), json.loads(content)["folder"])
        for dataset_id, population, number, content in _WAITING_ROWS.all(connection)
    ]


def list_present_sketches(connection: Connection, about: Version) -> list[SealedSketch]:
    """Return the sketches of the rows that a dataset has until now, not those of rows that were replaced before."""
    found = _PRESENT_SKETCHES.all(connection, dataset_id=about.dataset_id)
    return [
        SealedSketch(about.dataset_id, version, about.population, key_id, sealed) for version, key_id, sealed in found
    ]


def forget_sketches(connection: Connection, dataset_id: str) -> None:
    """Delete the sketches of the rows that a dataset had until now, not those of rows that were replaced before."""
    _FORGET_SKETCHES.execute(connection, dataset_id=dataset_id)


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
        folder=dataset.folder,
        version=dataset.version,
        sequence=dataset.sequence,
        cut_at=dataset.cut_at,
        retired_at=dataset.retired_at,
        successor=dataset.successor,
    )
    return inserted == 1


def find_current(connection: Connection, dataset_id: str) -> tuple[str, str, str]:
    """Return the commitment of a dataset's present version, when the dataset ended, and when the version began."""
    row = _CURRENT.first(connection, dataset_id=dataset_id)
    return ("", "", "") if row is None else (row[0], row[1], row[2])


def put_version(connection: Connection, dataset: Dataset, before: str) -> bool:
    """Make a version the present one; False if the one before it is not any more."""
    written = _CUT.changed(
        connection,
        dataset_id=dataset.id,
        before=before,
        commitment=dataset.commitment,
        new_folder=dataset.folder,
        new_version=dataset.version,
        entry=dataset.sequence,
        moment=dataset.cut_at,
    )
    return written == 1


def retire(connection: Connection, dataset_id: str, moment: str, successor: str) -> bool:
    """End a dataset; False if it has ended."""
    return _RETIRE.changed(connection, dataset_id=dataset_id, moment=moment, heir=successor) == 1


def forget_cuts(connection: Connection) -> None:
    """Let every dataset be cut again before anything is released from it."""
    _FORGET_CUTS.execute(connection)


def insert_change(connection: Connection, change: Change) -> None:
    """Let a change wait for the next cut."""
    _INSERT_CHANGE.execute(connection, **asdict(change))


def next_number(connection: Connection, dataset_id: str) -> int:
    """Return the number of the next change of a dataset."""
    row = _LAST_CHANGE.first(connection, dataset_id=dataset_id)
    return 1 if row is None or row[0] is None else int(row[0]) + 1


def list_changes(connection: Connection) -> list[Change]:
    """Return every change, those of a dataset in order."""
    return [Change(*row) for row in _CHANGES.all(connection)]


def put_back_change(connection: Connection, change: Change) -> None:
    """Let a change wait again as it was asked for."""
    asked = asdict(change)
    _PUT_BACK_CHANGE.execute(connection, change=asked.pop("id"), **{f"new_{name}": asked[name] for name in asked})


def list_waiting(connection: Connection, dataset_id: str) -> list[Change]:
    """Return the changes of a dataset that wait for its next cut, in order."""
    return [found for found in list_changes(connection) if found.dataset_id == dataset_id and found.version is None]


def apply_change(connection: Connection, change_id: str, version: int) -> bool:
    """Note which version a change has made, or `WITHDRAWN`; False if it waits no more."""
    return _APPLY_CHANGE.changed(connection, change=change_id, made=version) == 1


def apply_changes(connection: Connection, dataset_id: str, last: int, version: int) -> int:
    """Note which version the changes of a dataset's rows have made that waited, up to a number; return how many."""
    return _APPLY_CHANGES.changed(connection, of=dataset_id, last=last, made=version)
