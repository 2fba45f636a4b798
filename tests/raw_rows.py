"""The table of the engines' check as raw values, as a cluster would hold them: every row counts."""

from typing import Any

import numpy as np
import pyarrow as pa

from curator_service.datasets.batches import MARK
from curator_service.datasets.columns.base import COLUMN_TYPES, ColumnDeclaration
from curator_service.datasets.engines.conformance import CAPACITY, COLUMNS, RAW, ROWS, make_table
from curator_service.datasets.manifest import Manifest
from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.lattice import MISSING, STORED_UNIT


def declare(column: Column) -> ColumnDeclaration:
    bounds: dict[str, Any] = {"lower": column.lower, "upper": column.upper}
    public = bounds if column.is_number else {"levels": column.levels}
    return COLUMN_TYPES[column.type](name=column.name, type=column.type, missing=column.missing, **public)


MANIFEST = Manifest(
    name="rows", population="town", row_capacity=CAPACITY, columns=tuple(map(declare, COLUMNS.values()))
)


def raw_values(name: str, stored: Any) -> list[Any]:
    """Return values that are stored so, or as near to it as values can be."""
    if name in RAW:
        return [RAW[name][i % len(RAW[name])] for i in range(ROWS)]
    if COLUMNS[name].type is ColumnType.NUMERIC:
        return [None if number == MISSING else number / STORED_UNIT for number in stored.tolist()]
    words = {MISSING: None, **dict(enumerate(COLUMNS[name].levels))}
    return [words.get(code, "no level") for code in stored.tolist()]


def raw_table() -> pa.Table:
    """Return raw values by column."""
    table = make_table()
    return pa.table({name: raw_values(name, table[name]) for name in COLUMNS})


def counted_table() -> dict[str, Any]:
    """Return the same as stored numbers: raw values beyond the bounds are stored as the bound, and no level as −1."""
    table = {name: np.clip(stored, -STORED_UNIT, STORED_UNIT) for name, stored in make_table().items()}
    for name, column in COLUMNS.items():
        if column.type is not ColumnType.NUMERIC:
            table[name] = np.where((table[name] >= 0) & (table[name] < len(column.levels)), table[name], -1)
    table = {name: np.where(stored == MISSING, MISSING, table[name]) for name, stored in make_table().items()}
    return table | {MARK: np.ones(ROWS, dtype=np.int32)}
