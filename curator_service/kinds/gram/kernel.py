"""Exact sufficient statistics of mapped rows, in integers of the request lattice."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from curator_service.privacy.lattice import UNIT, IntArray, RowArray
from curator_service.privacy.samplers import SUM_MAX

EXACT_BLOCK_ROWS = 2**53 // UNIT**2
"""Rows per block such that every partial sum of a float64 product of entries ≤ q is an exact integer (524,296)."""

ROW_CAPACITY_MAX = SUM_MAX // UNIT**2
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


def split_gram(gram: IntArray, term_count: int) -> SufficientStatistics:
    """Cut the Gram of (terms, targets) into XᵀX, Xᵀy and yᵀy."""
    return SufficientStatistics(
        gram[:term_count, :term_count], gram[:term_count, term_count:], np.diagonal(gram)[term_count:]
    )


def compute_lambda_min(xtx: IntArray, tolerance: int = 1) -> int:
    """Compute λ_min(XᵀX), to within a proved error.

    Parameters
    ----------
    xtx : ndarray of int64, shape (D, D)
        Positive semidefinite.
    tolerance : int
        ε ≥ `lambda_min_float_error`, public.

    Returns
    -------
    int
        A multiple of the tolerance, from λ_min − 2ε to λ_min + ε.

    Notes
    -----
    The answer is a k ε for which the Cholesky factorisation of A − k ε I runs to its end and that of A − (k+1) ε I does
    not. In float64 that decides the sign of λ_min(A − k ε I) up to ε, with a proved constant, whatever the order of
    its operations [1]_; which k the search tries first, from a computed spectrum, is of no matter.

    References
    ----------
    .. [1] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed. (2002), theorems 10.3 and 10.7.
    """
    matrix = xtx.astype(np.float64)
    identity = np.eye(len(matrix))

    def is_definite(k: int) -> bool:
        try:
            np.linalg.cholesky(matrix - float(k * tolerance) * identity)
        except np.linalg.LinAlgError:
            return False
        return True

    try:
        low = round(float(np.linalg.eigvalsh(matrix)[0]) / tolerance)
    except np.linalg.LinAlgError:  # it did not converge: no stored row may make a request fail
        low = 0
    width = 1
    while not is_definite(low):
        low, width = low - width, 2 * width
    high = low + 1
    while is_definite(high):
        low, high = high, high + 1
    return low * tolerance


def lambda_min_float_error(term_count: int, norm_squared: int, row_capacity: int) -> int:
    """Bound the error of a Cholesky factorisation as a test of definiteness, in squared lattice units.

    Parameters
    ----------
    term_count : int
        D.
    norm_squared : int
        R², bound on ‖row‖².
    row_capacity : int
        N, most rows that the dataset may hold.

    Returns
    -------
    int
        ε = ⌈3 (D + 2)² 2⁻⁵³ N min(q², R²)⌉ + 1: where the test says yes, λ_min ≥ −ε; where it says no, λ_min ≤ ε.

    Notes
    -----
    Let B be the rounded matrix A − k I, u = 2⁻⁵³, T = N R² ≥ tr A, M = N min(q², R²) ≥ max a_ii, so that T ≤ D M.
    Rounding moves B by at most 4 u T in norm. If the factorisation ends, B + E = RᵀR with ‖E‖ ≤ g tr B, and if
    λ_min(B) > D g max b_ii it ends [1]_, with g = γ/(1−γ), γ = (D+2) u, twice that for libraries that multiply by
    reciprocals of pivots. So ε ≥ 4 u T + 2.1 (D+2) u D M covers both.

    References
    ----------
    .. [1] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed. (2002), theorems 10.3 and 10.7.
    """
    largest = row_capacity * min(UNIT**2, norm_squared)
    return math.ceil(Fraction(3 * (term_count + 2) ** 2 * largest, 2**53)) + 1
