"""Permits as JSON: what is asked for, and what holds."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, model_validator

from curator_service.kit.clock import timestamp
from curator_service.kit.wire import STRICT, Line, Name, Reason
from curator_service.ledger.schemas import PriceModel


def _read_moment(text: str) -> str:
    """Return a moment as the ledger writes it."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return timestamp(moment)
    except (ValueError, OverflowError):
        pass
    raise ValueError("write a moment as RFC 3339 has it, with its offset: 2027-03-01T00:00:00Z")


def _sorted(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError("a name stands here twice")
    return sorted(names)


Names = Annotated[list[Name], Field(min_length=1, max_length=100), AfterValidator(_sorted)]


class PermitTerms(BaseModel):
    """What a permit says.

    Attributes
    ----------
    project : str
        What requests name it by; empty for a plain grant to one analyst.
    people, datasets : list of str
        Names: who may spend, and what of.
    purpose, legal_basis, conditions : str
    limit : PriceModel or None
        The part of each population's budget that may be spent under it; all of it if None.
    expires_at : str or None
        From then on nothing is charged.
    """

    model_config = STRICT

    project: Name | Annotated[str, StringConstraints(max_length=0)] = ""
    people: Names
    datasets: Names
    purpose: Line = ""
    legal_basis: Line = ""
    conditions: Line = ""
    limit: PriceModel | None = None
    expires_at: Annotated[str, AfterValidator(_read_moment)] | None = None

    @model_validator(mode="after")
    def _check_project(self) -> Self:
        if self.project and not (self.purpose and self.legal_basis and self.expires_at):
            raise ValueError("a project states its purpose, its legal_basis and expires_at")
        if not self.project and len(self.people) != 1:
            raise ValueError("without a project a permit is for one analyst")
        return self


class PermitRequest(PermitTerms):
    """A permit that is asked for, or a change of one."""

    model_config = STRICT

    reason: Reason


PERMIT_EXAMPLE: dict[str, Any] = {
    "project": "kidney-2027",
    "people": ["ada", "ben"],
    "datasets": ["flchain"],
    "purpose": "Which blood values foretell kidney disease",
    "legal_basis": "Art. 53(1)(e) Regulation (EU) 2025/327",
    "limit": {"epsilon": 1.0, "delta": 1e-06},
    "expires_at": "2027-12-31T23:59:59Z",
    "reason": "the study of protocol 2027-14",
}
