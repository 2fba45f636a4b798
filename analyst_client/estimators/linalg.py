"""Numerical kernels: symmetric systems of a few terms, and the spectral norm of symmetric noise."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray


def rounding_level(eigenvalues: "NDArray[np.floating[Any]]") -> float:
    """Return the size below which an eigenvalue is rounding error: D · machine epsilon · largest absolute one."""
    return float(len(eigenvalues) * np.finfo(np.float64).eps * np.max(np.abs(eigenvalues)))


def smallest_eigenvalue(A: FloatArray) -> float:
    """Return the smallest eigenvalue of a symmetric matrix."""
    return float(np.linalg.eigvalsh(A)[0])


def is_positive_definite(A: FloatArray) -> bool:
    """Return whether a symmetric matrix is positive definite beyond rounding error.

    Examples
    --------
    >>> is_positive_definite(np.array([[2.0, 1.0], [1.0, 2.0]])), is_positive_definite(np.ones((2, 2)))
    (True, False)
    """
    eigenvalues = np.linalg.eigvalsh(A)
    return bool(eigenvalues[0] > rounding_level(eigenvalues))


def invert_symmetric(A: FloatArray) -> FloatArray:
    """Invert a symmetric matrix, definite or not; directions without information get 0 (pseudo-inverse).

    Parameters
    ----------
    A : ndarray of shape (D, D)

    Returns
    -------
    ndarray of shape (D, D)

    Examples
    --------
    >>> invert_symmetric(np.array([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    eigenvalues, vectors = np.linalg.eigh(A)
    known = np.abs(eigenvalues) > rounding_level(eigenvalues)
    basis = vectors[:, known]
    inverse: FloatArray = (basis / eigenvalues[known]) @ basis.T
    return inverse


def spectral_scale(sd_diagonal: float, sd_offdiagonal: float) -> float:
    r"""Return the σ that sets the spectral norm of symmetric Gaussian noise: the off-diagonal deviation.

    A diagonal up to √2 σ adds nothing (the GOE has exactly that); beyond it, σ grows with the diagonal.
    """
    return max(sd_offdiagonal, sd_diagonal / math.sqrt(2.0))


def noise_norm_quantile(sigma: float, d: int, probability: float) -> float:
    r"""Bound the largest eigenvalue of D × D symmetric Gaussian noise, up to a failure probability.

    Parameters
    ----------
    sigma : float
        Scale of the noise, see `spectral_scale`.
    d : int
    probability : float
        Chance that the largest eigenvalue is above the bound, in (0, 1).

    Notes
    -----
    With diagonal deviation at most :math:`\sqrt2\sigma` the mean of the largest eigenvalue is at most
    :math:`2\sigma\sqrt D`, and it is a :math:`\sqrt2\sigma`-Lipschitz function of standard normal variables, so it
    exceeds :math:`2\sigma\sqrt D + 2\sigma\sqrt{\ln(1/p)}` with probability at most :math:`p` [1]_.

    References
    ----------
    .. [1] S. Boucheron, G. Lugosi, P. Massart, "Concentration inequalities", 2013, theorem 5.6.

    Examples
    --------
    >>> round(noise_norm_quantile(1.0, 4, 0.05), 3)
    7.462
    """
    return 2.0 * sigma * (math.sqrt(d) + math.sqrt(math.log(1.0 / probability)))
