"""Parquet: typed columns give what the same table gives as CSV, and a forged file is refused before it is read."""

import datetime
import decimal
import os
import resource
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sketch import Sketcher
from curator_service.datasets.sources import base
from curator_service.datasets.sources import parquet as reader
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.sources.coding import iterate_rows, observe_sketch
from curator_service.datasets.sources.opening import open_source

CANARY = 48151623
LOW, HIGH, MISSING = -(2**30), 2**30, -(2**31)


def declare(column: dict[str, Any], **fields: Any) -> Manifest:
    return Manifest.model_validate(
        {"name": "d", "population": "p", "row_capacity": 1000, "columns": [{"name": "x"} | column]} | fields
    )


NUMERIC = {"type": "numeric", "lower": 0, "upper": 10}
LEVELS = {"type": "categorical", "levels": [0, 1, 2]}
TEXTS = {"type": "categorical", "levels": ["a", "b"]}
BOOLEAN = {"type": "boolean"}
DATES = {"type": "numeric", "format": "date", "origin": "2020-01-01", "unit": "days", "lower": 0, "upper": 10}
TIMES = DATES | {"format": "datetime"}
HOUR = datetime.timedelta(hours=1)
DAY = datetime.date(2020, 1, 11)
BEGIN = datetime.datetime(2020, 1, 1)  # noqa: DTZ001 -- as files hold them


def read(path: Path, manifest: Manifest) -> Any:
    sketcher, stored, subjects = Sketcher(b"t"), [], []
    source = open_source(path, manifest.csv_options)
    for batch in iterate_rows(manifest, source, observe_sketch(sketcher)):
        stored += batch.stored["x"].tolist()
        subjects += [] if batch.subjects is None else batch.subjects.to_pylist()
    assert len(source.digest) == 64
    return stored, subjects, sketcher.finish().to_bytes()


def write(path: Path, array: pa.Array, **options: Any) -> Path:
    pq.write_table(pa.table({"x": array}), path, **options)
    return path


GOOD: list[tuple[str, dict[str, Any], pa.Array, list[int]]] = [
    ("int8", NUMERIC, pa.array([0, 10, None], pa.int8()), [LOW, HIGH, MISSING]),
    ("uint64", NUMERIC, pa.array([0, 2**64 - 1, None], pa.uint64()), [LOW, HIGH, MISSING]),
    ("int64 beyond floats", NUMERIC, pa.array([2**62 + 1, 5, None]), [HIGH, 0, MISSING]),
    ("float32", NUMERIC, pa.array([0, 5, np.nan], pa.float32()), [LOW, 0, MISSING]),
    ("float64", NUMERIC, pa.array([0.0, 10.0, None]), [LOW, HIGH, MISSING]),
    ("decimal", NUMERIC, pa.array([decimal.Decimal("2.5"), decimal.Decimal("5.0"), None]), [-(2**29), 0, MISSING]),
    ("text as number", NUMERIC, pa.array(["0", " 1e1 ", ""]), [LOW, HIGH, MISSING]),
    ("nothing", NUMERIC, pa.nulls(3), [MISSING] * 3),
    ("text", TEXTS, pa.array(["a", " b", None]), [0, 1, MISSING]),
    ("large text", TEXTS, pa.array(["a", "b", None], pa.large_string()), [0, 1, MISSING]),
    ("dictionary", TEXTS, pa.array(["a", "b", None]).dictionary_encode(), [0, 1, MISSING]),
    ("levels as ints", LEVELS, pa.array([0, 2, None]), [0, 2, MISSING]),
    ("levels as floats", LEVELS, pa.array([-0.0, 2.0, np.nan]), [0, 2, MISSING]),
    ("bool", BOOLEAN, pa.array([False, True, None]), [0, 1, MISSING]),
    ("bool as number", BOOLEAN, pa.array([0.0, 1.0, None]), [0, 1, MISSING]),
    ("bool as text", BOOLEAN, pa.array(["F", "yes", None]), [0, 1, MISSING]),
    ("date32", DATES, pa.array([datetime.date(2020, 1, 1), DAY, None]), [LOW, HIGH, MISSING]),
    ("date as midnight", DATES, pa.array([BEGIN, BEGIN + 5 * HOUR * 24, None], pa.timestamp("ns")),
     [LOW, 0, MISSING]),
    ("timestamp with zone", TIMES, pa.array([0, 1578268800000, None], pa.timestamp("ms", "Europe/Paris")),
     [LOW, 0, MISSING]),
    ("date as text", DATES, pa.array(["2020-01-01", "2020-01-11", None]), [LOW, HIGH, MISSING]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "array", "stored"), [case[1:] for case in GOOD], ids=[case[0] for case in GOOD])
def test_a_type_is_read_as_its_words_in_a_csv_file(
    tmp_path: Path, column: dict[str, Any], array: pa.Array, stored: list[int]
) -> None:
    manifest = declare(column)
    found = read(write(tmp_path / "x.parquet", array), manifest)
    assert found[0] == stored
    words = [str(v) if v is not None and v == v else "" for v in array.to_pylist()]
    if column == DATES:
        words = [word[:10] for word in words]
    (tmp_path / "x.csv").write_text("x\n" + "".join(f"{word}\n" for word in words))
    assert read(tmp_path / "x.csv", manifest) == found


BAD: list[tuple[str, dict[str, Any], pa.Array, str]] = [
    ("infinity", NUMERIC, pa.array([1.0, np.inf]), "row 2, column 'x': the value is not a number, but an infinity"),
    ("number as text", NUMERIC, pa.array(["1", f"{CANARY}x"]), "row 2, column 'x': the value is not a number"),
    ("level", LEVELS, pa.array([1, CANARY]), "row 2, column 'x': the value is not one of the declared levels 0, 1, 2"),
    ("text level", TEXTS, pa.array(["a", str(CANARY)]), "row 2, column 'x': the value is not one of the declared"),
    ("number for text levels", TEXTS, pa.array([CANARY]), "write the levels as numbers"),
    ("bool as category", LEVELS, pa.array([True]), "holds booleans"),
    ("bool as number", NUMERIC, pa.array([True]), "holds bool"),
    ("date without format", NUMERIC, pa.array([DAY]), "holds date32"),
    ("number as date", DATES, pa.array([CANARY]), "holds int64"),
    ("time as date", DATES, pa.array([BEGIN + HOUR]), "row 1, column 'x': the value has a time"),
    ("far date", DATES, pa.array([2**62], pa.timestamp("us")), "no instant of the years"),
    ("nested", NUMERIC, pa.array([[1.0]]), "nested values"),
    ("binary", TEXTS, pa.array([b"a"]), "column 'x': the column holds"),
    ("fraction where whole", NUMERIC | {"whole": True}, pa.array([3, 1.5]), "the value is not a whole number"),
    ("missing where complete", NUMERIC | {"missing": "complete"}, pa.array([1, None]), "row 2, column 'x': the value"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "array", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_breaks_the_manifest_is_named_without_its_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: dict[str, Any], array: pa.Array, message: str
) -> None:
    path = write(tmp_path / "x.parquet", array)
    with pytest.raises(IngestError) as caught:
        read(path, declare(column))
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert str(CANARY) not in "".join(traceback.format_exception(caught.value)) + caplog.text


def test_a_folder_is_its_files_in_the_order_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BATCH_ROWS", 7)
    whole = pa.array(np.arange(100) % 11)
    alone = read(write(tmp_path / "x.parquet", whole), declare(NUMERIC))
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "b.parquet", whole.slice(30, 45), row_group_size=4)
    write(folder / "c.parquet", whole.slice(75))
    write(folder / "a.parquet", whole.slice(0, 30), compression="zstd")
    (folder / "_SUCCESS").touch()
    assert read(folder, declare(NUMERIC)) == alone


def test_a_folder_s_files_have_the_same_types(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pa.array(["a"]).dictionary_encode())
    write(tmp_path / "b.parquet", pa.array(["b"], pa.large_string()))
    assert read(tmp_path, declare(TEXTS))[0] == [0, 1]
    write(tmp_path / "c.parquet", pa.array([1]))
    with pytest.raises(IngestError, match="the column 'x' holds int64, and string in the first file"):
        read(tmp_path, declare(TEXTS))


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "none"])
def test_a_folder_holds_regular_files_of_its_own(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    other = write(tmp_path / "x.parquet", pa.array([1]))
    make = {
        "link": lambda path: path.symlink_to(other),
        "folder": Path.mkdir,
        "pipe": os.mkfifo,
        "none": lambda path: path.with_suffix(".csv").touch(),
    }
    make[kind](folder / "a.parquet")
    with pytest.raises(IngestError, match=r"not a regular file|no files"):
        read(folder, declare(NUMERIC))


def test_subjects_are_texts_or_whole_numbers(tmp_path: Path) -> None:
    manifest = declare(NUMERIC, subject="who", rows_per_subject=2)
    for who, folded in (([7, 8], ["7", "8"]), (["P 1", "É"], ["p1", "é"])):
        pq.write_table(pa.table({"x": [1, 2], "who": who}), tmp_path / "x.parquet")
        assert read(tmp_path / "x.parquet", manifest)[1] == folded
    for wrong in ([1.5, 2.5], [None, 1], [True, False]):
        pq.write_table(pa.table({"x": [1, 2], "who": wrong}), tmp_path / "x.parquet")
        with pytest.raises(IngestError, match="subject"):
            read(tmp_path / "x.parquet", manifest)


def test_columns_are_found_once(tmp_path: Path) -> None:
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), tmp_path / "x.parquet")
    with pytest.raises(IngestError, match="more than one column 'x'"):
        read(tmp_path / "x.parquet", declare(NUMERIC))
    with pytest.raises(IngestError, match="no column 'y'"):
        read(tmp_path / "x.parquet", declare(NUMERIC | {"source": "y"}))


def test_rows_are_counted_before_they_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", pa.array(np.zeros(5)))
    with pytest.raises(IngestError, match="row_capacity of 4"):
        read(path, declare(NUMERIC, row_capacity=4))


@pytest.mark.parametrize("place", ["footer", "length", "page", "cut", "columns", "chunk", "pages"])
def test_a_forged_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    path = write(tmp_path / "x.parquet", pa.array([str(CANARY + i) for i in range(500)]), compression="none")
    content = bytearray(path.read_bytes())
    match place:
        case "footer":
            content[-60:-8] = b"\xff" * 52
        case "length":
            content[-8:-4] = (2**31 - 1).to_bytes(4, "little")
        case "page":
            content[4:60] = b"\x7f" * 56
        case "cut":
            content = content[:-5]
        case "columns":
            monkeypatch.setattr(reader, "_COLUMNS_MAX", 0)
        case "chunk":
            monkeypatch.setattr(reader, "_CHUNK_BYTES_MAX", 10)
        case "pages":
            monkeypatch.setattr(reader, "_PAGES_BYTES", -(2**22))
    path.write_bytes(content)
    with pytest.raises(IngestError) as caught:
        read(path, declare(NUMERIC))
    assert str(CANARY) not in "".join(traceback.format_exception(caught.value))
    assert str(path) in str(caught.value)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BATCH_ROWS", 7)
    path, manifest = write(tmp_path / "x.parquet", pa.array(np.zeros(50))), declare(NUMERIC)
    rows = iterate_rows(manifest, open_source(path, manifest.csv_options), lambda _: None)
    next(rows)
    with path.open("r+b") as file:
        file.write(b"PAR1")
    with pytest.raises(IngestError, match="somebody wrote into the file"):
        list(rows)


def repeat(text: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))


DELTA = {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}, "write_statistics": False}
BOMBS: dict[str, tuple[Callable[[], pa.Array], dict[str, Any], str]] = {
    "dictionary": (lambda: repeat(f"{CANARY}" * 2**17, 10**6), {}, "'x' has a value of more than 4096 bytes of text"),
    "wide dictionary": (
        lambda: repeat(f"{CANARY}" * 2**24, 3),
        {"dictionary_pagesize_limit": 2**30},
        "bytes of text that",
    ),
    "dictionary packed otherwise": (
        lambda: repeat(f"{CANARY}" * 2**17, 10**6),
        {"compression": "lz4"},
        "more than 4096 bytes",
    ),
    "bytes": (lambda: pa.array([b"a" * 2**20] * 100), {}, "more than 4096 bytes of text"),
    "values of one length": (
        lambda: pa.array([b"a" * 2**20] * 9, pa.binary(2**20)),
        {},
        "'x' has a value of more than 4096",
    ),
    "shared beginnings": (
        lambda: pa.array([f"{CANARY}" * 2**17] * 500),
        DELTA,
        "'x' has a value of more than 4096 bytes",
    ),
    "texts of a page": (
        lambda: pa.array([f"{CANARY}" * 500] * 30_000),
        {"use_dictionary": False},
        "bytes of text in 50000",
    ),
    "texts of a dictionary": (
        lambda: repeat(f"{CANARY}" * 500, 10**6),
        {},
        "bytes of text in 50000 rows, most of them in the",
    ),
    "one row": (
        lambda: pa.array([f"{CANARY}" * 2**24]),
        {"use_dictionary": False, "write_statistics": False},
        "or one row has",
    ),
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_texts_that_a_file_holds_once_are_refused_before_they_fill_the_memory(tmp_path: Path, name: str) -> None:
    make, options, message = BOMBS[name]
    path = write(tmp_path / "x.parquet", make(), **{"compression": "zstd", "write_page_index": False} | options)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(IngestError) as caught:
            read(path, declare(TEXTS, row_capacity=10**6))
    finally:
        pa.set_memory_pool(before)
    assert message in str(caught.value)
    assert str(CANARY) not in "".join(traceback.format_exception(caught.value))
    assert pool.max_memory() < 2**29


WAYS: list[dict[str, Any]] = [
    {},
    {"use_dictionary": False},
    DELTA,
    DELTA | {"data_page_version": "2.0"},
    {"compression": "lz4"},
    {"compression": "gzip", "data_page_size": 100},
]


@pytest.mark.parametrize("options", WAYS)
def test_texts_are_read_however_they_are_written(tmp_path: Path, options: dict[str, Any]) -> None:
    words = [*(f"{i % 977:0{1 + i % 199}}" for i in range(5000)), "9" * 4096]
    table = pa.table({"who": words, "x": [True] * len(words)})
    if encoding := options.get("column_encoding"):
        options = options | {"column_encoding": {"who": encoding["x"]}}
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=1500, **options)
    manifest = declare(BOOLEAN, subject="who", rows_per_subject=1, row_capacity=10**4)
    assert read(tmp_path / "x.parquet", manifest)[1] == words


def test_more_files_than_may_be_open_are_read(tmp_path: Path) -> None:
    for i in range(40):
        write(tmp_path / f"{i:02}.parquet", pa.array([i % 11]))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 12, hard))
    try:
        assert len(read(tmp_path, declare(NUMERIC))[0]) == 40
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_header_of_a_page_is_read_within_bounds(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", pa.array(["a", "b"] * 500), compression="none", write_statistics=False)
    content = path.read_bytes()
    forged = [
        b"\xff" * 30,
        b"\x00" * 30,
        b"\x19\xf9" * 15,
        b"\x1c" * 30,
        b"\x18\xff\xff\xff\xff\x7f" * 5,
        b"\x15\x80" * 15,
    ]
    for place in range(4, 40, 3):
        for junk in forged:
            path.write_bytes(content[:place] + junk + content[place + len(junk) :])
            with suppress(IngestError):
                assert len(read(path, declare(TEXTS))[0]) == 1000


def test_a_reading_that_is_left_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BATCH_ROWS", 7)
    monkeypatch.setattr(reader, "_READ_ROWS", 7)
    manifest = declare(NUMERIC)
    (tmp_path / "x.csv").write_text("x\n" + "1\n" * 10**6)
    for path in (write(tmp_path / "x.parquet", pa.array(np.zeros(500))), tmp_path / "x.csv"):
        before, source = threading.active_count(), open_source(path, manifest.csv_options)
        batches = source.read(manifest)
        next(batches)
        batches.close()
        assert threading.active_count() == before
