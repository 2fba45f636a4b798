"""Rows of a query: one statement, one instant, nothing written, no address and no value in a message."""

import os
import sqlite3
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest
from poolers import open_pooler
from pydantic import SecretStr
from support import fresh_database

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sketch import Sketcher
from curator_service.datasets.sources import base, csv
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.sources.coding import iterate_rows, observe_sketch
from curator_service.datasets.sources.csv import CsvSource
from curator_service.datasets.sources.sql import open_query
from curator_service.settings import Settings

SERVER = os.environ.get("CURATOR_TEST_POSTGRES_URL", "")
NEEDS_SERVER = pytest.mark.skipif(not SERVER, reason="CURATOR_TEST_POSTGRES_URL is not set")
CANARY = "48151623"
COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
    {"name": "sex", "type": "categorical", "levels": ["F", "M"]},
    {"name": "grade", "type": "categorical", "levels": [0, 1]},
    {"name": "alive", "type": "boolean"},
    {"name": "seen", "type": "numeric", "format": "datetime", "origin": "2020-01-01", "lower": 0, "upper": 1000},
]
MANIFEST = Manifest.model_validate(
    {"name": "d", "population": "p", "row_capacity": 1000, "columns": COLUMNS, "subject": "who", "rows_per_subject": 2}
)
TABLE = "CREATE TABLE visits (who text, age float, sex text, grade numeric, alive boolean, seen timestamp)"
ROWS = [
    (f"p{i % 7}", i / 3, "FM"[i % 2], i % 2, bool(i % 3), f"2020-01-{1 + i % 28:02} 10:30:00") for i in range(40)
] + [("last", None, None, None, None, None)]


POSTGRES = [pytest.mark.postgres, NEEDS_SERVER]


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=POSTGRES) for name in ("postgresql", "pgbouncer"))])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        with sqlite3.connect(tmp_path / "hospital.sqlite3") as connection:
            connection.execute(TABLE)
            connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?)", ROWS)
        connection.close()
        yield f"sqlite:///{tmp_path / 'hospital.sqlite3'}"
        return
    with fresh_database(SERVER) as address:
        with psycopg.connect(address) as connection:
            connection.execute(TABLE)
            connection.cursor().executemany("INSERT INTO visits VALUES (%s, %s, %s, %s, %s, %s)", ROWS)
        with open_pooler(tmp_path, address) if request.param == "pgbouncer" else nullcontext(address) as used:
            yield used


def ask(folder: Path, url: str, query: str) -> Any:
    path = folder / "query.sql"
    path.write_text(query)
    return collect(open_query(path, "hospital", url))


def collect(source: Any) -> Any:
    sketcher = Sketcher(b"t")
    batches = list(iterate_rows(MANIFEST, source, observe_sketch(sketcher)))
    rows = [
        [values.tolist() for values in batch.stored.values()]
        + [[] if batch.subjects is None else batch.subjects.to_pylist()]
        for batch in batches
    ]
    return rows, sketcher.finish().to_bytes()


def test_a_query_gives_what_its_result_gives_as_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(base, "BATCH_ROWS", 9)
    found = ask(tmp_path, url, "SELECT * FROM visits ORDER BY who = 'last', seen, who, age;\n")
    order = sorted(ROWS[:-1], key=lambda row: (row[5], row[0], row[1])) + ROWS[-1:]
    lines = [",".join("" if value is None else str(value) for value in row) for row in order]
    (tmp_path / "d.csv").write_text("\n".join(["who,age,sex,grade,alive,seen", *lines]))
    assert found == collect(CsvSource(tmp_path / "d.csv", MANIFEST.csv_options))


WRONG = {
    "two statements": "SELECT 1; DELETE FROM visits",
    "an end of the copy": "SELECT 1) TO STDOUT; COMMIT; DELETE FROM visits; COPY (SELECT 1",
    "a deletion": "DELETE FROM visits RETURNING *",
    "no SQL": f"SELEKT {CANARY}",
    "no table": "SELECT * FROM nothing_of_this_name",
    "no column": "SELECT who, age FROM visits",
    "a column twice": "SELECT *, 1 AS age FROM visits",
    "nothing": " ; ",
    "a wrong level": f"SELECT who, age, '{CANARY}' AS sex, grade, alive, seen FROM visits",
    "a wrong number": f"SELECT who, 'x{CANARY}' AS age, sex, grade, alive, seen FROM visits",
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_wrong_query_is_refused_and_writes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, url: str, name: str
) -> None:
    with pytest.raises(IngestError) as caught:
        ask(tmp_path, url, WRONG[name])
    assert str(tmp_path / "query.sql") in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert CANARY not in shown
    assert url not in shown
    assert len(ask(tmp_path, url, "SELECT * FROM visits")[0][0][0]) == 41


@pytest.mark.postgres
@NEEDS_SERVER
def test_a_query_in_postgresql_sees_one_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the careful reader asks a second time."""
    monkeypatch.setattr(base, "BATCH_ROWS", 9)
    monkeypatch.setattr(csv, "_BLOCK_BYTES", 500)
    with fresh_database(SERVER) as address, psycopg.connect(address, autocommit=True) as other:
        other.execute(TABLE)
        other.cursor().executemany("INSERT INTO visits VALUES (%s, %s, %s, %s, %s, %s)", ROWS)
        path = tmp_path / "query.sql"
        # A line that is longer than the fast reader takes, and each of its fields as long as the careful one takes.
        note = "repeat('x', CASE WHEN who = 'last' THEN 70000 ELSE 1 END)"
        path.write_text(f"SELECT *, {note} AS one, {note} AS other FROM visits")
        rows = iterate_rows(MANIFEST, open_query(path, "hospital", address), lambda _: None)
        first = next(rows)
        assert first.count == 9
        other.execute("DELETE FROM visits")
        assert first.count + sum(batch.count for batch in rows) == 41


@pytest.mark.postgres
@NEEDS_SERVER
def test_an_error_of_postgresql_shows_no_value(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="SQLSTATE 22P02") as caught:
        ask(tmp_path, SERVER, f"SELECT CAST(chr(120) || '{CANARY}' AS int) AS age")
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url", ["no address", "postgresql://nobody:pass4711@127.0.0.1:1/none", "oracle://x:pass4711@y"]
)
def test_a_database_that_is_not_there_is_named_without_its_address(tmp_path: Path, url: str) -> None:
    with pytest.raises(IngestError, match="hospital") as caught:
        ask(tmp_path, url, "SELECT 1")
    assert "pass4711" not in "".join(traceback.format_exception(caught.value))


def test_addresses_are_secrets_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURATOR_SOURCES", '{"hospital": "postgresql://reader:pass4711@db/records"}')
    settings = Settings()
    assert settings.sources == {"hospital": SecretStr("postgresql://reader:pass4711@db/records")}
    assert "pass4711" not in repr(settings)
