"""What is answered of proposals."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.kit.wire import STRICT, Digits, Moment


class ProposalAnswer(BaseModel):
    """A limit, or a registration of rows, that was set at once, or waits for another admin; amounts in units."""

    model_config = STRICT

    id: Annotated[str, Field(pattern=r"^prp_[0-9a-f]{24}$")]
    population: str
    scope: Annotated[
        Literal["", "analyst", "project", "rows"],
        Field(description="Empty for the account; `rows` where no limit is proposed, but rows that are like others"),
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


class ProposalsAnswer(BaseModel):
    """What was proposed, the newest first."""

    model_config = STRICT

    proposals: list[ProposalAnswer]
