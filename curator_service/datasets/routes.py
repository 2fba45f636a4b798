"""Routes of datasets: what is declared, never what is stored."""

from fastapi import APIRouter, Response

from curator_service.api.endpoint import RequestContext, endpoint
from curator_service.api.http import json_response
from curator_service.datasets.schemas import render_dataset
from curator_service.identity.policy import Action
from curator_service.kit.problems import PROBLEM_RESPONSES

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], responses=PROBLEM_RESPONSES)


@router.get("", summary="The datasets that you may see")
@endpoint(Action.READ_DATASET)
def list_datasets(
    context: RequestContext,
) -> Response:
    """Return every visible dataset with its schema."""
    datasets = context.curator.datasets
    visible = datasets.list_visible(context.principal, context.objects)
    return json_response({"datasets": [render_dataset(dataset, datasets.public_count(dataset)) for dataset in visible]})


@router.get("/{name}", summary="One dataset's schema, bounds and adjacency")
@endpoint(Action.READ_DATASET)
def get_dataset(
    context: RequestContext,
    name: str,
) -> Response:
    """Return one dataset's declaration."""
    dataset = context.dataset(name)
    return json_response(render_dataset(dataset, context.curator.datasets.public_count(dataset)))
