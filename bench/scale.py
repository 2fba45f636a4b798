"""A pass over stored rows beside what plain numpy does with the same files, from 10⁵ rows on.

Rows are drawn once and stored as the curator stores them: `COLUMNS` numeric columns, of which the last is the target.
Then, in turn within each round, in processor time: the pass of a `ball` request over the stored file; the same job in
float numpy from the same file (scale, find missing values, norms, clip, product), in tiles of the same size; and the
bare float product of the same rows, which lie in memory as float64. Each round gives ratios; the table states their
median and quartiles.

A second table is of the clock: the same pass from a disk, with nothing of the file in memory, and from memory by one
thread, and by the engines that share its rows, with as many threads, processes or tasks as there are processors; by
Spark's where that is installed, on this machine alone. What it says of the
largest file, by the row, times 10¹⁰ is the plan below it. A figure of both is `build/bench/scale.svg`.

    python -m bench.scale [--rows 100000 1000000 10000000] [--rounds 7] [--large] [--folder DIR]

`--large` adds 10⁸ rows. Each file, of 52 bytes a row, is written once below DIR, or where temporary files are, and
deleted when it is measured; where it would leave less than 8 GiB free it is not written.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from bench.gram import ratio, take_turns
from bench.run import OUTPUT
from curator_service.datasets.engines.base import Engine
from curator_service.datasets.engines.numpy import NumpyEngine, tile_rows
from curator_service.datasets.engines.processes import ProcessEngine
from curator_service.datasets.parts import PartWriter, StoredRows
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.privacy.design import Column, ColumnType, MissingRule, make_design
from curator_service.privacy.lattice import MISSING, STORED_UNIT
from curator_service.privacy.row_maps import Ball

COLUMNS, NORM = 12, 1.5
NAMES = [f"v{i}" for i in range(COLUMNS)]
DECLARED = [Column(name, ColumnType.NUMERIC, MissingRule.OMIT, -1.0, 1.0) for name in NAMES]
KERNEL = GramKernel(make_design(tuple(DECLARED[:-1]), (DECLARED[-1],), intercept=True), Ball.of_norm(NORM))
_DRAWN = 2**16
ACTS = ("pass", "float numpy", "bare product")
IN_MEMORY_MAX, LARGE, PLANNED = 10_000_000, 100_000_000, 10**10
FREE_BYTES_LEFT = 2**33
"""What a disk keeps free beside a file of rows, or it is not written."""


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


def bare_product(rows: StoredRows) -> Callable[[], object]:
    """Return the product alone of rows that lie in memory."""
    whole = np.concatenate([tile.copy() for tile, _ in float_tiles(rows, _DRAWN)], axis=1)
    return lambda: whole @ whole.T


def store_where_there_is_room(folder: Path, rows: int) -> StoredRows | None:
    """Store rows; None where the disk would be too full."""
    needed = rows * (COLUMNS + 1) * 4
    return store(folder, rows) if shutil.disk_usage(folder).free > needed + FREE_BYTES_LEFT else None


def on_the_clock(act: Callable[[], object], rounds: int, before: Callable[[], object] = lambda: None) -> float:
    """Return the median of the seconds that something takes."""
    taken: list[float] = []
    for _ in range(rounds):
        before()
        start = time.perf_counter()
        act()
        taken.append(time.perf_counter() - start)
    return median(taken)


def forget(rows: StoredRows) -> None:
    """Let the system drop a file from memory."""
    descriptor = os.open(rows.parts[0].rows_path(rows.folder), os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Measured:
    """Duration of passes over so many rows, in seconds: of the processor, and on the clock."""

    rows: int
    size: int
    processor: dict[str, list[float]]
    clock: dict[str, float]

    def processor_line(self) -> str:
        """Return a line of the first table."""
        shown = [f"{median(self.processor[name]):.3g} s" if name in self.processor else "" for name in ACTS]
        exact = self.processor["pass"]
        beside = [ratio(exact, self.processor[name]) if name in self.processor else "" for name in ACTS[1:]]
        per_number = f"{1e9 * median(exact) / self.rows / KERNEL.width:.1f} ns"
        return f"| {' | '.join([f'{self.rows:,}', *shown, per_number, *beside])} |"

    def clock_line(self, rows: int) -> str:
        """Return a line of the second table, of as many rows or by proportion of more."""
        times = rows / self.rows
        shown = [f"{times * taken:,.3g} s" for taken in self.clock.values()]
        return f"| {' | '.join([f'{rows:,}', f'{times * self.size / 1e9:,.3g} GB', *shown])} |"


def make_engines(workers: int) -> dict[str, Engine]:
    """Return the engines that share a pass between workers."""
    engines: dict[str, Engine] = {"threads": NumpyEngine(workers), "processes": ProcessEngine(workers)}
    if find_spec("pyspark") is not None:
        from curator_service.datasets.engines.spark import SparkEngine  # noqa: PLC0415 -- an extra

        os.environ.setdefault(
            "PYSPARK_SUBMIT_ARGS", f"--master local[{workers}] --conf spark.ui.enabled=false pyspark-shell"
        )
        engines["Spark"] = SparkEngine(workers)
    return engines


def measure(folder: Path, rows: int, rounds: int, engines: Mapping[str, Engine]) -> Measured | None:
    """Store rows, take turns on them, and delete them."""
    stored = store_where_there_is_room(folder, rows)
    if stored is None:
        return None
    size = tile_rows(KERNEL.width)
    acts: dict[str, Callable[[], object]] = {
        "pass": lambda: NumpyEngine().sum(KERNEL, stored),
        "float numpy": lambda: float_pass(stored, size),
    }
    if rows <= IN_MEMORY_MAX:
        acts["bare product"] = bare_product(stored)
    processor = take_turns(acts, rounds)
    once = min(rounds, 3)
    clock = {
        "from a disk": on_the_clock(acts["pass"], once, lambda: forget(stored)),
        "one thread": on_the_clock(acts["pass"], once),
        **{name: on_the_clock(lambda made=made: made.sum(KERNEL, stored), once) for name, made in engines.items()},
    }
    stored.parts[0].rows_path(folder).unlink()
    return Measured(rows, stored.parts[0].size, processor, clock)


def draw_figure(found: Sequence[Measured], path: Path) -> None:
    """Draw seconds by rows, both on logarithmic axes: a straight line of slope 1 is what grows with the rows alone."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name in ACTS:
        points = [(one.rows, median(one.processor[name])) for one in found if name in one.processor]
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{name}, processor")
    for name in found[0].clock:
        points = [(one.rows, one.clock[name]) for one in found]
        axes.plot(*zip(*points, strict=True), marker=".", linestyle=":", label=f"{name}, clock")
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    axes.legend(fontsize="small")
    figure.savefig(path)


def main() -> None:
    """Measure, print both tables and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", action="store_true", help=f"measure {LARGE:,} rows too")
    parser.add_argument("--folder", type=Path, help="where files of rows are written")
    asked = parser.parse_args()
    workers = os.cpu_count() or 1
    found: list[Measured] = []
    print(f"{COLUMNS} columns and a constant, `ball` of norm {NORM}; {workers} processors, one thread\n")
    print("| rows | pass | float numpy | bare product | pass per number | over float numpy | over the product |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    engines = make_engines(workers)
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder, threadpool_limits(1, user_api="blas"):
        for rows in [*asked.rows, *([LARGE] if asked.large else [])]:
            one = measure(Path(folder), rows, asked.rounds, engines)
            if one is None:
                print(f"| {rows:,} | no room on the disk |", flush=True)
                continue
            found.append(one)
            print(one.processor_line(), flush=True)
    for made in engines.values():
        made.close()
    print(f"\n| rows | bytes | {' | '.join(found[0].clock)} |")
    print("| ---: |" + " ---: |" * (1 + len(found[0].clock)))
    for one in found:
        print(one.clock_line(one.rows))
    print(found[-1].clock_line(PLANNED))
    OUTPUT.mkdir(parents=True, exist_ok=True)
    draw_figure(found, OUTPUT / "scale.svg")


if __name__ == "__main__":
    main()
