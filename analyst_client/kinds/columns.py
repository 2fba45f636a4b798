"""Columns that an answer lists, declared and computed, and how its other members name them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from analyst_client.schema.columns import Column, DerivedColumn
from analyst_client.schema.wire import Fields


def read_columns(body: Fields, features: Mapping[str, Column] | None = None) -> dict[str, Column]:
    """Read the columns that an answer lists, declared, as features and computed, by name."""
    declared = {column.name: column for column in body.each("columns", Column.read)} if body.has("columns") else {}
    derived = (
        body.each("derived", lambda fields: DerivedColumn.read_of(fields, declared)) if body.has("derived") else ()
    )
    return declared | dict(features or {}) | {column.name: column for column in derived}


def column_namer(columns: Mapping[str, Column]) -> Callable[[Any], str | None]:
    """Return what finds the name of the column that a value names, or computes by an expression."""
    names = {json.dumps(name): name for name in columns}
    names |= {json.dumps(c.expression.to_json()): c.name for c in columns.values() if isinstance(c, DerivedColumn)}
    return lambda value: names.get(json.dumps(value))


def column_finder(body: Fields) -> Callable[[Fields, str, Any], Column]:
    """Return what finds the column that a member of an answer names; it raises `ServiceError` where none is listed."""
    columns = read_columns(body)
    name_of = column_namer(columns)

    def find_column(fields: Fields, member: str, stated: Any) -> Column:
        name = name_of(stated)
        if name is None:
            raise fields.fault(member, "one of the listed columns")
        return columns[name]

    return find_column
