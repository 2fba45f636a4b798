"""What is answered of proposals."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.approvals.terms import PermitTerms, PopulationTerms
from curator_service.kit.wire import STRICT, Digits, Moment, left_out


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
    state: Literal["open", "approved", "rejected", "applied", "superseded"]
    decided_by: str | None
    decided_at: Moment | None
    decision: Annotated[str, Field(description="Why it was approved or rejected")] = left_out()
    terms: Annotated[PermitTerms | PopulationTerms, Field(description="A permit's, or a new population's")] = left_out()


class ProposalsAnswer(BaseModel):
    """What was proposed, the newest first."""

    model_config = STRICT

    proposals: list[ProposalAnswer]
