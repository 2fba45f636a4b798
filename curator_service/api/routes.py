"""Routes of acts, and their part of the OpenAPI document."""

import inspect
import typing
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from fastapi.responses import JSONResponse

from curator_service.api.acts import Act, Acts
from curator_service.api.context import RequestContext
from curator_service.api.endpoint import endpoint
from curator_service.api.http import json_response
from curator_service.identity.policy import PUBLIC, Role, roles_for
from curator_service.kit.problems import PROBLEM_RESPONSES

KEY_PARAMETER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"},
    "description": "New for each request, the same for each retry of it.",
}


def add_routes(router: APIRouter, acts: Acts) -> None:
    """Add a route for each act that has one."""
    for act in acts:
        if act.path:
            _add_route(router, acts.tag, act)


def _respond(act: Act, answer: Any) -> Response:
    """Return an answer as the response to a request."""
    if isinstance(answer, Response):
        return answer
    return json_response(answer, 202 if act.waits and answer.state == "open" else act.status)


def _add_route(router: APIRouter, tag: str, act: Act) -> None:
    """Add its route, with its part of the OpenAPI document."""
    assert act.action is not None

    def handle(context: RequestContext, **path: str) -> Response:
        return _respond(act, act(context, **path, **act.read(context.call)))

    # The signature that FastAPI reads: the context, then what stands in the path.
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    of_path = [
        inspect.Parameter(one.name, kind, annotation=Annotated[str, Path(description=one.field.description)])
        for one in act.parameters
        if one.place == "path"
    ]
    handle.__signature__ = inspect.Signature([inspect.Parameter("context", kind), *of_path])  # type: ignore[attr-defined]
    handle.__name__, handle.__doc__ = act.name, act.do.__doc__
    served = endpoint(act.action)(handle)
    router.add_api_route(
        act.path,
        served if act.wrap is None else act.wrap(served),
        methods=[act.method],
        tags=[tag],
        summary=act.line + _describe_roles(act),
        operation_id=act.name,
        status_code=act.status,
        response_class=Response if "content" in act.responses.get(200, {}) else JSONResponse,
        responses=PROBLEM_RESPONSES | _describe_answers(act),
        openapi_extra=_describe_request(act),
    )


def _describe_roles(act: Act) -> str:
    """Name the roles that may do it, where it is no analyst's work."""
    roles = [] if act.action is None else roles_for(act.action)
    return "" if Role.ANALYST in roles else f" ({', '.join(role.value.replace('_', ' ') for role in roles)})"


def _describe_answers(act: Act) -> dict[int | str, dict[str, Any]]:
    model = _model_of(act)
    waiting: dict[int | str, Any] = {202: {"model": model, "description": act.waits}} if act.waits else {}
    return dict(act.responses) or {act.status: {"model": model}, **waiting}


def _describe_request(act: Act) -> dict[str, Any]:
    headers = [*([] if act.key is None else [KEY_PARAMETER | {"required": act.key.value}]), *act.headers]
    described = [*(one.describe() for one in act.parameters if one.place == "query"), *headers]
    more: dict[str, Any] = {"parameters": described} if described else {}
    if asks := act.body or act.asks:
        name = asks if isinstance(asks, str) else asks.__name__
        schema = {"schema": {"$ref": f"#/components/schemas/{name}"}}
        content = {"application/json": schema | ({} if act.example is None else {"example": act.example})}
        more["requestBody"] = {
            "required": act.body is None or any(one.is_needed for one in act.of_body),
            "content": content,
        }
    if act.action in PUBLIC:
        more["security"] = []
    if act.words:
        more["x-act"] = _describe_command(act)
    return more


def _describe_command(act: Act) -> dict[str, Any]:
    """Describe the command from afar, for the client's table of acts."""
    model = _model_of(act)
    about = {
        "command": act.words,
        "consequence": act.consequence,
        "file": act.in_file,
        "items": getattr(model, "items", ""),
        "options": {one.name: one.at_host().option for one in act.parameters if one.at_host().option},
        "positional": [one.name for one in act.parameters if one.is_positional],
    }
    return {name: value for name, value in about.items() if value}


def _model_of(act: Act) -> Any:
    return act.answer or typing.get_type_hints(act.do)["return"]
