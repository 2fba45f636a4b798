"""Routes of releases and quotes."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Response

from curator_service.api.endpoint import KEY_PARAMETER, RequestContext, endpoint, page_parameters, request_body
from curator_service.api.http import json_response
from curator_service.approvals.repository import OPEN
from curator_service.datasets.repository import Dataset
from curator_service.datasets.routes import find_dataset
from curator_service.datasets.service import DatasetNotFound, DatasetService
from curator_service.datasets.visibility import may_read
from curator_service.identity.policy import Action, Objects
from curator_service.kinds.registry import KINDS, KindRegistry
from curator_service.kit.idempotency import check_key
from curator_service.kit.problems import PROBLEM_RESPONSES
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.accounts.unit_of_work import Registration
from curator_service.releases.preparation import Prepared, prepare
from curator_service.releases.requests import read_request
from curator_service.releases.reservations import ReservationService, job_not_found
from curator_service.releases.response_models import (
    HeldJobsAnswer,
    HeldReservationsAnswer,
    JobAnswer,
    QuoteAnswer,
    ReleaseAnswer,
    ReleasesAnswer,
    ReservationAnswer,
)
from curator_service.releases.schemas import RESERVATION_EXAMPLE, ReservationRequest
from curator_service.releases.service import ReleaseService
from curator_service.releases.submission import AnswerKind, release_not_found
from curator_service.releases.waiting import WAIT_MAX_S, waits_for_end

router = APIRouter(prefix="/v1", tags=["releases"], responses=PROBLEM_RESPONSES)

_REQUEST_BODY = request_body("ReleaseRequest", KINDS.first.example)
_KEY_PARAMETER: dict[str, Any] = {
    "parameters": [
        KEY_PARAMETER,
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
_WAIT = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": f"`wait=N`: answer when the job has ended, or after N seconds, {WAIT_MAX_S} at most.",
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A caller's request to a dataset, as it was sent: its meaning follows from it and the declarations alone.

    It is one caller's own: how long a call takes does not tell him what others sent. (What a plan follows from, public
    numbers alone, is remembered for all: `planning`.)
    """

    kinds: KindRegistry
    registration: Registration
    principal_id: str
    text: bytes
    pace: float
    dataset: Dataset = field(compare=False)


@lru_cache(maxsize=64)
def _prepare_again(asked: _Asked) -> Prepared:
    return prepare(asked.kinds, asked.dataset, read_request(asked.text, asked.kinds), asked.pace)


def _prepare(context: RequestContext, dataset: Dataset) -> Prepared:
    """Check and plan the request that a call has as its body.

    Raises
    ------
    MediaTypeUnsupported, BodyMalformed, RequestInvalid
    """
    kinds, pace = context.get(KindRegistry), context.get(ReleaseService).pace
    return _prepare_again(_Asked(kinds, dataset.registration, context.principal.id, context.call.json, pace, dataset))


@router.post(
    "/datasets/{name}/quotes",
    summary="The price and the noise of a request, free",
    responses={200: {"model": QuoteAnswer}},
    openapi_extra=_REQUEST_BODY,
)
@endpoint(Action.QUOTE)
def create_quote(
    context: RequestContext,
    name: str,
) -> Response:
    """Return what a request would cost and how noisy it would be; reads no rows."""
    prepared = _prepare(context, find_dataset(context, name))
    return json_response(context.get(ReleaseService).quote(prepared, context.principal))


@router.post(
    "/datasets/{name}/releases",
    summary="Request a release",
    status_code=201,
    responses={
        200: {
            "model": ReleaseAnswer,
            "description": "A stored answer, or one that was cut out of a stored one, at no cost",
        },
        201: {"model": ReleaseAnswer, "description": "An answer that was charged, now or when the key was used first"},
        202: {"model": JobAnswer, "description": "A job: its address is in `Location`"},
    },
    openapi_extra=_REQUEST_BODY | _KEY_PARAMETER,
)
@endpoint(Action.REQUEST_RELEASE)
def create_release(
    context: RequestContext,
    name: str,
) -> Response:
    """Charge a request to the population's budget and return its noisy statistics; charged once per key."""
    dataset = find_dataset(context, name)
    key = check_key(context.call.idempotency_key)
    releases, prepared = context.get(ReleaseService), _prepare(context, dataset)
    context.call.notes["kind"] = prepared.kind.name
    as_job = context.call.prefers_async or prepared.expected_s > releases.synchronous_s
    answer = (releases.submit if as_job else releases.release)(prepared, context.principal, key)
    if isinstance(answer, Reservation):
        context.call.notes["outcome"] = "job"
        return _show_job(context, answer, dataset, 202)
    release, kind = answer
    context.call.notes["outcome"] = kind.value
    return Response(
        release.body,
        status_code=200 if kind in {AnswerKind.STORED, AnswerKind.DERIVED} else 201,
        media_type="application/json",
        headers={"Curator-Answer": kind.value, "Location": f"/v1/releases/{release.id}"},
    )


@router.get(
    "/datasets/{name}/releases",
    summary="The releases of a dataset, free to read again",
    responses={200: {"model": ReleasesAnswer}},
    openapi_extra=page_parameters("releases"),
)
@endpoint(Action.READ_RELEASE)
def list_releases(
    context: RequestContext,
    name: str,
) -> Response:
    """Return a page of releases, without their statistics."""
    dataset = find_dataset(context, name)
    after, count = context.page()
    page = context.get(ReleaseService).list_releases(dataset, context.principal, after=after, count=count)
    return Response(page, media_type="application/json")


@router.get(
    "/releases/{release_id}",
    summary="One release, byte for byte as it was first sent",
    responses={
        200: {"model": ReleaseAnswer},
        304: {"description": "It is what the caller has: its entity tag is among those of `If-None-Match`"},
    },
)
@endpoint(Action.READ_RELEASE)
def get_release(
    context: RequestContext,
    release_id: str,
) -> Response:
    """Return a stored release."""
    release = context.get(ReleaseService).get_release(release_id)
    try:
        dataset = context.get(DatasetService).get_visible_by_id(context.principal, context.objects, release.dataset_id)
    except DatasetNotFound:
        raise release_not_found() from None
    context.get(ReleaseService).check_reader(release, dataset, context.principal)
    # A reader may cache the answer, but must ask each time if it may still be read.
    headers = {"ETag": release.etag, "Cache-Control": "private, no-cache"}
    if context.call.holds(release.etag):
        return Response(status_code=304, headers=headers)
    return Response(release.body, media_type="application/json", headers=headers)


@router.get(
    "/jobs", summary="Jobs that wait or run: to an analyst, their own", responses={200: {"model": HeldJobsAnswer}}
)
@endpoint(Action.READ_JOB)
def list_jobs(
    context: RequestContext,
) -> Response:
    """Return the jobs that are not done, with whose they are."""
    of = None if context.objects is Objects.ALL else context.principal.id
    return json_response(HeldJobsAnswer.model_construct(jobs=context.get(ReservationService).list_jobs(of=of)))


@router.get(
    "/jobs/{job_id}",
    summary="The state of a job",
    responses={200: {"model": JobAnswer}},
    openapi_extra={"parameters": [_WAIT]},
)
@waits_for_end
@endpoint(Action.READ_JOB)
def get_job(
    context: RequestContext,
    job_id: str,
) -> Response:
    """Return a job; when it is done, the id of its release."""
    job, dataset = _find_job(context, job_id)
    return _show_job(context, job, dataset, 200)


@router.delete("/jobs/{job_id}", summary="Cancel a job before it is charged", responses={200: {"model": JobAnswer}})
@endpoint(Action.END_RESERVATION)
def cancel_job(
    context: RequestContext,
    job_id: str,
) -> Response:
    """Give a job up; what it held is back in the budget."""
    job, dataset = _find_job(context, job_id)
    return _show_job(context, context.get(ReservationService).cancel(job, context.principal), dataset, 200)


def _find_job(context: RequestContext, job_id: str) -> tuple[Reservation, Dataset]:
    job = context.get(ReservationService).get_job(job_id)
    try:
        dataset = context.get(DatasetService).get_visible_by_id(context.principal, context.objects, job.dataset_id)
    except DatasetNotFound:
        raise job_not_found() from None
    if context.objects is not Objects.ALL and not may_read(context.principal, dataset, job.principal_id):
        raise job_not_found()
    return job, dataset


def _show_job(context: RequestContext, job: Reservation, dataset: Dataset, status: int) -> Response:
    answer = json_response(context.get(ReservationService).describe_job(job, dataset), status)
    answer.headers["Location"] = f"/v1/jobs/{job.id}"
    if job.state == OPEN:
        answer.headers["Retry-After"] = "1"
        answer.headers["Curator-Wait"] = str(WAIT_MAX_S)
    return answer


@router.post(
    "/datasets/{name}/reservations",
    summary="Hold an amount for a study",
    status_code=201,
    responses={201: {"model": ReservationAnswer}},
    openapi_extra=request_body("ReservationRequest", RESERVATION_EXAMPLE)
    | {"parameters": _KEY_PARAMETER["parameters"][:1]},
)
@endpoint(Action.RESERVE)
def create_reservation(
    context: RequestContext,
    name: str,
) -> Response:
    """Reserve an amount for a stated time: releases are drawn from it, and the rest returns to the budget."""
    dataset = find_dataset(context, name)
    key = check_key(context.call.idempotency_key)
    body, kind = context.get(ReservationService).reserve(
        dataset, context.call.parse(ReservationRequest), context.principal, key
    )
    return Response(body, status_code=201, media_type="application/json", headers={"Curator-Answer": kind.value})


@router.get(
    "/reservations",
    summary="Reservations that are open: to an analyst, their own",
    responses={200: {"model": HeldReservationsAnswer}},
)
@endpoint(Action.READ_RESERVATION)
def list_reservations(
    context: RequestContext,
) -> Response:
    """Return the reservations of analysts, with their holders."""
    of = None if context.objects is Objects.ALL else context.principal.id
    found = context.get(ReservationService).list_reservations(of=of)
    return json_response(HeldReservationsAnswer.model_construct(reservations=found))


@router.get(
    "/reservations/{reservation_id}",
    summary="What is left of a reservation",
    responses={200: {"model": ReservationAnswer}},
)
@endpoint(Action.READ_RESERVATION)
def get_reservation(
    context: RequestContext,
    reservation_id: str,
) -> Response:
    """Return a reservation: one of the caller's own; an admin may see and end anybody's."""
    return Response(
        context.get(ReservationService).get_reservation(reservation_id, context.principal),
        media_type="application/json",
    )


@router.delete(
    "/reservations/{reservation_id}",
    summary="Give back what is left of a reservation",
    responses={200: {"model": ReservationAnswer}},
)
@endpoint(Action.END_RESERVATION)
def close_reservation(
    context: RequestContext,
    reservation_id: str,
) -> Response:
    """Close a reservation: one of the caller's own, or, for an admin, anybody's."""
    return Response(
        context.get(ReservationService).close_reservation(reservation_id, context.principal),
        media_type="application/json",
    )
