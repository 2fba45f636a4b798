"""The way to a host: by the proxy that the environment names for it, or straight."""

import ipaddress
from urllib.request import getproxies, proxy_bypass

import httpx


class EnvironmentTransport(httpx.BaseTransport):
    """Sends each request by the proxy of the environment, as Python's own library reads ``NO_PROXY``.

    httpx's reading fails on entries such as ``[::1]``. A host of this machine is reached directly: a proxy of the
    environment serves others.
    """

    def __init__(self) -> None:
        self._ways: dict[str | None, httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        address = find_proxy(request.url)
        if address not in self._ways:
            self._ways[address] = httpx.HTTPTransport(proxy=address)
        return self._ways[address].handle_request(request)

    def close(self) -> None:
        """Close every connection."""
        for way in self._ways.values():
            way.close()


def find_proxy(url: httpx.URL) -> str | None:
    """Return the address of the proxy for a host; None where there is none.

    Raises
    ------
    httpx.ProxyError
        If what the environment names is not an address of HTTP.
    """
    if is_loopback(url.host) or proxy_bypass(url.host) or proxy_bypass(f"[{url.host}]"):
        return None
    proxies = getproxies()
    kind = next((kind for kind in (url.scheme, "all") if proxies.get(kind)), None)
    if kind is None:
        return None
    address = proxies[kind] if "://" in proxies[kind] else f"http://{proxies[kind]}"
    try:
        parsed = httpx.URL(address)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise httpx.ProxyError(f"{kind.upper()}_PROXY is not the address of an HTTP proxy")
    return address


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
