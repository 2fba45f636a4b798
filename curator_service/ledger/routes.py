"""Routes of the ledger: budgets for whoever may see a dataset, entries for auditors."""

import re
from typing import Annotated

from fastapi import APIRouter, Query, Response

from curator_service.datasets.manifest import NAME_PATTERN
from curator_service.doors import Visit, door
from curator_service.http import json_response
from curator_service.identity.policy import Action
from curator_service.ledger.schemas import render_budget
from curator_service.problems import NotFound

router = APIRouter(prefix="/v1", tags=["ledger"])
_NAME = re.compile(NAME_PATTERN)


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


@router.get("/ledger/{population}", summary="The entries of a population's chain (auditor)")
@door(Action.READ_LEDGER)
def list_entries(
    visit: Visit,
    population: str,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return a page of entries after a sequence, each with its hash."""
    if not _NAME.fullmatch(population):
        raise NotFound("There is no population of this name.")
    account = visit.curator.ledger.get_population(population)
    entries = visit.curator.ledger.list_entries(population, after=after, count=limit)
    return json_response({**render_budget(account), "entries": entries})
