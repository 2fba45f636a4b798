"""Public times: when an answer shows follows from declarations, never from rows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from curator_service.datasets.engines.base import RowKernel

PASS_S, PASS_PER_NUMBER_S, PASS_PER_PRODUCT_S = 0.005, 100e-9, 2e-9


def pass_duration_s(kernel: RowKernel, row_capacity: int) -> float:
    """Return how long a pass over rows is made to take, from public numbers, in seconds; 0 where there is none."""
    if kernel.cached_terms is not None:
        return 0.0
    per_number_s = PASS_PER_NUMBER_S + PASS_PER_PRODUCT_S * (kernel.products / kernel.width)
    return PASS_S + row_capacity * kernel.width * per_number_s


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
