"""Batches of stored rows: what sources yield, snapshots hold and engines read."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curator_service.datasets.pseudonyms import PseudonymArray
from curator_service.privacy.lattice import IntArray, StoredArray

MARK = "#counts"
"""The column that marks which rows count, where the manifest declares a subject. No declared name begins so."""


class RowMarks:
    """Marks of the rows that count: one bit of each."""

    def __init__(self, rows: int) -> None:
        self._bits = np.zeros(-(-rows // 8), np.uint8)

    def __len__(self) -> int:
        """Return how many rows count."""
        return int(np.bitwise_count(self._bits).sum(dtype=np.int64))

    def set(self, rows: IntArray) -> None:
        """Let rows count, by their numbers from 0."""
        places, bits = rows >> 3, (rows & 7).astype(np.uint8)
        for bit in range(8):
            self._bits[places[bits == bit]] |= np.uint8(1 << bit)

    def clear(self, rows: IntArray) -> None:
        """Let rows not count."""
        np.bitwise_and.at(self._bits, rows >> 3, ~(np.uint8(1) << (rows & 7).astype(np.uint8)))

    def read(self, start: int, count: int) -> npt.NDArray[np.uint8]:
        """Return 1 for each row that counts and 0 for each other, from a multiple of 8 on."""
        return np.unpackbits(self._bits[start // 8 : -(-(start + count) // 8)], count=count, bitorder="little")


Batch = tuple[dict[str, StoredArray], int]
"""Stored integers by column, and the number of rows."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Rows of a source, checked against a manifest.

    Attributes
    ----------
    stored : dict of str to ndarray of int32, shape (n,)
        Stored integers by declared column.
    subjects : pa.Array or None
        Whose row each is, folded so that look-alikes are equal; None where the manifest declares no subject.
    count : int
        n.
    pseudonyms : ndarray of void, shape (n,), or None
        Of the subjects; None where nobody knows whose rows they are.
    """

    stored: dict[str, StoredArray]
    subjects: pa.Array | None
    count: int
    pseudonyms: PseudonymArray | None = None
