r"""Score tests of quadratic constraints on noisy numbers, and the sets that they do not reject.

An odds ratio θ says :math:`ad-\theta bc=0` of the means of four cells, a risk ratio, a risk difference and a ratio of
rates are constraints :math:`m^\top Q_\theta m=0` of the same form.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from analyst_client.analyses.cell_noise import CellNoise
from analyst_client.arrays import FloatArray
from analyst_client.inference.score import cornish_fisher_root, critical_value, p_value

Pieces: TypeAlias = tuple[tuple[float, float], ...]
LARGE = 1e9
"""Degrees of freedom of a variance that is known."""
STEPS = ((10, 0.3), (30, 1.0), (60, 0.5), (120, 0.25))
CLIMBS = 400
BISECTIONS = 52
TINY = 1e-14
ON_IT = 1e-6
RIGHT = math.pi / 2.0
LOG_RATIOS = np.linspace(-14.0, 14.0, 141)


def normal_square(level: float) -> float:
    """Return the square of the normal deviate beyond which, on either side, lies 1 − `level`.

    Examples
    --------
    >>> round(normal_square(0.95), 4)
    3.8415
    """
    return float(critical_square(level, np.zeros(1))[0])


def critical_square(level: float, excess_kurtosis: FloatArray) -> FloatArray:
    """Return `normal_square` of numbers that noise gives longer tails: `analyst_client.inference.score.critical_value`.

    Parameters
    ----------
    level : float
        In (0, 1).
    excess_kurtosis : ndarray

    Returns
    -------
    ndarray
        In the shape of the kurtosis.

    Examples
    --------
    >>> critical_square(0.95, np.array([0.0, 3.0])).round(3).tolist()
    [3.841, 4.692]
    """
    return critical_value(level, math.inf, excess_kurtosis)


def chi2_tail(statistic: float, dof: int, excess_kurtosis: float = 0.0) -> float:
    """Return the probability that χ² exceeds a value.

    Parameters
    ----------
    statistic : float
    dof : int
    excess_kurtosis : float
        Of the sum of squares, as of `analyst_client.inference.score.p_value`, which then tells the probability.

    Examples
    --------
    >>> round(chi2_tail(3.8415, 1), 4)
    0.05
    """
    from scipy import special  # noqa: PLC0415 -- the import of the client stays quick

    if excess_kurtosis:
        return p_value(statistic, LARGE, excess_kurtosis, dof)
    return float(special.chdtrc(dof, statistic))


def score_statistic(values: FloatArray, noise: CellNoise, Q: FloatArray, sampled: FloatArray) -> FloatArray:
    r"""Return the statistic of the constraint :math:`m^\top Qm=0` on the means of noisy numbers: χ² with 1 degree.

    Parameters
    ----------
    values : ndarray of shape (..., K)
    noise : CellNoise
        Of the K numbers.
    Q : ndarray of shape (..., K, K)
        Symmetric, with eigenvalues of both signs.
    sampled : ndarray of shape (K,)
        1 for a number of rows, which varies as Poisson's beside its noise; 0 for what has noise alone.

    Returns
    -------
    ndarray of shape (...)

    Notes
    -----
    With :math:`V(m)=\mathrm{diag}(m_+)+\Sigma`, the m that fulfils both :math:`\hat c-m=\lambda V(m)Qm` and
    :math:`m^\top Qm=0` gives the statistic :math:`(\hat c-m)^\top V(m)^{-1}(\hat c-m)`. Without noise that m is the
    restricted maximum likelihood estimate, and the statistic is Rao's score, which is Pearson's χ² [1]_ [2]_:
    these constraints are homogeneous in each sample, so that Poisson and binomial sampling give the same.

    For a given V the m is the nearest point of the constraint, by :math:`m=(V^{-1}+\lambda Q)^{-1}V^{-1}\hat c` with
    the one λ at which :math:`V^{-1}+\lambda Q` is positive definite; V then follows m, until both stay. Far from the
    constraint, next to empty cells, they may not, since there the m that is sought is nearest among its neighbours
    alone: then it is climbed to along the constraint, by Fisher scoring from positive means.

    With :math:`u=V^{-1}(\hat c-m)` the statistic is :math:`[u^\top(\hat c-m)]^2/u^\top Vu`, the square of a number of
    variance 1. To it the M draws of the noise give the excess kurtosis :math:`\kappa=\sum_j\kappa_j(u^\top d_j)^4/
    (u^\top Vu)^2`, so its root is taken as :math:`z+\kappa(z^3-3z)/24`, and :math:`z^2` is returned [3]_.

    Means may be negative: next to the noise an empty cell is not told from one below 0, and leaving that out would
    only reject more.

    References
    ----------
    .. [1] J. Cornfield, "A statistical problem arising from retrospective studies", Proc. 3rd Berkeley Symp. 4, 1956.
    .. [2] O. Miettinen, M. Nurminen, "Comparative analysis of two rates", Statistics in Medicine 4, 1985.
    .. [3] E. Cornish, R. Fisher, "Moments and cumulants in the specification of distributions", Revue de l'Institut
       International de Statistique 5, 1938.
    """
    shape = np.broadcast_shapes(values.shape[:-1], Q.shape[:-2])
    k = values.shape[-1]
    c = np.broadcast_to(values, (*shape, k)).reshape(-1, k)
    constraints = np.broadcast_to(Q, (*shape, k, k)).reshape(-1, k, k)
    least = TINY * np.maximum(np.max(np.abs(c), axis=-1, keepdims=True), TINY)
    # An empty cell must not begin without variance: it would stay empty, and the others would have to give way.
    positive = np.where(sampled > 0.0, np.maximum(c, 0.5), 0.0)
    spread = np.where(
        sampled > 0.0, (positive + positive.sum(axis=-1, keepdims=True) / max(sampled.sum(), 1.0)) / 2.0, 0.0
    )
    covariance = noise.covariance
    statistic, means = np.zeros(len(c)), c.copy()
    going = np.arange(len(c))
    for round_ in range(STEPS[-1][0]):
        V = covariance + np.eye(k) * (sampled * spread[going] + least[going])[:, None, :]
        found, m = _nearest(c[going], V, constraints[going])
        fitted = np.where(sampled > 0.0, np.maximum(m, 0.0), 0.0)
        moved = np.max(np.abs(fitted - spread[going]) / (fitted + spread[going] + 1e-8), axis=-1)
        # Where whole steps have not settled it, means go back and forth, as those of few rows do: shorter steps then.
        step = next((part for last, part in STEPS if round_ < last))
        spread[going] += step * (np.maximum(fitted, spread[going] / 2.0) - spread[going])
        settled = (moved < 1e-11) | (np.abs(found - statistic[going]) <= 1e-13 * found) & (moved < 1e-7)
        statistic[going], means[going] = found, m
        going = going[~settled]
        if not len(going):
            break
    # Where two points are equally near, as those of cells that mirror each other, what settled is between them.
    left = np.abs(_form(constraints, means)) > ON_IT * _form(np.abs(constraints), np.abs(means))
    left[going] = True
    if left.any():
        climbed, m = _climb(c[left], covariance, constraints[left], sampled, least[left])
        statistic[left] = np.where(np.isnan(climbed), statistic[left], climbed)
        means[left] = np.where(np.isnan(climbed)[:, None], means[left], m)
    if noise.excess_kurtosis.any():
        V = covariance + np.eye(k) * (sampled * np.maximum(means, 0.0) + least)[:, None, :]
        u = _solve(V, c - means)
        kurtosis = noise.kurtosis_along(u, np.sum(u * (c - means), axis=-1))
        statistic = cornish_fisher_root(np.sqrt(statistic), kurtosis) ** 2
    return statistic.reshape(shape)


def _nearest(c: FloatArray, V: FloatArray, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the squared distance of each c from m'Qm = 0 by the covariance V, and the nearest m."""
    root = np.linalg.cholesky(V)
    z = np.linalg.solve(root, c[..., None])
    e, U = np.linalg.eigh(np.swapaxes(root, -1, -2) @ Q @ root)
    z = (np.swapaxes(U, -1, -2) @ z)[..., 0]
    weighted = e * z**2
    # Between these 1 + λe > 0, and the constraint falls from above to below 0.
    low, high = -1.0 / np.maximum(e[:, -1], 1e-300), -1.0 / np.minimum(e[:, 0], -1e-300)
    low, high = low[:, None], high[:, None]
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        above = np.sum(weighted / (1.0 + middle * e) ** 2, axis=-1, keepdims=True) > 0.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    step = (low + high) / 2.0
    shrunk = z / (1.0 + step * e)
    m = (root @ (U @ shrunk[..., None]))[..., 0]
    return np.sum((z - shrunk) ** 2, axis=-1), m


def _form(Q: FloatArray, m: FloatArray) -> FloatArray:
    """Return each m'Qm."""
    found: FloatArray = np.einsum("ni,nij,nj->n", m, Q, m)
    return found


def _solve(V: FloatArray, right: FloatArray) -> FloatArray:
    """Return V⁻¹ times each of some numbers."""
    return np.asarray(np.linalg.solve(V, right[..., None])[..., 0], dtype=np.float64)


def _climb(
    c: FloatArray, noise: FloatArray, Q: FloatArray, sampled: FloatArray, least: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return the statistic, and the m of m'Qm = 0 at which the score of c is across it; nan where no m was found.

    Notes
    -----
    The score :math:`s(m)=V(m)^{-1}(c-m)` is the slope of a log-likelihood, of Poisson's law where there is no noise.
    A step :math:`d` along :math:`u^\top d=0` with :math:`u=Qm` is Fisher's, :math:`c-m-Vu\,u^\top(c-m)/u^\top Vu`; its
    length is where the slope along it is expected to be 0, and it is kept where the likelihood rises by the
    trapezium's rule. Then m is brought back to the constraint along Vu.
    """
    k = c.shape[1]
    own = np.diagonal(noise)

    def variance(m: FloatArray) -> FloatArray:
        return noise + np.eye(k) * (sampled * np.maximum(m, 0.0) + least)[:, None, :]

    m, known = _between(c, Q)
    going = known.copy()
    V = variance(m)
    score, length = _solve(V, c - m), np.ones((len(c), 1))
    for _ in range(CLIMBS):
        u = np.einsum("nij,nj->ni", Q, m)
        across = np.einsum("nij,nj->ni", V, u)
        size = np.maximum(np.sum(u * across, axis=-1, keepdims=True), 1e-300)
        d = c - m - across * np.sum(u * (c - m), axis=-1, keepdims=True) / size
        statistic = np.sum((c - m) * score, axis=-1)
        going &= np.sum(d * _solve(V, d), axis=-1) > np.maximum(1e-16 * statistic, 1e-15)
        if not going.any():
            break
        # A variance falls to a tenth at most: one of 0 would hold its cell there.
        spread = sampled * m + own
        falling = (sampled > 0.0) & (m > 0.0)
        new = m + length * d
        new = np.where(falling, np.maximum(new, spread / 10.0 - own), new)
        first, second = 2.0 * np.einsum("ni,nij,nj->n", new, Q, across), _form(Q, across)
        inner = first**2 - 4.0 * second * _form(Q, new)
        far = -(first + np.copysign(np.sqrt(np.maximum(inner, 0.0)), first)) / 2.0
        new = new + (_form(Q, new) / np.where(far == 0.0, np.inf, far))[:, None] * across
        V_new = variance(new)
        score_new = _solve(V_new, c - new)
        before, after = (np.sum(one * (new - m), axis=-1, keepdims=True) for one in (score, score_new))
        kept = (before + after)[:, 0] >= -1e-12 * statistic
        kept &= going & (inner >= 0.0) & np.all(~falling | (new + own >= spread / 100.0), axis=-1)
        turn = before / np.where(before > after, before - after, np.inf)
        longer = length * np.where(before > after, np.clip(turn, 0.25, 2.0), 2.0)
        length = np.where(kept[:, None], longer, length / 4.0)
        m, score = (np.where(kept[:, None], one, other) for one, other in ((new, m), (score_new, score)))
        V = np.where(kept[:, None, None], V_new, V)
    return np.where(known, np.sum((c - m) * score, axis=-1), np.nan), m


def _between(c: FloatArray, Q: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return positive means with m'Qm = 0, and where there are such: on the way to two cells of the other sign."""
    k = c.shape[1]
    pairs = np.array([np.eye(k)[i] + np.eye(k)[j] for i in range(k) for j in range(i)])
    inside = np.maximum(c, 0.5)
    at = _form(Q, inside)
    signed = np.einsum("pi,nij,pj->np", pairs, Q, pairs) * np.sign(at)[:, None]
    to = inside.sum(axis=-1, keepdims=True) * pairs[np.argmin(signed, axis=-1)] - inside
    low, high = np.zeros((len(c), 1)), np.ones((len(c), 1))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        same = (_form(Q, inside + middle * to) * at > 0.0)[:, None]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return inside + low * to, np.min(signed, axis=-1) < 0.0


def bilinear(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the symmetric Q with m'Qm the product of two sums of numbers, each by its weights."""
    return (np.outer(first, second) + np.outer(second, first)) / 2.0


def invert(statistic: Callable[[FloatArray], FloatArray], critical: float, grid: FloatArray) -> Pieces:
    """Return where a statistic is not above its critical value, as pieces within the ends of a grid.

    Where all of the grid is rejected it is the point of the least statistic, twice.
    """
    found = statistic(grid)
    kept = found <= critical
    if not kept.any():
        least = float(grid[int(np.argmin(found))])
        return ((least, least),)
    from scipy import optimize  # noqa: PLC0415 -- the import of the client stays quick

    def beyond(x: float) -> float:
        return float(statistic(np.array([x]))[0]) - critical

    turns = np.flatnonzero(kept[1:] != kept[:-1])
    inside = [optimize.brentq(beyond, grid[k], grid[k + 1], xtol=1e-14, rtol=1e-13) for k in turns]
    ends = [*([grid[0]] if kept[0] else []), *inside, *([grid[-1]] if kept[-1] else [])]
    return tuple((float(low), float(high)) for low, high in zip(ends[::2], ends[1::2], strict=True))


def ratio_set(
    values: FloatArray, noise: CellNoise, above: FloatArray, below: FloatArray, sampled: FloatArray, critical: float
) -> Pieces:
    r"""Return the θ from 0 to ∞ for which :math:`m^\top(A-\theta B)m=0` is not rejected, as pieces.

    Parameters
    ----------
    values : ndarray of shape (K,)
        As of `score_statistic`.
    noise : CellNoise
        As of `score_statistic`.
    above, below : ndarray of shape (K, K)
        A and B.
    sampled : ndarray of shape (K,)
        As of `score_statistic`.
    critical : float
        Statistic from which it is rejected.

    Returns
    -------
    tuple of (float, float)
        By angles, arctan θ: an end may be ∞.
    """

    def statistic(angles: FloatArray) -> FloatArray:
        Q = np.cos(angles)[:, None, None] * above - np.sin(angles)[:, None, None] * below
        return score_statistic(values, noise, Q, sampled)

    estimate = math.atan2(values @ above @ values, values @ below @ values)
    known = [estimate] if 0.0 < estimate < RIGHT else []
    grid = np.unique(np.concatenate([[0.0], np.arctan(np.exp(LOG_RATIOS)), known, [RIGHT]]))
    found = invert(statistic, critical, grid)
    return tuple((math.tan(low), math.inf if high == RIGHT else math.tan(high)) for low, high in found)


def fieller(square: float, linear: float, constant: float, low: float, high: float) -> Pieces:
    r"""Return the x from `low` to `high` with :math:`ax^2+bx+c\le0`, as pieces.

    Examples
    --------
    >>> fieller(1.0, -3.0, 2.0, 0.0, 9.0), fieller(-1.0, 3.0, -2.0, 0.0, 9.0), fieller(0.0, 0.0, -1.0, 0.0, 1.0)
    (((1.0, 2.0),), ((0.0, 1.0), (2.0, 9.0)), ((0.0, 1.0),))
    """
    inner = linear**2 - 4.0 * square * constant
    if inner < 0.0 or square == linear == 0.0:
        return ((low, high),) if square < 0.0 or constant <= 0.0 else ()
    if square == 0.0:
        turn = -constant / linear
        found: Sequence[tuple[float, float]] = [(-math.inf, turn)] if linear > 0.0 else [(turn, math.inf)]
    else:
        far = -(linear + math.copysign(math.sqrt(inner), linear)) / 2.0
        first, last = sorted((far / square, constant / far if far else 0.0))
        found = [(first, last)] if square > 0.0 else [(-math.inf, first), (last, math.inf)]
    cut = [(max(one, low), min(other, high)) for one, other in found]
    return tuple((one, other) for one, other in cut if one <= other)
