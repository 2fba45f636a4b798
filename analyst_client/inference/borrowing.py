"""Public rows beside hospitals': how far their coefficients may differ, and what can be borrowed all the same."""

from dataclasses import replace

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations, Site
from analyst_client.inference.quantiles import chi2_quantile

BOUND_FAILS = 0.01


def own_variance(site: Site) -> float:
    """Return the residual variance of public rows, in scaled units.

    Raises
    ------
    EstimationError
        When the rows do not determine a fit of their own, or leave no residual.
    """
    degrees = (site.rows or 0.0) - len(site.xty)
    try:
        theta = np.asarray(np.linalg.solve(site.xtx, site.xty), dtype=np.float64)
        variance = site.residual_sum(theta) / degrees if degrees > 0.0 and not site.gaps else np.nan
    except np.linalg.LinAlgError:
        variance = np.nan
    if not variance > 0.0:
        raise EstimationError(
            "the public rows do not determine a fit of their own: there must be a constant, more rows than terms, "
            "rows of every level, and no term that is a sum of others"
        )
    return float(variance)


def anchored(site: Site, hospitals: Equations) -> Site:
    r"""Return the public site as what it tells of the hospitals' coefficients, which may differ from its own.

    Parameters
    ----------
    site : Site
        Public: without noise, with a residual variance.
    hospitals : Equations
        The hospitals' own, pooled.

    Returns
    -------
    Site
        With fewer rows' worth of information; its score has the covariance s² times its matrix, as before.

    Notes
    -----
    Let the public coefficients be :math:`\theta_U = \theta + \delta`, :math:`\delta \sim N(0, T)` T its covariance.
    Then the public fit tells of θ with covariance :math:`V_U + T`, :math:`V_U = s_U^2A_U^{-1}`, which equations with
    the matrix :math:`A' = s_U^2(V_U + T)^{-1}` and the right side :math:`A'\hat\theta_U` say.

    T is not known, and an estimate that is too small would lend the public rows a voice that they have not earned. So
    it is an upper bound: :math:`T = \mathrm{diag}(\tau^2/S_{jj} + d_j^2) + dd^\top` with S the mean square of each
    term, τ² the largest that the hospitals do not reject, and d the difference of the two fits: against single
    coefficients that differ, and against many that differ a little in one direction, which a sum of them adds up.
    The hospitals' score at the public fit, :math:`g = \tilde b - \tilde A\hat\theta_U`, has the covariance
    :math:`\Omega(\hat\theta_U) + A(V_U + T)A`, so :math:`Q(\tau^2) = g^\top(\cdot)^{-1}g` is χ² with D degrees of
    freedom however weakly the hospitals' own fit is identified, and τ² solves Q = its 1 % quantile.
    """
    d = len(site.xty)
    assert site.variance is not None  # public rows have one
    theta = np.asarray(np.linalg.solve(site.xtx, site.xty), dtype=np.float64)
    inverse = np.asarray(site.variance * np.linalg.inv(site.xtx), dtype=np.float64)
    unit = np.trace(site.xtx) / d if site.rows is None else site.rows
    shape = unit / np.diag(site.xtx)
    A = hospitals.xtx
    covariance = hospitals.sampling_covariance(hospitals.scale.variances) + hospitals.noise_covariance(theta)
    root = np.linalg.cholesky(covariance + A @ inverse @ A.T)
    score = np.linalg.solve(root, hospitals.xty - A @ theta)
    spread = np.linalg.solve(root, A * np.sqrt(shape))
    sizes, vectors = np.linalg.eigh(spread @ spread.T)
    squares = (vectors.T @ score) ** 2
    tau = _largest_spread(squares, np.maximum(sizes, 0.0), chi2_quantile(BOUND_FAILS, d))
    apart = hospitals.solution - theta
    T = np.diag(tau * shape + apart**2) + np.outer(apart, apart)
    information = site.variance * np.linalg.inv(inverse + T)
    information = (information + information.T) / 2.0
    return replace(site, xtx=information, xty=information @ theta)


def _largest_spread(squares: FloatArray, sizes: FloatArray, quantile: float) -> float:
    """Return the τ² at which Σ squares / (1 + τ² sizes) falls to the quantile; 0 when it is below it at once."""
    if np.sum(squares) <= quantile:
        return 0.0
    low, high = 0.0, 1.0 / np.max(sizes)
    while np.sum(squares / (1.0 + high * sizes)) > quantile:
        low, high = high, 2.0 * high
        if not np.isfinite(high):
            return high
    for _ in range(100):
        middle = (low + high) / 2.0
        if np.sum(squares / (1.0 + middle * sizes)) > quantile:
            low = middle
        else:
            high = middle
    return high
