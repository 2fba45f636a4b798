"""Standardised regression coefficients."""

import math
from collections.abc import Sequence

import numpy as np

from analyst_client.analyses.advice import fit_notes
from analyst_client.analyses.inversion import normal_quantile
from analyst_client.analyses.moments import Moments, make_form
from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.estimators.ridge import OLS
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level

NOTE = (
    "Intervals: the delta method, sampling error for jointly normal rows and the noise of all moments. p is that of "
    "the coefficient itself (score test)."
)


@takes_level
def standardized_coefficients(
    release: Release,
    target: str | None = None,
    features: Sequence[str] | None = None,
    *,
    level: float = 0.95,
) -> EstimateTable:
    r"""Return the coefficients of least squares in standard deviations of target and terms.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant, and Xᵀy and yᵀy of a target.
    target : str, optional
        A target, or a numeric or boolean feature; needed where there are several targets.
    features : sequence of str, optional
        Columns that explain. Default all but the target.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        Labels are the names of the terms.

    Raises
    ------
    EstimationError
        When the release lacks what this needs, or the noise hides how a term or the target varies.
    ValueError
        When there is no such column.

    Notes
    -----
    :math:`\beta_j^* = \beta_j s_j/s_y`, a smooth function of the moments: its gradient G takes the noise of each entry,
    and the sampling variance of a row's :math:`z^\top Gz` for normal rows [1]_. With one term it is the correlation,
    and that variance :math:`(1 - \rho^2)^2/n`.

    References
    ----------
    .. [1] J. Jones, N. Waller, "Computing confidence intervals for standardized regression coefficients", Psychological
       Methods 18, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.column_stack([np.ones(4), [0.0, 1.0, 2.0, 3.0]]), np.array([1.0, 0.0, 2.0, 4.0])
    >>> round(standardized_coefficients(Release.from_arrays(X.T @ X, X.T @ y, y @ y))["x1"].value, 3)
    0.832
    """
    fit = OLS().fit(release.as_released, target, features=features)
    results = fit._results_of(None)
    results.equations.check_unbiased()
    part = results.equations.sites[0].release
    moments = Moments.of(part if len(part.targets) == 1 else part.select(target=results.equations.target.name))
    y, terms = len(moments.variables) - 1, list(range(1, len(moments.variables) - 1))
    inverse, residuals = moments.regress([0, *terms], [y])
    spreads = moments.residual_products([0], [*terms, y])
    squares = np.diag(spreads.values)
    if not np.all(squares > 0.0):
        raise EstimationError("the noise hides how a term or the target varies, so that nothing can be standardised")
    quantile, found = normal_quantile(level), []
    for k, (j, pvalue) in enumerate(zip(terms, results.pvalues[1:], strict=True)):
        ratio = math.sqrt(squares[k] / squares[-1])
        value = -float(residuals[0, j]) * ratio
        direction = np.zeros(len(moments.variables))
        direction[[0, *terms]] = inverse[k + 1]
        gradient: FloatArray = ratio * make_form(direction, residuals[0]) + value / 2.0 * (
            spreads.forms[k][k] / squares[k] - spreads.forms[-1][-1] / squares[-1]
        )
        variance = float(moments.sampling_covariance([gradient])[0, 0]) + moments.covariance(gradient, gradient)
        error = math.sqrt(max(variance, 0.0))
        name = moments.variables[j].name
        found.append(Estimate((name,), value, error, value - quantile * error, value + quantile * error, float(pvalue)))
    title = f"Standardised coefficients of {results.equations.target.name}"
    return EstimateTable(title, ("term",), tuple(found), (NOTE, *fit_notes(fit, level=level)), level)
