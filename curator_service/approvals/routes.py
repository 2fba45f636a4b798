"""Routes of decisions that take two people."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RequestContext, endpoint, request_body
from curator_service.api.http import json_response
from curator_service.approvals.response_models import ProposalAnswer, ProposalsAnswer
from curator_service.approvals.schemas import (
    LIMIT_EXAMPLE,
    POPULATION_EXAMPLE,
    DecisionRequest,
    LimitRequest,
    PopulationRequest,
    render_proposal,
)
from curator_service.approvals.service import ApprovalService
from curator_service.identity.policy import Action
from curator_service.kit.problems import PROBLEM_RESPONSES

router = APIRouter(prefix="/v1", tags=["ledger"], responses=PROBLEM_RESPONSES)


@router.post(
    "/admin/populations/{population}/limits",
    summary="Lower a limit, or propose to raise it (privacy officer)",
    status_code=200,
    responses={
        200: {"model": ProposalAnswer},
        202: {
            "model": ProposalAnswer,
            "description": "A raise, which waits for the approval of another privacy officer",
        },
    },
    openapi_extra=request_body("LimitRequest", LIMIT_EXAMPLE),
)
@endpoint(Action.SET_LIMIT)
def set_limit(
    context: RequestContext,
    population: str,
) -> Response:
    """Set the limit of an account: lower at once, higher with a second privacy officer."""
    asked = context.call.parse(LimitRequest)
    approvals = context.get(ApprovalService)
    proposal = approvals.propose_limit(population, asked.limit.price, asked.reason, context.principal)
    return json_response(render_proposal(proposal), 202 if proposal.state == "open" else 200)


@router.post(
    "/admin/populations",
    summary="Propose to give people a budget (privacy officer)",
    status_code=202,
    responses={202: {"model": ProposalAnswer, "description": "Another privacy officer decides"}},
    openapi_extra=request_body("PopulationRequest", POPULATION_EXAMPLE),
)
@endpoint(Action.SET_LIMIT)
def create_population(
    context: RequestContext,
) -> Response:
    """Propose a population with its budget, which is given once."""
    asked = context.call.parse(PopulationRequest)
    proposal = context.get(ApprovalService).propose_population(asked.name, asked, asked.reason, context.principal)
    return json_response(render_proposal(proposal), 202)


@router.get(
    "/admin/proposals",
    summary="What was proposed and decided, the newest first (privacy officer)",
    responses={200: {"model": ProposalsAnswer}},
)
@endpoint(Action.READ_PROPOSALS)
def list_proposals(
    context: RequestContext,
) -> Response:
    """Return what was proposed and decided."""
    return json_response({"proposals": [render_proposal(p) for p in context.get(ApprovalService).list_proposals()]})


@router.post(
    "/admin/proposals/{proposal_id}/approve",
    summary="Approve what somebody else proposed (privacy officer)",
    responses={200: {"model": ProposalAnswer}},
)
@endpoint(Action.SET_LIMIT)
def approve_proposal(
    context: RequestContext,
    proposal_id: str,
) -> Response:
    """Approve what somebody else proposed: it holds from now on, and the ledger names both."""
    return _decide(context, proposal_id, approve=True)


@router.post(
    "/admin/proposals/{proposal_id}/reject",
    summary="Reject a proposal, or take it back (privacy officer)",
    responses={200: {"model": ProposalAnswer}},
)
@endpoint(Action.SET_LIMIT)
def reject_proposal(
    context: RequestContext,
    proposal_id: str,
) -> Response:
    """Reject a proposal."""
    return _decide(context, proposal_id, approve=False)


def _decide(context: RequestContext, proposal_id: str, *, approve: bool) -> Response:
    reason = context.call.parse(DecisionRequest).reason if context.call.body else ""
    approvals = context.get(ApprovalService)
    decided = approvals.decide(proposal_id, context.principal, approve=approve, reason=reason)
    return json_response(render_proposal(decided))
