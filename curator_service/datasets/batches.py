"""Batches of stored rows: what sources yield, snapshots hold and engines read."""

from collections.abc import Sequence
from dataclasses import dataclass

from curator_service.datasets.pseudonyms import PseudonymArray
from curator_service.privacy.lattice import StoredArray

MARK = "#counts"
"""The column that marks which rows count, where the manifest declares a subject. No declared name begins so."""
Batch = tuple[dict[str, StoredArray], int]
"""Stored integers by column, and the number of rows."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Rows of a source, checked against a manifest.

    Attributes
    ----------
    stored : dict of str to ndarray of int32, shape (n,)
        Stored integers by declared column.
    subjects : sequence of str or None
        Whose row each is, folded so that look-alikes are equal; None where the manifest declares no subject.
    count : int
        n.
    pseudonyms : ndarray of void, shape (n,), or None
        What is stored of the subjects; None where nothing is.
    """

    stored: dict[str, StoredArray]
    subjects: Sequence[str] | None
    count: int
    pseudonyms: PseudonymArray | None = None
