"""Secrets of the tests' data that no log, counter, refusal or page may show, and the search for them.

A number of the tests' rows ends in digits that no other number has; a token, a session's id, a private key and a
password are known as they are made. Every line of the log, as the service writes it, every header, every refusal, page
and answer of /metrics, what a test leaves on the error stream, and the log of every server that was started are
searched. A test during which something is shown fails; of servers in processes of their own the last of a run does.
"""

import logging
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from curator_service.api.http import RequestGuard
from curator_service.dashboard import sessions
from curator_service.identity import tokens
from curator_service.kit import logs

MARK = "00004711"
"""The last digits of a number of a row, after four decimals: some 10⁻⁹, which moves no number on the lattice."""
SHOWN_TYPES = ("application/problem+json", "text/html", "text/plain", "text/csv")
"""Of answers that are searched: JSON besides is what was asked for, such as a token that was made just now."""
_KEY = "MC4CAQAwBQYDK2VwBCIEI"  # as the text of every private Ed25519 key begins (RFC 8410), in base64
_ALWAYS = re.compile(rf"{MARK}|{_KEY}|BEGIN PRIVATE KEY|cur_[0-9a-f]{{16}}_[A-Za-z0-9_-]{{43}}")
_LONG, _DIGEST = re.compile(r"[A-Za-z0-9_-]{32,}"), re.compile(r"[0-9a-f]{64}")


def mark(rows: list[dict[str, str]], names: list[str]) -> list[dict[str, str]]:
    """Return rows whose numbers end in `MARK`, in the columns that are named."""
    return [row | {name: f"{float(row[name]):.4f}{MARK}" for name in names if row[name]} for row in rows]


class Canaries:
    """The secrets that are searched for, and the places where one was shown.

    Attributes
    ----------
    found : list of str
        Where something was shown, and what sort of thing; never the secret itself.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self._secrets: dict[int, set[str]] = {}

    def add(self, secret: str) -> str:
        """Note a secret, and return it."""
        assert _LONG.fullmatch(secret), "what is short, or of other signs, is not searched for"
        self._secrets.setdefault(len(secret), set()).add(secret)
        return secret

    def search(self, text: str, where: str) -> None:
        """Search a text."""
        for shown in _ALWAYS.findall(text):
            kind = "a number of a row" if shown == MARK else "a token" if shown.startswith("cur_") else "a private key"
            self.found.append(f"{where} shows {kind}")
        for word in _LONG.findall(text):
            if _DIGEST.fullmatch(word):  # pages are full of them
                continue
            for length, known in self._secrets.items():
                if any(word[start : start + length] in known for start in range(len(word) - length + 1)):
                    self.found.append(f"{where} shows a secret of {length} signs")

    def search_answer(self, answer: httpx.Response) -> None:
        """Search what a server in a process of its own has answered: a hook of a client."""
        if answer.headers.get("content-type", "").startswith(SHOWN_TYPES):
            self.search(answer.read().decode(errors="replace"), f"the answer to {answer.request.method} of a server")

    def search_logs(self, folder: Path) -> int:
        """Search what servers have written, in every folder below; return how many files there are."""
        files = [file for file in folder.rglob("*.log") if file.is_file()]
        for file in files:
            self.search(file.read_text(encoding="utf-8", errors="replace"), f"the log {file.name}")
        return len(files)

    def take(self) -> list[str]:
        """Return what was found, and forget it."""
        found, self.found = self.found, []
        return found

    # --- Where to look

    def guard(self, serve: Any) -> Any:
        """Return what a `RequestGuard` calls, with its answers searched."""

        async def call(guard: RequestGuard, scope: Scope, receive: Receive, send: Send) -> None:
            kind, where = "", f"{scope.get('method', '')} {scope.get('path', '')}"

            async def searched_send(message: Message) -> None:
                nonlocal kind
                if message["type"] == "http.response.start":
                    told = {name: text for name, text in message.get("headers", ()) if name != b"set-cookie"}
                    # A page of a token that was made just now is what was asked for.
                    is_asked_for = message["status"] == 201 and where.startswith("POST /admin/tokens/")
                    kind = "" if is_asked_for else told.get(b"content-type", b"").decode()
                    self.search(b"\n".join(told.values()).decode("latin-1"), f"a header of {where}")
                elif kind.startswith(SHOWN_TYPES):
                    self.search(bytes(message.get("body", b"")).decode(errors="replace"), f"the answer to {where}")
                await send(message)

            await serve(guard, scope, receive, searched_send)

        return call


class Lines(logging.Handler):
    """The log, as the service writes it."""

    def __init__(self, canaries: Canaries) -> None:
        super().__init__()
        self.setFormatter(logs.LineFormatter("json"))
        self.canaries = canaries

    def emit(self, record: logging.LogRecord) -> None:
        """Search a line."""
        self.canaries.search(self.format(record), "the log")


CANARIES = Canaries()


class _Secrets:
    """In the place of `secrets`, looked up at each call: a test may let nothing be random."""

    @staticmethod
    def token_hex(size: int) -> str:
        """Make what is shown: an id."""
        return secrets.token_hex(size)

    @staticmethod
    def token_urlsafe(size: int) -> str:
        """Make a secret, and note it."""
        return CANARIES.add(secrets.token_urlsafe(size))


_LINES = Lines(CANARIES)


@pytest.fixture(scope="session", autouse=True)
def _canaries_are_searched_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    for module in (tokens, sessions):
        patch.setattr(module, "secrets", _Secrets)
    patch.setattr(RequestGuard, "__call__", CANARIES.guard(RequestGuard.__call__))
    yield
    patch.undo()
    CANARIES.search_logs(tmp_path_factory.getbasetemp())
    assert not CANARIES.found, CANARIES.take()


@pytest.fixture(autouse=True)
def _no_canary_is_shown(_canaries_are_searched_for: None) -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger(logs.OURS)
    if _LINES not in root.handlers:  # a test may have set the log up anew
        root.addHandler(_LINES)
    ours.setLevel(logging.INFO)  # as the service has it
    yield
    shown = CANARIES.take()
    assert not shown, shown


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Search what a test left on the error stream: servers of several workers write there, and commands."""
    if report.when == "call" and report.capstderr:
        CANARIES.search(report.capstderr, f"the error stream of {report.nodeid}")
