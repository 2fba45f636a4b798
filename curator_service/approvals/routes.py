"""Routes of decisions that take two people."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RETRY_KEY, RequestContext, endpoint, request_body
from curator_service.api.http import json_response
from curator_service.approvals.repository import Proposal
from curator_service.approvals.response_models import ProposalAnswer, ProposalDetailAnswer, ProposalsAnswer
from curator_service.approvals.schemas import (
    LIMIT_EXAMPLE,
    POPULATION_EXAMPLE,
    DecisionRequest,
    LimitRequest,
    PopulationRequest,
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
            "description": "A raise, or a limit that replaces another: it waits for another privacy officer",
        },
    },
    openapi_extra=request_body("LimitRequest", LIMIT_EXAMPLE) | RETRY_KEY,
)
@endpoint(Action.SET_LIMIT)
def set_limit(
    context: RequestContext,
    population: str,
) -> Response:
    """Set the limit of an account: lower at once, higher or in the place of another with a second privacy officer."""
    asked = context.call.parse(LimitRequest)
    approvals = context.get(ApprovalService)
    proposal = approvals.propose_limit(
        population,
        asked.limit.price,
        asked.reason,
        context.principal,
        replaces=asked.replaces,
        key=context.retry_key,
    )
    return json_response(ProposalAnswer.of(proposal), 202 if proposal.state == "open" else 200)


@router.post(
    "/admin/populations",
    summary="Propose to give people a budget (privacy officer)",
    status_code=202,
    responses={202: {"model": ProposalAnswer, "description": "Another privacy officer decides"}},
    openapi_extra=request_body("PopulationRequest", POPULATION_EXAMPLE) | RETRY_KEY,
)
@endpoint(Action.SET_LIMIT)
def create_population(
    context: RequestContext,
) -> Response:
    """Propose a population with its budget, which is given once."""
    asked = context.call.parse(PopulationRequest)
    approvals, key = context.get(ApprovalService), context.retry_key
    proposal = approvals.propose_population(asked.name, asked, asked.reason, context.principal, key=key)
    return json_response(ProposalAnswer.of(proposal), 202)


@router.get(
    "/admin/proposals",
    summary="Proposals and decisions, the newest first (privacy officer, auditor)",
    responses={200: {"model": ProposalsAnswer}},
)
@endpoint(Action.READ_PROPOSALS)
def list_proposals(
    context: RequestContext,
) -> Response:
    """Return what was proposed and decided."""
    return _list(context.get(ApprovalService).list_proposals())


@router.get(
    "/admin/proposals/{proposal_id}",
    summary="One proposal, with what it would change (privacy officer, auditor)",
    responses={200: {"model": ProposalDetailAnswer}},
)
@endpoint(Action.READ_PROPOSALS)
def get_proposal(
    context: RequestContext,
    proposal_id: str,
) -> Response:
    """Return a proposal with names, the terms in force now and the proposed terms."""
    return _show(context, context.get(ApprovalService).get_proposal(proposal_id))


@router.get(
    "/proposals",
    summary="What you have proposed, the newest first",
    responses={200: {"model": ProposalsAnswer}},
)
@endpoint(Action.READ_OWN_PROPOSALS)
def list_own_proposals(
    context: RequestContext,
) -> Response:
    """Return the caller's own proposals, and what was decided of them."""
    return _list(context.get(ApprovalService).list_proposals(of=context.principal.id))


@router.get(
    "/proposals/{proposal_id}",
    summary="One of your proposals, with what it would change",
    responses={200: {"model": ProposalDetailAnswer}},
)
@endpoint(Action.READ_OWN_PROPOSALS)
def get_own_proposal(
    context: RequestContext,
    proposal_id: str,
) -> Response:
    """Return one of the caller's own proposals."""
    return _show(context, context.get(ApprovalService).get_proposal(proposal_id, of=context.principal.id))


@router.post(
    "/proposals/{proposal_id}/withdraw",
    summary="Take one of your proposals back",
    responses={200: {"model": ProposalAnswer}},
)
@endpoint(Action.WITHDRAW)
def withdraw_proposal(
    context: RequestContext,
    proposal_id: str,
) -> Response:
    """Take back what one has proposed, while nobody has decided it."""
    withdrawn = context.get(ApprovalService).withdraw(proposal_id, context.principal, _read_reason(context))
    return json_response(ProposalAnswer.of(withdrawn))


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
    reason, approvals = _read_reason(context), context.get(ApprovalService)
    decided = approvals.decide(proposal_id, context.principal, approve=approve, reason=reason)
    return json_response(ProposalAnswer.of(decided))


def _read_reason(context: RequestContext) -> str:
    return context.call.parse(DecisionRequest).reason if context.call.body else ""


def _list(found: list[Proposal]) -> Response:
    return json_response(ProposalsAnswer.model_construct(proposals=[ProposalAnswer.of(one) for one in found]))


def _show(context: RequestContext, proposal: Proposal) -> Response:
    return json_response(context.get(ApprovalService).describe(proposal, context.principal))
