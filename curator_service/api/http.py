"""Middleware of every request: its id, security headers, the body's limit, and the rendering of problems."""

import re
import secrets
import time
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from curator_service.api.observer import Observer, peer_of
from curator_service.kit.db import DATABASE_ERRORS
from curator_service.kit.logs import log_without_data
from curator_service.kit.problems import (
    MEDIA_TYPE,
    BodyMalformed,
    BodyTooLarge,
    InternalError,
    MediaTypeUnsupported,
    MethodNotAllowed,
    NotFound,
    Problem,
    RequestInvalid,
    Unavailable,
    escape_pointer,
)
from curator_service.kit.wire import load_json

_CACHE_CONTROL = b"cache-control"
_POLICY, _REFERRER = b"content-security-policy", b"referrer-policy"
SECURITY_HEADERS = (
    (_CACHE_CONTROL, b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (_REFERRER, b"no-referrer"),
    # /docs has one inline script; its assets come from this server.
    (
        _POLICY,
        b"default-src 'self'; img-src 'self' data:; script-src 'self' 'unsafe-inline'; "
        b"style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    ),
)
_OURS = {name for name, _ in SECURITY_HEADERS} - {_CACHE_CONTROL, _POLICY, _REFERRER}
"""What no route sets otherwise; a page of the dashboard has a stricter policy of its own."""
Body = TypeVar("Body", bound=BaseModel)
# RFC 3986, section 3.2.2, and a port; an `http` address without a host is invalid (RFC 9110, section 4.2.1).
_HOST = re.compile(rb"(\[[\w:.%~-]+\]|([\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+)(:\d*)?")


class _TooLarge(Exception):
    """The body grew past the limit while it was read."""


class NearestProxy:
    """Middleware where every address is believed to be a proxy: who asks is what the nearest one has appended.

    What stands before that in ``X-Forwarded-For`` is the word of whoever asks, who may write any address there.

    Parameters
    ----------
    app : ASGI application
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        stated = [value for name, value in scope.get("headers", ()) if name == b"x-forwarded-for"]
        if stated:
            last = stated[-1].decode("latin-1").rpartition(",")[2].strip()
            host = last[1:].partition("]")[0] if last.startswith("[") else last
            scope["client"] = (host.partition(":")[0] if host.count(":") == 1 else host), 0
        await self.app(scope, receive, send)


class RequestGuard:
    """Outermost middleware: nothing leaves without an id and headers, and no exception's text leaves at all.

    Parameters
    ----------
    app : ASGI application
    body_bytes_max : int
        Largest body, in bytes; refused before it is read where its length is declared.
    observer : Observer, optional
        Is told of every request that is over.
    """

    def __init__(self, app: ASGIApp, body_bytes_max: int, observer: Observer | None = None) -> None:
        self.app = app
        self.body_bytes_max = body_bytes_max
        self.observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        instance = f"req_{secrets.token_hex(8)}"
        scope.setdefault("state", {})["instance"] = instance
        began, status = time.monotonic(), 0

        async def noted_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._serve(scope, receive, noted_send, instance)
        finally:
            if self.observer is not None:
                self.observer.end(scope, status, time.monotonic() - began)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, instance: str) -> None:
        extra = (*SECURITY_HEADERS, (b"x-request-id", instance.encode()))
        started, received = False, 0

        async def guarded_send(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                own = [header for header in message.get("headers", ()) if header[0] not in _OURS]
                stated = {name for name, _ in own}
                message["headers"] = [*own, *(header for header in extra if header[0] not in stated)]
            await send(message)

        async def guarded_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            _check_length(received, self.body_bytes_max)
            return message

        if not _has_host(scope):
            wanting = BodyMalformed("A request has one `Host` header, which names a host: `Host: curator.example`.")
            await render_problem(wanting, scope)(scope, receive, guarded_send)
            return
        try:
            _check_length(_declared_length(scope), self.body_bytes_max)
            await self.app(scope, guarded_receive, guarded_send)
        except ClientDisconnect:
            return  # whoever asked has left in the middle of the request: nothing was begun, and nobody listens
        except Exception as error:
            if started:
                raise ConnectionAbortedError(instance) from None
            if isinstance(error, _TooLarge):
                problem: Problem = BodyTooLarge(f"A body may have at most {self.body_bytes_max} bytes.")
            else:
                log_without_data(instance, error)
                problem = _of_database(error) or InternalError(
                    "The request failed; the log has its id. Nothing was charged unless a "
                    "repeat with the same Idempotency-Key returns an answer."
                )
            await render_problem(problem, scope)(scope, receive, guarded_send)


def _of_database(error: Exception) -> Problem | None:
    if not isinstance(error, DATABASE_ERRORS):
        return None
    return Unavailable(
        "The database is busy, or does not answer. Send the request again with the same Idempotency-Key: what was "
        "charged is answered from storage, and nothing is charged twice."
    )


def _check_length(length: int, limit: int) -> None:
    if length > limit:
        raise _TooLarge


def _has_host(scope: Scope) -> bool:
    """Return whether a request names one host, as RFC 9112, section 3.2, wants it."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if not hosts:
        return bool(scope["http_version"] == "1.0")
    return len(hosts) == 1 and _HOST.fullmatch(hosts[0]) is not None


def _declared_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


def render_problem(problem: Problem, scope: Scope) -> Response:
    """Return a problem as the response to a request, and note which one it is."""
    scope["state"]["problem"] = problem.slug
    body = problem.render(scope["state"]["instance"])
    return Response(body, status_code=int(problem.status), media_type=MEDIA_TYPE, headers=problem.headers)


async def handle_problem(request: Request, error: Exception) -> Response:
    """Render a `Problem` that a route raised."""
    assert isinstance(error, Problem)
    return render_problem(error, request.scope)


async def handle_http_exception(request: Request, error: Exception) -> Response:
    """Render what the framework refuses, echoing nothing of the input."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = _allowed_methods(request, error)
        problem: Problem = MethodNotAllowed(f"This address has the methods {allowed}.", headers={"Allow": allowed})
    elif error.status_code == 404:
        problem = NotFound("There is nothing at this address; /docs lists what there is.")
    else:
        problem = BodyMalformed("The request could not be read.")
    return render_problem(problem, request.scope)


def _allowed_methods(request: Request, error: HTTPException) -> str:
    """Return every method of an address: the framework names those of its first route alone, and of files none."""
    documented = {
        method.upper()
        for template, item in request.app.openapi()["paths"].items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), request.url.path)
        for method in item
    }
    return ", ".join(sorted(documented)) or (error.headers or {}).get("Allow", "GET, HEAD")


class Call:
    """A request as it reaches the worker thread: its headers and its whole body.

    Attributes
    ----------
    notes : dict
        For the log and the counters (`observer.NOTES`).
    """

    def __init__(self, scope: Scope, body: bytes) -> None:
        headers = Headers(scope=scope)
        self.body = body
        self.query = QueryParams(scope["query_string"])
        self.notes: dict[str, Any] = scope["state"]
        self.peer = peer_of(scope)
        self.authorization = headers.get("authorization")
        self.idempotency_key = headers.get("idempotency-key")
        self.checkpoint = headers.get("curator-checkpoint")
        self._held = headers.get("if-none-match", "")
        self.prefers_async = "respond-async" in headers.get("prefer", "").replace(";", ",").replace(" ", "").split(",")
        self.content_type = headers.get("content-type", "")

    def holds(self, etag: str) -> bool:
        """Return whether the caller has the body with this entity tag (RFC 9110, section 13.1.2)."""
        held = (tag.strip().removeprefix("W/") for tag in self._held.split(","))
        return any(tag in {etag, "*"} for tag in held)

    def count(self, name: str, lowest: int, highest: int) -> int:
        """Read a whole number from the query.

        Raises
        ------
        RequestInvalid
        """
        text = self.query.get(name, "")
        if not (text.isascii() and text.isdigit() and len(text) < 20 and lowest <= int(text) <= highest):
            raise RequestInvalid.at(f"?{name}", f"the query's {name} must be a whole number from {lowest} to {highest}")
        return int(text)

    def parse(self, model: type[Body]) -> Body:
        """Read the body as a model.

        Raises
        ------
        MediaTypeUnsupported, BodyMalformed, RequestInvalid
        """
        return parse_json(self.json, model)

    @property
    def json(self) -> bytes:
        """The body, which is said to be JSON.

        Raises
        ------
        MediaTypeUnsupported
        """
        if self.content_type.partition(";")[0].strip().lower() != "application/json":
            raise MediaTypeUnsupported("Send the body as `Content-Type: application/json`.")
        return self.body


def parse_json(text: bytes, model: type[Body]) -> Body:
    """Read JSON as a model.

    Raises
    ------
    BodyMalformed, RequestInvalid
    """
    return read_model(read_json(text), model)


def read_json(text: bytes) -> Any:
    """Read JSON strictly.

    Raises
    ------
    BodyMalformed
    """
    try:
        return load_json(text)
    except ValueError:
        raise BodyMalformed(
            "The body is not JSON, names a member twice, or is nested deeper than any request is."
        ) from None


def read_model(content: Any, model: type[Body]) -> Body:
    """Read what was JSON as a model.

    Raises
    ------
    RequestInvalid
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _invalid(error) from None


_TAGS = {"tree", "flat", "moments"}
"""Of the union of marginals: pydantic's places name them behind the item, and a body has no such member."""


def _invalid(error: ValidationError) -> RequestInvalid:
    places = []
    for item in error.errors(include_url=False, include_input=False, include_context=False)[:20]:
        place = list(item["loc"])
        if place[:1] == ["marginals"] and place[2:3] and place[2] in _TAGS:
            del place[2]
        pointer = "".join(f"/{escape_pointer(part)}" for part in place)
        # pydantic repeats a wrong tag at any length
        message = item["msg"].removeprefix("Value error, ")[:300]
        places.append({"pointer": pointer, "detail": message})
    first = places[0]
    return RequestInvalid(f"{first['pointer'] or 'the body'}: {first['detail']}", errors=places)


def json_response(content: Any, status: int = 200) -> Response:
    """Return compact JSON."""
    return Response(to_json(content), status_code=status, media_type="application/json")
