"""Mediation by a product of coefficients."""

import math
from collections.abc import Sequence

import numpy as np

from analyst_client.analyses.advice import fit_notes
from analyst_client.analyses.moments import Moments, make_form
from analyst_client.arrays import FloatArray
from analyst_client.estimators.ridge import OLS
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.results import TargetResults
from analyst_client.inference.score import critical_value, p_value
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level

NOTE = (
    "a: treatment on mediator; b: mediator on target, given the treatment; indirect = ab. Causal only where nothing "
    "else drives mediator and target. Intervals invert the score test (Fieller), that of the indirect effect is the "
    "delta method's (Aroian); sampling error with one residual variance in each model, and the privacy noise."
)


@takes_level
def mediation(
    release: Release,
    target: str,
    treatment: str,
    mediator: str,
    covariates: Sequence[str] = (),
    *,
    level: float = 0.95,
) -> EstimateTable:
    r"""Split the effect of a treatment into a direct one and one by way of a mediator, in linear models.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant, and Xᵀy and yᵀy of the target. Rows not weighted.
    target : str
        A target, or a numeric or boolean feature.
    treatment, mediator : str
        Numeric or boolean features.
    covariates : sequence of str
        Features to hold fixed in both models.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        Labels ``"a"``, ``"b"``, ``"direct"``, ``"total"`` and ``"indirect"``, raw units.

    Raises
    ------
    EstimationError
        When the release lacks what this needs, or rows were weighted by what is a target here.
    ValueError
        When there is no such column.

    Notes
    -----
    The sampling errors of a and b are uncorrelated where the models hold, so :math:`ab` has the variance
    :math:`a^2s_b^2 + b^2s_a^2 + s_a^2s_b^2` (Aroian 1947; Sobel 1982 without the last part). Their privacy noises are
    not: both models have entries of XᵀX in common. So the noise of ab is that of its gradient in all entries.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> m = 0.5 * x + rng.normal(size=500)
    >>> y = 0.4 * m + rng.normal(size=500)
    >>> X = np.column_stack([np.ones(500), x, m])
    >>> release = Release.from_arrays(X.T @ X, X.T @ y, y @ y, features=["x", "m"], targets=["y"])
    >>> round(mediation(release, "y", "x", "m")["indirect"].value, 2)
    0.19
    """
    wanted = {name: column for name in (treatment, mediator) for column in release.features if column.name == name}
    for name in (treatment, mediator):
        if name not in wanted or wanted[name].type == "categorical" or wanted[name].missing == "indicator":
            raise ValueError(f"{name!r} must be a numeric or boolean feature without an indicator of missing values")
    first = OLS().fit(release, mediator, features=[treatment, *covariates])
    second = OLS().fit(release, target, features=[treatment, mediator, *covariates])
    whole = OLS().fit(release, target, features=[treatment, *covariates])
    a, b = (
        _coefficient(fit, name, label, level)
        for fit, name, label in (
            (first, treatment, "a"),
            (second, mediator, "b"),
        )
    )
    direct, total = (
        _coefficient(fit, treatment, label, level) for fit, label in ((second, "direct"), (whole, "total"))
    )
    moments = Moments.of(release)
    noise = b.value * _noise_form(moments, first.results_[0], treatment) + a.value * _noise_form(
        moments, second.results_[0], mediator
    )
    sampled = b.value**2 * _sampling(first.results_[0], treatment) + a.value**2 * _sampling(
        second.results_[0], mediator
    )
    together = (a.std_error * b.std_error) ** 2
    error, value = math.sqrt(sampled + moments.covariance(noise, noise) + together), a.value * b.value
    kurtosis = moments.kurtosis(noise, error**2)
    half = math.sqrt(float(critical_value(level, 1e12, np.array([kurtosis]))[0])) * error
    pvalue = p_value((value / error) ** 2 if error > 0.0 else math.inf, 1e12, kurtosis)
    indirect = Estimate(("indirect",), value, error, value - half, value + half, pvalue)
    notes = (NOTE, *fit_notes(first, second, level=level))
    return EstimateTable(
        f"Effect of {treatment} on {target} by way of {mediator}",
        ("effect",),
        (a, b, direct, total, indirect),
        notes,
        level,
    )


def _coefficient(fit: OLS, name: str, label: str, level: float) -> Estimate:
    (one,) = fit.t_test([[float(other == name) for other in fit.param_names_]], level).estimates
    return Estimate((label,), one.value, one.std_error, one.conf_low, one.conf_high, one.pvalue)


def _sampling(results: TargetResults, name: str) -> float:
    """Return the sampling variance of a coefficient, raw units."""
    equations, j = results.equations, results.names.index(name)
    direction = results.contrasts[j] @ np.linalg.inv(equations.xtx)
    return float(direction @ equations.sampling_covariance(equations.scale.variances) @ direction)


def _noise_form(moments: Moments, results: TargetResults, name: str) -> FloatArray:
    """Return the quadratic form that has the noise of a coefficient to first order, in raw units."""
    equations, j = results.equations, results.names.index(name)
    places = [moments.index(term) for term in results.names]
    direction, residual = np.zeros(len(moments.variables)), np.zeros(len(moments.variables))
    direction[places] = results.contrasts[j] @ np.linalg.inv(equations.xtx)
    residual[places] = -equations.solution
    residual[moments.index(equations.target.name)] = 1.0
    return make_form(direction, residual)
