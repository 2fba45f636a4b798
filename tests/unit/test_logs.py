"""A line of the log: what is listed and nothing else, whoever logs."""

import errno
import json
import logging
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from curator_service.kit import logs

CANARY = "patient-4711-weighs-93.5"


@pytest.fixture(params=["json", "text"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def line_of(name: str, level: int, message: str, *words: object, form: str = "json", **extra: Any) -> str:
    """Return the line that a record becomes."""
    record = logging.getLogger(name).makeRecord(
        name, level, __file__, 1, message, words, extra.pop("exc_info", None), extra=extra
    )
    return logs.LineFormatter(form).format(record)  # type: ignore[arg-type]


def failure() -> Any:
    try:
        float(CANARY)
    except ValueError as error:
        return type(error), error, error.__traceback__


@pytest.mark.parametrize("name", ["asyncio", "sqlalchemy.pool", "py.warnings", "opentelemetry.sdk", "uvicorn.error"])
def test_of_another_library_only_its_name_and_place_are_logged(name: str, form: str) -> None:
    line = line_of(name, logging.ERROR, f"{CANARY} %s", CANARY, form=form, exc_info=failure(), message_of=CANARY)
    assert CANARY not in line
    assert name in line
    assert "ValueError" in line
    assert "test_logs.py" in line


def test_of_the_server_below_an_error_its_starts_and_stops_are_told() -> None:
    line = json.loads(line_of("uvicorn.error", logging.INFO, "Started server process [%d]", 7))
    assert line["message"] == "Started server process [7]"
    assert "message" not in json.loads(line_of("uvicorn.error", 5, CANARY))  # its trace has addresses with queries


def test_what_the_system_refused_is_told_in_the_system_s_words(form: str) -> None:
    error = OSError(errno.EADDRINUSE, CANARY, f"/{CANARY}")
    for line in (
        line_of("uvicorn.error", logging.ERROR, error, form=form),  # type: ignore[arg-type]
        line_of("asyncio", logging.ERROR, f"{CANARY} %s", error, form=form),
        line_of("asyncio", logging.ERROR, CANARY, form=form, exc_info=(OSError, error, None)),
    ):
        assert os.strerror(errno.EADDRINUSE) in line
        assert CANARY not in line


def test_of_the_server_s_errors_those_that_quote_nothing_are_told() -> None:
    for text in (
        "Application startup failed. Exiting.",
        "Child process [7] failed to start, stopping the parent process.",
    ):
        assert json.loads(line_of("uvicorn.error", logging.ERROR, text))["message"] == text
        assert "message" not in json.loads(line_of("uvicorn.error", logging.ERROR, f"{text} {CANARY}"))


def test_a_field_that_is_not_listed_is_dropped(form: str) -> None:
    told = line_of(logs.OURS, logging.INFO, "the cohort", form=form, row=CANARY, authorization=CANARY, query=CANARY)
    assert CANARY not in told
    assert "the cohort" in told
    allowed = json.loads(line_of(logs.REQUESTS, logging.INFO, "", event="request", status=200, problem=None))
    assert set(allowed) == {"time", "level", "event", "status", "problem"}
    assert set(allowed) - {"time", "level"} <= set(logs.FIELDS)


def test_an_event_is_one_line_that_a_terminal_shows_as_it_is(form: str) -> None:
    line = line_of(logs.OURS, logging.WARNING, "one\ntwo\x1b[2J %s", "x" * 10_000, form=form, at="a\nb")
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 5000


def test_an_exception_of_ours_shows_its_class_and_place(form: str) -> None:
    line = line_of(logs.OURS, logging.ERROR, "it failed", form=form, exc_info=failure())
    assert CANARY not in line
    assert "ValueError" in line
    assert "test_logs.py" in line


SERVER = """
import logging, logging.config, sys, uvicorn
from curator_service.kit import logs
uvicorn.Config("nothing")  # what it configures by itself keeps its lines to itself
logging.config.dictConfig(logs.logging_config("json", requests=sys.argv[1] == "requests"))
for name in (logs.OURS, "uvicorn.error"):
    logging.getLogger(name).warning("hello")
for name in ("asyncio", "some.library"):
    logging.getLogger(name).warning("%s", sys.argv[2])
logging.getLogger(logs.REQUESTS).info("", extra={"event": "request"})
"""


def lines_of_a_server(requests: str) -> list[dict[str, Any]]:
    """Configure a process as the server does: one of its own, for that closes every handler that a process has."""
    command = [sys.executable, "-c", SERVER, requests, CANARY]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert CANARY not in written
    return [json.loads(line) for line in written.splitlines()]


def test_every_logger_has_the_one_handler() -> None:
    loggers = [line.get("logger") for line in lines_of_a_server("requests")]
    assert loggers == [logs.OURS, "uvicorn.error", "asyncio", "some.library", None]


def test_lines_of_requests_can_be_left_out() -> None:
    assert [line.get("logger") for line in lines_of_a_server("none")][-1] == "some.library"


def test_a_thread_that_ends_unforeseen_shows_no_message(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ValueError(CANARY)

    earlier = threading.excepthook
    with logs.without_tracebacks():
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    assert threading.excepthook is earlier
    assert "ValueError" in caplog.text
    assert CANARY not in caplog.text + capsys.readouterr().err


@pytest.mark.parametrize(
    ("chosen", "is_terminal", "form"), [(None, True, "text"), (None, False, "json"), ("json", True, "json")]
)
def test_a_person_at_a_terminal_reads_text(
    monkeypatch: pytest.MonkeyPatch, chosen: Any, is_terminal: bool, form: str
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    assert logs.choose_format(chosen) == form
