"""The clock of the service, and how the ledger writes a moment."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time of now, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """Format a moment as RFC 3339, to the second."""
    return f"{moment.astimezone(UTC).isoformat(timespec='seconds')[:-6]}Z"
