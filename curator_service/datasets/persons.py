"""Which rows of a person count: a rule of that person's rows alone, whatever their order in the source.

Of each person those rows count that come first by a declared column, or by a hash of the stored row where none is
declared or two are equal. The hash is public and has no key: it picks rows as if at random, and the same ones wherever
they are read. Different rows with one hash can be made up, so a digest of the row decides between these.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curator_service.datasets.pseudonyms import SIZE, PseudonymArray
from curator_service.privacy.lattice import MISSING, IntArray, StoredArray

_Hashes = npt.NDArray[np.uint64]
_LAST = 2**40
"""Where a row stands that misses the value by which it is ordered: behind all others."""
_PENDING_MIN = 2**18


class Persons:
    """The rows that may count of each person, within one registration; memory grows with persons, not with rows.

    Parameters
    ----------
    rows_max : int
        Most rows of one person that count.
    keep_by : str, optional
        A column, behind a minus sign for the highest values first.
    """

    def __init__(self, rows_max: int, keep_by: str | None = None) -> None:
        self._rows_max, self._keep_by = rows_max, keep_by
        self._ids: dict[str | bytes, int] = {}
        self._kept: list[tuple[IntArray, IntArray, _Hashes, _Hashes, IntArray]] = []
        self._pending, self._held, self._rows = 0, 0, 0

    @property
    def count(self) -> int:
        """How many persons there are."""
        return len(self._ids)

    def add(self, subjects: Sequence[str] | PseudonymArray, stored: Mapping[str, StoredArray]) -> None:
        """Take in the next rows.

        Parameters
        ----------
        subjects : sequence of str, or ndarray of void
            Whose row each is: identifiers, or pseudonyms.
        stored : mapping of str to ndarray of int32
            Stored integers of every declared column.
        """
        encoded = to_arrow(subjects).dictionary_encode()
        ids = np.array([self._ids.setdefault(who, len(self._ids)) for who in encoded.dictionary.to_pylist()], np.int64)
        persons = ids[encoded.indices.to_numpy(zero_copy_only=False)]
        rows = np.arange(self._rows, self._rows + len(persons))
        count = len(persons)
        self._kept.append(
            (persons, self._order(stored, count), hash_rows(stored, count), digest_rows(stored, count), rows)
        )
        self._rows += len(persons)
        self._pending += len(persons)
        if self._pending > max(_PENDING_MIN, self._held):
            self._drop()

    def find_counted(self) -> IntArray:
        """Return the rows that count, in order: numbers from 0 in the order in which they were taken in."""
        if not self._kept:
            return np.empty(0, dtype=np.int64)
        self._drop()
        return np.sort(self._kept[0][-1])

    def _order(self, stored: Mapping[str, StoredArray], count: int) -> IntArray:
        if self._keep_by is None:
            return np.zeros(count, dtype=np.int64)
        values = stored[self._keep_by.removeprefix("-")]
        signed = values.astype(np.int64) * (-1 if self._keep_by.startswith("-") else 1)
        return np.where(values == MISSING, _LAST, signed)

    def _drop(self) -> None:
        """Forget the rows that cannot count, whatever follows."""
        persons, order, hashes, digests, rows = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        ranked = np.lexsort((rows, hashes, order, persons))
        one, other = ranked[:-1], ranked[1:]
        tied = (hashes[one] == hashes[other]) & (order[one] == order[other]) & (persons[one] == persons[other])
        if (digests[one[tied]] != digests[other[tied]]).any():
            ranked = np.lexsort((rows, digests[:, 0], digests[:, 1], hashes, order, persons))
        who, places = persons[ranked], np.arange(len(ranked))
        begins = np.concatenate(([True], who[1:] != who[:-1]))
        first = np.maximum.accumulate(np.where(begins, places, 0))
        kept = ranked[places - first < self._rows_max]
        self._kept = [(persons[kept], order[kept], hashes[kept], digests[kept], rows[kept])]
        self._pending, self._held = 0, len(kept)


def to_arrow(subjects: Sequence[str] | PseudonymArray) -> Any:
    """Return identifiers or pseudonyms as an array of Arrow's."""
    if not isinstance(subjects, np.ndarray):
        return pa.array(subjects, pa.string())
    content = pa.py_buffer(np.ascontiguousarray(subjects).tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(SIZE), len(subjects), [None, content])


def hash_rows(stored: Mapping[str, StoredArray], count: int) -> _Hashes:
    """Hash each row by itself: `mix` over its stored integers, columns in the order of their names."""
    hashes = np.zeros(count, dtype=np.uint64)
    for name in sorted(stored):
        hashes = mix(hashes + stored[name].view(np.uint32))
    return hashes


def mix(numbers: _Hashes) -> _Hashes:
    """Spread numbers over 64 bits: one step of splitmix64 [1]_.

    References
    ----------
    .. [1] G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def digest_rows(stored: Mapping[str, StoredArray], count: int) -> _Hashes:
    """Return 128 bits of BLAKE2b of each row, columns in the order of their names: those of different rows differ."""
    table = np.stack([stored[name] for name in sorted(stored)], axis=1).astype("<i4", copy=False)
    content, size = table.tobytes(), table.shape[1] * table.itemsize
    digests = (hashlib.blake2b(content[i : i + size], digest_size=16).digest() for i in range(0, count * size, size))
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)
