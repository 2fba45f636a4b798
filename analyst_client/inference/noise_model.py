"""The law of noisy sufficient statistics under a Bayesian linear regression, exact statistics integrated out.

The derivation is in ``docs/inference-posterior.md``.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

UNKNOWN_VARIANCE = 1e30  # of a yᵀy that was not released: so large that it says nothing
COEFFICIENT_MAX, LOG_PRECISION_MAX = 1e4, 30.0  # the support of the density, far beyond what scaled data know
FIXED_POINT_STEPS = 20


@dataclass(frozen=True)
class NoisyMoments:
    """Noisy sufficient statistics of one target, in scaled units, and the variance of their noise.

    Attributes
    ----------
    xtx : ndarray of shape (D, D)
        Symmetric.
    xty : ndarray of shape (D,)
    yty : float
        Anything where `yty_variance` is infinite.
    xtx_variance : ndarray of shape (D, D)
        Of one draw per unordered pair; symmetric. Zero where an entry is exact.
    xty_variance : ndarray of shape (D,)
    yty_variance : float
        Infinite where yᵀy was not released.
    constant : bool
        Whether the first term is the constant.
    rows : float or None
        The number of rows; too small a number errs on the safe side. None: it is the constant's own noisy diagonal
        entry, under row weights the sum of their squares.
    weight_shares : ndarray of shape (D,) or None
        How much smaller than A/τ the covariance of Xᵀu is, because rows were weighted: see `Site.weight_shares`.

    Raises
    ------
    ValueError
        When shapes differ, a variance is negative, or `rows` is not positive, or absent as the constant is.
    """

    xtx: FloatArray
    xty: FloatArray
    yty: float
    xtx_variance: FloatArray
    xty_variance: FloatArray
    yty_variance: float
    constant: bool = True
    rows: float | None = None
    weight_shares: FloatArray | None = None

    def __post_init__(self) -> None:
        """Check shapes and signs."""
        d = len(self.xty)
        if self.xtx.shape != (d, d) or self.xtx_variance.shape != (d, d) or self.xty_variance.shape != (d,):
            raise ValueError(f"xtx and its variance must have shape {(d, d)}, the variance of xty {(d,)}")
        if not all(np.all(of >= 0.0) for of in (self.xtx_variance, self.xty_variance, np.array(self.yty_variance))):
            raise ValueError("variances must not be negative")
        if self.rows is None and not self.constant:
            raise ValueError("without a constant term `rows` must say how many rows there are")
        if self.rows is not None and not (math.isfinite(self.rows) and self.rows > 0.0):
            raise ValueError(f"rows must be finite and positive, not {self.rows!r}")


@dataclass(frozen=True)
class Prior:
    r"""Priors on the scale where terms and target lie in [−1, 1].

    Attributes
    ----------
    residual_shape, residual_rate : float
        Of the Gamma law of τ, the precision of a residual. The default, of mean 50, puts 95 % of residual standard
        deviations between 0.07 and 0.89.
    coefficient_shape, coefficient_rate : float
        Of the Gamma law of λ, the precision of every coefficient beside the constant's; the shape is above 1. Then
        coefficients follow a multivariate t law with twice the shape degrees of freedom, of variance rate/(shape − 1).
        The default, 4 degrees and standard deviation 0.71, has 95 % of coefficients in ±1.4.
    constant_sd : float
        Standard deviation of the constant's coefficient, which λ does not touch: a prediction of a target in [−1, 1]
        with every other term at 0.

    Raises
    ------
    ValueError
        When a number is not positive and finite, or `coefficient_shape` is not above 1.
    """

    residual_shape: float = 1.0
    residual_rate: float = 0.02
    coefficient_shape: float = 2.0
    coefficient_rate: float = 0.5
    constant_sd: float = 2.0

    def __post_init__(self) -> None:
        """Check ranges."""
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be finite and positive, not {value!r}")
        if self.coefficient_shape <= 1.0:
            raise ValueError(f"coefficient_shape must be above 1, not {self.coefficient_shape!r}")

    def coefficient_sd(self, size: int, constant: bool) -> FloatArray:
        """Return the prior standard deviation of each coefficient."""
        sd = np.full(size, math.sqrt(self.coefficient_rate / (self.coefficient_shape - 1.0)))
        if constant:
            sd[0] = self.constant_sd
        return sd

    def precision(self, lam: FloatArray, size: int, constant: bool) -> FloatArray:
        """Return the prior precision of each coefficient given λ, of shape (..., D)."""
        precision = np.repeat(lam[..., np.newaxis], size, axis=-1)
        if constant:
            precision[..., 0] = self.constant_sd**-2
        return precision


@dataclass(frozen=True)
class GaussianPosterior:
    """A Gaussian posterior of the coefficients, in scaled units.

    Attributes
    ----------
    mean : ndarray of shape (D,)
    covariance : ndarray of shape (D, D)
    """

    mean: FloatArray
    covariance: FloatArray


class NoiseModel:
    r"""The posterior density of (β, log τ), with the exact statistics and λ integrated out.

    Notes
    -----
    Let :math:`\tilde M` be the noisy :math:`(X, y)^\top(X, y)` and V the variances of its noise. With n rows and
    :math:`\gamma = (-\beta, 1)` the D + 1 numbers

    .. math:: z = \tilde M\gamma - (0, \dots, 0, \tilde n/\tau)

    have mean zero, and given β and τ their covariance is

    .. math:: \Omega = C(\gamma) + \frac1\tau K A K^\top
       + \begin{pmatrix} 0 & v_n\beta_0 e_0/\tau \\ \cdot & 2n/\tau^2 + v_n/\tau^2 \end{pmatrix},
       \qquad K = \begin{pmatrix} I \\ \beta^\top \end{pmatrix},

    :math:`C_{ii} = \sum_k V_{ik}\gamma_k^2`, :math:`C_{ij} = V_{ij}\gamma_i\gamma_j`. :math:`\tilde n = \tilde A_{00}`
    with variance :math:`v_n = V_{00}` where the constant counts the rows; elsewhere n itself and 0. In Ω alone A and n
    are taken from :math:`\tilde A`, with eigenvalues raised to the noise's standard deviation.
    """

    def __init__(self, moments: NoisyMoments, prior: Prior) -> None:
        self.prior, self.constant = prior, moments.constant
        self.size = d = len(moments.xty)
        self.noisy, self.variance = np.empty((d + 1, d + 1)), np.empty((d + 1, d + 1))
        for matrix, xtx, xty in (
            (self.noisy, moments.xtx, moments.xty),
            (self.variance, moments.xtx_variance, moments.xty_variance),
        ):
            matrix[:d, :d], matrix[:d, d], matrix[d, :d] = xtx, xty, xty
        known = math.isfinite(moments.yty_variance)
        self.noisy[d, d] = moments.yty if known else 0.0
        self.variance[d, d] = moments.yty_variance if known else UNKNOWN_VARIANCE
        self.offdiagonal = self.variance - np.diag(np.diag(self.variance))
        eigenvalues, vectors = np.linalg.eigh(moments.xtx)
        floor = max(math.sqrt(moments.xtx_variance.max()), 1e-9 * abs(eigenvalues[-1]))
        self.xtx = (vectors * np.maximum(eigenvalues, floor)) @ vectors.T
        shares = np.ones(d) if moments.weight_shares is None else moments.weight_shares
        self.sampling = self.xtx * np.sqrt(np.outer(shares, shares))
        self.counted = moments.rows is None  # by the constant's own diagonal entry
        self.rows = float(moments.xtx[0, 0]) if moments.rows is None else moments.rows
        self.rows_variance = float(moments.xtx_variance[0, 0]) if self.counted else 0.0
        self.rows_positive = float(self.xtx[0, 0]) if self.counted else self.rows

    def residual(self, beta: FloatArray, tau: FloatArray) -> FloatArray:
        """Return z, of shape (chains, D + 1), for chains of β and τ."""
        z: FloatArray = with_one(-beta) @ self.noisy
        z[:, -1] -= self.rows / tau
        return z

    def covariance(self, beta: FloatArray, tau: FloatArray) -> FloatArray:
        """Return Ω, of shape (chains, D + 1, D + 1)."""
        d, gamma, i = self.size, with_one(-beta), np.arange(self.size + 1)
        omega: FloatArray = self.offdiagonal * gamma[:, :, np.newaxis] * gamma[:, np.newaxis, :]
        omega[:, i, i] += gamma**2 @ self.variance
        fitted = beta @ self.sampling / tau[:, np.newaxis]
        cross = fitted.copy()
        cross[:, 0] += beta[:, 0] * self.rows_variance / tau
        omega[:, :d, :d] += self.sampling / tau[:, np.newaxis, np.newaxis]
        omega[:, :d, d] += cross
        omega[:, d, :d] += cross
        omega[:, d, d] += np.sum(fitted * beta, axis=1) + (2.0 * self.rows_positive + self.rows_variance) / tau**2
        return omega

    def log_density(self, position: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log density, up to a constant, and its gradient.

        Parameters
        ----------
        position : ndarray of shape (k, D + 1)
            β and log τ.

        Returns
        -------
        tuple of ndarray
            Of shape (k,), -inf where a number is absurd, and (k, D + 1).
        """
        limit = np.append(np.full(self.size, COEFFICIENT_MAX), LOG_PRECISION_MAX)
        inside = np.all(np.abs(position) < limit, axis=1)
        position = np.where(inside[:, np.newaxis], position, 0.0)
        likelihood, slope = self.log_likelihood(position)
        prior, prior_slope = self.log_prior(position)
        return np.where(inside, likelihood + prior, -np.inf), slope + prior_slope

    def log_likelihood(self, position: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log density of z at positions (β, log τ), and its gradient."""
        d, i = self.size, np.arange(self.size + 1)
        beta, tau = position[:, :d], np.exp(position[:, d])
        z, omega = self.residual(beta, tau), self.covariance(beta, tau)
        inverse = np.linalg.inv(omega)
        q = np.einsum("kij,kj->ki", inverse, z)
        value = -0.5 * np.linalg.slogdet(omega)[1] - 0.5 * np.sum(z * q, axis=1)
        weight = 0.5 * (q[:, :, np.newaxis] * q[:, np.newaxis, :] - inverse)  # the derivative by Ω
        gamma, fitted = with_one(-beta), beta @ self.sampling
        cross, corner = weight[:, :d, d], weight[:, d, d, np.newaxis]
        by_gamma = 2.0 * gamma * (weight[:, i, i] @ self.variance) - q @ self.noisy
        by_gamma += 2.0 * np.einsum("kij,kj->ki", weight * self.offdiagonal, gamma)
        by_beta = 2.0 * (cross @ self.sampling + corner * fitted)
        by_beta[:, 0] += 2.0 * cross[:, 0] * self.rows_variance
        by_beta = by_beta / tau[:, np.newaxis] - by_gamma[:, :d]
        by_tau = np.sum(weight[:, :d, :d] * self.sampling, axis=(1, 2))
        by_tau += np.sum((2.0 * cross + corner * beta) * fitted, axis=1)
        by_tau += 2.0 * cross[:, 0] * beta[:, 0] * self.rows_variance + q[:, d] * self.rows
        by_tau += corner[:, 0] * (4.0 * self.rows_positive + 2.0 * self.rows_variance) / tau
        return value, np.column_stack([by_beta, -by_tau / tau])

    def log_prior(self, position: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log prior density of (β, log τ), λ integrated out, and its gradient."""
        prior, first = self.prior, int(self.constant)
        beta, tau = position[:, :-1], np.exp(position[:, -1])
        shape, rate = self.shape_and_rate(beta)
        value = prior.residual_shape * position[:, -1] - prior.residual_rate * tau - shape * np.log(rate)
        value -= 0.5 * np.sum((beta[:, :first] / prior.constant_sd) ** 2, axis=1)
        slope = np.empty_like(position)
        slope[:, :first] = -beta[:, :first] / prior.constant_sd**2
        slope[:, first:-1] = -(shape / rate)[:, np.newaxis] * beta[:, first:]
        slope[:, -1] = prior.residual_shape - prior.residual_rate * tau
        return value, slope

    def shape_and_rate(self, beta: FloatArray) -> tuple[float, FloatArray]:
        """Return those of the Gamma law of λ given β: the conjugate update."""
        terms = beta[..., int(self.constant) :]
        rate = self.prior.coefficient_rate + 0.5 * np.sum(terms**2, axis=-1)
        return self.prior.coefficient_shape + 0.5 * terms.shape[-1], rate

    def gaussian(self, tau: float, lam: float, noise_aware: bool = True) -> GaussianPosterior:
        """Return the posterior of β at fixed precisions; see `closed_form_posterior`."""
        d, noisy_xtx, noisy_xty = self.size, self.noisy[:-1, :-1], self.noisy[:-1, -1]
        precision = np.diag(self.prior.precision(np.array(lam), d, self.constant))
        information = tau * self.xtx + precision
        mean = np.linalg.solve(information, tau * noisy_xty)
        for _ in range(FIXED_POINT_STEPS if noise_aware else 0):
            omega = self.covariance(mean[np.newaxis], np.array([tau]))[0, :d, :d]
            weighted = np.linalg.solve(omega, noisy_xtx).T
            information = weighted @ noisy_xtx + precision
            mean = np.linalg.solve(information, weighted @ noisy_xty)
        return GaussianPosterior(mean, np.linalg.inv((information + information.T) / 2.0))

    def rough_posterior(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        r"""Return where to start, how far to step, and a slope.

        Returns
        -------
        tuple of ndarray
            A centre of (β, log τ); the Cholesky factor of a covariance of (β − s/τ, log τ); the slope s, of shape (D,).

        Notes
        -----
        The last number of z ties β to 1/τ, all the more tightly the less noise: a ridge, bent in log τ, along which a
        sampler would creep. Its slope is :math:`s = -n\,\Sigma J^\top\Omega^{-1}e_{D+1}`, with J the first D columns of
        :math:`\tilde M` and :math:`\Sigma^{-1} = J^\top\Omega^{-1}J + \Lambda`, the covariance of β given τ.
        """
        d, prior, columns = self.size, self.prior, self.noisy[:, :-1]
        tau, lam = prior.residual_shape / prior.residual_rate, prior.coefficient_shape / prior.coefficient_rate
        for _ in range(3):
            guess = self.gaussian(tau, lam)
            gamma = np.append(-guess.mean, 1.0)
            omega = self.covariance(guess.mean[np.newaxis], np.array([tau]))[0]
            squares = max(float(gamma @ self.noisy @ gamma), math.sqrt(omega[d, d]))
            tau = (prior.residual_shape + 0.5 * self.rows_positive) / (prior.residual_rate + 0.5 * squares)
        weighted = np.linalg.solve(omega, columns)
        precision = np.diag(prior.precision(np.array(lam), d, self.constant))
        covariance = np.linalg.inv(columns.T @ weighted + precision)
        slope = -self.rows_positive * covariance @ weighted[d]
        spread = omega[d, d] + columns[d] @ guess.covariance @ columns[d]
        factor = np.eye(d + 1) / math.sqrt(prior.residual_shape + (self.rows_positive / tau) ** 2 / spread)
        factor[:d, :d] = np.linalg.cholesky((covariance + covariance.T) / 2.0)
        return np.append(guess.mean, math.log(tau)), factor, slope

    def sample_exact(
        self, beta: FloatArray, tau: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        r"""Draw the exact XᵀX, Xᵀy and yᵀy given β and τ, for each of k draws.

        Notes
        -----
        Noise and residuals are drawn from their laws and moved by their covariance with z times :math:`\Omega^{-1}`
        times what z lacks (Matheron's rule): for noise :math:`E`, of which z holds :math:`E\gamma` less
        :math:`E_{00}/\tau`, by :math:`V_{ij}(q_i\gamma_j + q_j\gamma_i)`, half of it on the diagonal.
        """
        d, k, gamma, i = self.size, len(beta), with_one(-beta), np.arange(self.size + 1)
        noise = np.triu(np.sqrt(self.variance) * rng.normal(size=(k, d + 1, d + 1)))
        noise += np.triu(noise, 1).swapaxes(1, 2)
        moment = rng.normal(size=(k, d)) @ np.linalg.cholesky(self.sampling).T / np.sqrt(tau)[:, np.newaxis]
        square_variance = 2.0 * self.rows_positive / tau**2
        square = np.sqrt(square_variance) * rng.normal(size=k)  # of the residuals, less its mean n/τ
        drawn = np.einsum("kij,kj->ki", noise, gamma)
        drawn[:, :d] += moment
        drawn[:, d] += np.sum(moment * beta, axis=1) + square
        drawn[:, d] -= self.counted * noise[:, 0, 0] / tau
        lacking = self.residual(beta, tau) - drawn
        q = np.linalg.solve(self.covariance(beta, tau), lacking[..., np.newaxis])[..., 0]
        move = q[:, :, np.newaxis] * gamma[:, np.newaxis, :]
        move = move + move.swapaxes(1, 2)
        move[:, i, i] *= 0.5
        move[:, 0, 0] -= self.counted * q[:, d] / tau
        exact = self.noisy - noise - self.variance * move
        xtx, xty = exact[:, :d, :d], exact[:, :d, d]
        square += square_variance * q[:, d]
        rows = xtx[:, 0, 0] if self.counted else self.rows
        fitted = np.einsum("kij,kj->ki", xtx, beta)
        yty = rows / tau + square + np.sum((2.0 * xty - fitted) * beta, axis=1)
        return xtx, xty, yty


def with_one(vector: FloatArray) -> FloatArray:
    """Append a 1 to vectors of shape (k, D)."""
    return np.concatenate([vector, np.ones((len(vector), 1))], axis=1)
