"""Sampling covariances that hold for residuals of any variance, of a noisy Σ g gᵀ."""

import math
from dataclasses import replace

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations, Site
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.two_steps import ROBUST_SHARE
from analyst_client.kinds.score.release import ScoreRelease

NORM_LEAST, NORM_MOST = 2.5, 7.0
"""Norm of gradients over s√d: below the least it would clip those of even residuals, above the most hardly any."""
AFFORDED = 0.15
"""Noise in an entry of the whitened Σ g gᵀ over its mean, up to which a longer norm is taken."""
_UNEVEN = 0.5
"""Deviation that an entry of the whitened Σ g gᵀ is expected to have from one residual variance, relative to it."""


def norm_in_deviations(rows: float, d: int, mu: float) -> float | None:
    r"""Return the norm C of gradients over :math:`s\sqrt d`; None where Σ g gᵀ would tell too little.

    Parameters
    ----------
    rows : float
    d : int
        Terms, the constant included.
    mu : float
        Of the step.

    Notes
    -----
    Whitened, Σ g gᵀ is about :math:`ns^2` on its diagonal, with noise of :math:`C^2/\mu`: of
    :math:`(C^2/s^2d)\,d/(n\mu)` over its mean.
    """
    affordable = max(rows, 0.0) * mu / d * AFFORDED
    return None if affordable < NORM_LEAST**2 else min(math.sqrt(affordable), NORM_MOST)


def affords_meat(release: Release) -> bool:
    """Return whether Σ g gᵀ would tell enough at the price of a release; also where that is not known."""
    cost = release.cost
    if cost is None or release.xtx is None or not release.has_constant:
        return True
    mu = cost.mu if cost.mu is not None else math.sqrt(2.0 * (cost.rho or 0.0))
    part = mu * math.sqrt(ROBUST_SHARE / (1.0 - ROBUST_SHARE))
    return norm_in_deviations(float(release.xtx[0, 0]), len(release.terms), part) is not None


def steadied(H: FloatArray, expected: FloatArray, noise: float, least: float) -> tuple[FloatArray, float]:
    """Return Σ g gᵀ without what noise alone would show, semidefinite; and the residual variance.

    It is moved towards that of one residual variance by as much as its noise outweighs how uneven it is expected to be,
    and larger by the deviation that is left.

    Parameters
    ----------
    H : ndarray of shape (k, k)
        As it was released, through directions that whiten XᵀX.
    expected : ndarray of shape (k, k)
        XᵀX through these directions.
    noise : float
        Variance of the noise in one of its entries.
    least : float
        Residual variance that is believed at the least.
    """
    variance = max(float(np.trace(H)) / float(np.trace(expected)), least)
    even = variance * expected
    prior = (_UNEVEN * float(np.trace(even)) / len(even)) ** 2
    believed = prior / (prior + noise)
    H = even + believed * (H - even) + math.sqrt(noise * believed) * np.eye(len(H))
    eigenvalues, Q = np.linalg.eigh((H + H.T) / 2.0)
    steady: FloatArray = (Q * np.maximum(eigenvalues, 0.1 * np.mean(np.diag(even)))) @ Q.T
    return steady, variance


def find_meat(release: Release, target: str) -> ScoreRelease | None:
    """Return the step that has Σ g gᵀ of exactly this model: of all terms of the release, and this target."""
    for step in release.steps:
        if step.meat is not None and step.target.name == target:
            return step if {term.name for term in step.terms} == set(release.term_names) else None
    return None


def with_meat(site: Site, own: Equations) -> Site:
    """Return a site whose sampling covariance is made of its release's Σ g gᵀ, if it has one of this model.

    Parameters
    ----------
    site : Site
    own : Equations
        Of this site alone.
    """
    step = find_meat(site.release, own.target.name)
    if step is None or site.gaps:
        return site
    try:
        variance = float(own.scale.variances[0])
    except EstimationError:
        return site
    if variance <= 0.0:
        return site
    assert step.meat is not None
    assert site.release.xtx is not None
    places = {term.name: j for j, term in enumerate(step.terms)}
    directions = step.directions[[places[name] for name in site.release.term_names]]
    expected = directions.T @ site.release.xtx @ directions
    sd = step.noise.meat_diagonal or 0.0
    steady, _ = steadied(step.meat, expected, sd**2, 0.25 * variance / site.target_scale**2)
    back = site.to_common @ np.linalg.inv(directions).T * site.target_scale
    return replace(site, spread=back @ steady @ back.T / variance)
