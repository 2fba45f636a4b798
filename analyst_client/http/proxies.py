"""The way to a host, as the environment has it: through a proxy or straight, and the certificates that are trusted.

This module alone reads the variables. A fault in one is a `TransportError` that names it, before anything is sent.
"""

import functools
import ipaddress
import os
import ssl
from urllib.request import getproxies, proxy_bypass

import httpx

from analyst_client.errors import TransportError
from analyst_client.forks import renew_in_forks

_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate: for ways without TLS, which then need no file of certificates."""


class EnvironmentTransport(httpx.BaseTransport):
    """Sends each request by the proxy of the environment, as Python's own library reads ``NO_PROXY``.

    httpx's reading fails on entries such as ``[::1]``. A host of this machine is reached directly: a proxy of the
    environment serves others. A forked process opens connections of its own: those from before are the parent's.
    """

    def __init__(self) -> None:
        self._ways: dict[tuple[str | None, ssl.SSLContext], httpx.HTTPTransport] = {}
        renew_in_forks(self)

    def start_anew(self) -> None:
        """Leave the connections, and the certificates, whose locks another thread may hold."""
        self._ways = {}
        _load_authorities.cache_clear()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        address = find_proxy(request.url)
        is_proxy_tls = address is not None and address.startswith("https:")
        context = find_authorities()[0] if request.url.scheme == "https" or is_proxy_tls else _NOBODY
        if (address, context) not in self._ways:
            proxy = None if address is None else httpx.Proxy(address, ssl_context=context if is_proxy_tls else None)
            self._ways[address, context] = httpx.HTTPTransport(verify=context, proxy=proxy)
        return self._ways[address, context].handle_request(request)

    def close(self) -> None:
        """Close every connection."""
        for way in self._ways.values():
            way.close()


def find_proxy(url: httpx.URL) -> str | None:
    """Return the address of the proxy for a host; None where there is none.

    Raises
    ------
    TransportError
        If what the environment names is not an address of HTTP.
    """
    kind = _find_kind(url)
    if kind is None:
        return None
    address = getproxies()[kind]
    address = address if "://" in address else f"http://{address}"
    try:
        parsed = httpx.URL(address)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme in {"http", "https"} and parsed.host and is_port(parsed.port):
        return address
    fault = "names a SOCKS proxy" if parsed.scheme.startswith("socks") else "is not the address of an HTTP proxy"
    # The address stays out of the message: it may hold a password.
    raise TransportError(
        f"{_variable(kind)} {fault}, so nothing was sent: {url.scheme.upper()}_PROXY=http://proxy.example:3128 names "
        f"one (a password in it is percent-encoded), and NO_PROXY={url.host} reaches {url.host} without one"
    )


def find_variable(url: httpx.URL) -> str | None:
    """Return the variable that names the proxy for a host; None where there is none."""
    kind = _find_kind(url)
    return None if kind is None else _variable(kind)


def find_authorities() -> tuple[ssl.SSLContext, str]:
    """Return the authorities that are trusted, and the source of them: one context for this process.

    Raises
    ------
    TransportError
        If what the environment names cannot be read.
    """
    return _load_authorities(os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))


@functools.cache
def _load_authorities(file: str, folder: str) -> tuple[ssl.SSLContext, str]:
    if file:
        try:
            return ssl.create_default_context(cafile=file), "SSL_CERT_FILE"
        except OSError as error:  # an SSLError is one
            raise _no_certificates("SSL_CERT_FILE", file, "file of certificates in PEM", error.strerror) from None
    if folder:
        if not any(map(os.path.isdir, folder.split(os.pathsep))):  # OpenSSL itself does not look
            raise _no_certificates("SSL_CERT_DIR", folder, "folder", None)
        return ssl.create_default_context(capath=folder), "SSL_CERT_DIR"
    try:
        import truststore  # noqa: PLC0415 -- an extra
    except ImportError:
        return httpx.create_ssl_context(trust_env=False), "the package certifi"
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "the system"


def _no_certificates(variable: str, value: str, expected: str, why: str | None) -> TransportError:
    said = "" if why is None else f" ({why})"
    return TransportError(
        f"{variable} is {value!r}, which is no {expected}{said}, so nothing was sent: correct it, or unset it to trust "
        "the usual authorities"
    )


def _find_kind(url: httpx.URL) -> str | None:
    """Return which of the proxies serves a host, such as "https" or "all"."""
    names = (url.host, f"[{url.host}]", url.netloc.decode("ascii"))
    if is_loopback(url.host) or any(map(proxy_bypass, names)):
        return None
    proxies = getproxies()
    return next((kind for kind in (url.scheme, "all") if proxies.get(kind)), None)


def _variable(kind: str) -> str:
    """Return the name of a proxy's variable as it is spelled; without one, the system's own settings name it."""
    names = [name for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY") if os.environ.get(name)]
    return names[0] if names else "the system's setting of a proxy"


def is_port(port: int | None) -> bool:
    """Return whether a port can be connected to; None is the usual one."""
    return port is None or 0 < port < 1 << 16


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
