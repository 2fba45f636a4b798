"""Schedule of cuts, at which datasets get new rows: it follows from the calendar, and from no request."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from curator_service.kit.clock import Clock, timestamp, utc_now

Schedule = Literal["daily", "weekly", "monthly"]
GRACE = timedelta(hours=1)
"""How late rows may be renewed before nothing is released from them: a cut takes its time, and clocks differ."""


def last_cut(until: datetime, schedule: Schedule) -> datetime:
    """Return the last moment of a schedule that has come: midnight in UTC, of a Monday, or of the first of a month.

    Examples
    --------
    >>> last_cut(datetime(2026, 12, 31, 8, tzinfo=UTC), "weekly").isoformat()
    '2026-12-28T00:00:00+00:00'
    """
    midnight = until.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match schedule:
        case "daily":
            return midnight
        case "weekly":
            return midnight - timedelta(days=midnight.weekday())
        case "monthly":
            return midnight.replace(day=1)


def next_cut(since: datetime, schedule: Schedule) -> datetime:
    """Return the first moment of a schedule after another.

    Examples
    --------
    >>> next_cut(datetime(2026, 12, 31, 8, tzinfo=UTC), "monthly").isoformat()
    '2027-01-01T00:00:00+00:00'
    """
    last, days = last_cut(since, schedule), {"daily": 1, "weekly": 7, "monthly": 32}
    return last_cut(last + timedelta(days=days[schedule]), schedule)


@dataclass(frozen=True, slots=True)
class Calendar:
    """The moments of a schedule, as a clock sees them.

    Attributes
    ----------
    schedule : {"daily", "weekly", "monthly"}
    now : callable
        The clock.
    """

    schedule: Schedule = "monthly"
    now: Clock = utc_now

    @property
    def last(self) -> str:
        """The last moment that has come: which cut one that is made now is, however long it takes."""
        return timestamp(last_cut(self.now(), self.schedule))

    @property
    def next(self) -> str:
        """The moment that comes next."""
        return timestamp(next_cut(self.now(), self.schedule))

    def due(self, since: str) -> str:
        """Return when the rows of a version that began at a moment are to be renewed.

        Now, where it has begun at none, or at one that has not come: the clock was ahead then.
        """
        if self._is_unknown(since):
            return timestamp(self.now())
        return timestamp(next_cut(datetime.fromisoformat(since), self.schedule))

    def is_overdue(self, since: str) -> bool:
        """Return True if the rows should have been renewed by now."""
        return self._is_unknown(since) or self.now() > datetime.fromisoformat(self.due(since)) + GRACE

    def _is_unknown(self, since: str) -> bool:
        return not since or datetime.fromisoformat(since) > self.now() + GRACE
