"""Columns as JSON: what is public of them."""

from typing import Any

from curator_service.privacy.design import Column


def render_column(column: Column) -> dict[str, Any]:
    """Return a column's public declaration as JSON."""
    public = {"lower": column.lower, "upper": column.upper} if column.is_number else {"levels": list(column.levels)}
    return {"name": column.name, "type": column.type, "unit": column.unit, **public, "missing": column.missing}
