"""Proxies on loopback: one loses a curator's answers on their way back, one loses PostgreSQL's."""

import socket
import struct
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from patience import scaled
from sqlalchemy import make_url


class Proxy:
    """A listener on loopback whose connections are served by a thread while it is open."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(scaled(10))


class LosingProxy(Proxy):
    """Forwards one request for each connection, and closes without a word where the answer is to be lost.

    The server has sent the whole answer by then, and so has committed.

    Parameters
    ----------
    port : int
        Of the server, on loopback.
    losses : int
        How many answers are lost before one is let through.
    path : str
        What the address of a request holds whose answer may be lost.
    """

    def __init__(self, port: int, losses: int, path: str = "") -> None:
        self.losses = losses
        self._path = path.encode()
        self.lost: list[bytes] = []
        self._port = port
        super().__init__()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # it was closed
                return
            with client, socket.create_connection(("127.0.0.1", self._port), timeout=scaled(30)) as server:
                client.settimeout(30)
                request = _read_message(client)
                server.sendall(_without_keep_alive(request))
                answer = _read_message(server)
                if self.losses > 0 and self._path in request.partition(b"\r\n")[0]:
                    self.losses -= 1
                    self.lost.append(answer)
                else:
                    client.sendall(_without_keep_alive(answer))


def _read_message(source: socket.socket) -> bytes:
    """Read a head, and as much of a body as it declares."""
    message = b""
    while b"\r\n\r\n" not in message:
        message += source.recv(65536) or _ended()
    head, _, _ = message.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(message) < len(head) + 4 + length:
        message += source.recv(65536) or _ended()
    return message


def _ended() -> bytes:
    raise ConnectionResetError("the message was cut off")


def _without_keep_alive(message: bytes) -> bytes:
    head, gap, body = message.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"]) + gap + body


NEVER_SENT, LATE, UNANSWERED = "never sent", "late", "unanswered"
_LATE_S = scaled(0.15)


class DatabaseProxy(Proxy):
    """Forwards connections to PostgreSQL, and cuts one off at the commit of a unit of work that is about a key.

    Parameters
    ----------
    url : str
        Of the database.
    """

    def __init__(self, url: str) -> None:
        real = make_url(url)
        self._place = (real.host or "127.0.0.1", real.port or 5432)
        super().__init__()
        here = real.set(host="127.0.0.1", port=self._listener.getsockname()[1], query={"sslmode": "disable"})
        self.url = here.render_as_string(hide_password=False)
        self._turn = threading.Lock()
        self._fate, self._passing = "", 0

    def cut(self, fate: str, commit: int = 1) -> None:
        """Cut the connection off at the commit of this number from now.

        Whoever commits hears nothing more. The commit is ``never sent`` to the server, or it comes there ``late``, when
        the connection has been gone for a while, or it is ``unanswered``: the server has said that it is done.
        """
        with self._turn:
            self._fate, self._passing = fate, commit - 1

    @property
    def was_cut(self) -> bool:
        """True if the ordered commit has come."""
        return not self._fate

    def _take_fate(self) -> str:
        with self._turn:
            if self._passing > 0:
                self._passing -= 1
                return ""
            fate, self._fate = self._fate, ""
            return fate

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # it was closed
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._place) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            silent = threading.Event()
            back = threading.Thread(target=_bring_back, args=(server, client, silent), daemon=True)
            back.start()
            with suppress(OSError):  # either end may have gone
                self._bring_there(client, server, silent)
            _shut(server)
            back.join(scaled(10))

    def _bring_there(self, client: socket.socket, server: socket.socket, silent: threading.Event) -> None:
        server.sendall(_read_exactly(client, struct.unpack("!I", head := _read_exactly(client, 4))[0] - 4, head))
        about_key: set[bytes] = set()  # prepared statements
        is_about_key = False
        while True:
            head = _read_exactly(client, 5)
            message = _read_exactly(client, struct.unpack("!I", head[1:])[0] - 4, head)
            kind, text = message[:1], message[5:]
            if kind == b"P" and b"idempotency_keys" in text:
                about_key.add(text.partition(b"\0")[0])
            if kind == b"B":
                is_about_key |= text.split(b"\0", 2)[1] in about_key
            if kind == b"Q" and text.startswith(b"ROLLBACK"):
                is_about_key = False
            if kind == b"Q" and text.startswith(b"COMMIT"):
                fate = self._take_fate() if is_about_key else ""
                is_about_key = False
                if fate:
                    silent.set()
                    if fate == UNANSWERED:
                        server.sendall(message)
                        time.sleep(_LATE_S)  # by now it is done
                        _shut(client)
                        return
                    _shut(client)
                    if fate == LATE:
                        time.sleep(_LATE_S)
                        server.sendall(message)
                        time.sleep(_LATE_S)
                    return
            server.sendall(message)


def _bring_back(server: socket.socket, client: socket.socket, silent: threading.Event) -> None:
    with suppress(OSError):  # either end may have gone
        while part := server.recv(65536):
            if not silent.is_set():
                client.sendall(part)
    _shut(client)


def _read_exactly(source: socket.socket, count: int, before: bytes = b"") -> bytes:
    message = bytearray(before)
    while len(message) < len(before) + count:
        message += source.recv(len(before) + count - len(message)) or _ended()
    return bytes(message)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):  # it may be already
        end.shutdown(socket.SHUT_RDWR)
