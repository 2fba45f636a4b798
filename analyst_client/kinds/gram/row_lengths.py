"""Counts of rows by their length, and which row map they chose: read off a release that was bought in two steps."""

import math
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.model import number
from analyst_client.kinds.score.release import NORM_EDGES, ScoreRelease

SHARE = 0.02
"""Part of the price for the counts: a twentieth chose no better norms (``bench/row_maps.py``)."""
POINTS = 6
"""Places within a bin over which its rows are spread, evenly in the logarithm of the length."""


def count_groups(quote: Any) -> int:
    """Return the square of the longest possible row, without the constant: 1 for each group of terms."""
    return len({term.group for term in quote.terms if term.kind != "constant"})


def spread_counts(norms: ScoreRelease, groups: int) -> tuple[FloatArray, FloatArray]:
    """Return squared lengths ‖x‖² at which rows are taken to be, and the noisy number of rows at each.

    Rows of a bin are spread evenly over its lengths, in their logarithm. No row is longer than √groups: bins beyond
    hold noise alone, but for what rounding of directions moves there.
    """
    assert norms.norms is not None
    edges = np.log(NORM_EDGES) - math.log(float(np.max(norms.directions)))
    top, step = math.log(groups) / 2.0, math.log(1.6)
    inner = int(np.searchsorted(edges, top - 0.5 * step))  # bins below the longest row
    lows = np.r_[edges[0] - step, edges[:inner]]
    places = (lows[:, np.newaxis] + step * (np.arange(POINTS) + 0.5) / POINTS).ravel()
    lengths = np.r_[np.minimum(places, top), top]
    counts = np.r_[np.repeat(norms.norms[: inner + 1] / POINTS, POINTS), norms.norms[inner + 1 : inner + 2]]
    return np.exp(2.0 * lengths), counts


def _share_longer(squared: float, squares: FloatArray, rows: FloatArray) -> float:
    """Return the part of noisy counts that is of rows longer than a norm."""
    return min(max(float(rows[1.0 + squares > squared].sum() / max(rows.sum(), 1.0)), 0.0), 1.0)


def describe_choice(release: Any) -> str | None:
    """Return which row map of a release was chosen, and why, in one sentence; None where no counts chose it."""
    norms = [step for step in release.steps if step.norms is not None]
    if not norms or release.row_map not in {"ball", "box"}:
        return None
    told = f"counts of rows by their length ({norms[0].id}, {SHARE:.0%} of the price)"
    if release.norm is None:
        return f"box, chosen by {told}: noise is so small beside sampling error that no row need count for less"
    squares, rows = spread_counts(norms[0], count_groups(release.original))
    longer = _share_longer(release.norm**2, squares, rows)
    return f"norm {number(release.norm)}, chosen by {told}: about {longer:.0%} of rows are longer, and count for less"
