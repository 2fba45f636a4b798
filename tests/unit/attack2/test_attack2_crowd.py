"""Red test: the bound on connections, where those that make room do not go at once."""

import asyncio
import socket
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from curator_service.connections import GuardedProtocol

MOST, GUESTS = 4, 40


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Answer in one piece, as a route of the curator does: it is complete, and most of it has not been sent."""
    content = b"a" * 8_000_000
    headers = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def test_there_are_never_more_connections_than_may_be() -> None:
    """Who makes room has an answer to get rid of, stays for LINGER_S, and is chosen again and again: nobody goes."""

    async def count() -> int:
        config = uvicorn.Config(large, ws="none", limit_concurrency=MOST, log_level="critical")
        config.load()
        state, loop = ServerState(), asyncio.get_running_loop()
        server = await loop.create_server(lambda: GuardedProtocol(config, state, {}), "127.0.0.1", 0)
        port, guests, highest = server.sockets[0].getsockname()[1], [], 0
        try:
            for i in range(GUESTS):
                guest = socket.socket()
                guest.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                guest.setblocking(False)
                await loop.sock_connect(guest, ("127.0.0.1", port))
                await loop.sock_sendall(guest, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                guests.append(guest)
                await asyncio.sleep(1.2 if i == MOST - 1 else 0.02)  # so that a sweep has seen those that read nothing
                highest = max(highest, len(state.connections))
        finally:
            for guest in guests:
                guest.close()
            server.close()
        return highest

    assert asyncio.run(count()) <= MOST + 1
