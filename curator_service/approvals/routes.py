"""Routes of decisions that need a second admin."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RequestContext, endpoint, request_body
from curator_service.api.http import json_response
from curator_service.approvals.response_models import ProposalAnswer, ProposalsAnswer
from curator_service.approvals.schemas import LIMIT_EXAMPLE, LimitRequest, render_proposal
from curator_service.approvals.service import LimitService
from curator_service.identity.policy import Action
from curator_service.kit.problems import PROBLEM_RESPONSES

router = APIRouter(prefix="/v1", tags=["ledger"], responses=PROBLEM_RESPONSES)


@router.post(
    "/admin/populations/{population}/limits",
    summary="Lower a limit, or propose to raise it (admin)",
    status_code=200,
    responses={
        200: {"model": ProposalAnswer},
        202: {"model": ProposalAnswer, "description": "A raise, which waits for the approval of another admin"},
    },
    openapi_extra=request_body("LimitRequest", LIMIT_EXAMPLE),
)
@endpoint(Action.SET_LIMIT)
def set_limit(
    context: RequestContext,
    population: str,
) -> Response:
    """Set the limit of an account, of an analyst or of a project: lower at once, higher with a second admin."""
    asked = context.call.parse(LimitRequest)
    limits = context.get(LimitService)
    proposal = limits.propose(population, asked.scope, asked.label, asked.limit.price, asked.reason, context.principal)
    return json_response(render_proposal(proposal), 202 if proposal.state == "open" else 200)


@router.get(
    "/admin/proposals",
    summary="Proposed limits, the newest first (admin)",
    responses={200: {"model": ProposalsAnswer}},
)
@endpoint(Action.SET_LIMIT)
def list_proposals(
    context: RequestContext,
) -> Response:
    """Return what was proposed and decided."""
    return json_response({"proposals": [render_proposal(p) for p in context.get(LimitService).list_proposals()]})


@router.post(
    "/admin/proposals/{proposal_id}/approve",
    summary="Approve a higher limit as the second admin",
    responses={200: {"model": ProposalAnswer}},
)
@endpoint(Action.SET_LIMIT)
def approve_proposal(
    context: RequestContext,
    proposal_id: str,
) -> Response:
    """Approve what another admin proposed: the limit holds from now on, and the ledger names both."""
    return json_response(
        render_proposal(context.get(LimitService).decide(proposal_id, context.principal, approve=True))
    )


@router.post(
    "/admin/proposals/{proposal_id}/reject",
    summary="Reject a proposed limit, or take it back (admin)",
    responses={200: {"model": ProposalAnswer}},
)
@endpoint(Action.SET_LIMIT)
def reject_proposal(
    context: RequestContext,
    proposal_id: str,
) -> Response:
    """Reject a proposal."""
    return json_response(
        render_proposal(context.get(LimitService).decide(proposal_id, context.principal, approve=False))
    )
