"""Snapshots: the stored lattice of each dataset, on disk.

A dataset is a folder with parts (int32 per column and a mark of which rows count, and the exact box Gram of the terms
declared without ``omit``) and ``snapshot.json``, which lists them: counts, digests, and the nonce of their commitment.
It is written once, under a temporary name, and renamed when it is whole. A mark shows that it is not registered yet;
whoever writes one holds a shared lock, so that what a killed process left is told from what is being written.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from curator_service.datasets.batches import MARK, Batch, SourceBatch
from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.numpy import sum_rows, sum_terms
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.parts import Part, PartWriter, RowsUnreadable, StoredRows, join_digests
from curator_service.datasets.persons import Persons
from curator_service.datasets.pseudonyms import Pseudonymiser
from curator_service.datasets.sketch import Sketch, Sketcher, code_rows_stored
from curator_service.datasets.sources.base import IngestError, Progress, Source
from curator_service.datasets.sources.coding import iterate_rows
from curator_service.kit.caches import SizedCache
from curator_service.kit.files import sync
from curator_service.privacy.design import Term, cached_design
from curator_service.privacy.lattice import IntArray

FORMAT = 2
"""Of what is beside the rows; 1 had no such number, and rows in Parquet."""
_READ_ROWS = 2**15
ABOUT = "snapshot.json"
"""What is kept beside the rows."""
_UNREGISTERED, _LOCK = "unregistered", ".lock"
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, TypeError)
"""What reading raises where a file is gone, or is not what was written."""
_GRAMS_BYTES = 2**28
"""Of cached Grams that are kept in memory: a thousand terms take 8 MB."""
_CachedGram = tuple[dict[Term, int], IntArray]


@dataclass(frozen=True, slots=True)
class About:
    """What is kept beside the rows, and nowhere else: exact functions of them, and what opens the commitment.

    Attributes
    ----------
    persons : int
        Subjects, where the manifest declares one; else rows.
    parts : tuple of Part
    nonce : str
        Of the commitment. It hides: without it a digest of rows would let anyone test guesses of the last one.
    """

    persons: int
    parts: tuple[Part, ...]
    nonce: str = field(repr=False)

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def lattice_digest(self) -> str:
        """SHA-256 of all that is stored, marks included."""
        digests = [part.lattice_digest for part in self.parts]
        return digests[0] if len(digests) == 1 else join_digests(digests)

    @property
    def commitment(self) -> str:
        """What the ledger's entry holds of the snapshot."""
        return hashlib.sha256(bytes.fromhex(self.nonce + self.lattice_digest)).hexdigest()

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Read what `describe` wrote.

        Raises
        ------
        ValueError, KeyError, TypeError
        """
        parts = tuple(map(Part.read, content["parts"]))
        if content["format"] != FORMAT or not parts:
            raise ValueError("no snapshot of this format")
        return cls(int(content["persons"]), parts, str(content["nonce"]))

    def describe(self) -> dict[str, Any]:
        """Return it as JSON."""
        parts = [part.describe() for part in self.parts]
        return {"format": FORMAT, "persons": self.persons, "parts": parts, "nonce": self.nonce}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was written, or read back: digests that never leave the curator without a key.

    Attributes
    ----------
    persons : int
        Subjects, where the manifest declares one; else rows.
    part : Part
        What the rows are.
    source_digest : str
        SHA-256 of the file's bytes, where there is one.
    sketch : Sketch
    """

    persons: int
    part: Part
    source_digest: str
    sketch: Sketch = field(repr=False)

    @property
    def lattice_digest(self) -> str:
        """SHA-256 of all that is stored."""
        return self.part.lattice_digest

    @property
    def values_digest(self) -> str:
        """SHA-256 of the values, whatever their names and order."""
        return self.part.values_digest


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
        pseudonymiser: Pseudonymiser | None = None,
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
        pseudonymiser : Pseudonymiser, optional
            Of the subjects, where the manifest declares them.

        Raises
        ------
        IngestError
            Nothing stays behind.
        """
        staging = self._staging(dataset_id)
        staging.mkdir(mode=0o700)
        try:
            (staging / _UNREGISTERED).touch(mode=0o600)
            return _write_snapshot(staging, manifest, source, sketcher, progress, pseudonymiser)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise

    def _staging(self, dataset_id: str) -> Path:
        return self.root / f".incoming-{dataset_id}"

    def publish(self, dataset_id: str, about: About) -> None:
        """Give a whole snapshot its name, durably."""
        write_about(self._staging(dataset_id), about)
        self._staging(dataset_id).rename(self.root / dataset_id)
        sync(self.root)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nobody writes, and keep everybody from writing."""
        with self._open_lock() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

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
                self._about[dataset_id] = About.read(json.loads((self.root / dataset_id / ABOUT).read_bytes()))
            except _UNREADABLE:
                raise RowsUnreadable from None
        return self._about[dataset_id]

    def has_files(self, dataset_id: str) -> bool:
        """Tell whether what a release needs of a dataset is there."""
        try:
            return all(part.has_files(self.root / dataset_id) for part in self.about(dataset_id).parts)
        except RowsUnreadable:
            return False

    def find_fault(self, dataset_id: str, commitment: str) -> str:
        """Return why the rows cannot be those that were registered, or nothing; a look at files, not at rows."""
        folder = self.root / dataset_id
        self._about.pop(dataset_id, None)
        if not folder.is_dir():
            return "rows are gone"
        try:
            about = self.about(dataset_id)
            if not all(part.rows_path(folder).exists() and part.gram_path(folder).exists() for part in about.parts):
                return "rows are gone"
            for part in about.parts:
                part.read_gram(folder)
            found = about.commitment
        except (OSError, ValueError, RowsUnreadable):  # a digest may be none
            return "rows cannot be read"
        if not self.has_files(dataset_id):
            return "rows cannot be read"
        return "" if found == commitment else "rows are not those that were registered"

    def rows(self, dataset_id: str, manifest: Manifest) -> StoredRows:
        """Return where the rows are, and how many a pass works through.

        Raises
        ------
        RowsUnreadable
        """
        return StoredRows(self.root / dataset_id, self.about(dataset_id).parts, manifest.row_capacity)

    def sketch(self, dataset_id: str, manifest: Manifest, sketcher: Sketcher) -> Sketch:
        """Sketch what was written: of the lattice, not of raw values.

        Raises
        ------
        RowsUnreadable
        """
        columns = [declaration.column for declaration in manifest.columns]
        for stored, _count in self.iterate_rows(dataset_id, [column.name for column in columns]):
            sketcher.add(code_rows_stored(columns, stored))
        return sketcher.finish()

    def holds(self, dataset_id: str, manifest: Manifest, commitment: str) -> bool:
        """Tell whether rows and sums are, number by number, those that were registered."""
        if self.find_fault(dataset_id, commitment):
            return False
        folder = self.root / dataset_id
        try:
            return all(is_whole(folder, part, manifest) for part in self.about(dataset_id).parts)
        except RowsUnreadable:
            return False

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
        if kernel.cached_terms is None:
            return sum_rows(self.rows(dataset_id, manifest), kernel)
        positions, gram = self._grams.get(
            dataset_id, lambda: self._load_gram(dataset_id, manifest), lambda held: held[1].nbytes
        )
        index = [positions[term] for term in kernel.cached_terms]
        block: IntArray = gram[index][:, index]
        return block

    def iterate_rows(self, dataset_id: str, names: Sequence[str]) -> Iterator[Batch]:
        """Yield the stored integers of some columns, and the marks of rows that count.

        Raises
        ------
        RowsUnreadable
        """
        for part in self.about(dataset_id).parts:
            for stored, count in _tiles_of(self.root / dataset_id, part, names):
                yield {name: numbers.copy() for name, numbers in stored.items()}, count

    def _load_gram(self, dataset_id: str, manifest: Manifest) -> "_CachedGram":
        terms = cached_design(manifest.cacheable).terms
        folder = self.root / dataset_id
        grams = [part.read_gram(folder) for part in self.about(dataset_id).parts]
        if any(gram.shape != (len(terms), len(terms)) for gram in grams):
            raise RowsUnreadable
        gram = reduce(add, grams)
        return {term: i for i, term in enumerate(terms)}, gram


def new_part_id() -> str:
    """Return an id that no part had."""
    return f"part_{secrets.token_hex(6)}"


def write_about(folder: Path, about: About) -> None:
    """Write what is kept beside the rows, in one step."""
    part = folder / f".{ABOUT}"
    part.write_text(json.dumps(about.describe(), indent=2) + "\n", encoding="utf-8")
    part.chmod(0o600)
    sync(part)
    part.rename(folder / ABOUT)
    sync(folder)


def write_part(
    folder: Path,
    manifest: Manifest,
    batches: Iterable[SourceBatch],
    find_counted: Callable[[], IntArray | None] = lambda: None,
    pseudonymiser: Pseudonymiser | None = None,
) -> Part:
    """Write rows and their Gram as a new part, durably.

    Parameters
    ----------
    folder : Path
    manifest : Manifest
    batches : iterable of SourceBatch
    find_counted : callable
        Called when all rows are written; returns those that count, or None where all of them do.
    pseudonymiser : Pseudonymiser, optional
        Of the subjects, where batches have them; without it, nobody can tell whose the rows are.

    Raises
    ------
    ValueError
        If the rows are more than the manifest's capacity.
    """
    names = [declaration.name for declaration in manifest.columns]
    with closing(PartWriter(folder, new_part_id(), names, manifest.row_capacity)) as writer:
        for batch in batches:
            writer.add(batch.stored, batch.count)
            if batch.subjects is not None and pseudonymiser is not None:
                writer.add_subjects(pseudonymiser.key_id, pseudonymiser.make(batch.subjects))
        part = writer.finish(find_counted())
    np.save(part.gram_path(folder), _sum_gram(_tiles_of(folder, part, names), manifest), allow_pickle=False)
    part.gram_path(folder).chmod(0o600)
    sync(part.gram_path(folder))
    sync(folder)
    return part


def _sum_gram(batches: Iterable[Batch], manifest: Manifest) -> IntArray:
    design = cached_design(manifest.cacheable)
    gram = np.zeros((len(design.terms), len(design.terms)), dtype=np.int64)
    for stored, count in batches:
        gram += sum_terms(stored, design, count)
    return gram


def is_whole(folder: Path, part: Part, manifest: Manifest) -> bool:
    """Tell whether the files of a part are what its description says, number by number.

    Raises
    ------
    RowsUnreadable
    """
    digests = {name: hashlib.sha256() for name, _ in part.digests}
    all_count = True

    def read() -> Iterator[Batch]:
        nonlocal all_count
        for stored, count in _tiles_of(folder, part, part.columns):
            for name, digest in digests.items():
                digest.update(stored[name].data)
            all_count = all_count and bool((stored[MARK] == 1).all())
            yield stored, count

    gram = _sum_gram(read(), manifest)
    beyond = StoredRows(folder, (part,), part.capacity).tiles(part.columns, _READ_ROWS, part.rows)
    if any(numbers.any() for stored, _count in beyond for numbers in stored.values()):
        return False
    if part.subjects is not None and len(part.read_subjects(folder)) != part.rows:
        return False
    found = tuple((name, digest.hexdigest()) for name, digest in digests.items())
    is_marked = all_count or MARK in digests
    return is_marked and found == part.digests and np.array_equal(gram, part.read_gram(folder))


def _tiles_of(folder: Path, part: Part, names: Sequence[str]) -> Iterator[Batch]:
    """Yield the rows of one part, without those that there are not."""
    return StoredRows(folder, (part,), part.capacity).tiles(names, _READ_ROWS, 0, part.rows)


def _write_snapshot(
    staging: Path,
    manifest: Manifest,
    source: Source,
    sketcher: Sketcher,
    progress: Progress,
    pseudonymiser: Pseudonymiser | None,
) -> Snapshot:
    persons = None if manifest.subject is None else Persons(manifest.rows_per_person, manifest.keep_by)

    def batches() -> Iterator[SourceBatch]:
        rows = 0
        for batch in iterate_rows(manifest, source, sketcher, progress):
            rows += batch.count
            if rows > manifest.row_capacity:
                raise IngestError(
                    f"{source.label}: more rows than the manifest's row_capacity of {manifest.row_capacity}; "
                    "nothing was cut"
                )
            if persons is not None and batch.subjects is not None:
                persons.add(batch.subjects, batch.stored)
            yield batch
        if rows == 0:
            raise IngestError(f"{source.label}: no rows below the header")

    part = write_part(
        staging, manifest, batches(), lambda: None if persons is None else persons.find_counted(), pseudonymiser
    )
    sync(staging)
    source_digest = source.digest or part.values_digest  # a query has no bytes
    person_count = part.rows if persons is None else persons.count
    return Snapshot(person_count, part, source_digest, sketcher.finish())
