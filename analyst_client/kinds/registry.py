"""The kinds of release that this client reads, and the reader of each.

A new kind is a folder here, and a line in `READERS`.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from analyst_client.error_base import ServiceError
from analyst_client.kinds import gram
from analyst_client.kinds.gram.saving import SELECTION
from analyst_client.schema.answers import Answer
from analyst_client.schema.wire import Fields, parse_json

Reader: TypeAlias = Callable[[str, str | None], Answer]
"""Takes the text of an answer, and the header ``Curator-Answer`` where there was one."""


def read_gram(text: str, answered: str | None) -> Answer:
    """Read noisy sufficient statistics, or a saved part of them."""
    from analyst_client.kinds.gram.release import Release  # noqa: PLC0415 -- a check of a file needs no arithmetic

    return Release.from_text(text, answered)


READERS: Mapping[str, Reader] = {gram.KIND: read_gram}
"""How an answer of a curator is read, by its kind."""
SAVED_READERS: Mapping[str, Reader] = {**READERS, SELECTION: read_gram}
"""How a saved file is read: what a curator answered, and what this client cut out of it."""


def read_answer(text: str, answered: str | None = None, *, readers: Mapping[str, Reader] = READERS) -> Answer:
    """Read the text of a release by its kind.

    Parameters
    ----------
    text : str
        Body of the answer.
    answered : str, optional
        The header ``Curator-Answer``.
    readers : mapping of str to callable
        By kind.

    Raises
    ------
    ServiceError
        When the text is no release, or one of a kind that is not among the readers.

    Examples
    --------
    >>> try:
    ...     read_answer('{"kind": "histogram"}')
    ... except ServiceError as error:
    ...     print(error)
    this client reads no release of the kind 'histogram': it knows gram, and a newer version may know more
    """
    kind = Fields(parse_json(text)).text("kind")
    if kind not in readers:
        raise ServiceError(
            f"this client reads no release of the kind {kind!r}: it knows {', '.join(readers)}, and a newer version "
            "may know more"
        )
    return readers[kind](text, answered)
