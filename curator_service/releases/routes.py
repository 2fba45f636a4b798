"""Routes of releases and quotes."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from curator_service.datasets.service import DatasetNotFound
from curator_service.doors import VisitorDependency
from curator_service.http import json_response
from curator_service.identity.policy import Action
from curator_service.releases.schemas import REQUEST_EXAMPLE, ReleaseRequest
from curator_service.releases.service import AnswerKind, check_key, release_not_found

router = APIRouter(prefix="/v1", tags=["releases"])

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
def create_quote(name: str, visitor: VisitorDependency) -> Response:
    """Return what a request would cost and how noisy it would be; reads no rows."""
    visit = visitor.permit(Action.QUOTE)
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
def create_release(name: str, visitor: VisitorDependency) -> Response:
    """Charge a request to the population's budget and return its noisy statistics; charged once per key."""
    visit = visitor.permit(Action.BUY_RELEASE)
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


@router.get("/datasets/{name}/releases", summary="The releases of a dataset, free to read again")
def list_releases(
    name: str,
    visitor: VisitorDependency,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return a page of releases, without their statistics."""
    visit = visitor.permit(Action.READ_RELEASE)
    return json_response(visit.curator.releases.list_releases(visit.dataset(name), after=after, count=limit))


@router.get("/releases/{release_id}", summary="One release, byte for byte as it was first sent")
def get_release(release_id: str, visitor: VisitorDependency) -> Response:
    """Return a stored release."""
    visit = visitor.permit(Action.READ_RELEASE)
    release = visit.curator.releases.get_release(release_id)
    try:
        visit.curator.datasets.get_visible_by_id(visit.principal, visit.objects, release.dataset_id)
    except DatasetNotFound:
        raise release_not_found() from None
    return Response(release.body, media_type="application/json")
