"""Parts: rows as raw integers in files that never change, column after column, filled up to a public capacity.

A part is one file of little-endian int32 numbers: each column has `capacity` numbers, of which the first `rows` are of
rows and the others zeros; the last column marks which rows count. One file, for a pass over a thousand columns opens no
thousand files. Beside it is the exact Gram of its rows. Whatever a pass reads and computes follows from public numbers:
the bytes of rows that there are not are read like those of rows that there are.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from curator_service.datasets.batches import MARK, Batch, RowMarks
from curator_service.datasets.pseudonyms import SIZE, PseudonymArray
from curator_service.privacy.lattice import IntArray, StoredArray

_NUMBER = np.dtype("<i4")
_FILLED = 2**18


class RowsUnreadable(Exception):
    """The stored rows of a dataset are gone, or are not what was written."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part, as it is described beside its files.

    Attributes
    ----------
    id : str
        Begins the names of its files.
    rows, capacity : int
        Rows that there are, and numbers that each column has.
    columns : tuple of str
        In the order of the file; the marks are behind them.
    digests : tuple of tuple of str and str
        SHA-256 of the rows' numbers, column by column: of the declared columns, and of the marks where they say more
        than that every row counts.
    subjects : tuple of str and str, or None
        The key of the pseudonyms of its rows and their SHA-256; None where no subject was declared, or none was kept.
    """

    id: str
    rows: int
    capacity: int
    columns: tuple[str, ...]
    digests: tuple[tuple[str, str], ...] = field(repr=False)
    subjects: tuple[str, str] | None = field(default=None, repr=False)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Read what `describe` wrote.

        Raises
        ------
        ValueError, KeyError, TypeError
        """
        numbers = {name: int(content[name]) for name in ("rows", "capacity")}
        if not 0 <= numbers["rows"] <= numbers["capacity"] or os.sep in content["id"]:
            raise ValueError("no part")
        digests = tuple((str(name), str(digest)) for name, digest in content["digests"])
        columns = tuple(map(str, content["columns"]))
        subjects = None
        if content.get("subjects") is not None:
            key_id, digest = content["subjects"]
            subjects = str(key_id), str(digest)
        return cls(str(content["id"]), **numbers, columns=columns, digests=digests, subjects=subjects)

    def describe(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "id": self.id,
            "rows": self.rows,
            "capacity": self.capacity,
            "columns": list(self.columns),
            "digests": [list(pair) for pair in self.digests],
            "subjects": None if self.subjects is None else list(self.subjects),
        }

    @property
    def lattice_digest(self) -> str:
        """SHA-256 of all that is stored."""
        return join_digests(digest for _, digest in self.digests)

    @property
    def values_digest(self) -> str:
        """SHA-256 of the values, whatever their names, the order of columns and the marks."""
        return join_digests(sorted(digest for name, digest in self.digests if name != MARK))

    @property
    def size(self) -> int:
        """Bytes of the file of rows."""
        return stored_bytes(len(self.columns), self.capacity)

    def places(self, names: Iterable[str]) -> dict[str, int]:
        """Return where the numbers of each column begin, in numbers.

        Raises
        ------
        ValueError
            If it has no such column.
        """
        stored = (*self.columns, MARK)
        return {name: stored.index(name) * self.capacity for name in names}

    def rows_path(self, folder: Path) -> Path:
        """Return where its rows are."""
        return folder / f"{self.id}.rows"

    def gram_path(self, folder: Path) -> Path:
        """Return where its Gram is."""
        return folder / f"{self.id}.gram.npy"

    def subjects_path(self, folder: Path) -> Path:
        """Return where the pseudonyms of its rows are, 16 bytes each."""
        return folder / f"{self.id}.subjects"

    def has_files(self, folder: Path) -> bool:
        """Tell whether its files are there, and its rows have their size."""
        try:
            is_whole = os.stat(self.rows_path(folder)).st_size == self.size and self.gram_path(folder).is_file()
            return is_whole and (
                self.subjects is None or os.stat(self.subjects_path(folder)).st_size == SIZE * self.rows
            )
        except OSError:
            return False

    def read_subjects(self, folder: Path) -> PseudonymArray:
        """Return the pseudonym of each row.

        Raises
        ------
        RowsUnreadable
        """
        try:
            found = np.fromfile(self.subjects_path(folder), dtype=f"V{SIZE}")
        except OSError:
            raise RowsUnreadable from None
        if self.subjects is None or hashlib.sha256(found.tobytes()).hexdigest() != self.subjects[1]:
            raise RowsUnreadable
        return found

    def overwrite(self, folder: Path, column: str, row: int, numbers: StoredArray) -> None:
        """Put other numbers in the place of stored ones: digests and Gram are then those of what was there."""
        with self.rows_path(folder).open("r+b") as file:
            file.seek((self.places([column])[column] + row) * _NUMBER.itemsize)
            file.write(np.asarray(numbers, dtype=_NUMBER).tobytes())

    def read_gram(self, folder: Path) -> IntArray:
        """Return the exact Gram of its rows, of the terms whose Gram is kept.

        Raises
        ------
        RowsUnreadable
        """
        try:
            with self.gram_path(folder).open("rb") as file:  # `np.load` would take it for an archive, too
                gram: IntArray = np.lib.format.read_array(file, allow_pickle=False)
        except (OSError, ValueError, EOFError, MemoryError):
            raise RowsUnreadable from None
        if gram.dtype != np.int64:
            raise RowsUnreadable
        return gram


def stored_bytes(columns: int, capacity: int) -> int:
    """Return how many bytes rows of so many columns take, and their marks."""
    return (columns + 1) * capacity * _NUMBER.itemsize


def join_digests(digests: Iterable[str]) -> str:
    """Return SHA-256 of digests one after another."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()


class PartWriter:
    """Writes the rows of a new part, batch by batch.

    Parameters
    ----------
    columns : sequence of str
        The declared columns, in order.
    """

    def __init__(self, folder: Path, part_id: str, columns: Sequence[str], capacity: int) -> None:
        self._path = folder / f"{part_id}.rows"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._id, self._columns, self._capacity = part_id, tuple(columns), capacity
        self._digests = {name: hashlib.sha256() for name in columns}
        self._subjects_path = folder / f"{part_id}.subjects"
        self._subjects: tuple[BinaryIO, str, Any] | None = None
        self.rows = 0

    def add(self, stored: Mapping[str, StoredArray], count: int) -> None:
        """Write rows behind those that were written.

        Raises
        ------
        ValueError
            If they are more than the capacity.
        """
        if self.rows + count > self._capacity:
            raise ValueError("more rows than the capacity")
        for j, name in enumerate(self._columns):
            self._write(stored[name], j, self.rows)
            self._digests[name].update(np.ascontiguousarray(stored[name]).data)
        self.rows += count

    def add_subjects(self, key_id: str, pseudonyms: PseudonymArray) -> None:
        """Write whose the rows are, in their order."""
        if self._subjects is None:
            descriptor = os.open(self._subjects_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._subjects = os.fdopen(descriptor, "wb"), key_id, hashlib.sha256()
        file, _, digest = self._subjects
        content = pseudonyms.tobytes()
        file.write(content)
        digest.update(content)

    def _write(self, numbers: StoredArray, column: int, row: int) -> None:
        content = np.ascontiguousarray(numbers, dtype=_NUMBER).view(np.uint8).data
        place = (column * self._capacity + row) * _NUMBER.itemsize
        while content:
            written = os.pwrite(self._descriptor, content, place)
            content, place = content[written:], place + written

    def read(self, rows: IntArray) -> dict[str, StoredArray]:
        """Return the numbers of rows that were written, one by one: of few."""
        found = {name: np.empty(len(rows), _NUMBER) for name in self._columns}
        for j, numbers in enumerate(found.values()):
            for i, row in enumerate(rows.tolist()):
                _read(self._descriptor, numbers[i : i + 1], j * self._capacity + row)
        return found

    def finish(self, counted: RowMarks | None = None) -> Part:
        """Mark rows, fill columns up to the capacity with zeros, written and not skipped, and make all of it durable.

        Parameters
        ----------
        counted : RowMarks, optional
            The rows that count; all of them, if they are not given.
        """
        last = len(self._columns)
        for start in range(0, self._capacity, _FILLED):
            marks = np.zeros(min(_FILLED, self._capacity - start), dtype=_NUMBER)
            rows = max(min(len(marks), self.rows - start), 0)
            if counted is None:
                marks[:rows] = 1
            else:
                marks[:rows] = counted.read(start, rows)
                self._digests.setdefault(MARK, hashlib.sha256()).update(marks[:rows].data)
            self._write(marks, last, start)
        zeros = np.zeros(_FILLED, dtype=_NUMBER)
        for j, start in product(range(last), range(self.rows, self._capacity, _FILLED)):
            self._write(zeros[: self._capacity - start], j, start)
        os.fsync(self._descriptor)
        digests = tuple((name, digest.hexdigest()) for name, digest in self._digests.items())
        subjects = None
        if self._subjects is not None:
            file, key_id, digest = self._subjects
            file.flush()
            os.fsync(file.fileno())
            subjects = key_id, digest.hexdigest()
        return Part(self._id, self.rows, self._capacity, self._columns, digests, subjects)

    def close(self) -> None:
        """Close its files."""
        os.close(self._descriptor)
        if self._subjects is not None:
            self._subjects[0].close()


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of all parts of a dataset one after another, and as many null rows as its capacity has room for.

    Attributes
    ----------
    folder : Path
    parts : tuple of Part
    capacity : int
        Rows that a pass works through. The last part has at least as many as the others leave.
    """

    folder: Path
    parts: tuple[Part, ...]
    capacity: int

    def tiles(self, names: Sequence[str], size: int, start: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """Yield rows in tiles of a public size: the columns that were named, and the marks.

        Arrays are used again for the next tile. Reading instead of mapping: a bad disk is an exception then, and not
        the end of the process.

        Parameters
        ----------
        size : int
            Rows of a tile.
        start, stop : int
            Which of the rows, the null rows counted.

        Raises
        ------
        RowsUnreadable
        """
        stop = self.capacity if stop is None else stop
        every = (*dict.fromkeys(names), MARK)
        buffers = {name: np.empty(size, dtype=_NUMBER) for name in every}
        opened: list[int] = []
        try:
            for part in self.parts:
                opened.append(os.open(part.rows_path(self.folder), os.O_RDONLY | os.O_CLOEXEC))
            places = [
                {name: (*part.columns, MARK).index(name) * part.capacity for name in every} for part in self.parts
            ]
            for first in range(start, stop, size):
                count = min(size, stop - first)
                cuts = list(self._cut(first, count))
                for name, buffer in buffers.items():
                    for descriptor, place, (part_row, row, rows) in zip(opened, places, cuts, strict=True):
                        _read(descriptor, buffer[row : row + rows], place[name] + part_row)
                yield {name: buffer[:count] for name, buffer in buffers.items()}, count
        except (OSError, ValueError):
            raise RowsUnreadable from None
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _cut(self, first: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Yield of each part from which of its rows on, to which row of the tile, how many: perhaps none."""
        begin = 0
        for k, part in enumerate(self.parts):
            end = self.capacity if k == len(self.parts) - 1 else begin + part.rows
            low, high = max(first, begin), min(first + count, end)
            rows = max(high - low, 0)
            yield (low - begin, low - first, rows) if rows else (0, 0, 0)
            begin = end


def _read(descriptor: int, numbers: StoredArray, place: int) -> None:
    content, place = numbers.view(np.uint8).data, place * _NUMBER.itemsize
    while content:
        read = os.preadv(descriptor, [content], place)
        if read == 0:
            raise ValueError("the file ends too early")
        content, place = content[read:], place + read
