"""How acts of administration are sent: one request each, to one curator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from analyst_client.admin.listing import Listing
from analyst_client.http.session import path_segment, read_text
from analyst_client.http.transport import Transport
from analyst_client.schema.requests import as_json
from analyst_client.schema.wire import Fields, parse_json

T = TypeVar("T")


class Identified(Protocol):
    """Something with an id."""

    @property
    def id(self) -> str:
        """Its id."""


Named = str | Identified
"""A name or an id, or what has one."""


@dataclass(frozen=True)
class Command:
    """A command of `curator-admin`.

    Attributes
    ----------
    method : str
        The method of `CuratorAdmin` that it calls.
    positional : tuple of str
        Parameters that are given by their place; the others are options.
    options : mapping of str to str
        Options that are not named as their parameters.
    consequence : str
        What cannot be undone, to be confirmed; empty where all can.
    """

    method: str
    positional: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    consequence: str = ""


class Sender:
    """Sends acts to a curator.

    Parameters
    ----------
    transport : Transport
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _get(self, path: str, **params: str) -> Fields:
        return Fields(parse_json(read_text(self._transport.request("GET", path, params=params or None))))

    def _list(self, title: str, path: str, member: str, read: Callable[[Fields], T], **params: str) -> Listing[T]:
        return Listing(title, self._get(path, **params).each(member, read))

    def _post(self, path: str, body: Mapping[str, Any], key: str | None = None) -> Fields:
        answer = self._transport.request("POST", path, content=as_json(dict(body)), idempotency_key=key, charges=False)
        return Fields(parse_json(read_text(answer)))


def segment(named: Named) -> str:
    """Return a name or an id as a part of an address."""
    return path_segment(named if isinstance(named, str) else named.id)
