"""The door of every route: a route exists only through an action, so default deny cannot be forgotten."""

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from curator_service.curator import Curator
from curator_service.datasets.manifest import NAME_PATTERN
from curator_service.datasets.repository import Dataset
from curator_service.datasets.service import DatasetNotFound
from curator_service.http import Call
from curator_service.identity.policy import Action, Objects
from curator_service.identity.repository import Principal

_NAME = re.compile(NAME_PATTERN)


@dataclass(frozen=True, slots=True)
class Visit:
    """An authenticated call with permission for one action."""

    curator: Curator
    call: Call
    principal: Principal
    objects: Objects

    def dataset(self, name: str) -> Dataset:
        """Return a dataset that the principal may see.

        Raises
        ------
        DatasetNotFound
        """
        if not _NAME.fullmatch(name):
            raise DatasetNotFound("There is no dataset of this name among those that you were granted.")
        return self.curator.datasets.get_visible(self.principal, self.objects, name)


def door(action: Action) -> Callable[[Callable[..., Response]], Callable[..., Awaitable[Response]]]:
    """Turn a function of a `Visit` and the route's parameters into an endpoint.

    The event loop reads the body; one worker thread authenticates, authorises and answers, in this order.

    Parameters
    ----------
    action : Action
        What the caller must be allowed to do.
    """

    def decorate(function: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
        signature = inspect.signature(function)

        def answer(call: Call, curator: Curator, parameters: dict[str, object]) -> Response:
            principal = curator.identity.authenticate(call.authorization)
            visit = Visit(curator, call, principal, curator.identity.authorize(principal, action))
            return function(visit, **parameters)

        async def endpoint(request: Request, **parameters: object) -> Response:
            call = Call(request.headers, await request.body())
            return await run_in_threadpool(answer, call, request.app.state.curator, parameters)

        # What FastAPI reads: the request in place of the visit, then the route's own parameters.
        _, *own = signature.parameters.values()
        place = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Request)
        endpoint.__signature__ = signature.replace(parameters=[place, *own])  # type: ignore[attr-defined]
        endpoint.__name__, endpoint.__doc__ = function.__name__, function.__doc__
        endpoint.action = action  # type: ignore[attr-defined]
        return endpoint

    return decorate
