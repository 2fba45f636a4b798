"""Shrinkage that knows the noise: a normal prior, and the posterior under it in closed form."""

import math
from numbers import Real
from typing import ClassVar

from analyst_client.arrays import FloatArray
from analyst_client.estimators.linear import LinearFit
from analyst_client.inference.equations import Equations
from analyst_client.inference.results import Solution
from analyst_client.inference.shrinkage import normal_posterior

PRECISION_MIN = 1e-12


class EmpiricalBayes(LinearFit):
    """Least squares, shrunk direction by direction by how far the data are above the noise: a Wiener filter.

    It is the mean of a posterior that is known in closed form. There is nothing to choose: the prior's variance is
    averaged out by the likelihood of the release, and the noise is what the curator states; see
    `analyst_client.inference.shrinkage.normal_posterior`. The constant is not shrunk.

    Credible intervals, ``conf_int(method="posterior")``, take the posterior as normal and the residual variance for
    known: where the release leaves that uncertain, those of `BayesianRegression` are the better ones. Where the
    posterior is mostly the prior's they miss much, and `conf_int` warns: of real sets' coefficients they held 0.75
    there. As an estimate it was better than `AdaSSP` from some 4,000 rows on, and not below: docs/inference.md.

    Parameters
    ----------
    residual_precision, coefficient_precision : float, optional
        Of a residual, and of the prior of each coefficient beside the constant, in scaled units. Default what the
        release makes of them.

    Attributes
    ----------
    prior_variance_ : float or ndarray of shape (T,)
        τ² of a scaled coefficient, 1 over its precision: the likeliest, where it is not stated.
    residual_variance_ : float or ndarray of shape (T,)
        Of a scaled target: 1 over its precision.
    posterior_cov_ : ndarray of shape (D, D) or (T, D, D)
        Covariance of the scaled coefficients under the posterior.

    Examples
    --------
    >>> from analyst_client import EmpiricalBayes, Release
    >>> release = Release.from_arrays(
    ...     [[300.0, 0.0], [0.0, 20.0]], [150.0, 6.0], 90.0, features=["age"], noise=3.0)
    >>> fit = EmpiricalBayes().fit(release)
    >>> fit.coef_.round(2).tolist(), round(fit.intercept_, 2)
    ([0.26], 0.5)
    """

    _target_attributes: ClassVar[tuple[str, ...]] = (
        "penalty_",
        "prior_variance_",
        "residual_variance_",
        "posterior_cov_",
    )

    prior_variance_: "float | FloatArray"
    residual_variance_: "float | FloatArray"
    posterior_cov_: FloatArray

    def __init__(self, residual_precision: float | None = None, coefficient_precision: float | None = None) -> None:
        self.residual_precision = residual_precision
        self.coefficient_precision = coefficient_precision

    def _solve(self, equations: Equations) -> Solution:
        posterior = normal_posterior(
            equations,
            _variance("residual_precision", self.residual_precision),
            _variance("coefficient_precision", self.coefficient_precision),
        )
        self.prior_variance_ = posterior.prior_variance
        self.residual_variance_ = posterior.residual_variance
        self.posterior_cov_ = posterior.covariance
        self.penalty_ = 0.0
        return Solution(posterior.mean, posterior.inverse, posterior=posterior)


def _variance(name: str, precision: float | None) -> float | None:
    """Return 1 over a precision. Raise `ValueError` when it is none."""
    if precision is None:
        return None
    stated = isinstance(precision, Real) and not isinstance(precision, bool)
    if not (stated and math.isfinite(precision) and PRECISION_MIN <= precision <= 1.0 / PRECISION_MIN):
        raise ValueError(f"{name} must be positive, from 1e-12 to 1e12, not {precision!r}")
    return 1.0 / precision
