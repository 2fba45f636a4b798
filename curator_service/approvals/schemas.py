"""Proposed limits as JSON."""

import json
from typing import Any

from pydantic import BaseModel

from curator_service.approvals.repository import Proposal
from curator_service.approvals.service import ProposalDetail
from curator_service.approvals.terms import PopulationTerms
from curator_service.kit.wire import STRICT, Line, Name, Reason
from curator_service.ledger.schemas import PriceModel, render_amount


class LimitRequest(BaseModel):
    """A limit to set of an account."""

    model_config = STRICT

    limit: PriceModel
    reason: Reason
    replaces: bool = False


class PopulationRequest(PopulationTerms):
    """People to give a budget."""

    model_config = STRICT

    name: Name
    reason: Reason


POPULATION_EXAMPLE = {
    "name": "olmsted",
    "adjacency": "add_remove",
    "limit": {"epsilon": 3.0, "delta": 1e-06},
    "reason": "the cohort of 1995",
}


class DecisionRequest(BaseModel):
    """Why a proposal is approved or rejected."""

    model_config = STRICT

    reason: Line = ""


LIMIT_EXAMPLE = {
    "limit": {"epsilon": 1.0, "delta": 1e-06},
    "reason": "half of it for the next year",
}


def render_detail(detail: ProposalDetail) -> dict[str, Any]:
    """Return a proposal as JSON with names, and with what it would change as it is now and as it would be."""
    proposal, account = detail.proposal, detail.account
    content = render_proposal(proposal) | {"proposer": detail.proposed_by, "decider": detail.decided_by or None}
    if detail.before is not None:
        content["before"] = detail.before
    if account is not None:
        units = {"from": proposal.was, "to": proposal.limit, "spent_and_held": account.posted + account.pending}
        content["amounts"] = {name: render_amount(account.view(amount)) for name, amount in units.items()}
    return content


def render_proposal(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal as JSON; amounts in the account's units."""
    return {
        "id": proposal.id,
        "population": proposal.population,
        "scope": proposal.scope,
        "label": proposal.label,
        "limit_units": str(proposal.limit),
        "from_units": None if proposal.was < 0 else str(proposal.was),
        "reason": proposal.reason,
        "proposed_by": proposal.proposed_by,
        "proposed_at": proposal.proposed_at,
        "state": proposal.state,
        "decided_by": proposal.decided_by,
        "decided_at": proposal.decided_at,
        **({"decision": proposal.decision} if proposal.decision else {}),
        **({"terms": json.loads(proposal.content)} if proposal.content else {}),
    }
