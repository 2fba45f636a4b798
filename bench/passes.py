"""Measure how much of a pass over rows depends on how many rows there are, at one declared capacity.

The same pass over files that are 5, 50 and 95 % full, part by part, in processor time: reading and decoding Parquet,
filling up to the capacity, and coding, mapping and summing. Shares are of the time that the pass is made to take.

    python -m bench.passes [--capacity 1000000] [--repeats 5]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from curator_service.datasets import snapshot
from curator_service.datasets.engines import numpy as engine
from curator_service.datasets.manifest import ColumnDeclaration, Manifest
from curator_service.datasets.sketch import Sketcher
from curator_service.datasets.snapshot import About, Storage
from curator_service.datasets.sources.csv import CsvSource
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.privacy.design import ColumnType, Design, make_design
from curator_service.privacy.row_maps import Ball
from curator_service.releases.response_time import pass_duration_s

FULL = (0.05, 0.5, 0.95)
FEATURES = 9
MAP = Ball.of_norm(1.3)


def make_manifest(capacity: int) -> Manifest:
    """Declare numeric columns, one of them the target."""
    names = [*(f"x{i}" for i in range(FEATURES)), "y"]
    columns = tuple(ColumnDeclaration(name=name, type=ColumnType.NUMERIC, lower=-1, upper=1) for name in names)
    return Manifest(name="d", population="people", row_capacity=capacity, columns=columns)


def store(root: Path, manifest: Manifest, count: int) -> str:
    """Ingest random rows; return the dataset's id."""
    rows = np.random.default_rng(count).integers(-999, 1000, size=(count, len(manifest.columns)))
    source = root / f"{count}.csv"
    header = ",".join(column.name for column in manifest.columns)
    np.savetxt(source, rows / 1000, fmt="%.3f", delimiter=",", header=header, comments="")
    dataset_id = f"ds_{count}"
    kept = Storage(root)
    with kept.writing():
        taken = kept.ingest(dataset_id, manifest, CsvSource(source, manifest.csv_options), Sketcher(b"bench"))
        kept.publish(dataset_id, About(taken.persons, taken.rows, taken.lattice_digest, "00"))
    source.unlink()
    return dataset_id


def processor_s(work: Callable[[], object]) -> float:
    """Return the processor time of some work, in seconds."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(root: Path, dataset_id: str, manifest: Manifest, design: Design) -> tuple[float, float, float]:
    """Return the seconds of reading, of reading and filling up, and of the whole pass."""
    path, total = root / dataset_id / "rows.parquet", len(design.terms) + len(design.targets)

    def read() -> None:
        for _ in snapshot._read_batches(path, design.columns):
            pass

    def fill() -> None:
        batches = snapshot._read_batches(path, design.columns)
        for _ in engine.fill_up(batches, design.columns, engine.batch_rows(total), manifest.row_capacity):
            pass

    def whole() -> None:
        Storage(root).sum_rows(dataset_id, manifest, GramKernel(design, MAP))

    return processor_s(read), processor_s(fill), processor_s(whole)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--capacity", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    manifest = make_manifest(asked.capacity)
    *features, target = manifest.by_name.values()
    design = make_design(tuple(features), (target,), intercept=True)
    public = pass_duration_s(GramKernel(design, MAP), asked.capacity)
    print(
        f"{asked.capacity:,} rows declared, {FEATURES} features, a constant and a target; public time {public:.2f} s\n"
    )
    print(
        "| full | read and decode | fill up | code, map and sum | whole pass | of its public time | of the 5 % pass |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, user_api="blas"):
        root = Path(folder)
        stored = [store(root, manifest, round(full * asked.capacity)) for full in FULL]
        taken = [[measure(root, dataset_id, manifest, design) for dataset_id in stored] for _ in range(asked.repeats)]
    first = 0.0
    for k, full in enumerate(FULL):
        read, filled, whole = (statistics.median(turn[k][part] for turn in taken) for part in range(3))
        first = first or whole
        parts = (read, filled - read, whole - filled, whole)
        spent = " | ".join(f"{1e3 * part:.0f} ms" for part in parts)
        print(f"| {full:.0%} | {spent} | {whole / public:.2f} | {whole / first:.2f} |")


if __name__ == "__main__":
    main()
