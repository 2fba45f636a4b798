"""Retries: which answers are asked for again, and after how long."""

import email.utils
import random
from datetime import UTC, datetime

import httpx

from analyst_client.errors import CuratorError, LedgerSealedError, ServiceUnavailableError

RETRIED_STATUSES = frozenset({408, 429, 499, 502, 503, 504})
FIRST_DELAY_S, LONGEST_DELAY_S, LONGEST_RETRY_AFTER_S = 0.25, 8.0, 60.0


def is_retried(failure: CuratorError) -> bool:
    """Return whether the same request may fare better in a moment.

    A sealed ledger, or rows that are gone, wait for an admin, so asking again at once would only add load. A request
    that a job works on is answered when the job is done: that is what to ask for.
    """
    if failure.slug == "dataset-unavailable" or isinstance(failure, LedgerSealedError):
        return False
    if isinstance(failure, ServiceUnavailableError) and failure.job:
        return False
    return failure.status in RETRIED_STATUSES or failure.slug == "release-in-progress"


def delay_before(attempt: int, retry_after_s: float | None) -> float:
    """Return how long to wait before the given attempt (2, 3, …), in seconds: exponential, bounded, with jitter."""
    jitter = random.uniform(0.5, 1.0)  # noqa: S311 -- spreads load, hides nothing
    backoff: float = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** (attempt - 2)) * jitter
    if retry_after_s is None:
        return backoff
    return min(LONGEST_RETRY_AFTER_S, retry_after_s) + min(1.0, backoff)


def read_wait(answer: httpx.Response) -> float:
    """Return for how many seconds the curator lets one wait for a job in one request; 0 where it does not."""
    value = answer.headers.get("Curator-Wait", "")
    return float(value[:9]) if value.isascii() and value.isdigit() else 0.0


def read_retry_after(answer: httpx.Response) -> float | None:
    """Return the seconds of ``Retry-After``, stated as a number or as a date; None when it says nothing."""
    value = answer.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())
