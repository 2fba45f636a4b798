"""Exact sums over mapped rows, in integers of the request lattice: what every engine adds with."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from curator_service.privacy.lattice import UNIT, IntArray, RowArray
from curator_service.privacy.samplers import SUM_MAX

EXACT_BLOCK_ROWS = 2**53 // UNIT**2
"""Rows per block such that every partial sum of a float64 product of entries ≤ q is an exact integer (524,296)."""

INT64_CAPACITY_MAX = SUM_MAX // UNIT**2
"""N with N q² + 60 σ < 2^63 for every σ ≤ 2^53: sums and noisy sums of that many rows fit int64 (5.3·10⁸).

The size of every entry of a contribution is at most q², whatever the kind."""

LIMB_BITS = 26
"""Of the low limb of a sum that may not fit int64; the high limb has the rest, and the sign."""

ROW_CAPACITY_MAX = 10**11
"""N with N 2²⁶ < 2^63: low limbs of that many batches can be added in int64, and the high limbs of that many rows."""

_LOW = 2**LIMB_BITS - 1

_BLOCK_ROWS = 2**16  # far below the bound: a block of 50 columns stays within 26 MB


def compute_gram(blocks: Iterable[RowArray | IntArray], column_count: int) -> IntArray:
    """Sum zᵀz over mapped rows, exactly.

    Parameters
    ----------
    blocks : iterable of ndarray of float64 or int64, shape (n_i, k)
        Mapped rows, integers in ``[-q, q]``; at most `INT64_CAPACITY_MAX` rows in all.
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


def split(sums: IntArray) -> IntArray:
    """Cut integers into two limbs, by the same work for any of them.

    Returns
    -------
    ndarray of int64, shape (2, …)
        The low limbs, from 0 to 2²⁶ − 1, and the high ones: low + 2²⁶ high is the integer, also where it is negative.

    Notes
    -----
    Limbs of batches are added each by itself. For N ≤ `ROW_CAPACITY_MAX` rows, cut into batches in any way, the low
    ones add up to less than N 2²⁶ < 2⁶³. Of a batch of m rows, whose sums are at most m q² < m 2³⁴, the high ones are
    at most m 2⁸ + 1 in size, so they add up to at most N (2⁸ + 1) < 2⁴⁵. Every partial sum fits int64, in any order.
    """
    return np.stack([sums & _LOW, sums >> LIMB_BITS])


def split_integer(value: int) -> list[list[int]]:
    """Cut one integer, which need not fit int64, as `split` does an array of one."""
    return [[value & _LOW], [value >> LIMB_BITS]]


def carry(limbs: IntArray) -> IntArray:
    """Bring low limbs back to less than 2²⁶, and what is beyond that into the high ones, by the same work for any."""
    low, high = limbs
    return np.stack([low & _LOW, high + (low >> LIMB_BITS)])


def round_limbs(limbs: IntArray) -> npt.NDArray[np.float64]:
    """Return the float64 next to each integer, as `astype` does where it fits int64.

    Carried limbs are below 2⁵³, so float64 holds both, and the high one times 2²⁶: their sum alone is rounded.
    """
    low, high = carry(limbs).astype(np.float64)
    rounded: npt.NDArray[np.float64] = high * 2.0**LIMB_BITS + low
    return rounded
