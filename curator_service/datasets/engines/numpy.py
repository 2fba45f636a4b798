"""The engine in numpy: maps stored rows, and adds what they contribute."""

from collections.abc import Mapping
from functools import reduce
from operator import iadd

from curator_service.datasets.batches import MARK
from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.parts import StoredRows
from curator_service.privacy.design import Design, code_rows
from curator_service.privacy.lattice import IntArray, RowArray, StoredArray
from curator_service.privacy.sums import compute_gram

_TILE_ENTRIES = 2**17
"""Rows × numbers of each that are mapped at once: a megabyte, which stays in a processor's cache."""
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
    tiles = rows.tiles(kernel.columns, tile_rows(kernel.width))
    return reduce(iadd, (kernel.sum(_count(kernel.map(tile, count), tile)) for tile, count in tiles))


def sum_terms(stored: Mapping[str, StoredArray], design: Design, count: int) -> IntArray:
    """Sum zᵀz over the rows of a batch as they are, in slices whose memory does not grow with the terms."""
    size = tile_rows(len(design.terms))
    slices = (
        ({name: values[start : start + size] for name, values in stored.items()}, min(size, count - start))
        for start in range(0, count, size)
    )
    return compute_gram((_count(code_rows(tile, design, rows), tile) for tile, rows in slices), len(design.terms))


def tile_rows(width: int) -> int:
    """Return how many rows of so many numbers are mapped at once."""
    return max(1, _TILE_ENTRIES // max(width, 1), _TILE_ROWS_PER_NUMBER * width)


def _count(rows: RowArray, stored: Mapping[str, StoredArray]) -> RowArray:
    """Make rows that do not count zeros, which contribute nothing: those beyond a person's share, and null rows."""
    if MARK in stored:
        rows *= (stored[MARK] == 1).astype(rows.dtype)[:, None]  # the same work for any number of them
    return rows
