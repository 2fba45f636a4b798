"""Two-stage least squares on a Gram."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyst_client.analyses.inversion import likely_variances
from analyst_client.analyses.moments import Moments, make_form
from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.estimators.ridge import OLS
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.score import ScoreRegion, ScoreView, critical_value, p_value
from analyst_client.inference.summary import number, p_text
from analyst_client.inference.units import raw_units
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level

WEAK_F = 10.0
NOTE = (
    "Valid if the instruments act on the target by way of the endogenous columns alone, which no data can show. "
    "Intervals and p-values invert the test of the instruments' score (Fieller): one residual variance, and the "
    "privacy noise."
)


@takes_level
def two_stage_least_squares(
    release: Release,
    target: str,
    endogenous: Sequence[str],
    instruments: Sequence[str],
    exogenous: Sequence[str] = (),
    *,
    level: float = 0.95,
) -> EstimateTable:
    r"""Fit a linear model with instruments for some of its columns.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant, and Xᵀy and yᵀy of the target. Rows not weighted.
    target : str
        A target or a feature.
    endogenous : sequence of str
        Features that explain, and share causes with the target.
    instruments : sequence of str
        Features that act on the endogenous ones, and not on the target otherwise.
    exogenous : sequence of str
        Features that explain, and are their own instruments.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        Labels are the names of the terms, the constant first. The F of each first stage is in the notes.

    Raises
    ------
    EstimationError
        When the release lacks what this needs, rows were weighted, or the noise hides what the instruments do.
    ValueError
        When there are fewer terms of instruments than endogenous ones, a column stands twice, or there is none of it.

    Notes
    -----
    With :math:`P = X^\top Z(Z^\top Z)^{-1}` the coefficients solve :math:`P(Z^\top y - Z^\top X\theta) = 0` (Theil
    1953). At the true θ the noisy score :math:`Z^\top y - Z^\top X\theta` has the mean 0 and the covariance
    :math:`s^2Z^\top Z + C(\theta)`, C being quadratic in θ and known: the confidence set of `OLS`, with other matrices.
    Without noise it is that of 2SLS, :math:`s^2(X^\top P_ZX)^{-1}` with n − k degrees of freedom. The sampling error of
    P and its noise are of second order, which is small where the first stage is strong.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z, hidden = rng.normal(size=(2, 2000))
    >>> x = z + hidden
    >>> y = 0.5 * x + hidden + rng.normal(size=2000)
    >>> X = np.column_stack([np.ones(2000), x, z])
    >>> release = Release.from_arrays(X.T @ X, X.T @ y, y @ y, features=["x", "z"], targets=["y"])
    >>> fit = two_stage_least_squares(release, "y", ["x"], ["z"])
    >>> 0.4 < fit["x"].conf_low < 0.5 < fit["x"].conf_high < 0.6
    True
    """
    named = [*endogenous, *instruments, *exogenous, target]
    if len(set(named)) < len(named) or not endogenous:
        raise ValueError("each column stands once, and one at least is endogenous")
    if release.weights_rows:
        raise EstimationError(
            "rows were weighted by columns that are endogenous, which biases the fit: ask for a release with rows='box'"
        )
    moments = Moments.of(release)
    y, own = moments.index(target), moments.indices(list(exogenous))
    X = [0, *moments.indices(list(endogenous)), *own]
    Z = [0, *moments.indices(list(instruments)), *own]
    if len(Z) < len(X):
        raise ValueError("there are fewer terms of instruments than endogenous ones")
    equations = InstrumentEquations.of(moments, y, X, Z)
    L, offsets = raw_units([moments.variables[j] for j in X], moments.variables[y], release.row_map)
    shadows, spreads = [equations.region(row[np.newaxis]).shadow(row) for row in L], equations.spreads(L)
    kurtosis = equations.excess_kurtosis(L)
    critical = critical_value(level, equations.dof, kurtosis, spreads)
    sets = [shadow.project(k) for shadow, k in zip(shadows, critical.tolist(), strict=True)]
    errors = np.sqrt(np.sum((L @ equations.covariance) * L, axis=1))
    found = []
    for k, (row, one, error, shift) in enumerate(zip(L, sets, errors, offsets.tolist(), strict=True)):
        statistic = shadows[k].statistic(-shift)
        spread = None if spreads is None else spreads[k]
        pvalue = p_value(statistic, equations.dof, float(kurtosis[k]), 1, spread)
        low, high = one.hull
        value = float(row @ equations.theta + shift)
        found.append(Estimate((moments.variables[X[k]].name,), value, float(error), low + shift, high + shift, pvalue))
    stages = _first_stages(release, endogenous, instruments, exogenous)
    notes = (NOTE, *stages, *moments.notes)
    return EstimateTable(f"{target} by two-stage least squares", ("term",), tuple(found), notes, level)


def _first_stages(
    release: Release, endogenous: Sequence[str], instruments: Sequence[str], exogenous: Sequence[str]
) -> list[str]:
    """Test the strength of the instruments for each endogenous column that can be a first stage's target."""
    found = []
    columns = {column.name: column for column in release.features}
    for name in endogenous:
        column = columns.get(name)
        if column is None or column.type == "categorical" or column.missing == "indicator":
            continue
        test = OLS().fit(release, name, features=[*instruments, *exogenous]).f_test(list(instruments))
        weak = "; below 10 they are weak, and the interval may miss" if test.statistic < WEAK_F else ""
        found.append(
            f"First stage of {name}: F({test.constraints}, {test.dof:,.0f}) = {number(test.statistic)}, "
            f"p {p_text(test.pvalue, relation=True)}{weak}."
        )
    return found


@dataclass(frozen=True, eq=False)
class InstrumentEquations:
    r"""The noisy equations :math:`P(Z^\top y - Z^\top X\theta) = 0`, in scaled units.

    Attributes
    ----------
    moments : Moments
    y : int
    X, Z : list of int
        Positions of the terms and of the instruments.
    P : ndarray of shape (len(X), len(Z))
    A : ndarray of shape (len(X), len(X))
    theta : ndarray of shape (len(X),)
    variance, noise_sd : float
        The residual variance, and the deviation of its noise.
    dof : float
    """

    moments: Moments
    y: int
    X: list[int]
    Z: list[int]
    P: FloatArray
    A: FloatArray
    theta: FloatArray
    variance: float
    noise_sd: float
    dof: float

    @classmethod
    def of(cls, moments: Moments, y: int, X: list[int], Z: list[int]) -> "InstrumentEquations":
        """Solve them, and estimate the residual variance: the mean of the noise is taken off."""
        M = moments.matrix
        inverse, _ = moments.regress(Z, [y])
        zx = M[np.ix_(Z, X)]
        P = zx.T @ inverse
        A = P @ zx
        if np.linalg.eigvalsh(A)[0] <= np.finfo(np.float64).eps * 10.0 * np.linalg.eigvalsh(A)[-1]:
            raise EstimationError("the instruments do not determine the coefficients")
        theta = np.asarray(np.linalg.solve(A, P @ M[Z, y]), dtype=np.float64)
        dof = moments.rows - len(X)
        if dof < 1.0:
            raise EstimationError(
                f"the release tells of {moments.rows:.1f} rows, and there are {len(X)} terms: too few"
            )
        residual = _residual(moments, y, X, theta)
        form = make_form(residual, residual)
        spread = np.linalg.solve(A, P)
        both = sorted({*X, *Z})
        noise = moments.noise_of_products(residual, residual, both)
        z, x = [both.index(j) for j in Z], [both.index(j) for j in X]
        fitted = spread @ noise[np.ix_(z, z)] @ spread.T
        taken = 2.0 * np.sum(spread * noise[np.ix_(z, x)].T) - np.sum(M[np.ix_(X, X)] * fitted)
        variance = (moments.value(form) + float(taken)) / dof
        sd = math.sqrt(moments.covariance(form, form)) / dof
        return cls(moments, y, X, Z, P, A, theta, variance, sd, dof)

    @property
    def residual(self) -> FloatArray:
        """Weights of the variables in a row's residual, of shape (P,)."""
        return _residual(self.moments, self.y, self.X, self.theta)

    @property
    def likely_variances(self) -> FloatArray | None:
        """Equally likely residual variances; None where there is no noise in it."""
        return likely_variances(self.variance, self.noise_sd)

    @property
    def sampling(self) -> FloatArray:
        """Sampling covariance of P times the score over the residual variance."""
        return self.P @ self.moments.matrix[np.ix_(self.Z, self.Z)] @ self.P.T

    @property
    def score_covariance(self) -> FloatArray:
        """Covariance of P times the score at the solution."""
        points = self.likely_variances
        assumed = max(self.variance, 0.0) if points is None else float(np.mean(points))
        residual = self.residual
        noise = self.moments.noise_of_products(residual, residual, self.Z)
        return assumed * self.sampling + self.P @ noise @ self.P.T

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the coefficients by the delta method."""
        inverse = np.linalg.inv(self.A)
        return inverse @ self.score_covariance @ inverse.T

    def region(self, contrasts: FloatArray) -> ScoreRegion:
        """Return the region of the values of some linear functions of the coefficients, of shape (q, D)."""
        view = ScoreView(self.A, self.score_covariance)
        form = self._quadratic_form(self.P.T @ view.weights_of(contrasts) @ self.P)
        N = form[np.ix_(self.X, self.X)]
        return ScoreRegion(view, self.theta, N, N @ self.theta - form[self.X, self.y])

    def _quadratic_form(self, weights: FloatArray) -> FloatArray:
        r"""Return Q with :math:`\mathrm{tr}(w\,\mathrm{Cov}(Eb)_Z) = b^\top Qb`, of shape (P, P)."""
        v = np.nan_to_num(self.moments.variances)
        Q = np.diag(np.diag(weights) @ v[self.Z])
        beside = weights * v[np.ix_(self.Z, self.Z)]
        np.fill_diagonal(beside, 0.0)
        Q[np.ix_(self.Z, self.Z)] += beside
        return Q

    def spreads(self, contrasts: FloatArray) -> FloatArray | None:
        """Return likely variances of each contrast over the assumed one, of shape (P, n); None where it is known."""
        points = self.likely_variances
        if points is None:
            return None
        directions = np.linalg.solve(self.A.T, contrasts.T).T
        sampled = np.sum((directions @ self.sampling) * directions, axis=1)
        whole = np.sum((directions @ self.score_covariance) * directions, axis=1)
        spreads: FloatArray = np.maximum(
            1.0 + np.multiply.outer(sampled / whole, points - float(np.mean(points))), 1e-12
        )
        return spreads

    def excess_kurtosis(self, contrasts: FloatArray) -> FloatArray:
        """Return the excess kurtosis of each contrast of the coefficients."""
        found = np.zeros(len(contrasts))
        residual, covariance = self.residual, self.covariance
        for k, row in enumerate(np.linalg.solve(self.A.T, contrasts.T).T @ self.P):
            direction = np.zeros(len(self.moments.variables))
            direction[self.Z] = row
            variance = float(contrasts[k] @ covariance @ contrasts[k])
            found[k] = self.moments.kurtosis(make_form(direction, residual), variance)
        return found


def _residual(moments: Moments, y: int, X: list[int], theta: FloatArray) -> FloatArray:
    residual = np.zeros(len(moments.variables))
    residual[X] = -theta
    residual[y] = 1.0
    return residual
