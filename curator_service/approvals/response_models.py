"""What is answered of proposals."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.approvals.terms import PermitTerms, PopulationTerms
from curator_service.kit.wire import STRICT, Digits, Moment, left_out
from curator_service.ledger.response_models import AmountModel


class ProposalAnswer(BaseModel):
    """A limit, a permit, or rows to register: carried out at once, or waiting for somebody else; amounts in units."""

    model_config = STRICT

    id: Annotated[str, Field(pattern=r"^prp_[0-9a-f]{24}$")]
    population: str
    scope: Annotated[
        Literal["", "population", "analyst", "project", "permit", "rows"],
        Field(
            description="Empty for the account's limit; `rows` where rows that are like others were confirmed; earlier "
            "versions set limits of analysts and projects"
        ),
    ]
    label: str
    limit_units: Digits
    from_units: Annotated[Digits | None, Field(description="Null where there was no limit")]
    reason: str
    proposed_by: str
    proposed_at: Moment
    state: Literal["open", "approved", "rejected", "applied", "superseded", "withdrawn", "expired", "unattested"]
    decided_by: str | None
    decided_at: Moment | None
    decision: Annotated[str, Field(description="Why it was approved or rejected")] = left_out()
    terms: Annotated[PermitTerms | PopulationTerms, Field(description="A permit's, or a new population's")] = left_out()


class LimitChange(BaseModel):
    """A limit as it was when another one was asked for, as it would be, and what is spent and held."""

    model_config = STRICT

    before: Annotated[AmountModel, Field(alias="from")]
    to: AmountModel
    spent_and_held: AmountModel


class ProposalDetailAnswer(ProposalAnswer):
    """A proposal with names, and with what it would change."""

    proposer: str
    decider: str | None
    before: Annotated[PermitTerms, Field(description="Of an open change, the permit's terms as they are now")] = (
        left_out()
    )
    amounts: LimitChange = left_out()


class ProposalsAnswer(BaseModel):
    """What was proposed, the newest first."""

    model_config = STRICT

    proposals: list[ProposalAnswer]
