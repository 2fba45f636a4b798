"""A submission: a request under a key, and its refusals before anything is charged."""

import json
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import ClassVar

from curator_service.datasets.visibility import may_read
from curator_service.identity.repository import Principal
from curator_service.kit.problems import NotFound, Problem
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.ledger.accounts.unit_of_work import Payer
from curator_service.releases.library import will_answer
from curator_service.releases.preparation import Prepared

ATTEMPTS = 5
"""How often a request is begun again because another one decided about its key, its answer or its account."""


class ReleaseInProgress(Problem):
    """The same key, or the same request, is being worked on."""

    slug = "release-in-progress"
    status = HTTPStatus.CONFLICT
    title = "The answer is being worked on"
    default_headers: ClassVar = {"Retry-After": "1"}


class JobEnded(Problem):
    """The job was charged, cancelled or given up before."""

    slug = "job-ended"
    status = HTTPStatus.CONFLICT
    title = "The job has ended"


class ReservationNotFound(Problem):
    """No such reservation, or somebody else's: which of these is not said."""

    slug = "reservation-not-found"
    status = HTTPStatus.NOT_FOUND
    title = "There is no such reservation"


class ReservationEnded(Problem):
    """The reservation's time is over, or it was closed."""

    slug = "reservation-ended"
    status = HTTPStatus.CONFLICT
    title = "The reservation has ended"


class AnswerSpaceExceeded(Problem):
    """Full space: no more answers can be stored for this analyst."""

    slug = "answer-space-exceeded"
    status = HTTPStatus.CONFLICT
    title = "The space for your answers is used up"


class AnswerKind(StrEnum):
    """Origin of an answer."""

    NEW = "new"
    REPLAYED = "replayed"
    STORED = "stored"
    DERIVED = "derived"


@dataclass(frozen=True, slots=True)
class Submission:
    """A request of somebody, under a key.

    `refusal` is why nothing is charged for it: no permit lasts. What the key has answered before, it answers again.
    """

    prepared: Prepared
    analyst: Principal
    key: str
    payer: Payer
    refusal: Problem | None = None

    def joins(self, job: Reservation) -> bool:
        """Tell whether the answer of a job will serve this request as it stands."""
        is_readable = may_read(self.analyst, self.prepared.dataset, job.principal_id)
        return is_readable and will_answer(self.prepared, json.loads(job.details))


def in_progress(job: Reservation) -> ReleaseInProgress:
    """Build the refusal of a request that is being worked on."""
    return ReleaseInProgress(
        f"This request, or the same with less noise, is being worked on as {job.id!r}. Its answer will cost nothing: "
        f"ask again later with the same Idempotency-Key, or follow /v1/jobs/{job.id}.",
        job=job.id,
    )


def answer_space_exceeded(size: int, left: int, most: int) -> AnswerSpaceExceeded:
    """Build the refusal of an answer for which there is no space."""
    return AnswerSpaceExceeded(
        f"The answer would take {size} bytes, and {left} of the {most} remain that one analyst may have stored of a "
        "population's answers, whatever they cost. Ask for fewer columns, or read a stored release. An admin may raise "
        "`answer_bytes_max`.",
        answer_bytes=size,
        answer_bytes_left=left,
    )


def reservation_not_found() -> ReservationNotFound:
    """Build the refusal of a reservation that is not there, or somebody else's: which of these is not said."""
    return ReservationNotFound("There is no reservation of this id among yours for this population.")


def release_not_found() -> NotFound:
    """Build the refusal of a release that is not there or not visible: which of these is not said."""
    return NotFound("There is no release of this id among those that you may read.")
