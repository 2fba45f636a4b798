"""Rows counted by cell, at one cost whatever cells they fall into: what kernels of counts and of marginals share."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from curator_service.privacy.lattice import UNIT, FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.selection import Selection

CELL_PRODUCTS, AXIS_PRODUCTS, HALVING_PRODUCTS = 250, 250, 30
"""What a row takes to be counted, on an axis, and at each halving of its edges, in products of two numbers."""

PER_CELL_S = 4e-7
"""Of the public duration; about ten times what a cell takes."""

_LANES = 8
"""Rows next to each other are counted apart: a processor waits for an addition to the same number, and rows that are in
one cell, as those are that a condition leaves out, would take up to three times as long as others."""


def weigh_rows(selection: Selection, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> FlagArray:
    """Return which rows count, and write what those add, from 0 to q², in the last column where rows have weights."""
    counted = selection.select(stored, counted)
    weights = selection.weigh(stored, len(out))
    if weights is not None:
        np.multiply(weights, UNIT**2, out=out[:, -1])
        np.trunc(out[:, -1], out=out[:, -1])
        out[:, -1] *= counted
    return counted


def count_cells(cells: RowArray, weights: RowArray | None, size: int) -> IntArray:
    """Count rows by cell, from 1 to the size, in units of q²; cell 0 is none.

    Parameters
    ----------
    cells : ndarray of float64, shape (n,)
        At most `sums.EXACT_BLOCK_ROWS`: weights are integers of at most q², and float64 holds every sum of so many.
    weights : ndarray of float64, shape (n,), or None
        None: each row adds q².

    Returns
    -------
    ndarray of int64, shape (size,)
    """
    lanes = np.arange(len(cells)) & (_LANES - 1)
    places = cells.astype(np.int64) + lanes * (size + 1)
    found: npt.NDArray[Any] = np.bincount(places, weights, _LANES * (size + 1)).reshape(_LANES, size + 1)
    summed: IntArray = found.sum(axis=0)[1:].astype(np.int64)
    return summed if weights is not None else summed * UNIT**2
