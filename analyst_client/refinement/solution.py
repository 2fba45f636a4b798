"""Coefficients of a belief about XᵀX and Xᵀy, shrunk as far as the noise asks for."""

import numpy as np

from analyst_client.refinement.belief import Belief, FloatArray

_DEVIATIONS = np.geomspace(1e-3, 3.0, 19)
_LOG_PRIOR = -0.5 * (np.log(_DEVIATIONS / 0.3) / 1.2) ** 2
"""Of the prior's deviation τ, up to a constant: standardised coefficients are some tenths, more or less."""
_ROUNDS = 6
_FLOOR = 0.01
"""Least eigenvalue of A, in rows: what is below it is noise, for standard scores."""


def shrunk_coefficients(belief: Belief, n: float, start: FloatArray) -> FloatArray:
    """Return the coefficients of standard terms that a belief expects under a normal prior.

    The prior of each coefficient beside the constant's is N(0, τ²), the constant's N(0, 1). Given A, b − Aθ is the
    noise's N(0, S(θ)), so b is N(0, S + τ² A Aᵀ): its likelihood weighs each τ of a grid, beside a log-normal prior of
    τ, and coefficients are averaged over the grid.

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
    theta = solved = start
    for _ in range(_ROUNDS):
        theta = (theta + solved) / 2  # the noise of what is measured depends on where it is looked at
        known = belief.score_covariance(theta) + constant + 1e-9 * n * np.eye(d)
        inverse = np.linalg.inv(np.linalg.cholesky(known))
        w, U = np.linalg.eigh(inverse @ H[:, 1:] @ H[1:] @ inverse.T)
        r = U.T @ inverse @ b
        spread = 1 + _DEVIATIONS[:, None] ** 2 * np.maximum(w, 0.0)
        log_likelihoods = -0.5 * np.sum(r**2 / spread + np.log(spread), axis=1) + _LOG_PRIOR
        weights = np.exp(log_likelihoods - log_likelihoods.max())
        weights /= weights.sum()
        priors = np.column_stack([np.ones(len(weights)), np.tile(_DEVIATIONS[:, None] ** 2, (1, d - 1))])
        each = priors * ((r / spread) @ (H @ inverse.T @ U).T)
        solved = weights @ each
    return solved
