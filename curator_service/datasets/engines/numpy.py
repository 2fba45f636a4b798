"""The engine in numpy: maps stored rows, and adds what they contribute."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add

import numpy as np

from curator_service.datasets.batches import MARK, Batch
from curator_service.datasets.engines.base import RowKernel
from curator_service.privacy.design import Design, code_rows
from curator_service.privacy.lattice import IntArray, RowArray, StoredArray
from curator_service.privacy.sums import compute_gram

_BATCH_ENTRIES = 2**20
"""Rows × numbers of each that are mapped at once: a wide request takes more batches, not more memory."""


def sum_rows(batches: Iterator[Batch], names: Sequence[str], kernel: RowKernel, row_capacity: int) -> IntArray:
    """Sum the contributions of rows, in work that follows from public numbers alone.

    Parameters
    ----------
    batches : iterator of Batch
        Stored rows.
    names : sequence of str
        The columns that they have.
    kernel : RowKernel
    row_capacity : int
        The work is that of so many rows, however many there are.

    Returns
    -------
    ndarray of int64
        In the kernel's shape.
    """
    parts = fill_up(batches, names, batch_rows(kernel.width), row_capacity)
    return reduce(add, (kernel.sum(_count(kernel.map(part, rows), part)) for part, rows in parts))


def sum_terms(stored: dict[str, StoredArray], design: Design, count: int) -> IntArray:
    """Sum zᵀz over the rows of a batch as they are, in slices whose memory does not grow with the terms."""
    size = batch_rows(len(design.terms))
    slices = (
        ({name: values[start : start + size] for name, values in stored.items()}, min(size, count - start))
        for start in range(0, count, size)
    )
    return compute_gram((_count(code_rows(part, design, rows), part) for part, rows in slices), len(design.terms))


def batch_rows(width: int) -> int:
    """Return how many rows of so many numbers are mapped at once."""
    return max(1, _BATCH_ENTRIES // max(width, 1))


def fill_up(batches: Iterator[Batch], names: Sequence[str], size: int, capacity: int) -> Iterator[Batch]:
    """Cut stored rows into parts of public sizes, and add rows that do not count up to the row capacity.

    What coding, mapping and summing cost then follows from the declared capacity: neither the number of rows nor
    whether one more of them begins a part shows in their work.
    """
    batch, used = next(batches, None), 0
    for start in range(0, capacity, size):
        count, filled = min(size, capacity - start), 0
        part = {name: np.zeros(count, dtype=np.int32) for name in {*names, MARK}}
        while batch is not None and filled < count:
            stored, rows = batch
            taken = min(count - filled, rows - used)
            for name in names:
                part[name][filled : filled + taken] = stored[name][used : used + taken]
            if MARK not in names:
                part[MARK][filled : filled + taken] = 1
            filled, used = filled + taken, used + taken
            if used == rows:
                batch, used = next(batches, None), 0
        yield part, count
    if batch is not None:
        raise ValueError("the stored rows are more than the declared capacity")


def _count(rows: RowArray, stored: Mapping[str, StoredArray]) -> RowArray:
    """Make rows that do not count zeros, which contribute nothing: those beyond a person's share, and those added."""
    if MARK in stored:
        rows *= (stored[MARK] == 1)[:, None]  # the same work for any number of them
    return rows
