"""Confidence regions and tests that invert the score test: Fieller's method for noisy normal equations."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.quantiles import f_tail, student_quantile, student_tails

MULTIPLIER_STEPS = 40
BOUND_SLACK = 1e-4  # far above rounding errors, which would otherwise decide where a bound is reached exactly


@dataclass(frozen=True)
class ConfidenceSet:
    """The values of one number that a test does not reject.

    Attributes
    ----------
    kind : str
        ``"interval"``: from `lower` to `upper`. ``"rays"``: all but the open gap between `lower` and `upper`.
        ``"line"``: every value.
    lower, upper : float
    """

    kind: Literal["interval", "rays", "line"]
    lower: float
    upper: float

    @property
    def is_bounded(self) -> bool:
        """True if the set is an interval."""
        return self.kind == "interval"

    @property
    def hull(self) -> tuple[float, float]:
        """The smallest interval that holds it."""
        return (self.lower, self.upper) if self.is_bounded else (-np.inf, np.inf)

    def cut(self, lower: float, upper: float) -> tuple[float, float]:
        """Return the smallest interval that holds its values from `lower` to `upper`; ends in wrong order for none.

        Examples
        --------
        >>> ConfidenceSet("interval", 0.0, 2.0).cut(-1.0, 1.0), ConfidenceSet("rays", 0.0, 2.0).cut(-1.0, 1.0)
        ((0.0, 1.0), (-1.0, 0.0))
        """
        if self.kind == "interval":
            return max(lower, self.lower), min(upper, self.upper)
        if self.kind == "rays":
            return lower if lower <= self.lower else max(lower, self.upper), (
                upper if upper >= self.upper else min(upper, self.lower)
            )
        return lower, upper

    def __contains__(self, value: float) -> bool:
        """Return whether a value is not rejected."""
        if self.kind == "interval":
            return bool(self.lower <= value <= self.upper)
        return self.kind == "line" or bool(value <= self.lower or value >= self.upper)


@dataclass(frozen=True, eq=False)
class StatedBounds:
    r"""Bounds of the coefficients, stated by an analyst.

    Attributes
    ----------
    rows : ndarray of shape (m, D)
        r.
    offsets : ndarray of shape (m,)
        o.
    groups : ndarray of int, of shape (m,)
        In each group :math:`\sum_j(r_j^\top\theta + o_j)^2 \le 1`.
    """

    rows: FloatArray
    offsets: FloatArray
    groups: NDArray[np.int64]


class ScoreView:
    r"""The score's coefficients A and its covariance W at the solution, and which part of it tells of what.

    Parameters
    ----------
    A : ndarray of shape (D, D)
        Noisy, invertible.
    W : ndarray of shape (D, D)
        Positive semidefinite.

    Raises
    ------
    EstimationError
        When W is 0.

    Attributes
    ----------
    basis : ndarray of shape (D, D)
        :math:`A^{-1}L` with :math:`W = LL^\top`.
    """

    def __init__(self, A: FloatArray, W: FloatArray) -> None:
        if not float(np.max(np.diag(W))) > 0.0:
            raise EstimationError("the fit leaves no residual and has no noise: there is nothing to be uncertain about")
        self._root = np.linalg.cholesky(W + np.diag(np.diag(W) * 1e-14))
        self.basis = np.linalg.solve(A, self._root)

    def weights_of(self, contrasts: FloatArray | None = None) -> FloatArray:
        r"""Return Z with :math:`\omega(\theta) = \mathrm{tr}(Z\Omega(\theta))`: the noise in what tells of contrasts.

        Parameters
        ----------
        contrasts : ndarray of shape (q, D), optional
            C, of full row rank. Default all coefficients.

        Notes
        -----
        :math:`C\theta` is told by :math:`U^\top g` with :math:`U = A^{-\top}C^\top`, so
        :math:`Z = U(U^\top WU)^{-1}U^\top/q`: for one contrast ω is exact in its direction, for all D it is
        :math:`W^{-1}/D`, the mean over directions. That mean would hide the noise along a direction of which the rows
        say little, beside others in which sampling error is the larger. With :math:`a = B^\top C^\top` of the basis B,
        :math:`L^\top U = a`.
        """
        a = np.eye(len(self._root)) if contrasts is None else (contrasts @ self.basis).T
        Q = np.linalg.qr(a)[0]  # an orthonormal base of what a spans
        U = np.linalg.solve(self._root.T, Q)
        weights: FloatArray = U @ U.T / U.shape[1]
        return weights


class ScoreRegion:
    r"""All θ whose score :math:`g(\theta) = b - A\theta` is no larger than its noise explains.

    Parameters
    ----------
    view : ScoreView
        A and W.
    theta : ndarray of shape (D,)
        The solution of :math:`A\theta = b`.
    N : ndarray of shape (D, D)
    slope : ndarray of shape (D,)
        The size of the score's noise at :math:`\theta + \delta`, relative to that at `theta`:
        :math:`\omega = 1 + 2\,\mathrm{slope}^\top\delta + \delta^\top N\delta`, N positive semidefinite.

    Attributes
    ----------
    strength : float
        Largest critical value at which the region is bounded; infinite without noise in A.

    Notes
    -----
    The covariance of the score is a quadratic function of θ. It is taken as :math:`\omega(\theta)W`, with
    :math:`\omega(\theta) = \mathrm{tr}(Z\Omega(\theta))` of the part of the score that is asked about (`ScoreView`).
    Then the region at the critical value k

    .. math:: \{\theta : g(\theta)^\top W^{-1} g(\theta) \le k\,\omega(\theta)\}

    is a quadric, and the values of :math:`c^\top\theta` in it are those whose score statistic, minimised over all
    other coefficients, is at most k: the subset test of Guggenberger, Kleibergen, Mavroeidis and Chen [1]_, with one
    degree of freedom. In coordinates :math:`\delta = B\eta` in which :math:`A^\top W^{-1}A` is the identity and N is
    diagonal (μ), the region is :math:`\sum(1 - k\mu_i)\eta_i^2 - 2k\,p^\top\eta \le k`, so every interval is closed
    form. It is bounded exactly when :math:`k\mu_{\max} < 1`. Without noise in A it is the ellipsoid of least squares.

    References
    ----------
    .. [1] P. Guggenberger, F. Kleibergen, S. Mavroeidis, L. Chen, "On the asymptotic sizes of subset Anderson-Rubin
       and Lagrange multiplier tests in linear instrumental variables regression", Econometrica 80, 2012.
    """

    def __init__(self, view: "ScoreView", theta: FloatArray, N: FloatArray, slope: FloatArray) -> None:
        self.theta, basis = theta, view.basis
        self._mu, rotation = np.linalg.eigh(basis.T @ N @ basis)
        self._mu = np.maximum(self._mu, 0.0)
        self._basis = basis @ rotation
        self._slope = self._basis.T @ slope
        self.strength = float(1.0 / self._mu[-1]) if self._mu[-1] > 0.0 else np.inf

    def shadow(self, contrast: FloatArray) -> "Shadow":
        """Return what the region says of one linear function of θ, without the region."""
        return Shadow(float(contrast @ self.theta), contrast @ self._basis, self._mu, self._slope)

    def weakest_direction(self) -> FloatArray:
        """Return the direction in θ, of shape (D,), in which the region first becomes unbounded."""
        direction: FloatArray = self._basis[:, -1]
        return direction

    def covariance(self) -> FloatArray:
        r"""Return :math:`A^{-1}WA^{-\top}`, of shape (D, D)."""
        covariance: FloatArray = self._basis @ self._basis.T
        return covariance

    def project(self, contrasts: FloatArray, critical: FloatArray) -> list[ConfidenceSet]:
        r"""Return the confidence set of :math:`c^\top\theta` for each contrast c.

        Parameters
        ----------
        contrasts : ndarray of shape (P, D)
        critical : ndarray of shape (P,)
            Critical value of each one's statistic.
        """
        return [self.shadow(c).project(k) for c, k in zip(contrasts, critical.tolist(), strict=True)]

    def outer_intervals(self, contrasts: FloatArray, critical: float, bounds: "StatedBounds") -> FloatArray | None:
        r"""Return intervals that hold :math:`c^\top\theta` of every θ in the region that obeys stated bounds.

        Parameters
        ----------
        contrasts : ndarray of shape (P, D)
        critical : float
            Of the joint statistic of all D coefficients.
        bounds : StatedBounds

        Returns
        -------
        ndarray of shape (P, 2), or None
            Infinite where nothing was found that bounds an end; None where no θ of the region obeys the bounds.

        Notes
        -----
        With :math:`q_0(\theta) \le 0` the region and :math:`q_j(\theta) \le 0` the bounds, a θ that obeys all
        of them has :math:`q_0 + \sum\lambda_jq_j \le 0` for every :math:`\lambda \ge 0` (the S-procedure [2]_).
        Where that quadric is an ellipsoid its shadow is closed form, and holds what is asked: the search for good
        multipliers, one end at a time, can only make an interval shorter, never wrong. It begins at the best common
        multiplier. An end moves with :math:`\log\lambda_j` as :math:`\lambda_jq_j` at the point of
        the ellipsoid that is farthest out, so multipliers of bounds that are broken there grow, and others shrink.

        References
        ----------
        .. [2] S. Boyd, L. Vandenberghe, "Convex optimization", 2004, appendix B.
        """
        a = np.concatenate([contrasts, -contrasts]) @ self._basis
        u = (1.0 - BOUND_SLACK) * bounds.rows @ self._basis
        t = (1.0 - BOUND_SLACK) * (bounds.rows @ self.theta + bounds.offsets)
        member = (bounds.groups[:, np.newaxis] == np.unique(bounds.groups)).astype(np.float64)
        size = float(np.sum(self._mu) / np.sum(u**2)) + 1.0 / critical
        multipliers = np.empty((len(a), member.shape[1]))
        best = np.full(len(a), np.inf)
        for common in critical * size * np.logspace(-6.0, 6.0, 49):
            tried = np.full((1, member.shape[1]), common)
            out = self._farthest(a, critical, u, t, member, tried)
            if out is None:
                return None
            multipliers = np.where((out[0] < best)[:, np.newaxis], tried, multipliers)
            best = np.minimum(best, out[0])
        found = np.isfinite(best)
        tried = multipliers[found]
        for _ in range(MULTIPLIER_STEPS if found.any() else 0):
            out = self._farthest(a[found], critical, u, t, member, tried)
            if out is None:
                return None
            best[found] = np.minimum(best[found], out[0])
            tried = tried * np.clip(out[1], 0.1, 10.0)
        ends = best.reshape(2, -1) * [[1.0], [-1.0]] + contrasts @ self.theta
        return ends[::-1].T

    def _farthest(
        self,
        a: FloatArray,
        critical: float,
        u: FloatArray,
        t: FloatArray,
        member: FloatArray,
        multipliers: FloatArray,
    ) -> tuple[FloatArray, FloatArray] | None:
        r"""Return how far :math:`a^\top\eta` goes on ellipsoids of `outer_intervals`, and the bounds' sizes there.

        Of shapes (n,) and (n, G), for multipliers of shape (n, G) or (1, G); infinite where there is no ellipsoid, None
        where one is empty.
        """
        rows = multipliers @ member.T
        form = np.einsum("nj,ji,jk->nik", rows, u, u)
        form[:, np.arange(len(self._mu)), np.arange(len(self._mu))] += 1.0 - critical * self._mu
        eigenvalues, vectors = np.linalg.eigh(form)
        definite = eigenvalues[:, 0] > 1e-10 * eigenvalues[:, -1]
        root = vectors / np.sqrt(np.where(definite[:, np.newaxis], eigenvalues, 1.0))[:, np.newaxis, :]
        inverse = root @ root.swapaxes(1, 2)
        center = np.einsum("nij,nj->ni", inverse, critical * self._slope - (rows * t) @ u)
        allowed = critical * (1.0 + center @ self._slope * 2.0 + center**2 @ self._mu) - np.sum(center**2, axis=1)
        over = (center @ u.T + t) ** 2 @ member - 1.0
        radius = allowed - np.sum(multipliers * over, axis=1)
        if np.any(definite & (radius < -1e-9 * (critical + np.sum(multipliers * np.abs(over), axis=1)))):
            return None
        direction = np.einsum("nij,nj->ni", inverse, np.broadcast_to(a, (max(len(a), len(form)), a.shape[1])))
        width = np.sum(direction * a, axis=1)
        radius = np.maximum(radius, 0.0)
        far = center + direction * np.sqrt(radius / np.where(width > 0.0, width, 1.0))[:, np.newaxis]
        reach = np.where(definite, np.sum(center * a, axis=1) + np.sqrt(radius * width), np.inf)
        return reach, np.sqrt((far @ u.T + t) ** 2 @ member)

    def statistic(self, contrasts: FloatArray, values: FloatArray) -> float:
        r"""Return the score statistic of the hypothesis :math:`C\theta = r`, minimised over all that it leaves open.

        Parameters
        ----------
        contrasts : ndarray of shape (q, D)
            C, of full row rank.
        values : ndarray of shape (q,)

        Notes
        -----
        The minimum of a ratio of two quadratics is a smallest generalised eigenvalue. For q = 1 the statistic is at
        most k exactly where `project` keeps the value at the critical value k.
        """
        return _least_statistic(contrasts @ self._basis, values - contrasts @ self.theta, self._mu, self._slope)


@dataclass(frozen=True, eq=False)
class Shadow:
    r"""The projection of a `ScoreRegion` on one linear function t of θ, in O(D) numbers.

    Attributes
    ----------
    center : float
        t at the solution.
    a : ndarray of shape (D,)
        t − center in the region's coordinates η.
    mu, slope : ndarray of shape (D,)
        The region's.
    """

    center: float
    a: FloatArray
    mu: FloatArray
    slope: FloatArray

    @property
    def strength(self) -> float:
        """Largest critical value at which the set of t is bounded."""
        return float(1.0 / self.mu[-1]) if self.mu[-1] > 0.0 else np.inf

    def project(self, critical: float) -> ConfidenceSet:
        r"""Return the confidence set: (t − c)² ≤ radius · width, where the other coefficients leave it one."""
        stretch = 1.0 - critical * self.mu
        with np.errstate(divide="ignore", invalid="ignore"):
            center = self.center + float(np.sum(self.a * critical * self.slope / stretch))
            radius = critical + float(np.sum((critical * self.slope) ** 2 / stretch))
            width = float(np.sum(self.a**2 / stretch))
        return _one_set(center, radius, width, int(np.sum(stretch <= 0.0)))

    def statistic(self, value: float) -> float:
        """Return the statistic of a value of t, at most k exactly where `project` keeps it at the critical value k."""
        return _least_statistic(self.a[np.newaxis], np.array([value - self.center]), self.mu, self.slope)


def _least_statistic(a: FloatArray, distance_to: FloatArray, mu: FloatArray, slope: FloatArray) -> float:
    """Return the least statistic over η with a η = r, for a of shape (q, D)."""
    whole, triangle = np.linalg.qr(a.T, mode="complete")
    q = len(a)
    particular = whole[:, :q] @ np.linalg.solve(triangle[:q].T, distance_to)
    distance = float(np.linalg.norm(particular))
    if distance == 0.0:
        return 0.0
    free = whole[:, q:]
    noise = np.empty((free.shape[1] + 1, free.shape[1] + 1))
    noise[:-1, :-1] = free.T @ (mu[:, np.newaxis] * free)
    noise[:-1, -1] = noise[-1, :-1] = free.T @ (mu * particular + slope) / distance
    noise[-1, -1] = (1.0 + 2.0 * slope @ particular + mu @ particular**2) / distance**2
    largest = float(np.linalg.eigvalsh(noise)[-1])
    return 1.0 / largest if largest > 0.0 else np.inf


def _one_set(center: float, radius: float, width: float, negative: int) -> ConfidenceSet:
    """Solve one quadratic: (t − center)² ≤ radius · width, where the other coefficients leave it one."""
    if negative == 0:
        half = float(np.sqrt(max(radius * width, 0.0)))
        return ConfidenceSet("interval", center - half, center + half)
    if negative == 1 and width < 0.0 and radius < 0.0:
        half = float(np.sqrt(radius * width))
        return ConfidenceSet("rays", center - half, center + half)
    return ConfidenceSet("line", -np.inf, np.inf)


def critical_value(
    level: float, dof: float, excess_kurtosis: FloatArray, spreads: FloatArray | None = None
) -> FloatArray:
    r"""Return the critical values of score statistics with one degree of freedom.

    Parameters
    ----------
    level : float
        Of the confidence sets; the test that they invert has the size α, 1 less it.
    dof : float
        Residual degrees of freedom.
    excess_kurtosis : ndarray of shape (P,)
        Of the score in the direction of each contrast.
    spreads : ndarray of shape (P, n), optional
        Equally likely values of each statistic's true variance over the assumed one. Default it is known.

    Notes
    -----
    The square of Student's quantile z, moved by the Cornish-Fisher term of a symmetric law,
    :math:`z + \kappa(z^3 - 3z)/24`. For a single Laplace variable (κ = 3) at α = 0.05 that is 2.166, and the exact
    quantile 2.118, the normal one is 1.960. With uncertain variances it is where the mean of `p_value` over them is α.

    Examples
    --------
    >>> critical_value(0.95, 1e9, np.array([0.0, 3.0])).round(3).tolist()
    [3.841, 4.692]
    >>> critical_value(0.95, 1e9, np.zeros(1), np.array([[0.5, 1.5]])).round(2).tolist()
    [4.15]
    """
    z = student_quantile((1.0 - level) / 2.0, dof)
    known: FloatArray = (z + excess_kurtosis * (z**3 - 3.0 * z) / 24.0) ** 2
    if spreads is None:
        return known
    low, high = known * np.min(spreads, axis=1), known * np.max(spreads, axis=1)

    def lacking(value: FloatArray) -> FloatArray:
        roots = cornish_fisher_root(np.sqrt(value[:, np.newaxis] / spreads), excess_kurtosis[:, np.newaxis])
        over: FloatArray = np.log(np.maximum(2.0 * np.mean(student_tails(roots, dof), axis=1), 1e-300) / (1.0 - level))
        return over

    at_low, at_high = lacking(low), lacking(high)
    found: FloatArray = high
    side = np.zeros(len(high))
    for _ in range(50):  # false position on the logarithm, which is nearly straight; an end that stays twice is halved
        gap = at_low - at_high
        found = np.where(gap > 0.0, low + (high - low) * at_low / np.where(gap > 0.0, gap, 1.0), high)
        at_found = lacking(found)
        if np.all((np.abs(at_found) <= 1e-9) | (high - low <= 1e-12 * high)):
            break
        above = at_found > 0.0
        at_high = np.where(above & (side > 0.0), at_high / 2.0, at_high)
        at_low = np.where(~above & (side < 0.0), at_low / 2.0, at_low)
        low, at_low = np.where(above, found, low), np.where(above, at_found, at_low)
        high, at_high = np.where(above, high, found), np.where(above, at_high, at_found)
        side = np.where(above, 1.0, -1.0)
    return found


def p_value(
    statistic: float,
    dof: float,
    excess_kurtosis: float = 0.0,
    constraints: int = 1,
    spreads: FloatArray | None = None,
) -> float:
    r"""Return the size at which `critical_value` equals the statistic; for several constraints, that of an F-test.

    There `excess_kurtosis` is that of the whole sum of squares, :math:`\sum_{ij}\mathrm{cum}(i, i, j, j)`: the law is
    taken as a multiple of one with fewer degrees of freedom, which has the same mean and variance.
    """
    if np.isinf(statistic):
        return 0.0
    ratios = statistic / (np.ones(1) if spreads is None else spreads)
    if constraints > 1:
        fewer = constraints / (1.0 + excess_kurtosis / (2.0 * constraints))
        return float(np.mean([f_tail(float(ratio) / constraints, fewer, dof) for ratio in ratios]))
    return float(2.0 * np.mean(student_tails(cornish_fisher_root(np.sqrt(ratios), np.asarray(excess_kurtosis)), dof)))


def joint_critical_value(
    level: float, constraints: int, dof: float, excess_kurtosis: float = 0.0, spreads: FloatArray | None = None
) -> float:
    """Return the statistic of several constraints at once whose `p_value` is 1 less a level.

    Examples
    --------
    >>> round(joint_critical_value(0.99, 4, 1e9), 2)
    13.28
    """
    low, high = 0.0, float(constraints)
    while p_value(high, dof, excess_kurtosis, constraints, spreads) > 1.0 - level:
        low, high = high, 2.0 * high
        if np.isinf(high):
            return high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        above = p_value(middle, dof, excess_kurtosis, constraints, spreads) > 1.0 - level
        low, high = (middle, high) if above else (low, middle)
    return high


def cornish_fisher_root(moved: FloatArray, excess_kurtosis: FloatArray) -> FloatArray:
    """Return z ≥ 0 with z + κ(z³ − 3z)/24 = the given values; increasing in z for κ below 8.

    Examples
    --------
    >>> cornish_fisher_root(np.array([2.166]), np.array([3.0])).round(2).tolist()
    [1.96]
    """
    z: FloatArray = moved + 0.0 * excess_kurtosis  # of the shape of both
    if not np.any(excess_kurtosis):
        return z
    for _ in range(50):
        slope = 1.0 + excess_kurtosis * (z**2 - 1.0) / 8.0
        step = (z + excess_kurtosis * (z**3 - 3.0 * z) / 24.0 - moved) / slope
        z = z - step
        if np.all(np.abs(step) <= 1e-14 * np.maximum(z, 1.0)):
            break
    return np.maximum(z, 0.0)
