"""Routes of the ledger: budgets for whoever may see a dataset, entries for auditors."""

from fastapi import APIRouter, Response

from curator_service.doors import Visit, door, page_parameters
from curator_service.http import json_response
from curator_service.identity.policy import Action
from curator_service.ledger.schemas import render_budget
from curator_service.names import NAME
from curator_service.problems import PROBLEM_RESPONSES, NotFound

router = APIRouter(prefix="/v1", tags=["ledger"], responses=PROBLEM_RESPONSES)


@router.get("/datasets/{name}/budget", summary="What was spent and what remains")
@door(Action.READ_BUDGET)
def get_budget(
    visit: Visit,
    name: str,
) -> Response:
    """Return the account of a dataset's population."""
    dataset = visit.dataset(name)
    population = visit.curator.ledger.get_population(dataset.population)
    return json_response({"dataset": dataset.name, **render_budget(population)})


@router.get(
    "/ledger/{population}",
    summary="The entries of a population's chain (auditor)",
    openapi_extra=page_parameters("entries"),
)
@door(Action.READ_LEDGER)
def list_entries(
    visit: Visit,
    population: str,
) -> Response:
    """Return a page of entries after a sequence, each with its hash."""
    if not NAME.fullmatch(population):
        raise NotFound("There is no population of this name.")
    account = visit.curator.ledger.get_population(population)
    after, count = visit.page()
    entries = visit.curator.ledger.list_entries(population, after=after, count=count)
    return json_response({**render_budget(account), "entries": entries})
