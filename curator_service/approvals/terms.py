"""Terms of proposals other than limits: a new population, or a permit."""

import operator
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, model_validator

from curator_service.entries.rules import Rules
from curator_service.kit.clock import timestamp
from curator_service.kit.wire import STRICT, Line, Name, is_absent
from curator_service.ledger.schemas import VIEW_DELTA, PriceModel
from curator_service.privacy.adjacency import Adjacency


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
    """The terms of a permit.

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
    rules : dict
        Rules for each release, by their names.
    """

    model_config = STRICT

    project: Name | Annotated[str, StringConstraints(max_length=0)] = ""
    people: Names
    datasets: Names
    purpose: Line = ""
    legal_basis: Line = ""
    conditions: Line = ""
    limit: PriceModel | None = Field(None, exclude_if=is_absent)
    expires_at: Annotated[str, AfterValidator(_read_moment)] | None = Field(None, exclude_if=is_absent)
    rules: Rules = Field({}, exclude_if=operator.not_)

    @model_validator(mode="after")
    def _check_project(self) -> Self:
        if self.project and not (self.purpose and self.legal_basis and self.expires_at):
            raise ValueError("a project states its purpose, its legal_basis and expires_at")
        if not self.project and len(self.people) != 1:
            raise ValueError("without a project a permit is for one analyst")
        return self


class PopulationTerms(BaseModel):
    """The budget that people are given, and how it is counted; fixed for good, but for the limit."""

    model_config = STRICT

    adjacency: Annotated[Adjacency, Field(strict=False)]
    accountant: Literal["gdp", "zcdp", "pure"] = "gdp"
    limit: PriceModel
    delta: Annotated[float, Field(ge=0, lt=1)] = VIEW_DELTA
