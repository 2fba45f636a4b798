"""Correlations and partial correlations of the variables of a Gram."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from analyst_client.analyses.inversion import invert_tail, noise_points
from analyst_client.analyses.moments import BINARY, Moments, ResidualProducts
from analyst_client.errors import EstimationError
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.results import check_alpha
from analyst_client.kinds.gram.release import Release

FloatArray = NDArray[np.float64]
VarianceFactor = Callable[[float], float]
HEADS = ("variable", "and")
VISIBLE = 3.0
"""A variance is told apart from 0 where it is so many deviations of its noise."""
NOTE = (
    "Intervals: Fisher's z with the noise of all moments added, for normal values; pairs with a boolean or a level have "
    "the sampling variance of a point-biserial correlation or of two binary variables. p is of a correlation of 0."
)
PARTIAL_NOTE = (
    "Intervals: Fisher's z with the noise of all moments added, for normal values. p is of a correlation of 0."
)
HIDDEN_NOTE = "An interval from −1 to 1: the noise hides how the variables vary."


def correlations(release: Release, columns: Sequence[str] | None = None, *, alpha: float = 0.05) -> EstimateTable:
    r"""Correlate the variables of a release, pair by pair.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant.
    columns : sequence of str, optional
        Columns, terms or targets. Default all; pairs of two targets are not in a Gram.
    alpha : float
        1 less the coverage, in (0, 1).

    Returns
    -------
    EstimateTable
        Labels are the two variables, in the order of the terms.

    Raises
    ------
    EstimationError
        When the release lacks what this needs, or the noise hides the number of rows.
    ValueError
        When there is no such variable.

    Notes
    -----
    With centred sums S the noise of :math:`r = S_{xy}/\sqrt{S_{xx}S_{yy}}` is linearised at the hypothesised ρ:
    :math:`dr = dS_{xy}/\sqrt{S_{xx}S_{yy}} - \rho(dS_{xx}/S_{xx} + dS_{yy}/S_{yy})/2`, and each dS is a form of entries
    whose noise is known. The law of r is that of Fisher's z,
    :math:`\operatorname{artanh} r \sim N(\operatorname{artanh}\rho, 1/(n - 3))` [1]_, convolved with it; an interval
    holds the ρ whose tails are at least α/2. Without noise it is Fisher's. Where x is binary with
    share p the variance is multiplied by :math:`1 + \rho^2(1 - 6pq)/(4pq)` (Tate 1954), where both are by that of φ in a
    two-way table (Yule 1912).

    References
    ----------
    .. [1] R. Fisher, "On the 'probable error' of a coefficient of correlation", Metron 1, 1921.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.column_stack([np.ones(4), [0.0, 1.0, 2.0, 3.0], [1.0, 0.0, 2.0, 4.0]])
    >>> round(correlations(Release.from_arrays(X.T @ X))["x1", "x2"].value, 3)
    0.832
    """
    moments = Moments.of(release)
    chosen = _chosen(moments, columns)
    found = []
    for i, j in combinations(chosen, 2):
        a, b = moments.variables[i], moments.variables[j]
        if not _released(moments, i, j) or (a.kind == b.kind == "level" and a.column == b.column):
            continue
        found.append(_one(moments, [0], i, j, check_alpha(alpha), 3.0, binary=True))
    notes = (NOTE, *_hidden(found), *moments.notes)
    return EstimateTable(f"Correlations in {release.dataset}", HEADS, tuple(found), notes, alpha)


def partial_correlations(
    release: Release,
    columns: Sequence[str] | None = None,
    given: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
) -> EstimateTable:
    r"""Correlate variables given others.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant.
    columns : sequence of str, optional
        Columns, terms or targets to correlate. Default all features, and the target if there is one.
    given : sequence of str, optional
        Columns or terms to hold fixed. Default, for each pair, all the others of `columns`.
    alpha : float
        1 less the coverage, in (0, 1).

    Returns
    -------
    EstimateTable
        Labels are the two variables, in the order of the terms.

    Raises
    ------
    EstimationError
        When the release lacks what this needs, or the noise hides how a variable varies given the others.
    ValueError
        When there is no such variable.

    Notes
    -----
    The correlation of the residuals of two regressions on the constant and the q variables that are given. Its law is
    that of a correlation of n − q rows (Fisher 1924); the noise enters as in `correlations`, by way of the gradient
    :math:`b_xb_y^\top` of a residual product, b being the coefficients of a residual.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.column_stack([np.ones(5), [0.0, 1.0, 2.0, 3.0, 5.0], [1.0, 0.0, 2.0, 4.0, 3.0], [1.0, 0.0, 0.0, 1.0, 3.0]])
    >>> round(partial_correlations(Release.from_arrays(X.T @ X))["x1", "x2"].value, 3)
    0.809
    """
    moments = Moments.of(release)
    if columns is None and len(release.targets) > 1:
        columns = [*release.feature_names, release.target_names[0]]
    chosen = _chosen(moments, columns)
    fixed = None if given is None else moments.indices(list(given))
    if fixed is not None and set(fixed) & set(chosen):
        if columns is not None:
            raise ValueError("a variable is either correlated or given")
        chosen = [j for j in chosen if j not in fixed]
    found = []
    for i, j in combinations(chosen, 2):
        others = [k for k in chosen if k not in {i, j}] if fixed is None else fixed
        if _released(moments, i, j):
            found.append(_one(moments, [0, *others], i, j, check_alpha(alpha), 3.0 + len(others), binary=False))
    notes = (PARTIAL_NOTE, *_hidden(found), *moments.notes)
    return EstimateTable(f"Partial correlations in {release.dataset}", HEADS, tuple(found), notes, alpha)


def _chosen(moments: Moments, columns: Sequence[str] | None) -> list[int]:
    if columns is None:
        return list(range(1, len(moments.variables)))
    return list(dict.fromkeys(moments.indices(list(columns))))


def _released(moments: Moments, i: int, j: int) -> bool:
    return not np.isnan(moments.matrix[np.ix_([i, j], [i, j])]).any()


def _hidden(found: Sequence[Estimate]) -> tuple[str, ...]:
    return (HIDDEN_NOTE,) if any((one.conf_low, one.conf_high) == (-1.0, 1.0) for one in found) else ()


def _one(moments: Moments, on: list[int], i: int, j: int, alpha: float, lost: float, *, binary: bool) -> Estimate:
    """Return one correlation given the variables `on`."""
    label = (moments.variables[i].name, moments.variables[j].name)
    products = moments.residual_products(on, [i, j])
    (xx, xy), (_, yy) = products.values
    spread = [math.sqrt(moments.covariance(products.forms[k][k], products.forms[k][k])) for k in (0, 1)]
    rows = moments.rows - lost
    if rows < 1.0:
        raise EstimationError(f"the release tells of {moments.rows:.1f} rows: too few")
    if xx <= VISIBLE * spread[0] or yy <= VISIBLE * spread[1]:
        return Estimate(label, math.nan, math.inf, -1.0, 1.0)
    root = math.sqrt(xx * yy)
    observed = xy / root
    factor = _variance_factor(moments, i, j) if binary else _normal_factor
    law = NoiseOfCorrelation(moments, products, xx, yy)

    def tail(rho: float) -> float:
        return correlation_tail(observed, rho, rows, law, factor)

    at = min(max(observed, -0.999999999), 0.999999999)
    low, high = invert_tail(tail, at, -1.0 + 1e-12, 1.0 - 1e-12, alpha)
    null = tail(0.0)
    sd, _ = law.at(at)
    error = math.hypot((1.0 - at**2) * math.sqrt(factor(at) / rows), sd)
    low, high = (-1.0 if low <= -1.0 + 1e-11 else low), (1.0 if high >= 1.0 - 1e-11 else high)
    return Estimate(label, observed, error, low, high, 2.0 * min(null, 1.0 - null))


def _normal_factor(rho: float) -> float:
    return 1.0


class NoiseOfCorrelation:
    """The noise of a correlation at a hypothesised value.

    Parameters
    ----------
    moments : Moments
    products : ResidualProducts
        Of the two variables.
    xx, yy : float
        Their sums of squares.
    """

    def __init__(self, moments: Moments, products: ResidualProducts, xx: float, yy: float) -> None:
        root = math.sqrt(xx * yy)
        self._moments = moments
        self._cross = products.forms[0][1] / root
        self._own = products.forms[0][0] / (2.0 * xx) + products.forms[1][1] / (2.0 * yy)
        self._points: dict[float, FloatArray] = {}
        self._terms = (
            moments.covariance(self._cross, self._cross),
            moments.covariance(self._cross, self._own),
            moments.covariance(self._own, self._own),
        )

    def at(self, rho: float) -> tuple[float, FloatArray]:
        """Return its standard deviation, and likely values of it over that."""
        constant, mixed, square = self._terms
        variance = max(constant - 2.0 * rho * mixed + rho**2 * square, 0.0)
        if variance == 0.0:
            return 0.0, np.zeros(1)
        kurtosis = self._moments.kurtosis(self._cross - rho * self._own, variance)
        key = round(kurtosis, 2)
        if key not in self._points:
            self._points[key] = noise_points(key)
        return math.sqrt(variance), self._points[key]


def correlation_tail(
    observed: float, rho: float, rows: float, law: NoiseOfCorrelation, factor: VarianceFactor
) -> float:
    """Return the probability of no larger a noisy correlation than was observed, at a hypothesised one."""
    from scipy import special  # noqa: PLC0415 -- see `inference.quantiles`

    sd, points = law.at(rho)
    without = np.clip(observed - sd * points, -1.0 + 1e-15, 1.0 - 1e-15)
    deviation = math.sqrt(factor(rho) / rows)
    return float(np.mean(special.ndtr((np.arctanh(without) - math.atanh(rho)) / deviation)))


def _variance_factor(moments: Moments, i: int, j: int) -> VarianceFactor:
    """Return the function of ρ that the variance of Fisher's z is multiplied with where variables are binary."""
    shares = []
    for k in (i, j):
        share = moments.value(moments.count(k)) / moments.rows
        shares.append(min(max(share, 1e-3), 1.0 - 1e-3) if moments.variables[k].kind in BINARY else None)
    p, q = shares
    if p is None and q is None:
        return _normal_factor
    if p is None or q is None:
        share = p if p is not None else q
        assert share is not None
        spread = 4.0 * share * (1.0 - share)
        return lambda rho: max(1.0 + rho**2 * (1.0 - 1.5 * spread) / spread, 1e-3)
    return lambda rho: phi_variance_factor(rho, p, q)


def phi_variance_factor(rho: float, p: float, q: float) -> float:
    r"""Return n times the sampling variance of φ, over that of a normal correlation, :math:`(1 - \rho^2)^2`.

    With the four cells that the shares p and q and φ give, where they exist; at the nearest φ that exists otherwise.

    Examples
    --------
    >>> phi_variance_factor(0.0, 0.3, 0.6), round(phi_variance_factor(0.5, 0.5, 0.5), 3)
    (1.0, 1.333)
    """
    root = math.sqrt(p * (1.0 - p) * q * (1.0 - q))
    low, high = (max(0.0, p + q - 1.0) - p * q) / root, (min(p, q) - p * q) / root
    phi = min(max(rho, low), high)
    skew = [(1.0 - 2.0 * share) / math.sqrt(share * (1.0 - share)) for share in (p, q)]
    # standardised indicators u, v: u² = 1 + skew u, so all fourth moments follow
    mixed = 1.0 + skew[0] * skew[1] * phi
    fourth = [1.0 + skew[0] ** 2, 1.0 + skew[1] ** 2]
    third = [phi * (1.0 + skew[0] ** 2), phi * (1.0 + skew[1] ** 2)]
    variance = mixed - phi * (third[0] + third[1]) + phi**2 * (fourth[0] + fourth[1] + 2.0 * mixed) / 4.0
    return max(variance, 1e-6) / (1.0 - min(rho**2, 1.0 - 1e-12)) ** 2
