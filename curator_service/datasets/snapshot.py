"""Snapshots: the stored lattice of each dataset, on disk.

A dataset is a folder with parts (int32 per column and a mark of which rows count, and the exact box Gram of the terms
declared without ``omit``) and ``snapshot.json``, which lists them: counts, digests, and the nonce of their commitment.
What the operator may know of the rows is in ``report.json``; nothing else depends on it.
It is written once, under a temporary name, and renamed when it is whole. A mark shows that it is not registered yet;
whoever writes one holds a shared lock, so that what a killed process left is told from what is being written.
"""

import base64
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from math import inf
from operator import add
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from curator_service.datasets.batches import MARK, Batch, RowMarks, SourceBatch
from curator_service.datasets.engines.base import Engine, RowKernel
from curator_service.datasets.engines.numpy import NumpyEngine, sum_terms
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.parts import Part, PartWriter, RowsUnreadable, StoredRows, join_digests, stored_bytes
from curator_service.datasets.persons import ROW_BYTES, Persons, ReadRows
from curator_service.datasets.pseudonyms import SIZE, Pseudonymiser
from curator_service.datasets.reading import bound_reading, read_apart
from curator_service.datasets.repeats import KeyWatch
from curator_service.datasets.report import Report, Reporter
from curator_service.datasets.sketch import Sketch, Sketcher
from curator_service.datasets.sources.base import IngestError, Progress, Source
from curator_service.datasets.sources.coding import CodedBatch, iterate_rows, observe_sketch
from curator_service.kit.caches import SizedCache
from curator_service.kit.files import lock, sync
from curator_service.privacy.design import Term, cached_design
from curator_service.privacy.lattice import IntArray

FORMAT = 2
"""Of what is beside the rows; 1 had no such number, and rows in Parquet."""
_READ_ROWS = 2**15
ABOUT = "snapshot.json"
"""What is kept beside the rows."""
INCOMING = ".incoming-"
"""Begins the names of folders that nobody has registered: what a killed process left of them is swept."""
SKETCH = "sketch.json"
"""What the people of rows that wait are recognised by, sealed."""
REPORT = "report.json"
"""Counts and warnings for the operator; no route reads it."""
_UNREGISTERED, _LOCK, _CUTTING = "unregistered", ".lock", ".cutting"
_ZEROS = bytes(2**20)
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, TypeError, RecursionError)
"""What reading raises where a file is gone, or is not what was written."""
_GRAMS_BYTES = 2**28
"""Of cached Grams that are kept in memory: a thousand terms take 8 MB."""
_CachedGram = tuple[dict[Term, int], IntArray]


@dataclass(frozen=True, slots=True)
class About:
    """Facts kept beside the rows, and nowhere else: exact functions of them, and the nonce of the commitment.

    Attributes
    ----------
    persons : int
        Subjects, where the manifest declares one; else rows. Of rows that came at several times the sum of their
        numbers: a person who came twice counts twice, and whoever was erased still counts.
    parts : tuple of Part
    nonce : str
        Of the commitment. It hides: without it a digest of rows would let anyone test guesses of the last one.
    version : int
        Which version of the dataset it is.
    erasures : tuple of str
        The erasures that were carried out, up to this version: whoever may write the database alone cannot add one.
    """

    persons: int
    parts: tuple[Part, ...]
    nonce: str = field(repr=False)
    version: int = 1
    erasures: tuple[str, ...] = ()

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
        """Commitment to the snapshot in the ledger's entry."""
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
        version = int(content.get("version", 1))
        erasures = tuple(map(str, content.get("erasures", ())))
        return cls(int(content["persons"]), parts, str(content["nonce"]), version, erasures)

    def describe(self) -> dict[str, Any]:
        """Return it as JSON."""
        parts = [part.describe() for part in self.parts]
        about = {"format": FORMAT, "persons": self.persons, "parts": parts, "nonce": self.nonce}
        return about | {"version": self.version, "erasures": list(self.erasures)}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Digests of a snapshot that was written, or read back: they never leave the curator without a key.

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

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Read what `describe` gave.

        Raises
        ------
        ValueError, KeyError, TypeError
        """
        sketch = Sketch.from_bytes(base64.b64decode(content["sketch"], validate=True))
        return cls(int(content["persons"]), Part.read(content["part"]), str(content["source_digest"]), sketch)

    def describe(self) -> dict[str, Any]:
        """Return it as JSON."""
        sketch = base64.b64encode(self.sketch.to_bytes()).decode()
        numbers = {"persons": self.persons, "source_digest": self.source_digest}
        return numbers | {"part": self.part.describe(), "sketch": sketch}

    @property
    def lattice_digest(self) -> str:
        """SHA-256 of all that is stored."""
        return self.part.lattice_digest

    @property
    def values_digest(self) -> str:
        """SHA-256 of the values, whatever their names and order."""
        return self.part.values_digest


@dataclass(frozen=True, slots=True)
class Registered:
    """Stored folders that the database names.

    Attributes
    ----------
    folders : set of str
        Of versions that are read, and of rows that wait for a cut.
    versions : dict of str to int
        Of each dataset, the version before which all others have ended.
    """

    folders: frozenset[str]
    versions: Mapping[str, int]


class Storage:
    """Datasets under one folder.

    Parameters
    ----------
    engine : Engine, optional
        Of passes over rows; numpy's if not given.
    """

    def __init__(self, root: Path, engine: Engine | None = None) -> None:
        self.root = root
        self.engine: Engine = NumpyEngine() if engine is None else engine
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
        *,
        of_registered: bool = False,
    ) -> Snapshot:
        """Check rows against their manifest and write their lattice, in a process of its own; call it while `writing`.

        Memory does not grow with rows or persons, but for a bit of each row; where identifiers are kept, with persons.

        Parameters
        ----------
        sketcher : Sketcher
            Sees raw values, before the lattice.
        progress : callable
            Called with the number of rows that were read, and their share of all, where it is known.
        pseudonymiser : Pseudonymiser, optional
            Of the subjects, where the manifest declares them.
        of_registered : bool
            Whether the manifest is that of a registered dataset, which keeps what it declared.

        Raises
        ------
        IngestError
            Nothing stays behind.
        """
        with self.staging(dataset_id) as staging:
            if pseudonymiser is not None and manifest.subject is not None:
                pseudonymiser.check()  # here, and not in the process that reads: of an error there only a class is told
            work = partial(_write_snapshot, staging, manifest, source, sketcher, pseudonymiser, of_registered)
            keeps_identifiers = pseudonymiser is not None and pseudonymiser.keeps_identifiers
            bounds = bound_reading(manifest, keeps_identifiers=keeps_identifiers)
            return Snapshot.read(read_apart(work, source.label, bounds, progress))

    @contextmanager
    def staging(self, name: str) -> Iterator[Path]:
        """Make a folder that `publish` gives its name; nothing stays behind where writing into it fails."""
        staging = self._staging(name)
        staging.mkdir(mode=0o700)
        try:
            (staging / _UNREGISTERED).touch(mode=0o600)
            yield staging
        except BaseException:
            overwrite(staging)
            raise

    def measure(self, *, but_for: Collection[str]) -> int:
        """Return how many bytes of disk folders take, but for some; what goes away meanwhile takes none."""
        taken = 0
        for folder in self.root.glob("*"):
            if folder.name not in but_for:
                for path in folder.rglob("*"):
                    with suppress(OSError):
                        taken += path.lstat().st_blocks * 512  # of whatever size the disk's own are
        return taken

    @contextmanager
    def cutting(self) -> Iterator[bool]:
        """Tell whether no other process of this machine is cutting versions, and keep them from it."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = lock(self.root / _CUTTING, os.O_CREAT)
        try:
            yield held is not None
        finally:
            if held is not None:
                os.close(held)

    def _staging(self, dataset_id: str) -> Path:
        return self.root / f"{INCOMING}{dataset_id}"

    def describe(self, dataset_id: str, about: About, sketch: Mapping[str, Any] | None = None) -> None:
        """Write what is kept beside the rows of a snapshot that has no name yet; of rows that wait, a sealed sketch."""
        staging = self._staging(dataset_id)
        if sketch is not None:
            _write_json(staging / SKETCH, sketch)
        write_about(staging, about)

    def read_sketch(self, dataset_id: str) -> dict[str, str]:
        """Return the sealed sketch of rows that wait; nothing where it is gone."""
        try:
            found: dict[str, str] = json.loads((self.root / dataset_id / SKETCH).read_bytes())
        except _UNREADABLE:
            return {}
        return found

    def publish(self, dataset_id: str) -> None:
        """Give a whole snapshot its name, durably."""
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

    def sweep(self, registered: Callable[[], "Registered"]) -> list[str]:
        """Remove what a killed process left, and overwrite versions that ended; unless something is being written.

        Parameters
        ----------
        registered : callable
            Returns what the database names, as of when nobody writes.

        Returns
        -------
        list of str
            The names of what a killed process left.
        """
        removed: list[str] = []
        if not self.root.is_dir():
            return removed
        with self._open_lock() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return removed
            known = registered()
            for folder in sorted(path for path in self.root.iterdir() if path.is_dir()):
                dataset_id = folder.name.partition(".")[0]
                if folder.name in known.folders:
                    self.confirm(folder.name)
                elif folder.name.startswith((INCOMING, ".restored-")) or (folder / _UNREGISTERED).exists():
                    overwrite(folder)
                    removed.append(folder.name)
                elif self._version(folder.name) < known.versions.get(dataset_id, 0):
                    overwrite(folder)
        return removed

    def _version(self, name: str) -> float:
        """Return the version of a dataset that a folder holds; infinity where it cannot be told."""
        try:
            return self.about(name).version
        except RowsUnreadable:
            return inf

    def has_rows(self) -> bool:
        """Tell whether any dataset is stored here."""
        return self.root.is_dir() and any(path.name.startswith("ds_") for path in self.root.iterdir())

    def files(self, dataset_id: str) -> list[Path]:
        """Return the files of a dataset."""
        return sorted(path for path in (self.root / dataset_id).iterdir() if path.name != _UNREGISTERED)

    def discard(self, dataset_id: str) -> None:
        """Remove what a failed registration left."""
        for path in (self._staging(dataset_id), self.root / dataset_id):
            if path.exists():
                overwrite(path)

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

    def report(self, dataset_id: str) -> Report:
        """Return what registration found of the rows, for the operator alone.

        Raises
        ------
        RowsUnreadable
            Also if there is none.
        """
        try:
            return Report.read(json.loads((self.root / dataset_id / REPORT).read_bytes()))
        except _UNREADABLE:
            raise RowsUnreadable from None

    def has_files(self, dataset_id: str) -> bool:
        """Tell whether the files that a release needs are there."""
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

    def holds(self, dataset_id: str, manifest: Manifest, commitment: str) -> bool:
        """Tell whether rows and sums agree, number by number, with the registered ones."""
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
            return self.engine.sum(kernel, self.rows(dataset_id, manifest))
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
            for stored, count in tiles_of(self.root / dataset_id, part, names):
                yield {name: numbers.copy() for name, numbers in stored.items()}, count

    def _load_gram(self, dataset_id: str, manifest: Manifest) -> "_CachedGram":
        terms = cached_design(manifest.cacheable).terms
        folder = self.root / dataset_id
        grams = [part.read_gram(folder) for part in self.about(dataset_id).parts]
        if any(gram.shape != (len(terms), len(terms)) for gram in grams):
            raise RowsUnreadable
        gram = reduce(add, grams)
        return {term: i for i, term in enumerate(terms)}, gram


def overwrite(folder: Path) -> None:
    """Remove a folder, and write zeros over its files before.

    A disk that writes elsewhere than where it wrote before, as those without moving parts do, keeps old blocks until it
    uses them again: only encryption helps there.
    """
    if not folder.name.startswith(INCOMING):  # whoever is killed meanwhile leaves no folder that could be read
        folder = folder.rename(folder.with_name(f"{INCOMING}{folder.name}"))
        sync(folder.parent)
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        with path.open("r+b") as file:
            left = os.fstat(file.fileno()).st_size
            while left > 0:
                left -= file.write(_ZEROS[:left])
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def new_part_id() -> str:
    """Return an id that no part had."""
    return f"part_{secrets.token_hex(6)}"


def write_about(folder: Path, about: About) -> None:
    """Write what is kept beside the rows, in one step."""
    _write_json(folder / ABOUT, about.describe())


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    part = path.with_name(f".{path.name}")
    part.touch(mode=0o600)
    part.chmod(0o600)  # of an earlier attempt, too
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    sync(part)
    part.rename(path)
    sync(path.parent)


def write_part(
    folder: Path,
    manifest: Manifest,
    batches: Iterable[SourceBatch],
    find_counted: Callable[[ReadRows], RowMarks | None] = lambda _: None,
    key_id: str | None = None,
) -> Part:
    """Write rows and their Gram as a new part, durably.

    Parameters
    ----------
    find_counted : callable
        Called when all rows are written, of what reads them; returns those that count, or None where all of them do.
    key_id : str, optional
        Of the pseudonyms that batches have.

    Raises
    ------
    ValueError
        If the rows are more than the manifest's capacity.
    IngestError
        If there is no room for the capacity.
    """
    names = [declaration.name for declaration in manifest.columns]
    check_space(folder, manifest)
    with closing(PartWriter(folder, new_part_id(), names, manifest.row_capacity)) as writer:
        for batch in batches:
            writer.add(batch.stored, batch.count)
            if batch.pseudonyms is not None and key_id is not None:
                writer.add_subjects(key_id, batch.pseudonyms)
        if key_id is not None and not writer.rows:
            writer.add_subjects(key_id, np.empty(0, dtype=f"V{SIZE}"))
        part = writer.finish(find_counted(writer.read))
    summed = tiles_of(folder, part, [column.name for column in manifest.cacheable])
    np.save(part.gram_path(folder), _sum_gram(summed, manifest), allow_pickle=False)
    part.gram_path(folder).chmod(0o600)
    sync(part.gram_path(folder))
    sync(folder)
    return part


def check_space(folder: Path, manifest: Manifest) -> None:
    """Refuse what would fill the disk, on which the ledger may be too.

    Raises
    ------
    IngestError
    """
    needed, free = stored_bytes(len(manifest.columns), manifest.row_capacity), shutil.disk_usage(folder).free
    needed += 0 if manifest.subject is None else ROW_BYTES * manifest.row_capacity
    if needed > free:
        raise IngestError(
            f"{manifest.name}: {len(manifest.columns)} columns with a row_capacity of {manifest.row_capacity} take "
            f"{needed / 2**30:.2f} GiB, and where rows are stored {free / 2**30:.2f} GiB are free. Make room, or "
            "declare a capacity nearer to the rows that you expect"
        )


def _sum_gram(batches: Iterable[Batch], manifest: Manifest) -> IntArray:
    design = cached_design(manifest.cacheable)
    gram = np.zeros((len(design.terms), len(design.terms)), dtype=np.int64)
    for stored, count in batches:
        gram += sum_terms(stored, design, count)
    return gram


def is_whole(folder: Path, part: Part, manifest: Manifest) -> bool:
    """Tell whether the files of a part agree with its description, number by number.

    Raises
    ------
    RowsUnreadable
    """
    digests = {name: hashlib.sha256() for name, _ in part.digests}
    all_count, is_padded, left = True, True, part.rows

    def read() -> Iterator[Batch]:
        nonlocal all_count, is_padded, left
        for stored, count in _padded_tiles_of(folder, part, part.columns):
            rows = min(left, count)
            left -= rows
            for name, digest in digests.items():
                digest.update(stored[name][:rows].data)
            all_count = all_count and bool((stored[MARK][:rows] == 1).all())
            is_padded = is_padded and not any(numbers[rows:].any() for numbers in stored.values())
            yield {name: numbers[:rows] for name, numbers in stored.items()}, rows

    gram = _sum_gram(read(), manifest)
    if not is_padded:
        return False
    if part.subjects is not None and len(part.read_subjects(folder)) != part.rows:
        return False
    found = tuple((name, digest.hexdigest()) for name, digest in digests.items())
    is_marked = all_count or MARK in digests
    return is_marked and found == part.digests and np.array_equal(gram, part.read_gram(folder))


def tiles_of(folder: Path, part: Part, names: Sequence[str]) -> Iterator[Batch]:
    """Yield the rows of one part. Those that there are not are read like them, and left out."""
    left = part.rows
    for stored, count in _padded_tiles_of(folder, part, names):
        rows = min(left, count)
        left -= rows
        if rows:
            yield {name: numbers[:rows] for name, numbers in stored.items()}, rows


def _padded_tiles_of(folder: Path, part: Part, names: Sequence[str]) -> Iterator[Batch]:
    return StoredRows(folder, (part,), part.capacity).tiles(names, _READ_ROWS)


def _write_snapshot(
    staging: Path,
    manifest: Manifest,
    source: Source,
    sketcher: Sketcher,
    pseudonymiser: Pseudonymiser | None,
    of_registered: bool,
    progress: Progress,
) -> dict[str, Any]:
    persons = None if manifest.subject is None else Persons(manifest.rows_per_person, manifest.keep_by, staging)
    counted: RowMarks | None = None
    key_id = None if pseudonymiser is None else pseudonymiser.key_id
    reporter, sketch = Reporter(manifest, source), observe_sketch(sketcher, key_id)
    keys = KeyWatch(manifest, of_registered=of_registered)

    def observe(coded: CodedBatch) -> None:
        sketch(coded)
        reporter.add(coded)
        keys.add(coded)

    def find_counted(read_rows: ReadRows) -> RowMarks | None:
        nonlocal counted
        counted = None if persons is None else persons.find_counted(read_rows)
        return counted

    def batches() -> Generator[SourceBatch]:
        rows = 0
        with closing(iterate_rows(manifest, source, observe, progress, pseudonymiser=pseudonymiser)) as found:
            for batch in found:
                rows += batch.count
                if rows > manifest.row_capacity:
                    raise IngestError(
                        f"{source.label}: more rows than the manifest's row_capacity of {manifest.row_capacity}; "
                        "nothing was cut"
                    )
                if persons is not None and batch.pseudonyms is not None:
                    persons.add(batch.pseudonyms, batch.stored)
                    if pseudonymiser is not None:
                        pseudonymiser.remember(staging, batch.subjects, batch.pseudonyms)
                yield batch
        if rows == 0:
            raise IngestError(f"{source.label}: no rows below the header")
        for fault, _ in keys.find_faults():
            raise IngestError(f"{source.label}: {fault}")

    with closing(batches()) as rows:
        part = write_part(staging, manifest, rows, find_counted, key_id)
    sync(staging)
    source_digest = source.digest or part.values_digest  # a query has no bytes
    person_count = part.rows if persons is None else persons.count
    report = reporter.finish(part.rows, person_count, part.rows if counted is None else len(counted))
    _write_json(staging / REPORT, report.render())
    return Snapshot(person_count, part, source_digest, sketcher.finish()).describe()
