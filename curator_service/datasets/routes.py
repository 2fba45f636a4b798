"""Routes of datasets: what is declared, never what is stored; and what is left of their populations' budgets."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RequestContext, endpoint
from curator_service.api.http import json_response
from curator_service.datasets.repository import Dataset
from curator_service.datasets.response_models import DatasetAnswer, DatasetsAnswer
from curator_service.datasets.service import DatasetNotFound, DatasetService
from curator_service.datasets.versions import VersionService
from curator_service.identity.policy import Action
from curator_service.kit.names import NAME
from curator_service.kit.problems import PROBLEM_RESPONSES
from curator_service.ledger.response_models import AccountModel, BudgetAnswer
from curator_service.ledger.service import LedgerService

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], responses=PROBLEM_RESPONSES)


@router.get("", summary="The datasets that you may see", responses={200: {"model": DatasetsAnswer}})
@endpoint(Action.READ_DATASET)
def list_datasets(
    context: RequestContext,
) -> Response:
    """Return every visible dataset with its schema."""
    visible = context.get(DatasetService).list_visible(context.principal, context.objects)
    return json_response(DatasetsAnswer.model_construct(datasets=[_state(context, dataset) for dataset in visible]))


@router.get("/{name}", summary="One dataset's schema, bounds and adjacency", responses={200: {"model": DatasetAnswer}})
@endpoint(Action.READ_DATASET)
def get_dataset(
    context: RequestContext,
    name: str,
) -> Response:
    """Return one dataset's declaration."""
    return json_response(_state(context, find_dataset(context, name)))


@router.get("/{name}/budget", summary="What was spent and what remains", responses={200: {"model": BudgetAnswer}})
@endpoint(Action.READ_BUDGET)
def get_budget(
    context: RequestContext,
    name: str,
) -> Response:
    """Return the account of a dataset's population."""
    dataset = find_dataset(context, name)
    ledger = context.get(LedgerService)
    population, checkpoint = ledger.get_population(dataset.population), ledger.get_checkpoint(dataset.population)
    account = {"dataset": dataset.name} | dict(AccountModel.of(population))
    return json_response(account | {"checkpoint": checkpoint.payload})


def find_dataset(context: RequestContext, name: str) -> Dataset:
    """Return a dataset that the caller may see, when the ledger was held against what the caller saw of it.

    Raises
    ------
    DatasetNotFound
    """
    if not NAME.fullmatch(name):
        raise DatasetNotFound("There is no dataset of this name among those that you were granted.")
    dataset = context.get(DatasetService).get_visible(context.principal, context.objects, name)
    context.get(LedgerService).client_checkpoints.receive(context.call.checkpoint, dataset.population)
    return dataset


def _state(context: RequestContext, dataset: Dataset) -> DatasetAnswer:
    datasets, due = context.get(DatasetService), context.get(VersionService).due(dataset)
    return DatasetAnswer.of(dataset, datasets.public_count(dataset), datasets.kinds, due)
