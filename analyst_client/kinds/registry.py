"""The kinds of release that this client knows. A new one is a folder here, and its line in `_KINDS`."""

from analyst_client.error_base import ServiceError
from analyst_client.kinds.base import Kind
from analyst_client.kinds.counts.kind import COUNTS
from analyst_client.kinds.gram.kind import GRAM
from analyst_client.kinds.marginals.kind import MARGINALS
from analyst_client.kinds.score.kind import SCORE
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields, parse_json

_KINDS: dict[str, Kind] = {kind.name: kind for kind in (GRAM, COUNTS, MARGINALS, SCORE)}


def register(kind: Kind) -> None:
    """Add a kind from outside of this package.

    Raises
    ------
    ValueError
        When its name, or one of its files, is another kind's.
    """
    taken = {name for known in _KINDS.values() for name in (known.name, *known.saved_names)}
    if clash := taken & {kind.name, *kind.saved_names}:
        raise ValueError(f"there is a kind {', '.join(sorted(clash))} already")
    _KINDS[kind.name] = kind


def kinds() -> tuple[str, ...]:
    """Return the names of the kinds."""
    return tuple(_KINDS)


def read_answer(text: str, answered: str | None = None) -> Answer:
    """Read the text of an answer by its kind.

    Parameters
    ----------
    text : str
        Body of the answer.
    answered : str, optional
        The header ``Curator-Answer``.

    Raises
    ------
    ServiceError
        When the text is no release, or one of an unknown kind.

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
    return _kind_of(Fields(parse_json(text)), saved=True).read_saved(text)


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
