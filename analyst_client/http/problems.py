"""Refusals of the curator (RFC 9457 problem documents) as errors."""

from collections.abc import Mapping
from typing import Any

from analyst_client.errors import (
    AnswerSpaceError,
    AuthenticationError,
    BudgetExceededError,
    ConflictError,
    CuratorError,
    DatasetClosedError,
    DatasetNotFoundError,
    JobEndedError,
    LedgerSealedError,
    PermissionDeniedError,
    PermitExpiredError,
    PermitNeededError,
    RequestFault,
    RequestInvalidError,
    ReservationEndedError,
    ReservationNotFoundError,
    ServiceError,
    ServiceUnavailableError,
    TransportError,
)
from analyst_client.schema.amounts import Amount
from analyst_client.schema.wire import Fields, parse_json

CLASS_OF_SLUG: Mapping[str, type[CuratorError]] = {
    "authentication-required": AuthenticationError,
    "permission-denied": PermissionDeniedError,
    "permit-needed": PermitNeededError,
    "permit-expired": PermitExpiredError,
    "visa-needed": PermissionDeniedError,
    "dataset-not-found": DatasetNotFoundError,
    "not-found": RequestInvalidError,
    "idempotency-key-missing": RequestInvalidError,
    "body-malformed": RequestInvalidError,
    "method-not-allowed": RequestInvalidError,
    "body-too-large": RequestInvalidError,
    "media-type-unsupported": RequestInvalidError,
    "too-many-requests": RequestInvalidError,
    "head-too-large": RequestInvalidError,
    "request-timeout": ServiceUnavailableError,
    "request-invalid": RequestInvalidError,
    "idempotency-key-reused": RequestInvalidError,
    "release-in-progress": ServiceUnavailableError,
    "dataset-unavailable": ServiceUnavailableError,
    "busy": ServiceUnavailableError,
    "ledger-unverified": LedgerSealedError,
    "checkpoint-invalid": RequestInvalidError,
    "reservation-not-found": ReservationNotFoundError,
    "limit-conflict": ConflictError,
    "population-exists": ConflictError,
    "proposal-decided": ConflictError,
    "proposal-unattested": ConflictError,
    "too-many-proposals": ConflictError,
    "permit-ended": ConflictError,
    "permit-changed": ConflictError,
    "token-not-shown": ConflictError,
    "second-admin-needed": PermissionDeniedError,
    "reservation-ended": ReservationEndedError,
    "job-ended": JobEndedError,
    "dataset-closed": DatasetClosedError,
    "answer-space-exceeded": AnswerSpaceError,
    "budget-exceeded": BudgetExceededError,
    "internal-error": ServiceError,
}


NAMES_OF: Mapping[type[CuratorError], str] = {PermissionDeniedError: "needed_role", PermitNeededError: "projects"}
"""Errors that list what would have worked, and the member that does."""


def read_problem(status: int, text: str, idempotency_key: str | None) -> CuratorError:
    """Turn a refusal into the error that names it; `text` is the body of the answer."""
    answer: dict[str, Any] = {"status": status, "idempotency_key": idempotency_key}
    try:
        fields = Fields(parse_json(text))
        slug = fields.text("type").removeprefix("/problems/")
    except ServiceError:  # not the curator's words: a proxy on the way
        by_status: dict[int, type[CuratorError]] = {
            502: TransportError,
            503: ServiceUnavailableError,
            504: TransportError,
        }
        return by_status.get(status, ServiceError)(f"HTTP {status} without a problem document", **answer)
    answer |= {"slug": slug, "request_id": fields.members.get("instance")}
    said = [str(fields.members[name]) for name in ("title", "detail") if fields.has(name)]
    message = ": ".join(said) or slug
    error = CLASS_OF_SLUG.get(slug, ServiceError)
    try:
        if error in NAMES_OF:
            member = NAMES_OF[error]
            return error(message, **answer | {member: fields.optional(member, fields.texts) or ()})
        if error is RequestInvalidError:
            faults = fields.each("errors", read_fault) if fields.has("errors") else ()
            unsaid = [f"{fault.pointer}: {fault.detail}" for fault in faults if fault.detail not in message]
            message = "; ".join([message, *unsaid])
            return RequestInvalidError(message, errors=faults, **answer)
        if error is BudgetExceededError:
            names = ("requested", "remaining", "largest")
            amounts = {n: Amount.read(fields.object(n)) if fields.has(n) else None for n in names}
            return BudgetExceededError(message, **amounts, **answer)
        if error is ServiceUnavailableError:
            return ServiceUnavailableError(message, job=fields.optional("job", fields.text), **answer)
    except ServiceError:  # the refusal stands, whatever is wrong with its details
        pass
    return error(message, **answer)


def read_fault(fields: Fields) -> RequestFault:
    """Read one of the faults of a refused request."""
    return RequestFault(fields.text("pointer"), fields.text("detail"))
