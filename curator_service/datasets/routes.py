"""Routes of datasets: what is declared, never what is stored."""

from typing import Any

from fastapi import APIRouter, Response

from curator_service.datasets.repository import Dataset
from curator_service.doors import Visit, door
from curator_service.http import json_response
from curator_service.identity.policy import Action
from curator_service.privacy.adjacency import Adjacency
from curator_service.releases.service import render_column

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])


def render_dataset(dataset: Dataset) -> dict[str, Any]:
    """Return a dataset's public declaration as JSON; the row count only where it is public."""
    manifest = dataset.manifest
    return {
        "name": dataset.name,
        "description": manifest.description,
        "population": dataset.population,
        "adjacency": dataset.adjacency,
        "row_capacity": manifest.row_capacity,
        "rows": dataset.row_count if dataset.adjacency is Adjacency.REPLACE_ONE else None,
        "columns": [render_column(c.column) | {"description": c.description} for c in manifest.columns],
        "kinds": ["gram"],
        "row_maps": ["box", "ball"],
    }


@router.get("", summary="The datasets that you may see")
@door(Action.READ_DATASET)
def list_datasets(
    visit: Visit,
) -> Response:
    """Return every visible dataset with its schema."""
    datasets = visit.curator.datasets.list_visible(visit.principal, visit.objects)
    return json_response({"datasets": [render_dataset(dataset) for dataset in datasets]})


@router.get("/{name}", summary="One dataset's schema, bounds and adjacency")
@door(Action.READ_DATASET)
def get_dataset(
    visit: Visit,
    name: str,
) -> Response:
    """Return one dataset's declaration."""
    return json_response(render_dataset(visit.dataset(name)))
