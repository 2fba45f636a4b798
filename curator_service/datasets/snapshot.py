"""Snapshots: the stored lattice of each dataset, on disk.

A dataset is a folder with ``rows.parquet`` (int32 per column, null where a value is missing; where the manifest
declares a subject also a mark, 1 for a row that counts), ``gram.npy`` (the exact box Gram of the terms declared
without ``omit``) and ``snapshot.json`` (counts, the digest of the lattice, and the nonce of the commitment to it). It
is written once, under a temporary name, and renamed when it is whole. A mark shows that it is not registered yet;
whoever writes one holds a shared lock, so that what a killed process left is told from what is being written.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curator_service.datasets.batches import MARK, Batch
from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.numpy import sum_rows, sum_terms
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.persons import Persons
from curator_service.datasets.sketch import Sketch, Sketcher, code_rows_stored
from curator_service.datasets.sources.base import IngestError, Progress, Source
from curator_service.datasets.sources.coding import iterate_rows
from curator_service.kit.caches import SizedCache
from curator_service.kit.files import sync
from curator_service.privacy.design import Term, cached_design
from curator_service.privacy.lattice import MISSING, IntArray, StoredArray

_READ_ROWS = 2**15
"""Rows that are read at once, whatever is asked: a caller must not choose where one more row begins a batch."""

_ROWS, _GRAM, _ABOUT, _UNREGISTERED, _LOCK = "rows.parquet", "gram.npy", "snapshot.json", "unregistered", ".lock"
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, pa.ArrowException)
"""What reading raises where a file is gone, or is not what was written."""
_GRAMS_BYTES = 2**28
"""Of cached Grams that are kept in memory: a thousand terms take 8 MB."""
_CachedGram = tuple[dict[Term, int], IntArray]


class RowsUnreadable(Exception):
    """The stored rows of a dataset are gone, or are not what was written."""


@dataclass(frozen=True, slots=True)
class About:
    """What is kept beside the rows, and nowhere else: exact functions of them, and what opens the commitment.

    Attributes
    ----------
    persons, rows : int
        Subjects, where the manifest declares one, and rows.
    lattice_digest : str
        SHA-256 of all that is stored, marks included.
    nonce : str
        Of the commitment. It hides: without it a digest of rows would let anyone test guesses of the last one.
    """

    persons: int
    rows: int
    lattice_digest: str = field(repr=False)
    nonce: str = field(repr=False)

    @property
    def commitment(self) -> str:
        """What the ledger's entry holds of the snapshot."""
        return hashlib.sha256(bytes.fromhex(self.nonce + self.lattice_digest)).hexdigest()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was written, or read back: digests that never leave the curator without a key.

    Attributes
    ----------
    persons, rows : int
        Subjects, where the manifest declares one, and rows.
    source_digest, values_digest, lattice_digest : str
        SHA-256 of the file's bytes, where there is one, of the stored values, and of all that is stored.
    sketch : Sketch
    gram : ndarray of int64
        The exact box Gram of the terms declared without ``omit``.
    """

    persons: int
    rows: int
    source_digest: str
    values_digest: str
    lattice_digest: str
    sketch: Sketch = field(repr=False)
    gram: IntArray = field(repr=False)


class Storage:
    """Datasets under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._grams: SizedCache[_CachedGram] = SizedCache(_GRAMS_BYTES)
        self._about: dict[str, About] = {}

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep `sweep` from removing what is being written."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._open_lock() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield

    def _open_lock(self) -> BinaryIO:
        return os.fdopen(os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT, 0o600), "r+b")

    def ingest(
        self,
        dataset_id: str,
        manifest: Manifest,
        source: Source,
        sketcher: Sketcher,
        progress: Progress = lambda _rows, _share: None,
    ) -> Snapshot:
        """Check rows against their manifest and write their lattice; call it while `writing`.

        Memory does not grow with the rows; where a subject is declared, it grows with the persons.

        Parameters
        ----------
        dataset_id : str
        manifest : Manifest
        source : Source
        sketcher : Sketcher
            Sees raw values, before the lattice.
        progress : callable
            Called with the number of rows that were read, and their share of all, where it is known.

        Raises
        ------
        IngestError
            Nothing stays behind.
        """
        staging = self._staging(dataset_id)
        staging.mkdir(mode=0o700)
        try:
            (staging / _UNREGISTERED).touch(mode=0o600)
            return _write_snapshot(staging, manifest, source, sketcher, progress)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise

    def _staging(self, dataset_id: str) -> Path:
        return self.root / f".incoming-{dataset_id}"

    def publish(self, dataset_id: str, about: About) -> None:
        """Give a whole snapshot its name, durably."""
        _write_about(self._staging(dataset_id), about)
        self._staging(dataset_id).rename(self.root / dataset_id)
        sync(self.root)

    def confirm(self, dataset_id: str) -> None:
        """Say that a dataset is registered: nothing removes its rows from now on."""
        (self.root / dataset_id / _UNREGISTERED).unlink(missing_ok=True)

    def sweep(self, registered: Collection[str]) -> list[str]:
        """Remove what a killed process left of a registration or a restore, unless one is under way somewhere.

        Parameters
        ----------
        registered : collection of str
            The ids of the database's datasets.

        Returns
        -------
        list of str
            The names of what was removed.
        """
        removed: list[str] = []
        if not self.root.is_dir():
            return removed
        with self._open_lock() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return removed
            for folder in sorted(path for path in self.root.iterdir() if path.is_dir()):
                if folder.name in registered:
                    self.confirm(folder.name)
                elif folder.name.startswith((".incoming-", ".restored-")) or (folder / _UNREGISTERED).exists():
                    shutil.rmtree(folder, ignore_errors=True)
                    removed.append(folder.name)
        return removed

    def has_rows(self) -> bool:
        """Tell whether any dataset is stored here."""
        return self.root.is_dir() and any(path.name.startswith("ds_") for path in self.root.iterdir())

    def files(self, dataset_id: str) -> list[Path]:
        """Return the files of a dataset."""
        return sorted(path for path in (self.root / dataset_id).iterdir() if path.name != _UNREGISTERED)

    def discard(self, dataset_id: str) -> None:
        """Remove what a failed registration left."""
        for path in (self.root / dataset_id, self._staging(dataset_id)):
            shutil.rmtree(path, ignore_errors=True)

    def about(self, dataset_id: str) -> About:
        """Return what is kept beside the rows.

        Raises
        ------
        RowsUnreadable
        """
        if dataset_id not in self._about:
            try:
                content = json.loads((self.root / dataset_id / _ABOUT).read_bytes())
                self._about[dataset_id] = About(**content)
            except (*_UNREADABLE, TypeError):
                raise RowsUnreadable from None
        return self._about[dataset_id]

    def keep_about(self, dataset_id: str, about: About) -> None:
        """Write what an earlier version kept in the database."""
        _write_about(self.root / dataset_id, about)

    def has_files(self, dataset_id: str) -> bool:
        """Tell whether what a release needs of a dataset is there."""
        folder = os.path.join(self.root, dataset_id)
        return all(os.path.isfile(os.path.join(folder, name)) for name in (_ROWS, _GRAM))

    def find_fault(self, dataset_id: str, commitment: str) -> str:
        """Return why the rows cannot be those that were registered, or nothing; a look at files, not at rows."""
        folder = self.root / dataset_id
        self._about.pop(dataset_id, None)
        if not self.has_files(dataset_id):
            return "rows are gone"
        try:
            about = self.about(dataset_id)
            np.load(folder / _GRAM, mmap_mode="r", allow_pickle=False)
            with pq.ParquetFile(folder / _ROWS) as file:
                same = (file.metadata.num_rows, about.commitment) == (about.rows, commitment)
        except (*_UNREADABLE, RowsUnreadable):
            return "rows cannot be read"
        return "" if same else "rows are not those that were registered"

    def read_snapshot(self, dataset_id: str, manifest: Manifest, sketcher: Sketcher | None) -> Snapshot:
        """Read back what was written, all of it. A sketch, if one is asked, is of the lattice, not of raw values.

        Raises
        ------
        RowsUnreadable
        """
        columns = [declaration.column for declaration in manifest.columns]
        names = _stored_names(manifest)
        design = cached_design(manifest.cacheable)
        digests, count = _Digests(len(columns), names), 0
        gram = np.zeros((len(design.terms), len(design.terms)), dtype=np.int64)
        for stored, rows in _read_batches(self.root / dataset_id / _ROWS, names):
            count += rows
            digests.update(stored)
            if sketcher is not None:
                sketcher.add(code_rows_stored(columns, stored))
            gram += sum_terms(stored, design, rows)
        sketch = Sketch(()) if sketcher is None else sketcher.finish()
        return Snapshot(count, count, "", digests.values, digests.lattice, sketch, gram)

    def holds(self, dataset_id: str, manifest: Manifest, commitment: str) -> bool:
        """Tell whether rows and sums are, number by number, those that were registered."""
        if self.find_fault(dataset_id, commitment):
            return False
        try:
            found = self.read_snapshot(dataset_id, manifest, None)
            gram = np.load(self.root / dataset_id / _GRAM, allow_pickle=False)
        except (*_UNREADABLE, RowsUnreadable):
            return False
        return found.lattice_digest == self.about(dataset_id).lattice_digest and np.array_equal(found.gram, gram)

    def sum_rows(self, dataset_id: str, manifest: Manifest, kernel: RowKernel) -> IntArray:
        """Sum what rows contribute, exactly: a block of the cached Gram, or a pass over rows.

        Returns
        -------
        ndarray of int64
            In the kernel's shape.

        Raises
        ------
        RowsUnreadable
        """
        if kernel.cached_terms is not None:
            positions, gram = self._grams.get(
                dataset_id, lambda: self._load_gram(dataset_id, manifest), lambda held: held[1].nbytes
            )
            index = [positions[term] for term in kernel.cached_terms]
            block: IntArray = gram[index][:, index]
            return block
        names = kernel.columns if manifest.subject is None else (*kernel.columns, MARK)
        batches = _read_batches(self.root / dataset_id / _ROWS, names)
        return sum_rows(batches, names, kernel, manifest.row_capacity)

    def _load_gram(self, dataset_id: str, manifest: Manifest) -> "_CachedGram":
        terms = cached_design(manifest.cacheable).terms
        try:
            gram = np.load(self.root / dataset_id / _GRAM, allow_pickle=False)
        except _UNREADABLE:
            raise RowsUnreadable from None
        return {term: i for i, term in enumerate(terms)}, gram


def _stored_names(manifest: Manifest) -> list[str]:
    return [declaration.name for declaration in manifest.columns] + ([] if manifest.subject is None else [MARK])


class _Digests:
    """One digest per stored column, so that they do not depend on where chunks are cut.

    The same rows under another rule of which count, or with columns in another order or under other names, are still
    the same rows: one digest leaves out the marks, the names and the order.
    """

    def __init__(self, columns: int, names: Sequence[str]) -> None:
        self._columns = columns
        self._of = {name: hashlib.sha256() for name in names}

    def update(self, stored: Mapping[str, StoredArray]) -> None:
        """Take in a chunk of rows."""
        for name, digest in self._of.items():
            digest.update(stored[name].tobytes())

    @property
    def values(self) -> str:
        """SHA-256 of the values."""
        return hashlib.sha256(
            b"".join(sorted(d.digest() for d in list(self._of.values())[: self._columns]))
        ).hexdigest()

    @property
    def lattice(self) -> str:
        """SHA-256 of all that is stored."""
        return hashlib.sha256(b"".join(d.digest() for d in self._of.values())).hexdigest()


def _write_about(folder: Path, about: About) -> None:
    part = folder / f".{_ABOUT}"
    part.write_text(json.dumps(asdict(about), indent=2) + "\n", encoding="utf-8")
    part.chmod(0o600)
    sync(part)
    part.rename(folder / _ABOUT)
    sync(folder)


def _write_snapshot(
    staging: Path, manifest: Manifest, source: Source, sketcher: Sketcher, progress: Progress
) -> Snapshot:
    design = cached_design(manifest.cacheable)
    names = _stored_names(manifest)
    digests, row_count, persons = _Digests(len(manifest.columns), names), 0, Persons(manifest.rows_per_person)
    gram = np.zeros((len(design.terms), len(design.terms)), dtype=np.int64)
    schema = pa.schema([pa.field(name, pa.int32()) for name in names])
    with pq.ParquetWriter(staging / _ROWS, schema, compression="zstd") as writer:
        for batch in iterate_rows(manifest, source, sketcher, progress):
            stored, count = batch.stored, batch.count
            if batch.subjects is not None:
                stored[MARK] = persons.mark(batch.subjects)
            row_count += count
            if row_count > manifest.row_capacity:
                raise IngestError(
                    f"{source.label}: more rows than the manifest's row_capacity of {manifest.row_capacity}; "
                    "nothing was cut"
                )
            digests.update(stored)
            arrays = [pa.array(stored[name], mask=stored[name] == MISSING) for name in names]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            gram += sum_terms(stored, design, count)
    if row_count == 0:
        raise IngestError(f"{source.label}: no rows below the header")
    np.save(staging / _GRAM, gram, allow_pickle=False)
    for path in staging.iterdir():
        path.chmod(0o600)
        sync(path)
    sync(staging)
    person_count = row_count if manifest.subject is None else persons.count
    source_digest = source.digest or digests.values  # a query has no bytes
    return Snapshot(person_count, row_count, source_digest, digests.values, digests.lattice, sketcher.finish(), gram)


def _read_batches(path: Path, columns: Sequence[str]) -> Iterator[Batch]:
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_READ_ROWS, columns=list(columns), use_threads=False):
                yield (
                    {
                        name: pc.fill_null(batch.column(name), pa.scalar(MISSING, pa.int32())).to_numpy(
                            zero_copy_only=False
                        )
                        for name in columns
                    },
                    batch.num_rows,
                )
    except _UNREADABLE:
        raise RowsUnreadable from None
