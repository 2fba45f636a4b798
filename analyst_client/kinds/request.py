"""Requests of every kind: the rows that count, the cost, the project that pays, and how an answer is arranged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, get_args

from analyst_client.error_base import ServiceError
from analyst_client.kinds.published import PublishedAnswer
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.requests import as_json, price, selection_members
from analyst_client.terms.expression import Expression

A = TypeVar("A", bound=PublishedAnswer)
Q = TypeVar("Q", bound=AnyQuote)


@dataclass(frozen=True, kw_only=True, repr=False)
class PricedRequest(Generic[A, Q]):
    """Options of a request of any kind. A request is checked when it is made.

    A kind derives its requests from ``PricedRequest[its release, its quote]``, with its own members as fields.

    Parameters
    ----------
    where : str or Expression, optional
        Condition on a row, such as ``"sex == 'F' and age >= 60"``. Default all rows count.
    weight : str or Expression, optional
        A number with bounds in [0, 1] by which a row counts. Default 1.
    epsilon, delta, mu, rho : float, optional
        The cost of all that is asked together: `epsilon` with `delta`, or `mu`, or `rho`; with Laplace noise also
        `epsilon` alone.
    mechanism : str, optional
        ``"gaussian"``, the default, or ``"laplace"``.
    fresh : bool
        Draw new noise, and be charged again, even if the same request was answered before.
    project : str, optional
        Label under which the charge is counted.
    reservation : str, optional
        Id of the reservation that is charged.

    Raises
    ------
    ValueError
        When the options contradict each other, or one makes no sense.

    Examples
    --------
    >>> from analyst_client import CountsRequest
    >>> CountsRequest(["sex"], where="age >= 60", epsilon=0.5, delta=1e-6).members["price"]
    {'epsilon': 0.5, 'delta': 1e-06}
    """

    where: str | Expression | None = None
    weight: str | Expression | None = None
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None
    mechanism: str | None = None
    fresh: bool = False
    project: str | None = None
    reservation: str | None = None

    kind: ClassVar[str]
    answered: ClassVar[type[Any]]
    quoted: ClassVar[type[Any]]

    def __init_subclass__(cls) -> None:
        """Take the classes of answers and quotes from the base that is subscripted with them."""
        for base in cls.__dict__.get("__orig_bases__", ()):
            if hasattr(next(iter(get_args(base)), None), "kind"):  # no type variable
                cls.answered, cls.quoted = get_args(base)
                cls.kind = cls.answered.kind

    def __post_init__(self) -> None:
        """Refuse what cannot be sent."""
        self.to_json()

    def __repr__(self) -> str:
        """Show the members that were given, the positional ones first."""
        said = [field for field in fields(self) if getattr(self, field.name) is not field.default]
        said.sort(key=lambda field: bool(field.kw_only))
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in said)
        return f"{type(self).__name__}({shown})"

    @cached_property
    def members(self) -> dict[str, Any]:
        """Members of the body: the options that were set, and nothing else. Sequences are read once."""
        return {"kind": self.kind} | self._asked_members() | self._shared_members() | self._option_members()

    def _asked_members(self) -> dict[str, Any]:
        """Return the members that only this kind has: its positional fields, if it does not say other ones."""
        own = [field.name for field in fields(self) if not field.kw_only]
        return {name: as_member(getattr(self, name)) for name in own}

    def _shared_members(self) -> dict[str, Any]:
        """Return the members that every kind has. Raise `ValueError` when no cost is stated."""
        body = selection_members(self.where, self.weight)
        pure = self.mechanism not in {None, "gaussian"}
        body["price"] = price(self.epsilon, self.delta, self.mu, self.rho, pure=pure)
        return body | self._said("mechanism", "project", "reservation") | ({"fresh": True} if self.fresh else {})

    def _option_members(self) -> dict[str, Any]:
        """Return options of this kind."""
        return {}

    def _said(self, *names: str) -> dict[str, Any]:
        """Return the options of these names that were set."""
        return {name: as_member(getattr(self, name)) for name in names if getattr(self, name) is not None}

    def to_json(self) -> bytes:
        """Return the body of the request."""
        return as_json(self.members)

    def arrange(self, answer: Answer) -> A:
        """Return a release in the order that was asked; raise `ServiceError` when it is of something else."""
        if not isinstance(answer, self.answered):
            raise ServiceError(f"{answer.id} is no release of the kind {self.kind!r}")
        own: A = answer.arranged_as(self)
        return own

    def arrange_quote(self, quote: AnyQuote) -> Q:
        """Return a quote in the order that was asked; raise `ServiceError` when it is of something else."""
        if not isinstance(quote, self.quoted) or quote.kind != self.kind:
            raise ServiceError(f"malformed answer: a quote of the kind {quote.kind!r}, where {self.kind!r} was asked")
        own: Q = quote.arranged_as(self)
        return own


def as_member(value: Any) -> Any:
    """Return a value as on the wire: an expression, a sequence of names or expressions, numbers by name, or itself."""
    if isinstance(value, Expression):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: float(number) for name, number in value.items()}
    return list(map(as_member, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value
