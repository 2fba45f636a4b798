"""Estimates of the centre, scale and range of a column, for a later request of recentred rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analyst_client.kinds.marginals.histogram import Histogram
from analyst_client.kinds.marginals.items import bounds_of, center_and_scale
from analyst_client.kinds.marginals.sums import Sums
from analyst_client.level import LEVEL
from analyst_client.schema.columns import Column

TAIL, TAIL_MAX = 0.005, 0.2
"""Part of the rows beyond either end of the range; more where the noise hides so few, but no more than that."""
MARGIN = 0.15
"""Part of the range that is added at either end."""
NOISE_SDS = 3.0
"""A part of the rows is above the noise if it is so many deviations."""
REACH = 2.5
"""Standard deviations from the mean to either end, where only moments are known."""


@dataclass(frozen=True)
class Recentring:
    """A proposal of where to center, scale and cut a column. It is made of what was released and costs nothing.

    Attributes
    ----------
    column : str
    center, scale : float
        About the mean and the standard deviation of the values between `low` and `high`, in the column's unit.
    low, high : float
        Nearly all values lie between; within the declared bounds.
    source : str
        ``"tree"``, ``"flat"`` or ``"moments"``; ``"bounds"`` where the noise hides what they told: then the range is
        that of the declared bounds, with its middle and half its width.

    Examples
    --------
    >>> from analyst_client import Flat, MarginalsRequest, Moments, Tree
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = MarginalsRequest([Tree(["age"]), Flat(["kappa"]), Moments(["age"])], epsilon=0.5, delta=1e-6)
    >>> found = client.release("flchain", request).recentring(["age"])["age"]
    >>> round(found.center, 1), round(found.scale, 1), found.source
    (64.0, 10.0, 'tree')
    """

    column: str
    center: float
    scale: float
    low: float
    high: float
    source: str


class _Place(NamedTuple):
    """A proposal where the bounds are at −1 and 1."""

    center: float
    scale: float
    low: float
    high: float


def propose(column: Column, histograms: Sequence[Histogram], sums: Sums | None) -> Recentring:
    """Return the proposal for a column, by the first of its histograms that tells enough, or else by its moments."""
    found = ((place_by_bins(histogram), "tree" if histogram.is_tree else "flat") for histogram in histograms)
    place, source = next(((place, source) for place, source in found if place is not None), (None, "moments"))
    if place is None and sums is not None:
        place = place_by_moments(sums)
    (low, high), (center, scale) = bounds_of(column), center_and_scale(column)
    if place is None:
        return Recentring(column.name, center, scale, low, high, "bounds")
    start, end = (min(max(center + scale * one, low), high) for one in (place.low, place.high))
    return Recentring(column.name, center + scale * place.center, scale * place.scale, start, end, source)


def place_by_bins(histogram: Histogram) -> _Place | None:
    """Return the place of a column by its bins: the range of its quantiles that rise above the noise; None if none do.

    Noise makes some bins of the far tails negative and others full, so the counts below each edge are first made to
    rise: halfway between the largest so far and the smallest to come.
    """
    values, n = histogram.values, float(histogram.values.sum())
    noise = float(np.max(histogram.cumulative_sds(0.5)))
    if n <= 0.0 or NOISE_SDS * noise > TAIL_MAX * n:
        return None
    below = np.clip(np.cumsum(values), 0.0, n)
    rising = (np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1]) / 2.0
    part = np.concatenate([[0.0], rising / rising[-1]])
    edges = np.linspace(-1.0, 1.0, len(values) + 1)
    width, middles = 2.0 / len(values), (edges[1:] + edges[:-1]) / 2.0
    tail = max(TAIL, NOISE_SDS * noise / n)
    # Rows are evenly within their bins; where no row is, the slope keeps the interpolation unique.
    inner = np.interp([tail, 1.0 - tail], part + 1e-12 * np.arange(len(part)), edges)
    low, high = float(inner[0]) - width, float(inner[1]) + width
    weights = np.diff(part) * ((middles >= low) & (middles <= high))
    mean = float(weights @ middles / weights.sum())
    deviation = math.sqrt(float(weights @ (middles - mean) ** 2 / weights.sum()))
    wider = MARGIN * (high - low)
    return _Place(mean, max(deviation, width / 2.0), max(low - wider, -1.0), min(high + wider, 1.0))


def place_by_moments(sums: Sums) -> _Place | None:
    """Return the place of a column by its mean and standard deviation; None if the noise hides the latter."""
    mean, deviation = (estimate(LEVEL, "dataset") for estimate in (sums.mean, sums.std))
    if not deviation.low > 0.0:
        return None
    reach = REACH * deviation.value
    return _Place(mean.value, deviation.value, max(mean.value - reach, -1.0), min(mean.value + reach, 1.0))
