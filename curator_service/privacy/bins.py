"""Public cut points of a numeric column: which stored integers fall into which bin."""

from collections.abc import Sequence

import numpy as np

from curator_service.privacy.lattice import IntArray, StoredArray, center_and_scale, to_stored

_BEYOND = 2**31 - 1
"""Above every stored integer."""


def equal_edges(count: int, lower: float, upper: float) -> list[float]:
    """Return the edges of equal bins of a column's declared bounds; the outer ones are the bounds themselves."""
    center, scale = center_and_scale(lower, upper)
    return [lower, *(center + scale * (2 * i / count - 1) for i in range(1, count)), upper]


def cut_points(edges: Sequence[float], lower: float, upper: float) -> IntArray:
    """Return the stored integers at which bins begin, and the one at which the last has ended.

    A cut point is stored as values are, so a value is on that side of it on which it was, and a value that is a cut
    point begins a bin. Values beyond the declared bounds were stored as the bound; the bin that ends there holds it.

    Parameters
    ----------
    edges : sequence of float
        In the column's unit, within its bounds.

    Raises
    ------
    ValueError
        If they are not in order on the lattice: two may be too close for it.
    """
    cuts = to_stored(np.array(edges, dtype=np.float64), lower, upper).astype(np.int64)
    if (np.diff(cuts) <= 0).any():
        raise ValueError("edges must increase, by more than a part in 2^30 of the bounds")
    cuts[-1] += edges[-1] >= upper
    return cuts


def find_bins(stored: StoredArray, cuts: IntArray) -> IntArray:
    """Return the bin of each stored integer: −1 for a missing value and for one that is in no bin.

    Notes
    -----
    A search by halves whose steps follow from the number of cuts alone: one that branches by what it finds
    takes twice as long for values that are spread as for values that are equal, and shows it.
    """
    halvings = len(cuts).bit_length()
    padded = np.full(2**halvings, _BEYOND, dtype=np.int32)
    padded[: len(cuts)] = cuts
    passed = np.zeros(len(stored), dtype=np.int64)  # cuts at or below each value
    for k in reversed(range(halvings)):
        passed += (padded.take(passed + (2**k - 1)) <= stored).astype(np.int64) << k
    passed *= passed < len(cuts)
    return passed - 1
