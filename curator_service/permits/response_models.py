"""What is answered of permits."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.kit.problem_models import ProblemModel
from curator_service.kit.wire import STRICT, Digits, Moment, left_out
from curator_service.ledger.response_models import AmountModel


class PermitAnswer(BaseModel):
    """Who may spend, what of, what for, how much and until when."""

    model_config = STRICT

    id: Annotated[str, Field(pattern=r"^prm_[0-9a-f]{24}$")]
    version: int
    project: Annotated[str, Field(description="What requests name it by; empty for a plain grant")]
    people: list[str]
    datasets: list[str]
    purpose: str
    legal_basis: str
    conditions: str
    limits: Annotated[
        dict[str, Digits | None],
        Field(description="Of each population what may be spent of it, in units; null for all of it"),
    ]
    granted_at: Moment
    expires_at: Annotated[Moment | None, Field(description="From then on nothing is charged")]
    ended_at: Annotated[Moment | None, Field(description="When it was ended before its time")]


class OtherUseModel(BaseModel):
    """A dataset that an analyst may use by another permit; from `expires_at` on only to read."""

    model_config = STRICT

    analyst: str
    dataset: str
    permit: Annotated[str, Field(pattern=r"^prm_[0-9a-f]{24}$")]
    project: str
    expires_at: Moment | None


class EndedPermitAnswer(PermitAnswer):
    """A permit that was ended, and what its people may still use by others."""

    still_usable: list[OtherUseModel]


class PermitsAnswer(BaseModel):
    """Permits, the newest first."""

    model_config = STRICT

    permits: list[PermitAnswer]


class SpentAnswer(BaseModel):
    """What a group of charges of one population adds up to."""

    model_config = STRICT

    population: str
    analyst: str = left_out()
    project: str = left_out()
    dataset: str = left_out()
    kind: str = left_out()
    month: str = left_out()
    charges: int
    spent: Annotated[
        AmountModel, Field(description="The sum of these charges. It bounds what was learnt so far under `pure` alone")
    ]


class SpendingAnswer(BaseModel):
    """What was charged, by population and group."""

    model_config = STRICT

    spending: list[SpentAnswer]


class PermitNeededProblem(ProblemModel):
    """No permit, or more than one, lets the caller use the dataset."""

    type: Literal["/problems/permit-needed"]
    projects: list[str]
