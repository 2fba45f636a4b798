"""Where columns are: what a refinement makes of marginals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyst_client.kinds.marginals.histogram import Histogram
from analyst_client.kinds.marginals.items import Marginal, bounds_of, center_and_scale
from analyst_client.kinds.marginals.recentring import place_by_bins
from analyst_client.kinds.marginals.sums import Sums

_VARIANCE_MIN = 1e-3
"""Least variance of a column within ±1 that moments are believed of."""
_FLAT_SDS = 2.0
"""A bin has rows where its count is so many deviations of the noise above 0."""


@dataclass(frozen=True)
class Place:
    """Centre and unit of a column, and the range to which it is cut, in the column's own unit.

    Attributes
    ----------
    center, scale, low, high : float
    """

    center: float
    scale: float
    low: float
    high: float

    @property
    def middle(self) -> float:
        """The middle of the range: 0 on the curator's lattice."""
        return (self.low + self.high) / 2.0

    @property
    def half_width(self) -> float:
        """Half of the range: 1 on the curator's lattice."""
        return (self.high - self.low) / 2.0


def count_rows(marginal: Marginal) -> float:
    """Return how many rows there are, by the moments of all columns that have a value in each; at least 10."""
    counts = [float(Sums.of_moments(marginal, k).values[0]) for k in range(len(marginal.columns))]
    complete = [count for count, column in zip(counts, marginal.columns, strict=True) if column.missing == "complete"]
    return max(float(np.mean(complete or counts)), 10.0)


def places_by_moments(marginal: Marginal, n: float, reach: float) -> list[Place]:
    """Place columns by their moments, cut at so many standard deviations from their means.

    A column of which some rows miss the value has moments of the others alone, and so has its count.
    """
    return [_place_by_moments(marginal, k, n, reach) for k in range(len(marginal.columns))]


def _place_by_moments(marginal: Marginal, k: int, n: float, reach: float) -> Place:
    sums, noise = Sums.of_moments(marginal, k), marginal.sd / n
    own = n if marginal.columns[k].missing == "complete" else max(float(sums.values[0]), n / 10.0)
    mean = float(np.clip(sums.values[1] / own, -1.0, 1.0))
    # Half a row's square is told with the noise of one draw: see the kind's moments.
    variance = float(marginal.values[k][2]) / own + 0.5 - mean**2
    deviation = math.sqrt(min(max(variance, 0.5 * noise, _VARIANCE_MIN), 1.0))
    low, high = max(mean - reach * deviation, -1.0), min(mean + reach * deviation, 1.0)
    return _in_own_unit(marginal, k, (mean, deviation, low, high))


def place_by_tree(marginal: Marginal) -> Place | None:
    """Place a column by its tree; None where the noise hides it."""
    place = place_by_bins(Histogram.of(marginal, 0))
    return None if place is None else _in_own_unit(marginal, 0, (place.center, place.scale, place.low, place.high))


def place_by_flat(flat: Marginal, moments: Marginal, n: float) -> Place:
    """Place a column by the bins that rise above the noise, and by its moments."""
    counts = flat.values[0]
    told = np.flatnonzero(counts > _FLAT_SDS * flat.sd)
    if not len(told):
        told = np.array([np.argmax(counts)])
    edges = np.linspace(-1.0, 1.0, len(counts) + 1)
    low, high = float(edges[told[0]]), float(edges[told[-1] + 1])
    mean = float(np.clip(moments.values[0][1] / n, low, high))
    variance = max(float(moments.values[0][2]) / n + 0.5 - mean**2, moments.sd / n, _VARIANCE_MIN)
    deviation = math.sqrt(min(variance, ((high - low) / 2.0) ** 2))
    return _in_own_unit(flat, 0, (mean, deviation, low, high))


def _in_own_unit(marginal: Marginal, k: int, place: Sequence[float]) -> Place:
    column = marginal.columns[k]
    (center, scale), (lower, upper) = center_and_scale(column), bounds_of(column)
    low, high = (min(max(center + scale * one, lower), upper) for one in place[2:])
    return Place(center + scale * place[0], scale * place[1], low, high)
