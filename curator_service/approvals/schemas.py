"""Requests for proposals and decisions, as JSON."""

from pydantic import BaseModel

from curator_service.approvals.terms import PopulationTerms
from curator_service.kit.wire import STRICT, Line, Name, Reason
from curator_service.ledger.schemas import PriceModel


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
