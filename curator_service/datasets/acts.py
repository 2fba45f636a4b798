"""Acts of datasets: what is declared, never what is stored; and what is left of their populations' budgets."""

from typing import Annotated, Any

from pydantic import Field

from curator_service.api.acts import Acts
from curator_service.api.context import RequestContext
from curator_service.datasets.repository import Dataset
from curator_service.datasets.response_models import DatasetAnswer, DatasetsAnswer
from curator_service.datasets.service import DatasetNotFound, DatasetService
from curator_service.datasets.versions import VersionService
from curator_service.identity.policy import Action
from curator_service.kit.names import NAME
from curator_service.ledger.response_models import AccountModel, BudgetAnswer
from curator_service.ledger.service import LedgerService

acts = Acts("datasets")
DatasetName = Annotated[str, Field(description="Name of the dataset.")]


@acts.route(Action.READ_DATASET, "GET /v1/datasets", "datasets list")
def list_datasets(context: RequestContext) -> DatasetsAnswer:
    """List the datasets that you may see, each with its declaration."""
    visible = context.get(DatasetService).list_visible(context.principal, context.objects)
    return DatasetsAnswer.model_construct(datasets=[_state(context, dataset) for dataset in visible])


@acts.route(Action.READ_DATASET, "GET /v1/datasets/{name}", "datasets show")
def get_dataset(context: RequestContext, name: DatasetName) -> DatasetAnswer:
    """Show one dataset's declaration: columns, bounds, adjacency."""
    return _state(context, find_dataset(context, name))


@acts.route(Action.READ_BUDGET, "GET /v1/datasets/{name}/budget", answer=BudgetAnswer)
def get_budget(context: RequestContext, name: DatasetName) -> dict[str, Any]:
    """Show what was spent of the budget of a dataset's population, and what remains."""
    dataset = find_dataset(context, name)
    ledger = context.get(LedgerService)
    population, checkpoint = ledger.get_population(dataset.population), ledger.get_checkpoint(dataset.population)
    return {"dataset": dataset.name} | dict(AccountModel.of(population)) | {"checkpoint": checkpoint.payload}


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
