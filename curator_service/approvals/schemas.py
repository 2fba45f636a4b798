"""Proposed limits as JSON."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, StringConstraints, model_validator

from curator_service.approvals.repository import Proposal
from curator_service.kit.names import NAME_PATTERN
from curator_service.kit.wire import STRICT
from curator_service.ledger.schemas import PriceModel


class LimitRequest(BaseModel):
    """A limit to set: of the account, of an analyst or of a project."""

    model_config = STRICT

    limit: PriceModel
    scope: Literal["", "analyst", "project"] = ""
    label: Annotated[str, StringConstraints(pattern=NAME_PATTERN)] | Literal[""] = ""
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]

    @model_validator(mode="after")
    def _check_label(self) -> Self:
        if bool(self.scope) is not bool(self.label):
            raise ValueError("name an analyst or a project with scope and label together, or neither for the account")
        return self


LIMIT_EXAMPLE = {
    "limit": {"epsilon": 1.0, "delta": 1e-06},
    "scope": "analyst",
    "label": "ada",
    "reason": "a quarter of the budget each",
}


def render_proposal(proposal: Proposal) -> dict[str, Any]:
    """Return a proposed limit as JSON; amounts in the account's units."""
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
    }
