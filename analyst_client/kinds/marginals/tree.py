r"""Trees of counts as one histogram: generalised least squares, in two passes.

A tree tells, with independent noise of one deviation σ, how many rows are in each of 2, 4, …, n equal bins. Its best
estimate of the n finest counts is that of least squares over all levels: M. Hay, V. Rastogi, G. Miklau, D. Suciu
("Boosting the accuracy of differentially private histograms through consistency", VLDB 2010). The covariance is
:math:`\sigma^2(H^\top H)^{-1}`, where H adds up the finest bins to those of every level. Its eigenvectors are those
of Haar: a step up and down within a bin of s finest ones has the eigenvalue :math:`1/(s-1)`, the sum of all
:math:`1/(n-1)`.
"""

import numpy as np

from analyst_client.arrays import FloatArray


def fit_tree(values: FloatArray) -> FloatArray:
    """Return the counts of the n finest bins by generalised least squares, of shape (..., n).

    `values`, of shape (..., 2n − 2), has level after level, the coarsest first; n is a power of 2.

    Examples
    --------
    >>> fit_tree(np.array([6.0, 2.0, 3.0, 4.0, 1.0, 1.0])).round(2).tolist()
    [2.67, 3.67, 1.0, 1.0]
    """
    levels = [values[..., 2**height - 2 : 2 ** (height + 1) - 2] for height in range(1, _levels(values) + 1)]
    best, variance = [levels[-1]], 1.0  # of what a bin and those below it tell of it
    for level in reversed(levels[:-1]):
        own = 2.0 * variance / (2.0 * variance + 1.0)
        best.insert(0, own * level + (1.0 - own) * _pairs(best[0]))
        variance = own
    fitted = _pairs(best[0])  # all rows, of which no level tells by itself
    for level in best:
        # The difference between a bin and the sum of its two parts is divided equally between the parts.
        fitted = level + np.repeat((fitted - _pairs(level)) / 2.0, 2, axis=-1)
    return fitted


def apply_inverse(finest: FloatArray) -> FloatArray:
    r"""Return :math:`(H^\top H)^{-1}m` for numbers m of the finest bins, of shape (..., n).

    Notes
    -----
    It is the fit of a tree that holds m in its finest level and 0 in all others, as :math:`H^\top` of that is m.
    """
    n = finest.shape[-1]
    return fit_tree(np.concatenate([np.zeros((*finest.shape[:-1], n - 2)), finest], axis=-1))


def cumulative_variances(n: int, q: float) -> FloatArray:
    r"""Return the variance of :math:`C_j - qN` for σ = 1, at each edge j from 0 to n.

    Notes
    -----
    Cutting at j splits one bin of each size s, r finest bins from its start: the step of Haar within it has the
    coefficient :math:`\min(r, s-r)/\sqrt s`, and that of the sum is :math:`(j-qn)/\sqrt n`.
    """
    j = np.arange(n + 1, dtype=np.float64)
    found = (j - q * n) ** 2 / (n * (n - 1.0))
    size = 2
    while size <= n:
        start = np.mod(j, size)
        found += np.minimum(start, size - start) ** 2 / (size * (size - 1.0))
        size *= 2
    return found


def _levels(values: FloatArray) -> int:
    return (int(values.shape[-1]) + 2).bit_length() - 2


def _pairs(level: FloatArray) -> FloatArray:
    summed: FloatArray = level.reshape(*level.shape[:-1], -1, 2).sum(axis=-1)
    return summed
