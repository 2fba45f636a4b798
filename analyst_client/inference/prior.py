"""A normal prior on the coefficients, fitted to the release by its marginal likelihood."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations

FloatArray = NDArray[np.float64]
PASSES = 10
CONSTANT_PRIOR = 1e4
"""Prior variance of the constant, in units of the target's mean square: flat beside any data."""


@dataclass(frozen=True, eq=False)
class FittedPrior:
    """The prior, and the shrunken coefficients under it.

    Attributes
    ----------
    variance : float
        τ² of each scaled coefficient but the constant's.
    theta : ndarray of shape (D,)
        Posterior mean.
    inverse : ndarray of shape (D, D)
        `theta` is this times Xᵀy.
    covariance : ndarray of shape (D, D)
        Ω, of the score at `theta`.
    """

    variance: float
    theta: FloatArray
    inverse: FloatArray
    covariance: FloatArray


def fit_prior(equations: Equations) -> FittedPrior:
    r"""Fit τ² of θ ~ N(0, τ²), and return the posterior mean.

    Notes
    -----
    The released equations say :math:`\tilde b = \tilde A\theta + \epsilon`, :math:`\epsilon \sim N(0, \Omega)`, with Ω
    from the residual variance and the stated noise. So :math:`\tilde b \sim N(0, \tilde AT\tilde A + \Omega)` with T
    the prior's covariance, and the posterior mean is the Wiener filter
    :math:`T\tilde A(\tilde AT\tilde A + \Omega)^{-1}\tilde b`. In the basis where Ã² and Ω are diagonal each direction
    is shrunk by how far its signal is above its noise: the larger ones hardly, those that the noise drowns to nothing.
    Ω and τ² are found by turns; the likelihood in τ² is maximised over a grid from 10⁻⁸ to 10² of the target's mean
    square. Without noise, Ω is s²A and the result is ridge regression with the penalty s²/τ².
    """
    if any(site.yty is None for site in equations.sites):
        raise EstimationError("the empirical prior needs yᵀy: ask for the statistic 'yty'")
    A, b, d = equations.xtx, equations.xty, len(equations.xty)
    rows = max(equations.rows, 1.0)
    square = max(sum(site.yty or 0.0 for site in equations.sites) / rows, 1e-12)
    flat = CONSTANT_PRIOR * square * (1.0 - equations.penalised)
    theta, variance = np.zeros(d), square
    variances = np.array([site.variance if site.variance is not None else square for site in equations.sites])
    for _ in range(PASSES):
        covariance = equations.sampling_covariance(variances) + equations.noise_covariance(theta)
        covariance += np.diag(np.full(d, 1e-12 * max(float(np.trace(covariance)), 1e-300)))
        variance = _most_likely(A, b, covariance + (A * flat) @ A.T, equations.penalised, square)
        prior = variance * equations.penalised + flat
        inverse = np.asarray(np.linalg.solve((A * prior) @ A.T + covariance, A * prior).T, dtype=np.float64)
        theta = inverse @ b
        variances = _residual_variances(equations, theta, variances)
    return FittedPrior(variance, theta, inverse, covariance)


def _residual_variances(equations: Equations, theta: FloatArray, before: FloatArray) -> FloatArray:
    """Return residual variances at θ: sums over rows, no more than the target's mean square."""
    hospitals = [k for k, site in enumerate(equations.sites) if site.variance is None]
    sums = sum(equations.weights[k] * equations.sites[k].residual_sum(theta) for k in hospitals)
    rows = sum(equations.weights[k] * (equations.sites[k].rows or 0.0) for k in hospitals)
    found = before.copy()
    if rows > 0.0:
        found[hospitals] = max(float(sums / rows), 0.0)
    return found


def _most_likely(A: FloatArray, b: FloatArray, covariance: FloatArray, penalised: FloatArray, square: float) -> float:
    """Return the τ² that maximises the likelihood of b ~ N(0, τ²APA + covariance)."""
    root = np.linalg.cholesky(covariance)
    signal = np.linalg.solve(root, A * penalised)
    sizes, vectors = np.linalg.eigh(signal @ signal.T)
    squares = (vectors.T @ np.linalg.solve(root, b)) ** 2
    grid = square * np.logspace(-8.0, 2.0, 201)
    spread = 1.0 + np.multiply.outer(grid, np.maximum(sizes, 0.0))
    likelihood = -np.sum(np.log(spread) + squares / spread, axis=1)
    return float(grid[int(np.argmax(likelihood))])
