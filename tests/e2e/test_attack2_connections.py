"""Red tests: what somebody without a token can still do with connections."""

import json
import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from patience import scaled
from test_connections import GET, connect, is_served, read, serve
from towns import Town, box

pytestmark = pytest.mark.slow

GARBAGE = b"\x00\x01\x02\x03\r\n\r\n"


def test_idle_connections_make_room_also_when_their_last_body_came_after_its_answer(embedded_town: Town) -> None:
    """`on_message_complete` takes the connection off `Crowd.waiting`, and no answer comes that would put it back."""
    most = 8
    server = serve(embedded_town, connections_max=most, HEAD_S=60)
    with ExitStack() as stack:
        for _ in range(most):
            connection = stack.enter_context(connect(server))
            connection.sendall(GET + b"Content-Length: 1\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            connection.sendall(b"x")
        time.sleep(scaled(0.3))
        assert is_served(server), "eight idle connections of a stranger keep everybody else out"


def test_connections_that_wait_for_a_body_make_room_also_behind_a_request_sent_ahead(embedded_town: Town) -> None:
    """The first answer ends while the second body is waited for: nobody notes that the connection waits."""
    most = 8
    server = serve(embedded_town, connections_max=most)
    with ExitStack() as stack:
        for _ in range(most):
            connection = stack.enter_context(connect(server))
            connection.sendall(GET + b"\r\n" + GET + b"Content-Length: 1\r\n\r\n")
            got = b""
            while got.count(b'{"status":"alive"}') < 2:
                got += connection.recv(65536)
        assert is_served(server), "one packet each, and eight places are taken for 30 s"


def test_connections_that_were_refused_make_room(embedded_town: Town) -> None:
    """A refused connection is read for LINGER_S more, is in nobody's list, and cannot be made to leave."""
    most = 8
    server = serve(embedded_town, connections_max=most, LINGER_S=20)
    with ExitStack() as stack:
        for _ in range(most):
            connection = stack.enter_context(connect(server))
            connection.sendall(GARBAGE)
            assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
        assert is_served(server), "eight connections that were refused keep everybody else out"


def test_requests_sent_ahead_may_have_more_bytes_together_than_one_head(embedded_town: Town) -> None:
    """`data_received` cuts what came at 64 KiB, and where the cut is in a later head it refuses a head that is short."""
    path = embedded_town.open_account("ahead")
    server = serve(embedded_town)
    content = json.dumps(box()).encode()
    content += b" " * (65_000 - len(content))
    lines = [
        f"POST {path}/releases HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {embedded_town.tokens['analyst-0']}",
        "Idempotency-Key: the-key",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    first = "\r\n".join(lines).encode() + b"\r\n\r\n" + content
    second = GET + b"X: " + b"a" * 1000 + b"\r\nConnection: close\r\n\r\n"
    with connect(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(first + second)
        answers = read(connection)
    assert [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]] == [201, 200], answers[:400]


@pytest.mark.parametrize("address", [b"http://x", b"http://x:99999/healthz"], ids=["no path", "port"])
def test_whoever_sends_an_address_that_cannot_be_read_is_told_so(embedded_town: Town, address: bytes) -> None:
    """`_in_head` is false before the address is parsed, so the refusal finds nobody to hear it."""
    server = serve(embedded_town)
    with connect(server) as connection:
        connection.sendall(b"GET " + address + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read(connection).startswith(b"HTTP/1.1 ")


def test_a_body_that_cannot_be_read_leaves_no_traceback_in_the_log(embedded_town: Town) -> None:
    """Who answers without reading a body writes after `refuse` has written the end: 25 lines for a packet."""
    server = serve(embedded_town)
    with connect(server) as connection:
        connection.sendall(GET + b"Transfer-Encoding: chunked\r\n\r\nz\r\n")
        assert b" 400 " in read(connection)
    assert is_served(server)
    assert "Traceback" not in server.process.text


def test_connections_whose_answers_lie_unread_are_never_more_than_may_be(embedded_town: Town) -> None:
    """Who is chosen to go has an answer to get rid of: it stays, is chosen again for each newcomer, and nobody goes."""
    most, document = 8, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    server = embedded_town.serve_to(embedded_town.folder / "log", "info", CURATOR_CONNECTIONS_MAX=str(most))

    def sockets() -> int:
        links = Path(f"/proc/{server.process.pid}/fd")
        return sum(os.readlink(link).startswith("socket:") for link in links.iterdir() if link.is_symlink())

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
