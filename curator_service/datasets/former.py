"""Rows as earlier versions stored them, in Parquet: they are written again as a part, and proved to be the same."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curator_service.datasets.batches import MARK, Batch, RowMarks, SourceBatch
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.parts import Part, RowsUnreadable
from curator_service.datasets.snapshot import ABOUT, INCOMING, About, write_about, write_part
from curator_service.datasets.sources.base import IngestError
from curator_service.kit.files import sync
from curator_service.privacy.lattice import MISSING

_ROWS, _GRAM = "rows.parquet", "gram.npy"
_READ_ROWS = 2**15
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, TypeError, pa.ArrowException)


def is_former(folder: Path) -> bool:
    """Tell whether an earlier version stored the rows of a dataset, and they were not yet written as a part."""
    return (folder / _ROWS).exists()


def convert(folder: Path, manifest: Manifest, noted: Mapping[str, Any] | None = None) -> bool:
    """Write rows as a part, and remove their former files when all of it is proved to be the same.

    A process that is killed meanwhile leaves the former files, or whole new ones.

    Parameters
    ----------
    folder : Path
    manifest : Manifest
    noted : mapping, optional
        What was kept of the snapshot elsewhere than beside its rows.

    Returns
    -------
    bool
        False if a digest or a sum is another one: then nothing is changed.

    Raises
    ------
    RowsUnreadable
    """
    if not _is_converted(folder):
        kept = _read_note(folder, noted)
        _remove_parts(folder)
        try:
            part = _write_part(folder, folder, manifest)
            same_sums = np.array_equal(part.read_gram(folder), _read_gram(folder))
        except BaseException:
            _remove_parts(folder)  # the disk may be full
            raise
        if part.lattice_digest != kept["lattice_digest"] or not same_sums:
            _remove_parts(folder)
            return False
        write_about(folder, About(kept["persons"], (part,), kept["nonce"]))
    for name in (_GRAM, _ROWS):
        (folder / name).unlink(missing_ok=True)
    sync(folder)
    return True


def holds(folder: Path, manifest: Manifest, commitment: str) -> bool:
    """Tell whether rows and sums that were not yet written as a part are those that were registered."""
    try:
        kept = _read_note(folder, None)
        with TemporaryDirectory(prefix=INCOMING, dir=folder.parent) as beside:
            part = _write_part(folder, Path(beside), manifest)
            same_sums = np.array_equal(part.read_gram(Path(beside)), _read_gram(folder))
    except (RowsUnreadable, IngestError, OSError, ValueError):
        return False
    found = About(kept["persons"], (part,), kept["nonce"]).commitment
    return same_sums and part.lattice_digest == kept["lattice_digest"] and found == commitment


def _write_part(folder: Path, target: Path, manifest: Manifest) -> Part:
    return write_part(target, manifest, _read_batches(folder, manifest), lambda _: _find_counted(folder, manifest))


def _remove_parts(folder: Path) -> None:
    for left in folder.glob("part_*"):
        left.unlink()


def _is_converted(folder: Path) -> bool:
    try:
        About.read(json.loads((folder / ABOUT).read_bytes()))
    except _UNREADABLE:
        return False
    return True


def _read_note(folder: Path, noted: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        kept = json.loads((folder / ABOUT).read_bytes()) if noted is None else noted
        return {"persons": int(kept["persons"])} | {name: str(kept[name]) for name in ("lattice_digest", "nonce")}
    except _UNREADABLE:
        raise RowsUnreadable from None


def _read_gram(folder: Path) -> Any:
    try:
        return np.load(folder / _GRAM, allow_pickle=False)
    except _UNREADABLE:
        raise RowsUnreadable from None


def _read_batches(folder: Path, manifest: Manifest) -> Iterator[SourceBatch]:
    for stored, count in _read(folder, [declaration.name for declaration in manifest.columns]):
        yield SourceBatch(stored, None, count)


def _find_counted(folder: Path, manifest: Manifest) -> RowMarks | None:
    if manifest.subject is None:
        return None
    marks = np.concatenate([stored[MARK] for stored, _count in _read(folder, [MARK])])
    counted = RowMarks(len(marks))
    counted.set(np.flatnonzero(marks == 1))
    return counted


def _read(folder: Path, columns: Sequence[str]) -> Iterator[Batch]:
    try:
        with pq.ParquetFile(folder / _ROWS) as file:
            for batch in file.iter_batches(batch_size=_READ_ROWS, columns=list(columns), use_threads=False):
                numbers = (pc.fill_null(batch.column(name), pa.scalar(MISSING, pa.int32())) for name in columns)
                stored = [values.to_numpy(zero_copy_only=False) for values in numbers]
                yield dict(zip(columns, stored, strict=True)), batch.num_rows
    except _UNREADABLE:
        raise RowsUnreadable from None
