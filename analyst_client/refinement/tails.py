"""The law of gradient norms: the part beyond a clipping norm, and its effect on an interval."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.kinds.score.release import ScoreRelease

_DEGREES = np.array([2.2, 2.6, 3.2, 4.0, 6.0, 10.0, 50.0])
"""Degrees of freedom that residuals may have, as Student's t: from many outliers to none."""
_LOG_PRIOR = np.log([0.005, 0.02, 0.06, 0.15, 0.25, 0.3, 0.215])
"""Logarithms of their prior probabilities. The part cut off is then about half of its mean in ``bench/shifts.py``:
a heavier guess would make intervals from few rows longer still."""
_STRAYS = ((0.0, 1.0), *((part, times) for part in (0.005, 0.015, 0.05, 0.12) for times in (2.5, 4.0, 6.5)))
"""Parts of the rows that may stray beyond any one such law, and how many times as far: their residuals are normal."""
_LOG_STRAY_PRIOR = np.log([0.7, *([0.3 / 12] * 12)])
"""Logarithms of their prior probabilities."""
_SCALES = np.geomspace(0.02, 2.0, 47)
"""Scales that residuals may have, in spreads of the target."""
_MISFIT = 0.2
"""Relative misfit of such a law, in the part of rows in a bin."""
_VARIANCE_SD, _VARIANCE_SD_SEEN = 0.3, 1.0
"""Deviation of the logarithm of a law's variance from that of the expected residual variance, before a histogram and
after: it shows by itself how long gradients are, and long tails are no part of what is expected."""
_REACHES = np.geomspace(1e-2, 1e3, 241)
"""Norms at which tails are tabulated, in scales times the root of the number of coordinates."""
_CHOICE = np.geomspace(0.8, 25.0, 36)
"""Norms that may be chosen, over the root of the number of coordinates, in scales."""
_MIDDLES = (np.arange(64) + 0.5) / 64.0
"""Probabilities by which a law is taken at equally likely points."""
ALIGNED = 0.6
"""Part of what is cut off that moves one coefficient: 0.02 to 0.68 (``bench/shifts.py``), and 1 at the very most."""
_HELD, _SIDE = 1.96, 1.645
"""Normal quantiles of an interval, and of its one end towards which a shift goes."""


class _Tables(NamedTuple):
    """Of gradients of scale 1, by degrees of freedom and reach.

    Attributes
    ----------
    beyond, moved, excess : ndarray
        The part of rows beyond a norm; that part with each row weighted by its square; and the mean of what is beyond.
    """

    beyond: FloatArray
    moved: FloatArray
    excess: FloatArray


@lru_cache(maxsize=32)
def _tables(d: int) -> _Tables:
    from scipy import special  # noqa: PLC0415 -- the import of the client stays quick

    def beyond(k: int) -> FloatArray:
        lengths = np.sqrt(2.0 * special.gammaincinv(k / 2.0, _MIDDLES) / d)  # of k normal numbers, equally likely
        return np.array([2.0 * special.stdtr(df, -_REACHES[:, None] / lengths).mean(axis=1) for df in _DEGREES])

    rows = beyond(d)
    steps = np.diff(_REACHES) * (rows[:, 1:] + rows[:, :-1]) / 2.0
    excess = np.pad(np.cumsum(steps[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
    return _Tables(rows, beyond(d + 2), excess)


class Tails:
    r"""A law of the norms of gradients in coordinates in which XᵀX is the identity times the rows.

    Parameters
    ----------
    d : int
        Coordinates.
    rows : float
    variance : float
        Of residuals, as it is expected, in squares of the target's spread.

    Notes
    -----
    A gradient is taken as :math:`v r` with d standard normal numbers v and a residual r of Student's t. Its degrees of
    freedom and its scale are a grid. Each histogram of norms weighs them by its likelihood: bins are normal with the
    variance of their noise, of drawing rows, and of a misfit of the law.
    """

    def __init__(self, d: int, rows: float, variance: float) -> None:
        self.d, self.rows, self.variance = d, rows, variance
        self._log = np.add.outer(_LOG_STRAY_PRIOR, np.tile(_LOG_PRIOR[:, None], len(_SCALES)))
        self._has_seen = False

    def see(self, release: ScoreRelease, norm: float) -> None:
        """Take in the histogram of a score's gradients, which were clipped to a norm in spreads of the target."""
        if release.norms is None:
            return
        longer = self._at(_tables(self.d).beyond, np.asarray(release.norm_edges) * norm)
        parts = -np.diff(longer, axis=-1, prepend=1.0, append=0.0) * self.rows
        variance = (release.noise.norms or 0.0) ** 2 + parts + (_MISFIT * parts) ** 2
        self._has_seen = True
        self._log -= 0.5 * np.sum((np.asarray(release.norms) - parts) ** 2 / variance + np.log(variance), axis=-1)

    def kept(self, norm: float) -> float:
        r"""Return how much a clipped score moves with the coefficients, over one that is not clipped.

        A clipped gradient does not move with θ where it is longer than the norm, so the derivative is
        :math:`\sum vv^\top 1\{|v||r| \le C\}`. Its trace over d is the part of rows with :math:`|v'||r| \le C`, for
        normal v' of d + 2 numbers.
        """
        return 1.0 - float(np.sum(self._weights * self._at(_tables(self.d).moved, np.array([norm]))[..., 0]))

    def shift(self, norms: FloatArray) -> FloatArray:
        """Return how far what norms cut off is taken to move a score in one direction."""
        cut = self._at(_tables(self.d).excess, norms, power=1) * math.sqrt(self.d) * _SCALES[:, None]
        return np.asarray(ALIGNED * self.rows * np.einsum("hij,hijk->k", self._weights, cut))

    def norm(self, cost: float) -> float:
        """Return the norm that makes an interval shortest, by scores that cost so much of µ² together."""
        norms = _CHOICE * math.sqrt(self.d) * self.scale
        told = norms**2 / cost + self.rows * self.variance
        return float(norms[np.argmin(told + allowance(self.shift(norms), told))])

    @property
    def scale(self) -> float:
        """The expected scale of residuals."""
        return float(np.sum(self._weights * _SCALES))

    @property
    def _weights(self) -> FloatArray:
        """Return the weight of each law, by what strays, degrees of freedom and scale."""
        sd = _VARIANCE_SD_SEEN if self._has_seen else _VARIANCE_SD
        inner = np.array([1.0 - part for part, _ in _STRAYS])
        outer = np.array([part * times**2 for part, times in _STRAYS])
        variances = np.multiply.outer(inner, _DEGREES / (_DEGREES - 2.0)) + outer[:, None]
        variances = np.multiply.outer(variances, _SCALES**2)
        log = self._log - 0.5 * ((np.log(variances) - math.log(self.variance)) / sd) ** 2
        weights = np.exp(log - log.max())
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def _at(self, table: FloatArray, norms: FloatArray, power: int = 0) -> FloatArray:
        """Return a table at norms, by what strays, degrees of freedom, scale and norm; its unit is a power of scale."""
        reaches, places = np.log(norms[None, :] / (math.sqrt(self.d) * _SCALES[:, None])), np.log(_REACHES)
        inner = np.array([np.interp(reaches, places, row, right=0.0) for row in table])
        outer = [
            times**power * np.interp(reaches - math.log(times), places, table[-1], right=0.0) for _, times in _STRAYS
        ]
        return np.array([(1.0 - part) * inner + part * one for (part, _), one in zip(_STRAYS, outer, strict=True)])


def allowance(shift: FloatArray, variance: FloatArray) -> FloatArray:
    r"""Return what is added to a variance so that an interval allows for a shift.

    Notes
    -----
    With variance :math:`\sigma^2` and a shift b the interval of half-length
    :math:`1.96\sqrt{\sigma^2 + a} = |b| + 1.645\sigma` holds the truth with probability 0.95 or more. No a is needed
    below :math:`b = 0.315\sigma`.
    """
    half = (shift + _SIDE * np.sqrt(variance)) / _HELD
    return np.asarray(np.maximum(half**2 - variance, 0.0), dtype=np.float64)
