"""Connections before anybody is authenticated: how long a request may be, how long it may take, how many there are.

The parser of HTTP bounds none of these. Here each connection counts the bytes of a request's head, one sweep a second
finds whoever takes too long, and where there are too many connections those that wait for a request make room.
"""

import asyncio
import logging
import secrets
from collections import Counter, OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from curator_service.api.http import SECURITY_HEADERS
from curator_service.kit.problems import (
    MEDIA_TYPE,
    BodyMalformed,
    HeadTooLarge,
    Problem,
    RequestTimeout,
    TooManyRequests,
    Unavailable,
)
from curator_service.settings import Settings

log = logging.getLogger("curator_service")

HEAD_BYTES_MAX = 64 * 1024
"""Of a request line with its headers; and of what frames a body: sizes, extensions and trailers of chunks."""
HEAD_S, BODY_S, ANSWER_S = 10.0, 30.0, 30.0
"""How long a head may take, then a body; and for how long an answer may lie there unread, in seconds."""
ANSWER_RATE = 4096
"""An answer that is read more slowly is not being read; bytes a second."""
PIPELINED_MAX = 16
DISCARDED_MAX = 1024 * 1024
"""What is read of a request that was refused already, so that the refusal reaches whoever still sends; bytes."""
KEEP_ALIVE_S, LINGER_S, STOP_S = 5, 2.0, 20
SWEEP_S, LOG_S = 1.0, 10.0


def server_options(settings: Settings) -> dict[str, Any]:
    """Return how uvicorn serves the application: these bounds are part of it."""
    return {
        "http": f"{GuardedProtocol.__module__}:{GuardedProtocol.__qualname__}",
        "ws": "none",
        "server_header": False,
        "limit_concurrency": settings.connections_max,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": STOP_S,
        # The caller's address is read from headers of the declared proxy alone, or of this machine.
        "forwarded_allow_ips": settings.proxy or "127.0.0.1",
    }


class Crowd:
    """The connections of one server.

    Parameters
    ----------
    server_state : ServerState
        Has the connections.
    """

    def __init__(self, server_state: ServerState, connections_max: int) -> None:
        self.connections = server_state.connections
        self.connections_max = connections_max
        # Those that nothing is being worked on for: whoever was refused, then the longest waiting first.
        self.waiting: OrderedDict[GuardedProtocol, None] = OrderedDict()
        self._sweeping = False
        self._closed: Counter[str] = Counter()
        self._logged_at = float("-inf")

    def let_in(self, newcomer: "GuardedProtocol") -> None:
        """Watch a connection; where there are too many, close another one that nothing is being worked on for.

        It is one that was refused; or else, that has waited longest for its request to be whole; or else, whose answer
        has lain there longest.
        """
        if len(self.connections) > self.connections_max:
            self._close(next(iter(self.waiting), None) or self._slowest_reader() or newcomer)
        if not newcomer.transport.is_closing():
            self.waiting[newcomer] = None
        if not self._sweeping:
            self._sweeping = True
            newcomer.loop.call_later(SWEEP_S, self._sweep, newcomer.loop)

    def _close(self, connection: "GuardedProtocol") -> None:
        """Close a connection, and wait for nobody to read: whatever the kernel does not take now is not sent."""
        connection.refuse(
            TooManyRequests("As many connections are open as may.", retry_after_s=1),
            "there were too many",
        )
        connection.loop.call_soon(connection.transport.abort)  # uvloop writes when this turn of the loop is over
        self.waiting.pop(connection, None)
        self.connections.discard(connection)

    def _slowest_reader(self) -> "GuardedProtocol | None":
        readers = [c for c in self.connections if isinstance(c, GuardedProtocol) and c.unread_since is not None]
        return min(readers, key=lambda connection: connection.unread_since or 0.0, default=None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self.connections):
            if isinstance(connection, GuardedProtocol):
                connection.look(now)
        self._log(now)
        self._sweeping = bool(self.connections or self._closed)
        if self._sweeping:
            loop.call_later(SWEEP_S, self._sweep, loop)

    def note(self, why: str) -> None:
        """Count a connection that was closed from here."""
        self._closed[why] += 1

    def _log(self, now: float) -> None:
        """Log the connections that were closed since the last line: one line in a while, however many are opened."""
        if self._closed and now - self._logged_at >= LOG_S:
            self._logged_at = now
            log.warning("closed connections: %s", "; ".join(f"{n} because {why}" for why, n in self._closed.items()))
            self._closed.clear()


_crowds: WeakKeyDictionary[ServerState, Crowd] = WeakKeyDictionary()


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 on one connection, within bounds."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        connections_max = self.limit_concurrency or Settings.model_fields["connections_max"].default
        self.limit_concurrency = None  # the crowd's, which also sees those that have not asked for anything yet
        crowd = _crowds.get(server_state)
        if crowd is None:
            crowd = _crowds[server_state] = Crowd(server_state, connections_max)
        self._crowd = crowd
        self._in_head, self._bytes, self._since = True, 0, self.loop.time()
        self._unsent, self._stalled_since = 0, self._since
        self.unread_since: float | None = None
        self._is_refused, self._discarded = False, 0

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_idle(self) -> bool:
        """True if no request is worked on: none has come, one is incomplete, or none is read any more."""
        return self.transport.is_closing() or (not self._is_answering if self._in_head else not self.pipeline)

    @property
    def _is_heard(self) -> bool:
        """True if the client would take a written text for the answer to the request that is being read."""
        if self._in_head:
            return not self._is_answering
        return self._is_answering and not self.cycle.response_started and not self.pipeline

    # --- What a request is made of

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        self._crowd.let_in(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._crowd.waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, within the bounds of a head and of what frames a body."""
        while data:
            room = HEAD_BYTES_MAX - self._bytes if self._in_head else HEAD_BYTES_MAX
            if not room:
                rule = f"The request line and the headers may have {HEAD_BYTES_MAX} bytes."
                self.refuse(HeadTooLarge(rule), "a head was too long", linger=True)
                room = len(data)
            self._feed(data[:room])
            data = data[room:]
            if self._bytes > HEAD_BYTES_MAX:
                rule = "What frames the pieces of the body is too long: send it in fewer."
                self.refuse(BodyMalformed(rule), "a body was in too many pieces", linger=True)

    def _feed(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            self._discard(data)
        else:
            self._bytes += len(data)
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Read on; uvicorn's own way writes a line for each request that it cannot read."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:  # the request is answered, and what comes after it is of the other protocol
            self._crowd.note("another protocol was asked for")
            self.cycle.keep_alive = False
        except HttpParserError:
            problem = BodyMalformed("The request could not be read.")
            self.refuse(problem, "a request was not HTTP", linger=True)

    def on_headers_complete(self) -> None:
        """Go on to the body, unless too many requests were sent before an answer was read."""
        if len(self.pipeline) >= PIPELINED_MAX:
            self._crowd.note("too many requests were sent ahead")
            self.transport.abort()
            return
        super().on_headers_complete()  # raises where it cannot read the address; the head is not over then
        self._in_head, self._since = False, self.loop.time()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, which is not of its framing."""
        self._bytes -= len(body)
        if self.cycle.response_complete:
            self._discard(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next head."""
        self._in_head, self._bytes, self._discarded, self._since = True, 0, 0, self.loop.time()
        if not self._is_idle:
            self._crowd.waiting.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, from now on."""
        self._since = self.loop.time()
        super().on_response_complete()
        if self._is_idle and self in self.connections:
            self._crowd.waiting[self] = None

    # --- Whoever takes too long

    def look(self, now: float) -> None:
        """Close the connection if a head, a body, or the reading of an answer takes too long."""
        if self._is_refused:
            if now - self._since > LINGER_S:
                self.transport.abort()
        elif not self.transport.is_closing():
            if self._in_head and not self._is_answering and now - self._since > HEAD_S:
                self._time_out("its request line and its headers", HEAD_S)
            elif not self._in_head and now - self._since > BODY_S:
                self._time_out("its body", BODY_S)
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent - ANSWER_RATE * SWEEP_S:
            self._stalled_since = now
        self._unsent = unsent
        self.unread_since = (self.unread_since or now) if unsent else None
        if now - self._stalled_since > ANSWER_S:
            self._crowd.note("an answer was not read")
            self.transport.abort()

    def _time_out(self, what: str, limit_s: float) -> None:
        self.refuse(
            RequestTimeout(f"The request was not sent in time: {what} may take {limit_s:g} s. Nothing was charged."),
            f"{what.removeprefix('its ')} took too long",
        )

    # --- Ends

    def refuse(self, problem: Problem, why: str, *, linger: bool = False) -> None:
        """Answer with a problem, unless another answer is on its way, and close.

        A connection that is closed while its peer still sends is reset, and the answer may be lost. So where `linger`,
        what comes is read for a moment, and thrown away.
        """
        if self._is_refused or self.transport.is_closing():
            return
        self._crowd.note(why)
        self._crowd.waiting.pop(self, None)
        if "observer" in self.app_state:
            self.app_state["observer"].metrics.count_refusal(problem.slug)
        if not self._is_heard:
            self.transport.abort()
            return
        if self._is_answering:  # whoever works on it has nobody to answer any more
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._is_refused, self._since = True, self.loop.time()
        self._crowd.waiting[self] = None
        self._crowd.waiting.move_to_end(self, last=False)
        self.transport.write(_render(problem))
        if linger:
            self.transport.write_eof()
        else:
            self.transport.close()

    def _discard(self, data: bytes) -> None:
        self._discarded += len(data)
        if self._discarded > DISCARDED_MAX:
            self.transport.abort()

    def shutdown(self) -> None:
        """Let an answer go out, and wait for no request, nor for the end of a job."""
        if "job_waits" in self.app_state:
            self.app_state["job_waits"].stop()
        if self._in_head:
            super().shutdown()
        else:
            self.refuse(
                Unavailable("The server is being stopped. Nothing was charged; send the request again."),
                "the server was stopped",
            )


def _render(problem: Problem) -> bytes:
    instance = f"req_{secrets.token_hex(8)}"
    body = problem.render(instance)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        (b"x-request-id", instance.encode()),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
        *SECURITY_HEADERS,
    ]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    return STATUS_LINE[problem.status] + lines + b"\r\n" + body
