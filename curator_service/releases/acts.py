"""Acts of quotes, releases, jobs and reservations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

from fastapi import Response
from pydantic import Field

from curator_service.api.acts import PAGE, Acts, After, Count, RetryKey
from curator_service.api.context import RequestContext
from curator_service.api.http import json_response
from curator_service.approvals.repository import OPEN
from curator_service.datasets.acts import DatasetName, find_dataset
from curator_service.datasets.repository import Dataset
from curator_service.datasets.service import DatasetNotFound, DatasetService
from curator_service.datasets.visibility import may_read
from curator_service.entries.told import Registration
from curator_service.identity.policy import Action, Objects
from curator_service.kinds.registry import KINDS, KindRegistry
from curator_service.kit.idempotency import check_key
from curator_service.ledger.accounts.reservations import Reservation
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

acts = Acts("releases")


def _header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "schema": {"type": "string"}, "description": description}


_ASYNC = _header("Prefer", "`respond-async`: answer with a job where the request takes time.")
_CHECKPOINT = _header(
    "Curator-Checkpoint",
    "The highest checkpoint of the population that the caller has seen, in base64url: it shows whether the ledger was "
    "wound back.",
)
_WAIT = _header("Prefer", f"`wait=N`: answer when the job has ended, or after N seconds, {WAIT_MAX_S} at most.")
JobId = Annotated[str, Field(description="A job's id; `jobs list` shows it.")]
ReservationId = Annotated[str, Field(description="A reservation's id; `reservations list` shows it.")]


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


@acts.route(
    Action.QUOTE,
    "POST /v1/datasets/{name}/quotes",
    asks="ReleaseRequest",
    example=KINDS.first.example,
    answer=QuoteAnswer,
)
def create_quote(context: RequestContext, name: DatasetName) -> Any:
    """Return the price and the noise of a request, free; no row is read."""
    prepared = _prepare(context, find_dataset(context, name))
    return context.get(ReleaseService).quote(prepared, context.principal)


@acts.route(
    Action.REQUEST_RELEASE,
    "POST /v1/datasets/{name}/releases",
    asks="ReleaseRequest",
    example=KINDS.first.example,
    key=RetryKey.REQUIRED,
    headers=(_ASYNC, _CHECKPOINT),
    status=201,
    responses={
        200: {
            "model": ReleaseAnswer,
            "description": "A stored answer, or one that was cut out of a stored one, at no cost",
        },
        201: {"model": ReleaseAnswer, "description": "An answer that was charged, now or when the key was used first"},
        202: {"model": JobAnswer, "description": "A job: its address is in `Location`"},
    },
)
def create_release(context: RequestContext, name: DatasetName) -> Response:
    """Charge a request to the population's budget, once for each key, and return its noisy statistics."""
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
    status = 200 if kind in {AnswerKind.STORED, AnswerKind.DERIVED} else 201
    return _stored(release.body, status, {"Curator-Answer": kind.value, "Location": f"/v1/releases/{release.id}"})


@acts.route(Action.READ_RELEASE, "GET /v1/datasets/{name}/releases", responses={200: {"model": ReleasesAnswer}})
def list_releases(context: RequestContext, name: DatasetName, after: After = 0, limit: Count = PAGE) -> Response:
    """List the releases of a dataset, which are free to read again, without their statistics."""
    dataset = find_dataset(context, name)
    releases = context.get(ReleaseService)
    return _stored(releases.list_releases(dataset, context.principal, after=after, count=limit))


@acts.route(
    Action.READ_RELEASE,
    "GET /v1/releases/{release_id}",
    responses={
        200: {"model": ReleaseAnswer},
        304: {"description": "It is what the caller has: its entity tag is among those of `If-None-Match`"},
    },
)
def get_release(context: RequestContext, release_id: str) -> Response:
    """Return one release, byte for byte as it was first sent."""
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
    return _stored(release.body, headers=headers)


@acts.route(Action.READ_JOB, "GET /v1/jobs", "jobs list")
def list_jobs(context: RequestContext) -> HeldJobsAnswer:
    """List jobs that wait or run; to an analyst, their own."""
    of = None if context.objects is Objects.ALL else context.principal.id
    return HeldJobsAnswer.model_construct(jobs=context.get(ReservationService).list_jobs(of=of))


@acts.route(
    Action.READ_JOB,
    "GET /v1/jobs/{job_id}",
    responses={200: {"model": JobAnswer}},
    headers=(_WAIT,),
    wrap=waits_for_end,
)
def get_job(context: RequestContext, job_id: JobId) -> Response:
    """Return the state of a job; of one that is done, the id of its release."""
    job, dataset = _find_job(context, job_id)
    return _show_job(context, job, dataset, 200)


@acts.route(
    Action.END_RESERVATION,
    "DELETE /v1/jobs/{job_id}",
    "jobs cancel",
    responses={200: {"model": JobAnswer}},
    consequence="The job's work is lost, and whoever asked has to ask again",
)
def cancel_job(context: RequestContext, job_id: JobId) -> Response:
    """Cancel a job before it is charged; the amount that it held returns to the budget."""
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


@acts.route(
    Action.RESERVE,
    "POST /v1/datasets/{name}/reservations",
    asks=ReservationRequest,
    example=RESERVATION_EXAMPLE,
    key=RetryKey.REQUIRED,
    status=201,
    responses={201: {"model": ReservationAnswer}},
)
def create_reservation(context: RequestContext, name: DatasetName) -> Response:
    """Hold an amount for a stated time: releases are drawn from it, and the rest returns to the budget."""
    dataset = find_dataset(context, name)
    key, asked = check_key(context.call.idempotency_key), context.call.parse(ReservationRequest)
    body, kind = context.get(ReservationService).reserve(dataset, asked, context.principal, key)
    return _stored(body, 201, {"Curator-Answer": kind.value})


@acts.route(Action.READ_RESERVATION, "GET /v1/reservations", "reservations list")
def list_reservations(context: RequestContext) -> HeldReservationsAnswer:
    """List reservations that are open, with their holders; to an analyst, their own."""
    of = None if context.objects is Objects.ALL else context.principal.id
    found = context.get(ReservationService).list_reservations(of=of)
    return HeldReservationsAnswer.model_construct(reservations=found)


@acts.route(
    Action.READ_RESERVATION,
    "GET /v1/reservations/{reservation_id}",
    responses={200: {"model": ReservationAnswer}},
)
def get_reservation(context: RequestContext, reservation_id: ReservationId) -> Response:
    """Return a reservation with what is left of it: your own; an officer or operator sees anybody's."""
    return _stored(context.get(ReservationService).get_reservation(reservation_id, context.principal))


@acts.route(
    Action.END_RESERVATION,
    "DELETE /v1/reservations/{reservation_id}",
    "reservations release",
    responses={200: {"model": ReservationAnswer}},
    consequence="Others can spend at once what it held",
)
def close_reservation(context: RequestContext, reservation_id: ReservationId) -> Response:
    """Give back what is left of a reservation: your own; an officer or operator ends anybody's."""
    return _stored(context.get(ReservationService).close_reservation(reservation_id, context.principal))


def _stored(body: str | bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")
