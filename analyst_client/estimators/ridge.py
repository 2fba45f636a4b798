"""Least squares on a release: as it stands, always solved, or with a fixed penalty."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.linalg import invert_symmetric, is_positive_definite, smallest_eigenvalue
from analyst_client.estimators.linear import LinearFit
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.agreement import average_error, site_error
from analyst_client.inference.equations import Equations
from analyst_client.inference.pooling import own_equations, pool, without_site
from analyst_client.inference.results import Solution
from analyst_client.kinds.gram.release import Release

PenaltyRule = Literal["leave-one-site-out"]
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
            warn_caller(message, EstimationWarning)
        return solve(equations)


class Ridge(LinearFit):
    """Ridge regression with a penalty on the scaled coefficients, never on the constant's.

    Parameters
    ----------
    penalty : float or str
        Penalty λ ≥ 0, in units of the scaled XᵀX, that is in rows; or a rule to choose it, at no further cost:

        ``"leave-one-site-out"``
            The penalty whose fits of all releases but one best predict the one left out, of 25 from 10⁻⁴ to 10 times
            the mean diagonal of XᵀX. Needs several releases.

    Examples
    --------
    >>> from analyst_client import Release, Ridge
    >>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"])
    >>> fit = Ridge(penalty=1.0).fit(release)
    >>> fit.coef_.round(3).tolist(), fit.intercept_
    ([0.2], 0.5)
    """

    def __init__(self, penalty: float | PenaltyRule = 1.0) -> None:
        self.penalty = penalty

    def _solve(self, equations: Equations) -> Solution:
        penalty = choose_penalty(self.penalty, equations)
        self.penalty_ = penalty
        return solve_definite(equations, penalty * equations.penalised)

    def _settled(self) -> dict[str, Any]:
        by_sites = self.fitted_params_["penalty"] == "leave-one-site-out" and isinstance(self.penalty_, float)
        return {"penalty": self.penalty_} if by_sites else {}


@dataclass(frozen=True)
class RidgePath:
    """Ridge fits along a path of penalties.

    Attributes
    ----------
    penalties : ndarray of shape (L,)
    coef : ndarray of shape (L, D')
        Raw units.
    intercept : ndarray of shape (L,)
    term_names : tuple of str
    errors : ndarray of shape (L,)
        Mean squared error at sites that were left out, in squared units of the target; NaN for one release.

    Examples
    --------
    >>> from analyst_client.estimators import ridge_path
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> path = ridge_path(release, penalties=[0.0, 100.0])
    >>> path.term_names, path.coef.shape
    (('age', 'sex[M]', 'creatinine', 'lambda'), (2, 4))
    """

    penalties: FloatArray
    coef: FloatArray
    intercept: FloatArray
    term_names: tuple[str, ...]
    errors: FloatArray


def ridge_path(
    releases: Release | Sequence[Release], penalties: Sequence[float] | None = None, target: str | None = None
) -> RidgePath:
    """Fit ridge regressions along a path of penalties: post-processing, at no further cost.

    Parameters
    ----------
    releases : Release or sequence of Release
        One for each hospital, as for `Ridge.fit`.
    penalties : sequence of float, optional
        Default 25 from 10⁻⁴ to 10 times the mean diagonal of XᵀX, those with a definite matrix.
    target : str, optional
        Needed where there are several.

    Returns
    -------
    RidgePath
        Coefficients at each penalty, with the error at sites left out where there are several releases.

    Raises
    ------
    EstimationError
        When XᵀX with a penalty is not positive definite.
    ValueError
        When it is not said which target, or a penalty is negative.

    Examples
    --------
    >>> from analyst_client.estimators import ridge_path
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> ridge_path(release, penalties=[0.0, 100.0, 1000.0]).coef.round(2).tolist()
    [[0.01, -0.04, 1.11, 0.63], [0.01, 0.07, 0.67, 0.53], [0.01, 0.12, 0.18, 0.21]]
    """
    pooled = pool(releases, target)
    if len(pooled) > 1:
        raise ValueError("a path is of one target: say which")
    (equations,) = pooled
    path = np.asarray(default_penalties(equations) if penalties is None else penalties, dtype=np.float64)
    fits = [Ridge(float(penalty)).fit(releases, target) for penalty in path]
    several = len(equations.sites) > 1
    errors = [left_out_error(equations, float(penalty)) if several else np.nan for penalty in path]
    coef = np.array([fit.coef_ for fit in fits])
    intercepts = np.array([fit.intercept_ for fit in fits], dtype=np.float64)
    return RidgePath(path, coef, intercepts, tuple(fits[0].term_names_), np.array(errors))


def choose_penalty(penalty: float | PenaltyRule, equations: Equations) -> float:
    """Return the penalty, or choose it by rule. Raise `ValueError` for what is neither."""
    if penalty == "leave-one-site-out":
        if len(equations.sites) < 2:
            raise EstimationError("leaving one site out needs several releases: fit on a list of them")
        candidates = default_penalties(equations)
        return float(candidates[int(np.argmin([left_out_error(equations, float(c)) for c in candidates]))])
    if isinstance(penalty, str) or not (math.isfinite(penalty) and penalty >= 0.0):
        (rule,) = get_args(PenaltyRule)
        raise ValueError(
            f"penalty must be finite and not negative, or {rule!r}, not {penalty!r}; EmpiricalBayes shrinks by "
            "how large the coefficients and the noise are"
        )
    return float(penalty)


def default_penalties(equations: Equations) -> FloatArray:
    """Return a path of penalties at which the equations are definite."""
    size = max(float(np.mean(np.diag(equations.xtx))), 1e-300)
    path = size * np.logspace(-4.0, 1.0, 25)
    definite = [is_positive_definite(equations.xtx + np.diag(p * equations.penalised)) for p in path]
    return path[definite] if any(definite) else path[-1:]


def left_out_error(equations: Equations, penalty: float) -> float:
    """Return the mean squared error of fits of all sites but one at the one left out."""
    own = own_equations(equations)
    errors = []
    for k, site in enumerate(own.sites):
        others = without_site(equations, k)
        theta = solve(others, penalty * others.penalised).theta
        errors.append(site_error(site, theta, equations.target.scale))
    return average_error(errors)


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
