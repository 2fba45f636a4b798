"""A pass over stored rows beside what plain numpy does with the same files.

Rows are drawn once and stored as the curator stores them: `COLUMNS` numeric columns, of which the last is the target.
Then, in turn within each round, in processor time: the pass of a `ball` request over the stored file; the same job in
float numpy from the same file (scale, find missing values, norms, clip, product), in tiles of the same size; and the
bare float product of the same rows, which lie in memory as float64. Each round gives ratios; the table states their
median and quartiles.

    python -m bench.scale [--rows 100000 1000000 10000000] [--rounds 7]
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bench.gram import milliseconds, ratio, take_turns
from curator_service.datasets.engines import numpy as engine
from curator_service.datasets.parts import PartWriter, StoredRows
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.privacy.design import Column, ColumnType, MissingRule, make_design
from curator_service.privacy.lattice import MISSING, STORED_UNIT, IntArray
from curator_service.privacy.row_maps import Ball

COLUMNS, NORM = 12, 1.5
NAMES = [f"v{i}" for i in range(COLUMNS)]
DECLARED = [Column(name, ColumnType.NUMERIC, MissingRule.OMIT, -1.0, 1.0) for name in NAMES]
KERNEL = GramKernel(make_design(tuple(DECLARED[:-1]), (DECLARED[-1],), intercept=True), Ball.of_norm(NORM))
_DRAWN = 2**16
IN_MEMORY_MAX = 10_000_000


def store(folder: Path, rows: int) -> StoredRows:
    """Draw rows and store them."""
    rng = np.random.default_rng(rows)
    writer = PartWriter(folder, f"part_{rows}", NAMES, rows)
    for start in range(0, rows, _DRAWN):
        count = min(_DRAWN, rows - start)
        drawn = rng.integers(-STORED_UNIT, STORED_UNIT, size=(COLUMNS, count), dtype=np.int32, endpoint=True)
        writer.add(dict(zip(NAMES, drawn, strict=True)), count)
    part = writer.finish()
    writer.close()
    return StoredRows(folder, (part,), rows)


def float_tiles(rows: StoredRows, size: int) -> Iterator[tuple[Any, Any]]:
    """Yield rows as a float matrix, one row of it for each term: constant, features, target; and which are whole."""
    (part,) = rows.parts
    stored = np.memmap(part.rows_path(rows.folder), "<i4", "r", shape=(COLUMNS + 1, part.capacity))
    tile = np.empty((COLUMNS + 1, size))
    for start in range(0, part.rows, size):
        values, marks = stored[:COLUMNS, start : start + size], stored[COLUMNS, start : start + size]
        found = tile[:, : len(marks)]
        found[0] = 1
        np.multiply(values, 1 / STORED_UNIT, out=found[1:])
        yield found, (values != MISSING).all(axis=0) & (marks == 1)


def float_pass(rows: StoredRows, size: int) -> Any:
    """Do in float numpy what a pass does: rows that miss a value count for nothing; nothing is exact."""
    total = np.zeros((COLUMNS + 1, COLUMNS + 1))
    for tile, whole in float_tiles(rows, size):
        norms = np.sqrt(np.einsum("ij,ij->j", tile[:-1], tile[:-1]))
        np.multiply(tile, np.minimum(1, NORM / norms) * whole, out=tile)
        total += tile @ tile.T
    return total


def exact_pass(rows: StoredRows) -> IntArray:
    """Run a pass as the curator does."""
    return engine.NumpyEngine().sum(KERNEL, rows)


def bare_product(rows: StoredRows) -> Callable[[], object]:
    """Return the product alone of rows that lie in memory."""
    whole = np.concatenate([tile.copy() for tile, _ in float_tiles(rows, _DRAWN)], axis=1)
    return lambda: whole @ whole.T


def measure(folder: Path, rows: int, rounds: int) -> str:
    """Return a line of the table."""
    stored, size = store(folder, rows), engine.tile_rows(KERNEL.width)
    acts: dict[str, Callable[[], object]] = {
        "exact": lambda: exact_pass(stored),
        "float": lambda: float_pass(stored, size),
    }
    if rows <= IN_MEMORY_MAX:
        acts["bare"] = bare_product(stored)
    seconds = take_turns(acts, rounds)
    stored.parts[0].rows_path(folder).unlink()
    entries = rows * KERNEL.width
    beside = [
        ratio(seconds["exact"], seconds[name]) if name in seconds else "not in memory" for name in ("float", "bare")
    ]
    shown = [milliseconds(seconds[name]) if name in seconds else "" for name in ("exact", "float", "bare")]
    per_entry = 1e9 * sorted(seconds["exact"])[rounds // 2] / entries
    return f"| {rows:,} | {' | '.join(shown)} | {per_entry:.1f} ns | {' | '.join(beside)} |"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    print(f"{COLUMNS} columns and a constant, `ball` of norm {NORM}; {os.cpu_count()} processors, one thread\n")
    print("| rows | pass | float numpy | bare product | pass per number | over float numpy | over the product |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, user_api="blas"):
        for rows in asked.rows:
            print(measure(Path(folder), rows, asked.rounds), flush=True)


if __name__ == "__main__":
    main()
