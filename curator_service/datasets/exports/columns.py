"""Columns in the words of a catalogue."""

from curator_service.datasets.columns.base import ColumnDeclaration
from curator_service.privacy.design import MissingRule

_MISSING = {
    MissingRule.OMIT: "May be missing: the row then counts for nothing that asks this column",
    MissingRule.MIDPOINT: "May be missing: the midpoint, or no category, stands for it",
    MissingRule.INDICATOR: "May be missing: a column of its own says so",
    MissingRule.COMPLETE: "Never missing",
}


def describe_column(declared: ColumnDeclaration) -> str:
    """Return a column's description, its public range with the unit, and what a missing value means, as sentences."""
    described = declared.description.strip().rstrip(".")
    sentences = (described, declared.public_range, _MISSING[declared.missing])
    return " ".join(f"{sentence}." for sentence in sentences if sentence)
