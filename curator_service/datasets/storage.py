"""The stored lattice: the only module that reads raw rows.

A dataset is a folder with ``rows.parquet`` (int32 per column, null where a value is missing; where the manifest
declares a subject also a mark, 1 for a row that counts), ``gram.npy`` (the exact box Gram of the terms declared
without ``omit``) and ``snapshot.json`` (counts, the digest of the lattice, and the nonce of the commitment to it). It
is written once, under a temporary name, and renamed when it is whole. A mark shows that it is not registered yet;
whoever writes one holds a shared lock, so that what a killed process left is told from what is being written.
"""

import csv
import fcntl
import hashlib
import json
import os
import shutil
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sketch import (
    Sketch,
    Sketcher,
    Values,
    code_levels,
    code_numbers,
    code_rows_stored,
    code_words,
)
from curator_service.kinds.gram.kernel import compute_gram
from curator_service.kit.files import open_regular, sync
from curator_service.privacy.design import Column, ColumnType, Design, MissingRule, Term, cached_design, code_rows
from curator_service.privacy.lattice import MISSING, IntArray, RowArray, StoredArray, to_stored
from curator_service.privacy.row_maps import RowMap

_CHUNK_ROWS = 50_000
_CHUNK_CHARACTERS = 2**25
_LINE_CHARACTERS_MAX = 2**22
"""A line is held in memory many times over before its fields are counted."""
_BATCH_ENTRIES = 2**20
"""Rows × terms that are coded at once: a wide request takes more batches, not more memory."""
_BOOLEAN_WORDS = {"false": 0, "0": 0, "true": 1, "1": 1}

_MARK = "#counts"  # no name of a column: those begin with a letter

_READ_ROWS = 2**15
"""Rows that are read at once, whatever is asked: a caller must not choose where one more row begins a batch."""

Progress = Callable[[float], None]
_ROWS, _GRAM, _ABOUT, _UNREGISTERED, _LOCK = "rows.parquet", "gram.npy", "snapshot.json", "unregistered", ".lock"
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, pa.ArrowException)
"""What reading raises where a file is gone, or is not what was written."""
_Batch = tuple[dict[str, StoredArray], int]
_CachedGram = tuple[dict[Term, int], IntArray]


class IngestError(ValueError):
    """The file breaks the manifest; the message names file, line and column, for the admin, and shows no value."""


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
        self._grams: dict[str, _CachedGram] = {}  # small, immutable, one per dataset that was asked
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
        source: Path,
        sketcher: Sketcher,
        progress: Progress = lambda _: None,
    ) -> Snapshot:
        """Check a CSV file against its manifest and write its lattice; call it while `writing`.

        Memory does not grow with the rows; where a subject is declared, it grows with the persons.

        Parameters
        ----------
        dataset_id : str
        manifest : Manifest
        source : Path
            UTF-8, with a header that names at least the declared columns; others are not read.
        sketcher : Sketcher
            Sees raw values, before the lattice.
        progress : callable
            Called with the share of the file that was read.

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
            gram += compute_gram(_code_in_slices(stored, design, rows), len(design.terms))
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

    def compute_gram(self, dataset_id: str, manifest: Manifest, design: Design, row_map: RowMap) -> IntArray:
        """Compute the exact Gram of (terms, targets): a block of the cached one, or a pass over rows.

        Returns
        -------
        ndarray of int64, shape (terms + targets, terms + targets)

        Raises
        ------
        RowsUnreadable
        """
        if not needs_pass(design, row_map):
            if dataset_id not in self._grams:
                self._grams[dataset_id] = self._load_gram(dataset_id, manifest)
            positions, gram = self._grams[dataset_id]
            index = [positions[term] for term in (*design.terms, *design.targets)]
            block: IntArray = gram[index][:, index]
            return block
        total = len(design.terms) + len(design.targets)
        names = design.columns if manifest.subject is None else (*design.columns, _MARK)
        batches = _read_batches(self.root / dataset_id / _ROWS, names)
        filled = _fill_up(batches, names, _batch_rows(total), manifest.row_capacity)
        return compute_gram((row_map.apply(_code(part, design, count), design) for part, count in filled), total)

    def _load_gram(self, dataset_id: str, manifest: Manifest) -> "_CachedGram":
        terms = cached_design(manifest.cacheable).terms
        try:
            gram = np.load(self.root / dataset_id / _GRAM, allow_pickle=False)
        except _UNREADABLE:
            raise RowsUnreadable from None
        return {term: i for i, term in enumerate(terms)}, gram


def needs_pass(design: Design, row_map: RowMap) -> bool:
    """Tell whether a request needs a pass over rows: from declarations, never from the data."""
    return bool(design.omitting) or row_map.weighs_terms


def _stored_names(manifest: Manifest) -> list[str]:
    return [declaration.name for declaration in manifest.columns] + ([] if manifest.subject is None else [_MARK])


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
    staging: Path, manifest: Manifest, source: Path, sketcher: Sketcher, progress: Progress
) -> Snapshot:
    columns = [declaration.column for declaration in manifest.columns]
    design = cached_design(manifest.cacheable)
    names = _stored_names(manifest)
    digests, row_count, persons = _Digests(len(columns), names), 0, Persons(manifest.rows_per_person)
    gram = np.zeros((len(design.terms), len(design.terms)), dtype=np.int64)
    schema = pa.schema([pa.field(name, pa.int32()) for name in names])
    with pq.ParquetWriter(staging / _ROWS, schema, compression="zstd") as writer:
        for stored, count in _parse_chunks(manifest, columns, source, persons, sketcher, progress):
            row_count += count
            if row_count > manifest.row_capacity:
                raise IngestError(
                    f"{source}: more rows than the manifest's row_capacity of {manifest.row_capacity}; nothing was cut"
                )
            digests.update(stored)
            arrays = [pa.array(stored[name], mask=stored[name] == MISSING) for name in names]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            gram += compute_gram(_code_in_slices(stored, design, count), len(design.terms))
    if row_count == 0:
        raise IngestError(f"{source}: no rows below the header")
    np.save(staging / _GRAM, gram, allow_pickle=False)
    for path in staging.iterdir():
        path.chmod(0o600)
        sync(path)
    sync(staging)
    with source.open("rb") as file:
        source_digest = hashlib.file_digest(file, "sha256").hexdigest()
    person_count = row_count if manifest.subject is None else persons.count
    return Snapshot(person_count, row_count, source_digest, digests.values, digests.lattice, sketcher.finish(), gram)


class Persons:
    """Who had how many rows so far, within one registration.

    Which of a person's rows count is decided by their order in the file alone, whatever other persons' rows are there.

    Parameters
    ----------
    rows_max : int
        Most rows of one person that count: the first ones.
    """

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._seen: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many persons there are."""
        return len(self._seen)

    def mark(self, subjects: Sequence[str]) -> StoredArray:
        """Return 1 for each row that counts, 0 for one beyond its person's share."""
        marks = np.zeros(len(subjects), dtype=np.int32)
        for i, subject in enumerate(subjects):
            before = self._seen.get(subject, 0)
            self._seen[subject] = before + 1
            marks[i] = before < self._rows_max
        return marks


def _parse_chunks(
    manifest: Manifest,
    columns: Sequence[Column],
    source: Path,
    persons: Persons,
    sketcher: Sketcher,
    progress: Progress,
) -> Iterator[tuple[dict[str, StoredArray], int]]:
    names = [*([] if manifest.subject is None else [manifest.subject]), *(column.name for column in columns)]

    def parse(rows: list[list[str]], lines: list[int]) -> tuple[dict[str, StoredArray], int]:
        stored, values = _parse_columns(columns, names, rows, lines, source)
        if manifest.subject is None:
            sketcher.add(values)
        else:
            subjects = _parse_subjects(manifest.subject, names, rows, lines, source)
            stored[_MARK] = persons.mark(subjects)
            sketcher.add(values, code_words(subjects))
        return stored, len(rows)

    try:
        with _open_source(source) as binary:
            size = max(os.fstat(binary.fileno()).st_size, 1)
            text = open(binary.fileno(), encoding="utf-8-sig", newline="", closefd=False)  # noqa: SIM115 -- of `binary`
            reader = csv.reader(_read_lines(text, source), strict=True)
            header = _check_header(names, next(reader, None), source)
            positions = [header.index(name) for name in names]
            rows: list[list[str]] = []
            lines: list[int] = []
            held = 0
            start = reader.line_num + 1
            for row in reader:
                if reader.line_num != start:
                    raise IngestError(
                        f"{source}, line {start}: a field goes on beyond the end of its line. One row is one line: a "
                        "quote that is not closed would swallow other rows. Close it, or leave out columns of free text"
                    )
                if row or len(header) == 1:  # a blank line is no row, unless the one field of a row is missing
                    fields = row or [""]
                    if len(fields) != len(header):
                        raise IngestError(
                            f"{source}, line {start}: {len(fields)} fields where the header has {len(header)}"
                        )
                    rows.append([fields[position] for position in positions])
                    lines.append(start)
                    held += sum(map(len, rows[-1]))
                start = reader.line_num + 1
                if len(rows) == _CHUNK_ROWS or held > _CHUNK_CHARACTERS:
                    yield parse(rows, lines)
                    progress(os.lseek(binary.fileno(), 0, os.SEEK_CUR) / size)
                    rows, lines, held = [], [], 0
            if rows:
                yield parse(rows, lines)
            progress(1.0)
    except UnicodeDecodeError:
        raise IngestError(f"{source}: not UTF-8 text") from None
    except csv.Error as error:
        raise IngestError(f"{source}, line {reader.line_num}: {error}") from None


def _open_source(source: Path) -> BinaryIO:
    try:
        return open_regular(source)
    except ValueError as error:
        raise IngestError(f"{source}: {error}") from None


def _read_lines(text: TextIO, source: Path) -> Iterator[str]:
    number = 0
    while line := text.readline(_LINE_CHARACTERS_MAX + 1):
        number += 1
        if len(line) > _LINE_CHARACTERS_MAX:
            raise IngestError(f"{source}, line {number}: longer than {_LINE_CHARACTERS_MAX} characters; is it a table?")
        yield line


def _check_header(declared: Sequence[str], header: list[str] | None, source: Path) -> list[str]:
    if header is None:
        raise IngestError(f"{source}, line 1: the file is empty; it needs a header")
    names = [name.strip() for name in header]
    for name in declared:
        if names.count(name) != 1:
            found = "no column" if name not in names else "more than one column"
            raise IngestError(f"{source}, line 1: {found} {name!r}, which the manifest declares")
    return names


def _parse_columns(
    columns: Sequence[Column], header: Sequence[str], rows: list[list[str]], lines: list[int], source: Path
) -> tuple[dict[str, StoredArray], list[Values]]:
    stored, raw = {}, []
    for column in columns:
        position = header.index(column.name)
        words = pc.utf8_trim_whitespace(pa.array([row[position] for row in rows], pa.string()))
        values, codes, problem = _parse_words(column, words)
        if problem is None and column.missing is MissingRule.COMPLETE and (values == MISSING).any():
            problem = int(np.argmax(values == MISSING)), "is missing, and the manifest declares it complete"
        if problem is not None:
            index, reason = problem
            raise IngestError(f"{source}, line {lines[index]}, column {column.name!r}: the value {reason}")
        assert codes is not None
        stored[column.name] = values
        raw.append(codes)
    return stored, raw


def _parse_subjects(
    subject: str, header: Sequence[str], rows: list[list[str]], lines: list[int], source: Path
) -> list[str]:
    position = header.index(subject)
    words = [_fold(row[position]) for row in rows]
    if "" in words:
        line = lines[words.index("")]
        raise IngestError(f"{source}, line {line}, column {subject!r}: the subject is missing; whose row is it?")
    return words


def _fold(subject: str) -> str:
    """Return what look-alikes have in common: taking two persons for one is safe, taking one for two is not."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", subject).casefold())
    return "".join(c for c in folded if unicodedata.category(c) not in {"Cf", "Cc", "Zs", "Zl", "Zp"})


def _parse_words(column: Column, words: pa.StringArray) -> tuple[StoredArray, Values | None, tuple[int, str] | None]:
    """Return stored integers, what a sketch sees, and the first word that breaks the declaration, with the rule."""
    if column.type is ColumnType.NUMERIC:
        blank = pc.equal(words, "")
        filled = pc.if_else(blank, "nan", words)
        try:
            numbers = pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            index = next(i for i, word in enumerate(filled.to_pylist()) if not _is_number(word))
            return np.empty(0, np.int32), None, (index, "is not a number")
        if np.isinf(numbers).any():
            wrong = int(np.argmax(np.isinf(numbers))), "is not a number, but an infinity"
            return np.empty(0, np.int32), None, wrong
        return to_stored(numbers, column.lower, column.upper), code_numbers(numbers), None
    codes = {level: code for code, level in enumerate(column.levels)}
    if column.type is ColumnType.BOOLEAN and column.levels == ("false", "true"):
        codes, words = _BOOLEAN_WORDS, pc.utf8_lower(words)
    coded = np.array([codes.get(word, -1) if word else MISSING for word in words.to_pylist()], dtype=np.int32)
    if (coded == -1).any():
        wrong = int(np.argmax(coded == -1)), f"is not one of the declared levels {', '.join(column.levels)}"
        return coded, None, wrong
    return coded, code_levels(column.levels, coded), None


def _is_number(word: str) -> bool:
    with suppress(pa.ArrowInvalid):
        pc.cast(pa.array([word]), pa.float64())
        return True
    return False


def _batch_rows(width: int) -> int:
    return max(1, _BATCH_ENTRIES // max(width, 1))


def _code_in_slices(stored: dict[str, StoredArray], design: Design, count: int) -> Iterator[RowArray]:
    size = _batch_rows(len(design.terms))
    for start in range(0, count, size):
        part = {name: values[start : start + size] for name, values in stored.items()}
        yield _code(part, design, min(size, count - start))


def _fill_up(batches: Iterator[_Batch], names: Sequence[str], size: int, capacity: int) -> Iterator[_Batch]:
    """Cut stored rows into parts of public sizes, and add rows that do not count up to the row capacity.

    What coding, mapping and summing cost then follows from the declared capacity: neither the number of rows nor
    whether one more of them begins a part shows in their work.
    """
    batch, used = next(batches, None), 0
    for start in range(0, capacity, size):
        count, filled = min(size, capacity - start), 0
        part = {name: np.zeros(count, dtype=np.int32) for name in {*names, _MARK}}
        while batch is not None and filled < count:
            stored, rows = batch
            taken = min(count - filled, rows - used)
            for name in names:
                part[name][filled : filled + taken] = stored[name][used : used + taken]
            if _MARK not in names:
                part[_MARK][filled : filled + taken] = 1
            filled, used = filled + taken, used + taken
            if used == rows:
                batch, used = next(batches, None), 0
        yield part, count
    if batch is not None:
        raise ValueError("the stored rows are more than the declared capacity")


def _code(stored: Mapping[str, StoredArray], design: Design, count: int) -> RowArray:
    """Code stored rows; one beyond its person's share is all zeros, before any map sees it."""
    rows = code_rows(stored, design, count)
    if _MARK in stored:
        rows *= (stored[_MARK] == 1)[:, None]  # the same work for any number of them
    return rows


def _read_batches(path: Path, columns: Sequence[str]) -> Iterator[_Batch]:
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
