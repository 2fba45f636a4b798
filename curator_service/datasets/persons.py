"""Choice of the rows of a person that count: by that person's rows alone, whatever their order in the source.

Of each person those rows count that come first by a declared column, or by a hash of the stored row where none is
declared or two are equal. The hash is public and has no key: it picks rows as if at random, and the same ones wherever
they are read. Different rows with one hash can be made up, so a digest of the row decides between these.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from curator_service.datasets.batches import RowMarks
from curator_service.datasets.pseudonyms import SIZE, PseudonymArray
from curator_service.privacy.lattice import MISSING, IntArray, StoredArray

_Hashes = npt.NDArray[np.uint64]
ReadRows = Callable[[IntArray], Mapping[str, StoredArray]]
"""Returns the stored integers of some rows, in the order in which their numbers are given."""
_LAST = 2**40
"""Where a row stands that misses the value by which it is ordered: behind all others."""
_HASH, _ROW, _ORDER = 2, 3, 4
"""What is held of a row behind its pseudonym: hash, number and tag, place by the declared column if there is one."""
_WIDTH, _WIDTH_ORDERED = 4, 6
ROW_BYTES = 8 * _WIDTH_ORDERED
"""Of the file in which persons wait, for each row at most."""
_ROW_BITS = np.uint64(2**40 - 1)
"""Of the number of a row; its tag is above."""
_SHARES = 256
_HELD_ROWS = 2**18
"""Rows that wait in memory, and that are looked through at once."""


class Persons:
    """The rows that may count of each person, within one registration.

    Memory grows neither with rows nor with persons. Rows beyond a bound wait in a file without a name, encrypted under
    a key that this process alone has: when it ends, however it does, nothing is left to read. Pseudonyms are random
    numbers to whoever chooses identifiers, so that each 256th of them, a share, has about as many persons. Shares are
    looked through one after another.

    Parameters
    ----------
    rows_max : int
        Most rows of one person that count.
    keep_by : str, optional
        A column, behind a minus sign for the highest values first.
    folder : Path, optional
        Where rows wait; the system's folder of temporary files if not given.
    """

    def __init__(self, rows_max: int, keep_by: str | None = None, folder: Path | None = None) -> None:
        self._rows_max, self._keep_by = rows_max, keep_by
        self._nothing = np.empty((0, _WIDTH if keep_by is None else _WIDTH_ORDERED), np.uint64)
        self._waiting, self._sorted = self._nothing, self._nothing
        self._held, self._rows = 0, 0
        self._spill = _Spill(folder, self._nothing.shape[1])
        self._keys = np.frombuffer(secrets.token_bytes(8 * 4096), np.uint64)
        self.count = 0
        """How many persons there are; known when `find_counted` has returned."""

    def add(self, pseudonyms: PseudonymArray, stored: Mapping[str, StoredArray]) -> None:
        """Take in the next rows.

        Parameters
        ----------
        pseudonyms : ndarray of void
            Whose row each is.
        stored : mapping of str to ndarray of int32
            Stored integers of every declared column.
        """
        count = len(pseudonyms)
        if self._held + count >= len(self._waiting):
            self._make_room(count)
        rows = self._waiting[self._held : self._held + count]
        rows[:, :2] = pseudonyms.view(np.uint64).reshape(-1, 2)
        rows[:, _HASH] = hash_rows(stored, count)
        rows[:, _ROW] = self._tag(stored, count) & ~_ROW_BITS
        rows[:, _ROW] |= np.arange(self._rows, self._rows + count, dtype=np.uint64)
        if self._keep_by is not None:
            rows[:, _ORDER] = self._order(stored, self._keep_by)
        self._rows += count
        self._held += count
        if self._held > _HELD_ROWS:
            self._spill.add(*self._share_out(), self._waiting)

    def find_counted(self, read_rows: ReadRows | None = None) -> RowMarks:
        """Return which rows count, by their numbers from 0 in the order in which they were taken in.

        Parameters
        ----------
        read_rows : callable, optional
            Of rows that were taken in. Without it only the number of those that count is right, where different rows
            have one hash.
        """
        marks, self.count = RowMarks(self._rows), 0
        rows, bounds = self._share_out()
        self._waiting = self._nothing
        for share in range(_SHARES):
            kept, fresh, size = self._nothing, [self._nothing], 0
            for chunk in chain(self._spill.read(share), [rows[bounds[share] : bounds[share + 1]]]):
                fresh.append(chunk)
                size += len(chunk)
                if size > _HELD_ROWS:
                    kept, fresh, size = self._pick(np.concatenate([kept, *fresh]), read_rows), [], 0
            kept = self._pick(np.concatenate([kept, *fresh]), read_rows)
            self.count += int(np.count_nonzero(_find_persons(kept)))
            marks.set(_number(kept))
        self._spill.close()
        return marks

    def _make_room(self, count: int) -> None:
        """Make room for batches of so many rows, and for the block more that encryption asks for."""
        if self._held:
            self._spill.add(*self._share_out(), self._waiting)
        shape = (_HELD_ROWS + count + 1, self._nothing.shape[1])
        self._waiting, self._sorted = np.zeros(shape, np.uint64), np.empty(shape, np.uint64)

    def _share_out(self) -> tuple[_Hashes, IntArray]:
        """Return the rows that wait, those of one share together and in order, and where each share begins."""
        rows, self._held = self._waiting[: self._held], 0
        shares = (rows[:, 0] % _SHARES).astype(np.uint8)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(shares, minlength=_SHARES))])
        order = np.argsort(shares, kind="stable")
        return rows.take(order, axis=0, out=self._sorted[: len(rows)], mode="clip"), bounds

    def _order(self, stored: Mapping[str, StoredArray], keep_by: str) -> _Hashes:
        values = stored[keep_by.removeprefix("-")]
        signed = values.astype(np.int64) * (-1 if keep_by.startswith("-") else 1)
        places: _Hashes = np.where(values == MISSING, 2 * _LAST, signed + _LAST).astype(np.uint64)
        return places

    def _tag(self, stored: Mapping[str, StoredArray], count: int) -> _Hashes:
        """Return numbers that are equal for equal rows; for others first bits are with a probability below 2⁻²²."""
        tags = np.zeros(count, np.uint64)
        for name, key in zip(sorted(stored), np.resize(self._keys, len(stored)), strict=True):
            tags += stored[name].view(np.uint32) * key
        return tags

    def _pick(self, rows: _Hashes, read_rows: ReadRows | None) -> _Hashes:
        """Return the rows that may count, whatever follows, person after person."""
        rows = rows.take(np.argsort(rows[:, 0]), axis=0)
        begins = _find_persons(rows)
        if (begins[1:] != (rows[1:, 0] != rows[:-1, 0])).any():  # two persons have half a pseudonym in common
            rows = rows.take(np.lexsort((rows[:, 1], rows[:, 0])), axis=0)
            begins = _find_persons(rows)
        persons = np.cumsum(begins) - 1
        crowded = (np.bincount(persons) > self._rows_max)[persons]
        if not crowded.any():
            return rows
        kept = ~crowded
        kept[self._pick_crowded(rows, persons, np.flatnonzero(crowded), read_rows)] = True
        return rows.take(np.flatnonzero(kept), axis=0)

    def _pick_crowded(self, rows: _Hashes, persons: IntArray, places: IntArray, read_rows: ReadRows | None) -> IntArray:
        """Return where the rows are that count, of persons who have too many."""
        rows = rows.take(places, axis=0)
        whose = persons[places].astype(np.min_scalar_type(len(persons)))  # sorted in no time where these are short
        keys = [rows[:, _HASH], *(rows[:, _ORDER] for _ in range(self._keep_by is not None))]
        ranked = np.lexsort(keys) if len(keys) > 1 else np.argsort(keys[0])
        ranked = ranked[np.argsort(whose[ranked], kind="stable")]
        one, other = ranked[:-1], ranked[1:]
        tied = np.logical_and.reduce([key[one] == key[other] for key in (*keys, whose)])
        if tied.any():
            numbers, digests = _number(rows), np.zeros((len(rows), 2), np.uint64)
            different = tied & ((rows[one, _ROW] ^ rows[other, _ROW]) > _ROW_BITS)
            if read_rows is not None and different.any():
                read = np.flatnonzero(np.isin(whose, whose[one[different]]))
                digests[read] = digest_rows(read_rows(numbers[read]), len(read))
            ranked = np.lexsort((numbers, digests[:, 0], digests[:, 1], *keys, whose))
        begins = np.concatenate([[True], whose[ranked[1:]] != whose[ranked[:-1]]])
        at = np.arange(len(ranked))
        found: IntArray = places[ranked[at - np.maximum.accumulate(np.where(begins, at, 0)) < self._rows_max]]
        return found


def _number(rows: _Hashes) -> IntArray:
    """Return the numbers of rows."""
    numbers: IntArray = (rows[:, _ROW] & _ROW_BITS).astype(np.int64)
    return numbers


def _find_persons(rows: _Hashes) -> npt.NDArray[np.bool_]:
    """Return which rows are of another person than the row before."""
    begins = np.ones(len(rows), np.bool_)
    np.logical_or(rows[1:, 0] != rows[:-1, 0], rows[1:, 1] != rows[:-1, 1], out=begins[1:])
    return begins


class _Spill:
    """Rows in a file without a name, encrypted under a key that is nowhere else."""

    def __init__(self, folder: Path | None, width: int) -> None:
        self._width = width
        self._folder, self._key = folder, AES(secrets.token_bytes(16))
        self._file: IO[bytes] | None = None
        self._bounds: list[IntArray] = []

    def add(self, rows: _Hashes, bounds: IntArray, work: _Hashes) -> None:
        """Write rows, those of one share together; they are encrypted into `work`, which has a row more."""
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 -- it ends with this process
        start = self._bounds[-1][-1] if self._bounds else 0
        content = work.data.cast("B")[: self._start(start).update_into(rows.data.cast("B"), work.data.cast("B"))]
        while content:
            content = content[self._file.write(content) :]
        self._bounds.append(start + bounds)

    def read(self, share: int) -> Iterator[_Hashes]:
        """Yield the rows of a share, in order."""
        for bounds in self._bounds:
            assert self._file is not None
            start, count = bounds[share], bounds[share + 1] - bounds[share]
            self._file.seek(start * 8 * self._width)
            content = self._file.read(count * 8 * self._width)
            yield np.frombuffer(self._start(start).update(content), np.uint64).reshape(-1, self._width)

    def close(self) -> None:
        """Give up the file."""
        if self._file is not None:
            self._file.close()

    def _start(self, row: int) -> CipherContext:
        """Begin to encrypt or decrypt at a row: no two rows have the same place."""
        return Cipher(self._key, CTR((int(row) * self._width // 2).to_bytes(16))).encryptor()


def to_arrow(pseudonyms: PseudonymArray) -> pa.Array:
    """Return pseudonyms as an array of Arrow's."""
    content = pa.py_buffer(np.ascontiguousarray(pseudonyms).tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(SIZE), len(pseudonyms), [None, content])


def hash_rows(stored: Mapping[str, StoredArray], count: int) -> _Hashes:
    """Hash each row by itself: `mix` over its stored integers, columns in the order of their names."""
    hashes = np.zeros(count, dtype=np.uint64)
    for name in sorted(stored):
        hashes += stored[name].view(np.uint32)
        mix(hashes)
    return hashes


def mix(numbers: _Hashes) -> _Hashes:
    """Spread numbers over 64 bits, in place: one step of splitmix64 [1]_.

    References
    ----------
    .. [1] G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    shifted = np.empty_like(numbers)
    numbers += np.uint64(0x9E3779B97F4A7C15)
    numbers ^= np.right_shift(numbers, np.uint64(30), out=shifted)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= np.right_shift(numbers, np.uint64(27), out=shifted)
    numbers *= np.uint64(0x94D049BB133111EB)
    numbers ^= np.right_shift(numbers, np.uint64(31), out=shifted)
    return numbers


def digest_rows(stored: Mapping[str, StoredArray], count: int) -> _Hashes:
    """Return 128 bits of BLAKE2b of each row, columns in the order of their names: those of different rows differ."""
    table = np.stack([stored[name] for name in sorted(stored)], axis=1).astype("<i4", copy=False)
    content, size = table.tobytes(), table.shape[1] * table.itemsize
    digests = (hashlib.blake2b(content[i : i + size], digest_size=16).digest() for i in range(0, count * size, size))
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)
