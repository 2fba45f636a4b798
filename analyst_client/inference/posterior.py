"""Posterior of a Bayesian linear regression, given noisy sufficient statistics alone.

`sample_posterior` takes the noise into account, `sample_plugin_posterior` takes the statistics for exact. The
derivation is in ``docs/inference.md#posteriors``. The closed form at fixed precisions is in `shrinkage`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.inference.evidence import Evidence
from analyst_client.inference.noise_model import LOG_PRECISION_MAX, NoiseModel, with_one
from analyst_client.inference.prior import Prior
from analyst_client.inference.sampling import compute_ess, compute_rhat, sample_hmc
from analyst_client.inference.shrinkage import PRIOR_DOMINATED

Seed = int | np.random.Generator | None

DEFINITE_SHARE_MIN = 0.5
PLUGIN_WARMUP = 200


@dataclass(frozen=True)
class CoefficientDraws:
    """Draws of coefficients from a posterior, in scaled units, with what they are worth.

    The units are those of the fit; λ and `sd_ratio` are about those of the prior.

    Attributes
    ----------
    beta : ndarray of shape (chains, draws, D)
    coefficient_precision : ndarray of shape (chains, draws)
        λ.
    rhat, ess : ndarray of shape (D,)
        Of each coefficient; see `compute_rhat` and `compute_ess`.
    sd_ratio : ndarray of shape (D,)
        Posterior over prior standard deviation of each coefficient: near 0 the data speak, near 1 the prior.
    definite_share : float
        Share of draws whose exact XᵀX, weighted as releases are, is positive definite, as it must be. The posterior
        does not know that it must: what it misses by that is, in total variation, at most one less this share.
    """

    beta: FloatArray
    coefficient_precision: FloatArray
    rhat: FloatArray
    ess: FloatArray
    sd_ratio: FloatArray
    definite_share: float

    @property
    def prior_dominated(self) -> NDArray[np.bool_]:
        """True for coefficients that the prior determines: for all, if noise outweighs XᵀX in some direction."""
        return (self.sd_ratio > PRIOR_DOMINATED) | (self.definite_share < DEFINITE_SHARE_MIN)


@dataclass(frozen=True)
class PosteriorDraws(CoefficientDraws):
    """Draws of a posterior given releases: coefficients with the residual precision and exact statistics.

    The prior's units are those of `Evidence`.

    Attributes
    ----------
    residual_precision : ndarray of shape (chains, draws)
        τ.
    xtx : ndarray of shape (chains, draws, D, D)
    xty : ndarray of shape (chains, draws, D)
    yty : ndarray of shape (chains, draws)
        The exact statistics; of several releases their sums, in the units of the fit.
    """

    residual_precision: FloatArray
    xtx: FloatArray
    xty: FloatArray
    yty: FloatArray

    def in_units(self, units: FloatArray | None) -> "PosteriorDraws":
        """Return the same draws in other units: terms and target there are `units`, (D + 1, D + 1), times these."""
        if units is None:
            return self
        T, r = units[:-1, :-1], float(units[-1, -1])
        shifted = r * self.beta
        shifted[..., 0] += units[-1, 0]
        top = np.concatenate([self.xtx, self.xty[..., np.newaxis]], axis=-1)
        bottom = np.concatenate([self.xty, self.yty[..., np.newaxis]], axis=-1)
        exact = units @ np.concatenate([top, bottom[..., np.newaxis, :]], axis=-2) @ units.T
        return replace(
            self,
            beta=shifted @ np.linalg.inv(T),
            residual_precision=self.residual_precision / r**2,
            xtx=exact[..., :-1, :-1],
            xty=exact[..., :-1, -1],
            yty=exact[..., -1, -1],
        )


def sample_posterior(
    evidence: Evidence, prior: Prior | None = None, draws: int = 1000, chains: int = 4, seed: Seed = None
) -> PosteriorDraws:
    r"""Draw from the posterior of a Bayesian linear regression, given noisy statistics.

    The model is :math:`y \mid X \sim N(X\beta, 1/\tau)` with the priors of `Prior`, the same β and τ at every hospital;
    of XᵀX nothing is assumed. The noise is taken as Gaussian: for Laplace noise of the same variance the intervals at
    95 % are nearly as good.

    Parameters
    ----------
    evidence : Evidence
    prior : Prior, optional
    draws, chains : int
        Draws per chain, at least 4, and chains, at least 2.
    seed : int or numpy.random.Generator, optional
        Of this local sampling; privacy does not depend on it.

    Raises
    ------
    ValueError
        When there are too few draws or chains.

    Notes
    -----
    Hamiltonian Monte Carlo on the density of `NoiseModel` over (β, log τ), then exact draws of λ and of the statistics
    given them. Where noise outweighs the data the posterior is mostly the prior's: see
    `PosteriorDraws.prior_dominated`, and more draws where `rhat` is above 1.01 or `ess` small.

    Examples
    --------
    >>> from analyst_client.inference.evidence import NoisyMoments
    >>> noise = np.full((2, 2), 25.0), np.full(2, 25.0), 25.0
    >>> moments = NoisyMoments(np.diag([900.0, 300.0]), np.array([90.0, 150.0]), 120.0, *noise)
    >>> posterior = sample_posterior(Evidence((moments,)), seed=1)
    >>> posterior.beta.mean(axis=(0, 1)).round(1).tolist(), posterior.prior_dominated.tolist()
    ([0.1, 0.5], [False, False])
    """
    prior = Prior() if prior is None else prior
    check_counts(draws, chains)
    rng, model = np.random.default_rng(seed), NoiseModel(evidence, prior)
    centre, factor, slope = model.rough_posterior()

    def bend(position: FloatArray) -> FloatArray:
        """Return (β, log τ) for (β - s/τ, log τ)."""
        shift = slope * np.exp(np.minimum(-position[:, -1:], LOG_PRECISION_MAX))
        return np.hstack([position[:, :-1] + shift, position[:, -1:]])

    def log_density(position: FloatArray) -> tuple[FloatArray, FloatArray]:
        bent = bend(position)
        value, gradient = model.log_density(bent)
        gradient[:, -1] -= np.sum(gradient[:, :-1] * (bent - position)[:, :-1], axis=1)
        return value, gradient

    centre[:-1] -= slope * math.exp(-centre[-1])
    start = centre + rng.normal(size=(chains, len(centre))) @ factor.T
    flat = bend(sample_hmc(log_density, start, factor, draws, rng).reshape(-1, len(centre)))
    beta, tau = flat[:, :-1], np.exp(flat[:, -1])
    xtx, xty, yty, definite = model.sample_exact(beta, tau, rng)
    shape, rate = model.shape_and_rate(beta)
    drawn = describe(evidence, prior, (chains, draws), beta, tau, rng.gamma(shape, 1.0 / rate), xtx, xty, yty, definite)
    return drawn.in_units(evidence.units)


def describe(
    evidence: Evidence,
    prior: Prior,
    shape: tuple[int, int],
    beta: FloatArray,
    tau: FloatArray,
    lam: FloatArray,
    xtx: FloatArray,
    xty: FloatArray,
    yty: FloatArray,
    definite: NDArray[np.bool_],
) -> PosteriorDraws:
    """Gather draws, chain by chain, with their diagnostics."""
    d = beta.shape[-1]
    by_chain = beta.reshape(*shape, d)
    return PosteriorDraws(
        beta=by_chain,
        residual_precision=tau.reshape(shape),
        coefficient_precision=lam.reshape(shape),
        xtx=xtx.reshape(*shape, d, d),
        xty=xty.reshape(*shape, d),
        yty=yty.reshape(shape),
        rhat=np.array([compute_rhat(by_chain[..., j]) for j in range(d)]),
        ess=np.array([compute_ess(by_chain[..., j]) for j in range(d)]),
        sd_ratio=beta.std(axis=0) / prior.coefficient_sd(d, evidence.constant),
        definite_share=float(np.mean(definite)),
    )


def sample_plugin_posterior(
    evidence: Evidence, prior: Prior | None = None, draws: int = 1000, chains: int = 4, seed: Seed = None
) -> PosteriorDraws:
    r"""Draw from the posterior that takes noisy statistics for exact: robust private linear regression.

    Parameters
    ----------
    evidence : Evidence
    prior : Prior, optional
        The thesis [1]_ has ``Prior(2.0, 2.0, 2.0, 2.0)``, the default, and no constant.
    draws, chains : int
        Draws per chain, at least 4, and chains, at least 2.
    seed : int or numpy.random.Generator, optional

    Returns
    -------
    PosteriorDraws
        Its exact statistics are the released ones after projection, in every draw.

    Raises
    ------
    ValueError
        When there are too few draws or chains.

    Notes
    -----
    The likelihood is :math:`\tau^{n/2}\exp(-\tfrac\tau2 S(\beta))`, with
    :math:`S(\beta) = \tilde c - 2\tilde b^\top\beta + \beta^\top\tilde A\beta` ([1]_, equation 3.8). So that S is never
    negative and the posterior proper, the noisy :math:`(X, y)^\top(X, y)` is replaced by the nearest positive
    semi-definite matrix; n is at least 1. The thesis fits by ADVI; here Gibbs sampling draws in turn

    .. math:: \beta \sim N(\Sigma\tau\tilde b, \Sigma),\ \Sigma^{-1} = \tau\tilde A + \Lambda; \quad
       \tau \sim \Gamma(a + \tfrac n2, b + \tfrac12 S(\beta)); \quad
       \lambda \sim \Gamma(a_0 + \tfrac d2, b_0 + \tfrac12|\beta|^2).

    Nothing here knows of the noise: intervals are too narrow. Of several releases it takes the weighted sum.

    References
    ----------
    .. [1] A. Nieminen, "Robust private linear regression", 2017, sections 3.2 and 3.7.
    """
    prior = Prior(2.0, 2.0, 2.0, 2.0) if prior is None else prior
    check_counts(draws, chains)
    rng, model = np.random.default_rng(seed), NoiseModel(evidence, prior)
    if any(math.isinf(moments.yty_variance) for moments in evidence.moments):
        raise ValueError("a fit that takes statistics for exact needs yᵀy")
    d, rows = model.size, max(model.rows, 1.0)
    eigenvalues, vectors = np.linalg.eigh(model.noisy)
    exact = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    xtx, xty = exact[:d, :d], exact[:d, d]
    kept = np.empty((draws, chains, d + 2))
    tau, lam = (
        rng.gamma(shape, 1.0 / rate, chains)
        for shape, rate in (
            (prior.residual_shape, prior.residual_rate),
            (prior.coefficient_shape, prior.coefficient_rate),
        )
    )
    for k in range(-PLUGIN_WARMUP, draws):
        information = tau[:, np.newaxis, np.newaxis] * xtx + model.information
        information[:, np.arange(d), np.arange(d)] += prior.precision(lam, d, evidence.constant)
        inverse = np.linalg.inv(np.linalg.cholesky(information))  # Σ = inverseᵀ inverse
        half = tau[:, np.newaxis] * (inverse @ xty) + inverse @ model.vector + rng.normal(size=(chains, d))
        beta = np.einsum("kij,ki->kj", inverse, half)
        gamma = with_one(-beta)
        squares = np.maximum(np.sum(gamma @ exact * gamma, axis=1), 0.0)
        tau = rng.gamma(prior.residual_shape + 0.5 * rows, 1.0 / (prior.residual_rate + 0.5 * squares))
        shape, rate = model.shape_and_rate(beta)
        lam = rng.gamma(shape, 1.0 / rate)
        if k >= 0:
            kept[k] = np.column_stack([beta, tau, lam])
    flat = kept.swapaxes(0, 1).reshape(-1, d + 2)
    count = len(flat)
    statistics = np.tile(xtx, (count, 1, 1)), np.tile(xty, (count, 1)), np.full(count, exact[d, d])
    definite = np.full(count, np.linalg.eigvalsh(xtx)[0] > 0.0)
    drawn = describe(evidence, prior, (chains, draws), flat[:, :d], flat[:, d], flat[:, d + 1], *statistics, definite)
    return drawn.in_units(evidence.units)


def check_counts(draws: int, chains: int) -> None:
    """Raise `ValueError` for fewer draws or chains than diagnostics need."""
    if draws < 4 or chains < 2:
        raise ValueError(f"a posterior needs 4 draws and 2 chains at least, not {draws} and {chains}")
