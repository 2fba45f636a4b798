"""Exact sufficient statistics of mapped rows, in integers of the request lattice."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from curator_service.privacy.lattice import UNIT, IntArray

EXACT_BLOCK_ROWS = 2**53 // UNIT**2
"""Rows per block such that every partial sum of a float64 product of entries ≤ q is an exact integer (524,296)."""

ROW_CAPACITY_MAX = (2**63 - 2**59) // UNIT**2
"""N with N q² + 60 σ < 2^63 for every σ ≤ 2^53: sums and noisy sums of that many rows fit int64."""

_BLOCK_ROWS = 2**16  # far below the bound: a block of 50 columns stays within 26 MB


@dataclass(frozen=True, slots=True)
class SufficientStatistics:
    """Exact statistics; a type of its own, so that they cannot reach an answer.

    Attributes
    ----------
    xtx : ndarray of int64, shape (D, D)
    xty : ndarray of int64, shape (D, T)
    yty : ndarray of int64, shape (T,)
        One per target: the products of two targets are not part of a release.
    """

    xtx: IntArray
    xty: IntArray
    yty: IntArray

    def __repr__(self) -> str:
        """Hide the numbers: a traceback or a log must not show them."""
        return f"{type(self).__name__}(<{self.xtx.shape[0]} terms, {self.yty.shape[0]} targets>)"


def compute_gram(blocks: Iterable[IntArray], column_count: int) -> IntArray:
    """Sum zᵀz over mapped rows, exactly.

    Parameters
    ----------
    blocks : iterable of ndarray of int64, shape (n_i, k)
        Mapped rows, entries in ``[-q, q]``; at most `ROW_CAPACITY_MAX` rows in all.
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
            part = block[start : start + _BLOCK_ROWS].astype(np.float64)
            total += (part.T @ part).astype(np.int64)
    return total


def split_gram(gram: IntArray, term_count: int) -> SufficientStatistics:
    """Cut the Gram of (terms, targets) into XᵀX, Xᵀy and yᵀy."""
    return SufficientStatistics(
        gram[:term_count, :term_count], gram[:term_count, term_count:], np.diagonal(gram)[term_count:]
    )


def compute_lambda_min(xtx: IntArray) -> int:
    """Compute λ_min(XᵀX) in float from exact integers, rounded to an integer.

    Parameters
    ----------
    xtx : ndarray of int64, shape (D, D)

    Returns
    -------
    int
        Within ``lambda_min_float_error(D, trace bound) + 1/2`` of the true value.
    """
    return round(float(np.linalg.eigvalsh(xtx.astype(np.float64))[0]))


def lambda_min_float_error(term_count: int, norm_squared: int, row_capacity: int) -> int:
    """Bound the float error of `compute_lambda_min` by public numbers, in squared lattice units.

    Parameters
    ----------
    term_count : int
        D.
    norm_squared : int
        Bound on ‖row‖², squared lattice units.
    row_capacity : int
        Most rows that the dataset may hold.

    Returns
    -------
    int

    Notes
    -----
    The integers are rounded to float64 once (relative 2⁻⁵³ each) and Householder tridiagonalisation with an implicit
    shift iteration is backward stable: the computed values are exact for A + E with ‖E‖₂ ≤ c D² 2⁻⁵³ ‖A‖_F for a
    small constant c [1]_, and by Weyl move by at most ‖E‖₂. ‖A‖_F ≤ trace(A) ≤ N·norm². We take c = 64.

    References
    ----------
    .. [1] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 19.3 and lemma 19.3.
    """
    return int(Fraction(64 * term_count**2 * row_capacity * norm_squared, 2**53)) + 1
