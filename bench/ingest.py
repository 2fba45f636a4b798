"""Ingest of CSV and of Parquet beside a plain read of the same file: ``python -m bench.ingest [--rows 10000000]``.

Twelve numeric columns, eight measured to two decimals and four to six. ``--rows-per-person 3.3`` adds a column of
persons with so many rows each on average, in no order, of whom three rows count. A plain read is what pyarrow does to
stream the file as numbers and identifiers. Each runs in a process of its own, in turn, so that memory is that of one.
Ratios of times on the clock come near those of processor time beside other work on all processors.
"""

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.pseudonyms import Pseudonymiser
from curator_service.datasets.sketch import Sketcher
from curator_service.datasets.snapshot import Storage
from curator_service.datasets.sources.opening import open_source

COLUMNS = 12
SUBJECT, ROWS_COUNTED = "patient_id", 3
_PART_ROWS = 500_000
Measured = tuple[float, float, float]
"""Seconds on the clock and of processor time, and peak MiB."""


def make_manifest(rows: int, rows_per_person: float | None) -> Manifest:
    """Declare all columns; half of them enter the cached Gram."""
    columns = [
        {"name": f"c{i}", "type": "numeric", "lower": 0 if i < 8 else -4, "upper": 100 if i < 8 else 4}
        | ({} if i % 2 else {"missing": "midpoint"})
        for i in range(COLUMNS)
    ]
    declared = {"name": "d", "population": "p", "row_capacity": rows, "columns": columns}
    unit = {} if rows_per_person is None else {"subject": SUBJECT, "rows_per_subject": ROWS_COUNTED}
    return Manifest.model_validate(declared | unit)


def write_files(folder: Path, rows: int, rows_per_person: float | None) -> None:
    """Write the same rows as CSV and as Parquet."""
    random = np.random.default_rng(1)
    fields = [(f"c{i}", pa.float64()) for i in range(COLUMNS)]
    if rows_per_person is not None:
        fields.append((SUBJECT, pa.string()))
        persons = max(round(rows / rows_per_person), 1)
    schema = pa.schema(fields)
    with (
        arrow_csv.CSVWriter(folder / "d.csv", schema) as text,
        pq.ParquetWriter(folder / "d.parquet", schema) as packed,
    ):
        for start in range(0, rows, _PART_ROWS):
            count = min(_PART_ROWS, rows - start)
            arrays = [random.normal(50, 15, count).round(2) for _ in range(8)]
            arrays += [random.normal(0, 1, count).round(6) for _ in range(4)]
            if rows_per_person is not None:
                arrays.append([f"P{number:08}" for number in random.integers(persons, size=count)])
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


def ingest(path: Path, manifest: Manifest) -> None:
    """Run what a registration does with a file."""
    known = None if manifest.subject is None else Pseudonymiser.for_once()
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        storage = Storage(Path(folder))
        with storage.writing():
            source = open_source(path, manifest.csv_options)
            storage.ingest("ds_x", manifest, source, Sketcher(b"bench", known), pseudonymiser=known)


def _measure(path: Path, manifest: Manifest | None, answers: "multiprocessing.Queue[Measured]") -> None:
    start, used = time.perf_counter(), sum(os.times()[:4])
    read_plainly(path) if manifest is None else ingest(path, manifest)
    whole, processor = time.perf_counter() - start, sum(os.times()[:4]) - used
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)  # rows are read in a process of its own
    answers.put((whole, processor, max(resource.getrusage(one).ru_maxrss for one in whose) / 2**10))


def measure(path: Path, manifest: Manifest | None) -> Measured:
    """Return what an ingest of a file takes, or a plain read without a manifest, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[Measured] = context.Queue()
    process = context.Process(target=_measure, args=(path, manifest, answers))
    process.start()
    found = answers.get()
    process.join()
    return found


def main() -> None:
    """Print seconds, rates, ratios and peaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rows-per-person", type=float, default=None)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None, help="where the files are written, and removed again")
    given = parser.parse_args()
    print("| file | plain read, s | ingest, s | ratio | processor, s | ratio | peak, MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    manifest = make_manifest(given.rows, given.rows_per_person)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        write_files(Path(folder), given.rows, given.rows_per_person)
        for _ in range(given.rounds):
            for name in ("d.csv", "d.parquet"):
                path = Path(folder) / name
                plain, plain_processor, _ = measure(path, None)
                whole, processor, peak = measure(path, manifest)
                times = f"{plain:.2f} | {whole:.2f} | {whole / plain:.1f}"
                print(f"| {name[2:]} | {times} | {processor:.2f} | {processor / plain_processor:.1f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
