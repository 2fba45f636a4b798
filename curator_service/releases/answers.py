"""Stored answers as text: divided into their members, which are equal in many of them, and read once for all."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from curator_service.datasets.repository import Dataset
from curator_service.kinds.listing import Listing
from curator_service.kinds.registry import AnyKind
from curator_service.kit.caches import cache_short

_FIRST, _LAST = ("id", "dataset", "kind", "created_at", "request"), ("statistics", "noise", "cost", "derived_from")


class Answer(NamedTuple):
    """A stored answer: the text of each of its members, in the order in which they are written.

    Attributes
    ----------
    opening : str
        Its id, dataset, kind and moment, from the brace on.
    request : str
    declared : str
        What the kind states of columns, without the name of its first member.
    statistics, noise, cost : str
    derived_from : str or None
    """

    opening: str
    request: str
    declared: str
    statistics: str
    noise: str
    cost: str
    derived_from: str | None

    @property
    def summary(self) -> str:
        """Text of the answer in a list of releases."""
        return f'{self.opening},"request":{self.request},"cost":{self.cost}}}'


def divide(text: str, kind: AnyKind) -> Answer:
    """Divide an answer of a kind into its members.

    They make up all of it: whoever compares or reads each has seen the whole.

    A quotation mark within a string of JSON has a backslash before it, so what divides members stands in none. Where
    something else stands in their place, one of them is not what it must be.

    Raises
    ------
    ValueError
        If it does not end as an object.
    """
    opening, _, rest = text.partition(',"request":')
    request, _, rest = rest.partition(f'}},"{kind.declared[0]}":')
    declared, _, rest = rest.partition(',"statistics":')
    statistics, _, rest = rest.partition(',"noise":')
    noise, _, rest = rest.partition(',"cost":')
    cost, mark, source = rest.removesuffix("}").partition(',"derived_from":')
    if not rest.endswith("}"):
        raise ValueError("an answer is an object")
    return Answer(opening, f"{request}}}", declared, statistics, noise, cost, source if mark else None)


def write_again(text: str, kind: AnyKind) -> str:
    """Return an answer as it would be written now: earlier versions wrote numbers otherwise.

    Raises
    ------
    ValueError, KeyError
        If it is no answer: a member stands twice, is missing, or is another one.
    """
    content = json.loads(text, object_pairs_hook=_collect)
    written = {name: content[name] for name in (*_FIRST, *kind.declared, *_LAST) if name in content}
    if not isinstance(content, dict) or written.keys() != content.keys():
        raise ValueError("an answer has other members")
    return to_json(written).decode()


def _collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a member that stands twice: only the last would be looked at."""
    if len(members := dict(pairs)) != len(pairs):
        raise ValueError("a member stands twice")
    return members


@cache_short(maxsize=1024)
def read_member(text: str) -> dict[str, Any]:
    """Read a member that many answers share; nobody changes it.

    Raises
    ------
    ValueError
        If it would be written otherwise now: then a member may stand twice in it.
    """
    content: dict[str, Any] = from_json(text)
    if to_json(content).decode() != text:
        raise ValueError("not written as it would be now")
    return content


@cache_short(maxsize=1024)
def read_noise(text: str) -> tuple[str, dict[str, float]]:
    """Read the noise that an answer states: its distribution and standard deviations; errors as of `read_member`."""
    noise = read_member(text)
    if noise.keys() != {"distribution", "sd"}:
        raise ValueError("noise has other members")
    return noise["distribution"], noise["sd"]


def make_listing(kind: AnyKind, dataset: Dataset, about: Mapping[str, Any]) -> Listing:
    """Return what a release of a kind is, from members that an answer states of itself.

    Parameters
    ----------
    kind : ReleaseKind
    about : mapping
        Request and noise; and of which release it was cut, if it was.

    Raises
    ------
    KeyError, TypeError
        If it is no answer about this dataset; what is wrong further shows when it is read.
    """
    noise, declared = about["noise"], dataset.manifest.by_name
    listing: Listing = kind.listing(
        about["request"], declared, noise["distribution"], noise["sd"], about.get("derived_from")
    )
    return listing


def read_about(answer: str) -> dict[str, Any]:
    """Read an answer without its statistics, which may be half a million numbers.

    A quotation mark within a string of JSON has a backslash before it, so neither text stands within one.
    """
    head, _, rest = answer.partition(',"statistics":{')
    _, mark, tail = rest.rpartition('},"noise":{')
    about: dict[str, Any] = json.loads(f'{head},"noise":{{{tail}' if mark else answer)
    return about
