"""Routes of releases and quotes."""

from typing import Any

from fastapi import APIRouter, Response

from curator_service.datasets.service import DatasetNotFound
from curator_service.doors import Visit, door, page_parameters
from curator_service.http import json_response
from curator_service.identity.policy import Action
from curator_service.problems import PROBLEM_RESPONSES
from curator_service.releases.schemas import REQUEST_EXAMPLE, ReleaseRequest
from curator_service.releases.service import AnswerKind, check_key, release_not_found

router = APIRouter(prefix="/v1", tags=["releases"], responses=PROBLEM_RESPONSES)

_REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/ReleaseRequest"},
                "example": REQUEST_EXAMPLE,
            }
        },
    }
}
_KEY_PARAMETER: dict[str, Any] = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"},
            "description": "New for each request, the same for each retry of it.",
        }
    ]
}


@router.post(
    "/datasets/{name}/quotes", summary="The price and the noise of a request, free", openapi_extra=_REQUEST_BODY
)
@door(Action.QUOTE)
def create_quote(
    visit: Visit,
    name: str,
) -> Response:
    """Return what a request would cost and how noisy it would be; reads no rows."""
    dataset = visit.dataset(name)
    releases = visit.curator.releases
    return json_response(releases.quote(releases.prepare(dataset, visit.call.parse(ReleaseRequest))))


@router.post(
    "/datasets/{name}/releases",
    summary="Buy a release",
    status_code=201,
    responses={200: {"description": "A stored answer to the same request, at no cost"}},
    openapi_extra=_REQUEST_BODY | _KEY_PARAMETER,
)
@door(Action.BUY_RELEASE)
def create_release(
    visit: Visit,
    name: str,
) -> Response:
    """Charge a request to the population's budget and return its noisy statistics; charged once per key."""
    dataset = visit.dataset(name)
    key = check_key(visit.call.idempotency_key)
    releases = visit.curator.releases
    release, kind = releases.release(releases.prepare(dataset, visit.call.parse(ReleaseRequest)), visit.principal, key)
    return Response(
        release.body,
        status_code=200 if kind is AnswerKind.STORED else 201,
        media_type="application/json",
        headers={"Curator-Answer": kind.value, "Location": f"/v1/releases/{release.id}"},
    )


@router.get(
    "/datasets/{name}/releases",
    summary="The releases of a dataset, free to read again",
    openapi_extra=page_parameters("releases"),
)
@door(Action.READ_RELEASE)
def list_releases(
    visit: Visit,
    name: str,
) -> Response:
    """Return a page of releases, without their statistics."""
    dataset = visit.dataset(name)
    after, count = visit.page()
    return json_response(visit.curator.releases.list_releases(dataset, after=after, count=count))


@router.get("/releases/{release_id}", summary="One release, byte for byte as it was first sent")
@door(Action.READ_RELEASE)
def get_release(
    visit: Visit,
    release_id: str,
) -> Response:
    """Return a stored release."""
    release = visit.curator.releases.get_release(release_id)
    try:
        visit.curator.datasets.get_visible_by_id(visit.principal, visit.objects, release.dataset_id)
    except DatasetNotFound:
        raise release_not_found() from None
    return Response(release.body, media_type="application/json")
