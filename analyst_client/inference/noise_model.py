"""The law of noisy sufficient statistics under a Bayesian linear regression, exact statistics integrated out.

The derivation is in ``docs/inference.md#posteriors``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.inference.equations import weighted_sum
from analyst_client.inference.evidence import Evidence, NoisyMoments
from analyst_client.inference.prior import Prior

COEFFICIENT_MAX, LOG_PRECISION_MAX = 1e4, 30.0  # the support of the density, far beyond what scaled data know
FIXED_POINT_STEPS = 20


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
    are taken from :math:`\tilde A`, with eigenvalues raised to the standard deviation of the noise.

    Of several releases z is the weighted sum, in the units of the evidence. With :math:`P_k`, which takes the own
    (x, y) of release k there, r its last entry and :math:`\gamma_k = P_k^\top\gamma/r`, it is
    :math:`\sum_kw_kr_kP_kz_k(\gamma_k)`, so :math:`\tilde M = \sum_kw_kP_k\tilde M_kP_k^\top` and
    :math:`\tilde n = \sum_kw_k\tilde n_k`; in Ω, A is :math:`\sum_kw_k^2o_kT_kA_kT_k^\top`, n is
    :math:`\sum_kw_k^2o_kn_k`, with :math:`o_k` how many releases are of the same people, and each release adds
    the rest of its own Ω as :math:`w_k^2r_k^2P_k\cdot P_k^\top`.
    """

    def __init__(self, evidence: Evidence, prior: Prior) -> None:
        self.prior, self.constant = prior, evidence.constant
        self.moments = moments = evidence.moments
        self.size = d = len(moments[0].xty)
        self.information, self.vector = evidence.public or (np.zeros((d, d)), np.zeros(d))
        weights = np.array([of.weight for of in moments])
        pairs = [(of, _corrected(of)) for of in moments]
        self.noisy = weighted_sum(weights, [of.place @ noisy @ of.place.T for of, (noisy, _) in pairs])
        self.rows = float(weights @ [rows for _, (_, rows) in pairs])
        sampled = weights**2 * [of.overlap for of in moments]
        self.square_rows = float(sampled @ [of.positive_rows for of in moments])
        self.rows_positive = max(self.rows, math.sqrt(float(weights**2 @ [of.rows_variance for of in moments])), 1e-9)
        noise_sd = np.sqrt(weights**2 @ [_diagonal_variance(of) for of in moments])
        self.xtx = _raised(self.noisy[:d, :d], noise_sd)
        self.sampling = _raised(
            weighted_sum(sampled, [_sampling(of) for of in moments]), noise_sd * math.sqrt(np.max(sampled))
        )
        self.noise = _noise_parts(moments)

    def residual(self, beta: FloatArray, tau: FloatArray) -> FloatArray:
        """Return z, of shape (chains, D + 1), for chains of β and τ."""
        z: FloatArray = with_one(-beta) @ self.noisy
        z[:, -1] -= self.rows / tau
        return z

    def covariance(self, beta: FloatArray, tau: FloatArray) -> FloatArray:
        """Return Ω, of shape (chains, D + 1, D + 1)."""
        d, gamma = self.size, with_one(-beta)
        omega: FloatArray = np.sum([part.covariance(gamma, 1.0 / tau) for part in self.noise], axis=0)
        fitted = beta @ self.sampling / tau[:, np.newaxis]
        omega[:, :d, :d] += self.sampling / tau[:, np.newaxis, np.newaxis]
        omega[:, :d, d] += fitted
        omega[:, d, :d] += fitted
        omega[:, d, d] += np.sum(fitted * beta, axis=1) + 2.0 * self.square_rows / tau**2
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
        """Return the log density of z, and of public rows, at positions (β, log τ), and its gradient."""
        d = self.size
        beta, tau = position[:, :d], np.exp(position[:, d])
        z, omega = self.residual(beta, tau), self.covariance(beta, tau)
        inverse = np.linalg.inv(omega)
        q = np.einsum("kij,kj->ki", inverse, z)
        value = -0.5 * np.linalg.slogdet(omega)[1] - 0.5 * np.sum(z * q, axis=1)
        weight = 0.5 * (q[:, :, np.newaxis] * q[:, np.newaxis, :] - inverse)  # the derivative by Ω
        fitted = beta @ self.sampling
        cross, corner = weight[:, :d, d], weight[:, d, d]
        by_beta = 2.0 * (cross @ self.sampling + corner[:, np.newaxis] * fitted) / tau[:, np.newaxis]
        by_beta += (q @ self.noisy)[:, :d]
        by_inverse = np.sum(weight[:, :d, :d] * self.sampling, axis=(1, 2)) + q[:, d] * self.rows
        by_inverse += np.sum((2.0 * cross + corner[:, np.newaxis] * beta) * fitted, axis=1)
        by_inverse += 4.0 * corner * self.square_rows / tau
        for part in self.noise:
            by_gamma, more = part.gradient(weight, with_one(-beta), 1.0 / tau)
            by_beta -= by_gamma[:, :d]
            by_inverse += more
        informed = beta @ self.information
        value += np.sum(beta * (self.vector - 0.5 * informed), axis=1)
        by_beta += self.vector - informed
        return value, np.column_stack([by_beta, -by_inverse / tau])

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

    def gaussian(self, tau: float, lam: float) -> tuple[FloatArray, FloatArray]:
        r"""Return mean and covariance of β at fixed precisions, from Xᵀy alone.

        Notes
        -----
        :math:`\Sigma^{-1} = \tilde A\Omega^{-1}\tilde A + \Lambda` and
        :math:`\mu = \Sigma\,\tilde A\Omega^{-1}\tilde b`, with Ω at the mean itself: a fixed point, in 20 steps.
        """
        d, noisy_xtx, noisy_xty = self.size, self.noisy[:-1, :-1], self.noisy[:-1, -1]
        known = np.diag(self.prior.precision(np.array(lam), d, self.constant)) + self.information
        information = tau * self.xtx + known
        mean = np.asarray(np.linalg.solve(information, tau * noisy_xty + self.vector), dtype=np.float64)
        for _ in range(FIXED_POINT_STEPS):
            omega = self.covariance(mean[np.newaxis], np.array([tau]))[0, :d, :d]
            weighted = np.linalg.solve(omega, noisy_xtx).T
            information = weighted @ noisy_xtx + known
            mean = np.asarray(np.linalg.solve(information, weighted @ noisy_xty + self.vector), dtype=np.float64)
        return mean, np.asarray(np.linalg.inv((information + information.T) / 2.0), dtype=np.float64)

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
            mean, covariance = self.gaussian(tau, lam)
            gamma = np.append(-mean, 1.0)
            omega = self.covariance(mean[np.newaxis], np.array([tau]))[0]
            squares = max(float(gamma @ self.noisy @ gamma), math.sqrt(omega[d, d]))
            tau = (prior.residual_shape + 0.5 * self.rows_positive) / (prior.residual_rate + 0.5 * squares)
        spread = omega[d, d] + columns[d] @ covariance @ columns[d]
        weighted = np.linalg.solve(omega, columns)
        known = np.diag(prior.precision(np.array(lam), d, self.constant)) + self.information
        covariance = np.asarray(np.linalg.inv(columns.T @ weighted + known), dtype=np.float64)
        slope = -self.rows_positive * covariance @ weighted[d]
        factor = np.eye(d + 1) / math.sqrt(prior.residual_shape + (self.rows_positive / tau) ** 2 / spread)
        factor[:d, :d] = np.linalg.cholesky((covariance + covariance.T) / 2.0)
        return np.append(mean, math.log(tau)), factor, slope

    def sample_exact(
        self, beta: FloatArray, tau: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.bool_]]:
        r"""Draw the exact XᵀX, Xᵀy and yᵀy given β and τ, for each of k draws; of several releases their sums.

        Releases of the same people count once together. The last array, of shape (k,), says whether XᵀX, weighted as
        the posterior weighs it, is positive definite.

        Notes
        -----
        Noise and residuals are drawn from their laws and moved by their covariance with z times :math:`\Omega^{-1}`
        times what z lacks (Matheron's rule): for noise :math:`E`, of which z holds :math:`E\gamma` less
        :math:`E_{00}/\tau`, by :math:`V_{ij}(q_i\gamma_j + q_j\gamma_i)`, half of it on the diagonal.
        """
        d, k, gamma = self.size, len(beta), with_one(-beta)
        moment = rng.normal(size=(k, d)) @ np.linalg.cholesky(self.sampling).T / np.sqrt(tau)[:, np.newaxis]
        drawn = np.column_stack([moment, np.sum(moment * beta, axis=1)])
        noise, squares = [], []  # the latter of the residuals, less their mean n/τ
        for of in self.moments:
            noise.append(_draw_symmetric(of.variance, k, rng))
            squares.append(np.sqrt(2.0 * of.positive_rows * of.overlap) / tau * rng.normal(size=k))
            r = of.place[-1, -1]
            own = np.einsum("kij,kj->ki", noise[-1], gamma @ of.place / r)
            own[:, d] -= of.counted * noise[-1][:, 0, 0] / (r**2 * tau)
            drawn += of.weight * r * own @ of.place.T
            drawn[:, d] += of.weight * squares[-1]
        lacking = self.residual(beta, tau) - drawn
        q = np.linalg.solve(self.covariance(beta, tau), lacking[..., np.newaxis])[..., 0]
        exact, residual, weighted = np.zeros((k, d + 1, d + 1)), np.zeros(k), np.zeros((k, d, d))
        for of, noise_drawn, square in zip(self.moments, noise, squares, strict=True):
            r = of.place[-1, -1]
            own_q, own_gamma = of.weight * r * q @ of.place, gamma @ of.place / r
            move = own_q[:, :, np.newaxis] * own_gamma[:, np.newaxis, :]
            move = move + move.swapaxes(1, 2)
            move[:, np.arange(d + 1), np.arange(d + 1)] *= 0.5
            move[:, 0, 0] -= of.counted * own_q[:, d] / (r**2 * tau)
            own = of.noisy - noise_drawn - of.variance * move
            own_in_common = of.place @ own @ of.place.T
            exact += own_in_common / of.overlap
            weighted += of.weight * own_in_common[:, :d, :d]
            rows = own[:, 0, 0] if of.counted else of.noisy_rows
            moved = 2.0 * of.positive_rows * of.overlap / tau**2 * of.weight * q[:, d]
            residual += (rows / tau + square + moved) / of.overlap
        xtx, xty = exact[:, :d, :d], exact[:, :d, d]
        fitted = np.einsum("kij,kj->ki", xtx, beta)
        yty = residual + np.sum((2.0 * xty - fitted) * beta, axis=1)
        return xtx, xty, yty, np.linalg.eigvalsh(weighted)[:, 0] > 0.0


@dataclass(frozen=True, eq=False)
class NoisePart:
    r"""Contribution of the noise of releases in the same units to Ω.

    Attributes
    ----------
    variance : ndarray of shape (D + 1, D + 1)
        V of the weighted sum of their noise.
    offdiagonal : ndarray of shape (D + 1, D + 1)
        V without its diagonal.
    rows_variance : float
        :math:`v_n`.
    place : ndarray of shape (D + 1, D + 1)
        P.
    """

    variance: FloatArray
    offdiagonal: FloatArray
    rows_variance: float
    place: FloatArray

    @property
    def scale(self) -> float:
        """By how much the target in the units of the evidence is larger than the releases' own: r."""
        return float(self.place[-1, -1])

    def covariance(self, gamma: FloatArray, inverse: FloatArray) -> FloatArray:
        """Return the part of Ω, of shape (k, D + 1, D + 1), at γ and 1/τ in the units of the evidence."""
        i, r = np.arange(gamma.shape[1]), self.scale
        gamma, inverse = gamma @ self.place / r, inverse / r**2
        omega: FloatArray = self.offdiagonal * gamma[:, :, np.newaxis] * gamma[:, np.newaxis, :]
        omega[:, i, i] += gamma**2 @ self.variance
        omega[:, 0, -1] -= gamma[:, 0] * self.rows_variance * inverse
        omega[:, -1, 0] -= gamma[:, 0] * self.rows_variance * inverse
        omega[:, -1, -1] += self.rows_variance * inverse**2
        placed: FloatArray = r**2 * (self.place @ omega @ self.place.T)
        return placed

    def gradient(self, weight: FloatArray, gamma: FloatArray, inverse: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives of tr(weight · covariance) by γ and by 1/τ, of shapes (k, D + 1) and (k,)."""
        i, r = np.arange(gamma.shape[1]), self.scale
        weight = r**2 * (self.place.T @ weight @ self.place)
        gamma, inverse = gamma @ self.place / r, inverse / r**2
        by_gamma = 2.0 * gamma * (weight[:, i, i] @ self.variance)
        by_gamma += 2.0 * np.einsum("kij,kj->ki", weight * self.offdiagonal, gamma)
        by_gamma[:, 0] -= 2.0 * weight[:, 0, -1] * self.rows_variance * inverse
        by_inverse = 2.0 * self.rows_variance * (weight[:, -1, -1] * inverse - weight[:, 0, -1] * gamma[:, 0])
        return by_gamma @ self.place.T / r, by_inverse / r**2


def _noise_parts(moments: Sequence[NoisyMoments]) -> tuple[NoisePart, ...]:
    """Return one part for all releases in the same units."""
    places: dict[bytes, list[NoisyMoments]] = {}
    for of in moments:
        places.setdefault(of.place.tobytes(), []).append(of)
    parts = []
    for same in places.values():
        squares = np.array([of.weight**2 for of in same])
        variance = weighted_sum(squares, [of.variance for of in same])
        rows_variance = float(squares @ [of.rows_variance for of in same])
        parts.append(NoisePart(variance, variance - np.diag(np.diag(variance)), rows_variance, same[0].place))
    return tuple(parts)


def _corrected(moments: NoisyMoments) -> tuple[FloatArray, float]:
    """Return the noisy moments and count, less what their own noise adds by way of the weight: see `Equations.xtx`."""
    noisy, rows = moments.noisy, moments.noisy_rows
    if moments.weight_slope != 0.0:
        excess = moments.weight_slope / moments.weight * float(moments.xtx_variance[0, 0])
        noisy[0, 0] -= excess
        rows -= excess
    return noisy, rows


def _sampling(moments: NoisyMoments) -> FloatArray:
    """Return the covariance of Xᵀu times τ, in the units of the evidence, of shape (D, D)."""
    T = moments.place[:-1, :-1]
    sampling: FloatArray = T @ moments.xtx @ T.T
    return sampling


def _diagonal_variance(moments: NoisyMoments) -> FloatArray:
    """Return that of the noise in the diagonal of XᵀX, in the units of the evidence, of shape (D,)."""
    squares = moments.place[:-1, :-1] ** 2
    alone = squares**2 @ np.diag(moments.xtx_variance)  # of the diagonal; beside it an entry counts twice
    variance: FloatArray = 2.0 * np.sum(squares @ moments.xtx_variance * squares, axis=1) - alone
    return variance


def _raised(A: FloatArray, noise_sd: FloatArray) -> FloatArray:
    """Return A with its eigenvalues raised to 1, in units in which the noise of its diagonal has deviation 1."""
    units = np.sqrt(np.maximum(noise_sd, 1e-9 * np.maximum(np.abs(np.diag(A)), 1e-300)))
    eigenvalues, vectors = np.linalg.eigh(A / np.outer(units, units))
    raised: FloatArray = (vectors * np.maximum(eigenvalues, 1.0)) @ vectors.T * np.outer(units, units)
    return raised


def _draw_symmetric(variance: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw symmetric matrices of normal entries, one draw per unordered pair."""
    drawn = np.triu(np.sqrt(variance) * rng.normal(size=(count, *variance.shape)))
    drawn += np.triu(drawn, 1).swapaxes(1, 2)
    return drawn


def with_one(vector: FloatArray) -> FloatArray:
    """Append a 1 to vectors of shape (k, D)."""
    return np.concatenate([vector, np.ones((len(vector), 1))], axis=1)
