"""Checks that released statistics can be sums over rows, up to their noise."""

import math

import numpy as np

from analyst_client.errors import EstimationError
from analyst_client.estimators.linalg import noise_norm_quantile, rounding_level, spectral_scale
from analyst_client.inference.equations import Equations
from analyst_client.inference.evidence import bordered
from analyst_client.kinds.gram.release import Release

FALSE_ALARM = 1e-9


def check_plausible(equations: Equations) -> None:
    """Raise `EstimationError` where a release of a fit cannot be what it says, and name it."""
    several = len(equations.sites) > 1
    for k, site in enumerate(equations.sites):
        release = site.release
        beyond = beyond_noise(release, release.target_names.index(equations.target.name))
        if beyond > 1.0:
            place = f"release {k + 1} of {len(equations.sites)}, of {release.dataset!r}," if several else "the release"
            raise EstimationError(
                f"{place} cannot be sums over rows: (X, y)ᵀ(X, y) has an eigenvalue {beyond:.3g} times as far below 0 "
                "as its stated noise could take it. A number is wrong, or the noise is larger than stated: verify() "
                "it, or leave it out"
            )


def beyond_noise(release: Release, target: int) -> float:
    r"""Return how far the smallest eigenvalue is below 0, over what noise and rounding explain.

    Parameters
    ----------
    release : Release
        With XᵀX and Xᵀy.
    target : int

    Returns
    -------
    float
        Above 1 with probability 10⁻⁹ at most for sums over rows; 0 where no noise is stated to compare with.

    Notes
    -----
    :math:`M = (X, y)^\top(X, y)` is positive semidefinite whatever the rows, their map and their units, so no
    eigenvalue of :math:`M + E` is below the smallest of E. y is taken in units in which its entries of E have no
    larger deviation than those of XᵀX; then `noise_norm_quantile` bounds it. Laplace noise, of heavier tails, is given
    σ ln(1/p) more: √2 times what a single entry exceeds with probability p. Without yᵀy this is asked of XᵀX alone.
    """
    noise = release.noise
    assert release.xtx is not None  # `pool` has looked
    assert release.xty is not None
    if noise.xtx_diagonal is None or not noise.xtx_offdiagonal or noise.xty is None:
        return 0.0
    sigma, noisy = spectral_scale(noise.xtx_diagonal, noise.xtx_offdiagonal), release.xtx
    if release.yty is not None and noise.yty is not None:
        unit = max(noise.xty / sigma, math.sqrt(noise.yty / (math.sqrt(2.0) * sigma))) or 1.0
        noisy = bordered(noisy, release.xty[:, target] / unit, float(release.yty[target]) / unit**2)
    eigenvalues = np.linalg.eigvalsh(noisy)
    explained = noise_norm_quantile(sigma, len(noisy), FALSE_ALARM)
    if "laplace" in noise.distribution:
        explained += sigma * math.log(1.0 / FALSE_ALARM)
    explained += 10.0 * rounding_level(eigenvalues)
    return float(max(-eigenvalues[0], 0.0) / explained)
