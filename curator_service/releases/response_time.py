"""Public times: when an answer shows follows from declarations, never from rows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from curator_service.datasets.engines.numpy import needs_pass
from curator_service.kinds.gram.plan import GramPlan
from curator_service.privacy.parts import Statistic

LAMBDA_MIN_S, LAMBDA_MIN_PER_CUBE_S = 0.005, 1e-9
PASS_S, PASS_PER_ENTRY_S, PASS_PER_PRODUCT_S = 0.005, 100e-9, 2e-9


def public_duration_s(plan: GramPlan, row_capacity: int) -> float:
    """Return how long the computation of a release is made to take, from public numbers, in seconds.

    How long reading, coding and multiplying take, how many factorisations λ_min takes, and how long a solver works,
    depends on rows that are not paid for. The duration is several times what they take; 0 where nothing of it is done.
    """
    terms = len(plan.design.terms)
    duration = 0.0
    if any(part.statistic is Statistic.LAMBDA_MIN for part in plan.parts):
        duration += LAMBDA_MIN_S + LAMBDA_MIN_PER_CUBE_S * terms**3
    if needs_pass(plan.design, plan.row_map):
        width = terms + len(plan.design.targets)
        duration += PASS_S + row_capacity * width * (PASS_PER_ENTRY_S + PASS_PER_PRODUCT_S * width)
    return duration


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
