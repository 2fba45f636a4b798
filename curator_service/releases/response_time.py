"""Public times: when an answer shows follows from declarations, never from rows."""

import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from curator_service.datasets.engines.base import RowKernel
from curator_service.releases.stopping import Stopped

PASS_S = 0.005
"""What a pass is made to take beside its rows."""
NUMBER_S, PRODUCT_S = 8e-9, 0.1e-9
"""What a tile needs on the reference machine for each number of a mapped row, and for each product of two."""
HEADROOM = 6
"""How many times what its tiles need in a cache a pass is made to take: reading them adds up to a half, which leaves
four times for processors that others use."""
STEPS, STEP_LEAST_S = 16, 0.25
"""Most steps of a public time, at whose ends work that nobody wants any more may end, and the least length of one."""

_T = TypeVar("_T")


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
            _sleep_until(start + span)

    def work_in_steps(
        self,
        work: Callable[[Callable[[], bool]], _T],
        duration_s: float,
        is_unwanted: Callable[[], bool],
        *,
        step_least_s: float,
    ) -> _T:
        """Return what work gives after its duration, or after twice, four times, … of it, however it ends.

        Where it is unwanted at the end of a step, it is told to stop, and ends at the end of the next step; of a later
        one if it has not stopped by then. All that is looked at, and all that shows, is at multiples of a public step:
        whether the work was done and waited for its time, or was not, shows nowhere.

        Parameters
        ----------
        work : callable
            Runs in a thread of its own; what it is given tells whether to stop.
        is_unwanted : callable
            Tells whether somebody has cancelled the work.
        step_least_s : float
            How long the longest piece of the work is made to take that goes on though it is told to stop.

        Raises
        ------
        Stopped
        """
        start, span = time.monotonic(), duration_s * self.factor
        if span <= 0:
            return work(lambda: False)
        least_s = max(STEP_LEAST_S, step_least_s * self.factor)
        end, look, stopping = max(1, min(STEPS, int(span / least_s))), 1, threading.Event()  # in steps
        step = span / end
        under_way = begin(lambda: work(stopping.is_set))
        try:
            while True:
                at = min(look, end)
                _sleep_until(start + at * step)
                is_done = under_way.done()
                if is_done and stopping.is_set():  # also at the end: nothing of it is drafted and posted for nothing
                    raise Stopped
                if at == end:
                    if is_done:
                        return under_way.result()
                    end *= 2
                elif not stopping.is_set() and is_unwanted():
                    stopping.set()
                passed = (time.monotonic() - start) / step  # where a look takes long, what it was too late for is later
                while end < passed:
                    end *= 2
                look = max(at, int(passed)) + 1
        finally:
            stopping.set()  # what was left for an error is not worked on for nothing


def begin(work: Callable[[], _T]) -> Future[_T]:
    """Begin work in a thread of its own, which does not keep the process from ending."""
    future: Future[_T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=context.run, args=(run,), name="pass", daemon=True).start()
    return future


def _sleep_until(moment_s: float) -> None:
    while (left := moment_s - time.monotonic()) > 0:
        time.sleep(left)
