"""Routes of datasets: what is declared, never what is stored."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import Visit, door
from curator_service.api.http import json_response
from curator_service.datasets.schemas import render_dataset
from curator_service.identity.policy import Action
from curator_service.kit.problems import PROBLEM_RESPONSES

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], responses=PROBLEM_RESPONSES)


@router.get("", summary="The datasets that you may see")
@door(Action.READ_DATASET)
def list_datasets(
    visit: Visit,
) -> Response:
    """Return every visible dataset with its schema."""
    datasets = visit.curator.datasets
    visible = datasets.list_visible(visit.principal, visit.objects)
    return json_response({"datasets": [render_dataset(dataset, datasets.public_count(dataset)) for dataset in visible]})


@router.get("/{name}", summary="One dataset's schema, bounds and adjacency")
@door(Action.READ_DATASET)
def get_dataset(
    visit: Visit,
    name: str,
) -> Response:
    """Return one dataset's declaration."""
    dataset = visit.dataset(name)
    return json_response(render_dataset(dataset, visit.curator.datasets.public_count(dataset)))
