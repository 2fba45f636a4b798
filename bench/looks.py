"""Test of processor time, and of the bytes that are read, for traces of the stored rows, at one declared capacity.

A pass is looked at alone, without the public time that hides what is left. Datasets of one capacity hold one row; half
as many as they may, and all of them, with a tenth of the values missing; all of them with every value missing, with
half of the values and with none; all of them equal. A round looks at each once, in an order drawn anew: whatever else
the machine does falls upon all alike. For each kernel the table has medians over those of `half`, and the least
p-value of Kolmogorov-Smirnov tests on the times of each pair. An alarm is a p-value below 0.05 over the number of
pairs: equal laws raise one or more in at most 5 % of the lines. Bytes are those of the system's count of what a process
read. The slowest median is stated as a part of its public time.

    python -m bench.looks [--capacity 200000] [--looks 300]
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import ks_2samp
from threadpoolctl import threadpool_limits

from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.numpy import NumpyEngine
from curator_service.datasets.parts import PartWriter, StoredRows
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.schema import AxisRequest
from curator_service.kinds.counts.tables import Axis, Table
from curator_service.kinds.features import read_feature, read_selection
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kinds.marginals.kernel import MarginalsKernel
from curator_service.kinds.marginals.marginals import Moments, Tree
from curator_service.kinds.score.kernel import ScoreKernel
from curator_service.kinds.score.statistics import Statistic
from curator_service.privacy.combinations import Combinations
from curator_service.privacy.design import Column, ColumnType, MissingRule, combine_terms, make_design
from curator_service.privacy.lattice import MISSING, STORED_UNIT, IntArray, StoredArray
from curator_service.privacy.losses import Loss
from curator_service.privacy.row_maps import Ball, UnitXY
from curator_service.releases.pace import measure_pace
from curator_service.releases.response_time import pass_duration_s

COLUMNS = tuple(Column(f"v{i}", ColumnType.NUMERIC, MissingRule.OMIT, -1.0, 1.0) for i in range(9))
LEVEL = Column("level", ColumnType.CATEGORICAL, MissingRule.OMIT, levels=tuple("abcdefgh"))
FLAGGED = tuple(Column(f"v{i}", ColumnType.NUMERIC, MissingRule.INDICATOR, -1.0, 1.0) for i in range(9))
WEIGHED = read_selection(None, {"absolute": ["v0"]}, {column.name: column for column in COLUMNS})
ALARM = 0.05


def make_kernels() -> dict[str, RowKernel]:
    """Return what is summed: Grams under maps of different work, a dense table and small ones, trees and moments."""
    axes = [Axis.of(column, AxisRequest(column=column.name, bins=20, missing=True)) for column in COLUMNS]
    narrow, wide = COLUMNS[:3], make_design(COLUMNS[:-1], COLUMNS[-1:], intercept=True)
    return {
        "`ball`, 4 numbers": GramKernel(make_design(narrow[:-1], narrow[-1:], intercept=True), Ball.of_norm(1.3)),
        "`ball`, 10 numbers": GramKernel(wide, Ball.of_norm(1.3)),
        "`unit_xy`, 10 numbers": GramKernel(wide, UnitXY()),
        "`ball`, indicators": GramKernel(make_design(FLAGGED[:-1], FLAGGED[-1:], intercept=True), Ball.of_norm(1.3)),
        "a table of 21³ cells": CountsKernel((Table(tuple(axes[:3])),)),
        "9 tables of 21 cells": CountsKernel(tuple(Table((axis,)) for axis in axes)),
        "9 trees of 8 levels": MarginalsKernel((Tree(COLUMNS, 8),)),
        "combinations, 10 numbers": GramKernel(combine_terms(wide, _spread(len(wide.terms))), Ball.of_norm(1.0)),
        "logistic scores, 9 numbers": ScoreKernel(
            wide, Loss.LOGISTIC, Combinations(((3,),) * len(wide.terms), 1), _spread(len(wide.terms)), tuple(Statistic)
        ),
        "moments of 8 columns, weighed": MarginalsKernel((Moments(COLUMNS[1:]),), WEIGHED),
        "a table of levels": CountsKernel((Table((Axis.of(LEVEL, AxisRequest(column="level", missing=True)),)),)),
        "computed numbers, truths, levels": _gram_of(
            {"log": [{"add": ["v0", 2]}]},
            {"power": ["v1", 3]},
            {"divide": ["v2", {"add": ["v3", 2]}]},
            {"and": [{"less": ["v4", "v5"]}, {"not": [{"missing": ["v6"]}]}]},
            {"cut": ["v6", [-0.5, 0.5]]},
            {"reference": ["level", "c"]},
        ),
        "interactions": _gram_of({"interaction": ["v0", "v1"]}, {"interaction": ["v2", "level"]}),
        "splines and polynomials": _gram_of({"spline": ["v0", [-0.3, 0.3]]}, {"polynomial": ["v1", 5]}),
    }


def _gram_of(*features: object) -> GramKernel:
    declared = {column.name: column for column in (*COLUMNS, LEVEL)}
    read = tuple(read_feature(feature, declared) for feature in features)
    return GramKernel(make_design(read, COLUMNS[-1:], intercept=True), Ball.of_norm(1.3))


def _spread(count: int) -> Combinations:
    return Combinations(tuple(tuple(3 * (i == j) + 1 for j in range(count)) for i in range(count)), 2)


def draw(rng: np.random.Generator, count: int, missing: float) -> dict[str, StoredArray]:
    """Draw values, some of them missing."""
    shape = (len(COLUMNS), count)
    values = rng.integers(-STORED_UNIT, STORED_UNIT, size=shape, dtype=np.int32, endpoint=True)
    values[rng.random(shape) < missing] = MISSING
    levels = rng.integers(0, len(LEVEL.levels), size=count, dtype=np.int32)
    levels[rng.random(count) < missing] = MISSING
    return {column.name: of_column for column, of_column in zip(COLUMNS, values, strict=True)} | {LEVEL.name: levels}


def store(folder: Path, name: str, stored: Mapping[str, StoredArray], count: int, capacity: int) -> StoredRows:
    """Store the first rows."""
    writer = PartWriter(folder, name, list(stored), capacity)
    writer.add({column: values[:count] for column, values in stored.items()}, count)
    part = writer.finish()
    writer.close()
    return StoredRows(folder, (part,), capacity)


def make_datasets(folder: Path, capacity: int) -> dict[str, StoredRows]:
    """Store what is told apart, or not."""
    rng = np.random.default_rng(7)
    some, every, half, none = (draw(rng, capacity, missing) for missing in (0.1, 1.0, 0.5, 0.0))
    equal = {name: np.full(capacity, STORED_UNIT // 3, dtype=np.int32) for name in none}
    equal[LEVEL.name] = np.full(capacity, 2, dtype=np.int32)
    held = {
        "half": (some, capacity // 2),
        "n = 1": (some, 1),
        "full": (some, capacity),
        "all missing": (every, capacity),
        "half missing": (half, capacity),
        "none missing": (none, capacity),
        "all equal": (equal, capacity),
    }
    return {name: store(folder, name, stored, count, capacity) for name, (stored, count) in held.items()}


def bytes_read() -> int:
    """Return how many bytes this process has read so far."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def look(rows: StoredRows, kernel: RowKernel) -> tuple[float, int, IntArray]:
    """Return the processor time of a pass, the bytes that it read, and its sums."""
    before, start = bytes_read(), time.thread_time()
    sums = NumpyEngine().sum(kernel, rows)
    return time.thread_time() - start, bytes_read() - before, sums


def take_looks(
    datasets: Mapping[str, StoredRows], kernel: RowKernel, looks: int
) -> tuple[dict[str, npt.NDArray[np.float64]], set[int]]:
    """Return the times of each dataset in round-robin order, and the numbers of bytes that were read."""
    rng = np.random.default_rng(looks)
    seconds: dict[str, list[float]] = {name: [] for name in datasets}
    read: set[int] = set()
    overhead = -bytes_read() + bytes_read()  # the count reads a file itself
    for turn in range(looks + 3):
        for name in rng.permutation(list(datasets)).tolist():
            spent, count, _ = look(datasets[name], kernel)
            if turn >= 3:  # what a first pass maps, later ones find
                seconds[name].append(spent)
                read.add(round((count - overhead) / 1000))
    return {name: np.array(of_name) for name, of_name in seconds.items()}, read


def main() -> None:
    """Measure and print a table for all kernels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--capacity", type=int, default=200_000)
    parser.add_argument("--looks", type=int, default=300)
    asked = parser.parse_args()
    alarms: list[str] = []
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, user_api="blas"):
        datasets = make_datasets(Path(folder), asked.capacity)
        others = list(datasets)[1:]
        pairs = list(itertools.combinations(datasets, 2))
        pace = measure_pace()
        print(
            f"capacity {asked.capacity:,}, {asked.looks} looks at each; alarm below p = {ALARM / len(pairs):.4f}; ",
            end="",
        )
        print(f"public times at the pace that was measured, {pace:.3g}\n")
        print(f"| kernel | half full | {' | '.join(others)} | least p | alarms | kB read | of public time |")
        print("| --- |" + " ---: |" * (len(others) + 5))
        for name, kernel in make_kernels().items():
            seconds, read = take_looks(datasets, kernel, asked.looks)
            medians = {of: statistics.median(taken) for of, taken in seconds.items()}
            tests = {(a, b): float(ks_2samp(seconds[a], seconds[b]).pvalue) for a, b in pairs}
            found = [f"{name}: {a} and {b}, p = {p:.1e}" for (a, b), p in tests.items() if p < ALARM / len(pairs)]
            alarms += found
            shown = " | ".join(f"{medians[of] / medians['half']:.3f}" for of in others)
            public = max(medians.values()) / (pace * pass_duration_s(kernel, asked.capacity))
            kilobytes = " or ".join(f"{count:,}" for count in sorted(read))
            print(
                f"| {name} | {1e3 * medians['half']:.2f} ms | {shown} | {min(tests.values()):.4f} "
                f"| {len(found)} of {len(pairs)} | {kilobytes} | {public:.2f} |",
                flush=True,
            )
    print("\n" + "\n".join(alarms or ["no alarm"]))


if __name__ == "__main__":
    main()
