"""Stored rows: written, read back, and mapped."""

import random
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from curator_service.datasets.batches import MARK
from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.conformance import LEVELS, MARKS, NUMBERS
from curator_service.datasets.parts import PartWriter, StoredRows
from curator_service.datasets.repository import Dataset
from curator_service.datasets.snapshot import Storage, new_part_id
from curator_service.privacy.lattice import RowArray


def store_rows(folder: Path, stored: Mapping[str, Any], capacity: int) -> StoredRows:
    """Write columns of numbers as a part of a capacity; marks among them are written as they are."""
    names = [name for name in stored if name != MARK]
    with closing(PartWriter(folder, new_part_id(), names, capacity)) as writer:
        writer.add(stored, len(next(iter(stored.values()))))
        part = writer.finish()
    if MARK in stored:
        part.overwrite(folder, MARK, 0, stored[MARK])
    return StoredRows(folder, (part,), capacity)


def map_rows(kernel: RowKernel, stored: Mapping[str, Any], count: int) -> RowArray:
    """Return the mapped rows, all of which count."""
    rows = np.empty((count, kernel.width), dtype=np.float64, order="F")
    kernel.map(stored, np.ones(count, dtype=np.bool_), rows)
    return rows


def read_columns(storage: Storage, dataset: Dataset) -> dict[str, Any]:
    """Return the stored numbers of every row by column, the marks too."""
    names = storage.about(dataset.folder).parts[0].columns
    batches = [stored for stored, _count in storage.iterate_rows(dataset.folder, names)]
    return {name: np.concatenate([stored[name] for stored in batches]) for name in (*names, MARK)}


def special_rows(count: int) -> dict[str, Any]:
    """Return stored rows with special and ordinary values, under the columns of the engines' table."""
    source = random.Random(11)
    stored: dict[str, Any] = {
        name: [
            source.choice(NUMBERS) if source.random() < 0.4 else source.randint(-(2**30), 2**30) for _ in range(count)
        ]
        for name in ("omitted", "flagged", "centred", "ties", "decimals")
    }
    stored["level"] = [source.choice(LEVELS[:4]) for _ in range(count)]
    stored["flag"] = [source.choice((0, 1)) for _ in range(count)]
    stored[MARK] = [source.choice(MARKS) for _ in range(count)]
    return {name: np.array(values, dtype=np.int32) for name, values in stored.items()}
