"""Documents of identity providers, over https, within bounds of size and time."""

import ipaddress
import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

import httpx

log = logging.getLogger("curator_service")

BYTES_MAX = 256 * 1024
WAIT_S, WHOLE_S = 5.0, 10.0


class Fetch(Protocol):
    """What asks a provider for a JSON object."""

    def __call__(self, url: str, authorization: str = "", form: Mapping[str, str] | None = None, /) -> Any:
        """Return the object at an address: with an ``Authorization`` header unless empty, and a form if posted."""


class ProviderUnreachable(RuntimeError):
    """An identity provider does not answer, or not with what it should; the message says how, without what it said."""


def is_secure(url: str) -> bool:
    """Tell whether an address is of https, or of this machine: whoever is in between would decide who signs in."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return bool(parsed.host) and (parsed.scheme == "https" or (parsed.scheme == "http" and is_loopback(parsed.host)))


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fetch(url: str, authorization: str = "", form: Mapping[str, str] | None = None, /) -> Any:
    """Return the JSON object at an address; no redirect is followed, and certificates are checked.

    Parameters
    ----------
    url : str
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
    end = time.monotonic() + WHOLE_S
    headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})
    try:
        with (
            httpx.Client(timeout=WAIT_S, trust_env=not is_loopback(httpx.URL(url).host)) as client,
            client.stream("GET" if form is None else "POST", url, headers=headers, data=form) as answer,
        ):
            if answer.status_code != 200:
                raise ProviderUnreachable(f"{answer.url.host} answered with status {answer.status_code}")
            content = b""
            for part in answer.iter_bytes():
                content += part
                if len(content) > BYTES_MAX or time.monotonic() > end:
                    raise ProviderUnreachable(f"{answer.url.host} sends more than a document, or too slowly")
        found = json.loads(content)
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        raise ProviderUnreachable(f"{httpx.URL(url).host}: {type(error).__name__}") from None
    if not isinstance(found, dict):
        raise ProviderUnreachable(f"{httpx.URL(url).host} sends something else than an object")
    return found
