"""Exact sums over mapped rows, in integers of the request lattice: what every engine adds with."""

from collections.abc import Iterable

import numpy as np

from curator_service.privacy.lattice import UNIT, IntArray, RowArray
from curator_service.privacy.samplers import SUM_MAX

EXACT_BLOCK_ROWS = 2**53 // UNIT**2
"""Rows per block such that every partial sum of a float64 product of entries ≤ q is an exact integer (524,296)."""

ROW_CAPACITY_MAX = SUM_MAX // UNIT**2
"""N with N q² + 60 σ < 2^63 for every σ ≤ 2^53: sums and noisy sums of that many rows fit int64.

The size of every entry of a contribution is at most q², whatever the kind."""

_BLOCK_ROWS = 2**16  # far below the bound: a block of 50 columns stays within 26 MB


def compute_gram(blocks: Iterable[RowArray | IntArray], column_count: int) -> IntArray:
    """Sum zᵀz over mapped rows, exactly.

    Parameters
    ----------
    blocks : iterable of ndarray of float64 or int64, shape (n_i, k)
        Mapped rows, integers in ``[-q, q]``; at most `ROW_CAPACITY_MAX` rows in all.
    column_count : int
        k.

    Returns
    -------
    ndarray of int64, shape (k, k)
        Bit-identical under any order and any cut into blocks.

    Notes
    -----
    With entries at most q and at most `EXACT_BLOCK_ROWS` rows, every partial sum is an integer below 2^53, which
    float64 holds: classical products are exact in any order, with or without fused multiply-add.
    """
    total = np.zeros((column_count, column_count), dtype=np.int64)
    for block in blocks:
        if block.shape[1] != column_count:
            raise ValueError("every block must have the stated number of columns")
        for start in range(0, len(block), _BLOCK_ROWS):
            part = block[start : start + _BLOCK_ROWS].astype(np.float64, copy=False)
            total += (part.T @ part).astype(np.int64)
    return total
