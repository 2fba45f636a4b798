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
HOLDS_BOTH = "is to hold both, percent-encoded, as http://NAME:PASSWORD@proxy.example:3128"
SYSTEM = "the system"


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
        context = find_authorities()[0] if request.url.scheme == "https" else _NOBODY
        way = find_proxy(request.url), context
        if way not in self._ways:
            self._ways[way] = httpx.HTTPTransport(proxy=way[0], verify=context)
        return self._ways[way].handle_request(request)

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
    fault = (
        "names a SOCKS proxy, and HTTP ones are used here"
        if parsed.scheme.startswith("socks")
        else "is not the address of an HTTP proxy"
    )
    variable = _spell(f"{url.scheme}_proxy")
    # The address stays out of the message: it may hold a password.
    raise TransportError(
        f"{_name(kind)} {fault}, so nothing was sent: {variable}=http://proxy.example:3128 would be one (a password "
        f"in it is percent-encoded); or {say_exception(url.host)}"
    )


def find_variable(url: httpx.URL) -> str | None:
    """Return the variable that names the proxy for a host; None where there is none."""
    kind = _find_kind(url)
    return None if kind is None else _name(kind)


def say_exception(host: str) -> str:
    """Say how a host is reached without a proxy."""
    return f"add {host} to {_spell('no_proxy')} if it is reached without a proxy"


def find_authorities() -> tuple[ssl.SSLContext, str]:
    """Return the authorities that are trusted, one context for this process, and their source."""
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
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT), SYSTEM


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


def _name(kind: str) -> str:
    variable = _spell(f"{kind}_proxy")
    return variable if os.environ.get(variable) else f"the setting of the system, which {variable} replaces"


def _spell(variable: str) -> str:
    """Return a variable as it is spelled here: in small letters it goes first."""
    return variable if os.environ.get(variable) else variable.upper()


def is_port(port: int | None) -> bool:
    """Return whether a port can be connected to; None is the usual one."""
    return port is None or 0 < port < 1 << 16


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
