"""Hot, consistent backups: every table of one instant and the rows that it names, in one file.

The file is the same for both databases, so a curator can move from one to the other. Signing keys and the anchor are
not in it: whoever restores needs the keys from elsewhere, and an anchor that came back with the database would see
nothing.
"""

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import ColumnElement, MetaData, Table, func, insert, select, update

from curator_service.container import Curator, make_curator
from curator_service.datasets.snapshot import Registered
from curator_service.kit.clock import timestamp
from curator_service.kit.db import Connection, SchemaError, Statement, check_revision
from curator_service.kit.files import is_named, lock, sync
from curator_service.settings import Settings

FORMAT = 2
PIECE_BYTES = 2**20
"""Rows of a table are written and read in pieces of about this size: a table may be larger than memory."""
_ABOUT = "backup.json"
_FOLDER = re.compile(r"ds_[0-9a-f]{24}(\.[0-9a-f]{12})?")
_NOT_STORED = frozenset({"workers", "browser_sessions", "sign_ins", "session_noise", "alembic_version"})
"""What is of a process or of a browser: a session that ended after the backup must not come back with it."""
RESTORED = "the database was restored from a backup, and what was spent since then is not accounted for"


class BackupError(ValueError):
    """The backup cannot be written or restored as asked; the message says why, for the admin."""


def write_backup(curator: Curator, path: Path) -> dict[str, Any]:
    """Write everything that the database and the data folder hold, as of one instant, while the curator runs.

    Parameters
    ----------
    path : Path
        A new file; it is written under another name first, so that a file of this name is a whole one.

    Returns
    -------
    dict
        What was written: the schema's revision, and rows by table.
    """
    part = path.with_name(f".{path.name}.part")
    with _open_part(part) as file:  # its lock lasts until it has its name
        try:
            _check_new(path)
            about = _write(curator, file)
            sync(part)
            part.rename(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    sync(path.parent)
    return about


def _check_new(path: Path) -> None:
    if path.exists():
        raise BackupError(f"{path} exists; a backup never replaces another")


def _open_part(part: Path) -> BinaryIO:
    """Open a new file for its user alone. What a killed backup left under its name, nobody has locked."""
    with suppress(FileNotFoundError):
        left = lock(part)
        if left is not None:
            if is_named(left, part):
                part.unlink()
            os.close(left)
    try:
        held = lock(part, os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        held = None
    if held is not None and is_named(held, part):
        return os.fdopen(held, "wb")
    if held is not None:
        os.close(held)
    raise BackupError(f"{part} is being written by another backup; give this one another name")


def _write(curator: Curator, file: BinaryIO) -> dict[str, Any]:
    with curator.datasets.storage.writing(), tarfile.open(fileobj=file, mode="w") as archive:
        about = _write_tables(curator, archive)
        for dataset_id in about["datasets"]:
            for stored in curator.datasets.storage.files(dataset_id):
                name = f"datasets/{dataset_id}/{stored.name}"
                archive.add(stored, name, recursive=False)
                with stored.open("rb") as rows:
                    about["sha256"][name] = hashlib.file_digest(rows, "sha256").hexdigest()
        _add(archive, _ABOUT, json.dumps(about, indent=2).encode())
    file.flush()
    return about


def _write_tables(curator: Curator, archive: tarfile.TarFile) -> dict[str, Any]:
    current, _head = curator.database.revisions()
    counts: dict[str, int] = {}
    digests: dict[str, str] = {}
    datasets: list[str] = []
    tables = _tables(curator)
    with curator.database.snapshot() as connection:
        for table in tables:
            counts[table.name] = 0
            for number, piece in enumerate(_pieces(_rows(connection, table, datasets))):
                counts[table.name] += piece.count(b"\n")
                name = f"tables/{table.name}/{number:08}.jsonl"
                digests[name] = hashlib.sha256(piece).hexdigest()
                _add(archive, name, piece)
    moment = timestamp(curator.ledger.now())
    return {
        "format": FORMAT,
        "created_at": moment,
        "revision": current,
        "rows": counts,
        "sha256": digests,
        "datasets": datasets,
    }


def _pieces(rows: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Yield rows as lines of JSON, as many at once as a piece has room for."""
    lines: list[bytes] = []
    size = 0
    for row in rows:
        lines.append(f"{json.dumps(row, ensure_ascii=False)}\n".encode())
        size += len(lines[-1])
        if size >= PIECE_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def _find_folder(table: str, row: dict[str, Any]) -> str | None:
    """Return the folder of rows that a dataset has now, or that waits for a cut."""
    if table == "datasets" and not row.get("retired_at"):
        return str(row.get("folder", row["id"]))
    if table == "changes" and row["version"] is None:
        folder: str | None = json.loads(row["content"]).get("folder")
        return folder
    return None


def _tables(curator: Curator) -> list[Table]:
    metadata = MetaData()
    metadata.reflect(curator.database.engine)
    return [table for table in metadata.sorted_tables if table.name not in _NOT_STORED]


def _rows(connection: Connection, table: Table, folders: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, and note the folders that they name."""
    keys: list[ColumnElement[Any]] = list(table.primary_key.columns)
    if "study_id" in table.columns:  # an analyst's reservation stands before the jobs that draw on it
        keys.insert(0, table.columns["study_id"].is_not(None))
    names = table.columns.keys()
    for values in Statement(select(table).order_by(*keys)).stream(connection):
        row = dict(zip(names, values, strict=True))
        folder = _find_folder(table.name, row)
        if folder is not None:
            folders.append(folder)
        yield row


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

    Raises
    ------
    BackupError
        If the database is not empty, or the file is not a whole backup. Nothing is changed then.
    SchemaError
        If it is of a schema that this version does not know. Nothing is changed then either.
    """
    try:
        with tarfile.open(path) as archive:
            about = json.loads(_member(archive, _ABOUT))
            if about.get("format") != FORMAT:
                raise BackupError(f"{path} is a backup of another format than {FORMAT}")
            check_revision(str(about["revision"]))
            for name, digest in about["sha256"].items():
                file = archive.extractfile(name)
                if file is None or hashlib.file_digest(file, "sha256").hexdigest() != digest:  # type: ignore[arg-type]
                    raise BackupError(f"{path}: {name} is not as it was written")
            _check_empty(curator)
            _restore_rows(curator, archive, about)
            _restore_tables(curator, archive, about)
    except (tarfile.TarError, KeyError, ValueError, OSError) as error:
        if isinstance(error, BackupError | SchemaError):
            raise
        raise BackupError(f"{path} is not a whole backup ({type(error).__name__})") from None
    curator.database.upgrade()
    return dict(about)


@contextmanager
def rehearse(settings: Settings, path: Path) -> Iterator[tuple[Curator, dict[str, Any]]]:
    """Restore a backup for the time of a block, into a folder of its own that is removed at the end.

    The curator there has no private key and no anchor: nothing of it can be signed, and it is never unsealed.

    Parameters
    ----------
    settings : Settings
        The folder is made in the data folder, which has room for rows.

    Raises
    ------
    BackupError, SchemaError
        As of `read_backup`; also while another rehearsal is under way.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = lock(settings.data_dir / ".rehearsal-lock", os.O_CREAT)
    if held is None:
        raise BackupError("another rehearsal is under way in this data folder; wait for its end")
    folder = settings.data_dir / "rehearsal"
    try:
        if folder.exists():  # a rehearsal that was killed left it
            shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
        alone = {"data_dir": folder / "data", "keys_dir": folder / "keys", "anchor_dir": folder / "anchor"}
        elsewhere = dict.fromkeys(("database_url", "database_password_file", "subject_key_file"))
        curator = make_curator(settings.model_copy(update=alone | elsewhere))
        try:
            yield curator, read_backup(curator, path)
        finally:
            curator.datasets.storage.engine.close()
            curator.database.dispose()
            shutil.rmtree(folder)
    finally:
        os.close(held)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    return file.read()


def _extract(archive: tarfile.TarFile, name: str, target: Path) -> None:
    """Write a member as a file, durably, in pieces: rows may be larger than memory."""
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
        shutil.copyfileobj(file, written, 2**20)
    sync(target)


def _check_empty(curator: Curator) -> None:
    current, _head = curator.database.revisions()
    if current is not None:
        tables = _tables(curator)
        with curator.database.read() as connection:
            held = [table.name for table in tables if table.name != "seal" and _count(connection, table)]
        if held:
            raise BackupError(
                f"the database is not empty ({', '.join(held)}): restore into an empty one, and keep the old one aside"
            )


def _restore_tables(curator: Curator, archive: tarfile.TarFile, about: dict[str, Any]) -> None:
    curator.database.upgrade(about["revision"])
    pieces: dict[str, list[str]] = {}
    for name in about["sha256"]:
        if name.startswith("tables/"):
            pieces.setdefault(name.split("/")[1], []).append(name)
    tables = _tables(curator)
    with curator.database.begin() as connection:
        for table in tables:
            if table.name == "seal":
                sealed = update(table).values(reason=RESTORED, sealed_at=timestamp(curator.ledger.now()))
                Statement(sealed).execute(connection)
                continue
            insertion = Statement(insert(table))
            for name in pieces.get(table.name, []):
                rows = [json.loads(line) for line in _member(archive, name).splitlines()]
                insertion.execute_each(connection, rows)


def _count(connection: Connection, table: Table) -> int:
    row = Statement(select(func.count()).select_from(table)).first(connection)
    assert row is not None
    return int(row[0])


def _restore_rows(curator: Curator, archive: tarfile.TarFile, about: dict[str, Any]) -> None:
    storage = curator.datasets.storage
    storage.sweep(lambda: Registered(frozenset(about["datasets"]), {}))
    with storage.writing():
        _restore_folders(storage.root, archive, about)


def _restore_folders(root: Path, archive: tarfile.TarFile, about: dict[str, Any]) -> None:
    for dataset_id in about["datasets"]:
        if not _FOLDER.fullmatch(dataset_id):
            raise BackupError(f"{dataset_id!r} names no dataset")
        folder = root / dataset_id
        if folder.exists():  # written once and never changed: what is there is the same
            continue
        staging = root / f".restored-{dataset_id}"
        staging.mkdir(mode=0o700)
        for stored in about["sha256"]:
            prefix, _, name = stored.rpartition("/")
            if prefix == f"datasets/{dataset_id}":
                _extract(archive, stored, staging / Path(name).name)
        sync(staging)
        staging.rename(folder)
        sync(root)
