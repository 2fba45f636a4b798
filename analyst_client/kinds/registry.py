"""The kinds of release that this client knows. A new one is a folder here, and its line in `_KINDS`."""

from typing import Any

from analyst_client.error_base import ServiceError
from analyst_client.kinds.base import Kind, OwnKind
from analyst_client.kinds.counts import KIND as COUNTS
from analyst_client.kinds.gram.kind import GRAM
from analyst_client.kinds.marginals import KIND as MARGINALS
from analyst_client.kinds.request import PricedRequest
from analyst_client.kinds.score import KIND as SCORE
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields, parse_json

_KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        GRAM,
        OwnKind(COUNTS, "CountsRequest"),
        OwnKind(MARGINALS, "MarginalsRequest"),
        OwnKind(SCORE, "ScoreRequest"),
    )
}


def register(kind: type[PricedRequest[Any, Any]] | Kind) -> None:
    """Add a kind from outside of this package: the class of its requests, or a `Kind` that has files of its own.

    Raises
    ------
    ValueError
        When its name, or one of its files, is another kind's.
    """
    added = kind if isinstance(kind, Kind) else Kind(kind)
    taken = {name for known in _KINDS.values() for name in (known.name, *known.saved_names)}
    if clash := taken & {added.name, *added.saved_names}:
        raise ValueError(f"there is a kind {', '.join(sorted(clash))} already")
    _KINDS[added.name] = added


def kinds() -> tuple[str, ...]:
    """Return the names of the kinds."""
    return tuple(_KINDS)


def read_answer(text: str, answered: str | None = None) -> Answer:
    """Read the text of an answer by its kind; `answered` is the header ``Curator-Answer``.

    Raise `ServiceError` when the text is no release, or one of an unknown kind.

    Examples
    --------
    >>> try:
    ...     read_answer('{"kind": "synopsis"}')
    ... except ServiceError as error:
    ...     print(str(error).partition(":")[0])
    this client reads no release of the kind 'synopsis'
    """
    return _kind_of(Fields(parse_json(text))).read_answer(text, answered)


def read_quote(fields: Fields) -> AnyQuote:
    """Read a quote by its kind. Raise `ServiceError` on an unknown one."""
    return _kind_of(fields).read_quote(fields)


def read_saved(text: str) -> Answer:
    """Read a saved file: what a curator answered, or what this client cut out of it."""
    return _kind_of(Fields(parse_json(text)), saved=True).read_answer(text)


def find_wholes(body: Fields) -> tuple[str, ...]:
    """Return the texts of the answers that a saved file was made of; none for an answer itself, or any other text."""
    return next((wholes for kind in _KINDS.values() if (wholes := kind.find_wholes(body))), ())


def _kind_of(body: Fields, *, saved: bool = False) -> Kind:
    name = body.text("kind")
    for kind in _KINDS.values():
        if name == kind.name or (saved and name in kind.saved_names):
            return kind
    raise ServiceError(
        f"this client reads no release of the kind {name!r}: it knows {', '.join(_KINDS)}, and a newer version "
        "may know more"
    )
