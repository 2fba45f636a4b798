"""A table whose sums are known, and the check that an engine gives them: before the first pass, on this machine.

Its thousand rows follow from the formulas here, not from chance: values at which rounding ties or nearly does, bounds
and what is beyond them, what only a damaged file holds, raw values that are no number or hardly one, and marks that
count or do not. The sums are literals, and were made by another program, in Python's integers.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from curator_service.datasets.batches import MARK
from curator_service.datasets.engines.base import Engine, RowKernel
from curator_service.datasets.parts import PartWriter, RowsUnreadable, StoredRows
from curator_service.privacy.design import Column, ColumnType, MissingRule
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT, StoredArray, to_stored
from curator_service.privacy.selftest import SelfTestError

ROWS, CAPACITY = 1000, 1234
_PARTS = (0, 1, 700, ROWS)
"""Where the table is cut: parts of one row, of many, and with room for null rows."""

LARGEST = 2**31 - 1
"""The largest number of a file."""
_STEPS = (0, 1, 2, UNIT // 2, UNIT - 1)
_NEAR_TIES = [(2 * step + 1) * 2**29 // UNIT + side for step in _STEPS for side in (0, 1)]
NUMBERS = [0, *(sign * size for size in (1, 2**29, STORED_UNIT - 1, STORED_UNIT, *_NEAR_TIES) for sign in (1, -1))]
"""Stored numbers: nothing, one, the only tie of rounding to the request's lattice, what is nearest to one, bounds."""
NUMBERS += [MISSING, MISSING, MISSING, STORED_UNIT + 1, -STORED_UNIT - 1, LARGEST, -LARGEST]
LEVELS = [0, 1, 2, MISSING, 3, -1, LARGEST]
FLAGS = [0, 1, MISSING, 2, -1]
MARKS = [1, 1, 1, 1, 0, 1, 1, 1, 2, 1, -1, 1, 1, 1, MISSING, 1, LARGEST]

NUMBERLESS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1e308, -1.7e308]
TIES = [(2 * k + 1) / 2**31 for k in (0, 1, -1, -2, 2, 2**29, 2**30 - 1, -(2**30), 2**30)]
"""Raw values, between -1 and 1, half-way between two stored numbers."""
DECIMALS = [0.1, 0.7, 0.4, 0.25, 0.3, 0.1 - 2.0**-56, 0.7 + 2.0**-53, 0.7 - 2.0**-53, 0.4 + 2.0**-54, 1 / 3, 0.6999999]

_NUMERIC = ColumnType.NUMERIC
COLUMNS = {
    column.name: column
    for column in (
        Column("omitted", _NUMERIC, MissingRule.OMIT, -1.0, 1.0),
        Column("flagged", _NUMERIC, MissingRule.INDICATOR, -1.0, 1.0),
        Column("centred", _NUMERIC, MissingRule.MIDPOINT, -1.0, 1.0),
        Column("ties", _NUMERIC, MissingRule.MIDPOINT, -1.0, 1.0),
        Column("decimals", _NUMERIC, MissingRule.INDICATOR, 0.1, 0.7),
        Column("level", ColumnType.CATEGORICAL, MissingRule.INDICATOR, levels=("a", "b", "c")),
        Column("flag", ColumnType.BOOLEAN, MissingRule.OMIT, levels=("no", "yes")),
    )
}
"""The declarations of the table."""
RAW = {"ties": NUMBERLESS + TIES, "decimals": NUMBERLESS + DECIMALS}
"""Columns that are stored from raw values."""


@dataclass(frozen=True, slots=True)
class KnownSums:
    """A kernel over the columns of the table, and what it sums to.

    Attributes
    ----------
    name : str
    kernel : RowKernel
    sums : tuple of int
        Flat.
    """

    name: str
    kernel: RowKernel
    sums: tuple[int, ...]


def read_known_sums(beside: str, kind: str, kernels: Mapping[str, RowKernel]) -> tuple[KnownSums, ...]:
    """Read the sums of a kind's kernels from `conformance.json` beside a module; no engine gives what is not there."""
    sums = json.loads(Path(beside).with_name("conformance.json").read_text(encoding="utf-8"))
    return tuple(KnownSums(f"{kind}, {name}", kernel, tuple(sums.get(name, ()))) for name, kernel in kernels.items())


def spread(row: int, column: int) -> int:
    """Return a number of the whole lattice: multiples of a prime go through it."""
    return (row + 1) * 2654435761 * (2 * column + 1) % (2**31 + 1) - 2**30


def make_table() -> dict[str, StoredArray]:
    """Return the columns of the table as they are stored, and its marks."""
    rows = range(ROWS)
    stored: dict[str, Any] = {
        name: [NUMBERS[(7 * j + 3) * i % len(NUMBERS)] if (i + j) % 3 else spread(i, j) for i in rows]
        for j, name in enumerate(("omitted", "flagged", "centred"))
    }
    for name, values in RAW.items():
        column = COLUMNS[name]
        stored[name] = to_stored(np.array([values[i % len(values)] for i in rows]), column.lower, column.upper)
    stored["level"] = [LEVELS[(i * 3 + i // 7) % len(LEVELS)] for i in rows]
    stored["flag"] = [FLAGS[(i * 2 + i // 11) % len(FLAGS)] for i in rows]
    stored[MARK] = [MARKS[i % len(MARKS)] for i in rows]
    return {name: np.array(values, dtype=np.int32) for name, values in stored.items()}


def write_table(folder: Path) -> StoredRows:
    """Store the table, in parts."""
    table, parts = make_table(), []
    for start, stop in pairwise(_PARTS):
        capacity = CAPACITY - start if stop == ROWS else stop - start
        with closing(PartWriter(folder, f"rows_{start}", list(COLUMNS), capacity)) as writer:
            writer.add({name: numbers[start:stop] for name, numbers in table.items()}, stop - start)
            part = writer.finish()
        part.overwrite(folder, MARK, 0, table[MARK][start:stop])  # damaged ones too
        parts.append(part)
    return StoredRows(folder, tuple(parts), CAPACITY)


def check_engine(engine: Engine, known: list[KnownSums], folder: Path) -> None:
    """Refuse an engine that does not give the sums that are known.

    Parameters
    ----------
    folder : Path
        Empty; one that the engine sees.

    Raises
    ------
    SelfTestError
        Naming the engine and the kernel.
    """
    rows = write_table(folder)
    for case in known:
        try:
            found = engine.sum(case.kernel, rows)
        except RowsUnreadable:
            raise _refused(engine, f"cannot sum the rows whose sums are known ({case.name})") from None
        if found.dtype != np.int64 or found.ravel().tolist() != list(case.sums):
            raise _refused(engine, f"does not give the sums that are known ({case.name})")


def _refused(engine: Engine, why: str) -> SelfTestError:
    return SelfTestError(f"self-test failed: the engine {engine.name!r} {why}. Nothing is released on this machine.")
