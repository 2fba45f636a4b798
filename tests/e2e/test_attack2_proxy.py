"""Red test: bodies that come slowly, through Caddy as it is deployed."""

import socket
import ssl
from contextlib import ExitStack

import pytest
from test_reverse_proxies import caddy, nginx, run
from patience import scaled
from towns import Town

pytestmark = pytest.mark.slow

SLOW = b"POST /v1/datasets/x/quotes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"


@pytest.mark.parametrize("make", [nginx, caddy], ids=lambda make: make.__name__)
def test_bodies_that_come_slowly_take_none_of_the_proxys_connections(embedded_town: Town, make) -> None:
    """Caddy passes a body on as it comes, and has 200 connections to the curator; whoever is next waits in a line."""
    server = embedded_town.serve()
    with run(make, embedded_town, server) as proxy, ExitStack() as stack:
        for _ in range(90 if make is nginx else 200):
            connection = stack.enter_context(proxy.connect())
            connection.sendall(SLOW)
        with proxy.connect() as other:
            other.settimeout(scaled(10))
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            try:
                answer = other.recv(65536)
            except (TimeoutError, socket.timeout, ssl.SSLError):
                answer = b""
        assert answer.startswith(b"HTTP/1.1 200"), "half a body in each of 200 connections, and nobody is served"
