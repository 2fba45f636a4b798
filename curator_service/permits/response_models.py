"""Answers on permits."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from curator_service.entries.rules import Rules
from curator_service.kit.problem_models import ProblemModel
from curator_service.kit.wire import Absent, Answer, Digits, Moment, left_out
from curator_service.ledger.response_models import AmountModel
from curator_service.permits.repository import Permit
from curator_service.permits.spending import Spent


class PermitAnswer(Answer):
    """A permit: people, datasets, purpose, limit and end."""

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
    rules: Rules | Absent = left_out()

    @classmethod
    def of(cls, permit: Permit) -> "PermitAnswer":
        """State a permit."""
        terms = permit.terms
        return cls.model_construct(
            id=permit.id,
            version=permit.version,
            project=terms.project,
            people=sorted(permit.people.values()),
            datasets=sorted(permit.datasets.values()),
            purpose=terms.purpose,
            legal_basis=terms.legal_basis,
            conditions=terms.conditions,
            limits={name: None if units is None else str(units) for name, units in permit.limits.items()},
            granted_at=permit.granted_at,
            expires_at=terms.expires_at,
            ended_at=permit.ended_at or None,
            rules=terms.rules or None,
        )


class OtherUseModel(Answer):
    """A dataset that an analyst may use by another permit; from `expires_at` on only to read."""

    analyst: str
    dataset: str
    permit: Annotated[str, Field(pattern=r"^prm_[0-9a-f]{24}$")]
    project: str
    expires_at: Moment | None


class EndedPermitAnswer(PermitAnswer):
    """A permit that was ended, and what its people may still use by others."""

    still_usable: list[OtherUseModel]

    @classmethod
    def of_ended(cls, permit: Permit, still_usable: list[OtherUseModel]) -> "EndedPermitAnswer":
        """State a permit that was ended."""
        return cls.model_construct(**dict(PermitAnswer.of(permit)), still_usable=still_usable)


class PermitsAnswer(Answer):
    """Permits, the newest first."""

    items: ClassVar[str] = "permits"
    permits: list[PermitAnswer]


class SpentAnswer(Answer):
    """The sum of a group of charges of one population."""

    population: str
    analyst: str | Absent = left_out()
    project: str | Absent = left_out()
    dataset: str | Absent = left_out()
    kind: str | Absent = left_out()
    month: str | Absent = left_out()
    charges: int
    spent: Annotated[
        AmountModel, Field(description="The sum of these charges. It bounds what was learnt so far under `pure` alone")
    ]

    @classmethod
    def of(cls, spent: Spent) -> "SpentAnswer":
        """State a sum of charges."""
        group: dict[str, Any] = {by.value: name for by, name in spent.group.items()}
        amount = AmountModel.of(spent.population.view(spent.units))
        return cls.model_construct(population=spent.population.name, charges=spent.charges, spent=amount, **group)


class SpendingAnswer(Answer):
    """Sums of charges, by population and group."""

    items: ClassVar[str] = "spending"
    spending: list[SpentAnswer]


class PermitNeededProblem(ProblemModel):
    """No permit, or more than one, lets the caller use the dataset."""

    type: Literal["/problems/permit-needed"]
    projects: list[str]
