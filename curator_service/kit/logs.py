"""The log: one line for each event, of the fields that are listed here and of nothing else.

A log leaves the machine sooner or later. No message of an exception and no text of another library stands in it, since
either may hold a row; no header, query or body, since these may hold a token. What is logged of an exception is its
class and where it was raised.
"""

import json
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

from curator_service.kit.names import make_visible

LogFormat = Literal["json", "text"]
OURS = "curator_service"
REQUESTS = f"{OURS}.requests"
"""The logger of a line for each request."""
FIELDS = (
    "event",
    "message",  # ours: names of public declarations, and numbers that do not depend on a row
    "request",  # its id, as the header X-Request-Id and a problem's `instance` have it
    "method",
    "route",  # as the interface declares it, without what stands in its place
    "status",
    "problem",
    "kind",
    "outcome",
    "duration_ms",  # of the whole answer, which whoever asked has measured
    "principal",  # the id
    "peer",  # an address, of the proxy's client where a proxy is declared
    "error",  # the class of an exception
    "at",  # where it was raised: files and lines
    "logger",
)
"""What a line may have beside its time and its level, in this order. Whatever else somebody logs is dropped."""
_LONGEST = 2000
_OF_STARTS = re.compile(
    r"Application (startup|shutdown) failed\. Exiting\."
    r"|Child process \[\d+\] failed to start, stopping the parent process\."
    r"|Cancel %s running task\(s\), timeout graceful shutdown exceeded"
)
"""Errors of the server below that quote nothing."""

log = logging.getLogger(OURS)


class LineFormatter(logging.Formatter):
    """Makes a line of a record: the only place where something becomes a part of the log.

    Parameters
    ----------
    form : str
        ``json`` or ``text``.
    """

    def __init__(self, form: LogFormat = "json") -> None:
        super().__init__()
        self.form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        found = _find_fields(record)
        told = {name: _bound(found[name]) for name in FIELDS if name in found}
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        if self.form == "json":
            return json.dumps({"time": moment, "level": record.levelname.lower(), **told}, ensure_ascii=False)
        message = told.pop("message", "")
        return " ".join(
            [moment, record.levelname, *(f"{name}={value}" for name, value in told.items()), str(message)]
        ).rstrip()


def _find_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return what may be told of a record, among other things: the list decides."""
    found: dict[str, Any] = {}
    if record.name.partition(".")[0] == OURS:
        found = {name: value for name, value in vars(record).items() if name != "message"}
        if record.msg:
            found["message"] = record.getMessage()
    elif record.name == "uvicorn.error" and (
        logging.INFO <= record.levelno < logging.ERROR or _OF_STARTS.fullmatch(str(record.msg))
    ):
        found["message"] = record.getMessage()  # of starts and stops; any other error quotes exceptions
    else:
        found["at"] = f"{record.pathname}:{record.lineno}"
    if "message" not in found and (reason := _find_reason(record)):
        found["message"] = reason
    if record.name != REQUESTS:
        found.setdefault("event", "log")
        found["logger"] = record.name
    if record.exc_info and record.exc_info[0] is not None:
        found |= _describe(record.exc_info[0], record.exc_info[2])
    return found


def _find_reason(record: logging.LogRecord) -> str:
    """Return why the system refused something, in the system's own words for its number; empty if it did not."""
    causes = (record.msg, *(record.args or ()), record.exc_info[1] if record.exc_info else None)
    number = next((cause.errno for cause in causes if isinstance(cause, OSError) and cause.errno), None)
    return "" if number is None else os.strerror(number)


def _bound(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return make_visible(str(value)).replace("\n", " ")[:_LONGEST]


def _describe(kind: type[BaseException], places: TracebackType | None) -> dict[str, str]:
    frames = reversed(traceback.extract_tb(places)[-12:])
    return {
        "error": kind.__qualname__,
        "at": " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames),
    }


def log_without_data(instance: str, error: BaseException) -> None:
    """Log where and what kind, never the message: it may hold a row.

    Parameters
    ----------
    instance : str
        The id of a request or of a job, or what failed, in words.
    """
    about = _describe(type(error), error.__traceback__)
    log.error("%s failed with %s at %s", instance, about["error"], about["at"], extra={"event": "failure"})


def logging_config(form: LogFormat, *, requests: bool = True) -> dict[str, Any]:
    """Return the configuration of every logger of a process, as `logging.config` and uvicorn read it.

    Parameters
    ----------
    form : str
        ``json`` or ``text``.
    requests : bool
        Whether each request has its line.

    Returns
    -------
    dict
        One handler, for all: on the error stream.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": f"{__name__}.{LineFormatter.__name__}", "form": form}},
        "handlers": {"line": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["line"], "level": "WARNING"},
        "loggers": {
            OURS: {"level": "INFO", "propagate": True},
            REQUESTS: {"level": "INFO" if requests else "WARNING", "propagate": True},
            # Its own defaults, if anything has set them before, would keep its lines to itself.
            "uvicorn": {"level": "INFO", "propagate": True},
        },
    }


def choose_format(form: LogFormat | None) -> LogFormat:
    """Return the format that was set; else text for a person at a terminal, and JSON for everything else."""
    return form or ("text" if sys.stderr.isatty() else "json")


@contextmanager
def without_tracebacks() -> Iterator[None]:
    """Log what ends a thread unforeseen as everything else: Python would print its exception, with its message."""
    earlier = threading.excepthook

    def note(ended: threading.ExceptHookArgs) -> None:
        if ended.exc_value is not None:
            log_without_data("a thread", ended.exc_value)

    threading.excepthook = note
    try:
        yield
    finally:
        threading.excepthook = earlier
