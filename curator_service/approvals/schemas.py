"""Requests for proposals, as JSON."""

from curator_service.approvals.terms import PopulationTerms
from curator_service.kit.wire import STRICT, Name, Reason


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


LIMIT_EXAMPLE = {
    "limit": {"epsilon": 1.0, "delta": 1e-06},
    "reason": "half of it for the next year",
}
