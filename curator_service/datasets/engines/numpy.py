"""The engine in numpy: maps stored rows, and adds what they contribute."""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import iadd

import numpy as np

from curator_service.datasets.batches import MARK
from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.parts import StoredRows
from curator_service.privacy.design import Design, code_rows
from curator_service.privacy.lattice import MISSING, STORED_UNIT, IntArray, StoredArray
from curator_service.privacy.sums import compute_gram

_TILE_ENTRIES = 2**18
"""Rows × numbers of each that are mapped at once: two megabytes, which stay in a processor's cache."""
_TILE_ROWS_PER_NUMBER = 8
"""Least rows of a tile for each number of a row: what is added for each tile grows with the square of the numbers."""


def sum_rows(rows: StoredRows, kernel: RowKernel) -> IntArray:
    """Sum the contributions of rows, in work that follows from public numbers alone.

    Parameters
    ----------
    rows : StoredRows
        Filled up to their capacity: the work is that of so many rows, however many there are.
    kernel : RowKernel

    Returns
    -------
    ndarray of int64
        In the kernel's shape.

    Raises
    ------
    RowsUnreadable
    """
    check_null_rows(kernel)
    size = tile_rows(kernel.width)
    mapped = np.empty((min(size, rows.capacity), kernel.width), dtype=np.float64, order="F")

    def sums() -> Iterator[IntArray]:
        for tile, count in rows.tiles(kernel.columns, size):
            kernel.map(tile, tile[MARK] == 1, mapped[:count])
            yield kernel.sum(mapped[:count])

    return reduce(iadd, sums())


def check_null_rows(kernel: RowKernel) -> None:
    """Run a kernel on rows that do not count: it must find nothing in them, whatever they hold.

    Raises
    ------
    AssertionError
    """
    values = np.array([0, 1, -1, STORED_UNIT, -STORED_UNIT, MISSING], dtype=np.int32)
    rows = np.ones((len(values), kernel.width), dtype=np.float64, order="F")
    kernel.map(dict.fromkeys(kernel.columns, values), np.zeros(len(values), dtype=np.bool_), rows)
    if kernel.sum(rows).any():
        raise AssertionError("a kernel counts rows that do not count")


def sum_terms(stored: Mapping[str, StoredArray], design: Design, count: int) -> IntArray:
    """Sum zᵀz over the rows of a batch as they are, in slices whose memory does not grow with the terms."""
    size = tile_rows(len(design.terms))
    slices = (
        ({name: values[start : start + size] for name, values in stored.items()}, min(size, count - start))
        for start in range(0, count, size)
    )
    coded = (code_rows(tile, design, rows, tile[MARK] == 1 if MARK in tile else None) for tile, rows in slices)
    return compute_gram(coded, len(design.terms))


def tile_rows(width: int) -> int:
    """Return how many rows of so many numbers are mapped at once."""
    return max(1, _TILE_ENTRIES // max(width, 1), _TILE_ROWS_PER_NUMBER * width)
