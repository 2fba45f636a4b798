"""Exact integers held in float64: what row maps compute with.

Squared norms are sums of integers below 2^53, so exact in any order; every other operation is one elementwise IEEE
operation, and its result is proved to be the integer that is stated.
"""

import numpy as np

from curator_service.privacy.lattice import IntArray, RowArray


def norms_squared(terms: RowArray) -> RowArray:
    """Return ‖row‖² exactly: every partial sum is an integer below 2^52."""
    columns = terms.T  # rows are stored column by column, and so added
    squared: RowArray = np.einsum("ij,ij->j", columns, columns)
    return squared


def scale(rows: RowArray, multiplier: RowArray, divisor: RowArray, out: RowArray | None = None) -> RowArray:
    """Return sign(z)·⌊|z|·a / b⌋ for each entry z of a row with multiplier a and divisor b, exactly.

    Let p = |z|·a, an integer with p + b < 2^53 here. If p/b is not an integer, let k = ⌊p/b⌋ + 1: then
    p/b ≤ k − 1/b, and 1/b > k·2^-53 because k·b ≤ p + b < 2^53. A number is rounded up to k from at most k·2^-53
    below, so the quotient is rounded to less than k, and cut to ⌊p/b⌋.
    """
    scaled: RowArray = np.multiply(rows, multiplier[:, None], out=out)
    scaled /= divisor[:, None]
    return np.trunc(scaled, out=scaled)


def root(values: RowArray) -> RowArray:
    """Return ⌊√v⌋ exactly for integers 0 ≤ v < 2^52.

    Let k = ⌊√v⌋, so that k + 1 ≤ 2^26. Then √v ≤ √((k + 1)² − 1) ≤ k + 1 − 2^-27, which float64 holds: the rounded root
    is at most that, and at least k.
    """
    roots: RowArray = np.sqrt(values)
    return np.floor(roots, out=roots)


def isqrt(values: IntArray) -> IntArray:
    """Return ⌊√v⌋ exactly for 0 ≤ v < 2^62, where the float root is right to within one."""
    roots: IntArray = np.sqrt(values.astype(np.float64)).astype(np.int64)
    roots -= roots * roots > values
    roots += (roots + 1) * (roots + 1) <= values
    return roots
