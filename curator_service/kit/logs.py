"""What may be logged of an exception: apart from the HTTP application, which commands need not import."""

import logging
import traceback

log = logging.getLogger("curator_service")


def log_without_data(instance: str, error: BaseException) -> None:
    """Log where and what kind, never the message: it may hold a row."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames[-12:]))
    log.error("%s failed with %s at %s", instance, type(error).__qualname__, places)
