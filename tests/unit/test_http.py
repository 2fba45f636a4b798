"""Checks that every request passes before any route sees it."""

import asyncio
import json
from typing import Any

import pytest

from curator_service.api.http import RequestGuard


async def _greet(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def status_of(hosts: list[bytes], version: str = "1.1") -> int:
    """Return how a request with these `Host` headers is answered; a refusal is a whole problem."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"accept", b"*/*"), *((b"host", host) for host in hosts)]
    scope = {"type": "http", "http_version": version, "method": "GET", "path": "/", "headers": headers}
    asyncio.run(RequestGuard(_greet, body_bytes_max=100)(scope, receive, send))
    status: int = sent[0]["status"]
    if status != 200:
        problem = json.loads(sent[1]["body"])
        assert problem["type"] == "/problems/body-malformed"
        assert "Host" in problem["detail"]
        assert (b"x-request-id", problem["instance"].encode()) in sent[0]["headers"]
    return status


@pytest.mark.parametrize(
    "host",
    b"x curator.hospital.example xn--bcher-kva. x:8000 x: 127.0.0.1:1 [::1] [fe80::1%25en0]:65535 a_b x%20y x,".split(),
)
def test_a_host_as_the_grammar_has_it_is_served(host: bytes) -> None:
    assert status_of([host]) == 200


@pytest.mark.parametrize(
    "host",
    [b"", b"x y", b"x\n", *b":80 x/y http://x ada@x x:y [::1 ::1 x%2 x? x# <x> b\xfccher.example".split()],
)
def test_a_host_that_names_none_is_refused(host: bytes) -> None:
    assert status_of([host]) == status_of([host], version="1.0") == 400


def test_a_request_has_one_host_and_may_lack_it_in_http_1_0_alone() -> None:
    assert status_of([]) == 400
    assert status_of([], version="1.0") == 200
    for version in ("1.0", "1.1"):
        assert status_of([b"x"], version) == 200
        assert status_of([b"x", b"x"], version) == status_of([b"x", b"y"], version) == 400


def test_a_route_may_say_how_long_an_answer_is_kept_and_change_no_other_header() -> None:
    sent: list[Any] = []

    async def careless(scope: Any, receive: Any, send: Any) -> None:
        own = [(b"cache-control", b"private, no-cache"), (b"x-frame-options", b"ALLOWALL"), (b"etag", b'"e"')]
        await send({"type": "http.response.start", "status": 200, "headers": own})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": "GET", "path": "/", "headers": [(b"host", b"x")]}
    asyncio.run(RequestGuard(careless, body_bytes_max=100)(scope, send, send))
    headers = sent[0]["headers"]
    assert dict(headers)[b"cache-control"] == b"private, no-cache"
    assert dict(headers)[b"x-frame-options"] == b"DENY"
    assert dict(headers)[b"etag"] == b'"e"'
    assert len(dict(headers)) == len(headers)
