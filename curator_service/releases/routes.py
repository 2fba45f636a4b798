"""Routes of releases and quotes."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Response

from curator_service.api.endpoint import Visit, door, page_parameters, request_body
from curator_service.api.http import json_response, parse_json
from curator_service.approvals.repository import OPEN
from curator_service.datasets.repository import Dataset
from curator_service.datasets.service import DatasetNotFound
from curator_service.identity.policy import Action, Role
from curator_service.kit.problems import PROBLEM_RESPONSES
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.accounts.unit_of_work import Registration
from curator_service.releases.preparation import Prepared, prepare
from curator_service.releases.reservations import job_not_found
from curator_service.releases.schemas import REQUEST_EXAMPLE, STUDY_EXAMPLE, ReleaseRequest, StudyRequest
from curator_service.releases.submission import AnswerKind, check_key, release_not_found

router = APIRouter(prefix="/v1", tags=["releases"], responses=PROBLEM_RESPONSES)

_REQUEST_BODY = request_body("ReleaseRequest", REQUEST_EXAMPLE)
_KEY_PARAMETER: dict[str, Any] = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": True,
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"},
            "description": "New for each request, the same for each retry of it.",
        },
        {
            "name": "Prefer",
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": "`respond-async`: answer with a job where the request takes time.",
        },
    ]
}
_CHECKPOINT = {
    "name": "Curator-Checkpoint",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The highest checkpoint of the population that the caller has seen, in base64url: it shows whether "
    "the ledger was wound back.",
}
_KEY_PARAMETER["parameters"].append(_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a caller asks of a dataset, as it was sent: what it means follows from that and the declarations alone.

    It is one caller's own: how long a call takes does not tell him what others sent. (What a plan follows from, public
    numbers alone, is remembered for all: `planning`.)
    """

    registration: Registration
    principal_id: str
    text: bytes
    dataset: Dataset = field(compare=False)


@lru_cache(maxsize=64)
def _prepare_again(asked: _Asked) -> Prepared:
    return prepare(asked.dataset, parse_json(asked.text, ReleaseRequest))


def _prepare(visit: Visit, dataset: Dataset) -> Prepared:
    """Check and plan the request that a call has as its body.

    Raises
    ------
    MediaTypeUnsupported, BodyMalformed, RequestInvalid
    """
    return _prepare_again(_Asked(dataset.registration, visit.principal.id, visit.call.json, dataset))


@router.post(
    "/datasets/{name}/quotes", summary="The price and the noise of a request, free", openapi_extra=_REQUEST_BODY
)
@door(Action.QUOTE)
def create_quote(
    visit: Visit,
    name: str,
) -> Response:
    """Return what a request would cost and how noisy it would be; reads no rows."""
    prepared = _prepare(visit, visit.dataset(name))
    return json_response(visit.curator.releases.quote(prepared, visit.principal))


@router.post(
    "/datasets/{name}/releases",
    summary="Buy a release",
    status_code=201,
    responses={
        200: {"description": "A stored answer, or one that was cut out of a stored one, at no cost"},
        202: {"description": "A job: its address is in `Location`"},
    },
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
    releases, prepared = visit.curator.releases, _prepare(visit, dataset)
    as_job = visit.call.prefers_async or prepared.expected_s > releases.synchronous_s
    answer = (releases.submit if as_job else releases.release)(prepared, visit.principal, key)
    if isinstance(answer, Reservation):
        return _show_job(visit, answer, dataset, 202)
    release, kind = answer
    return Response(
        release.body,
        status_code=200 if kind in {AnswerKind.STORED, AnswerKind.DERIVED} else 201,
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
    page = visit.curator.releases.list_releases(dataset, visit.principal, after=after, count=count)
    return Response(page, media_type="application/json")


@router.get(
    "/releases/{release_id}",
    summary="One release, byte for byte as it was first sent",
    responses={304: {"description": "It is what the caller has: its entity tag is among those of `If-None-Match`"}},
)
@door(Action.READ_RELEASE)
def get_release(
    visit: Visit,
    release_id: str,
) -> Response:
    """Return a stored release."""
    release = visit.curator.releases.get_release(release_id)
    try:
        dataset = visit.curator.datasets.get_visible_by_id(visit.principal, visit.objects, release.dataset_id)
    except DatasetNotFound:
        raise release_not_found() from None
    visit.curator.releases.check_reader(release, dataset, visit.principal)
    # Whoever may read it may keep it, and asks each time whether he still may.
    headers = {"ETag": release.etag, "Cache-Control": "private, no-cache"}
    if visit.call.holds(release.etag):
        return Response(status_code=304, headers=headers)
    return Response(release.body, media_type="application/json", headers=headers)


@router.get("/jobs/{job_id}", summary="How a job stands")
@door(Action.READ_JOB)
def get_job(
    visit: Visit,
    job_id: str,
) -> Response:
    """Return a job; when it is done, the id of its release."""
    job, dataset = _find_job(visit, job_id)
    return _show_job(visit, job, dataset, 200)


@router.delete("/jobs/{job_id}", summary="Cancel a job before it is charged")
@door(Action.END_RESERVATION)
def cancel_job(
    visit: Visit,
    job_id: str,
) -> Response:
    """Give a job up; what it held is back in the budget."""
    job, dataset = _find_job(visit, job_id)
    return _show_job(visit, visit.curator.studies.cancel(job, visit.principal), dataset, 200)


def _find_job(visit: Visit, job_id: str) -> tuple[Reservation, Dataset]:
    job = visit.curator.studies.get_job(job_id)
    try:
        dataset = visit.curator.datasets.get_visible_by_id(visit.principal, visit.objects, job.dataset_id)
    except DatasetNotFound:
        raise job_not_found() from None
    hidden = dataset.manifest.library == "own" and visit.principal.role is Role.ANALYST
    if hidden and visit.principal.id != job.principal_id:
        raise job_not_found()
    return job, dataset


def _show_job(visit: Visit, job: Reservation, dataset: Dataset, status: int) -> Response:
    answer = json_response(visit.curator.studies.render_job(job, dataset), status)
    answer.headers["Location"] = f"/v1/jobs/{job.id}"
    if job.state == OPEN:
        answer.headers["Retry-After"] = "1"
    return answer


@router.post(
    "/datasets/{name}/reservations",
    summary="Hold an amount for a study",
    status_code=201,
    openapi_extra=request_body("StudyRequest", STUDY_EXAMPLE) | {"parameters": _KEY_PARAMETER["parameters"][:1]},
)
@door(Action.RESERVE)
def create_reservation(
    visit: Visit,
    name: str,
) -> Response:
    """Reserve an amount for a stated time: releases are drawn from it, and the rest returns to the budget."""
    dataset = visit.dataset(name)
    key = check_key(visit.call.idempotency_key)
    body, kind = visit.curator.studies.reserve(dataset, visit.call.parse(StudyRequest), visit.principal, key)
    return Response(body, status_code=201, media_type="application/json", headers={"Curator-Answer": kind.value})


@router.get("/reservations/{reservation_id}", summary="What is left of a reservation")
@door(Action.END_RESERVATION)
def get_reservation(
    visit: Visit,
    reservation_id: str,
) -> Response:
    """Return a reservation: one of the caller's own; an admin may see and end anybody's."""
    return Response(visit.curator.studies.get_study(reservation_id, visit.principal), media_type="application/json")


@router.delete("/reservations/{reservation_id}", summary="Give back what is left of a reservation")
@door(Action.END_RESERVATION)
def close_reservation(
    visit: Visit,
    reservation_id: str,
) -> Response:
    """Close a reservation: one of the caller's own, or, for an admin, anybody's."""
    return Response(visit.curator.studies.close_study(reservation_id, visit.principal), media_type="application/json")
