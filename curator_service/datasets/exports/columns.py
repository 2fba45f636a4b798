"""Columns in the words of a catalogue."""

from curator_service.datasets.manifest import ColumnDeclaration
from curator_service.privacy.design import ColumnType, MissingRule

_MISSING = {
    MissingRule.OMIT: "May be missing: the row then counts for nothing that asks this column",
    MissingRule.MIDPOINT: "May be missing: the midpoint, or no category, stands for it",
    MissingRule.INDICATOR: "May be missing: a column of its own says so",
    MissingRule.COMPLETE: "Never missing",
}


def describe_column(declared: ColumnDeclaration) -> str:
    """Return a column's description, its public range with the unit, and what a missing value means, as sentences."""
    column = declared.column
    if column.type is ColumnType.NUMERIC:
        unit = f" {column.unit}" if column.unit else ""
        public = f"From {column.lower:g} to {column.upper:g}{unit}; values beyond count as the bound"
    else:
        public = f"One of: {', '.join(column.levels)}"
    described = declared.description.strip().rstrip(".")
    return " ".join(f"{sentence}." for sentence in (described, public, _MISSING[column.missing]) if sentence)
