"""A normal prior on the coefficients: how large the release makes it, and the posterior under it in closed form."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.equations import SCALE_POINTS, Equations, own_variances
from analyst_client.inference.quantiles import truncated_normal_points

PASSES = 20
PRIOR_DOMINATED = 0.5
GRID = np.logspace(-8.0, 2.0, 201)
"""Prior variances that are tried, in units of the target's mean square."""


class WienerFilter:
    r"""The posterior mean of θ given :math:`b = A\theta + g`, :math:`g \sim N(0, \Omega)`, for priors of any size.

    The prior is :math:`N(0, \tau^2)` for each coefficient but the first few, for which it is flat.

    Parameters
    ----------
    A, covariance : ndarray of shape (D, D)
        Symmetric; Ω definite.
    b : ndarray of shape (D,)
    free : int
        For how many coefficients, the first ones, the prior is flat.

    Notes
    -----
    With :math:`LL^\top = \Omega` the data are :math:`L^{-1}b`. What the columns of :math:`L^{-1}A` that belong to free
    coefficients span is told by these alone; let Q span the rest, and
    :math:`Q^\top L^{-1}A_2 = U\sigma V^\top` with the other columns :math:`A_2`. Then
    :math:`\theta_2 = V\tau^2\sigma(1 + \tau^2\sigma^2)^{-1}U^\top Q^\top L^{-1}b` for every τ²: directions are
    shrunk by how far the signal is above the noise, hardly where it is large, to nothing where it drowns. The free
    coefficients are least squares on what is left.
    """

    def __init__(self, A: FloatArray, b: FloatArray, covariance: FloatArray, free: int = 0) -> None:
        whiten = np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)), dtype=np.float64)
        columns = whiten @ A
        rest = np.linalg.qr(columns[:, :free], mode="complete")[0][:, free:].T
        left, sizes, right = np.linalg.svd(rest @ columns[:, free:])
        self._read = np.asarray(left.T @ rest @ whiten, dtype=np.float64)
        self._sizes, self._right = np.asarray(sizes, dtype=np.float64), np.asarray(right.T, dtype=np.float64)
        self._data = (self._read @ b) ** 2
        self._fit_free = np.asarray(np.linalg.pinv(columns[:, :free]), dtype=np.float64)
        self._whiten, self._other = whiten, columns[:, free:]

    def log_likelihood(self, variances: FloatArray) -> FloatArray:
        """Return the log density of the data for each τ², up to a constant, of the same shape (n,)."""
        spread = 1.0 + np.multiply.outer(variances, self._sizes**2)
        likelihood: FloatArray = -0.5 * np.sum(np.log(spread) + self._data / spread, axis=1)
        return likelihood

    def inverse(self, variances: FloatArray, weights: FloatArray) -> FloatArray:
        """Return what b is multiplied with in the posterior mean, averaged over τ² by weights, of shape (D, D)."""
        shares = variances[:, np.newaxis] * self._sizes / (1.0 + np.multiply.outer(variances, self._sizes**2))
        other = (self._right * (weights @ shares)) @ self._read
        return np.vstack([self._fit_free @ (self._whiten - self._other @ other), other])


@dataclass(frozen=True, eq=False)
class NormalPosterior:
    """The posterior under a normal prior, at fixed precisions, in scaled units.

    Attributes
    ----------
    prior_variance : float
        τ² of each coefficient but the constant's: the likeliest, where it is not given.
    residual_variance : float
        Of the hospitals' rows.
    mean : ndarray of shape (D,)
    covariance : ndarray of shape (D, D)
    inverse : ndarray of shape (D, D)
        `mean` is this times Xᵀy.
    free : int
        How many coefficients, the first ones, have no prior.
    """

    prior_variance: float
    residual_variance: float
    mean: FloatArray
    covariance: FloatArray
    inverse: FloatArray
    free: int

    @property
    def prior_dominated(self) -> NDArray[np.bool_]:
        """True for coefficients that the prior determines: their deviation is above half the prior's, or beyond it."""
        dominated: NDArray[np.bool_] = np.diag(self.covariance) > PRIOR_DOMINATED**2 * self.prior_variance
        dominated[: self.free] = False
        return dominated


def normal_posterior(
    equations: Equations,
    residual_variance: float | None = None,
    prior_variance: float | None = None,
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
    from the residual variance and the stated noise, so for one τ² the posterior is normal with
    :math:`\Sigma^{-1} = \tilde A\Omega^{-1}\tilde A + T^{-1}` and the mean of `WienerFilter`. Ω is that at the mean, so
    both are found by turns, with the residual variance where it is not given: its estimate at the mean, or where the
    noise leaves that uncertain the mean of a normal law around it that is cut off at 0. A τ² that is not given is
    averaged out over a grid from 10⁻⁸ to 10² of the target's mean square, by the likelihood of :math:`\tilde b` and a
    prior that is flat in τ; the covariance holds how far the mean moves with it. Without noise Ω is s²A: this is
    ridge regression with the penalty s²/τ².
    """
    A, b, free = equations.xtx, equations.xty, int(equations.has_constant)
    if residual_variance is None and any(site.yty is None for site in equations.sites):
        raise EstimationError("the residual variance needs yᵀy: ask for the statistic 'yty', or state it")
    square = _mean_square(equations)
    grid = square * GRID if prior_variance is None else np.array([prior_variance])
    assumed = square if residual_variance is None else residual_variance
    each = np.array([assumed if site.variance is None else site.variance for site in equations.sites])
    mean = np.zeros(len(b))
    for _ in range(PASSES):
        floor = 1e-16 * square  # of a perfect fit, for which any residual variance gives the same
        variances = np.maximum(each, floor)
        covariance = equations.sampling_covariance(variances) + equations.noise_covariance(mean)
        covariance += np.diag(np.full(len(b), 1e-12 * max(float(np.trace(covariance)), 1e-300)))
        wiener = WienerFilter(A, b, covariance, free)
        likelihood = wiener.log_likelihood(grid)
        weights = np.exp(likelihood - np.max(likelihood)) * np.sqrt(grid)  # a grid even in log τ, a prior flat in τ
        weights /= np.sum(weights)
        inverse = wiener.inverse(grid, weights)
        before, mean = mean, inverse @ b
        if residual_variance is None:
            assumed = _see_residuals(equations, mean, each, square, assumed)
        if np.max(np.abs(mean - before)) <= 1e-9 * np.max(np.abs(mean)):
            break
    likeliest = float(grid[int(np.argmax(likelihood))])
    posterior = np.zeros((len(b), len(b)))
    information = A @ np.linalg.solve(covariance, A)
    for tau, weight in zip(grid, weights, strict=True):
        if weight > 1e-6:
            apart = wiener.inverse(np.array([tau]), np.ones(1)) @ b - mean
            known = information + np.diag(equations.penalised / tau)
            posterior += weight * (np.linalg.inv((known + known.T) / 2.0) + np.outer(apart, apart))
    return NormalPosterior(likeliest, assumed, mean, posterior, inverse, free)


def _mean_square(equations: Equations) -> float:
    """Return the mean square of the target, or what the noise in it would show; 1, if its bounds are all that is known.

    Weighted as the equations are: a hospital whose noise outweighs its rows tells nothing.
    """
    pairs = list(zip(equations.weights, equations.sites, strict=True))
    rows = sum(weight * (site.rows or 0.0) for weight, site in pairs)
    if any(site.yty is None for _, site in pairs) or rows <= 0.0:
        return 1.0
    square = sum(weight * (site.yty or 0.0) for weight, site in pairs) / rows
    null = np.zeros(len(equations.terms))
    noise = sum(weight**2 * site.residual_sum_covariance(null, null) for weight, site in pairs)
    return max(float(square), float(np.sqrt(noise)) / float(rows)) or 1.0


def _see_residuals(equations: Equations, theta: FloatArray, each: FloatArray, square: float, before: float) -> float:
    """Return the residual variance of the hospitals' rows at θ, sums over rows, and set that of each hospital."""
    hospitals = [k for k, site in enumerate(equations.sites) if site.variance is None]
    sites, weights = [equations.sites[k] for k in hospitals], equations.weights[hospitals]
    counts = np.array([site.rows or 0.0 for site in sites])
    rows = float(weights @ counts) if sites else 0.0
    if rows <= 0.0:
        return before
    sums = np.array([site.residual_sum(theta) for site in sites])
    noise = np.array([site.residual_sum_covariance(theta, theta) for site in sites])
    estimate, sd = float(weights @ sums) / rows, float(np.sqrt(weights**2 @ noise)) / rows
    told = max(estimate, 0.0) if sd <= 0.0 else float(np.mean(truncated_normal_points(estimate, sd, SCALE_POINTS)))
    several = len(hospitals) > 1
    each[hospitals] = own_variances((estimate, sd), square, sums, counts, noise)[2] if several else told
    return told
