"""RFC 9457 problems: a refusal is a `Problem`, raised where the rule lives and rendered in one place."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """A refusal that a caller can act on.

    Parameters
    ----------
    detail : str
        What rule was broken, what was asked and what would have worked. Public numbers and the caller's own words
        only: nothing that depends on a row.
    headers : mapping of str to str, optional
        Of this refusal, beside those of its class.
    **members
        Extension members of the problem object.
    """

    slug: ClassVar[str]
    status: ClassVar[HTTPStatus]
    title: ClassVar[str]
    default_headers: ClassVar[dict[str, str]] = {}

    def __init__(self, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = self.default_headers | dict(headers or {})
        self.members = members

    def render(self, instance: str) -> bytes:
        """Return the problem object as JSON."""
        body = {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": int(self.status),
            "detail": self.detail,
            "instance": instance,
            **self.members,
        }
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "A problem (RFC 9457): what was asked, which rule refuses it, and what would have worked",
        "content": _PROBLEM,
    },
    "5XX": {
        "description": "A problem: something broke, or the service cannot answer now, or is sealed",
        "content": _PROBLEM,
    },
}
"""What every route of the interface may answer beside success, for the OpenAPI document."""


class BodyMalformed(Problem):
    """The body is not JSON, or the request is not HTTP."""

    slug = "body-malformed"
    status = HTTPStatus.BAD_REQUEST
    title = "The request cannot be read"


class NotFound(Problem):
    """No such route or object."""

    slug = "not-found"
    status = HTTPStatus.NOT_FOUND
    title = "Not found"


class MethodNotAllowed(Problem):
    """The route has other methods."""

    slug = "method-not-allowed"
    status = HTTPStatus.METHOD_NOT_ALLOWED
    title = "Method not allowed"


class BodyTooLarge(Problem):
    """The body is larger than the server reads."""

    slug = "body-too-large"
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    title = "The body is too large"


class HeadTooLarge(Problem):
    """The request line and the headers are larger than the server reads."""

    slug = "head-too-large"
    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    title = "The headers are too large"


class RequestTimeout(Problem):
    """The request was not sent in time."""

    slug = "request-timeout"
    status = HTTPStatus.REQUEST_TIMEOUT
    title = "The request was not sent in time"


class MediaTypeUnsupported(Problem):
    """The body is not declared as JSON."""

    slug = "media-type-unsupported"
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    title = "The body must be application/json"


class RequestInvalid(Problem):
    """The request is JSON, but not one that can be answered; ``errors`` has JSON pointers."""

    slug = "request-invalid"
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    title = "The request is not valid"

    @classmethod
    def at(cls, pointer: str, detail: str) -> "RequestInvalid":
        """Return the problem for one place of the body."""
        return cls(detail, errors=[{"pointer": pointer, "detail": detail}])


def escape_pointer(part: int | str) -> str:
    """Return a part of a JSON pointer, at most 100 characters of it, as text that UTF-8 can hold."""
    text = str(part)[:100].encode(errors="backslashreplace").decode()
    return text.replace("~", "~0").replace("/", "~1")


class TooManyRequests(Problem):
    """Too many requests, now or lately: refused before anything is charged, reserved, or tied to a key.

    Parameters
    ----------
    retry_after_s : int
        When to ask again, in seconds.
    """

    slug = "too-many-requests"
    status = HTTPStatus.TOO_MANY_REQUESTS
    title = "Too many requests"

    def __init__(self, detail: str, *, retry_after_s: int) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_s)})
        self.retry_after_s = retry_after_s


class Unavailable(Problem):
    """Something that the service needs does not answer, or is busy; the same request may be sent again."""

    slug = "busy"
    status = HTTPStatus.SERVICE_UNAVAILABLE
    title = "The service cannot answer now"
    default_headers: ClassVar = {"Retry-After": "1"}


class InternalError(Problem):
    """Something broke; the log has the request's id and no data."""

    slug = "internal-error"
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    title = "Internal error"
