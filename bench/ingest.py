"""Ingest of CSV and of Parquet beside a plain read of the same file: ``python -m bench.ingest [--rows 10000000]``.

Twelve numeric columns, eight measured to two decimals and four to six. A plain read is what pyarrow does to stream the
file as numbers. Each runs in a process of its own, in turn, so that memory is that of one. Ratios are of times on the
clock; beside other work on all processors they come near those of processor time.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sketch import Sketcher
from curator_service.datasets.snapshot import Storage
from curator_service.datasets.sources.opening import open_source

COLUMNS = 12
_PART_ROWS = 500_000


def make_manifest(rows: int) -> Manifest:
    """Declare all columns; half of them enter the cached Gram."""
    columns = [
        {"name": f"c{i}", "type": "numeric", "lower": 0 if i < 8 else -4, "upper": 100 if i < 8 else 4}
        | ({} if i % 2 else {"missing": "midpoint"})
        for i in range(COLUMNS)
    ]
    return Manifest.model_validate({"name": "d", "population": "p", "row_capacity": rows, "columns": columns})


def write_files(folder: Path, rows: int) -> None:
    """Write the same rows as CSV and as Parquet."""
    random = np.random.default_rng(1)
    schema = pa.schema([(f"c{i}", pa.float64()) for i in range(COLUMNS)])
    with (
        arrow_csv.CSVWriter(folder / "d.csv", schema) as text,
        pq.ParquetWriter(folder / "d.parquet", schema) as packed,
    ):
        for start in range(0, rows, _PART_ROWS):
            count = min(_PART_ROWS, rows - start)
            arrays = [random.normal(50, 15, count).round(2) for _ in range(8)]
            arrays += [random.normal(0, 1, count).round(6) for _ in range(4)]
            table = pa.table(arrays, schema=schema)
            text.write_table(table)
            packed.write_table(table)


def read_plainly(path: Path) -> None:
    """Stream a file as numbers, and forget them."""
    if path.suffix == ".csv":
        for _ in arrow_csv.open_csv(path):
            pass
    else:
        for _ in pq.ParquetFile(path).iter_batches():
            pass


def ingest(path: Path, rows: int) -> None:
    """Run what a registration does with a file."""
    manifest = make_manifest(rows)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        storage = Storage(Path(folder))
        with storage.writing():
            storage.ingest("ds_x", manifest, open_source(path, manifest.csv_options), Sketcher(b"bench"))


def _measure(work: str, path: Path, rows: int, answers: "multiprocessing.Queue[tuple[float, float]]") -> None:
    start = time.perf_counter()
    read_plainly(path) if work == "plain" else ingest(path, rows)
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)  # rows are read in a process of its own
    peak = max(resource.getrusage(one).ru_maxrss for one in whose) / 2**10
    answers.put((time.perf_counter() - start, peak))


def measure(work: str, path: Path, rows: int) -> tuple[float, float]:
    """Return seconds and peak MiB of some work in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[tuple[float, float]] = context.Queue()
    process = context.Process(target=_measure, args=(work, path, rows, answers))
    process.start()
    found = answers.get()
    process.join()
    return found


def main() -> None:
    """Print seconds, rates, ratios and peaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None, help="where the files are written, and removed again")
    given = parser.parse_args()
    print("| file | plain read, s | ingest, s | ratio | rows/s | peak, MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        write_files(Path(folder), given.rows)
        for _ in range(given.rounds):
            for name in ("d.csv", "d.parquet"):
                path = Path(folder) / name
                plain, _ = measure("plain", path, given.rows)
                whole, peak = measure("ingest", path, given.rows)
                rate = given.rows / whole
                print(f"| {name[2:]} | {plain:.2f} | {whole:.2f} | {whole / plain:.1f} | {rate:,.0f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
