"""Connections of somebody without a token, and service to everybody else meanwhile."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest
from deployments import Deployment, Server, box, describe
from faulty import LIMITS_VARIABLE
from patience import scaled, wait_for

from curator_service.api.connections import DISCARDED_MAX, HEAD_BYTES_MAX, PIPELINED_MAX

pytestmark = pytest.mark.slow

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
LARGE = b"GET /static-offline-docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"  # more than the kernels hold back
PATIENCE_S = scaled(30.0)


def serve(town: Deployment, connections_max: int = 400, **limits: float) -> Server:
    """Start a curator with other bounds of connections."""
    return town.serve(**{LIMITS_VARIABLE: json.dumps(limits), "CURATOR_CONNECTIONS_MAX": str(connections_max)})


@contextmanager
def connect(server: Server, **options: int) -> Iterator[socket.socket]:
    with socket.socket() as connection:
        for name, value in options.items():
            connection.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        connection.settimeout(PATIENCE_S)
        connection.connect(("127.0.0.1", server.port))
        yield connection


def read(connection: socket.socket) -> bytes:
    """Return everything up to the end that the server makes; a reset is one."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def refusal(answer: bytes) -> tuple[int, str]:
    """Return the status and the slug of the last answer, which must be a whole problem."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert "content-type: application/problem+json" in lines, answer[:500]
    assert "connection: close" in lines
    assert "x-content-type-options: nosniff" in lines
    content: dict[str, Any] = json.loads(body)
    assert f"x-request-id: {content['instance']}" in lines
    assert content["status"] == int(lines[0].split()[1])
    return content["status"], content["type"].removeprefix("/problems/")


def is_served(server: Server) -> bool:
    with connect(server) as connection:
        connection.sendall(GET + b"Connection: close\r\n\r\n")
        return read(connection).startswith(b"HTTP/1.1 200 ")


def send_on(connection: socket.socket, begin: bytes, pieces: Iterator[bytes]) -> int:
    """Send without an end, until the server no longer takes it; return how many bytes it took."""
    sent = 0
    try:
        connection.sendall(begin)
        for piece in pieces:
            connection.sendall(piece)
            sent += len(piece)
            assert sent < 200_000_000, "the server takes everything"
    except ConnectionError:
        pass
    return sent


def header(size: int) -> bytes:
    """Return a request line and headers of so many bytes."""
    begin = GET + b"Connection: close\r\nX-Long: "
    return begin + b"a" * (size - len(begin) - 4) + b"\r\n\r\n"


def release_request(town: Deployment, path: str, content: bytes) -> bytes:
    lines = [
        f"POST {path}/releases HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {town.tokens['analyst-0']}",
        "Idempotency-Key: the-key",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


@pytest.mark.parametrize("piece", [1 << 20, 4096, 997], ids=["at once", "in pages", "in small pieces"])
def test_a_head_may_have_so_many_bytes_however_they_come(embedded_town: Deployment, piece: int) -> None:
    server = serve(embedded_town)
    for size, status in ((HEAD_BYTES_MAX, 200), (HEAD_BYTES_MAX + 1, 431), (10 * HEAD_BYTES_MAX, 431)):
        with connect(server) as connection:
            content = header(size)
            for at in range(0, size, piece):
                connection.sendall(content[at : at + piece])
            answer = read(connection)
        assert answer.startswith(b"HTTP/1.1 %d " % status), (size, answer[:300])
        if status == 431:
            assert refusal(answer) == (431, "head-too-large")


@pytest.mark.parametrize(
    ("begin", "pieces"),
    [
        (b"GET / HTTP/1.1\r\nX: ", repeat(b"a" * 65536)),
        (b"GET /", repeat(b"a" * 65536)),
        (b"", repeat(b"\r\n" * 4096)),
        (b"GET / HTTP/1.1\r\n", (b"X-%d: a\r\n" % i for i in count())),
        (b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;", repeat(b"a" * 65536)),
        (b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", repeat(b"1;aaaaaaaa\r\na\r\n" * 1000)),
        (b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", repeat(b"a" * 65536)),
        (b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", repeat(b"ffff\r\n" + b"a" * 65535 + b"\r\n")),
        (b"POST /v1/datasets/x/quotes HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n", repeat(b"a" * 65536)),
    ],
    ids=["value", "address", "blank", "headers", "extension", "extensions", "trailer", "chunks", "length"],
)
def test_what_does_not_end_is_ended(embedded_town: Deployment, begin: bytes, pieces: Iterator[bytes]) -> None:
    server = serve(embedded_town)
    with connect(server) as connection:
        # What the kernels on both sides hold back counts too.
        assert send_on(connection, begin, pieces) < DISCARDED_MAX + 20_000_000
        read(connection)
    assert is_served(server)


def test_whoever_sends_a_head_or_a_body_too_slowly_is_told_and_closed(embedded_town: Deployment) -> None:
    path = embedded_town.open_account("slow")
    server = serve(embedded_town, HEAD_S=0.3, BODY_S=0.6, SWEEP_S=0.1)
    token = embedded_town.tokens["analyst-0"].encode()
    post = b"POST %s/releases HTTP/1.1\r\nHost: x\r\n" % path.encode()
    authorized = post + b"Authorization: Bearer %s\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n" % token
    content = json.dumps(box()).encode()
    length = b"Content-Length: %d\r\n\r\n" % len(content)
    unfinished = [b"", b"GET", GET, post + length, post + length + content[:-1], authorized + length + content[:-1]]
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(server)) for _ in unfinished]
        for connection, begin in zip(opened, unfinished, strict=True):
            connection.sendall(begin)
        for connection in opened:
            assert refusal(read(connection)) == (408, "request-timeout")
    with embedded_town.call(server) as caller:  # half a request has claimed nothing
        assert caller.post(f"{path}/releases", box(price={"mu": 0.02}), "k").status_code == 201
    assert "Traceback" not in server.process.text
    assert "failed with" not in server.process.text


def test_a_dribble_does_not_keep_a_connection_open(embedded_town: Deployment) -> None:
    server = serve(embedded_town, HEAD_S=0.3, SWEEP_S=0.1)
    with connect(server) as connection:
        connection.sendall(GET)
        over = threading.Event()

        def dribble() -> None:
            try:
                while not over.wait(0.02):
                    connection.sendall(b"X: y\r\n")
            except OSError:
                pass

        dribbling = threading.Thread(target=dribble)
        dribbling.start()
        answer = read(connection)
        over.set()
        dribbling.join()
    assert answer == b"" or refusal(answer) == (408, "request-timeout")


def test_connections_that_wait_for_a_request_make_room_for_those_that_have_one(embedded_town: Deployment) -> None:
    path, most = embedded_town.open_account("crowd"), 20
    server = serve(embedded_town, connections_max=most, LOG_S=0.1, SWEEP_S=0.05)
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(4 * most)]
        for connection in idle[::2]:
            connection.sendall(GET)
        for _ in range(3):
            with embedded_town.call(server) as caller:
                assert caller.get("/readyz").status_code == 200
                assert caller.post(f"{path}/releases", box(), f"key-{_}").status_code == 201
        assert refusal(read(idle[0])) == (429, "too-many-requests")  # the one that waited longest
        wait_for(lambda: "closed connections: " in server.process.text, "the log says so")
    assert "there were too many" in server.process.text


def test_connections_whose_answers_are_not_read_make_room(embedded_town: Deployment) -> None:
    """Without a token one can ask for large files: all places are taken, and nobody waits for a request."""
    path, most = embedded_town.open_account("unread"), 8
    server = serve(embedded_town, connections_max=most, ANSWER_S=600, SWEEP_S=0.05, LOG_S=0.1)
    with ExitStack() as stack:
        for _ in range(3 * most):
            unread = stack.enter_context(connect(server, SO_RCVBUF=4096))
            try:
                unread.sendall(LARGE * PIPELINED_MAX)
            except ConnectionError:
                continue
        with embedded_town.call(server) as caller:
            answer = caller.insist(f"{path}/releases", box(), "the-key")
            assert answer.status_code == 201


@pytest.mark.parametrize(
    "request_line",
    [
        GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
        GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
        b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 500,
        b"POST /healthz HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=["websocket", "h2c", "connect", "http2", "tls", "smuggled", "negative"],
)
def test_what_is_not_plain_http_holds_nobody_up(embedded_town: Deployment, request_line: bytes) -> None:
    server = serve(embedded_town, HEAD_S=0.3, BODY_S=0.3, SWEEP_S=0.1)
    with connect(server) as connection:
        send_on(connection, request_line, iter([b"x" * 100_000] * 3))
        answers = read(connection)
        assert answers.count(b"HTTP/1.1 ") <= 2, answers[:2000]
    assert is_served(server)
    assert "Traceback" not in server.process.text


def test_requests_sent_ahead_are_answered_in_order_and_are_bounded(embedded_town: Deployment) -> None:
    server = serve(embedded_town)
    with connect(server) as connection:
        paths = [b"/healthz", b"/nothing", b"/readyz", b"/v1/keys", b"/healthz"]
        connection.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path for path in paths[:-1]))
        connection.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % paths[-1])
        answers = read(connection)
        statuses = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]
        assert statuses == [200, 404, 200, 401, 200]
    with connect(server) as connection:
        connection.sendall((GET + b"\r\n") * 20_000)
        assert read(connection).count(b"HTTP/1.1 200 ") <= 2 * PIPELINED_MAX
    assert is_served(server)


def test_a_request_whose_sender_says_no_more_is_charged_once_and_answered_by_its_key(embedded_town: Deployment) -> None:
    path = embedded_town.open_account("half")
    server = serve(embedded_town)
    with connect(server) as connection:
        connection.sendall(release_request(embedded_town, path, json.dumps(box()).encode()))
        connection.shutdown(socket.SHUT_WR)
        read(connection)
    with embedded_town.call(server) as caller:
        answer = caller.insist(f"{path}/releases", box(), "the-key")
        assert answer.status_code == 201, describe(answer)
    assert len(embedded_town.audit("half").charges) == 1


def test_whoever_does_not_read_an_answer_is_cut_off(embedded_town: Deployment) -> None:
    server = serve(embedded_town, ANSWER_S=0.3, SWEEP_S=0.1, LOG_S=0.1)
    with connect(server, SO_RCVBUF=4096) as connection:
        connection.sendall(LARGE * PIPELINED_MAX)
        wait_for(lambda: "an answer was not read" in server.process.text, "it is cut off", PATIENCE_S)
    assert is_served(server)


@pytest.mark.parametrize("what", ["half a body", "half a head", "an unread answer"])
def test_a_server_that_is_asked_to_end_waits_for_no_stranger(embedded_town: Deployment, what: str) -> None:
    server = serve(embedded_town, HEAD_S=600, BODY_S=600, ANSWER_S=600, STOP_S=1)
    with connect(server, SO_RCVBUF=4096) as connection:
        if what == "half a body":
            connection.sendall(b"POST /v1/datasets/x/quotes HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        elif what == "half a head":
            connection.sendall(GET)
        else:
            connection.sendall(LARGE * PIPELINED_MAX)
        assert is_served(server)  # and so the server has seen the other one
        server.terminate()
        if what == "half a body":
            assert refusal(read(connection)) == (503, "busy")


def test_idle_connections_make_room_also_when_their_last_body_came_after_its_answer(embedded_town: Deployment) -> None:
    most = 8
    server = serve(embedded_town, connections_max=most, HEAD_S=60)
    with ExitStack() as stack:
        for _ in range(most):
            connection = stack.enter_context(connect(server))
            connection.sendall(GET + b"Content-Length: 1\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            connection.sendall(b"x")
        time.sleep(scaled(0.3))
        assert is_served(server)


def test_connections_that_wait_for_a_body_make_room_also_behind_a_request_sent_ahead(embedded_town: Deployment) -> None:
    most = 8
    server = serve(embedded_town, connections_max=most)
    with ExitStack() as stack:
        for _ in range(most):
            connection = stack.enter_context(connect(server))
            connection.sendall(GET + b"\r\n" + GET + b"Content-Length: 1\r\n\r\n")
            got = b""
            while got.count(b'{"status":"alive"}') < 2:
                got += connection.recv(65536)
        assert is_served(server)


def test_connections_that_were_refused_make_room(embedded_town: Deployment) -> None:
    """A refused connection is read for a moment more."""
    most = 8
    server = serve(embedded_town, connections_max=most, LINGER_S=20)
    with ExitStack() as stack:
        for _ in range(most):
            connection = stack.enter_context(connect(server))
            connection.sendall(b"\x00\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
        assert is_served(server)


def test_requests_sent_ahead_may_have_more_bytes_together_than_one_head(embedded_town: Deployment) -> None:
    path = embedded_town.open_account("ahead")
    server = serve(embedded_town)
    content = json.dumps(box()).encode()
    first = release_request(embedded_town, path, content.ljust(65_000))
    second = GET + b"X: " + b"a" * 1000 + b"\r\nConnection: close\r\n\r\n"
    with connect(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(first + second)
        answers = read(connection)
    assert [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]] == [201, 200], answers[:400]


@pytest.mark.parametrize("address", [b"http://x", b"http://x:99999/healthz"], ids=["no path", "port"])
def test_whoever_sends_an_address_that_cannot_be_read_is_told_so(embedded_town: Deployment, address: bytes) -> None:
    server = serve(embedded_town)
    with connect(server) as connection:
        connection.sendall(b"GET " + address + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert refusal(read(connection))[0] == 400


@pytest.mark.parametrize("hosts", [b"", b"Host: x\r\nHost: x\r\n", b"Host: x y\r\n"], ids=["none", "two", "malformed"])
def test_a_request_for_no_host_or_two_is_refused_and_those_before_it_are_answered(
    embedded_town: Deployment, hosts: bytes
) -> None:
    server = serve(embedded_town)
    with connect(server) as connection:
        connection.sendall(GET + b"\r\nGET /healthz HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")
        first, second = read(connection).split(b"HTTP/1.1 ")[1:]
        assert first.startswith(b"200 ")
        assert refusal(b"HTTP/1.1 " + second) == (400, "body-malformed")


def test_a_body_that_cannot_be_read_leaves_no_traceback_in_the_log(embedded_town: Deployment) -> None:
    """Whoever answers without reading a body is still at it when the refusal is written."""
    server = serve(embedded_town)
    with connect(server) as connection:
        connection.sendall(GET + b"Transfer-Encoding: chunked\r\n\r\nz\r\n")
        assert b" 400 " in read(connection)
    assert is_served(server)
    assert "Traceback" not in server.process.text


def test_connections_whose_answers_lie_unread_are_never_more_than_may_be(embedded_town: Deployment) -> None:
    """Whoever makes room goes at once, and what it has not read is thrown away."""
    most, document = 8, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    server = embedded_town.serve_to(embedded_town.folder / "log", "info", CURATOR_CONNECTIONS_MAX=str(most))

    def sockets() -> int:
        found = 0
        for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed meanwhile
                found += os.readlink(link).startswith("socket:")
        return found

    def ask(connection: socket.socket, count: int) -> int:
        """Ask until nothing more is answered: the kernels are full, and so is the server's own store."""
        begin = server.process.text.count("openapi")
        for i in range(count):
            connection.sendall(document)
            end = time.monotonic() + 0.25
            while (answered := server.process.text.count("openapi") - begin) <= i and time.monotonic() < end:
                time.sleep(0.001)
            if answered <= i:
                return i
        return count

    before = sockets()
    with connect(server, SO_RCVBUF=4096) as connection:
        enough = ask(connection, 1000)
    time.sleep(0.5)
    with ExitStack() as stack:
        for i in range(3 * most):
            guest = stack.enter_context(connect(server, SO_RCVBUF=4096))
            ask(guest, enough)
            if i == most - 1:
                time.sleep(1.3)  # a sweep has seen them
        assert sockets() - before <= most + 1
