"""Batches of stored rows: what sources yield, snapshots hold and engines read."""

from curator_service.privacy.lattice import StoredArray

MARK = "#counts"
"""The column that marks which rows count, where the manifest declares a subject. No declared name begins so."""
Batch = tuple[dict[str, StoredArray], int]
"""Stored integers by column, and the number of rows."""
