"""Settings that a server must not start with: secrets that everybody knows, debugging, and tokens in the clear."""

import os
import sys
from collections.abc import Iterator
from ipaddress import ip_address

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from curator_service.settings import Settings

EXAMPLES = frozenset(
    {
        *("admin", "changeit", "changeme", "change-me", "curator", "curator_app", "default", "example", "hunter2"),
        *("letmein", "owner", "pass", "passw0rd", "password", "postgres", "replace-me", "root", "secret", "service"),
        *("test", "123456", "12345678", "…", "..."),
    }
)
"""Passwords of pages, images and compose files."""


def find_exposures(settings: Settings, host: str) -> list[str]:
    """Say why a server must not be started as it is set up.

    Parameters
    ----------
    host : str
        The address that it would listen on.

    Returns
    -------
    list of str
        A sentence each, which says what to do; empty where nothing is wrong. None holds a secret.
    """
    return [*_known_secrets(settings), *_debugging(), *_plain_http(settings, host)]


def _known_secrets(settings: Settings) -> Iterator[str]:
    urls = {"the database": settings.url} | {
        f"the source {name!r}": url.get_secret_value() for name, url in settings.sources.items()
    }
    for what, url in urls.items():
        try:
            address = make_url(url)
        except ArgumentError:
            continue  # whoever opens it says so
        if address.password is None:
            continue  # by a file of libpq, or by the user of the process
        password = str(address.password).strip()
        if not password:
            yield f"the password of {what} is empty: leave it out, or set one"
        elif password.lower() in EXAMPLES or password == address.username or password.strip("<>") != password:
            yield f"the password of {what} is one of an example: make another one, as with `openssl rand -hex 32`"


def _debugging() -> Iterator[str]:
    if sys.flags.dev_mode or os.environ.get("PYTHONASYNCIODEBUG"):
        yield "Python's development mode shows objects in warnings: unset PYTHONDEVMODE and PYTHONASYNCIODEBUG"
    if not __debug__:
        yield "python -O leaves out checks of the server's own invariants: start it without, and without PYTHONOPTIMIZE"


def _plain_http(settings: Settings, host: str) -> Iterator[str]:
    if settings.proxy is None and not is_loopback(host):
        yield (
            f"it would listen on {host} in plain HTTP, and tokens travel in the header: put a TLS proxy in front and "
            "declare its address, CURATOR_PROXY=10.0.0.5, or listen on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
