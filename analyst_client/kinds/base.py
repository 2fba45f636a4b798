"""A kind of release, by its request: how its answers, quotes and saved files are read."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.wire import Fields

if TYPE_CHECKING:
    from analyst_client.kinds.request import PricedRequest

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


class Kind:
    """A kind of release, by its name on the wire.

    Attributes
    ----------
    name : str
        Member ``kind`` of its requests and answers.
    request : type of PricedRequest
        Its requests, which name the classes of its releases and quotes.
    saved_names : tuple of str
        Member ``kind`` of files that this client cuts out of answers; no curator answers so.
    """

    saved_names: tuple[str, ...] = ()

    def __init__(self, request: "type[PricedRequest[Any, Any]]") -> None:
        self.name, self.request = request.kind, request

    def read_answer(self, text: str, answered: str | None = None) -> Answer:
        """Read the text of an answer, with the header ``Curator-Answer`` where there was one."""
        answer: Answer = self.request.answered.from_text(text, answered)
        return answer

    def read_quote(self, fields: Fields) -> AnyQuote:
        """Read a quote."""
        quote: AnyQuote = self.request.quoted.read(fields)
        return quote

    def find_wholes(self, body: Fields) -> tuple[str, ...]:
        """Return the texts of the answers that a saved file was made of; none for an answer itself."""
        return ()


class OwnKind(Kind):
    """A kind of this package: the class `request` of the module ``request`` in the folder of its name.

    It is imported when a first answer is read: a check of a file needs no numpy.
    """

    def __init__(self, name: str, request: str) -> None:
        self.name, self._request = name, request

    @property
    def request(self) -> "type[PricedRequest[Any, Any]]":  # type: ignore[override]  # which others have from the start
        """The class of its requests."""
        found: type[PricedRequest[Any, Any]] = getattr(
            import_module(f"analyst_client.kinds.{self.name}.request"), self._request
        )
        return found
