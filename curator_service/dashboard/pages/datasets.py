"""Datasets: what is declared of each, and its versions."""

from fastapi import APIRouter, Response

from curator_service.dashboard.page import PageContext, page
from curator_service.datasets.response_models import DatasetAnswer
from curator_service.datasets.service import DatasetNotFound, DatasetService
from curator_service.datasets.versions import VersionService
from curator_service.identity.policy import Action
from curator_service.kit.names import NAME
from curator_service.ledger import search
from curator_service.ledger.service import LedgerService

router = APIRouter(prefix="/admin")
PAGE = 50
VERSIONS = 100


@router.get("/datasets")
@page(Action.READ_DATASET)
def show_datasets(context: PageContext) -> Response:
    """Show the datasets that whoever looks may see."""
    asked = context.browser.query.get("q", "").strip()
    visible = context.get(DatasetService).list_visible(context.principal, context.objects)
    found = [one for one in visible if asked.lower() in one.name.lower() or asked.lower() in one.population.lower()]
    start = context.count("start", 0)
    return context.render(
        "datasets.html",
        datasets=found[start : start + PAGE],
        asked=asked,
        start=start,
        page_size=PAGE,
        found=len(found),
    )


@router.get("/datasets/{name}")
@page(Action.READ_DATASET)
def show_dataset(context: PageContext, name: str) -> Response:
    """Show one dataset's declaration, and its versions as far as the ledger may be read."""
    if not NAME.fullmatch(name):
        raise DatasetNotFound("There is no dataset of this name among those that you were granted.")
    datasets = context.get(DatasetService)
    dataset = datasets.get_visible(context.principal, context.objects, name)
    due = context.get(VersionService).due(dataset)
    versions = []
    if context.may(Action.READ_LEDGER):
        population = context.get(LedgerService).get_population(dataset.population)
        said = [("kind", "dataset"), ("dataset_id", dataset.id)]
        with context.services.database.read() as connection:
            found, _ = search.list_entries_that_say(
                connection, dataset.population, said, before=population.sequence + 1, count=VERSIONS
            )
        versions = [payload for _, payload in found]
    return context.render(
        "dataset.html",
        dataset=DatasetAnswer.of(dataset, datasets.public_count(dataset), datasets.kinds, due),
        library=dataset.manifest.library,
        versions=versions,
    )
