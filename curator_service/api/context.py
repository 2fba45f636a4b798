"""Context of an act: the services, and the caller."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from curator_service.identity.policy import Objects
from curator_service.identity.repository import Principal
from curator_service.identity.service import Caller, IdentityService
from curator_service.kit.db import Database
from curator_service.kit.idempotency import check_key
from curator_service.kit.limiter import ConcurrencyLimiter, FailureLimiter, RateLimiter

if TYPE_CHECKING:  # commands at the machine load no server
    from curator_service.api.http import Call

S = TypeVar("S")


class Services(Protocol):
    """The services of one curator that routes need; the services know nothing of routes."""

    @property
    def database(self) -> Database:
        """The database."""

    @property
    def identity(self) -> IdentityService:
        """The service of principals and their rights."""

    @property
    def requests(self) -> ConcurrencyLimiter:
        """The limit of requests at the same time."""

    @property
    def rate(self) -> RateLimiter:
        """The limit of requests of a principal."""

    @property
    def pages(self) -> RateLimiter:
        """The limit of pages for a principal."""

    @property
    def failures(self) -> FailureLimiter:
        """The limit of failed tokens from an address."""

    def get(self, service: type[S], /) -> S:
        """Return the service of a class."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """An authenticated call with permission for one action, or somebody at the curator's machine.

    Attributes
    ----------
    services : Services
    caller : Caller
    objects : Objects
    sent : Call or None
        What was sent to a route; None where the act came from a page, or is a command on the machine.
    is_at_host : bool
        Whether the operator does it, in a command on the machine; not so of the holder of a token there.
    """

    services: Services
    caller: Caller
    objects: Objects
    sent: "Call | None" = None
    is_at_host: bool = False

    @property
    def call(self) -> "Call":
        """Request sent to the route."""
        assert self.sent is not None
        return self.sent

    @property
    def principal(self) -> Principal:
        """The caller."""
        return self.caller.principal

    def get(self, service: type[S]) -> S:
        """Return the service of a class."""
        return self.services.get(service)

    @property
    def retry_key(self) -> str | None:
        """The idempotency key of a request that may have one; None where it has none.

        Raises
        ------
        IdempotencyKeyMissing
            If it is malformed.
        """
        key = None if self.sent is None else self.sent.idempotency_key
        return None if key is None else check_key(key)
