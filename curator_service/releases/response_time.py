"""Public times: when an answer shows follows from declarations, never from rows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from curator_service.datasets.engines.base import RowKernel

PASS_S = 0.005
"""What a pass is made to take beside its rows."""
NUMBER_S, PRODUCT_S = 8e-9, 0.1e-9
"""What a tile needs on the reference machine for each number of a mapped row, and for each product of two."""
HEADROOM = 6
"""How many times what its tiles need in a cache a pass is made to take: reading them adds up to a half, which leaves
four times for processors that others use."""


def pass_duration_s(kernel: RowKernel, row_capacity: int) -> float:
    """Return how long a pass over rows is made to take on the reference machine, from public numbers, in seconds.

    0 where there is none.
    """
    if kernel.cached_terms is not None:
        return 0.0
    return PASS_S + HEADROOM * row_capacity * row_s(kernel)


def row_s(kernel: RowKernel) -> float:
    """Return what one row needs on the reference machine, in seconds."""
    return kernel.width * NUMBER_S + kernel.products * PRODUCT_S


class ResponseTimer:
    """Makes work end at public times only.

    Parameters
    ----------
    factor : float
        Of every duration; 0 lets work end when it is done, for measurements of something else than time.
    """

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    @contextmanager
    def ending_at_public_time(self, duration_s: float) -> Iterator[None]:
        """Make a block end after its duration, or after twice, four times, … of it, however it ends.

        Where it takes longer than it should, the next time is as far away again: what shows is a few bits at most.
        """
        start, span = time.monotonic(), duration_s * self.factor
        try:
            yield
        finally:
            while span > 0 and time.monotonic() - start > span:
                span *= 2
            while (left := start + span - time.monotonic()) > 0:
                time.sleep(left)
