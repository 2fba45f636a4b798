"""The clock of the service, and how the ledger writes a moment."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

log = logging.getLogger("curator_service")
Clock = Callable[[], datetime]
EARLIER_MAX, LATER_MAX = timedelta(hours=1), timedelta(days=1)
"""How far the clock may be behind the newest moment that is stored, and ahead of it, and still go on from there."""
SETTLING_S, STEP_S = 600.0, 10.0
"""For how long any other clock must go on steadily to be believed, and how far it may be set within that; seconds."""


def utc_now() -> datetime:
    """Return the time of now, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """Format a moment as RFC 3339, to the second."""
    return f"{moment.astimezone(UTC).isoformat(timespec='seconds')[:-6]}Z"


def find_lead(moment: datetime, newest: str) -> timedelta:
    """Return how far the clock is ahead of the newest moment that is stored; nothing where there is none."""
    return moment - datetime.fromisoformat(newest) if newest else timedelta(0)


class SettledClock:
    """Tells whether the clock is right enough to end something for good.

    A machine may start with a clock that is years ahead, and set it a moment later. So a clock is believed that goes on
    from the newest moment that is stored, or that nobody has set for a while.

    Parameters
    ----------
    now : callable
        The clock.
    find_newest : callable
        Returns the newest moment that is stored.
    monotonic : callable
        Seconds that pass whatever the clock says.
    """

    def __init__(
        self, now: Clock, find_newest: Callable[[], str], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._now, self._find_newest, self._monotonic = now, find_newest, monotonic
        self._offset_s = float("-inf")
        self._since, self._goes_on = 0.0, False

    def is_settled(self) -> bool:
        """Look at the clock, and tell whether it may be believed."""
        moment, passed = self._now(), self._monotonic()
        offset_s = moment.timestamp() - passed
        if abs(offset_s - self._offset_s) > STEP_S:  # the first look, or it was set
            lead = find_lead(moment, self._find_newest())
            self._offset_s, self._since, self._goes_on = offset_s, passed, -EARLIER_MAX <= lead <= LATER_MAX
            if not self._goes_on:
                log.warning(
                    "the clock says %s, %.1f days after the newest entry of the ledger: proposals end by it when "
                    "nobody has set it for %.0f minutes",
                    timestamp(moment),
                    lead / timedelta(days=1),
                    SETTLING_S / 60,
                )
        return self._goes_on or passed - self._since >= SETTLING_S
