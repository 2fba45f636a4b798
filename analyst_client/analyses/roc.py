"""The receiver operating characteristic of a score, from a table of its bins by outcome."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyst_client.analyses.cell_noise import CellNoise
from analyst_client.analyses.quadrics import critical_square, fieller
from analyst_client.analyses.table_results import Effect, Factor
from analyst_client.analyses.tables import ContingencyTable, takes_table
from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.figures import draw
from analyst_client.display.model import Inline, View, facts, number, table, untrusted
from analyst_client.errors import EstimationError
from analyst_client.kinds.arrays import frozen
from analyst_client.level import takes_level


@dataclass(frozen=True, eq=False, repr=False)
class RocCurve(Displayable):
    """The receiver operating characteristic at the edges of bins.

    Attributes
    ----------
    labels : tuple of str
        Bins of the score; a point counts this bin and all above as positive.
    false_positive, true_positive : ndarray of shape (B + 1,)
        From (0, 0) to (1, 1); noise may bend them, and they are cut to [0, 1].
    auc : Effect
        Area under the curve, ties within a bin as half: the probability that a row with the outcome has the higher
        score.
    false_positive_interval, true_positive_interval : ndarray of shape (B + 1, 2)
        Of each rate by itself, with the coverage of the area's set.

    Examples
    --------
    >>> from analyst_client import ContingencyTable
    >>> from analyst_client.analyses import Factor, roc_curve
    >>> factors = [Factor("risk", ("low", "middle", "high")), Factor("ill", ("no", "yes"))]
    >>> counts = ContingencyTable([[310.0, 18.0], [140.0, 41.0], [52.0, 96.0]], 2.0, factors=factors)
    >>> curve = roc_curve(counts, "risk", "ill")
    >>> curve.true_positive.round(2).tolist(), curve.false_positive.round(2).tolist()
    ([0.0, 0.62, 0.88, 1.0], [0.0, 0.1, 0.38, 1.0])
    """

    labels: tuple[str, ...]
    false_positive: FloatArray
    true_positive: FloatArray
    auc: Effect
    false_positive_interval: FloatArray
    true_positive_interval: FloatArray

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve with its intervals; needs the extra ``plots``, see `analyst_client.plots.roc_plot`.

        Parameters
        ----------
        ax : Axes, optional
            Default those of a new figure.

        Returns
        -------
        Axes
            With the area in its legend.
        """
        return draw("roc_plot", self, ax)

    def _view(self) -> View:
        rates = (
            (
                f"{number(value)} [{number(low)}, {number(high)}]"
                for value, (low, high) in zip(values, ends, strict=True)
            )
            for values, ends in (
                (self.false_positive[1:].tolist(), self.false_positive_interval[1:].tolist()),
                (self.true_positive[1:].tolist(), self.true_positive_interval[1:].tolist()),
            )
        )
        rows: list[list[Inline]] = [
            [untrusted(label), *both] for label, *both in zip(self.labels[::-1], *rates, strict=True)
        ]
        stated = f"{number(self.auc.value)}  [{number(self.auc.low)}, {number(self.auc.high)}]"
        return (
            facts("Receiver operating characteristic", [("AUC", stated)]),
            table("Points", ("from bin", "false positive", "true positive"), rows, numeric=(1, 2)),
        )

    __repr__ = Displayable.__str__


@takes_level
@takes_table
def roc_curve(counts: ContingencyTable, score: str, outcome: str, level: float = 0.95) -> RocCurve:
    r"""Return the receiver operating characteristic of a binned score, and the area under it.

    Parameters
    ----------
    counts : ContingencyTable
        Other factors are added up.
    score : str
        A factor whose levels ascend.
    outcome : str
        A factor with two levels, of which the last one is the outcome.
    level : float
        Coverage of the area's set, in [0.5, 1).

    Returns
    -------
    RocCurve
        Points at the edges of the bins, and the area.

    Raises
    ------
    ValueError
        When there is no such factor, or `level` is not in [0.5, 1).
    EstimationError
        When `outcome` has not two levels, or the noise hides one of them.

    Notes
    -----
    With cells :math:`x_i` of the outcome and :math:`y_i` without, and :math:`K_{ij}=1[i>j]+\tfrac12 1[i=j]`, the area
    is :math:`\theta=x^\top Ky/(x^\top 11^\top y)`. The set is made of the θ in [0, 1] with
    :math:`h^2\le z^2\,(V(\theta)+\nabla h^\top\Sigma\nabla h)` for :math:`h=\hat x^\top(K-\theta 11^\top)\hat y`, as
    Fieller's. The sampling variance V is :math:`\nabla h^\top\mathrm{diag}(\hat c_+)\nabla h` at the estimate, which is
    that of E. DeLong, D. DeLong, D. Clarke-Pearson ("Comparing the areas under two or more correlated receiver
    operating characteristic curves", Biometrics 44, 1988) with n in place of n − 1, and goes with
    :math:`\theta(1-\theta)`, as Wilson's for a share: near 1 an estimate tells too little of how it varies. Where the
    noise put the estimate on a bound, V is taken at each θ from the cells. z is moved by the kurtosis that the noise
    gives h at the estimate (`analyst_client.analyses.quadrics.critical_square`).

    Examples
    --------
    >>> from analyst_client import ContingencyTable
    >>> from analyst_client.analyses import Factor, roc_curve
    >>> factors = [Factor("risk", ("low", "middle", "high")), Factor("ill", ("no", "yes"))]
    >>> counts = ContingencyTable([[310.0, 18.0], [140.0, 41.0], [52.0, 96.0]], 2.0, factors=factors)
    >>> area = roc_curve(counts, "risk", "ill").auc
    >>> round(area.value, 2), round(area.low, 2), round(area.high, 2)
    (0.82, 0.78, 0.86)
    """
    kept = counts.margin(score, outcome)
    if len(kept.factors[1].levels) != 2:
        raise EstimationError(f"{outcome!r} needs two levels, of which the last is the outcome")
    y, x = kept.values.T
    if not (x.sum() > 0.0 and y.sum() > 0.0):
        raise EstimationError("the noise hides the rows with the outcome or those without")
    area, square, linear, constant = (float(part) for part in area_of(kept.values, kept.noise, level))
    pieces = fieller(square, linear, constant, 0.0, 1.0)
    above = [np.concatenate([[0.0], np.cumsum(part[::-1]) / part.sum()]) for part in (y, x)]
    curve = [frozen(np.clip(part, 0.0, 1.0)) for part in above]
    value = min(max(area, 0.0), 1.0)
    auc = Effect("area under the curve", value, pieces or ((value, value),), level)
    intervals = [frozen(part) for part in _rate_intervals(kept, level)]
    return RocCurve(kept.factors[0].levels, curve[0], curve[1], auc, *intervals)


def _rate_intervals(kept: ContingencyTable, level: float) -> FloatArray:
    """Return the intervals of the rates of false and of true positives at the edges, of shape (2, B + 1, 2)."""
    score, outcome = kept.factors
    B = len(score.levels)
    found = np.zeros((2, B + 1, 2))
    found[:, B] = 1.0
    for k in range(1, B):  # the k bins on top count as positive
        above = (np.arange(B) >= B - k).astype(np.float64)
        M = np.asarray(np.kron([1.0 - above, above], np.eye(2)), dtype=np.float64)
        cells = kept._mapped(M, [Factor(score.name, ("no", "yes")), outcome])
        shares = cells.proportions(outcome.name, level)
        found[:, k] = np.stack([shares.low[1], shares.high[1]], axis=-1)
    return found


def area_of(cells: FloatArray, noise: CellNoise, level: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the area under the curve, and the coefficients of the quadratic that is not above 0 in its set.

    Parameters
    ----------
    cells : ndarray of shape (..., B, 2)
        Without the outcome and with it; whatever stands before are repeats.
    noise : CellNoise
        Of the 2B cells.
    level : float
        Coverage of the set.

    Returns
    -------
    tuple of ndarray
        Of shape (...) each.
    """
    B = cells.shape[-2]
    y, x = cells[..., 0], cells[..., 1]
    K = np.tril(np.ones((B, B)), -1) + np.eye(B) / 2.0
    h = np.stack([np.einsum("...i,ij,...j->...", x, K, y), -x.sum(axis=-1) * y.sum(axis=-1)])  # 1 and θ
    by_x = np.stack([y @ K.T, -np.broadcast_to(y.sum(axis=-1, keepdims=True), y.shape)])
    by_y = np.stack([x @ K, -np.broadcast_to(x.sum(axis=-1, keepdims=True), x.shape)])
    gradient = np.stack([by_y, by_x], axis=-1).reshape(2, *cells.shape[:-2], 2 * B)
    sampled = gradient * np.maximum(cells, 0.0).reshape(*cells.shape[:-2], 2 * B)
    sampling, privacy = (np.einsum("a...k,b...k->ab...", s, gradient) for s in (sampled, gradient @ noise.covariance))
    with np.errstate(divide="ignore", invalid="ignore"):
        area = np.where(h[1] < 0.0, -h[0] / h[1], math.nan)
    at = np.where(h[1] < 0.0, np.clip(area, 0.0, 1.0), 0.5)
    own = sampling[0, 0] + 2.0 * at * sampling[0, 1] + at**2 * sampling[1, 1]
    inside = (at > 0.0) & (at < 1.0)
    share = np.where(inside, own / np.where(inside, at * (1.0 - at), 1.0), 0.0)  # of θ (1 − θ)
    V00, V01, V11 = (
        privacy[a, b] + np.where(inside, by_share, sampling[a, b])
        for a, b, by_share in ((0, 0, 0.0), (0, 1, share / 2.0), (1, 1, -share))
    )
    along = gradient[0] + at[..., None] * gradient[1]
    z2 = critical_square(level, noise.kurtosis_along(along, V00 + 2.0 * at * V01 + at**2 * V11))
    return area, h[1] ** 2 - z2 * V11, 2.0 * (h[0] * h[1] - z2 * V01), h[0] ** 2 - z2 * V00
