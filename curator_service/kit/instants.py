"""Dates and times of ISO 8601 as numbers since an origin."""

import datetime
import re

MICROSECONDS = {"days": 86_400_000_000, "hours": 3_600_000_000, "seconds": 1_000_000}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}(?::\d{2})?)?", re.ASCII
)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def parse_instant(word: str, *, with_time: bool = True) -> int | None:
    """Return the microseconds since 1970 of a date or a time, or None.

    Parameters
    ----------
    word : str
        ``2020-01-31``, or ``2020-01-31T23:59``, with seconds, their fraction and an offset where there are any. A time
        without an offset is taken as UTC, so that what it counts depends on nothing but the word.
    with_time : bool
        Whether more than a date is read.
    """
    if _DATE.fullmatch(word):
        date, clock, seconds, fraction, offset = word, "00:00", "00", "", "Z"
    elif with_time and (found := _DATETIME.fullmatch(word)):
        date, clock, seconds, fraction, offset = (part or "" for part in found.groups())
    else:
        return None
    try:
        instant = datetime.datetime.fromisoformat(f"{date}T{clock}:{seconds or '00'}{offset or 'Z'}")
        return (instant - _EPOCH) // datetime.timedelta(microseconds=1) + int(f"{fraction:0<6}"[:6])
    except (ValueError, OverflowError):
        return None


def count_units(instant: int, origin: str, unit: str) -> float:
    """Return how many units an instant lies after an origin that `parse_instant` reads."""
    start = parse_instant(origin)
    assert start is not None
    return (instant - start) / MICROSECONDS[unit]
