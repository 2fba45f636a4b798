"""Acts that two people decide: proposals of limits, populations, permits and rows."""

from typing import Annotated, Literal

from pydantic import Field

from curator_service.api.acts import Acts, AtHost, Host, RetryKey
from curator_service.api.context import RequestContext
from curator_service.approvals.repository import Proposal
from curator_service.approvals.response_models import ProposalAnswer, ProposalDetailAnswer, ProposalsAnswer
from curator_service.approvals.service import ApprovalService
from curator_service.approvals.terms import PopulationTerms
from curator_service.identity.policy import Action
from curator_service.kit.wire import Line, Name, Reason
from curator_service.ledger.schemas import VIEW_DELTA, PriceModel
from curator_service.privacy.adjacency import Adjacency

acts = Acts("ledger")
ProposalId = Annotated[str, Field(description="A proposal's id.")]
Why = Annotated[Reason, Field(description="Why, for the ledger.")]
Message = Annotated[
    Reason, Field(description="A question or an answer. The register keeps it: no word about patients.")
]
Comment = Annotated[Line, Field(description="Why, for the person who proposed it.")]


@acts.route(
    Action.SET_LIMIT,
    "POST /v1/admin/populations/{population}/limits",
    "limits set",
    host=Host.HOLDER,
    key=RetryKey.OPTIONAL,
    waits="A raise, or a limit that replaces another: another privacy officer decides",
    consequence="A limit that is lowered takes two people to be raised again",
    example={"limit": {"epsilon": 1.0, "delta": 1e-06}, "reason": "half of it for the next year"},
)
def set_limit(
    context: RequestContext,
    population: Annotated[str, Field(description="Name of the population.")],
    limit: Annotated[PriceModel, Field(description="The limit.")],
    reason: Why,
    replaces: Annotated[
        bool, Field(description="Propose it in the place of a limit that was given by mistake and never used.")
    ] = False,
) -> ProposalAnswer:
    """Lower a limit at once, or propose to raise or replace it."""
    approvals, key = context.get(ApprovalService), context.retry_key
    proposal = approvals.propose_limit(population, limit.price, reason, context.principal, replaces=replaces, key=key)
    return ProposalAnswer.of(proposal)


@acts.route(
    Action.SET_LIMIT,
    "POST /v1/admin/populations",
    "populations propose",
    key=RetryKey.OPTIONAL,
    status=202,
    waits="Another privacy officer decides",
    example={
        "name": "olmsted",
        "adjacency": "add_remove",
        "limit": {"epsilon": 3.0, "delta": 1e-06},
        "reason": "the cohort of 1995",
    },
)
def propose_population(
    context: RequestContext,
    name: Annotated[Name, Field(description="A name for the people, such as 'olmsted'.")],
    adjacency: Annotated[Adjacency, Field(strict=False, description="Neighbour relation of datasets; fixed for good.")],
    limit: Annotated[PriceModel, Field(description="The budget.")],
    reason: Why,
    accountant: Annotated[
        Literal["gdp", "zcdp", "pure"], Field(description="Unit of the account; fixed for good.")
    ] = "gdp",
    delta: Annotated[
        float, Field(ge=0, lt=1, description="Delta at which epsilon is shown."), AtHost(float, "--view-delta")
    ] = VIEW_DELTA,
) -> ProposalAnswer:
    """Propose a population with its budget, which another privacy officer approves."""
    terms = PopulationTerms(adjacency=adjacency, accountant=accountant, limit=limit, delta=delta)
    approvals, key = context.get(ApprovalService), context.retry_key
    return ProposalAnswer.of(approvals.propose_population(name, terms, reason, context.principal, key=key))


@acts.route(Action.READ_PROPOSALS, "GET /v1/admin/proposals", "proposals list", host=Host.OPERATOR)
def list_proposals(context: RequestContext) -> ProposalsAnswer:
    """List proposals and decisions, the newest first."""
    return _list(context.get(ApprovalService).list_proposals())


@acts.route(Action.READ_PROPOSALS, "GET /v1/admin/proposals/{proposal_id}", "proposals show", host=Host.OPERATOR)
def get_proposal(context: RequestContext, proposal_id: ProposalId) -> ProposalDetailAnswer:
    """Show a proposal, the terms in force now and the proposed terms."""
    return _show(context, context.get(ApprovalService).get_proposal(proposal_id))


@acts.route(Action.READ_OWN_PROPOSALS, "GET /v1/proposals", "proposals own")
def list_own_proposals(context: RequestContext) -> ProposalsAnswer:
    """List your own proposals and their decisions, the newest first."""
    return _list(context.get(ApprovalService).list_proposals(of=context.principal.id))


@acts.route(Action.READ_OWN_PROPOSALS, "GET /v1/proposals/{proposal_id}", "proposals show-own")
def get_own_proposal(context: RequestContext, proposal_id: ProposalId) -> ProposalDetailAnswer:
    """Show one of your own proposals, the terms in force now and the proposed terms."""
    return _show(context, context.get(ApprovalService).get_proposal(proposal_id, of=context.principal.id))


@acts.route(Action.WITHDRAW, "POST /v1/proposals/{proposal_id}/withdraw", "proposals withdraw", host=Host.HOLDER)
def withdraw_proposal(
    context: RequestContext,
    proposal_id: ProposalId,
    reason: Annotated[Line, Field(description="Why, for the register.")] = "",
) -> ProposalAnswer:
    """Take back a proposal of your own, before anybody has decided it."""
    return ProposalAnswer.of(context.get(ApprovalService).withdraw(proposal_id, context.principal, reason))


@acts.route(
    Action.SET_LIMIT,
    "POST /v1/admin/proposals/{proposal_id}/messages",
    "proposals ask-back",
    host=Host.HOLDER,
    key=RetryKey.OPTIONAL,
    example={"text": "Why does a half of it not do?"},
)
def ask_about_proposal(context: RequestContext, proposal_id: ProposalId, text: Message) -> ProposalDetailAnswer:
    """Ask something about a proposal that waits; whoever made it reads it, and may answer."""
    approvals = context.get(ApprovalService)
    return _show(context, approvals.say(proposal_id, text, context.principal, key=context.retry_key))


@acts.route(
    Action.DISCUSS,
    "POST /v1/proposals/{proposal_id}/messages",
    "proposals answer",
    host=Host.HOLDER,
    key=RetryKey.OPTIONAL,
    example={"text": "The intervals would be twice as long."},
)
def answer_about_proposal(context: RequestContext, proposal_id: ProposalId, text: Message) -> ProposalDetailAnswer:
    """Answer what was asked about a proposal of your own that waits, or add something to it."""
    approvals, by = context.get(ApprovalService), context.principal
    return _show(context, approvals.say(proposal_id, text, by, of=by.id, key=context.retry_key))


@acts.route(
    Action.SET_LIMIT,
    "POST /v1/admin/proposals/{proposal_id}/approve",
    "proposals approve",
    host=Host.HOLDER,
    consequence="An approved proposal holds at once, and the ledger names you",
)
def approve_proposal(context: RequestContext, proposal_id: ProposalId, reason: Comment = "") -> ProposalAnswer:
    """Approve another person's proposal: a permit, a limit, a population, or rows like those of another one.

    It holds from now on, and the ledger names both people.
    """
    return _decide(context, proposal_id, reason, approve=True)


@acts.route(Action.SET_LIMIT, "POST /v1/admin/proposals/{proposal_id}/reject", "proposals reject", host=Host.HOLDER)
def reject_proposal(context: RequestContext, proposal_id: ProposalId, reason: Comment = "") -> ProposalAnswer:
    """Reject a proposal, or take back your own."""
    return _decide(context, proposal_id, reason, approve=False)


def _decide(context: RequestContext, proposal_id: str, reason: str, *, approve: bool) -> ProposalAnswer:
    approvals = context.get(ApprovalService)
    return ProposalAnswer.of(approvals.decide(proposal_id, context.principal, approve=approve, reason=reason))


def _list(found: list[Proposal]) -> ProposalsAnswer:
    return ProposalsAnswer.model_construct(proposals=[ProposalAnswer.of(one) for one in found])


def _show(context: RequestContext, proposal: Proposal) -> ProposalDetailAnswer:
    return context.get(ApprovalService).describe(proposal, context.principal)
