"""Correlations and partial correlations of the variables of a Gram."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from analyst_client.analyses.inversion import invert_tail, noise_points
from analyst_client.analyses.moments import BINARY, Moments, ResidualProducts
from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level

HEADS = ("variable", "and")
LARGEST = 1.0 - 1e-12
VISIBLE = 3.0
"""A variance is told apart from 0 where it is so many deviations of its noise."""
NOTE = (
    "Intervals: Fisher's z with the noise of all moments added, for normal values; pairs with a boolean or a level "
    "have the sampling variance of a point-biserial correlation, or of φ. p is of a correlation of 0."
)
PARTIAL_NOTE = (
    "Intervals: Fisher's z with the noise of all moments added, for normal values. p is of a correlation of 0."
)
HIDDEN_NOTE = "An interval from −1 to 1: the noise hides how the variables vary."


@takes_level
def correlations(release: Release, columns: Sequence[str] | None = None, *, level: float = 0.95) -> EstimateTable:
    r"""Correlate the variables of a release, pair by pair.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant.
    columns : sequence of str, optional
        Columns, terms or targets. Default all; pairs of two targets are not in a Gram.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

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
    share p the variance of z is multiplied by :math:`1 + \rho^2(1 - 6pq)/(4pq)` (Tate 1954). Where both are, r is φ
    (Yule 1912), taken as normal with the variance that φ and the shares give, so that p without noise is that of χ².

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
        found.append(_one(moments, [0], i, j, level, 3.0, binary=True))
    notes = (NOTE, *_hidden(found), *moments.notes)
    return EstimateTable(f"Correlations in {release.dataset}", HEADS, tuple(found), notes, level)


@takes_level
def partial_correlations(
    release: Release,
    columns: Sequence[str] | None = None,
    given: Sequence[str] | None = None,
    *,
    level: float = 0.95,
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
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

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
    >>> rows = [[0.0, 1.0, 2.0, 3.0, 5.0], [1.0, 0.0, 2.0, 4.0, 3.0], [1.0, 0.0, 0.0, 1.0, 3.0]]
    >>> X = np.column_stack([np.ones(5), *rows])
    >>> round(partial_correlations(Release.from_arrays(X.T @ X))["x1", "x2"].value, 3)
    0.621
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
            found.append(_one(moments, [0, *others], i, j, level, 3.0 + len(others), binary=False))
    notes = (PARTIAL_NOTE, *_hidden(found), *moments.notes)
    return EstimateTable(f"Partial correlations in {release.dataset}", HEADS, tuple(found), notes, level)


def _chosen(moments: Moments, columns: Sequence[str] | None) -> list[int]:
    if columns is None:
        return list(range(1, len(moments.variables)))
    return list(dict.fromkeys(moments.indices(list(columns))))


def _released(moments: Moments, i: int, j: int) -> bool:
    return not np.isnan(moments.matrix[np.ix_([i, j], [i, j])]).any()


def _hidden(found: Sequence[Estimate]) -> tuple[str, ...]:
    return (HIDDEN_NOTE,) if any((one.conf_low, one.conf_high) == (-1.0, 1.0) for one in found) else ()


def _one(moments: Moments, on: list[int], i: int, j: int, level: float, lost: float, *, binary: bool) -> Estimate:
    """Return one correlation given the variables `on`."""
    label = (moments.variables[i].name, moments.variables[j].name)
    products = moments.residual_products(on, [i, j])
    (xx, xy), (_, yy) = products.values.tolist()
    spread = [math.sqrt(moments.covariance(products.forms[k][k], products.forms[k][k])) for k in (0, 1)]
    law = _sampling_law(moments, i, j, lost) if binary else FisherLaw(moments.rows - lost)
    if law.rows < 1.0:
        raise EstimationError(f"the release tells of {moments.rows:.1f} rows: too few")
    if xx <= VISIBLE * spread[0] or yy <= VISIBLE * spread[1] or not all(_varies(moments, on, k) for k in on[1:]):
        return Estimate(label, math.nan, math.inf, -1.0, 1.0)
    observed = xy / math.sqrt(xx * yy)
    noise = NoiseOfCorrelation(moments, products, xx, yy)

    def tail(rho: float) -> float:
        sd, points = noise.at(rho)
        return law.tail(observed - sd * points, rho)

    at = min(max(observed, -LARGEST), LARGEST)
    low, high = invert_tail(tail, at, -LARGEST, LARGEST, level)
    null, error = tail(0.0), math.hypot(law.std_error(at), noise.at(at)[0])
    low, high = (-1.0 if low <= -LARGEST else low), (1.0 if high >= LARGEST else high)
    return Estimate(label, observed, error, low, high, 2.0 * min(null, 1.0 - null))


def _varies(moments: Moments, on: list[int], k: int) -> bool:
    """Return whether a variable visibly varies, given the others, above the noise."""
    own = moments.residual_products([j for j in on if j != k], [k])
    form = own.forms[0][0]
    return bool(own.values[0, 0] > VISIBLE * math.sqrt(moments.covariance(form, form)))


@dataclass(frozen=True)
class FisherLaw:
    """The sampling law of a correlation by Fisher's z.

    Attributes
    ----------
    rows : float
        One over the variance of z for normal values.
    spread : float
        4pq of a binary variable of share p; 0 where both are numbers.
    """

    rows: float
    spread: float = 0.0

    def factor(self, rho: float) -> float:
        """Return what the variance of z is multiplied with (Tate 1954)."""
        return 1.0 if self.spread == 0.0 else max(1.0 + rho**2 * (1.0 - 1.5 * self.spread) / self.spread, 1e-3)

    def std_error(self, rho: float) -> float:
        """Return the standard error of r."""
        return (1.0 - rho**2) * math.sqrt(self.factor(rho) / self.rows)

    def tail(self, observed: FloatArray, rho: float) -> float:
        """Return the mean probability of no larger a correlation than those observed."""
        from scipy import special  # noqa: PLC0415 -- see `inference.quantiles`

        z = np.arctanh(np.clip(observed, -LARGEST, LARGEST)) - math.atanh(rho)
        return float(np.mean(special.ndtr(z / math.sqrt(self.factor(rho) / self.rows))))


@dataclass(frozen=True)
class PhiLaw:
    """The sampling law of φ, the correlation of two binary variables: normal, by the shares and the hypothesised φ.

    Attributes
    ----------
    rows : float
    p, q : float
        Shares of the two variables.
    """

    rows: float
    p: float
    q: float

    def std_error(self, rho: float) -> float:
        """Return the standard error of φ."""
        return math.sqrt(phi_variance(rho, self.p, self.q) / self.rows)

    def tail(self, observed: FloatArray, rho: float) -> float:
        """Return the mean probability of no larger a φ than those observed."""
        from scipy import special  # noqa: PLC0415 -- see `inference.quantiles`

        return float(np.mean(special.ndtr((observed - rho) / self.std_error(rho))))


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
        self._moments = moments
        self._cross = products.forms[0][1] / math.sqrt(xx * yy)
        self._own = products.forms[0][0] / (2.0 * xx) + products.forms[1][1] / (2.0 * yy)
        self._covariances = (
            moments.covariance(self._cross, self._cross),
            moments.covariance(self._cross, self._own),
            moments.covariance(self._own, self._own),
        )

    def at(self, rho: float) -> tuple[float, FloatArray]:
        """Return its standard deviation, and equally likely values of it over that."""
        cross, mixed, own = self._covariances
        variance = max(cross - 2.0 * rho * mixed + rho**2 * own, 0.0)
        if variance == 0.0:
            return 0.0, np.zeros(1)
        return math.sqrt(variance), noise_points(self._moments.kurtosis(self._cross - rho * self._own, variance))


def _sampling_law(moments: Moments, i: int, j: int, lost: float) -> FisherLaw | PhiLaw:
    """Return the law of r by which of the two variables are binary."""
    rows = moments.rows
    shares = [
        min(max(moments.value(moments.count(k)) / rows, 1e-3), 1.0 - 1e-3)
        for k in (i, j)
        if moments.variables[k].kind in BINARY
    ]
    if len(shares) == 2:
        return PhiLaw(rows, *shares)
    return FisherLaw(rows - lost, *(4.0 * share * (1.0 - share) for share in shares))


def phi_variance(rho: float, p: float, q: float) -> float:
    r"""Return n times the sampling variance of φ.

    With the four cells that the shares p and q and φ give, where they exist; at the nearest φ that exists otherwise.

    Notes
    -----
    With standardised indicators u and v a row adds :math:`uv - \varphi(u^2 + v^2)/2`. As :math:`u^2 = 1 + s_uu` with
    the skewness :math:`s_u = (1 - 2p)/\sqrt{pq}`, all fourth moments follow from φ and the shares.

    Examples
    --------
    >>> phi_variance(0.0, 0.3, 0.6), phi_variance(0.5, 0.5, 0.5)
    (1.0, 0.75)
    """
    root = math.sqrt(p * (1.0 - p) * q * (1.0 - q))
    low, high = (max(0.0, p + q - 1.0) - p * q) / root, (min(p, q) - p * q) / root
    phi = min(max(rho, low), high)
    s, t = ((1.0 - 2.0 * share) / math.sqrt(share * (1.0 - share)) for share in (p, q))
    mixed, u_fourth, v_fourth = 1.0 + s * t * phi, 1.0 + s**2, 1.0 + t**2
    variance = mixed - phi**2 * (u_fourth + v_fourth) + phi**2 * (u_fourth + v_fourth + 2.0 * mixed) / 4.0
    return max(variance, 1e-6)
