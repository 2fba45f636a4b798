"""Coefficients of a belief about XᵀX and Xᵀy, shrunk as far as the noise asks for."""

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.refinement.belief import Belief

_DEVIATIONS = np.geomspace(1e-3, 3.0, 19)
_LOG_PRIOR = -0.5 * (np.log(_DEVIATIONS / 0.3) / 1.2) ** 2
"""Of the prior's deviation τ, up to a constant: standardised coefficients are some tenths, more or less."""
_ROUNDS = 6
_FLOOR = 0.01
"""Least eigenvalue of A, in rows: what is below it is noise, for standard scores."""


def shrunk_coefficients(belief: Belief, n: float, start: FloatArray) -> FloatArray:
    """Return the coefficients of standard terms that a belief expects under a normal prior.

    The prior of the constant's coefficient is N(0, 1), that of the others N(0, τ²W), where W is the inverse root of
    their correlations: halfway between a ridge and Zellner's g-prior. A ridge alone hides for long that columns which
    go together have large coefficients of opposite signs. Given A, b − Aθ is the noise's N(0, S(θ)), so b is
    N(0, S + τ² A W Aᵀ): its likelihood weighs each τ of a grid, beside a log-normal prior of τ, and coefficients are
    averaged over the grid. S depends on θ, so this is done again where the last round led. Rounds may go to and fro
    between a θ with little noise, which b contradicts, and a large one with much, so each round's θ counts by its own
    posterior density.

    Parameters
    ----------
    belief : Belief
    n : float
        Rows.
    start : ndarray of shape (d,)
        Where the noise is first looked at.

    Returns
    -------
    ndarray of shape (d,)
    """
    d = belief.term_count
    b = belief.xty
    eigenvalues, Q = np.linalg.eigh(belief.xtx)
    H = (Q * np.maximum(eigenvalues, _FLOOR * n)) @ Q.T
    constant = np.outer(H[:, 0], H[0])
    correlations, V = np.linalg.eigh(H[1:, 1:] / n)
    W = (V / np.sqrt(np.maximum(correlations, _FLOOR))) @ V.T
    inverse_W = (V * np.sqrt(np.maximum(correlations, _FLOOR))) @ V.T
    theta, found, densities = start, [], []
    for _ in range(_ROUNDS):
        noise = belief.score_covariance(theta) + 1e-9 * n * np.eye(d)
        inverse = np.linalg.inv(np.linalg.cholesky(noise + constant))
        w, U = np.linalg.eigh(inverse @ H[:, 1:] @ W @ H[1:] @ inverse.T)
        r = U.T @ inverse @ b
        spread = 1 + _DEVIATIONS[:, None] ** 2 * np.maximum(w, 0.0)
        log_likelihoods = -0.5 * np.sum(r**2 / spread + np.log(spread), axis=1) + _LOG_PRIOR
        left = (r / spread) @ (H @ inverse.T @ U).T
        each = np.column_stack([left[:, 0], _DEVIATIONS[:, None] ** 2 * (left[:, 1:] @ W)])
        solved = _softmax(log_likelihoods) @ each
        found.append(solved)
        root = np.linalg.cholesky(belief.score_covariance(solved) + 1e-9 * n * np.eye(d))
        off = np.linalg.solve(root, b - H @ solved)
        size = float(solved[1:] @ inverse_W @ solved[1:])
        log_prior = _LOG_PRIOR - 0.5 * size / _DEVIATIONS**2 - (d - 1) * np.log(_DEVIATIONS) - 0.5 * solved[0] ** 2
        log_likelihood = -0.5 * off @ off - np.log(np.diag(root)).sum()
        densities.append(float(log_likelihood + np.logaddexp.reduce(log_prior)))
        theta = (theta + solved) / 2
    expected: FloatArray = _softmax(np.array(densities)) @ np.array(found)
    return expected


def expected_excess(belief: Belief, n: float, theta: FloatArray) -> float:
    """Return the residual sum of squares at coefficients above the least one, as a belief expects it.

    It is tr(HV) with the covariance V of coefficients given all that was measured, under the prior of
    `shrunk_coefficients`; the deviation τ is that at which coefficients have the size that they are expected to have.
    """
    eigenvalues, Q = np.linalg.eigh(belief.xtx)
    H = (Q * np.maximum(eigenvalues, _FLOOR * n)) @ Q.T
    correlations, V = np.linalg.eigh(H[1:, 1:] / n)
    inverse_W = (V * np.sqrt(np.maximum(correlations, _FLOOR))) @ V.T
    information = H @ np.linalg.inv(belief.score_covariance(theta) + 1e-9 * n * np.eye(len(H))) @ H
    square, size = 1.0, float(theta[1:] @ inverse_W @ theta[1:])
    for _ in range(_ROUNDS):
        precision = information.copy()
        precision[1:, 1:] += inverse_W / square
        precision[0, 0] += 1.0
        covariance = np.linalg.inv(precision)
        square = max((size + float(np.sum(inverse_W * covariance[1:, 1:]))) / max(len(H) - 1, 1), 1e-6)
    return float(np.sum(H * covariance))


def _softmax(logs: FloatArray) -> FloatArray:
    """Return weights that add up to 1, of their logarithms."""
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)
