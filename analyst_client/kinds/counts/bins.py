"""Quantiles of a numeric column whose rows are counted in bins, with noise."""

import math
from collections.abc import Sequence

import numpy as np

from analyst_client.arrays import FloatArray


def quantile_of_bins(
    edges: Sequence[float], values: FloatArray, q: float, beyond: FloatArray
) -> tuple[float, float, float]:
    """Return a quantile of the rows in bins, and the outer edges of the bins that hold it for all the noise tells.

    `beyond` is exceeded by the noise of D with half of the error, at each of the bins + 1 edges; the outer two are not
    read. See `Table.quantile` for :math:`D_j`, and why looking at all bins costs no level.
    """
    below, whole = np.cumsum(values), float(np.sum(values))
    D = np.concatenate([[-math.inf], below[:-1] - q * whole, [math.inf]])  # the ends need no test
    here = int(np.argmax(D[1:] >= 0.0))
    known = np.ones(len(values), dtype=np.bool_)
    known[1:] &= D[1:-1] <= beyond[1:-1]
    known[:-1] &= D[1:-1] >= -beyond[1:-1]
    known[here] = True
    first, last = np.flatnonzero(known)[[0, -1]]
    start = below[here - 1] - q * whole if here else -q * whole
    end = below[here] - q * whole
    part = min(max(-start / (end - start), 0.0), 1.0) if end > start else 0.5
    value = edges[here] + part * (edges[here + 1] - edges[here])
    return float(value), edges[first], edges[last + 1]


def check_part(q: float) -> None:
    """Refuse what is no part of the rows. Raise `ValueError`."""
    if not 0.0 < q < 1.0:
        raise ValueError(f"q must be in (0, 1), not {q!r}")
