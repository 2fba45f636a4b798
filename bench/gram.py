"""CPU time and memory of exact Grams and of row maps, in one process with one BLAS thread.

First the peak memory of a pass over n rows, in a process of its own that makes its rows batch by batch. Then the
exact Gram beside the plain float product of the same rows, which are in memory for both. Then each row map with its
Gram beside the box, from coded rows and from stored columns. What is compared takes turns in short rounds; each round
gives a ratio, and the tables state their median and quartiles.

    python -m bench.gram [--rows 1000000] [--rounds 9]
"""

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from curator_service.datasets.engines.numpy import tile_rows
from curator_service.privacy.design import Column, ColumnType, Design, MissingRule, code_rows, make_design
from curator_service.privacy.lattice import STORED_UNIT, RowArray, StoredArray
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY
from curator_service.privacy.sums import compute_gram

Batch = dict[str, StoredArray]
MAPS: dict[str, RowMap] = {
    "box": Box(),
    "ball, R = 1 (every row shrinks)": Ball.of_norm(1.0),
    "ball, R = 2.7 (half of them)": Ball.of_norm(2.7),
    "unit": Unit(),
    "unit_xy": UnitXY(),
}


def numeric_design(features: int, targets: int = 0, *, intercept: bool = False) -> Design:
    """Return a design of numeric columns."""
    columns = [Column(f"v{i}", ColumnType.NUMERIC, MissingRule.COMPLETE, -1.0, 1.0) for i in range(features + targets)]
    return make_design(tuple(columns[:features]), tuple(columns[features:]), intercept=intercept)


def stored_batches(design: Design, rows: int) -> Iterator[tuple[Batch, int]]:
    """Draw stored columns in batches of the size that the service reads."""
    rng = np.random.default_rng(20250101)
    size = tile_rows(len(design.terms) + len(design.targets))
    for start in range(0, rows, size):
        count = min(size, rows - start)
        yield (
            {
                name: rng.integers(-STORED_UNIT, STORED_UNIT, size=count, dtype=np.int32, endpoint=True)
                for name in design.columns
            },
            count,
        )


def coded_batches(design: Design, rows: int) -> Iterator[RowArray]:
    """Code drawn rows batch by batch."""
    return (code_rows(batch, design, count) for batch, count in stored_batches(design, rows))


def take_turns(acts: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each act in each round, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds + 1):
        for name, act in acts.items():
            start = time.process_time()
            act()
            seconds[name].append(time.process_time() - start)
    return {name: values[1:] for name, values in seconds.items()}


def ratio(values: list[float], base: list[float]) -> str:
    """Return the median and the quartiles of the rounds' ratios."""
    low, median, high = statistics.quantiles([v / b for v, b in zip(values, base, strict=True)], n=4)
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def milliseconds(values: list[float]) -> str:
    """Return the median."""
    return f"{statistics.median(values) * 1e3:.0f} ms"


def peak_mib() -> float:
    """Return the largest resident memory of this process, which a parent's does not enter, as in ru_maxrss."""
    line = next(text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def peak_of_pass(features: int, rows: int) -> float:
    """Return how many MiB the peak rises in a pass over so many rows, mapped into the ball."""
    with threadpool_limits(1, user_api="blas"):
        design, ball = numeric_design(features), Ball.of_norm(1.0)
        before = peak_mib()
        compute_gram((ball.apply(batch, design) for batch in coded_batches(design, rows)), features)
        return peak_mib() - before


def report_memory(rows: int) -> None:
    """Print the peak memory of a pass for n / 10 rows and for n."""
    print("\n| columns | rows | the rows as float64 | peak above an idle process |\n| ---: | ---: | ---: | ---: |")
    for features in (10, 50, 200):
        for count in (rows // 10, rows):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                peak = pool.apply(peak_of_pass, (features, count))
            print(f"| {features} | {count:,} | {features * count * 8 / 2**20:,.0f} MiB | {peak:.0f} MiB |")


def report_gram(rows: int, rounds: int) -> None:
    """Print the exact Gram beside the plain product."""
    print("\n| columns | plain X.T @ X | exact Gram | ratio (quartiles) |\n| ---: | ---: | ---: | ---: |")
    for features in (10, 50, 200):
        blocks = list(coded_batches(numeric_design(features), rows))
        plain = np.concatenate(blocks).copy(order="C")
        seconds = take_turns(
            {
                "plain": lambda plain=plain: plain.T @ plain,
                "exact": lambda blocks=blocks, features=features: compute_gram(blocks, features),
            },
            rounds,
        )
        print(
            f"| {features} | {milliseconds(seconds['plain'])} | {milliseconds(seconds['exact'])} "
            f"| {ratio(seconds['exact'], seconds['plain'])} |"
        )


def report_maps(rows: int, rounds: int) -> None:
    """Print each row map with its Gram beside the box: a constant, 19 numeric terms, a target."""
    design = numeric_design(19, 1, intercept=True)
    width = len(design.terms) + len(design.targets)
    stored = list(stored_batches(design, rows))
    coded = [code_rows(batch, design, count) for batch, count in stored]

    def from_coded(row_map: RowMap) -> object:
        return compute_gram((row_map.apply(block, design) for block in coded), width)

    def from_stored(row_map: RowMap) -> object:
        blocks = (code_rows(batch, design, count) for batch, count in stored)
        return compute_gram((row_map.apply(block, design) for block in blocks), width)

    mapped = take_turns({name: lambda m=m: from_coded(m) for name, m in MAPS.items()}, rounds)
    whole = take_turns({name: lambda m=m: from_stored(m) for name, m in MAPS.items()}, rounds)
    print("\n| row map and Gram | from coded rows | ratio (quartiles) | from stored columns | ratio (quartiles) |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in MAPS:
        print(
            f"| {name} | {milliseconds(mapped[name])} | {ratio(mapped[name], mapped['box'])} "
            f"| {milliseconds(whole[name])} | {ratio(whole[name], whole['box'])} |"
        )


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"{options.rows:,} rows, {options.rounds} rounds")
    report_memory(options.rows)
    with threadpool_limits(1, user_api="blas"):
        report_gram(options.rows, options.rounds)
        report_maps(options.rows, options.rounds)


if __name__ == "__main__":
    main()
