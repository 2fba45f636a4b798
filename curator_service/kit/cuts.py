"""When the rows of datasets are renewed: at moments that follow from the calendar, and from nothing that was asked."""

from datetime import UTC, datetime, timedelta
from typing import Literal

Schedule = Literal["daily", "weekly", "monthly"]


def next_cut(since: datetime, schedule: Schedule) -> datetime:
    """Return the first moment of a schedule after another: midnight in UTC, of a Monday, or of the first of a month.

    Examples
    --------
    >>> next_cut(datetime(2026, 12, 31, 8, tzinfo=UTC), "monthly").isoformat()
    '2027-01-01T00:00:00+00:00'
    """
    midnight = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match schedule:
        case "daily":
            return midnight + timedelta(days=1)
        case "weekly":
            return midnight + timedelta(days=7 - midnight.weekday())
        case "monthly":
            return (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
