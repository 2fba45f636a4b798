"""Problems as the OpenAPI document has them: what all have, and those that have no other member.

A problem with a member of its own has its model beside the answers of its slice.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.kit.wire import STRICT


class ProblemModel(BaseModel):
    """Members of every problem (RFC 9457)."""

    model_config = STRICT

    type: str
    title: str
    status: int
    detail: Annotated[str, Field(description="The rule, what was asked, and what would have worked")]
    instance: Annotated[str, Field(description="The id of the request, also in the header X-Request-Id")]


class PlainProblem(ProblemModel):
    """A problem without other members; docs/problems.md explains each type."""

    type: Literal[
        "/problems/authentication-required",
        "/problems/body-malformed",
        "/problems/body-too-large",
        "/problems/busy",
        "/problems/checkpoint-invalid",
        "/problems/dataset-closed",
        "/problems/dataset-not-found",
        "/problems/dataset-unavailable",
        "/problems/head-too-large",
        "/problems/idempotency-key-missing",
        "/problems/idempotency-key-reused",
        "/problems/internal-error",
        "/problems/job-ended",
        "/problems/ledger-unverified",
        "/problems/limit-conflict",
        "/problems/media-type-unsupported",
        "/problems/method-not-allowed",
        "/problems/not-found",
        "/problems/permit-changed",
        "/problems/permit-ended",
        "/problems/permit-expired",
        "/problems/population-exists",
        "/problems/proposal-decided",
        "/problems/proposal-unattested",
        "/problems/request-timeout",
        "/problems/reservation-ended",
        "/problems/reservation-not-found",
        "/problems/session-ended",
        "/problems/session-not-found",
        "/problems/second-admin-needed",
        "/problems/report-refused",
        "/problems/survey-ended",
        "/problems/survey-exists",
        "/problems/survey-not-found",
        "/problems/token-not-shown",
        "/problems/too-many-proposals",
        "/problems/too-many-requests",
        "/problems/visa-needed",
    ]


class FaultModel(BaseModel):
    """A fault at one place of a request."""

    model_config = STRICT

    pointer: Annotated[str, Field(description="A JSON pointer into the body, or ?name for a query parameter")]
    detail: str


class RequestInvalidProblem(ProblemModel):
    """The request cannot be answered as it is."""

    type: Literal["/problems/request-invalid"]
    errors: list[FaultModel]
