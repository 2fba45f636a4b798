"""Least squares on a release: as it stands, always solved, or with a fixed penalty."""

import math
import warnings

import numpy as np

from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.base import FloatArray, LinearFit, NormalEquations
from analyst_client.estimators.linalg import is_positive_definite, smallest_eigenvalue, solve_symmetric

WAYS_OUT = (
    "AdaSSP chooses a penalty from the noise; Ridge takes yours; a larger epsilon or fewer features lower the noise"
)


class OLS(LinearFit):
    """Ordinary least squares: the noisy normal equations as they stand.

    Under `ball` rows were weighted, and the fit is weighted least squares.

    Examples
    --------
    >>> from analyst_client import OLS, Release
    >>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"])
    >>> fit = OLS().fit(release)
    >>> fit.coef_.tolist(), fit.intercept_
    ([0.3], 0.5)
    >>> fit.predict([[1.0], [-1.0]]).round(3).tolist()
    [0.8, 0.2]
    """

    def _solve(self, equations: NormalEquations) -> FloatArray:
        self.penalty_ = 0.0
        return solve_definite(equations.xtx, equations.xty)


class SSP(LinearFit):
    """Sufficient statistics perturbation: the equations of `OLS`, solved whatever they are.

    The plain baseline [1]_, [2]_. Where the noisy XᵀX is not positive definite the solution is no minimum of anything
    and may be far off: an `EstimationWarning` says so. Directions without information get a coefficient of 0.

    References
    ----------
    .. [1] D. Vu, A. Slavkovic, "Differential privacy for clinical trial data", 2009.
    .. [2] Y.-X. Wang, "Revisiting differentially private linear regression", arXiv:1803.02596.

    Examples
    --------
    >>> from analyst_client import SSP, Release
    >>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"])
    >>> SSP().fit(release).coef_.tolist()
    [0.3]
    """

    def _solve(self, equations: NormalEquations) -> FloatArray:
        self.penalty_ = 0.0
        if not is_positive_definite(equations.xtx):
            message = f"the noisy XᵀX is not positive definite, so this fit may be far off: {WAYS_OUT}"
            warnings.warn(message, EstimationWarning, stacklevel=3)
        return solve_symmetric(equations.xtx, equations.xty)


class Ridge(LinearFit):
    """Ridge regression with a fixed penalty on the scaled coefficients, never on the constant's.

    Parameters
    ----------
    penalty : float
        λ ≥ 0, in units of the scaled XᵀX, that is in rows.

    Examples
    --------
    >>> from analyst_client import Release, Ridge
    >>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"])
    >>> fit = Ridge(penalty=1.0).fit(release)
    >>> fit.coef_.round(3).tolist(), fit.intercept_
    ([0.2], 0.5)
    """

    def __init__(self, penalty: float = 1.0) -> None:
        self.penalty = penalty

    def _solve(self, equations: NormalEquations) -> FloatArray:
        if not (math.isfinite(self.penalty) and self.penalty >= 0.0):
            raise ValueError(f"penalty must be finite and not negative, not {self.penalty!r}")
        self.penalty_ = float(self.penalty)
        return solve_definite(equations.xtx + np.diag(self.penalty_ * equations.penalised), equations.xty)


def solve_definite(A: FloatArray, B: FloatArray) -> FloatArray:
    """Solve A X = B for a positive definite A. Raise `EstimationError` for another."""
    if not is_positive_definite(A):
        smallest = smallest_eigenvalue(A)
        raise EstimationError(
            f"the noisy XᵀX is not positive definite (smallest eigenvalue {smallest:.4g}): "
            f"the noise outweighs the data in some direction. {WAYS_OUT}"
        )
    return solve_symmetric(A, B)
