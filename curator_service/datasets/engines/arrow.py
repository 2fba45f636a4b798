"""Raw declared values in batches of Arrow: what a cluster holds, cut to the stored lattice where it lies, and summed.

A registration refuses a value that breaks the manifest. Here there is none: a pass must not fail for a value, or an
analyst could tell. So each value becomes something of the lattice, by itself and the declaration, as bounds rest on.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.numpy import tile_rows
from curator_service.datasets.manifest import Manifest
from curator_service.privacy.lattice import IntArray


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
        if any(column.takes_any_word for column in self.manifest.columns):
            raise ValueError("other words are told at registration: declare no `other` in a cluster")

    def check_type(self, name: str, found: pa.DataType) -> None:
        """Refuse a column of a type with values that have no place on the lattice.

        Raises
        ------
        ValueError
            Naming column, type and the types that would do.
        """
        wanted = self.manifest.declared[name].raw_types
        if not any(is_one(found) for is_one in wanted.values()):
            raise ValueError(f"{self.path}: the column {name!r} is of type {found}, and must be {' or '.join(wanted)}")


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
            stored = {name: manifest.declared[name].store(tile.column(name)) for name in kernel.columns}
            mapped = np.empty((tile.num_rows, kernel.width), dtype=np.float64, order="F")
            kernel.map(stored, np.ones(tile.num_rows, dtype=np.bool_), mapped)
            total += np.concatenate([[tile.num_rows], kernel.sum(mapped).ravel()])
    return total


def sum_nothing(kernel: RowKernel) -> IntArray:
    """Return the sum of no rows."""
    return kernel.sum(np.empty((0, kernel.width), dtype=np.float64, order="F"))
