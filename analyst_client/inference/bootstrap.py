"""The parametric bootstrap: what the equations' solution would do under fresh rows and fresh noise."""

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.equations import Equations

DRAWS = 2000


def bootstrap_solutions(equations: Equations, draws: int = DRAWS, seed: int = 0) -> FloatArray:
    r"""Solve the equations again and again, with noise drawn anew around the estimated statistics.

    Parameters
    ----------
    equations : Equations
    draws : int
    seed : int
        The same seed gives the same intervals; no privacy depends on it.

    Returns
    -------
    ndarray of shape (draws, D)

    Notes
    -----
    :math:`A^* = A + E^*` and :math:`b^* = A\hat\theta + z + e^*` with A the nearest positive semidefinite matrix to the
    pooled one, :math:`z \sim N(0, \Omega_{sampling})` and noise of the released law. The solution depends on the noise
    only through :math:`e^* - E^*\hat\theta` and E*.
    """
    generator = np.random.default_rng(seed)
    theta, d = equations.solution, len(equations.solution)
    eigenvalues, vectors = np.linalg.eigh(equations.xtx)
    xtx = np.broadcast_to((vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T, (draws, d, d)).copy()
    eigenvalues, vectors = np.linalg.eigh(equations.sampling_covariance(equations.scale.variances))
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    score = generator.standard_normal((draws, d)) @ root.T
    for weight, site in zip(equations.weights, equations.sites, strict=True):
        noise, cross = site.law.draw(generator, draws)
        own = site.target_scale * (cross - noise @ site.own(theta))
        score += weight * own @ site.to_common.T
        xtx += weight * (site.to_common @ noise @ site.to_common.T)
    solved: FloatArray = theta + np.linalg.solve(xtx, score[:, :, np.newaxis])[:, :, 0]
    return solved
