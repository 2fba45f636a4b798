"""The endpoint of every route: a route exists only through an action, so default deny cannot be forgotten."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from curator_service.api.http import Call
from curator_service.identity.policy import PUBLIC, Action, Objects
from curator_service.identity.repository import Principal
from curator_service.identity.service import ANONYMOUS, Caller, IdentityService
from curator_service.kit.db import Database
from curator_service.kit.idempotency import check_key
from curator_service.kit.limiter import ConcurrencyLimiter, FailureLimiter, RateLimiter

PAGE_DEFAULT, PAGE_MAX = 100, 1000
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
    """An authenticated call with permission for one action."""

    services: Services
    call: Call
    caller: Caller
    objects: Objects

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
        sent = self.call.idempotency_key
        return None if sent is None else check_key(sent)

    def page(self) -> tuple[int, int]:
        """Return the sequence to start after and the number of items to show.

        Raises
        ------
        RequestInvalid
        """
        return self.call.count("after", 0, 0, 2**62), self.call.count("limit", PAGE_DEFAULT, 1, PAGE_MAX)


def page_parameters(of_what: str) -> dict[str, Any]:
    """Describe the parameters that `RequestContext.page` reads, for the OpenAPI document."""
    after = {"type": "integer", "minimum": 0, "default": 0}
    limit = {"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": PAGE_DEFAULT}
    return {
        "parameters": [
            {"name": "after", "in": "query", "schema": after, "description": f"Show {of_what} after this sequence."},
            {"name": "limit", "in": "query", "schema": limit, "description": f"How many {of_what} to show."},
        ]
    }


KEY_PARAMETER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"},
    "description": "New for each request, the same for each retry of it.",
}
RETRY_KEY = {"parameters": [KEY_PARAMETER | {"required": False}]}
"""Of what may be asked with a key, so that a retry after a lost answer does not ask twice."""


def request_body(model: str, example: dict[str, Any]) -> dict[str, Any]:
    """Describe a body that the route itself parses, for the OpenAPI document."""
    content = {"schema": {"$ref": f"#/components/schemas/{model}"}, "example": example}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def endpoint(action: Action) -> Callable[[Callable[..., Response]], Callable[..., Awaitable[Response]]]:
    """Turn a function of a `RequestContext` and the route's parameters into an endpoint.

    The event loop reads the body; one worker thread authenticates, authorises and answers, in this order.

    Parameters
    ----------
    action : Action
        What the caller must be allowed to do.
    """

    def decorate(function: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        signature = inspect.signature(function)

        def answer(call: Call, services: Services, parameters: dict[str, object]) -> Response:
            with services.database.shared_read():
                if action in PUBLIC:
                    caller, objects = ANONYMOUS, Objects.ALL
                else:
                    with services.failures.watch(call.peer, call.authorization):
                        caller = services.identity.identify(call.authorization)
                    call.notes["principal"] = caller.principal.id
                    services.rate.take(caller.principal.id)
                    objects = services.identity.authorize(caller.principal, action)
                context = RequestContext(services, call, caller, objects)
                with services.requests.place(caller.principal.id):
                    return function(context, **parameters)

        async def endpoint(request: Request, **parameters: object) -> Response:
            call = Call(request.scope, await request.body())
            return await run_in_threadpool(answer, call, request.app.state.curator, parameters)

        # The signature that FastAPI reads: the request in place of the context, then the route's own parameters.
        _, *own = signature.parameters.values()
        place = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Request)
        endpoint.__signature__ = signature.replace(parameters=[place, *own])  # type: ignore[attr-defined]
        endpoint.__name__, endpoint.__doc__ = function.__name__, function.__doc__
        endpoint.action = action  # type: ignore[attr-defined]
        return endpoint

    return decorate
