"""Documents of identity providers, over https, within bounds of size and time."""

import asyncio
import functools
import ipaddress
import json
import logging
import ssl
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.request import getproxies, proxy_bypass

import httpx

log = logging.getLogger("curator_service")

BYTES_MAX = 256 * 1024
WAIT_S, WHOLE_S = 5.0, 10.0


class Fetch(Protocol):
    """A function that asks a provider for a JSON object."""

    def __call__(self, url: str, authorization: str = "", form: Mapping[str, str] | None = None, /) -> Any:
        """Return the object at an address: with an ``Authorization`` header unless empty, and a form if posted."""


class ProviderUnreachable(RuntimeError):
    """An identity provider does not answer, or not with what it should; the message says how, without what it said."""


def is_secure(url: str) -> bool:
    """Return True if an address is of https, or of this machine: else anybody in between could sign people in."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return False
    if not parsed.host or (parsed.port is not None and not 0 < parsed.port < 1 << 16):
        return False
    return parsed.scheme == "https" or (parsed.scheme == "http" and is_loopback(parsed.host))


def is_of_this_machine(url: str) -> bool:
    """Return whether a secure address is one of this machine."""
    return is_loopback(httpx.URL(url).host)


def find_proxy(url: str) -> httpx.Proxy | None:
    """Return the proxy that the environment has for a secure address: for one of this machine none.

    The library's own reading of ``NO_PROXY`` fails on entries such as ``[::1]``.

    Raises
    ------
    ProviderUnreachable
        If it is not an address.
    """
    parsed = httpx.URL(url)
    if is_loopback(parsed.host) or proxy_bypass(parsed.host) or proxy_bypass(f"[{parsed.host}]"):
        return None
    proxies = getproxies()
    kind = next((kind for kind in (parsed.scheme, "all") if proxies.get(kind)), None)
    if kind is None:
        return None
    address = proxies[kind]
    try:
        proxy = httpx.Proxy(address if "://" in address else f"http://{address}")
    except (httpx.InvalidURL, ValueError):
        proxy = None
    if proxy is None or proxy.url.scheme not in {"http", "https"} or not proxy.url.host:
        raise ProviderUnreachable(f"{kind.upper()}_PROXY is not the address of an HTTP proxy")
    return proxy


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return the authorities that are trusted: those of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, where set."""
    return httpx.create_ssl_context()


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fetch(url: str, authorization: str = "", form: Mapping[str, str] | None = None, /) -> Any:
    """Return the JSON object at an address; no redirect is followed, and certificates are checked.

    Parameters
    ----------
    authorization : str
        The header of that name; none if empty.
    form : mapping of str to str, optional
        Posted there; without one the address is read.

    Raises
    ------
    ProviderUnreachable
    """
    if not is_secure(url):
        raise ProviderUnreachable("an address is neither of https nor of this machine")
    try:
        # One end for all of it: a time-out of the library's is of one read, and a head may come byte by byte.
        content = asyncio.run(asyncio.wait_for(_fetch(url, authorization, form), WHOLE_S))
        found = json.loads(content)
    except TimeoutError:
        raise ProviderUnreachable(f"{httpx.URL(url).host} takes more than {WHOLE_S:.0f} s") from None
    except (httpx.HTTPError, OSError, ValueError, RecursionError) as error:
        raise ProviderUnreachable(f"{httpx.URL(url).host}: {type(error).__name__}") from None
    if not isinstance(found, dict):
        raise ProviderUnreachable(f"{httpx.URL(url).host} sends something else than an object")
    return found


async def _fetch(url: str, authorization: str, form: Mapping[str, str] | None) -> bytes:
    # Packed, a few bytes could become many before they are counted.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    headers |= {"Authorization": authorization} if authorization else {}
    method = "GET" if form is None else "POST"
    async with (
        httpx.AsyncClient(timeout=WAIT_S, trust_env=False, verify=_certificates(), proxy=find_proxy(url)) as client,
        client.stream(method, url, headers=headers, data=form) as answer,
    ):
        if answer.status_code != 200:
            raise ProviderUnreachable(f"{answer.url.host} answered with status {answer.status_code}")
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise ProviderUnreachable(f"{answer.url.host} sends a packed document, which was not asked for")
        content = b""
        async for part in answer.aiter_raw():
            content += part
            if len(content) > BYTES_MAX:
                raise ProviderUnreachable(f"{answer.url.host} sends more than a document")
    return content
