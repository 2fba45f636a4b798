"""A draft: names, types, levels and signs are proposed, bounds are not; what identifies a person is left out."""

import bz2
import gzip
import lzma
import re
import sqlite3
import tomllib
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import PERSONS

from curator_service.datasets.checking import check_rows
from curator_service.datasets.drafting import draft_manifest, make_name
from curator_service.datasets.manifest import CsvOptions, ManifestError, load_manifest
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.sources.csv import CsvSource
from curator_service.datasets.sources.opening import open_source
from curator_service.datasets.sources.sniffing import sniff
from curator_service.datasets.sources.sql import open_query
from curator_service.kit.names import NAME

COUNT = 60
PEOPLE = {
    "Patient ID": [f"P{i:03}" for i in range(COUNT)],
    "name": [f"Canary{i} Jones" for i in range(COUNT)],
    "contact": [f"canary{i}@example.org" for i in range(COUNT)],
    "Tel.": [f"+41 79 555 {i:02} {i:02}" for i in range(COUNT)],
    "glucose (mmol/L)": [f"{4 + i / 10}" for i in range(COUNT)],
    "creatinine_mg_dl": ["NA" if i % 9 == 0 else f"{0.7 + i / 100:.2f}" for i in range(COUNT)],
    "sex": ["FM"[i % 2] for i in range(COUNT)],
    "Groß?": [("small", "tall", "?")[i % 3] for i in range(COUNT)],
    "smoker": [("yes", "No", "")[i % 3] for i in range(COUNT)],
    "arm": [f"{1 + i % 2}" for i in range(COUNT)],
    "visits": [f"{i % 5}" for i in range(COUNT)],
    "weight": ["999" if i % 12 == 0 else f"{60 + i}" for i in range(COUNT)],
    "admitted": [f"2020-01-{1 + i % 28:02}" for i in range(COUNT)],
    "seen at": [f"2020-01-{1 + i % 28:02}T10:30" for i in range(COUNT)],
    "remark": [f"canary free text {i}" for i in range(COUNT)],
    "site": ["one"] * COUNT,
    "empty": [""] * COUNT,
}


def write_csv(folder: Path, table: dict[str, list[Any]] = PEOPLE, separator: str = ",") -> Path:
    path = folder / "people.csv"
    lines = [separator.join(table), *(separator.join(map(str, row)) for row in zip(*table.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def draft(path: Path, **options: Any) -> str:
    found = sniff(path)
    given = {"name": "people", "population": "village", "row_capacity": 1000}
    return draft_manifest(CsvSource(path, found), found, **given | options)


def complete(text: str) -> str:
    """Fill in bounds, and whose rows they are where no subject is there; nothing else."""
    text = text if re.search(r"(?m)^subject =", text) else f"{PERSONS}\n{text}"
    text = re.sub(r"(?m)^# lower =.*$", "lower = 0", text)
    return re.sub(r"(?m)^# upper =.*$", "upper = 100000", text)


def columns(text: str) -> dict[str, Any]:
    return {column["name"]: column for column in tomllib.loads(text)["columns"]}


@pytest.fixture
def text(tmp_path: Path) -> str:
    return draft(write_csv(tmp_path))


def test_types_units_levels_and_dates_are_proposed(text: str) -> None:
    found = columns(text)
    assert found["glucose"] == {
        "name": "glucose", "source": "glucose (mmol/L)", "type": "numeric", "unit": "mmol/L"
    }  # fmt: skip
    assert found["creatinine_mg_dl"]["unit"] == "mg/dL"
    assert found["sex"]["levels"] == ["F", "M"]
    assert found["Gross"] == {
        "name": "Gross", "source": "Groß?", "type": "categorical", "levels": ["small", "tall"]
    }  # fmt: skip
    assert found["smoker"]["type"] == "boolean"
    assert found["arm"]["levels"] == [1, 2]
    assert found["visits"]["type"] == "numeric"
    assert (found["admitted"]["format"], found["seen_at"]["format"]) == ("date", "datetime")
    assert tomllib.loads(text)["missing_values"] == ["?", "NA"]


def test_levels_are_marked_for_a_person_s_knowledge(text: str) -> None:
    lines = [line for line in text.splitlines() if line.startswith("levels")]
    assert len(lines) == 3
    assert all(line.endswith("# check: levels come from knowledge, not from the rows") for line in lines)


def test_codes_of_a_missing_value_are_comments(text: str) -> None:
    assert "# missing_values = [999]   # check" in text
    assert text.count("missing_values") == 2


def test_what_identifies_a_person_is_never_a_column(text: str) -> None:
    assert tomllib.loads(text)["subject"] == "Patient ID"
    assert not columns(text).keys() & {"Patient_ID", "name", "contact", "Tel", "remark", "site", "empty"}
    left_out = text[text.index("# Left out:") : text.index("[[columns]]")]
    assert all(f'"{header}"' in left_out for header in ("name", "contact", "Tel.", "remark", "site", "empty"))


def test_no_value_but_levels_is_shown(text: str) -> None:
    assert "canary" not in text.lower()
    assert not re.search(r"P0\d\d|555|2020|\b0\.7", text)
    assert str(COUNT) not in text


def test_a_draft_without_bounds_is_refused_and_each_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / "m.toml")
    (line,) = str(caught.value).splitlines()
    for name in ("glucose", "creatinine_mg_dl", "visits", "weight", "admitted", "seen_at"):
        assert f"column '{name}' needs lower and upper" in line
    half = text.replace("# lower =", "lower = 0 #").replace("# upper =", "upper =")
    (tmp_path / "m.toml").write_text(half)
    with pytest.raises(ManifestError, match=r"a value is to be filled in, from knowledge: line \d+, \d+"):
        load_manifest(tmp_path / "m.toml")


def test_a_population_and_a_capacity_are_never_guessed(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(complete(draft(write_csv(tmp_path), population=None, row_capacity=None)))
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / "m.toml")
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["population", "row_capacity"]


def test_a_draft_with_bounds_takes_its_own_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.toml").write_text(complete(text))
    manifest = load_manifest(tmp_path / "m.toml")
    assert check_rows(manifest, CsvSource(tmp_path / "people.csv", manifest.csv_options)).faults == ()


PACKED = {"none": bytes, "gzip": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
PACKED["zstd"] = lambda content: pa.compress(content, codec="zstd", asbytes=True)


@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "windows-1252"])
@pytest.mark.parametrize(("separator", "quote", "decimal"), [(",", '"', "."), (";", '"', ","), ("\t", "'", ".")])
def test_how_a_file_is_written_is_seen(
    tmp_path: Path, compression: str, encoding: str, separator: str, quote: str, decimal: str
) -> None:
    rows = [[f"{quote}größe{quote}", f"{quote}x{quote}"]]
    rows += [[f"{1 + i / 8}".replace(".", decimal), f"{quote}ä{separator}b{quote}"] for i in range(30)]
    content = "\n".join(separator.join(row) for row in rows).encode(encoding)
    path = tmp_path / "d.csv"
    path.write_bytes(PACKED[compression](content))
    found = sniff(path)
    assert found == CsvOptions(
        separator=separator, quote=quote, decimal=decimal, encoding=encoding, compression=compression
    )
    assert columns(draft(path))["grosse"]["type"] == "numeric"


def test_a_few_rows_are_read_unless_all_are_asked_for(tmp_path: Path) -> None:
    path = write_csv(tmp_path, {"x": ["a", "b"] * 30 + ["c"]})
    assert columns(draft(path, rows_max=60))["x"]["levels"] == ["a", "b"]
    assert columns(draft(path, rows_max=None))["x"]["levels"] == ["a", "b", "c"]


def test_typed_columns_are_drafted_alike(tmp_path: Path) -> None:
    table = pa.table({
        "alive": [True, False, None] * 10,
        "mass": [1.5, float("nan"), None] * 10,
        "born": [date(1950, 1, 31)] * 30,
        "seen": [datetime(2020, 1, 31, 10, 30, tzinfo=UTC)] * 30,
        "grade": [1, 2, None] * 10,
        "tags": [["a"]] * 30,
    })  # fmt: skip
    pq.write_table(table, tmp_path / "d.parquet")
    source = open_source(tmp_path / "d.parquet", CsvOptions())
    text = draft_manifest(source, None, name="d", population="p", row_capacity=100)
    kinds = {name: column.get("format", column["type"]) for name, column in columns(text).items()}
    assert kinds == {
        "alive": "boolean", "mass": "numeric", "born": "date", "seen": "datetime", "grade": "categorical"
    }  # fmt: skip
    (tmp_path / "m.toml").write_text(complete(text))
    assert check_rows(load_manifest(tmp_path / "m.toml"), source).faults == ()


def test_a_query_is_drafted(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "h.sqlite3") as connection:
        connection.execute("CREATE TABLE v (who text, age float)")
        connection.executemany("INSERT INTO v VALUES (?, ?)", [(f"p{i}", i / 3) for i in range(40)])
    connection.close()
    (tmp_path / "q.sql").write_text("SELECT who AS person, age FROM v")
    source = open_query(tmp_path / "q.sql", "h", f"sqlite:///{tmp_path / 'h.sqlite3'}")
    text = draft_manifest(source, None, name="q")
    assert tomllib.loads(complete(text))["subject"] == "person"
    assert list(columns(text)) == ["age"]


@given(st.lists(st.text(max_size=80)))
def test_names_are_legal_and_differ(headers: list[str]) -> None:
    taken: set[str] = set()
    names = [make_name(header, taken, "column") for header in headers]
    assert all(NAME.fullmatch(name) for name in names)
    assert len(set(names)) == len(names)


HEADERS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n,"), min_size=1, max_size=12)
WORDS = st.sampled_from(["", "1", "2.5", "-9", "NA", "a", "b[", "yes", "0", "2020-01-31", "é", "x y", "1e5"])


@given(st.lists(HEADERS, min_size=1, max_size=4), st.data())
def test_a_draft_is_toml_whatever_the_file_holds(
    tmp_path_factory: pytest.TempPathFactory, headers: list[str], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.lists(WORDS, min_size=len(headers), max_size=len(headers)), max_size=8))
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text("\n".join(",".join(row) for row in [headers, *rows]), encoding="utf-8")
    with suppress(IngestError):  # no column, or no text
        assert tomllib.loads(draft(path))["name"] == "people"


def test_columns_of_long_texts_are_left_out_of_a_draft(tmp_path: Path) -> None:
    notes = ["note " * 2000, "short"] * 30
    table = pa.table({"age": range(60), "notes": notes, "scan": pa.array([b"x" * 5000] * 60, pa.binary(5000))})
    for dictionary in (True, False):
        pq.write_table(table, tmp_path / "x.parquet", use_dictionary=dictionary)
        text = draft_manifest(open_source(tmp_path / "x.parquet", CsvOptions()), None, name="d")
        assert "# - 'notes' holds texts too long for a table" in text
        assert "# - 'scan' holds texts too long for a table" in text
        assert 'name = "age"' in text
        assert "note note" not in text
