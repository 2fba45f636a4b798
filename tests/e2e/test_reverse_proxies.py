"""The configurations of nginx and Caddy in `deploy/`, run as they are on loopback, with a curator behind them."""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from deployments import ANALYSTS, Caller, Deployment, Server, box, describe, free_port
from patience import scaled, wait_for

from analyst_client import CuratorClient, TransportError

pytestmark = [pytest.mark.slow, pytest.mark.machines]

ROOT = Path(__file__).parents[2]


@dataclass
class Proxy:
    """A proxy that serves a curator over TLS.

    Attributes
    ----------
    port : int
    log : Path
        Its output.
    """

    port: int
    log: Path

    def connect(self) -> ssl.SSLSocket:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=scaled(30))
        return context.wrap_socket(raw, server_hostname="localhost")

    def answers(self) -> bool:
        try:
            self.connect().close()
        except OSError:
            return False
        return True


def changed(text: str, **changes: str) -> str:
    """Return a text with each of some parts, which must be there once, replaced."""
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a key and a certificate of localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256())
    paths = folder / "localhost.pem", folder / "localhost.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    encoding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(*encoding))
    return paths


def nginx(folder: Path, server: Server, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the command of nginx: the file, in the smallest configuration around it."""
    certificate, key = write_certificate(folder)
    text = changed(
        (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8"),
        **{
            "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
            "server 127.0.0.1:8000;": f"server 127.0.0.1:{server.port};",
            "/etc/ssl/certs/curator.pem": str(certificate),
            "/etc/ssl/private/curator.key": str(key),
            "client_header_timeout 10s;": "client_header_timeout 1s;",
        },
    )
    (folder / "curator.conf").write_text(text, encoding="utf-8")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    # As a distribution's own file has it: every address as a whole.
    around = f"access_log {folder}/log combined; {places} include curator.conf;"
    main = f"pid {folder}/nginx.pid; error_log stderr warn; events {{}} http {{ {around} }}"
    (folder / "nginx.conf").write_text(main, encoding="utf-8")
    return ["nginx", "-p", str(folder), "-c", "nginx.conf", "-g", "daemon off; master_process off;"], {}


def caddy(folder: Path, server: Server, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the command of Caddy: the file, on ports of its own, and nothing installed."""
    text = changed(
        (ROOT / "deploy" / "Caddyfile").read_text(encoding="utf-8"),
        **{
            "admin off\n": f"admin off\nhttp_port {free_port()}\ndefault_bind 127.0.0.1\nskip_install_trust\n",
            "read_header 10s": "read_header 1s",
        },
    )
    (folder / "Caddyfile").write_text(text, encoding="utf-8")
    settings = {
        "CURATOR_SITE": f"https://localhost:{port}",
        "CURATOR_UPSTREAM": f"127.0.0.1:{server.port}",
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"], settings


@contextmanager
def run(
    make: Callable[[Path, Server, int], tuple[list[str], dict[str, str]]], town: Deployment, server: Server
) -> Iterator[Proxy]:
    """Run a proxy until the end of a block."""
    folder = town.folder / make.__name__
    folder.mkdir()
    port = free_port()
    command, settings = make(folder, server, port)
    program = shutil.which(command[0], path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip(f"{command[0]} is NOT tested: install it")
    proxy = Proxy(port, folder / "log")
    with proxy.log.open("wb") as log:
        process = subprocess.Popen([program, *command[1:]], env=os.environ | settings, stdout=log, stderr=log)
    try:
        wait_for(lambda: process.poll() is not None or proxy.answers(), f"{command[0]} answers", 30)
        assert process.poll() is None, proxy.log.read_text(encoding="utf-8")
        yield proxy
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(params=[nginx, caddy], ids=lambda make: make.__name__)
def proxied(request: pytest.FixtureRequest, embedded_town: Deployment) -> Iterator[tuple[Deployment, Server, Proxy]]:
    server = embedded_town.serve()
    with run(request.param, embedded_town, server) as proxy:
        yield embedded_town, server, proxy


def ending(connection: ssl.SSLSocket, sent: bytes) -> bytes:
    """Send something, and return what comes until the end, a reset included."""
    answer = b""
    try:
        connection.sendall(sent)
        while part := connection.recv(65536):
            answer += part
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        connection.close()
    return answer


def test_it_passes_on_what_is_right_and_bounds_the_rest(proxied: tuple[Deployment, Server, Proxy]) -> None:
    town, server, proxy = proxied
    path, token = town.open_account("proxied"), town.tokens[ANALYSTS[0]]
    address = f"https://localhost:{proxy.port}"
    with Caller(address, token) as caller, town.call(server) as direct:
        bought = caller.post(f"{path}/releases", box(), "the-key")
        assert bought.status_code == 201, describe(bought)
        assert bought.headers["strict-transport-security"].startswith("max-age=")
        assert direct.post(f"{path}/releases", box(), "the-key").content == bought.content
        assert caller.get("/readyz").json() == {"status": "ready"}
        assert direct.get("/metrics").status_code == 200
        assert [caller.get(path).status_code for path in ("/metrics", "/metrics?x", "/%6detrics")] == [404, 404, 404]
        assert caller.get("/v1/nothing").headers["content-type"] == "application/problem+json"
        with ThreadPoolExecutor(8) as pool:  # no connection that the curator has closed is used again
            keys = [f"key-{i}" for i in range(40)]
            answers = list(pool.map(lambda key: caller.post(f"{path}/releases", box(), key), keys))
        assert {answer.status_code for answer in answers} == {201}, [describe(answer) for answer in answers]
        too_large = caller.post(f"{path}/releases", {"features": ["a" * 70_000]}, "large")
        assert too_large.status_code == 413
        lines = {"Authorization": f"Bearer {token}", "X-Long": "a" * 100_000}
        with httpx.Client(verify=False, trust_env=False) as client:
            long = client.get(f"{address}/v1/datasets", headers=lines)
        assert long.status_code in {400, 431}
        came = "/admin/sign-in/hospital/callback?code=SplxlOBeZQQYbYS6&state=af0ifjsldkj"
        assert caller.get(came).status_code == 403
    assert "SplxlOBeZQQYbYS6" not in proxy.log.read_text(encoding="utf-8")
    # Half a head is ended by the proxy; half a body is, too, or does not get further.
    assert ending(proxy.connect(), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").partition(b"\r\n")[0][9:12] in {
        b"",
        b"408",
    }
    assert len(town.audit("proxied").charges) == 41
    assert json.loads(bought.content)["id"] in town.look("proxied").releases


def test_what_it_answers_by_itself_is_no_answer_and_the_key_pays_once(
    proxied: tuple[Deployment, Server, Proxy],
) -> None:
    town, server, proxy = proxied
    dataset = town.open_account("alone").rpartition("/")[2]
    address, way = f"https://localhost:{proxy.port}", httpx.HTTPTransport(verify=False)
    asked: dict[str, Any] = {"target": "kappa", "mu": 0.01, "rows": "box", "even_so": True}
    with CuratorClient(address, town.tokens[ANALYSTS[0]], memory=None, transport=way, max_attempts=2) as client:
        server.kill()
        with pytest.raises(TransportError, match="HTTP 502 from localhost is not the curator's answer") as caught:
            client.release(dataset, ["age", "sex"], idempotency_key="alone", **asked)
        assert (caught.value.status, caught.value.idempotency_key) == (502, "alone")
        server.start()
        bought = client.release(dataset, ["age", "sex"], idempotency_key=caught.value.idempotency_key, **asked)
    assert bought.id in town.look("alone").releases
    assert len(town.audit("alone").charges) == 1


def test_bodies_that_come_slowly_take_none_of_the_proxys_connections(proxied: tuple[Deployment, Server, Proxy]) -> None:
    """A proxy that passes bodies on as they come, over so many connections and no more, would serve nobody else."""
    _town, _server, proxy = proxied
    slow = b"POST /v1/datasets/x/quotes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"
    # nginx lets one address have a hundred.
    count = 90 if "nginx" in str(proxy.log) else 200
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(proxy.connect()).sendall(slow)
        other = stack.enter_context(proxy.connect())
        other.settimeout(scaled(10))
        other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert other.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("make", [nginx, caddy], ids=lambda make: make.__name__)
def test_a_curator_is_reached_below_a_path_of_a_host(
    make: Callable[[Path, Server, int], tuple[list[str], dict[str, str]]], embedded_town: Deployment
) -> None:
    """With the one change that the files name; the rest of the host is somebody else's."""
    server = embedded_town.serve(CURATOR_PUBLIC_URL="https://localhost/curator")
    changes = {"location / {": "location /curator/ {", "reverse_proxy {$": "reverse_proxy /curator/* {$"}

    def below(folder: Path, server: Server, port: int) -> tuple[list[str], dict[str, str]]:
        command, settings = make(folder, server, port)
        for name in ("curator.conf", "Caddyfile"):
            if (path := folder / name).exists():
                old, new = next((old, new) for old, new in changes.items() if old in path.read_text(encoding="utf-8"))
                path.write_text(changed(path.read_text(encoding="utf-8"), **{old: new}), encoding="utf-8")
        return command, settings

    below.__name__ = make.__name__
    way = httpx.HTTPTransport(verify=False)
    with run(below, embedded_town, server) as proxy, httpx.Client(verify=False, trust_env=False) as other:
        address = f"https://localhost:{proxy.port}"
        assert other.get(f"{address}/curator/").headers["location"] == "/curator/admin"
        page = other.get(f"{address}/curator/admin/sign-in")
        style = re.search(r'href="(/curator/admin/static/style[^"]+)"', page.text)
        assert style is not None
        assert other.get(f"{address}{style[1]}").headers["content-type"].startswith("text/css")
        assert [other.get(f"{address}{path}").status_code for path in ("/curator/metrics", "/curator/%6detrics")] == [
            404
        ] * 2
        assert "admin" not in other.get(f"{address}/admin").text
        path = embedded_town.open_account("below")
        url, token = f"{address}/curator", embedded_town.tokens[ANALYSTS[0]]
        with CuratorClient(url, token, memory=None, transport=way) as client:
            client.release(path.rpartition("/")[2], ["age", "sex"], target="kappa", mu=0.01, rows="box", even_so=True)
    assert len(embedded_town.audit("below").charges) == 1
