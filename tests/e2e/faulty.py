"""The application with a hand in it: it does what a header of a request orders, at one of the request's own steps.

`create_app` serves the curator of the environment. A request with the header ``X-Test-Order`` is followed through
every statement, commit, draw, write of the anchor and message of its answer, on whatever thread; the order names one of
these steps, by number or by name, and what happens there. Nothing else of the product is changed, unless the
environment says so:

``CURATOR_TEST_CLOCK``
    A file that shifts the clock by days.
``CURATOR_TEST_PATIENCE_MS``
    How long the database lets a session wait for a lock, or be idle in a unit of work; scaled as every wait is.
``CURATOR_TEST_LIMITS``
    Other bounds of connections: constants of `curator_service.api.connections`, as JSON.
``CURATOR_TEST_WATCHER``
    An order for the watcher's sweeps, as a header has it for a request.
``CURATOR_TEST_START``
    An order for the start of the server.
"""

import contextvars
import errno
import json
import os
import re
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import psycopg
import uvicorn
from patience import pause, scaled
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from curator_service import app as product
from curator_service.api import connections
from curator_service.cli import main
from curator_service.kit import clock as clocks
from curator_service.kit import db
from curator_service.kit.clock import utc_now
from curator_service.kit.db import Connection, Database, Statement
from curator_service.ledger.trust import anchor
from curator_service.privacy.samplers import Distribution, SystemNoise
from curator_service.releases.jobs import JobRunner, Place
from curator_service.settings import Settings

HEADER = "x-test-order"
CLOCK_VARIABLE, PATIENCE_VARIABLE = "CURATOR_TEST_CLOCK", "CURATOR_TEST_PATIENCE_MS"
WATCHER_VARIABLE, LIMITS_VARIABLE = "CURATOR_TEST_WATCHER", "CURATOR_TEST_LIMITS"
START_VARIABLE = "CURATOR_TEST_START"
_MEETING_S = scaled(5.0)
Moment = int | str
_TABLE = re.compile(r"(?:FROM|INTO|UPDATE)\s+(\w+)")


class Order:
    """A fault that a request is to suffer at a step, and the steps so far.

    Parameters
    ----------
    at : int, str or list of them
        The number of a step, from 1, or its name; the second step of a name has a 2 after it, and so on.
    action : str
        A key of `ACTIONS`.
    trace : str
        A file: gets a line for each step, ``struck`` beside the one that was ordered, and ``end`` at the end.
    """

    def __init__(self, at: Moment | Sequence[Moment], action: str, trace: str, **details: Any) -> None:
        self.at = {at} if isinstance(at, int | str) else set(at)
        self.action = action
        self.details = details
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._turn = threading.Lock()
        self._passed: Counter[str] = Counter()
        self._parts = 1

    def is_next(self, name: str) -> bool:
        """Return whether the coming step is the one."""
        return not self.at.isdisjoint({self._full(name), self._passed.total() + 1})

    def _full(self, name: str) -> str:
        return f"{name} {self._passed[name] + 1}" if self._passed[name] else name

    def pass_by(self, name: str, connection: Connection | None) -> None:
        """Note a step, and act on it if it is the one."""
        with self._turn:
            struck = self.is_next(name)
            line = f"{self._passed.total() + 1} {self._full(name)}{' struck' * struck}\n"
            self._passed[name] += 1
            os.write(self._trace, line.encode())
        if struck:
            ACTIONS[self.action](connection, **self.details)

    def begin_part(self) -> None:
        """Follow the request on another thread too."""
        with self._turn:
            self._parts += 1

    def end_part(self) -> None:
        """Note that the request, or a job of it, is over."""
        with self._turn:
            self._parts -= 1
            if self._parts == 0:
                os.write(self._trace, b"end\n")
                os.close(self._trace)


_order: contextvars.ContextVar[Order | None] = contextvars.ContextVar("order", default=None)


def step(name: str, connection: Connection | None = None) -> None:
    """Pass a step of the request at hand."""
    order = _order.get()
    if order is not None:
        order.pass_by(name, connection)


# --- What may happen


def _kill(_: Connection | None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def _stop(_: Connection | None) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    pause(0.1)  # a thread may run on for an instant before all of them stand still


def _sleep(_: Connection | None, seconds: float) -> None:
    pause(seconds)


def _meet(_: Connection | None, place: str, count: int, seconds: float = _MEETING_S) -> None:
    """Wait until as many have come to a place."""
    folder = Path(place)
    folder.mkdir(exist_ok=True)
    (folder / f"{os.getpid()}-{threading.get_ident()}").touch()
    end = time.monotonic() + seconds
    while len(list(folder.iterdir())) < count and time.monotonic() < end:
        time.sleep(0.001)


def _lose(_: Connection | None) -> None:
    """Fail as a driver does whose connection has gone: what happened to the statement, or commit, is not known."""
    if Settings().database_url is None:
        raise sqlite3.OperationalError("disk I/O error")
    raise psycopg.OperationalError("server closed the connection unexpectedly")


def _deadlock(_: Connection | None) -> None:
    raise psycopg.errors.DeadlockDetected("deadlock detected")


def _conflict(_: Connection | None) -> None:
    raise psycopg.errors.SerializationFailure("could not serialize access due to concurrent update")


def _terminate(connection: Connection | None) -> None:
    """End the backend of every connection that this process has; the next word on each fails."""
    url = Settings().database_url
    assert url is not None
    with psycopg.connect(url, autocommit=True, application_name="hand") as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s", [_own_name()]
        )


def _own_name() -> str:
    """Return what PostgreSQL calls the connections of this process."""
    return f"curator-{os.getpid()}"


def _no_space(_: Connection | None) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


ACTIONS: dict[str, Callable[..., None]] = {
    "none": lambda _: None,
    "kill": _kill,
    "cut": _sleep,
    "stop": _stop,
    "sleep": _sleep,
    "meet": _meet,
    "lose": _lose,
    "deadlock": _deadlock,
    "conflict": _conflict,
    "terminate": _terminate,
    "no space": _no_space,
}


# --- Where it may happen


def _replace(owner: type, name: str) -> Callable[[Callable[..., Any]], None]:
    """Replace a method by one that gets it as its first argument."""
    original = getattr(owner, name)

    def decorate(wrapper: Callable[..., Any]) -> None:
        def method(self: Any, *arguments: Any, **named: Any) -> Any:
            return wrapper(original, self, *arguments, **named)

        setattr(owner, name, method)

    return decorate


@cache
def _install() -> None:
    def execute(original: Any, self: Statement, connection: Connection, /, *rows: object, **values: object) -> Any:
        if _order.get() is None:
            return original(self, connection, *rows, **values)
        name = _name(self, connection)
        step(f"before {name}", connection)
        cursor = original(self, connection, *rows, **values)
        step(f"after {name}", connection)
        return cursor

    for method in ("execute", "execute_each"):
        _replace(Statement, method)(execute)

    begin = Database.begin

    @contextmanager
    def followed(self: Database) -> Iterator[Connection]:
        step("before begin")
        with begin(self) as connection:
            yield connection
            step("before commit", connection)
        step("after commit")

    Database.begin = followed  # type: ignore[method-assign]

    anchor.os = _FollowedWrites()  # type: ignore[attr-defined, assignment]

    ordered = os.environ.get(WATCHER_VARIABLE)
    if ordered is not None:
        order_of_watcher = Order(**json.loads(ordered))

        @_replace(JobRunner, "sweep")
        def sweep(original: Any, self: JobRunner) -> list[str]:
            token = _order.set(order_of_watcher)
            try:
                given_up: list[str] = original(self)
            finally:
                _order.reset(token)
            return given_up

    @_replace(Place, "take")
    def take(original: Any, self: Place, work: Callable[[], object]) -> None:
        order = _order.get()
        if order is None:
            original(self, work)
            return
        context = contextvars.copy_context()
        order.begin_part()

        def followed_work() -> None:
            try:
                context.run(work)
            finally:
                order.end_part()

        original(self, followed_work)


class _FollowedWrites:
    """The module `os` as the anchor sees it: its writes are steps, and a kill within one leaves half a line."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, descriptor: int, line: bytes, at: int) -> int:
        step("before anchor")
        order = _order.get()
        if order is not None and order.action in {"kill", "cut"} and order.is_next("within anchor"):
            first = line.index(b"\n") + 1  # of several lines the first one is whole
            cut = os.pwrite(descriptor, line[: first if first < len(line) else first // 2], at)
            step("within anchor")
            return cut
        step("within anchor")
        written = os.pwrite(descriptor, line, at)
        step("after anchor")
        return written


class _FollowedNoise:
    """The product's noise; each draw is a step."""

    def __init__(self) -> None:
        self._source = SystemNoise()

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        step("before draw")
        drawn = self._source.sample(distribution, scales)
        step("after draw")
        return drawn


def _name(statement: Statement, connection: Connection) -> str:
    text = str(statement._build(connection.dialect).compile(dialect=connection.dialect))
    table = _TABLE.search(text)
    return f"{text.split(maxsplit=1)[0]} {table.group(1) if table else ''}"


class Followed:
    """The outermost of all: reads the order, and follows the answer's messages out."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = dict(scope.get("headers", ())).get(HEADER.encode())
        if sent is None:
            await self.app(scope, receive, send)
            return
        order = Order(**json.loads(sent))
        _order.set(order)

        async def followed_send(message: Message) -> None:
            step(f"before {message['type']}")
            await send(message)
            step(f"after {message['type']}")

        try:
            step("arrival")
            await self.app(scope, receive, followed_send)
        finally:
            order.end_part()


def _shifted(file: Path) -> datetime:
    return utc_now() + timedelta(days=float(file.read_text(encoding="utf-8")))


def create_app() -> Followed:
    """Build the curator of the environment, and follow it."""
    _install()
    os.environ["PGAPPNAME"] = _own_name()
    patience, built_in = int(scaled(float(os.environ.get(PATIENCE_VARIABLE, db.BUSY_TIMEOUT_MS)))), db.BUSY_TIMEOUT_MS
    assert db._POSTGRES_WRITE.count(f"_timeout = {built_in};") == 2, db._POSTGRES_WRITE
    db._POSTGRES_WRITE = db._POSTGRES_WRITE.replace(f"_timeout = {built_in};", f"_timeout = {patience};")
    db.BUSY_TIMEOUT_MS = patience
    clock = os.environ.get(CLOCK_VARIABLE)
    now = utc_now if clock is None else partial(_shifted, Path(clock))
    if clock is not None:
        product._CUTS_EVERY_S = 0.2  # a jump puts off all cuts, and nothing is released until they were made
        clocks.SETTLING_S = 0.5
    return Followed(product.create_app(noise=_FollowedNoise(), now=now))


def run_command(words: list[str], order: dict[str, Any]) -> None:
    """Run the product's command line, and follow it as if it was a request."""
    _install()
    _order.set(Order(**order))
    sys.argv = ["curator", *words]
    main()


def serve(port: int, log_level: str = "warning") -> None:
    """Serve on a loopback port until a signal."""
    ordered = os.environ.get(START_VARIABLE)
    if ordered is not None:
        _order.set(Order(**json.loads(ordered)))
    for name, value in json.loads(os.environ.get(LIMITS_VARIABLE, "{}")).items():
        assert hasattr(connections, name), name
        setattr(connections, name, scaled(value) if name.endswith("_S") else value)
    uvicorn.run(
        "faulty:create_app",
        factory=True,
        host="127.0.0.1",
        port=port,
        log_level=log_level,
        access_log=log_level == "info",
        **connections.server_options(Settings()),
    )
