"""The engine in numpy: maps stored rows, and adds what they contribute."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from operator import iadd

import numpy as np

from curator_service.datasets.batches import MARK
from curator_service.datasets.engines.base import RowKernel, cut_rows
from curator_service.datasets.parts import StoredRows
from curator_service.privacy.design import Design, code_rows
from curator_service.privacy.lattice import MISSING, STORED_UNIT, IntArray, StoredArray
from curator_service.privacy.sums import compute_gram

_TILE_ENTRIES = 2**18
"""Rows × numbers of each that are mapped at once: two megabytes, which stay in a processor's cache."""
_TILE_ROWS_PER_NUMBER = 8
"""Least rows of a tile for each number of a row: what is added for each tile grows with the square of the numbers."""


class NumpyEngine:
    """The engine of this process.

    Parameters
    ----------
    threads : int
        Of one pass, each with a range of rows: numpy works outside of the interpreter's lock.
    """

    name, is_here = "numpy", True

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def sum(self, kernel: RowKernel, rows: StoredRows) -> IntArray:
        """Sum the contributions of rows: see `Engine`."""
        check_null_rows(kernel)
        if self._threads == 1:
            return sum_range(kernel, rows, 0, rows.capacity)
        with ThreadPoolExecutor(self._threads) as pool:
            ranges = zip(*cut_rows(rows.capacity, self._threads), strict=True)
            return reduce(iadd, pool.map(partial(sum_range, kernel, rows), *ranges))

    def close(self) -> None:
        """Do nothing: threads end with their pass."""


def sum_range(kernel: RowKernel, rows: StoredRows, start: int, stop: int) -> IntArray:
    """Sum the contributions of a range of rows, tile by tile.

    Parameters
    ----------
    kernel : RowKernel
        Whose null rows were checked.
    start, stop : int
        Public; at least one row.

    Raises
    ------
    RowsUnreadable
    """
    size = min(tile_rows(kernel.width), stop - start)
    mapped = np.empty((size, kernel.width), dtype=np.float64, order="F")

    def sums() -> Iterator[IntArray]:
        for tile, count in rows.tiles(kernel.columns, size, start, stop):
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
