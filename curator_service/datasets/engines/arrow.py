"""Raw declared values in batches of Arrow: what a cluster holds, cut to the stored lattice where it lies, and summed.

A registration refuses a value that breaks the manifest. Here there is none: a pass must not fail for a value, or an
analyst could tell. So each value becomes something of the lattice, by itself and the declaration, as bounds rest on.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.numpy import tile_rows
from curator_service.datasets.manifest import Manifest
from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.lattice import MISSING, IntArray, StoredArray, to_stored


@dataclass(frozen=True, slots=True)
class ClusterRows:
    """Rows in Parquet on a cluster: raw values under their declared names, one row a person, never changed.

    Attributes
    ----------
    path : str
        Of a file or a folder, as the cluster names it.
    manifest : Manifest

    Raises
    ------
    ValueError
        If the manifest declares a subject, or `other` of a column: which rows of a person count, and which words are
        other ones, is decided when rows are registered.
    """

    path: str
    manifest: Manifest

    def __post_init__(self) -> None:
        """Check it."""
        if self.manifest.subject is not None:
            raise ValueError("which rows of a person count is decided at registration: declare no subject in a cluster")
        if any(column.other is not None for column in self.manifest.columns):
            raise ValueError("other words are told at registration: declare no `other` in a cluster")

    def check_type(self, name: str, found: pa.DataType) -> None:
        """Refuse a column of a type with values that have no place on the lattice.

        Raises
        ------
        ValueError
            Naming column, type and the types that would do.
        """
        wanted = _TYPES[self.manifest.by_name[name].type]
        if not any(is_one(found) for is_one in wanted.values()):
            raise ValueError(f"{self.path}: the column {name!r} is of type {found}, and must be {' or '.join(wanted)}")


_TYPES = {
    ColumnType.NUMERIC: {
        "integer": pa.types.is_integer,
        "floating": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
    },
    ColumnType.CATEGORICAL: {"string": pa.types.is_string},
    ColumnType.BOOLEAN: {"boolean": pa.types.is_boolean, "string": pa.types.is_string},
}


def store_values(column: Column, values: pa.Array) -> StoredArray:
    """Cut raw values to the stored lattice: infinities to a bound, words that are no level to no level.

    Parameters
    ----------
    values : Array
        Of a type that `ClusterRows.check_type` takes.

    Returns
    -------
    ndarray of int32, shape (n,)
    """
    if column.type is ColumnType.NUMERIC:
        numbers = pc.fill_null(pc.cast(values, pa.float64(), safe=False), float("nan"))
        return to_stored(numbers.to_numpy(zero_copy_only=False), column.lower, column.upper)
    if pa.types.is_boolean(values.type):
        values = pc.if_else(values, column.levels[1], column.levels[0])
    words = pc.utf8_trim_whitespace(values)
    codes = {level: code for code, level in enumerate(column.levels)}
    if column.type is ColumnType.BOOLEAN and column.levels == ("false", "true"):
        codes, words = codes | {"0": 0, "1": 1}, pc.utf8_lower(words)
    return np.array([codes.get(word, -1) if word else MISSING for word in words.to_pylist()], dtype=np.int32)


def sum_batches(kernel: RowKernel, manifest: Manifest, batches: Iterable[pa.RecordBatch]) -> IntArray:
    """Sum the contributions of rows in batches of raw values.

    Parameters
    ----------
    kernel : RowKernel
        Whose null rows were checked.
    batches : iterable of RecordBatch
        With the kernel's columns at least; there may be none.

    Returns
    -------
    ndarray of int64, shape (1 + entries,)
        How many rows there were, and the kernel's sum, flat.
    """
    size = tile_rows(kernel.width)
    total = np.concatenate([[0], sum_nothing(kernel).ravel()])
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            tile = batch.slice(start, size)
            stored = {name: store_values(manifest.by_name[name], tile.column(name)) for name in kernel.columns}
            mapped = np.empty((tile.num_rows, kernel.width), dtype=np.float64, order="F")
            kernel.map(stored, np.ones(tile.num_rows, dtype=np.bool_), mapped)
            total += np.concatenate([[tile.num_rows], kernel.sum(mapped).ravel()])
    return total


def sum_nothing(kernel: RowKernel) -> IntArray:
    """Return the sum of no rows."""
    return kernel.sum(np.empty((0, kernel.width), dtype=np.float64, order="F"))
