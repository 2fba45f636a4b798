"""Routes of permits."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RETRY_KEY, RequestContext, endpoint, request_body
from curator_service.api.http import json_response
from curator_service.approvals.response_models import ProposalAnswer
from curator_service.approvals.schemas import DecisionRequest
from curator_service.identity.policy import Action, Objects
from curator_service.kit.names import NAME
from curator_service.kit.problems import PROBLEM_RESPONSES, NotFound, RequestInvalid
from curator_service.ledger.service import LedgerService
from curator_service.permits.repository import Permit
from curator_service.permits.response_models import (
    EndedPermitAnswer,
    PermitAnswer,
    PermitsAnswer,
    SpendingAnswer,
    SpentAnswer,
)
from curator_service.permits.schemas import PERMIT_EXAMPLE, REVOCATION_EXAMPLE, PermitRequest, RevocationRequest
from curator_service.permits.service import PermitError, PermitService
from curator_service.permits.spending import By, list_spent

router = APIRouter(prefix="/v1", tags=["permits"], responses=PROBLEM_RESPONSES)
_BODY = request_body("PermitRequest", PERMIT_EXAMPLE)
_BY = {
    "name": "by",
    "in": "query",
    "schema": {"type": "string", "default": ",".join(By)},
    "description": "What is summed by, with commas between: analyst, project, dataset, kind, month.",
}
_OF = {
    "name": "population",
    "in": "query",
    "schema": {"type": "string"},
    "description": "Of one population; of all if it is left out.",
}


@router.get("/permits", summary="Permits, the newest first", responses={200: {"model": PermitsAnswer}})
@endpoint(Action.READ_PERMIT)
def list_permits(
    context: RequestContext,
) -> Response:
    """Return every permit; to an analyst, those that hold and let them spend."""
    of = None if context.objects is Objects.ALL else context.principal.id
    found = context.get(PermitService).list_permits(of=of)
    return json_response(PermitsAnswer.model_construct(permits=[PermitAnswer.of(permit) for permit in found]))


@router.get("/permits/{permit_id}", summary="One permit", responses={200: {"model": PermitAnswer}})
@endpoint(Action.READ_PERMIT)
def get_permit(
    context: RequestContext,
    permit_id: str,
) -> Response:
    """Return a permit."""
    return json_response(PermitAnswer.of(_visible(context, permit_id)))


@router.post(
    "/permits",
    summary="Ask for a permit",
    status_code=202,
    responses={202: {"model": ProposalAnswer, "description": "Somebody else decides"}},
    openapi_extra=_BODY | RETRY_KEY,
)
@endpoint(Action.ASK_PERMIT)
def ask_permit(
    context: RequestContext,
) -> Response:
    """Ask for a permit, which a privacy officer grants or refuses."""
    asked = context.call.parse(PermitRequest)
    proposal = context.get(PermitService).ask(asked, asked.reason, context.principal, key=context.retry_key)
    return json_response(ProposalAnswer.of(proposal), 202)


@router.post(
    "/permits/{permit_id}",
    summary="Ask for a change of a permit; what only restricts holds at once",
    status_code=202,
    responses={
        200: {"model": ProposalAnswer, "description": "It only restricts, and holds"},
        202: {"model": ProposalAnswer, "description": "Somebody else decides"},
    },
    openapi_extra=_BODY | RETRY_KEY,
)
@endpoint(Action.ASK_PERMIT)
def change_permit(
    context: RequestContext,
    permit_id: str,
) -> Response:
    """Ask for other terms of a permit: more time, other people, another limit."""
    asked, permit = context.call.parse(PermitRequest), _visible(context, permit_id)
    permits, key = context.get(PermitService), context.retry_key
    proposal = permits.ask(asked, asked.reason, context.principal, permit.id, key=key)
    return json_response(ProposalAnswer.of(proposal), 202 if proposal.state == "open" else 200)


@router.post(
    "/permits/{permit_id}/end",
    summary="End a permit (privacy officer)",
    responses={200: {"model": EndedPermitAnswer}},
    openapi_extra=request_body("DecisionRequest", {"reason": "the study is over"}),
)
@endpoint(Action.END_PERMIT)
def end_permit(
    context: RequestContext,
    permit_id: str,
) -> Response:
    """End a permit: nothing is charged under it any more."""
    reason, permits = context.call.parse(DecisionRequest).reason, context.get(PermitService)
    ended = permits.end(permit_id, reason, context.principal.id)
    return json_response(EndedPermitAnswer.of_ended(ended, permits.list_other_uses(ended)))


@router.post(
    "/admin/permits/revoke",
    summary="Take one dataset out of an analyst's permit without a project (privacy officer)",
    responses={200: {"model": EndedPermitAnswer}},
    openapi_extra=request_body("RevocationRequest", REVOCATION_EXAMPLE),
)
@endpoint(Action.END_PERMIT)
def revoke_dataset(
    context: RequestContext,
) -> Response:
    """Take back what an analyst may use without a project; the permit ends with its last dataset."""
    asked, permits = context.call.parse(RevocationRequest), context.get(PermitService)
    try:
        left = permits.revoke(asked.analyst, asked.dataset, actor=context.principal.id, reason=asked.reason)
    except PermitError as error:
        raise NotFound(f"Nothing was taken back: {error}.") from None
    return json_response(EndedPermitAnswer.of_ended(left, permits.list_other_uses(left, asked.dataset)))


@router.get(
    "/admin/spending",
    summary="Charges by analyst, project, dataset, kind and month (privacy officer, auditor)",
    responses={200: {"model": SpendingAnswer}},
    openapi_extra={"parameters": [_BY, _OF]},
)
@endpoint(Action.READ_SPENDING)
def list_spending(
    context: RequestContext,
) -> Response:
    """Return what was charged, summed by analyst, project, dataset, kind and month, or by some of them."""
    known = context.call.query.get("by", ",".join(By)).split(",")
    if not set(known) <= set(By) or len(set(known)) != len(known):
        raise RequestInvalid.at("?by", f"name some of {', '.join(By)}, each once, with commas between them")
    groups = [By(name) for name in known]
    population = context.call.query.get("population")
    if population is not None:
        context.get(LedgerService).get_population(population if NAME.fullmatch(population) else "")
    found = list_spent(context.services.database, groups, population)
    return json_response(SpendingAnswer.model_construct(spending=[SpentAnswer.of(spent) for spent in found]))


def _visible(context: RequestContext, permit_id: str) -> Permit:
    permit = context.get(PermitService).get_permit(permit_id)
    if context.objects is not Objects.ALL and context.principal.id not in permit.people:
        raise NotFound("There is no permit of this id.")
    return permit
