"""Pace of this machine over rows, measured on synthetic ones: it scales public times."""

import functools
import math
import time

import numpy as np
from threadpoolctl import threadpool_limits

from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.numpy import tile_rows
from curator_service.kinds.registry import KINDS, KindRegistry
from curator_service.privacy.lattice import STORED_UNIT, StoredArray
from curator_service.releases.response_time import row_s

STEPS_PER_DOUBLING = 4
"""Of the grid on which a pace lies: coarse enough for two measurements of one machine to agree, mostly."""
_REPEATS = 15


@functools.cache
def measure_pace(kinds: KindRegistry = KINDS) -> float:
    """Measure how many times as long as the reference machine this one takes to map and add rows, in processor time.

    Reads no row of anybody: rows are made up. The slowest of the kinds' typical kernels counts, each at the best of
    several times, rounded up to a quarter power of two. Takes half a second, once in a process.

    Returns
    -------
    float
    """
    with threadpool_limits(1, user_api="blas"):
        return round_up(max(map(_slowness, kinds.typical)))


def round_up(slowness: float) -> float:
    """Return the least pace of the grid that is no less.

    Examples
    --------
    >>> round_up(1.01), round_up(2.0)
    (1.189207115002721, 2.0)
    """
    return float(2 ** (math.ceil(STEPS_PER_DOUBLING * math.log2(slowness)) / STEPS_PER_DOUBLING))


def _slowness(kernel: RowKernel) -> float:
    """Return the time of a tile over what the reference machine needs for it."""
    count = tile_rows(kernel.width)
    stored, counted = _make_rows(kernel, count), np.ones(count, dtype=np.bool_)
    mapped = np.empty((count, kernel.width), dtype=np.float64, order="F")

    def once() -> float:
        start = time.thread_time()
        kernel.map({name: values.copy() for name, values in stored.items()}, counted, mapped)
        kernel.sum(mapped)
        return time.thread_time() - start

    return min(once() for _ in range(_REPEATS)) / (count * row_s(kernel))


def _make_rows(kernel: RowKernel, count: int) -> dict[str, StoredArray]:
    """Return values that are spread over their bounds."""
    spread = np.linspace(-STORED_UNIT, STORED_UNIT, count).astype(np.int32)
    return {name: np.roll(spread, 7 * i) for i, name in enumerate(kernel.columns)}
