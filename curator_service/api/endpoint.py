"""The endpoint of every route: a route exists only through an action, so default deny cannot be forgotten."""

import inspect
from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from curator_service.api.context import RequestContext, Services
from curator_service.api.http import Call
from curator_service.identity.policy import PUBLIC, Action, Objects
from curator_service.identity.service import ANONYMOUS


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
                context = RequestContext(services, caller, objects, call)
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
