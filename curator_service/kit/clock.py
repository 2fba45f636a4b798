"""The clock of the service, and how the ledger writes a moment."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _Seen:
    """A clock as it was set last: beside seconds that pass, since when, and how far ahead of what is stored."""

    offset_s: float
    since_s: float
    lead: timedelta

    @property
    def goes_on(self) -> bool:
        return -EARLIER_MAX <= self.lead <= LATER_MAX

    def is_settled(self, passed: float) -> bool:
        return self.goes_on or passed - self.since_s >= SETTLING_S


class SettledClock:
    """Tells whether the clock is right enough to end something for good.

    A machine may start with a clock that is years ahead or behind, and set it a moment later. So a clock is believed
    that goes on from the newest moment that is stored, or that nobody has set for a while.

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
        self._seen = _Seen(float("-inf"), 0.0, timedelta(0))

    def is_settled(self) -> bool:
        """Look at the clock, and tell whether it may be believed."""
        moment, passed = self._now(), self._monotonic()
        return self._look(moment, passed).is_settled(passed)

    def judge(self) -> datetime:
        """Return the moment that ends are held against: what has ended by the ledger holds by no clock that is behind.

        Nothing is written by it.
        """
        moment, passed = self._now(), self._monotonic()
        seen = self._look(moment, passed)
        return moment if seen.is_settled(passed) else moment + max(-seen.lead, timedelta(0))

    def _look(self, moment: datetime, passed: float) -> _Seen:
        offset_s = moment.timestamp() - passed
        seen = self._seen
        if abs(offset_s - seen.offset_s) > STEP_S:  # the first look, or it was set
            # One object, for several threads look.
            self._seen = seen = _Seen(offset_s, passed, find_lead(moment, self._find_newest()))
            if not seen.goes_on:
                log.warning(
                    "the clock says %s, %.1f days after the newest entry of the ledger: datasets are cut, reservations "
                    "and proposals end by it when nobody has set it for %.0f minutes",
                    timestamp(moment),
                    seen.lead / timedelta(days=1),
                    SETTLING_S / 60,
                )
        return seen
