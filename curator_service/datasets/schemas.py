"""Declarations as JSON: what is public of a dataset."""

from typing import Any

from curator_service.datasets.repository import Dataset
from curator_service.privacy.accountant import PURE
from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.row_maps import ROW_MAPS


def render_dataset(dataset: Dataset, public_count: int | None, kinds: list[str], due: str) -> dict[str, Any]:
    """Return a dataset's public declaration as JSON.

    Parameters
    ----------
    dataset : Dataset
    public_count : int or None
        Of rows or persons, where it is public.
    kinds : list of str
        Kinds of release that may be asked of it.
    due : str
        When its next version begins.
    """
    manifest = dataset.manifest
    return {
        "name": dataset.name,
        "description": manifest.description,
        "population": dataset.population,
        **({"same_people_as": manifest.same_people_as} if manifest.same_people_as else {}),
        "adjacency": dataset.adjacency,
        "accountant": dataset.accountant.name,
        "row_capacity": manifest.row_capacity,
        "rows_per_person": manifest.rows_per_person,
        "rows": public_count,
        "columns": [
            render_column(c.column) | {"description": c.description} | ({"whole": True} if c.whole else {})
            for c in manifest.columns
        ],
        "kinds": kinds,
        "row_maps": ROW_MAPS,
        "mechanisms": ["laplace"] if dataset.accountant is PURE else ["gaussian", "laplace"],
        "version": dataset.version,
        "snapshot": dataset.commitment,
        "since": dataset.cut_at or None,
        "until": None if dataset.is_retired else due,
        "ended": dataset.retired_at or None,
        "successor": dataset.successor or None,
    }


def render_column(column: Column) -> dict[str, Any]:
    """Return a column's public declaration as JSON."""
    numeric = column.type is ColumnType.NUMERIC
    public: dict[str, Any] = {"lower": column.lower, "upper": column.upper} if numeric else {"levels": column.levels}
    return {"name": column.name, "type": column.type, "unit": column.unit, **public, "missing": column.missing}
