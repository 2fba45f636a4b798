"""A kind of release: how its answers, quotes and saved files are read, and what its requests are."""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, Protocol, TypeVar, runtime_checkable

from analyst_client.error_base import ServiceError
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields

Answered_co = TypeVar("Answered_co", bound=Answer, covariant=True)
Quoted_co = TypeVar("Quoted_co", bound=AnyQuote, covariant=True)


@runtime_checkable
class Request(Protocol[Answered_co, Quoted_co]):
    """A request of some kind, checked when it was made: whoever sends it needs to know no more of the kind."""

    @property
    def kind(self) -> str:
        """Name of the kind."""

    @property
    def members(self) -> dict[str, Any]:
        """Members of the body: the options that were set, and nothing else."""

    def to_json(self) -> bytes:
        """Return the body of the request."""

    def arrange(self, answer: Answer) -> Answered_co:
        """Return an answer in the order that was asked; raise `ServiceError` when it is of something else."""

    def arrange_quote(self, quote: AnyQuote) -> Quoted_co:
        """Return a quote in the order that was asked; raise `ServiceError` when it is of something else."""


class Kind(ABC):
    """A kind of release, by its name on the wire.

    Attributes
    ----------
    name : str
        Member ``kind`` of its requests and answers.
    saved_names : tuple of str
        The same of files that this client cuts out of answers; no curator answers so.
    """

    name: str
    saved_names: tuple[str, ...] = ()

    @abstractmethod
    def read_answer(self, text: str, answered: str | None = None) -> Answer:
        """Read the text of an answer, with the header ``Curator-Answer`` where there was one."""

    @abstractmethod
    def read_quote(self, fields: Fields) -> AnyQuote:
        """Read a quote."""

    def read_saved(self, text: str) -> Answer:
        """Read the text of a saved file."""
        return self.read_answer(text)

    def find_wholes(self, body: Fields) -> tuple[str, ...]:
        """Return the texts of the answers that a saved file was made of; none for an answer itself."""
        return ()


class OwnKind(Kind):
    """A kind of this package. Its classes are imported when a first answer is read: a check of a file needs no numpy.

    Parameters
    ----------
    name : str
        Name of the kind, and of its folder.
    release, quote : str
        Names of the classes in its modules ``release`` and ``quote``.
    """

    def __init__(self, name: str, release: str, quote: str) -> None:
        self.name, self._release, self._quote = name, release, quote

    def read_answer(self, text: str, answered: str | None = None) -> Answer:
        """Read a release."""
        answer: Answer = self._import("release", self._release).from_text(text, answered)
        return answer

    def read_quote(self, fields: Fields) -> AnyQuote:
        """Read its cost and noise."""
        quote: AnyQuote = self._import("quote", self._quote).read(fields)
        return quote

    def _import(self, module: str, name: str) -> Any:
        return getattr(import_module(f"analyst_client.kinds.{self.name}.{module}"), name)


_Own = TypeVar("_Own")


def own_answer(answer: Answer, of: type[_Own], kind: str) -> _Own:
    """Return an answer as the release of a kind that it has to be; raise `ServiceError` when it is another's."""
    if not isinstance(answer, of):
        raise ServiceError(f"{answer.id} is no release of the kind {kind!r}")
    return answer


def own_quote(quote: AnyQuote, of: type[_Own], kind: str) -> _Own:
    """Return a quote as that of a kind that it has to be; raise `ServiceError` when it is another's."""
    if not isinstance(quote, of):
        raise ServiceError(f"malformed answer: a quote of the kind {quote.kind!r}, where {kind!r} was asked")
    return quote
