"""A normal prior on the coefficients: how large the release makes it, and the posterior under it in closed form."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations

FloatArray = NDArray[np.float64]
PASSES = 20
CONSTANT_PRIOR = 1e4
"""Prior variance of the constant, in units of the target's mean square: flat beside any data."""
GRID = np.logspace(-8.0, 2.0, 201)
"""Prior variances of the other coefficients that are tried, in the same units."""


class WienerFilter:
    r"""The posterior of θ given :math:`b = A\theta + g`, :math:`g \sim N(0, \Omega)`, for priors of any size.

    Parameters
    ----------
    A, covariance : ndarray of shape (D, D)
        Symmetric; Ω definite.
    b : ndarray of shape (D,)
    shape, flat : ndarray of shape (D,)
        The prior is :math:`\theta \sim N(0, \tau^2S + F)`, S and F with these diagonals.

    Notes
    -----
    With T the prior's covariance :math:`b \sim N(0, ATA + \Omega)`, and the posterior mean is
    :math:`TA(ATA + \Omega)^{-1}b`. Let :math:`LL^\top = \Omega + AFA` and :math:`L^{-1}AS^{1/2} = U\sigma V^\top`. Then
    :math:`(ATA + \Omega)^{-1} = L^{-\top}U(1 + \tau^2\sigma^2)^{-1}U^\top L^{-1}` for every τ²: along each column of U
    the data are shrunk by how far the signal is above the noise, hardly where it is large, to nothing where it drowns.
    """

    def __init__(
        self, A: FloatArray, b: FloatArray, covariance: FloatArray, shape: FloatArray, flat: FloatArray | None = None
    ) -> None:
        self._shape, self._flat = shape, np.zeros(len(b)) if flat is None else flat
        root = np.linalg.cholesky(covariance + (A * self._flat) @ A.T)
        vectors, sizes, _ = np.linalg.svd(np.linalg.solve(root, A * np.sqrt(shape)))
        self._whitened = vectors.T @ np.linalg.inv(root)
        self._sizes, self._data, self._signal = sizes**2, (self._whitened @ b) ** 2, A @ self._whitened.T

    def log_likelihood(self, variances: FloatArray) -> FloatArray:
        """Return the log density of b for each τ², up to a constant, of the same shape (n,)."""
        spread = 1.0 + np.multiply.outer(variances, self._sizes)
        likelihood: FloatArray = -0.5 * np.sum(np.log(spread) + self._data / spread, axis=1)
        return likelihood

    def inverse(self, variances: FloatArray, weights: FloatArray) -> FloatArray:
        """Return what b is multiplied with in the posterior mean, averaged over τ² by weights, of shape (D, D)."""
        shares = 1.0 / (1.0 + np.multiply.outer(variances, self._sizes))
        shaped = (self._signal * ((weights * variances) @ shares)) @ self._whitened
        flat = (self._signal * (weights @ shares)) @ self._whitened
        inverse: FloatArray = self._shape[:, np.newaxis] * shaped + self._flat[:, np.newaxis] * flat
        return inverse


@dataclass(frozen=True, eq=False)
class NormalPosterior:
    """The posterior under a normal prior, at fixed precisions, in scaled units.

    Attributes
    ----------
    prior_variance : float
        τ² of each coefficient but the constant's.
    residual_variance : float
        Of the hospitals' rows.
    mean : ndarray of shape (D,)
    covariance : ndarray of shape (D, D)
    inverse : ndarray of shape (D, D)
        `mean` is this times Xᵀy.
    score_covariance : ndarray of shape (D, D)
        Ω, of the score at `mean`.
    """

    prior_variance: float
    residual_variance: float
    mean: FloatArray
    covariance: FloatArray
    inverse: FloatArray
    score_covariance: FloatArray


def normal_posterior(
    equations: Equations, residual_variance: float | None = None, prior_variance: float | None = None
) -> NormalPosterior:
    r"""Return the posterior under the prior θ ~ N(0, τ²), flat for the constant, in closed form.

    Parameters
    ----------
    equations : Equations
    residual_variance, prior_variance : float, optional
        In scaled units. Default what the release makes of them.

    Raises
    ------
    EstimationError
        When the residual variance is not given and a release does not hold yᵀy.

    Notes
    -----
    The released equations say :math:`\tilde b = \tilde A\theta + \epsilon`, :math:`\epsilon \sim N(0, \Omega)`, with Ω
    from the residual variance and the stated noise, so the posterior is normal with
    :math:`\Sigma^{-1} = \tilde A\Omega^{-1}\tilde A + T^{-1}` and the mean of `WienerFilter`. Ω is that at the mean, so
    both are found by turns. Where they are not given, the residual variance is that at the mean, and τ² maximises the
    likelihood of :math:`\tilde b`, over a grid from 10⁻⁸ to 10² of the target's mean square. Without noise Ω is s²A:
    this is ridge regression with the penalty s²/τ², and Bayesian ridge regression where both are found.
    """
    A, b, penalised = equations.xtx, equations.xty, equations.penalised
    if residual_variance is None and any(site.yty is None for site in equations.sites):
        raise EstimationError("the residual variance needs yᵀy: ask for the statistic 'yty', or state it")
    square = _mean_square(equations)
    flat = CONSTANT_PRIOR * square * (1.0 - penalised)
    mean, inverse = np.zeros(len(b)), np.zeros((len(b), len(b)))
    assumed = square if residual_variance is None else residual_variance
    tau = square if prior_variance is None else prior_variance
    for _ in range(PASSES):
        variances = np.array([assumed if site.variance is None else site.variance for site in equations.sites])
        covariance = equations.sampling_covariance(variances) + equations.noise_covariance(mean)
        covariance += np.diag(np.full(len(b), 1e-12 * max(float(np.trace(covariance)), 1e-300)))
        wiener = WienerFilter(A, b, covariance, penalised, flat)
        if prior_variance is None:
            tau = float(square * GRID[int(np.argmax(wiener.log_likelihood(square * GRID)))])
        inverse = wiener.inverse(np.array([tau]), np.ones(1))
        mean = inverse @ b
        if residual_variance is None:
            assumed = _residual_variance(equations, mean, assumed)
    information = A @ np.linalg.solve(covariance, A) + np.diag(1.0 / (tau * penalised + flat))
    posterior: FloatArray = np.linalg.inv((information + information.T) / 2.0)
    return NormalPosterior(tau, assumed, mean, posterior, inverse, covariance)


def _mean_square(equations: Equations) -> float:
    """Return the mean square of the target, or where it is not known that of one that fills its bounds."""
    squares = [site.yty for site in equations.sites if site.yty is not None]
    if len(squares) < len(equations.sites):
        return 1.0
    return max(sum(squares) / max(equations.rows, 1.0), 1e-12)


def _residual_variance(equations: Equations, theta: FloatArray, before: float) -> float:
    """Return that of the hospitals' rows at θ: sums over rows."""
    hospitals = [k for k, site in enumerate(equations.sites) if site.variance is None]
    sums = sum(equations.weights[k] * equations.sites[k].residual_sum(theta) for k in hospitals)
    rows = sum(equations.weights[k] * (equations.sites[k].rows or 0.0) for k in hospitals)
    return max(float(sums / rows), 0.0) if rows > 0.0 else before
