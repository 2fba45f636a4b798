"""The bound on connections, where those that make room would not go by themselves."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
import uvloop
from patience import scaled
from uvicorn.server import ServerState

from curator_service.api.connections import GuardedProtocol

MOST, GUESTS = 4, 40
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

each_loop = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
NewLoop = Callable[[], asyncio.AbstractEventLoop]


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Answer in one piece, as a route of the curator does: it is complete, and most of it has not been sent."""
    content = b"a" * 8_000_000
    headers = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def serve(
    app: Any, log_level: str = "critical"
) -> AsyncIterator[tuple[ServerState, Callable[[], Any], list[GuardedProtocol]]]:
    """Give the state of a server, how to connect to it, and every connection that it ever had."""
    config = uvicorn.Config(
        app, ws="none", limit_concurrency=MOST, access_log=False, log_config=None, log_level=log_level
    )
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    guests: list[socket.socket] = []
    protocols: list[GuardedProtocol] = []

    def accept() -> GuardedProtocol:
        protocols.append(GuardedProtocol(config, state, {}))
        return protocols[-1]

    async def connect() -> socket.socket:
        guests.append(guest := socket.socket())
        guest.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        guest.setblocking(False)
        await loop.sock_connect(guest, server.sockets[0].getsockname())
        return guest

    server = await loop.create_server(accept, "127.0.0.1", 0)
    try:
        yield state, connect, protocols
    finally:
        for guest in guests:
            guest.close()
        server.close()


@each_loop
@pytest.mark.parametrize("headers", [b"", b"Connection: close\r\n"], ids=["kept alive", "closed"])
def test_there_are_never_more_connections_than_may_be(new_loop: NewLoop, headers: bytes) -> None:
    async def count() -> int:
        loop, highest = asyncio.get_running_loop(), 0
        async with serve(large) as (state, connect, protocols):
            for _ in range(GUESTS):
                await loop.sock_sendall(await connect(), GET[:-2] + headers + b"\r\n")
                await asyncio.sleep(0.02)
                opened = sum(protocol.parser is not None for protocol in protocols)  # it has none once it is lost
                highest = max(highest, opened, len(state.connections))
        return highest

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(count()) <= MOST


@each_loop
def test_whoever_makes_room_is_told_so_also_where_many_come_at_once(new_loop: NewLoop) -> None:
    async def answers() -> list[bytes]:
        loop = asyncio.get_running_loop()
        async with serve(large) as (state, connect, _):
            guests = [await connect() for _ in range(MOST)]
            await asyncio.sleep(0.1)
            await asyncio.gather(*(connect() for _ in range(2 * MOST)))
            await asyncio.sleep(0.1)
            assert len(state.connections) == MOST
            return [await loop.sock_recv(guest, 65536) for guest in guests]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert all(answer.startswith(b"HTTP/1.1 429 ") for answer in runner.run(answers()))


@each_loop
def test_nobody_who_has_gone_is_asked_to_make_room(new_loop: NewLoop) -> None:
    """The first of two requests goes on after its connection was lost, and its answer ends then."""

    async def highest() -> int:
        going_on = asyncio.Event()

        async def wait(scope: Any, receive: Any, send: Any) -> None:
            await going_on.wait()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

        async with serve(wait) as (state, connect, protocols):
            for _ in range(MOST):
                guest = await connect()
                await asyncio.get_running_loop().sock_sendall(guest, GET + GET)
                await asyncio.sleep(0.05)
                protocols[-1].transport.abort()
            await asyncio.sleep(0.1)
            going_on.set()
            await asyncio.sleep(0.1)
            for _ in range(2 * MOST):
                await connect()
                await asyncio.sleep(0.02)
            return len(state.connections)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(highest()) == MOST


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET http://x:99999/ HTTP/1.1\r\n\r\n",
        GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\nz\r\n",
        GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["not http", "address", "chunk", "upgrade", "tunnel"],
)
def test_strangers_fill_no_log(monkeypatch: Any, caplog: pytest.LogCaptureFixture, sent: bytes) -> None:
    """One line in a while counts what was refused, and says why."""
    monkeypatch.setattr("curator_service.api.connections.SWEEP_S", 0.05)

    async def empty(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def context() -> None:
        loop = asyncio.get_running_loop()
        async with serve(empty, "info") as (_, connect, _):
            for _ in range(GUESTS):
                guest = await connect()
                await loop.sock_sendall(guest, sent)
                while await loop.sock_recv(guest, 65536):  # to the end, which the server makes
                    pass
            await asyncio.sleep(0.2)

    asyncio.run(asyncio.wait_for(context(), scaled(20.0)))
    assert [record.name for record in caplog.records if record.name != "asyncio"] == ["curator_service"], caplog.text
    assert "closed connections: " in caplog.text
