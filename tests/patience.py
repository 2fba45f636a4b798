"""One scale for everything in the tests that waits: a machine that is busy, or slow, gets more time for the same steps.

``CURATOR_TEST_TIME_SCALE`` multiplies every wait, lease, pause and duration of load. It loosens no assertion: where a
test orders two spans of time, both are scaled.
"""

import os
import time
from collections.abc import Callable

SCALE_VARIABLE = "CURATOR_TEST_TIME_SCALE"
TIME_SCALE = float(os.environ.get(SCALE_VARIABLE, "1"))


def scaled(span_s: float) -> float:
    """Return a span of time, in seconds, as long as this machine needs it."""
    return span_s * TIME_SCALE


def pause(span_s: float) -> None:
    time.sleep(scaled(span_s))


def wait_for(condition: Callable[[], object], what: str, within_s: float = 10.0) -> None:
    """Wait until something is so, for a scaled span at most."""
    end = time.monotonic() + scaled(within_s)
    while not condition():
        assert time.monotonic() < end, f"not so in {scaled(within_s)} s: {what}"
        time.sleep(0.01)
