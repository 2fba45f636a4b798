"""Variables, proxies and certificates between a client and its curator: a fault is named, with a way out of it."""

import gzip
import http.server
import io
import os
import signal
import socket
import ssl
import sys
import threading
import types
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from client_examples import RELEASE_TEXT, TOKEN, URL, Curator, ask
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from analyst_client import CuratorClient, TransportError
from analyst_client.admin import CuratorAdmin
from analyst_client.errors import ServiceError
from analyst_client.http import evidence, proxies, transport
from analyst_client.http.connections import Connections
from analyst_client.http.credentials import Nobody
from analyst_client.http.proxies import find_authorities
from analyst_client.http.sign_in import Provider, SignedIn
from analyst_client.ledger.history import LedgerHistory
from analyst_client.ledger.memory import Memory

HOST = "curator.invalid"
VARIABLES = (*(f"{kind}_PROXY" for kind in ("HTTP", "HTTPS", "ALL", "NO")), "SSL_CERT_FILE", "SSL_CERT_DIR")
EMPTY = b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 15\r\n\r\n{"datasets":[]}'


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take away what the environment says of networks, and the package truststore."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setitem(sys.modules, "truststore", None)
    proxies._load_authorities.cache_clear()
    yield
    proxies._load_authorities.cache_clear()


@contextmanager
def client_of(url: str = f"https://{HOST}", **options: Any) -> Iterator[CuratorClient]:
    """Give a client that never waits, and fails the test where it would."""
    with CuratorClient(url, TOKEN, memory=None, **{"max_attempts": 9, "timeout_s": 20} | options) as client:
        client._transport.sleep = lambda _: pytest.fail("asked again")
        yield client


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key, and a certificate of the host and of this machine that vouches for itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an inspecting device")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    day = timedelta(days=1)
    builder = builder.serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
    names = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.DNSName("localhost")])
    builder = builder.add_extension(names, critical=False)
    kinds = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    signed = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, *kinds) + signed)
    return path


@contextmanager
def listening(
    *, to_connect: bytes = b"", certificate: Path | None = None, is_proxy_tls: bool = False
) -> Iterator[tuple[int, list[bytes]]]:
    """Answer CONNECT so, with TLS if there is a certificate, and requests with no datasets; yield port and heads."""
    listener, heads = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def read_head(source: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            part = source.recv(65536)
            if not part:
                return
            head += part
        heads.append(head)

    def wrap(connection: socket.socket) -> ssl.SSLSocket:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate or "")
        return context.wrap_socket(connection, server_side=True)

    def serve() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:  # closed
                return
            with ExitStack() as held, suppress(OSError):
                held.enter_context(connection)
                connection.settimeout(20)
                if is_proxy_tls:
                    connection = held.enter_context(wrap(connection))
                if to_connect:
                    read_head(connection)
                    head, _, page = to_connect.partition(b"\r\n\r\n")
                    connection.sendall(head + b"\r\n\r\n")
                    if page:
                        connection.recv(65536)
                        connection.sendall(page)
                if certificate is not None and not is_proxy_tls:
                    connection = held.enter_context(wrap(connection))
                if not to_connect or certificate is not None:
                    read_head(connection)
                    connection.sendall(EMPTY)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], heads
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(30)


# --- Variables


@pytest.mark.parametrize(
    ("variable", "value", "fault"),
    [
        ("ALL_PROXY", "socks5://proxy.example:1080", "names a SOCKS proxy, and HTTP ones are used here"),
        ("all_proxy", "socks5h://u:secret@proxy.example:1080", "names a SOCKS proxy, and HTTP ones are used here"),
        ("HTTPS_PROXY", "http://proxy.example:99999", "is not the address of an HTTP proxy"),
        ("HTTPS_PROXY", "proxy.example:0", "is not the address of an HTTP proxy"),
        ("https_proxy", "http://u:sec#ret@proxy.example:3128", "is not the address of an HTTP proxy"),
        ("HTTPS_PROXY", "http://:3128", "is not the address of an HTTP proxy"),
    ],
)
def test_a_proxy_that_is_none_is_named_at_once(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, fault: str
) -> None:
    monkeypatch.setenv(variable, value)
    with (
        client_of() as client,
        pytest.raises(TransportError, match=f"^{variable} {fault}, so nothing was sent") as caught,
    ):
        client.datasets()
    better = "https_proxy" if variable == "https_proxy" else "HTTPS_PROXY"
    assert f"{better}=http://proxy.example:3128 " in str(caught.value)
    assert f"add {HOST} to NO_PROXY " in str(caught.value)
    assert "sec" not in str(caught.value)


def test_what_the_error_says_works(monkeypatch: pytest.MonkeyPatch, certificate: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example:1080")
    with listening(to_connect=b"HTTP/1.1 200 Connected\r\n\r\n", certificate=certificate) as (port, heads):
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        with client_of() as client:
            assert client.datasets() == ()
        assert heads[0].startswith(b"CONNECT curator.invalid:443 ")
        monkeypatch.setenv("NO_PROXY", HOST)
        with client_of(max_attempts=1) as client, pytest.raises(TransportError, match="ConnectError"):
            client.datasets()


@pytest.mark.parametrize("excepted", [f"{HOST}:8443", f"[::1],{HOST}", "*", ".invalid"])
def test_a_host_is_excepted_with_or_without_its_port(monkeypatch: pytest.MonkeyPatch, excepted: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", excepted)
    assert proxies.find_proxy(httpx.URL(f"https://{HOST}:8443/v1")) is None


def test_a_proxy_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    with client_of(max_attempts=1) as client, pytest.raises(TransportError, match="by the proxy of https_proxy"):
        client.datasets()


def test_an_address_with_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="a port is from 1 to 65535, and not 99999"):
        CuratorClient("https://curator.example:99999", TOKEN)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
@pytest.mark.parametrize("is_there", [False, True])
def test_certificates_that_cannot_be_read_are_named_where_they_are_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, certificate: Path, variable: str, is_there: bool
) -> None:
    stale = tmp_path / "stale"
    if is_there:
        stale.write_text("no certificate")
    monkeypatch.setenv(variable, str(stale))
    with client_of() as client:
        with pytest.raises(TransportError, match=f"^{variable} is '.*stale', which is no f.*, so nothing was"):
            client.datasets()
        # What the error says works, and for the same client.
        monkeypatch.delenv(variable)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        client._transport.sleep = lambda _: None
        with pytest.raises(TransportError, match="ConnectError"):
            client.datasets()
    monkeypatch.setenv(variable, str(stale))
    with listening() as (port, _), client_of(f"http://127.0.0.1:{port}") as client:
        assert client.datasets() == ()


# --- Certificates


def test_a_bundle_of_another_library_changes_nothing(monkeypatch: pytest.MonkeyPatch, certificate: Path) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, "/nowhere/stale.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with listening(certificate=certificate) as (port, _), client_of(f"https://localhost:{port}") as client:
        assert client.datasets() == ()


def test_an_authority_that_is_unknown_is_named_with_what_would_trust_it(
    monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    with listening(certificate=certificate) as (port, heads), client_of(f"https://localhost:{port}") as client:
        with pytest.raises(TransportError, match=r"self-signed certificate; .* of the package certifi") as caught:
            ask(client, idempotency_key="mine")
        told = str(caught.value)
        assert "SSL_CERT_FILE=FILE" in told
        assert "dp-curator-client[truststore]" in told
        assert told.endswith("; nothing was sent")
        assert caught.value.idempotency_key == "mine"
        assert heads == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert client.datasets() == ()
    with (
        listening(certificate=certificate) as (port, heads),
        client_of(f"https://127.0.0.1:{port}") as client,
        pytest.raises(TransportError, match="the address has another name"),
    ):
        client.datasets()


def test_the_system_s_authorities_are_trusted_where_truststore_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, certificate: Path
) -> None:
    made: list[ssl.SSLContext] = []

    def trusting(protocol: int) -> ssl.SSLContext:
        made.append(ssl.SSLContext(protocol))
        made[-1].load_verify_locations(certificate)
        return made[-1]

    module = types.ModuleType("truststore")
    vars(module)["SSLContext"] = trusting
    monkeypatch.setitem(sys.modules, "truststore", module)
    for _ in range(3):
        with listening(certificate=certificate) as (port, _), client_of(f"https://localhost:{port}") as client:
            assert client.datasets() == ()
    assert len(made) == 1
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))  # the environment goes first
    with (
        listening(certificate=certificate) as (port, _),
        client_of(f"https://localhost:{port}") as client,
        pytest.raises(TransportError, match="trusted are the authorities of SSL_CERT_DIR"),
    ):
        client.datasets()


def test_truststore_itself_distrusts_what_the_system_does(monkeypatch: pytest.MonkeyPatch, certificate: Path) -> None:
    monkeypatch.delitem(sys.modules, "truststore")
    pytest.importorskip("truststore")
    with (
        listening(certificate=certificate) as (port, _),
        client_of(f"https://localhost:{port}") as client,
        pytest.raises(TransportError, match="trusted are the authorities of the system"),
    ):
        client.datasets()


def test_clients_share_one_reading_of_the_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bool] = []
    context = ssl.create_default_context()
    monkeypatch.setattr(httpx, "create_ssl_context", lambda **_: read.append(True) or context)
    for _ in range(3):
        with client_of(max_attempts=1) as client, pytest.raises(TransportError):
            client.datasets()
    assert read == [True]


# --- Answers of proxies


@pytest.mark.parametrize(
    ("to_connect", "said"),
    [
        (
            b"407 Proxy Authentication Required",
            "asks for a name and a password .*HTTPS_PROXY is to hold both.*NAME:PASSWORD@",
        ),
        (b"403 Forbidden", "refuses a connection to curator.invalid .*have it allowed"),
        (b"302 Found", "refuses a connection .*sign in to the network"),
        (b"200 OK", "shows something for curator.invalid that is not in TLS"),
    ],
)
def test_a_connection_that_a_proxy_refuses_is_told_once(
    monkeypatch: pytest.MonkeyPatch, to_connect: bytes, said: str
) -> None:
    page = b"<html>" if to_connect.startswith(b"200") else b""
    answer = b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (to_connect, len(page), page)
    with listening(to_connect=answer) as (port, heads):
        monkeypatch.setenv("HTTPS_PROXY", f"http://u:secret@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "localhost")  # where it is set, NO_PROXY is not read
        with client_of() as client, pytest.raises(TransportError, match=said) as caught:
            ask(client, idempotency_key="mine", even_so=True)
    told = str(caught.value)
    assert f"add {HOST} to no_proxy" in told
    assert told.endswith("; nothing was sent")
    assert caught.value.idempotency_key == "mine"
    assert len(heads) == 1
    assert TOKEN.encode() not in heads[0]
    assert "secret" not in told


def test_a_proxy_with_a_certificate_of_the_hospital_is_trusted(
    monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    with listening(to_connect=refusal, certificate=certificate, is_proxy_tls=True) as (port, _), client_of() as client:
        monkeypatch.setenv("HTTPS_PROXY", f"https://localhost:{port}")
        with pytest.raises(TransportError, match="the proxy refuses a connection"):
            client.datasets()


def test_an_earlier_attempt_leaves_its_doubt() -> None:
    class Refused(httpx.ProxyError):
        def __init__(self, _: str) -> None:
            super().__init__("403 Forbidden")

    client = Curator(httpx.ReadTimeout, Refused).client()
    with pytest.raises(TransportError, match=r"403 Forbidden.*it may have been charged: .*'mine'$"):
        ask(client, idempotency_key="mine", even_so=True)


def test_a_proxy_that_does_not_reach_the_curator_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(to_connect=b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n") as (port, heads):
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        with (
            client_of(max_attempts=1) as client,
            pytest.raises(TransportError, match=r"no answer .*502 Bad Gateway, by the proxy of HTTPS_PROXY"),
        ):
            client.datasets()
    assert len(heads) == 1


def test_a_device_that_reads_tls_is_named(monkeypatch: pytest.MonkeyPatch, certificate: Path) -> None:
    with listening(to_connect=b"HTTP/1.1 200 Connected\r\n\r\n", certificate=certificate) as (port, heads):
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        with client_of() as client, pytest.raises(TransportError, match="a device on the way may have made it"):
            client.datasets()
        assert len(heads) == 1


# --- Bounds


def packed(size: int) -> httpx.Response:
    return httpx.Response(200, content=gzip.compress(bytes(size)), headers={"Content-Encoding": "gzip"})


def archive(size: int = 5000) -> httpx.Response:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("entry", os.urandom(size))
    return httpx.Response(200, content=file.getvalue())


def test_an_answer_is_unpacked_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 10_000)
    client = Curator(packed(10_001)).client()
    with pytest.raises(TransportError, match=r"more than 10,000 bytes.*charged: .*'mine'$"):
        ask(client, idempotency_key="mine", even_so=True)
    assert len(RELEASE_TEXT) < 10_000
    twice = httpx.Response(
        200, stream=httpx.ByteStream(gzip.compress(gzip.compress(b"{}"))), headers={"Content-Encoding": "gzip, gzip"}
    )
    with pytest.raises(TransportError, match="encoded as nobody asked"):
        Curator(twice).client().datasets()


@pytest.mark.parametrize(
    "save",
    [
        lambda carrier, path: CuratorAdmin(URL, TOKEN, transport=carrier).evidence("prm_1", path),
        lambda carrier, path: CuratorAdmin(URL, TOKEN, transport=carrier).evidence("rel_1", path),
        lambda carrier, path: CuratorClient(URL, TOKEN, transport=carrier, memory=None).evidence("rel_1", path),
    ],
)
def test_evidence_has_a_bound_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, save: Callable[[httpx.MockTransport, Path], None]
) -> None:
    assert evidence.BYTES_MAX == 4 * 2**30
    path, sent = tmp_path / "pack.zip", archive()
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 100)
    save(httpx.MockTransport(Curator(sent)), path)
    assert path.read_bytes() == sent.content
    monkeypatch.setattr(evidence, "BYTES_MAX", 5000)
    path.unlink()
    with pytest.raises(TransportError, match="more than 5,000 bytes"):
        save(httpx.MockTransport(Curator(archive())), path)
    assert not path.exists()


def test_a_sign_in_reads_no_more_than_a_document() -> None:
    with pytest.raises(ServiceError, match="more than 262,144 bytes"):
        CuratorClient.sign_in(URL, memory=None, transport=httpx.MockTransport(lambda _: packed(2**20)))


class Unread(httpx.SyncByteStream):
    """A body that nobody reads."""

    def __iter__(self) -> Iterator[bytes]:
        pytest.fail("it was read")


def test_a_refusal_that_a_renewal_follows_is_not_read() -> None:
    class Renewed(Nobody):
        def renew(self, refused: str) -> bool:
            return True

    curator = Curator(httpx.Response(401, stream=Unread()), httpx.Response(200, content=b'{"datasets":[]}'))
    with CuratorClient(URL, Renewed(), transport=httpx.MockTransport(curator), memory=None) as client:
        assert client.datasets() == ()


# --- Forks


class Datasets(http.server.BaseHTTPRequestHandler):
    """A curator without datasets, that tells connections apart."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.ports.append(self.client_address[1])  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "15")
        self.end_headers()
        self.wfile.write(b'{"datasets":[]}')

    def log_message(self, *_: Any) -> None:
        pass


def passes_in_a_fork(check: Callable[[], bool]) -> bool:
    """Return what a check says in a fork; one that waits for a lock is ended."""
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        try:
            os._exit(not check())
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


of_forks = pytest.mark.filterwarnings("ignore:This process .*is multi-threaded:DeprecationWarning")


@of_forks
def test_a_fork_opens_connections_of_its_own() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Datasets) as server:
        server.daemon_threads, ports = True, list[int]()
        vars(server)["ports"] = ports
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with client_of(f"http://127.0.0.1:{server.server_address[1]}") as client:
            client.datasets()
            shared = find_authorities()[0]
            assert passes_in_a_fork(lambda: client.datasets() == () and find_authorities()[0] is not shared)
            client.datasets()
        server.shutdown()
    first, forked, last = ports
    assert first == last != forked


class Pause:
    """A moment in which a thread holds a lock."""

    def __init__(self) -> None:
        self.held, self.go = threading.Event(), threading.Event()

    def last(self) -> None:
        self.held.set()
        self.go.wait(60)


Uses = tuple[Callable[[], object], Callable[[], object]]
"""What holds a lock in a thread, and what needs it in a fork."""


def use_of_memory(pause: Pause) -> Uses:
    memory = Memory(None, URL)

    def change(history: LedgerHistory) -> LedgerHistory:
        pause.last()
        return history

    return (lambda: memory.update(change),) * 2


def use_of_sign_in(pause: Pause) -> Uses:
    def answer(_: httpx.Request) -> httpx.Response:
        pause.last()
        return httpx.Response(400, json={"error": "invalid_grant"})

    issuer = "https://login.example"
    provider = Provider(issuer, "c", "openid", {}, f"{issuer}/d", f"{issuer}/t")
    carrier = Connections(httpx.MockTransport(answer), {})
    signed_in = SignedIn(provider, httpx.URL(URL), carrier, lambda: 0.0, None)
    signed_in._refresh = "refresh"
    return signed_in.token, signed_in.token


def use_of_cookies(pause: Pause) -> Uses:
    client = Curator(httpx.Response(200, content=b'{"datasets":[]}')).client()

    def hold() -> None:
        with client._transport._http.cookies.jar._cookies_lock:  # type: ignore[attr-defined]
            pause.last()

    return hold, client.datasets


@of_forks
@pytest.mark.parametrize("prepare", [use_of_memory, use_of_sign_in, use_of_cookies])
def test_a_fork_waits_for_no_thread_that_it_does_not_have(prepare: Callable[[Pause], Uses]) -> None:
    pause = Pause()
    hold, use = prepare(pause)
    thread = threading.Thread(target=hold)
    thread.start()
    pause.held.wait(60)

    def check() -> bool:
        pause.go.set()  # the fork's own: the parent's thread still holds the lock
        use()
        return True

    try:
        assert passes_in_a_fork(check)
    finally:
        pause.go.set()
        thread.join()
