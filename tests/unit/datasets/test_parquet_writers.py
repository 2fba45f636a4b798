"""Parquet as other programs write it: each codec of each writer gives the rows of the same table as CSV.

Of R's writers there is none here: neither arrow nor nanoparquet is in Debian bookworm. What arrow writes in R comes
from the same library as `write_pyarrow`.
"""

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sources.coding import iterate_rows
from curator_service.datasets.sources.opening import open_source

CODECS = ("uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4")
ROWS = 300
SEXES = ("F", "M")
WARDS = tuple(f"ward {i:03} of the north wing" for i in range(40))
MANIFEST = Manifest.model_validate(
    {
        "name": "d",
        "population": "p",
        "row_capacity": 1000,
        "subject": "person",
        "rows_per_subject": 10,
        "columns": [
            {"name": "sex", "type": "categorical", "levels": SEXES},
            {"name": "ward", "type": "categorical", "levels": WARDS},
            {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
        ],
    }
)
TABLE: dict[str, list[Any]] = {
    "person": [f"person-{i // 2:05}" for i in range(ROWS)],
    "sex": [SEXES[i % 2] if i % 7 else None for i in range(ROWS)],
    "ward": [WARDS[i % len(WARDS)] for i in range(ROWS)],
    "age": [float(i % 90) if i % 5 else None for i in range(ROWS)],
}


def write_pyarrow(path: Path, codec: str, version: str) -> None:
    table = pa.table(TABLE)
    for place, name in enumerate(table.column_names):
        if name in {"sex", "ward"}:
            table = table.set_column(place, name, table[name].dictionary_encode())
    pq.write_table(table, path, compression=codec.replace("uncompressed", "none"), data_page_version=version)


def write_polars(path: Path, codec: str) -> None:
    polars = pytest.importorskip("polars", reason="files of Polars are NOT tested: polars is not installed")
    frame = polars.DataFrame(TABLE).with_columns(
        polars.col("sex").cast(polars.Categorical), polars.col("ward").cast(polars.Enum(WARDS))
    )
    frame.write_parquet(path, compression=codec)


def write_duckdb(path: Path, codec: str) -> None:
    duckdb = pytest.importorskip("duckdb", reason="files of DuckDB are NOT tested: duckdb is not installed")
    with duckdb.connect() as connection:
        connection.register("rows", pa.table(TABLE))
        connection.execute(f"CREATE TYPE sexes AS ENUM {SEXES}")
        columns = "person, sex::sexes AS sex, ward, age"
        connection.execute(f"COPY (SELECT {columns} FROM rows) TO '{path}' (FORMAT parquet, COMPRESSION {codec})")


def write_fastparquet(path: Path, codec: str) -> None:
    fastparquet = pytest.importorskip(
        "fastparquet", reason="files of fastparquet are NOT tested: fastparquet is not installed"
    )
    frame = pd.DataFrame(TABLE)
    frame = frame.astype({"sex": "category", "ward": "category"})
    fastparquet.write(str(path), frame, compression=None if codec == "uncompressed" else codec.upper())


WRITERS = {
    "pyarrow 1.0": lambda path, codec: write_pyarrow(path, codec, "1.0"),
    "pyarrow 2.0": lambda path, codec: write_pyarrow(path, codec, "2.0"),
    "polars": write_polars,
    "duckdb": write_duckdb,
    "fastparquet": write_fastparquet,
}


def read(path: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"subjects": [], "sex": [], "ward": [], "age": []}
    for batch in iterate_rows(MANIFEST, open_source(path, MANIFEST.csv_options), lambda *_: None):
        found["subjects"] += [] if batch.subjects is None else batch.subjects.to_pylist()
        for name in ("sex", "ward", "age"):
            found[name] += batch.stored[name].tolist()
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(TABLE)
        writer.writerows(["" if value is None else value for value in row] for row in zip(*TABLE.values(), strict=True))
    return read(path)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_codec_of_a_writer_is_read(tmp_path: Path, expected: dict[str, list[Any]], writer: str, codec: str) -> None:
    path = tmp_path / "rows.parquet"
    WRITERS[writer](path, codec)
    assert len(expected["age"]) == ROWS
    assert read(path) == expected


@pytest.mark.parametrize("quoted", ["", ", FORCE_QUOTE *"])
def test_csv_of_duckdb_is_read(tmp_path: Path, expected: dict[str, list[Any]], quoted: str) -> None:
    duckdb = pytest.importorskip("duckdb", reason="files of DuckDB are NOT tested: duckdb is not installed")
    path = tmp_path / "rows.csv"
    with duckdb.connect() as connection:
        connection.register("rows", pa.table(TABLE))
        connection.execute(f"COPY rows TO '{path}' (FORMAT csv, HEADER{quoted})")
    assert read(path) == expected
