"""Survival from noisy tables of time by event: Kaplan and Meier's estimate, the log-rank test, and rates."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyst_client.analyses.cell_noise import CellNoise
from analyst_client.analyses.quadrics import (
    bilinear,
    chi2_tail,
    critical_square,
    fieller,
    normal_square,
    ratio_set,
)
from analyst_client.analyses.table_results import Effect, TableTest
from analyst_client.analyses.tables import ContingencyTable, takes_table
from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.figures import draw
from analyst_client.display.model import Inline, Note, View, join, number, quiet, table, untrusted
from analyst_client.errors import EstimationError
from analyst_client.kinds.arrays import frozen
from analyst_client.level import takes_level

HIDDEN = 4.0
"""Deviations of its noise below which a number at risk tells nothing that can be divided by."""


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalCurves(Displayable):
    """Survival at the ends of intervals, by group.

    Attributes
    ----------
    time : str
        Name of the time's column.
    times : ndarray of shape (T,)
        Ends of the intervals, in its unit.
    groups : tuple of str
    survival : ndarray of shape (G, T)
        Nan from where the noise hides who is at risk.
    low, high : ndarray of shape (G, T)
        Intervals, one time at a time.
    se : ndarray of shape (G, T)
        Standard errors, of the sample and the noise.
    covariance : ndarray of shape (G, T, T)
        Of a group's survival over times.
    at_risk : ndarray of shape (G, T)
        Noisy numbers at the beginnings of the intervals.
    level : float
        Coverage of the intervals.

    Examples
    --------
    >>> from analyst_client import ContingencyTable
    >>> from analyst_client.analyses import Factor, kaplan_meier
    >>> years = Factor("years", ("[0, 1)", "[1, 2)", "[2, 3)"), (0.0, 1.0, 2.0, 3.0))
    >>> factors = [years, Factor("dead", ("no", "yes")), Factor("arm", ("old", "new"))]
    >>> cells = [[[21.0, 18.0], [60.0, 41.0]], [[25.0, 22.0], [55.0, 38.0]], [[180.0, 240.0], [59.0, 41.0]]]
    >>> counts = ContingencyTable(cells, 2.0, factors=factors)
    >>> curves = kaplan_meier(counts, "years", "dead", "arm")
    >>> curves.groups, curves.times.tolist(), curves.survival.shape
    (('old', 'new'), [1.0, 2.0, 3.0], (2, 3))
    """

    time: str
    times: FloatArray
    groups: tuple[str, ...]
    survival: FloatArray
    low: FloatArray
    high: FloatArray
    se: FloatArray
    covariance: FloatArray
    at_risk: FloatArray
    level: float

    def plot(self, ax: Any = None) -> Any:
        """Draw the curves with their intervals; needs the extra ``plots``, see `analyst_client.plots.survival_plot`.

        Parameters
        ----------
        ax : Axes, optional
            Default those of a new figure.

        Returns
        -------
        Axes
            With a curve for each group.
        """
        return draw("survival_plot", self, ax)

    def _view(self) -> View:
        rows: list[list[Inline]] = [
            [
                untrusted(group),
                number(float(self.times[k])),
                f"{self.at_risk[g, k]:,.0f}",
                f"{self.survival[g, k]:.4f}" if math.isfinite(self.survival[g, k]) else "–",
                f"{self.low[g, k]:.4f} to {self.high[g, k]:.4f}",
            ]
            for g, group in enumerate(self.groups)
            for k in range(len(self.times))
        ]
        heads: list[Inline] = [
            "group",
            untrusted(self.time),
            "at risk",
            "survival",
            f"{100.0 * self.level:g}% interval",
        ]
        caption = join("Survival", quiet(" (Kaplan–Meier, with noise)"))
        return (table(caption, heads, rows, numeric=(1, 2, 3, 4)), Note("Intervals hold at one time at a time."))

    __repr__ = Displayable.__str__


@takes_level
@takes_table
def kaplan_meier(
    counts: ContingencyTable, time: str, event: str, group: str | None = None, level: float = 0.95
) -> SurvivalCurves:
    r"""Estimate survival from a table of time by event.

    Parameters
    ----------
    counts : ContingencyTable
        Other factors are added up.
    time : str
        A numeric column: the interval in which the event or the last contact was.
    event : str
        A factor with two levels, of which the last one is the event.
    group : str, optional
        Default all rows are one group.
    level : float
        Coverage of the intervals, in [0.5, 1).

    Returns
    -------
    SurvivalCurves
        One for each level of `group`.

    Raises
    ------
    ValueError
        When there is no such factor, or `level` is not in [0.5, 1).
    EstimationError
        When `time` has no edges, or `event` not two levels.

    Notes
    -----
    With :math:`d_k` events and :math:`w_k` others in interval k :math:`n_k=\sum_{l\ge k}(d_l+w_l)` are at risk, and
    :math:`\hat S_k=\prod_{l\le k}(1-d_l/n_l)`: E. Kaplan, P. Meier ("Nonparametric estimation from incomplete
    observations", JASA 53, 1958), with all of an interval at risk throughout it. Finer intervals make that true.

    All of it is made of the same noisy cells, so :math:`\hat S` has the covariance :math:`G(\mathrm{diag}(c_+)+\Sigma)
    G^\top` with its gradients G by the cells, which without noise is Greenwood's. An interval is made of the S with
    :math:`(\hat S-S)^2\le z^2[S(1-S)/n'+g^\top\Sigma g]`, where :math:`n'` are the rows without censoring that would
    give Greenwood's variance: K. Rothman ("Estimation of confidence limits for the cumulative probability of survival
    in life table analysis", J. Chronic Diseases 31, 1978) with the noise beside. Where :math:`\hat S` is 0 or 1 these
    are the rows at risk. From where a number at risk is below 4 deviations of its noise, all that is told is that
    survival does not rise. z is moved by the kurtosis that the noise gives :math:`\hat S`
    (`analyst_client.analyses.quadrics.critical_square`).

    Examples
    --------
    >>> from analyst_client import ContingencyTable
    >>> from analyst_client.analyses import Factor, kaplan_meier
    >>> years = Factor("years", ("[0, 1)", "[1, 2)", "[2, 3)"), (0.0, 1.0, 2.0, 3.0))
    >>> factors = [years, Factor("dead", ("no", "yes")), Factor("arm", ("old", "new"))]
    >>> cells = [[[21.0, 18.0], [60.0, 41.0]], [[25.0, 22.0], [55.0, 38.0]], [[180.0, 240.0], [59.0, 41.0]]]
    >>> counts = ContingencyTable(cells, 2.0, factors=factors)
    >>> kaplan_meier(counts, "years", "dead", "arm").survival.round(2).tolist()
    [[0.85, 0.7, 0.53], [0.9, 0.8, 0.68]]
    """
    edges, groups, cells, noise = _read(counts, time, event, group)
    each = np.eye(cells.size).reshape(len(groups), -1, cells.size)
    found = [survival_of(cells[g], noise.of(each[g]), level) for g in range(len(groups))]
    survival, low, high, covariance, at_risk = (frozen(np.array(part)) for part in zip(*found, strict=True))
    se = frozen(np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)))
    return SurvivalCurves(
        time, frozen(np.array(edges[1:])), groups, survival, low, high, se, covariance, at_risk, level
    )


def survival_of(cells: FloatArray, noise: CellNoise, level: float) -> tuple[FloatArray, ...]:
    """Return survival, its limits, its covariance, and the numbers at risk.

    Parameters
    ----------
    cells : ndarray of shape (..., T, 2)
        Others and events of each interval; whatever stands before are repeats.
    noise : CellNoise
        Of the 2T cells.
    level : float
        Coverage of the intervals.

    Returns
    -------
    tuple of ndarray
        Of shapes (..., T) thrice, (..., T, T) and (..., T).
    """
    T = cells.shape[-2]
    at_risk = np.cumsum(cells.sum(axis=-1)[..., ::-1], axis=-1)[..., ::-1]
    each = noise.covariance.reshape(T, 2, T, 2).sum(axis=(1, 3))
    spread = np.sqrt(np.cumsum(np.cumsum(each[::-1, ::-1], axis=0), axis=1)[::-1, ::-1].diagonal())
    told = np.logical_and.accumulate((at_risk > HIDDEN * spread) & (at_risk > 0.0), axis=-1)
    n = np.where(told, at_risk, 1.0)
    d = cells[..., 1]
    hazard = np.where(told, np.minimum(d / n, 1.0), 0.0)
    survival = np.cumprod(1.0 - hazard, axis=-1)
    # −∂S_k/∂h_l is the product of the other factors up to k; h_l falls by d_l / n_l² with each row at risk.
    others = np.repeat(1.0 - hazard[..., None, :], T, axis=-2)
    others[..., np.arange(T), np.arange(T)] = 1.0
    by_hazard = -np.swapaxes(np.cumprod(others, axis=-1), -1, -2) * np.tril(np.ones((T, T)))  # (..., k, l)
    by_event = by_hazard * (told / n)[..., None, :]
    by_row = -np.cumsum(by_hazard * np.where(told, hazard / n, 0.0)[..., None, :], axis=-1)
    gradient = np.stack([by_row, by_row + by_event], axis=-1)  # (..., k, l, event)
    flat = gradient.reshape(*gradient.shape[:-2], 2 * T)
    privacy = flat @ noise.covariance @ np.swapaxes(flat, -1, -2)
    sampling = (flat * np.maximum(cells, 0.0).reshape(*cells.shape[:-2], 1, 2 * T)) @ np.swapaxes(flat, -1, -2)
    greenwood = np.diagonal(sampling, axis1=-2, axis2=-1)
    inside = (greenwood > 0.0) & (survival > 0.0) & (survival < 1.0)
    rows = np.where(inside, survival * (1.0 - survival) / np.where(inside, greenwood, 1.0), at_risk)
    rows = np.where(told, np.minimum(rows, at_risk[..., :1]), 1.0)
    own = np.diagonal(privacy, axis1=-2, axis2=-1)
    z2 = critical_square(level, noise.kurtosis_along(flat, np.maximum(survival * (1.0 - survival), 0.0) / rows + own))
    square, half = 1.0 + z2 / rows, survival + z2 / rows / 2.0
    root = np.sqrt(np.maximum(half**2 - square * (survival**2 - z2 * own), 0.0))
    low = np.where(told, np.clip((half - root) / square, 0.0, 1.0), 0.0)
    high = np.minimum.accumulate(np.where(told, np.clip((half + root) / square, 0.0, 1.0), 1.0), axis=-1)
    both = told[..., :, None] & told[..., None, :]
    return (
        np.where(told, np.clip(survival, 0.0, 1.0), np.nan),
        low,
        np.maximum(high, low),
        np.where(both, sampling + privacy, np.nan),
        at_risk,
    )


@takes_table
def log_rank_test(counts: ContingencyTable, time: str, event: str, group: str) -> TableTest:
    r"""Test that groups have the same survival.

    Parameters
    ----------
    counts : ContingencyTable
        Other factors are added up.
    time, event, group : str
        As of `kaplan_meier`.

    Returns
    -------
    TableTest
        That of χ² with G − 1 degrees of freedom.

    Raises
    ------
    ValueError
        When there is no such factor.
    EstimationError
        When `time` has no edges, `event` not two levels, or the noise hides who is at risk.

    Notes
    -----
    :math:`U_g=\sum_k(d_{gk}-n_{gk}d_k/n_k)` with the hypergeometric covariance of N. Mantel ("Evaluation of survival
    data and two new rank order statistics", Cancer Chemotherapy Reports 50, 1966) plus :math:`G\Sigma G^\top`: a cell's
    noise is in the events of its own interval and in the numbers at risk of all before. Intervals count up to where
    the rows at risk are fewer than 4 deviations of their noise. Laplace noise: as in
    `analyst_client.analyses.tables.ContingencyTable.independence_test`.

    Examples
    --------
    >>> from analyst_client import ContingencyTable
    >>> from analyst_client.analyses import Factor, log_rank_test
    >>> years = Factor("years", ("[0, 1)", "[1, 2)", "[2, 3)"), (0.0, 1.0, 2.0, 3.0))
    >>> factors = [years, Factor("dead", ("no", "yes")), Factor("arm", ("old", "new"))]
    >>> cells = [[[21.0, 18.0], [60.0, 41.0]], [[25.0, 22.0], [55.0, 38.0]], [[180.0, 240.0], [59.0, 41.0]]]
    >>> counts = ContingencyTable(cells, 2.0, factors=factors)
    >>> test = log_rank_test(counts, "years", "dead", "arm")
    >>> test.dof, round(test.statistic, 1)
    (1, 16.6)
    """
    _, groups, cells, noise = _read(counts, time, event, group)
    statistic, kurtosis, share = log_rank_of(cells, noise)
    dof = len(groups) - 1
    if dof < 1 or not math.isfinite(float(statistic)):
        raise EstimationError("the log-rank test needs two groups, and rows at risk beyond the noise")
    name = f"equal survival by {group}"
    return TableTest(name, float(statistic), dof, chi2_tail(float(statistic), dof, float(kurtosis)), float(share))


def log_rank_of(cells: FloatArray, noise: CellNoise) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the statistic of the log-rank test, its kurtosis by the noise, and the noise's share in its variance.

    Parameters
    ----------
    cells : ndarray of shape (..., G, T, 2)
    noise : CellNoise
        Of the 2GT cells.

    Returns
    -------
    tuple of ndarray
        Each of shape (...); nan where no interval tells anything.
    """
    G, T = cells.shape[-3:-1]
    at_risk = np.cumsum(cells.sum(axis=-1)[..., ::-1], axis=-1)[..., ::-1]  # (..., G, T)
    n, d = at_risk.sum(axis=-2), cells[..., 1].sum(axis=-2)
    each = noise.covariance.reshape(G, T, 2, G, T, 2).sum(axis=(0, 2, 3, 5))
    spread = np.sqrt(np.cumsum(np.cumsum(each[::-1, ::-1], axis=0), axis=1)[::-1, ::-1].diagonal())
    used = np.logical_and.accumulate((n > HIDDEN * spread) & (n > 1.0), axis=-1)
    n = np.where(used, n, 2.0)
    hazard = np.where(used, np.clip(d / n, 0.0, 1.0), 0.0)
    positive = np.maximum(at_risk, 0.0)
    shares = positive / np.maximum(positive.sum(axis=-2, keepdims=True), 1e-300) * used[..., None, :]
    observed = np.where(used[..., None, :], cells[..., 1] - at_risk * (d / n)[..., None, :], 0.0).sum(axis=-1)
    apart = np.eye(G)[:, :, None] * used[..., None, None, :] - shares[..., :, None, :]  # (..., g, g', k)
    weights = n**2 * hazard * (1.0 - hazard) / (n - 1.0)
    sampling = np.einsum("...k,...hk,...ghk->...gh", weights, shares, apart)
    past = -np.cumsum(hazard[..., None, None, :] * apart, axis=-1)
    gradient = np.stack([past, past + apart], axis=-1).reshape(*apart.shape[:-2], 2 * G * T)[..., : G - 1, :]
    privacy = gradient @ noise.covariance @ np.swapaxes(gradient, -1, -2)
    covariance = sampling[..., : G - 1, : G - 1] + privacy
    known = np.linalg.det(covariance) > 0.0 if G > 1 else np.zeros(n.shape[:-1], dtype=np.bool_)
    covariance = np.where(known[..., None, None], covariance, np.eye(max(G - 1, 0)))
    left = observed[..., : G - 1, None]
    statistic = np.sum(left * np.linalg.solve(covariance, left), axis=(-1, -2))
    kurtosis, share = noise.joint_kurtosis(gradient, covariance)
    return np.where(known, statistic, np.nan), np.where(known, kurtosis, np.nan), np.where(known, share, np.nan)


@dataclass(frozen=True, eq=False, repr=False)
class EventRates(Displayable):
    """Events per unit of time at risk, by group.

    Attributes
    ----------
    time : str
        Name of the time's column.
    groups : tuple of str
    rates : tuple of Effect
    ratios : tuple of Effect
        Of each group after the first to the first.

    Examples
    --------
    >>> from analyst_client import ContingencyTable
    >>> from analyst_client.analyses import Factor, event_rates
    >>> years = Factor("years", ("[0, 1)", "[1, 2)", "[2, 3)"), (0.0, 1.0, 2.0, 3.0))
    >>> factors = [years, Factor("dead", ("no", "yes")), Factor("arm", ("old", "new"))]
    >>> cells = [[[21.0, 18.0], [60.0, 41.0]], [[25.0, 22.0], [55.0, 38.0]], [[180.0, 240.0], [59.0, 41.0]]]
    >>> counts = ContingencyTable(cells, 2.0, factors=factors)
    >>> rates = event_rates(counts, "years", "dead", "arm")
    >>> rates.groups, [round(float(rate.value), 3) for rate in rates.rates]
    (('old', 'new'), [0.23, 0.146])
    """

    time: str
    groups: tuple[str, ...]
    rates: tuple[Effect, ...]
    ratios: tuple[Effect, ...]

    def _view(self) -> View:
        rows: list[list[Inline]] = []
        for effect in (*self.rates, *self.ratios):
            held = " or ".join(f"{number(low)} to {number(high)}" for low, high in effect.pieces)
            rows.append([untrusted(effect.name), number(effect.value) if math.isfinite(effect.value) else "–", held])
        heads = ("", "estimate", f"{100.0 * self.rates[0].level:g}% set")
        return (table(join("Events per unit of ", untrusted(self.time)), heads, rows, numeric=(1, 2)),)

    __repr__ = Displayable.__str__


@takes_level
@takes_table
def event_rates(
    counts: ContingencyTable, time: str, event: str, group: str | None = None, level: float = 0.95
) -> EventRates:
    r"""Estimate events per unit of time at risk, and their ratios to the first group's.

    Parameters
    ----------
    counts : ContingencyTable
        Other factors are added up.
    time, event, group : str
        As of `kaplan_meier`.
    level : float
        Coverage of the sets, in [0.5, 1).

    Returns
    -------
    EventRates
        One for each level of `group`, and the ratios of all to the first.

    Raises
    ------
    ValueError
        When there is no such factor, or `level` is not in [0.5, 1).
    EstimationError
        When `time` has no edges, or `event` not two levels.

    Notes
    -----
    Time at risk is :math:`t=\sum_k\bar t_k(d_k+w_k)` by the middles of the intervals; both are linear in the cells, and
    so is their noise. Events are Poisson's given t. A rate's set is made of the λ ≥ 0 with :math:`(d-\lambda t)^2\le
    z^2[\lambda t+\mathrm{Var}(e_d-\lambda e_t)]`, and that of a ratio inverts the score test of :math:`d_1t_0=\theta
    d_0t_1` (`analyst_client.analyses.quadrics.score_statistic`). A rate's z is moved by the kurtosis that the noise
    gives :math:`d-\lambda t` at the estimate (`analyst_client.analyses.quadrics.critical_square`).

    Examples
    --------
    >>> from analyst_client import ContingencyTable
    >>> from analyst_client.analyses import Factor, event_rates
    >>> years = Factor("years", ("[0, 1)", "[1, 2)", "[2, 3)"), (0.0, 1.0, 2.0, 3.0))
    >>> factors = [years, Factor("dead", ("no", "yes")), Factor("arm", ("old", "new"))]
    >>> cells = [[[21.0, 18.0], [60.0, 41.0]], [[25.0, 22.0], [55.0, 38.0]], [[180.0, 240.0], [59.0, 41.0]]]
    >>> counts = ContingencyTable(cells, 2.0, factors=factors)
    >>> ratio = event_rates(counts, "years", "dead", "arm").ratios[0]
    >>> round(float(ratio.value), 2), round(ratio.low, 2), round(ratio.high, 2)
    (0.64, 0.5, 0.8)
    """
    critical = normal_square(level)
    edges, groups, cells, noise = _read(counts, time, event, group)
    M = rate_sums(len(groups), np.array(edges))
    sums = (M @ cells.ravel()).reshape(-1, 2)
    spread = noise.of(M)
    own = np.eye(sums.size)
    rates, ratios = [], []
    for g, (d, t) in enumerate(sums):
        square, linear, constant = map(float, rate_quadratic(sums[g], spread.of(own[2 * g : 2 * g + 2]), level))
        pieces = fieller(square, linear, constant, 0.0, math.inf)
        rates.append(Effect(groups[g], d / t if d >= 0.0 < t else math.nan, pieces or ((0.0, 0.0),), level))
    for g in range(1, len(groups)):
        pair = np.concatenate([sums[0], sums[g]])
        both = spread.of(own[[0, 1, 2 * g, 2 * g + 1]])
        value = pair[2] * pair[1] / (pair[0] * pair[3]) if np.all(pair > 0.0) else math.nan
        pieces = ratio_set(pair, both, bilinear(D1, T0), bilinear(D0, T1), SAMPLED, critical)
        ratios.append(Effect(f"{groups[g]} to {groups[0]}", value, pieces, level))
    return EventRates(time, groups, tuple(rates), tuple(ratios))


D0, T0, D1, T1 = np.eye(4)
"""Events and time at risk of two groups."""
SAMPLED = D0 + D1


def rate_sums(groups: int, edges: FloatArray) -> FloatArray:
    """Return the weights of cells in events and time at risk by group.

    Parameters
    ----------
    groups : int
        G.
    edges : ndarray of shape (T + 1,)

    Returns
    -------
    ndarray of shape (2G, 2GT)
    """
    middles = (edges[1:] + edges[:-1]) / 2.0
    one = np.stack([np.tile([0.0, 1.0], len(middles)), np.repeat(middles, 2)])
    return np.kron(np.eye(groups), one)


def rate_quadratic(sums: FloatArray, noise: CellNoise, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the coefficients of the quadratic that is not above 0 in a rate's set; see `event_rates`.

    Parameters
    ----------
    sums : ndarray of shape (..., 2)
        Events and time at risk.
    noise : CellNoise
        Of these two.
    level : float
        Coverage of the set.

    Returns
    -------
    tuple of ndarray
        Of shape (...) each.
    """
    d, t = sums[..., 0], np.maximum(sums[..., 1], 0.0)
    V = noise.covariance
    rate = np.maximum(d, 0.0) / np.where(t > 0.0, t, np.inf)
    along = np.stack([np.ones_like(rate), -rate], axis=-1)
    z2 = critical_square(level, noise.kurtosis_along(along, rate * t + np.sum(along @ V * along, axis=-1)))
    linear = -2.0 * d * sums[..., 1] - z2 * (t - 2.0 * V[0, 1])
    return sums[..., 1] ** 2 - z2 * V[1, 1], linear, d**2 - z2 * V[0, 0]


def _read(
    counts: ContingencyTable, time: str, event: str, group: str | None
) -> tuple[tuple[float, ...], tuple[str, ...], FloatArray, CellNoise]:
    """Return edges, groups, cells of shape (G, T, 2) and their noise."""
    kept = counts.margin(*([] if group is None else [group]), time, event)
    *by, times, events = kept.factors
    if times.edges is None or len(events.levels) != 2:
        raise EstimationError(f"{time!r} needs edges and {event!r} two levels, of which the last is the event")
    groups = by[0].levels if by else ("all",)
    shape = (len(groups), len(times.levels), 2)
    return times.edges, groups, kept.values.reshape(shape), kept.noise
