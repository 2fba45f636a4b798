"""Posterior of the coefficients of a refined fit, whose equations have a law of noise of their own.

The derivation is in ``docs/inference.md#posterior-of-a-refinement``.
"""

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.equations import Equations, StandardUnits
from analyst_client.inference.evidence import Evidence
from analyst_client.inference.noise import CorrectedLaw
from analyst_client.inference.posterior import CoefficientDraws, Seed, check_counts, sample_posterior
from analyst_client.inference.prior import Prior
from analyst_client.inference.sampling import compute_ess, compute_rhat, sample_hmc

COEFFICIENT_MAX = 1e4
"""The support of the density, in standard units."""
FIXED_POINT_STEPS = 20


class CorrectedModel:
    r"""The posterior density of the coefficients γ of standardised columns, with XᵀX and λ integrated out.

    Parameters
    ----------
    equations : Equations
        Of a refined fit.
    prior : Prior

    Notes
    -----
    In the units of the release, δ is how far coefficients are from those around which scores were taken, linear in γ.
    The equations :math:`g = m - \tilde A\delta`, m the pooled score, are normal with mean 0 and covariance

    .. math:: S(\delta) = C(\delta) + R, \qquad C_{ii} = \sum_k v_{ik}\delta_k^2, \quad C_{ij} = v_{ij}\delta_i\delta_j,

    where v are the variances of the noise in XᵀX, and R is the covariance of noise and sampling in m. With a flat prior
    on the entries of XᵀX that is their exact marginal likelihood. Its logarithm is
    :math:`\ell = -\tfrac12 g^\top S^{-1}g - \tfrac12\log\det S`; with :math:`h = S^{-1}g` and
    :math:`Z = hh^\top - S^{-1}`,

    .. math:: \nabla\ell = \tilde Ah + N\delta, \qquad N_{ii} = \sum_k v_{ik}Z_{kk}, \quad N_{ij} = v_{ij}Z_{ij}.
    """

    def __init__(self, equations: Equations, prior: Prior) -> None:
        (site,), units, law = equations.sites, equations.standard, equations.sites[0].corrected
        assert isinstance(units, StandardUnits)
        assert isinstance(law, CorrectedLaw)
        self.prior, self.size, self.units = prior, len(site.xty), units
        back = np.linalg.inv(site.to_common)
        sampling = equations.sampling_covariance(equations.scale.variances)
        self.xtx = back @ site.xtx @ back.T
        self.score = back @ site.xty - self.xtx @ law.center
        self.xtx_variance = law.xtx
        self.rest = law.score + back @ sampling @ back.T
        self.turn = site.to_common.T @ units.matrix
        self.shift = site.own(units.origin) - law.center

    def covariance(self, delta: FloatArray) -> FloatArray:
        """Return S, of shape (n, D, D), for δ of shape (n, D)."""
        found = self.xtx_variance * delta[:, :, np.newaxis] * delta[:, np.newaxis, :]
        found[:, range(self.size), range(self.size)] = delta**2 @ self.xtx_variance
        return np.asarray(found + self.rest, dtype=np.float64)

    def shape_and_rate(self, gamma: FloatArray) -> tuple[float, FloatArray]:
        """Return those of the Gamma law of λ given γ: the conjugate update."""
        rate = self.prior.coefficient_rate + 0.5 * np.sum(gamma[..., 1:] ** 2, axis=-1)
        return self.prior.coefficient_shape + 0.5 * (self.size - 1), rate

    def log_density(self, gamma: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return logarithms of the density up to a constant, and gradients, of shapes (n,) and (n, D).

        Parameters
        ----------
        gamma : ndarray of shape (n, D)
        """
        inside = np.max(np.abs(gamma), axis=1) <= COEFFICIENT_MAX
        gamma = np.where(inside[:, np.newaxis], gamma, 0.0)
        delta = gamma @ self.turn.T + self.shift
        g = self.score - delta @ self.xtx
        root = np.linalg.cholesky(self.covariance(delta))
        half = np.linalg.inv(root)
        inverse = half.swapaxes(1, 2) @ half
        h = np.einsum("nij,nj->ni", inverse, g)
        value = -0.5 * np.sum(g * h, axis=1) - np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1)
        Z = h[:, :, np.newaxis] * h[:, np.newaxis, :] - inverse
        N = Z * self.xtx_variance
        N[:, range(self.size), range(self.size)] = np.diagonal(Z, axis1=1, axis2=2) @ self.xtx_variance
        gradient = (h @ self.xtx + np.einsum("nij,nj->ni", N, delta)) @ self.turn
        shape, rate = self.shape_and_rate(gamma)
        value -= shape * np.log(rate) + 0.5 * (gamma[:, 0] / self.prior.constant_sd) ** 2
        gradient[:, 0] -= gamma[:, 0] / self.prior.constant_sd**2
        gradient[:, 1:] -= shape / rate[:, np.newaxis] * gamma[:, 1:]
        gradient[~inside] = 0.0
        return np.where(inside, value, -np.inf), gradient

    def rough_posterior(self) -> tuple[FloatArray, FloatArray]:
        """Return a mean of γ and a factor L of a covariance LLᵀ: of the normal law with S and λ as at that mean."""
        gamma: FloatArray = np.zeros(self.size)
        A = self.xtx @ self.turn
        for _ in range(FIXED_POINT_STEPS):
            shape, rate = self.shape_and_rate(gamma)
            known = A.T @ np.linalg.inv(self.covariance((self.turn @ gamma + self.shift)[np.newaxis])[0])
            precision = known @ A + np.diag(self.prior.precision(np.asarray(shape / rate), self.size, constant=True))
            gamma = np.asarray(np.linalg.solve(precision, known @ (self.score - self.xtx @ self.shift)))
        return gamma, np.linalg.cholesky(np.linalg.inv((precision + precision.T) / 2.0))

    def sample_xtx(self, gamma: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw the exact XᵀX given each γ, in units of the release, of shape (n, D, D).

        Its noise is drawn given the equations by Matheron's rule: as it is beforehand, moved by what the equations so
        drawn are off.
        """
        delta, (rows, columns) = gamma @ self.turn.T + self.shift, np.triu_indices(self.size)
        noise = np.zeros((len(gamma), self.size, self.size))
        noise[:, rows, columns] = rng.normal(size=(len(gamma), len(rows))) * np.sqrt(self.xtx_variance[rows, columns])
        noise[:, columns, rows] = noise[:, rows, columns]
        other = rng.normal(size=delta.shape) @ np.linalg.cholesky(self.rest).T
        off = self.score - delta @ self.xtx - other + np.einsum("nij,nj->ni", noise, delta)
        r = np.linalg.solve(self.covariance(delta), off[..., np.newaxis])
        moved = r * delta[:, np.newaxis, :]
        moved = moved + moved.swapaxes(1, 2)
        moved[:, range(self.size), range(self.size)] /= 2.0
        exact: FloatArray = self.xtx - noise + self.xtx_variance * moved
        return exact


def draw_posterior(
    equations: Equations, prior: Prior | None = None, draws: int = 1000, chains: int = 4, seed: Seed = None
) -> CoefficientDraws:
    """Draw from the posterior given what releases or a refinement told: by `sample_posterior` or the one beside it."""
    if equations.standard is None:
        return sample_posterior(Evidence.of(equations), prior, draws, chains, seed)
    return sample_corrected_posterior(equations, prior, draws, chains, seed)


def sample_corrected_posterior(
    equations: Equations, prior: Prior | None = None, draws: int = 1000, chains: int = 4, seed: Seed = None
) -> CoefficientDraws:
    """Draw from the posterior of the coefficients of a refined fit, by Hamiltonian Monte Carlo on `CorrectedModel`.

    Parameters
    ----------
    equations : Equations
        Of a refined fit.
    prior : Prior, optional
        On coefficients of standardised columns: 1 is a deviation of the target by one of the column. That of residuals
        says nothing, as scores tell their variance, which is taken as known.
    draws, chains : int
        Draws per chain, at least 4, and chains, at least 2.
    seed : int or numpy.random.Generator, optional
        Of this local sampling; privacy does not depend on it.

    Returns
    -------
    CoefficientDraws

    Raises
    ------
    ValueError
        When there are too few draws or chains.
    """
    prior = Prior() if prior is None else prior
    check_counts(draws, chains)
    rng, model = np.random.default_rng(seed), CorrectedModel(equations, prior)
    center, factor = model.rough_posterior()
    start = center + rng.normal(size=(chains, model.size)) @ factor.T
    gamma = sample_hmc(model.log_density, start, factor, draws, rng)
    flat = gamma.reshape(-1, model.size)
    shape, rate = model.shape_and_rate(gamma)
    return CoefficientDraws(
        beta=model.units.origin + gamma @ model.units.matrix.T,
        coefficient_precision=rng.gamma(shape, 1.0 / rate),
        rhat=np.array([compute_rhat(gamma[..., j]) for j in range(model.size)]),
        ess=np.array([compute_ess(gamma[..., j]) for j in range(model.size)]),
        sd_ratio=flat.std(axis=0) / prior.coefficient_sd(model.size, constant=True),
        definite_share=float(np.mean(np.linalg.eigvalsh(model.sample_xtx(flat, rng))[:, 0] > 0.0)),
    )
