"""Routes of the ledger: budgets for whoever may see a dataset, entries for auditors."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RequestContext, endpoint, page_parameters, request_body
from curator_service.api.http import json_response
from curator_service.identity.policy import Action
from curator_service.kit.names import NAME
from curator_service.kit.problems import PROBLEM_RESPONSES, NotFound
from curator_service.ledger.repository import Population
from curator_service.ledger.schemas import LIMIT_EXAMPLE, LimitRequest, render_budget, render_key, render_proposal

router = APIRouter(prefix="/v1", tags=["ledger"], responses=PROBLEM_RESPONSES)


@router.get("/datasets/{name}/budget", summary="What was spent and what remains")
@endpoint(Action.READ_BUDGET)
def get_budget(
    context: RequestContext,
    name: str,
) -> Response:
    """Return the account of a dataset's population."""
    dataset = context.dataset(name)
    population = context.curator.ledger.get_population(dataset.population)
    checkpoint = context.curator.ledger.get_checkpoint(dataset.population)
    return json_response({"dataset": dataset.name, **render_budget(population), "checkpoint": checkpoint.facts})


@router.get(
    "/ledger/{population}",
    summary="The entries of a population's chain (auditor)",
    openapi_extra=page_parameters("entries"),
)
@endpoint(Action.READ_LEDGER)
def list_entries(
    context: RequestContext,
    population: str,
) -> Response:
    """Return a page of entries after a sequence, each with its hash."""
    account = _population(context, population)
    after, count = context.page()
    entries = context.curator.ledger.list_entries(population, after=after, count=count)
    return json_response({**render_budget(account), "entries": entries})


@router.get("/ledger/{population}/checkpoint", summary="The signed checkpoint of a chain's head (auditor)")
@endpoint(Action.READ_LEDGER)
def get_checkpoint(
    context: RequestContext,
    population: str,
) -> Response:
    """Return what is signed of the last entry: whoever keeps it can tell later whether the ledger was wound back."""
    _population(context, population)
    return json_response({"checkpoint": context.curator.ledger.get_checkpoint(population).facts})


@router.get("/admin/seal", summary="Whether the curator is sealed, since when and why (auditor)")
@endpoint(Action.READ_LEDGER)
def get_seal(
    context: RequestContext,
) -> Response:
    """Return why releases are refused; an empty reason means that they are not."""
    reason, since = context.curator.ledger.guard.status()
    return json_response({"sealed": bool(reason), "reason": reason, "since": since or None})


@router.get("/keys", summary="The curator's public keys, each endorsed by the one before")
@endpoint(Action.READ_KEYS)
def list_keys(
    context: RequestContext,
) -> Response:
    """Return every key that ever signed a receipt, the oldest first."""
    keys = context.curator.keys.list_keys()
    return json_response({"keys": [render_key(key) for key in keys], "active": keys[-1].key_id if keys else None})


@router.post(
    "/admin/populations/{population}/limits",
    summary="Lower a limit, or propose to raise it (admin)",
    status_code=200,
    responses={202: {"description": "A raise, which waits for the approval of another admin"}},
    openapi_extra=request_body("LimitRequest", LIMIT_EXAMPLE),
)
@endpoint(Action.SET_LIMIT)
def set_limit(
    context: RequestContext,
    population: str,
) -> Response:
    """Set the limit of an account, of an analyst or of a project: lower at once, higher with a second admin."""
    asked = context.call.parse(LimitRequest)
    limits = context.curator.limits
    proposal = limits.propose(population, asked.scope, asked.label, asked.limit.price, asked.reason, context.principal)
    return json_response(render_proposal(proposal), 202 if proposal.state == "open" else 200)


@router.get("/admin/proposals", summary="Proposed limits, the newest first (admin)")
@endpoint(Action.SET_LIMIT)
def list_proposals(
    context: RequestContext,
) -> Response:
    """Return what was proposed and decided."""
    return json_response({"proposals": [render_proposal(p) for p in context.curator.limits.list_proposals()]})


@router.post("/admin/proposals/{proposal_id}/approve", summary="Approve a higher limit as the second admin")
@endpoint(Action.SET_LIMIT)
def approve_proposal(
    context: RequestContext,
    proposal_id: str,
) -> Response:
    """Approve what another admin proposed: the limit holds from now on, and the ledger names both."""
    return json_response(render_proposal(context.curator.limits.decide(proposal_id, context.principal, approve=True)))


@router.post("/admin/proposals/{proposal_id}/reject", summary="Reject a proposed limit, or take it back (admin)")
@endpoint(Action.SET_LIMIT)
def reject_proposal(
    context: RequestContext,
    proposal_id: str,
) -> Response:
    """Reject a proposal."""
    return json_response(render_proposal(context.curator.limits.decide(proposal_id, context.principal, approve=False)))


def _population(context: RequestContext, name: str) -> Population:
    if not NAME.fullmatch(name):
        raise NotFound("There is no population of this name.")
    return context.curator.ledger.get_population(name)
