"""Documents of identity providers: over https alone, without redirects, within bounds."""

import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from patience import scaled

from curator_service.identity.oidc import fetching
from curator_service.identity.oidc.fetching import BYTES_MAX, ProviderUnreachable, fetch, is_secure

END_S = 0.5
PACKED = gzip.compress(bytes(32 << 20))
"""A few bytes, of which many would become."""


class _Issuer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/slow"):
            self._trickle()
            return
        answers = {
            "/good": (200, b'{"a": 1}'),
            "/list": (200, b"[]"),
            "/text": (200, b"<html>"),
            "/deep": (200, b'{"a":' * 100_000),
            "/huge": (200, b'{"a": "' + b"x" * BYTES_MAX + b'"}'),
            "/moved": (302, b""),
            "/none": (404, b"{}"),
        }
        if self.path == "/packed":
            self._answer(200, PACKED, "gzip")
            return
        status, content = answers[self.path]
        if self.path == "/good" and self.headers.get("Authorization"):
            content = b'{"told": true}'
        self._answer(status, content)

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"]))
        echo = {"form": form.decode(), "type": self.headers["Content-Type"], "by": self.headers.get("Authorization")}
        answers = {
            "/good": (200, json.dumps(echo).encode()),
            "/huge": (200, b'{"id_token": "' + b"x" * BYTES_MAX + b'"}'),
            "/moved": (307, b""),
            "/page": (200, b"<script>alert(1)</script>"),
            "/refused": (400, b'{"error": "invalid_grant", "error_description": "<b>no</b>"}'),
            "/list": (200, b"[]"),
        }
        self._answer(*answers[self.path])

    def _trickle(self) -> None:
        """Send a byte of a head or a body, again and again, each well within the time of one read."""
        head = b"HTTP/1.1 200 OK\r\nX-Long: "
        self.wfile.write(head if self.path == "/slow-head" else head + b"\r\n\r\n")
        try:
            for _ in range(int(20 * END_S / 0.05)):
                self.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:  # whoever asked has left
            pass

    def _answer(self, status: int, content: bytes, coding: str = "") -> None:
        self.send_response(status)
        self.send_header("Location", "/good")
        if coding:
            self.send_header("Content-Encoding", coding)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Issuer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(10)


@pytest.mark.parametrize(
    ("url", "secure"),
    [
        ("https://login.example/x", True), ("http://127.0.0.1:8/x", True), ("http://localhost/x", True),
        ("http://[::1]/x", True), ("http://login.example/x", False), ("http://127.0.0.1.evil.example", False),
        ("http://localhost.evil.example", False), ("http://127.0.0.1@evil.example", False), ("ftp://127.0.0.1", False),
        ("file:///etc/passwd", False), ("https://", False), ("", False), ("login.example", False),
        ("http://\x00", False), ("https://a/\ud800", False), ("https://a:b", False), ("https://a:65536/x", False),
        ("http://127.0.0.1:0/x", False),
    ],
)  # fmt: skip
def test_what_is_neither_https_nor_this_machine_is_not_asked(url: str, secure: bool) -> None:
    assert is_secure(url) is secure
    if not secure:
        with pytest.raises(ProviderUnreachable):
            fetch(url)


def test_a_document_is_read(issuer: str) -> None:
    assert fetch(f"{issuer}/good") == {"a": 1}
    assert fetch(f"{issuer}/good", "Bearer x") == {"told": True}


def test_a_form_is_posted(issuer: str) -> None:
    told = fetch(f"{issuer}/good", "Basic x", {"code": "a &=é", "grant_type": "authorization_code"})
    assert told == {
        "form": "code=a+%26%3D%C3%A9&grant_type=authorization_code",
        "type": "application/x-www-form-urlencoded",
        "by": "Basic x",
    }


@pytest.mark.parametrize("path", ["huge", "moved", "page", "refused", "list"])
def test_what_answers_a_form_is_a_document_or_refused_without_its_words(issuer: str, path: str) -> None:
    with pytest.raises(ProviderUnreachable) as refused:
        fetch(f"{issuer}/{path}", "", {"code": "a"})
    assert "<" not in str(refused.value)
    assert "invalid_grant" not in str(refused.value)


@pytest.mark.parametrize("path", ["list", "text", "deep", "huge", "moved", "none"])
def test_what_is_no_document_is_refused_and_no_redirect_followed(issuer: str, path: str) -> None:
    with pytest.raises(ProviderUnreachable):
        fetch(f"{issuer}/{path}")


@pytest.mark.parametrize("path", ["slow-head", "slow-body"])
def test_an_answer_has_one_end_however_slowly_it_comes(issuer: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "WHOLE_S", END_S)
    began = time.monotonic()
    with pytest.raises(ProviderUnreachable, match="takes more than"):
        fetch(f"{issuer}/{path}")
    assert time.monotonic() - began < scaled(5 * END_S)


def test_what_is_packed_is_not_unpacked(issuer: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ProviderUnreachable, match="packed"):
            fetch(f"{issuer}/packed")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_nobody_there_is_a_provider_that_cannot_be_reached() -> None:
    with pytest.raises(ProviderUnreachable, match="ConnectError"):
        fetch("http://127.0.0.1:1/x")


@pytest.mark.parametrize("excepted", ["[::1]", "[::1],10.0.0.0/8", "[fe80::1%eth0]", "*,[::1]", "http://[", "::1"])
def test_a_list_of_exceptions_from_the_proxy_is_read_whatever_it_has(
    monkeypatch: pytest.MonkeyPatch, excepted: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", excepted)
    with pytest.raises(ProviderUnreachable, match=r"provider\.invalid: ConnectError"):
        fetch("https://provider.invalid/.well-known/openid-configuration")


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "all_proxy"])
@pytest.mark.parametrize("address", ["http://[::1", "ftp://proxy", "http://proxy:port", "http://", "socks5://proxy:1"])
def test_a_proxy_that_is_no_address_is_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, address: str
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, address)
    with pytest.raises(ProviderUnreachable, match=f"{variable.upper()} is not the address of an HTTP proxy"):
        fetch("https://provider.invalid/")


def test_the_proxy_of_the_environment_is_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", ".inside.example,[2001:db8::1]")
    found = fetching.find_proxy("https://provider.example/")
    assert found is not None
    assert str(found.url) == "http://proxy.example:3128"
    for url in ("https://a.inside.example/", "https://[2001:db8::1]/", "https://127.0.0.1/", "https://localhost:1/"):
        assert fetching.find_proxy(url) is None
