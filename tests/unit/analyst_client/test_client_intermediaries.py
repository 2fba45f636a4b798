"""Answers of a proxy, a gateway or a sign-in page are never taken for the curator's answer.

Answers go over a socket of this machine, as bytes: some of them no library would write.
"""

import gzip
import re
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from client_examples import RELEASE_TEXT, TOKEN, Curator, Ledger, ask, problem, released

from analyst_client import CuratorClient, CuratorError, TransportError
from analyst_client.admin import CuratorAdmin
from analyst_client.errors import ServiceError, ServiceUnavailableError

WHOLE = RELEASE_TEXT.encode()
TITLE = "<html><head><title>{}</title></head><body>…</body></html>"


def raw(status: str, body: bytes, *lines: str, length: bool = True, version: str = "1.1") -> httpx.Response:
    """Return an answer that is sent as these bytes."""
    heads = [
        f"HTTP/{version} {status}",
        "Connection: close",
        *lines,
        *([f"Content-Length: {len(body)}"] if length else []),
    ]
    return httpx.Response(200, extensions={"raw": "\r\n".join([*heads, "", ""]).encode() + body})


def page(status: str, title: str = "", *lines: str) -> httpx.Response:
    return raw(status, TITLE.format(title or status).encode(), "Content-Type: text/html; charset=utf-8", *lines)


def chunked(body: bytes, size: int, *, end: bytes = b"0\r\n\r\n") -> bytes:
    parts = (body[k : k + size] for k in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


def written(answer: httpx.Response) -> bytes:
    if "raw" in answer.extensions:
        return answer.extensions["raw"]
    lines = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    return f"HTTP/1.1 {answer.status_code} OK\r\nConnection: close\r\n{lines}\r\n".encode() + answer.content


@contextmanager
def listening(*answers: httpx.Response) -> Iterator[tuple[Curator, str]]:
    """Serve the answers over a socket, one connection for each; give the curator that plays them, and the address."""
    curator, listener = Curator(*answers), socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:  # closed
                return
            with connection, connection.makefile("rb") as file:
                connection.settimeout(30)
                method, path, _ = file.readline().decode().split()
                headers = dict(line.decode().rstrip().split(": ", 1) for line in iter(file.readline, b"\r\n"))
                body = file.read(int(headers.get("Content-Length", 0)))
                url = f"http://127.0.0.1{path}"
                connection.sendall(written(curator(httpx.Request(method, url, headers=headers, content=body))))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield curator, f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(30)


@contextmanager
def client_of(*answers: httpx.Response, attempts: int = 3) -> Iterator[tuple[Curator, CuratorClient]]:
    with (
        listening(*answers) as (curator, url),
        CuratorClient(url, TOKEN, memory=None, max_attempts=attempts, timeout_s=20) as client,
    ):
        client._transport.sleep = curator.waits.append
        yield curator, client


FINAL = {
    "portal": (page("200 OK", "Guest network"), TransportError, r"HTTP 200 from 127\.0\.0\.1 .*'Guest network'"),
    "made by hand": (raw("200 OK", b"\n <!doctype html>"), TransportError, "HTTP 200"),
    "portal with a mark": (
        raw("200 OK", b"\xef\xbb\xbf" + TITLE.format("Guest").encode(), "Content-Type: application/json"),
        TransportError,
        r"'Guest'\): sign in to the network in a browser, or add 127\.0\.0\.1 to ",
    ),
    "portal in words": (
        raw("200 OK", b"Please sign in.", "Content-Type: text/plain"),
        TransportError,
        r"a text without a problem document\): sign in",
    ),
    "proxy's password": (page("407 Proxy Authentication Required"), TransportError, "HTTP 407 .*NAME:PASSWORD@"),
    "network's password": (page("511 Network Authentication Required"), TransportError, "HTTP 511 .*: sign in"),
    "redirect": (
        page("302 Found", "", "Location: https://login.example/?next=secret", "Set-Cookie: a=b"),
        TransportError,
        r"HTTP 302 .*it sends to login\.example\): sign in",
    ),
    "relative redirect": (page("303 See Other", "", "Location: /login"), TransportError, r"sends to 127\.0\.0\.1"),
    "firewall": (page("403 Forbidden"), TransportError, r"HTTP 403 .*'403 Forbidden'\): have 127\.0\.0\.1 allowed"),
    "single sign-on": (page("401 Unauthorized", "", "WWW-Authenticate: Basic realm=x"), TransportError, "HTTP 401"),
    "too large": (page("413 Request Entity Too Large"), TransportError, "HTTP 413 .*ask for fewer columns"),
    "failed": (page("500 Internal Server Error"), ServiceError, "HTTP 500"),
    "gateway's JSON": (raw("403 Forbidden", b'{"message":"no route"}'), TransportError, "HTTP 403"),
    "another's problem": (raw("403 Forbidden", b'{"type":"about:blank","title":"no"}'), TransportError, "HTTP 403"),
    "no such codec": (
        raw("418 Teapot", b"<p>", "Content-Type: text/html; charset=hex"),
        TransportError,
        "HTTP 418 .*without a problem",
    ),
    "encoding": (raw("200 OK", WHOLE, "Content-Encoding: br"), TransportError, "encoded as nobody asked"),
    "old": (raw("200 OK", Ledger().budget.content, "Age: 86400"), TransportError, "a cache on the way .* 86400 s"),
    "title of a terminal": (page("200 OK", "\x1b]0;own\x07\u202eme"), TransportError, "'�]0;own��me'"),
}
PASSING = {
    "bad gateway": page("502 Bad Gateway"),
    "unavailable": page("503 Service Unavailable", "", "Retry-After: 1"),
    "gateway timeout": page("504 Gateway Time-out"),
    "request timeout": page("408 Request Time-out"),
    "client closed": page("499 Client Closed Request"),
    "too many": page("429 Too Many Requests"),
    "cut by length": raw("201 Created", WHOLE[:-300], f"Content-Length: {len(WHOLE)}", length=False),
    "cut unseen": raw("201 Created", WHOLE[:-300]),
    "cut at a close": raw("201 Created", WHOLE[:1000], length=False, version="1.0"),
    "nothing": raw("201 Created", b""),
    "nothing at all": httpx.Response(200, extensions={"raw": b""}),
    "half a head": httpx.Response(200, extensions={"raw": b"HTTP/1.1 201 Crea"}),
    "half a chunk": raw("201 Created", chunked(WHOLE, 500, end=b"")[:-100], "Transfer-Encoding: chunked", length=False),
    "no last chunk": raw("201 Created", chunked(WHOLE, 500, end=b""), "Transfer-Encoding: chunked", length=False),
    "half of gzip": raw("201 Created", gzip.compress(WHOLE)[:-200], "Content-Encoding: gzip"),
    "not gzip": raw("201 Created", WHOLE, "Content-Encoding: gzip"),
    "half a problem": raw("503 Service Unavailable", problem("busy", 503).content[:-20]),
}
HARMLESS = {
    "gzip": raw("201 Created", gzip.compress(WHOLE), "Content-Encoding: gzip"),
    "deflate": raw("201 Created", zlib.compress(WHOLE), "Content-Encoding: DEFLATE"),
    "chunks": raw("201 Created", chunked(WHOLE, 100), "Transfer-Encoding: chunked", length=False),
    "chunks of 1.0": raw("201 Created", chunked(WHOLE, 100), "Transfer-Encoding: chunked", length=False, version="1.0"),
    "chunks and a length": raw(
        "201 Created", chunked(WHOLE, 100), "Transfer-Encoding: chunked", "Content-Length: 7", length=False
    ),
    "no length": raw("201 Created", WHOLE, length=False, version="1.0"),
    "weak tag": raw("201 Created", WHOLE, 'ETag: W/"x"', "Age: 0", "Via: 1.1 proxy"),
    "early hints": httpx.Response(
        200, extensions={"raw": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + written(raw("201 Created", WHOLE))}
    ),
}


@pytest.mark.parametrize(("answer", "error", "said"), FINAL.values(), ids=FINAL)
def test_what_another_answers_is_told_once_with_the_key(
    answer: httpx.Response, error: type[CuratorError], said: str
) -> None:
    with client_of(answer) as (curator, client), pytest.raises(CuratorError, match=said) as caught:
        ask(client, idempotency_key="mine")
    told = str(caught.value)
    assert type(caught.value) is error
    assert caught.value.status in {200, 302, 303, 401, 403, 407, 413, 418, 500, 511}
    assert told.endswith("; it may have been charged: ask again with idempotency_key='mine'")
    assert caught.value.idempotency_key == "mine"
    assert "\n" not in told
    assert "secret" not in told
    assert curator.waits == []


@pytest.mark.parametrize(
    "charge",
    [
        lambda client: ask(client, idempotency_key="mine", even_so=True),
        lambda client: client.reserve("flchain", rho=0.1, expires_in_s=9, idempotency_key="mine"),
        lambda client: client.threshold_session("flchain", positives=1, epsilon=0.1, idempotency_key="mine"),
    ],
)
@pytest.mark.parametrize("body", [b'{"id": "rel_1"}', b'{"id": 1, "id": 2}', b'{"\xff": 1}'])
def test_a_malformed_answer_to_a_charge_names_its_key(charge: Callable[[CuratorClient], object], body: bytes) -> None:
    with client_of(raw("201 Created", body)) as (_, client), pytest.raises(ServiceError) as caught:
        charge(client)
    assert re.match("malformed answer: .*; it may have been charged: .*idempotency_key='mine'$", str(caught.value))
    assert caught.value.idempotency_key == "mine"


@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING)
def test_what_passes_is_asked_again_under_the_same_key(answer: httpx.Response) -> None:
    with client_of(answer, released(answer="replayed")) as (curator, client):
        bought = ask(client)
    assert bought.answer == "replayed"
    assert bought.text == RELEASE_TEXT
    assert len(curator.waits) == 1
    assert len(set(curator.keys)) == 1
    assert curator.requests[0].content == curator.requests[1].content


@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING)
def test_what_does_not_pass_is_told_with_the_key(answer: httpx.Response) -> None:
    with client_of(*[answer] * 2, attempts=2) as (curator, client), pytest.raises(CuratorError) as caught:
        ask(client)
    assert type(caught.value) in {TransportError, ServiceUnavailableError}
    assert caught.value.idempotency_key == curator.keys[0]
    assert f"it may have been charged: ask again with idempotency_key={curator.keys[0]!r}" in str(caught.value)


@pytest.mark.parametrize("answer", HARMLESS.values(), ids=HARMLESS)
def test_what_a_proxy_may_change_of_an_answer_changes_nothing(answer: httpx.Response) -> None:
    with client_of(answer) as (curator, client):
        assert ask(client).text == RELEASE_TEXT
    assert curator.waits == []


def test_an_old_account_out_of_a_cache_is_no_fork() -> None:
    """A head below the one that was seen would be called a ledger that was wound back."""
    ledger = Ledger()
    old, new = ledger.budget, ledger
    new.post()
    with client_of(ledger.budget, raw("200 OK", old.content, "Age: 12")) as (curator, client):
        client.budget("flchain")
        with pytest.raises(TransportError, match="a cache on the way kept it for 12 s"):
            client.budget("flchain")
    assert {request.headers["cache-control"] for request in curator.requests} == {"no-cache"}


@pytest.mark.parametrize(
    "answer", [page("200 OK"), raw("200 OK", b"{}", "Content-Type: application/json; charset=hex")]
)
def test_administration_takes_no_page_for_an_answer(answer: httpx.Response) -> None:
    with listening(answer) as (_, url), CuratorAdmin(url, TOKEN) as admin, pytest.raises(CuratorError):
        admin.list_populations()
