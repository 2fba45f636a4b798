"""The stored lattice: the only module that reads raw rows.

A dataset is a folder with ``rows.parquet`` (int32 per column, null where a value is missing; where the manifest
declares a subject also a mark, 1 for a row that counts) and ``gram.npy`` (the exact box Gram of the terms declared
without ``omit``). It is written once, under a temporary name, and renamed when
it is whole.
"""

import csv
import hashlib
import os
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curator_service.datasets.manifest import Manifest
from curator_service.files import open_regular, sync
from curator_service.privacy.design import Column, ColumnType, Design, MissingRule, Term, cached_design, code_rows
from curator_service.privacy.lattice import MISSING, IntArray, RowArray, StoredArray, to_stored
from curator_service.privacy.rows import Box, RowMap
from curator_service.privacy.statistics import compute_gram

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
_Batch = tuple[dict[str, StoredArray], int]
_CachedGram = tuple[dict[Term, int], IntArray]


class IngestError(ValueError):
    """The file breaks the manifest; the message names file, line and column, for the admin, and shows no value."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was written: where, of how many persons, and digests that never leave the curator.

    Attributes
    ----------
    path : Path
        The temporary folder; `Storage.publish` gives it its name.
    person_count : int
        Number of rows; of subjects, where the manifest declares one.
    source_digest, values_digest, lattice_digest : str
        SHA-256 of the file's bytes, of the stored values, and of all that is stored, marks included.
    """

    path: Path
    person_count: int
    source_digest: str
    values_digest: str
    lattice_digest: str


class Storage:
    """Datasets under one folder.

    Parameters
    ----------
    root : Path
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._grams: dict[str, _CachedGram] = {}  # small, immutable, one per dataset that was asked

    def ingest(
        self, dataset_id: str, manifest: Manifest, source: Path, progress: Progress = lambda _: None
    ) -> Snapshot:
        """Check a CSV file against its manifest and write its lattice.

        Memory does not grow with the rows; where a subject is declared, it grows with the persons.

        Parameters
        ----------
        dataset_id : str
        manifest : Manifest
        source : Path
            UTF-8, with a header that names at least the declared columns; others are not read.
        progress : callable
            Called with the share of the file that was read.

        Raises
        ------
        IngestError
            Nothing stays behind.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        staging = self.root / f".incoming-{dataset_id}"
        staging.mkdir(mode=0o700)
        try:
            return _write_snapshot(staging, manifest, source, progress)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise

    def publish(self, dataset_id: str, snapshot: Snapshot) -> None:
        """Give a whole snapshot its name, durably."""
        snapshot.path.rename(self.root / dataset_id)
        sync(self.root)

    def has_rows(self) -> bool:
        """Tell whether any dataset is stored here."""
        return self.root.is_dir() and any(path.name.startswith("ds_") for path in self.root.iterdir())

    def files(self, dataset_id: str) -> list[Path]:
        """Return the files of a dataset."""
        return sorted((self.root / dataset_id).iterdir())

    def discard(self, dataset_id: str) -> None:
        """Remove what a failed registration left."""
        for path in (self.root / dataset_id, self.root / f".incoming-{dataset_id}"):
            shutil.rmtree(path, ignore_errors=True)

    def compute_gram(self, dataset_id: str, manifest: Manifest, design: Design, row_map: RowMap) -> IntArray:
        """Compute the exact Gram of (terms, targets): a block of the cached one, or a pass over rows.

        Parameters
        ----------
        dataset_id : str
        manifest : Manifest
        design : Design
        row_map : RowMap

        Returns
        -------
        ndarray of int64, shape (terms + targets, terms + targets)
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
        batches = _read_batches(self.root / dataset_id / "rows.parquet", names)
        filled = _fill_up(batches, names, _batch_rows(total), manifest.row_capacity)
        return compute_gram((row_map.apply(_code(part, design, count), design) for part, count in filled), total)

    def _load_gram(self, dataset_id: str, manifest: Manifest) -> "_CachedGram":
        terms = cached_design(manifest.cacheable).terms
        gram = np.load(self.root / dataset_id / "gram.npy", allow_pickle=False)
        return {term: i for i, term in enumerate(terms)}, gram


def needs_pass(design: Design, row_map: RowMap) -> bool:
    """Tell whether a request needs a pass over rows: from declarations, never from the data."""
    return bool(design.omitting) or not isinstance(row_map, Box)


def _write_snapshot(staging: Path, manifest: Manifest, source: Path, progress: Progress) -> Snapshot:
    columns = [declaration.column for declaration in manifest.columns]
    design = cached_design(manifest.cacheable)
    # One digest per column, so that it does not depend on where chunks are cut.
    names = [column.name for column in columns] + ([] if manifest.subject is None else [_MARK])
    digests, row_count, persons = [hashlib.sha256() for _ in names], 0, Persons(manifest.rows_per_person)
    gram = np.zeros((len(design.terms), len(design.terms)), dtype=np.int64)
    schema = pa.schema([pa.field(name, pa.int32()) for name in names])
    with pq.ParquetWriter(staging / "rows.parquet", schema, compression="zstd") as writer:
        for stored, count in _parse_chunks(manifest, columns, source, persons, progress):
            row_count += count
            if row_count > manifest.row_capacity:
                raise IngestError(
                    f"{source}: more rows than the manifest's row_capacity of {manifest.row_capacity}; nothing was cut"
                )
            for name, digest in zip(names, digests, strict=True):
                digest.update(stored[name].tobytes())
            arrays = [pa.array(stored[name], mask=stored[name] == MISSING) for name in names]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            gram += compute_gram(_code_in_slices(stored, design, count), len(design.terms))
    if row_count == 0:
        raise IngestError(f"{source}: no rows below the header")
    np.save(staging / "gram.npy", gram, allow_pickle=False)
    for path in staging.iterdir():
        path.chmod(0o600)
        sync(path)
    sync(staging)
    with source.open("rb") as file:
        source_digest = hashlib.file_digest(file, "sha256").hexdigest()
    # The same rows under another rule of which count, or with columns in another order or under other names, are still
    # the same rows: one digest leaves out the marks, the names and the order.
    values_digest, lattice_digest = (
        hashlib.sha256(b"".join(part)).hexdigest()
        for part in (sorted(d.digest() for d in digests[: len(columns)]), [d.digest() for d in digests])
    )
    person_count = row_count if manifest.subject is None else persons.count
    return Snapshot(staging, person_count, source_digest, values_digest, lattice_digest)


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
    manifest: Manifest, columns: Sequence[Column], source: Path, persons: Persons, progress: Progress
) -> Iterator[tuple[dict[str, StoredArray], int]]:
    names = [*([] if manifest.subject is None else [manifest.subject]), *(column.name for column in columns)]

    def parse(rows: list[list[str]], lines: list[int]) -> tuple[dict[str, StoredArray], int]:
        stored = _parse_columns(columns, names, rows, lines, source)
        if manifest.subject is not None:
            stored[_MARK] = persons.mark(_parse_subjects(manifest.subject, names, rows, lines, source))
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
) -> dict[str, StoredArray]:
    stored = {}
    for column in columns:
        position = header.index(column.name)
        words = pc.utf8_trim_whitespace(pa.array([row[position] for row in rows], pa.string()))
        values, problem = _parse_words(column, words)
        if problem is None and column.missing is MissingRule.COMPLETE and (values == MISSING).any():
            problem = int(np.argmax(values == MISSING)), "is missing, and the manifest declares it complete"
        if problem is not None:
            index, reason = problem
            raise IngestError(f"{source}, line {lines[index]}, column {column.name!r}: the value {reason}")
        stored[column.name] = values
    return stored


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


def _parse_words(column: Column, words: pa.StringArray) -> tuple[StoredArray, tuple[int, str] | None]:
    """Return stored integers and the first word that breaks the declaration, with the rule."""
    if column.type is ColumnType.NUMERIC:
        blank = pc.equal(words, "")
        filled = pc.if_else(blank, "nan", words)
        try:
            numbers = pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            index = next(i for i, word in enumerate(filled.to_pylist()) if not _is_number(word))
            return np.empty(0, np.int32), (index, "is not a number")
        if np.isinf(numbers).any():
            return np.empty(0, np.int32), (int(np.argmax(np.isinf(numbers))), "is not a number, but an infinity")
        return to_stored(numbers, column.lower, column.upper), None
    codes = {level: code for code, level in enumerate(column.levels)}
    if column.type is ColumnType.BOOLEAN and column.levels == ("false", "true"):
        codes, words = _BOOLEAN_WORDS, pc.utf8_lower(words)
    coded = np.array([codes.get(word, -1) if word else MISSING for word in words.to_pylist()], dtype=np.int32)
    if (coded == -1).any():
        return coded, (int(np.argmax(coded == -1)), f"is not one of the declared levels {', '.join(column.levels)}")
    return coded, None


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
