"""Least squares on a release: as it stands, always solved, or with a fixed penalty."""

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.base import LinearFit
from analyst_client.estimators.linalg import invert_symmetric, is_positive_definite, smallest_eigenvalue
from analyst_client.inference.equations import Equations
from analyst_client.inference.results import Solution

FloatArray = NDArray[np.float64]
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

    def _solve(self, equations: Equations) -> Solution:
        self.penalty_ = 0.0
        return solve_definite(equations)


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

    def _solve(self, equations: Equations) -> Solution:
        self.penalty_ = 0.0
        if not is_positive_definite(equations.xtx):
            message = f"the noisy XᵀX is not positive definite, so this fit may be far off: {WAYS_OUT}"
            warnings.warn(message, EstimationWarning, stacklevel=3)
        return solve(equations)


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

    def _solve(self, equations: Equations) -> Solution:
        if not (math.isfinite(self.penalty) and self.penalty >= 0.0):
            raise ValueError(f"penalty must be finite and not negative, not {self.penalty!r}")
        self.penalty_ = float(self.penalty)
        return solve_definite(equations, self.penalty_ * equations.penalised)


def solve(equations: Equations, penalties: FloatArray | float = 0.0) -> Solution:
    """Solve (XᵀX + diag(penalties)) θ = Xᵀy, definite or not."""
    inverse = invert_symmetric(equations.xtx + np.diag(np.broadcast_to(penalties, len(equations.xty))))
    return Solution(inverse @ equations.xty, inverse)


def solve_definite(equations: Equations, penalties: FloatArray | float = 0.0) -> Solution:
    """Solve them if they are positive definite. Raise `EstimationError` otherwise."""
    matrix = equations.xtx + np.diag(np.broadcast_to(penalties, len(equations.xty)))
    if not is_positive_definite(matrix):
        raise EstimationError(
            f"the noisy XᵀX is not positive definite (smallest eigenvalue {smallest_eigenvalue(matrix):.4g}): "
            f"the noise outweighs the data in some direction. {WAYS_OUT}"
        )
    return solve(equations, penalties)
