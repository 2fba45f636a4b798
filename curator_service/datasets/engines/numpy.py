"""The engine in numpy: codes stored rows, maps them, and adds their products."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from curator_service.datasets.batches import MARK, Batch
from curator_service.kinds.gram.kernel import compute_gram
from curator_service.privacy.design import Design, code_rows
from curator_service.privacy.lattice import IntArray, RowArray, StoredArray
from curator_service.privacy.row_maps import RowMap

_BATCH_ENTRIES = 2**20
"""Rows × terms that are coded at once: a wide request takes more batches, not more memory."""


def needs_pass(design: Design, row_map: RowMap) -> bool:
    """Tell whether a request needs a pass over rows: from declarations, never from the data."""
    return bool(design.omitting) or row_map.weighs_terms


def sum_products(
    batches: Iterator[Batch], names: Sequence[str], design: Design, row_map: RowMap, row_capacity: int
) -> IntArray:
    """Sum zᵀz over mapped rows z of terms and targets, in work that follows from public numbers alone.

    Parameters
    ----------
    batches : iterator of Batch
        Stored rows.
    names : sequence of str
        The columns that they have.
    design : Design
    row_map : RowMap
    row_capacity : int
        The work is that of so many rows, however many there are.

    Returns
    -------
    ndarray of int64, shape (terms + targets, terms + targets)
    """
    total = len(design.terms) + len(design.targets)
    filled = fill_up(batches, names, batch_rows(total), row_capacity)
    return compute_gram((row_map.apply(_code(part, design, count), design) for part, count in filled), total)


def sum_terms(stored: dict[str, StoredArray], design: Design, count: int) -> IntArray:
    """Sum zᵀz over the rows of a batch as they are, in slices whose memory does not grow with the terms."""
    return compute_gram(_code_in_slices(stored, design, count), len(design.terms))


def batch_rows(width: int) -> int:
    """Return how many rows of so many terms are coded at once."""
    return max(1, _BATCH_ENTRIES // max(width, 1))


def _code_in_slices(stored: dict[str, StoredArray], design: Design, count: int) -> Iterator[RowArray]:
    size = batch_rows(len(design.terms))
    for start in range(0, count, size):
        part = {name: values[start : start + size] for name, values in stored.items()}
        yield _code(part, design, min(size, count - start))


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


def _code(stored: Mapping[str, StoredArray], design: Design, count: int) -> RowArray:
    """Code stored rows; one beyond its person's share is all zeros, before any map sees it."""
    rows = code_rows(stored, design, count)
    if MARK in stored:
        rows *= (stored[MARK] == 1)[:, None]  # the same work for any number of them
    return rows
