"""Tests that sites have the same coefficients, and errors of predictions for a site from the other sites."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations, Site
from analyst_client.inference.pooling import own_equations
from analyst_client.inference.quantiles import student_quantile
from analyst_client.inference.score import critical_value, p_value

ROUNDING = 1e-14  # of a scaled target's variance: what is left of a perfect fit


@dataclass(frozen=True)
class HeterogeneityTest:
    """A test that all sites have the same coefficients.

    Attributes
    ----------
    statistic : float
        χ² with `dof` degrees of freedom if they have; F where few public rows take part.
    dof : int
        (K − 1) · D; less where sites do not declare every level.
    pvalue : float
    """

    statistic: float
    dof: int
    pvalue: float


@dataclass(frozen=True)
class SiteError:
    """The error of predictions for the rows of one site, from a fit of the other sites.

    Attributes
    ----------
    dataset : str
    error : float
        Mean squared error over the site's rows, in squared units of the target. Privacy noise may make it negative.
    sd : float
        Standard deviation of the privacy noise in `error`.
    rows : float
        Rows of the site, as the noise tells.
    """

    dataset: str
    error: float
    sd: float
    rows: float


def heterogeneity_test(equations: Equations) -> HeterogeneityTest:
    r"""Test that the sites of a fit have the same coefficients.

    Notes
    -----
    Each site's score :math:`g_k(\theta) = \tilde b_k - \tilde A_k\theta` is centred at the common θ with covariance
    :math:`\Omega_k`, so :math:`\sum_k g_k^\top\Omega_k^{-1}g_k` is χ² with KD degrees of freedom, and with (K − 1)D at
    its minimum over θ. The covariances are those at the pooled fit. A site whose noise hides everything adds nothing
    but degrees of freedom. Public rows take part with the coefficients that they have, not as they are borrowed from.

    Raises
    ------
    EstimationError
        When there is but one site.
    """
    if len(equations.sites) < 2:
        raise EstimationError("heterogeneity needs several releases: fit on a list of them")
    equations.check_unbiased()
    own = own_equations(equations)
    d = len(equations.terms)
    stacked, values, kurtosis, least = [], [], 0.0, max(equations.scale.dof, 1.0)
    for site, told in zip(own.sites, equations.scale.variances, strict=True):
        variance = told if site.variance is None else site.variance
        alone = _alone(equations, site)
        covariance = alone.sampling_covariance(np.array([variance])) + alone.noise_covariance(equations.solution)
        if not float(np.max(np.diag(covariance))) > ROUNDING * float(np.max(np.abs(np.diag(site.xtx)))):
            raise EstimationError(
                f"{site.release.dataset!r} leaves no residual and has no noise: it cannot be compared"
            )
        seen = site.seen.T
        covariance = covariance if not site.gaps else seen @ covariance @ seen.T
        root = np.linalg.cholesky(covariance + np.diag(np.diag(covariance)) * 1e-12)
        whitened = np.asarray(site.directions(np.linalg.solve(root, seen)), dtype=np.float64)
        kurtosis += site.law.joint_fourth_cumulant(whitened, site.own(equations.solution))
        if site.variance is not None:
            least = min(least, (site.rows or 0.0) - d)
        stacked.append(np.linalg.solve(root, seen @ site.xtx))
        values.append(np.linalg.solve(root, seen @ site.xty))
    residual = np.linalg.lstsq(np.concatenate(stacked), np.concatenate(values), rcond=None)
    left = np.concatenate(values) - np.concatenate(stacked) @ residual[0]
    statistic, dof = float(left @ left), len(left) - d
    return HeterogeneityTest(statistic, dof, p_value(statistic, least, kurtosis, dof))


def random_effects(equations: Equations, contrasts: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    r"""Return centers and half lengths of intervals for the mean of contrasts over sites that differ, of shape (P,).

    Raises
    ------
    EstimationError
        When fewer than two hospitals bound their coefficients by themselves, or releases are of the same people.

    Notes
    -----
    A site's coefficients are a draw around a mean, and contrast by contrast this is the usual meta-analysis of the
    sites' own fits :math:`c^\top\hat\theta_k`, with :math:`v_k = c^\top A_k^{-1}\Omega_kA_k^{-1}c`: weights
    :math:`1/(v_k + \tau^2)`, τ² such that the weighted sum of squares is K − 1 [1]_, and Student's quantile with K − 1
    degrees of freedom times the standard error that these squares give, at least the usual one [2]_. Sites whose noise
    leaves a direction open have no fit to average, and are left out; so are sites that lack a level, and public rows,
    which are of no hospital.

    References
    ----------
    .. [1] R. Paule, J. Mandel, "Consensus values and weighting factors", J. Res. NBS 87, 1982.
    .. [2] G. Knapp, J. Hartung, "Improved tests for a random effects meta-regression with a single covariate",
       Statistics in Medicine 22, 2003.
    """
    hospitals = equations.hospitals or equations
    if any(site.overlap > 1 for site in hospitals.sites):
        raise EstimationError("releases of the same people are not several sites: random effects are between sites")
    estimates, variances = [], []
    for site in hospitals.sites:
        if site.gaps:
            continue
        alone = _alone(equations, site)
        if hidden_from(alone, contrasts, level).any():
            continue
        estimates.append(contrasts @ alone.solution)
        variances.append(np.sum((contrasts @ alone.region.covariance()) * contrasts, axis=1))
    if len(estimates) < 2:
        raise EstimationError("random effects need two releases at least that bound their coefficients by themselves")
    found, v, count = np.array(estimates), np.array(variances), len(estimates)

    def squares(spread: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        weights = 1.0 / (v + spread)
        center = np.sum(weights * found, axis=0) / np.sum(weights, axis=0)
        return center, np.sum(weights * (found - center) ** 2, axis=0), np.sum(weights, axis=0)

    low, high = np.zeros(len(contrasts)), count * np.var(found, axis=0)  # at which the sum is at most K
    for _ in range(60):
        middle = (low + high) / 2.0
        above = squares(middle)[1] > count - 1.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    center, left, weight = squares(high)
    half = student_quantile((1.0 - level) / 2.0, count - 1.0) * np.sqrt(np.maximum(left / (count - 1.0), 1.0) / weight)
    return center, half


def hidden_from(alone: Equations, contrasts: FloatArray, level: float) -> NDArray[np.bool_]:
    """Return which contrasts have an interval without an end by the equations of one site, of shape (P,)."""
    strengths = [alone.region_along(contrast[np.newaxis]).strength for contrast in contrasts]
    return np.asarray(np.array(strengths) <= critical_value(level, alone.scale.dof, np.zeros(1))[0], dtype=np.bool_)


def find_hidden(equations: Equations, contrasts: FloatArray, level: float) -> list[NDArray[np.bool_]]:
    """Return of each site which contrasts it does not bound by itself; none of public rows, and of a level it lacks."""
    return [
        np.zeros(len(contrasts), dtype=np.bool_)
        if site.gaps or site.variance is not None
        else hidden_from(_alone(equations, site), contrasts, level)
        for site in own_equations(equations).sites
    ]


def _alone(equations: Equations, site: Site) -> Equations:
    return Equations((site,), np.ones(1), equations.columns, equations.terms, equations.target)


def site_error(site: Site, theta: FloatArray, target_scale: float) -> SiteError:
    """Return how far a fit that has not seen a site is off at it."""
    if site.rows is None or site.rows <= 0.0:
        raise EstimationError(f"{site.release.dataset!r} does not tell of any row: there is nothing to predict")
    scale = target_scale**2 / site.rows
    sd = np.sqrt(site.residual_sum_covariance(theta, theta))
    return SiteError(site.release.dataset, scale * site.residual_sum(theta), float(scale * sd), site.rows)


def average_error(errors: Sequence[SiteError]) -> float:
    """Return the mean squared error over sites, each weighted by what its noise leaves of it."""
    rows = np.array([one.rows for one in errors])
    spread = np.array([one.sd for one in errors])
    typical = max(float(np.median([abs(one.error) for one in errors])), 1e-300)
    weights = 1.0 / (spread**2 + 2.0 * typical**2 / np.maximum(rows, 1.0))
    return float(np.sum(weights * [one.error for one in errors]) / np.sum(weights))
