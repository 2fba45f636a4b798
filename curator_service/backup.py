"""Hot, consistent backups: every table of one instant and the rows that it names, in one file.

The file is the same for both databases, so a curator can move from one to the other. Signing keys and the anchor are
not in it: whoever restores needs the keys from elsewhere, and an anchor that came back with the database would see
nothing.
"""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, MetaData, Table, func, insert, select, update

from curator_service.clock import timestamp
from curator_service.curator import Curator
from curator_service.files import sync

FORMAT = 1
_ABOUT = "backup.json"
_ROWS_AT_ONCE = 500
_DATASET_ID = re.compile(r"ds_[0-9a-f]{24}")
_NOT_STORED = frozenset({"workers", "alembic_version"})
RESTORED = "the database was restored from a backup, and what was spent since then is not accounted for"


class BackupError(ValueError):
    """The backup cannot be written or restored as asked; the message says why, for the admin."""


def write_backup(curator: Curator, path: Path) -> dict[str, Any]:
    """Write everything that the database and the data folder hold, as of one instant, while the curator runs.

    Parameters
    ----------
    curator : Curator
    path : Path
        A new file; it is written under another name first, so that a file of this name is a whole one.

    Returns
    -------
    dict
        What was written: the schema's revision, and rows by table.
    """
    if path.exists():
        raise BackupError(f"{path} exists; a backup never replaces another")
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("xb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            part.chmod(0o600)
            about = _write_tables(curator, archive)
            for dataset_id in about["datasets"]:
                for stored in curator.datasets.storage.files(dataset_id):
                    name = f"datasets/{dataset_id}/{stored.name}"
                    archive.add(stored, name, recursive=False)
                    with stored.open("rb") as rows:
                        about["sha256"][name] = hashlib.file_digest(rows, "sha256").hexdigest()
            _add(archive, _ABOUT, json.dumps(about, indent=2).encode())
        sync(part)
        part.rename(path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)
    return about


def _write_tables(curator: Curator, archive: tarfile.TarFile) -> dict[str, Any]:
    current, _head = curator.database.revisions()
    counts, digests, datasets = {}, {}, []
    with curator.database.snapshot() as connection:
        for table in _tables(connection):
            text = "".join(f"{line}\n" for line in _lines(connection, table)).encode()
            counts[table.name], digests[f"tables/{table.name}.jsonl"] = (
                text.count(b"\n"),
                hashlib.sha256(text).hexdigest(),
            )
            _add(archive, f"tables/{table.name}.jsonl", text)
            if table.name == "datasets":
                datasets = [json.loads(line)["id"] for line in text.splitlines()]
    moment = timestamp(curator.ledger.now())
    return {
        "format": FORMAT,
        "created_at": moment,
        "revision": current,
        "rows": counts,
        "sha256": digests,
        "datasets": datasets,
    }


def _tables(connection: Connection) -> list[Table]:
    metadata = MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name not in _NOT_STORED]


def _lines(connection: Connection, table: Table) -> Iterator[str]:
    keys: list[ColumnElement[Any]] = list(table.primary_key.columns)
    if "study_id" in table.columns:  # a study stands before the jobs that refer to it
        keys.insert(0, table.columns["study_id"].is_not(None))
    for row in connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(select(table).order_by(*keys)):
        yield json.dumps(dict(row._mapping), ensure_ascii=False)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o600
    archive.addfile(info, io.BytesIO(content))


def read_backup(curator: Curator, path: Path) -> dict[str, Any]:
    """Restore a backup into an empty database, and seal the curator until it is reconciled.

    Parameters
    ----------
    curator : Curator
        On an empty database, of either kind.
    path : Path

    Raises
    ------
    BackupError
        If the database is not empty, or the file is not a whole backup. Nothing is changed then.
    """
    try:
        with tarfile.open(path) as archive:
            about = json.loads(_member(archive, _ABOUT))
            if about.get("format") != FORMAT:
                raise BackupError(f"{path} is a backup of another format than {FORMAT}")
            for name, digest in about["sha256"].items():
                file = archive.extractfile(name)
                if file is None or hashlib.file_digest(file, "sha256").hexdigest() != digest:  # type: ignore[arg-type]
                    raise BackupError(f"{path}: {name} is not as it was written")
            tables = {name: _member(archive, f"tables/{name}.jsonl") for name in about["rows"]}
            _check_empty(curator)
            _restore_rows(curator, archive, about)
            _restore_tables(curator, about["revision"], tables)
    except (tarfile.TarError, KeyError, ValueError, OSError) as error:
        if isinstance(error, BackupError):
            raise
        raise BackupError(f"{path} is not a whole backup ({type(error).__name__})") from None
    curator.database.upgrade()
    return dict(about)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    return file.read()


def _check_empty(curator: Curator) -> None:
    current, _head = curator.database.revisions()
    if current is not None:
        with curator.database.read() as connection:
            held = [table.name for table in _tables(connection) if table.name != "seal" and _count(connection, table)]
        if held:
            raise BackupError(
                f"the database is not empty ({', '.join(held)}): restore into an empty one, and keep the old one aside"
            )


def _restore_tables(curator: Curator, revision: str, tables: dict[str, bytes]) -> None:
    curator.database.upgrade(revision)
    with curator.database.begin() as connection:
        for table in _tables(connection):
            rows = [json.loads(line) for line in tables.get(table.name, b"").splitlines()]
            if table.name == "seal":
                connection.execute(update(table).values(reason=RESTORED, sealed_at=timestamp(curator.ledger.now())))
                continue
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                connection.execute(insert(table), rows[start : start + _ROWS_AT_ONCE])


def _count(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def _restore_rows(curator: Curator, archive: tarfile.TarFile, about: dict[str, Any]) -> None:
    storage = curator.datasets.storage
    storage.sweep(set(about["datasets"]))
    with storage.writing():
        _restore_folders(storage.root, archive, about)


def _restore_folders(root: Path, archive: tarfile.TarFile, about: dict[str, Any]) -> None:
    for dataset_id in about["datasets"]:
        if not _DATASET_ID.fullmatch(dataset_id):
            raise BackupError(f"{dataset_id!r} names no dataset")
        folder = root / dataset_id
        if folder.exists():  # written once and never changed: what is there is the same
            continue
        staging = root / f".restored-{dataset_id}"
        staging.mkdir(mode=0o700)
        for stored in about["sha256"]:
            prefix, _, name = stored.rpartition("/")
            if prefix == f"datasets/{dataset_id}":
                target = staging / Path(name).name
                target.write_bytes(_member(archive, stored))
                target.chmod(0o600)
                sync(target)
        sync(staging)
        staging.rename(folder)
        sync(root)
