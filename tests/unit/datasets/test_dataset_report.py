"""A check reads on behind a fault and registers nothing; its report shows counts and places, and never a value."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROWS, World, body

from curator_service.datasets.checking import check_rows
from curator_service.datasets.manifest import Manifest, load_manifest
from curator_service.datasets.report import PLACES_KEPT, Fault, Report
from curator_service.datasets.snapshot import REPORT
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.sources.coding import iterate_rows
from curator_service.datasets.sources.csv import CsvSource
from curator_service.datasets.sources.opening import open_source

CANARY = "48151623"
COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
    {"name": "sex", "type": "categorical", "levels": ["F", "M"]},
    {"name": "seen", "type": "numeric", "format": "date", "origin": "1970-01-01", "lower": 0, "upper": 99_999},
    {"name": "mass", "type": "numeric", "lower": 40, "upper": 99, "missing": "complete"},
]
FINE = "50,F,2020-01-31,70"


def declare(**fields: Any) -> Manifest:
    given = {"name": "d", "population": "p", "row_capacity": 1000, "columns": COLUMNS}
    return Manifest.model_validate(given | fields)


def check(folder: Path, lines: list[str], header: str = "age,sex,seen,mass", **fields: Any) -> Report:
    path = folder / "d.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    manifest = declare(**fields)
    return check_rows(manifest, open_source(path, manifest.csv_options))


def one_column(folder: Path, values: list[Any], **declared: Any) -> Report:
    column = {"name": "x", "type": "numeric", "lower": 0, "upper": 90} | declared
    column = {name: value for name, value in column.items() if value is not ...}
    return check(folder, [f"{value},." for value in values], "x,y", columns=[column])


def test_every_fault_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    wrong = [f"{CANARY}x,F,2020-01-31,70", f"5,{CANARY},2020-01-31,70", "1,2", f"5,F,{CANARY},", f"inf,F,,{CANARY}"]
    report = check(tmp_path, [FINE, *wrong, FINE])
    assert {(fault.column, fault.rule, fault.places) for fault in report.faults} == {
        ("age", "the value is not a number", (3,)),
        ("sex", "the value is not one of the declared levels F, M", (4,)),
        (None, "2 fields where the header has 4", (5,)),
        ("seen", "the value is not a date like 2020-01-31", (6,)),
        ("mass", "the value is missing, and the manifest declares it complete", (6,)),
        ("age", "the value is not a number, but an infinity", (7,)),
    }
    assert report.rows == 6
    assert CANARY not in json.dumps(report.render())


def test_the_first_twenty_places_are_shown_and_the_others_counted(tmp_path: Path) -> None:
    (fault,) = check(tmp_path, [FINE, *["x,F,2020-01-31,70"] * 3000], row_capacity=5000).faults
    assert fault == Fault("age", "the value is not a number", 3000, tuple(range(3, 3 + PLACES_KEPT)))
    assert fault.word("line").endswith("20, 21, 22 and 2,980 more)")


def test_what_is_wrong_is_not_counted_as_missing(tmp_path: Path) -> None:
    report = check(tmp_path, ["x,F,2020-01-31,70", ",F,2020-01-31,70", "5,Q,2020-01-31,"])
    assert [column.missing for column in report.columns] == [1, 0, 0, 1]


def test_all_columns_that_are_absent_are_named(tmp_path: Path) -> None:
    (fault,) = check(tmp_path, [], "age,mass,mass").faults
    assert "no column 'sex', 'seen', and more than one column 'mass'" in fault.rule


def test_a_whole_column_of_another_type_is_one_fault(tmp_path: Path) -> None:
    names = ["age", "sex", "seen", "mass"]
    pq.write_table(pa.table([[True, False], ["F", "Q"], [1, 2], [50.0, 60.0]], names), tmp_path / "d.parquet")
    report = check_rows(declare(), open_source(tmp_path / "d.parquet", declare().csv_options))
    assert [(fault.column, fault.count, fault.places) for fault in report.faults] == [
        ("age", 0, ()),
        ("sex", 1, (2,)),
        ("seen", 0, ()),
    ]


def test_more_rows_than_the_capacity_are_counted_and_refused(tmp_path: Path) -> None:
    (fault,) = check(tmp_path, [FINE] * 12, row_capacity=10).faults
    assert fault.rule == "12 rows are more than the row_capacity of 10"


def test_persons_and_rows_beyond_their_share_are_counted(tmp_path: Path) -> None:
    lines = [f"p{i % 4},50" for i in range(10)] + [",50"]
    columns = [{"name": "age", "type": "numeric", "lower": 0, "upper": 90}]
    report = check(tmp_path, lines, "who,age", columns=columns, subject="who", rows_per_subject=2)
    assert (report.rows, report.persons, report.beyond_share) == (11, 4, 2)
    assert [(fault.rule, fault.places) for fault in report.faults] == [
        ("the subject is missing; whose row is it?", (12,))
    ]


def test_values_beyond_each_bound_are_counted(tmp_path: Path) -> None:
    (column,) = one_column(tmp_path, [-5, 0, 1, 90, 90.5, 91, "", 17]).columns
    assert (column.below, column.above, column.missing) == (1, 2, 1)


SUSPICIOUS = {
    "a code": ([*range(90), -9, -9, -9], {}, "3 values are -9, beyond the bounds"),
    "a code at a bound": ([*range(40), *[99] * 9], {"upper": 99}, "9 values are 99, at a bound"),
    "a unit": ([*range(50, 150)], {}, "59% of the values are beyond the bounds: is this the right unit?"),
    "a constant": ([3] * 9, {}, "every row that has a value has the same one"),
    "nothing": ([""] * 9, {}, "no row has a value"),
    "a level": (["a", "b"], {"type": "categorical", "levels": ["a", "b", "c"], "lower": ..., "upper": ...}, "level c"),
}


@pytest.mark.parametrize("name", SUSPICIOUS)
def test_what_looks_wrong_is_a_warning(tmp_path: Path, name: str) -> None:
    values, declared, said = SUSPICIOUS[name]
    report = one_column(tmp_path, values, **declared)
    assert [said in warning for warning in report.warnings] == [True]
    assert report.faults == ()


def test_a_tail_and_a_code_that_is_declared_are_no_warning(tmp_path: Path) -> None:
    assert one_column(tmp_path, [*range(80), 95, 96, 97, 98, 99, 99, 99, 101]).warnings == ()
    assert one_column(tmp_path, [*range(80), -9, -9, -9], missing_values=[-9]).warnings == ()


def test_rows_near_the_capacity_are_a_warning(tmp_path: Path) -> None:
    lines = [f"{i},{'FM'[i % 2]},2020-01-{i + 10},7{i}" for i in range(10)]
    assert check(tmp_path, lines, row_capacity=10).warnings == (
        "100% of row_capacity is used: more rows than that are refused",
    )
    assert check(tmp_path, lines, row_capacity=12).warnings == ()


VALUES = st.sampled_from(["", "5", "-1", "x", "F", "Q", "2020-01-31", "inf", "1e999", "0x1", '"', "70"])


@given(st.lists(st.lists(VALUES, min_size=3, max_size=5), max_size=6))
def test_a_check_finds_a_fault_just_where_registration_would_stop(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "compared.csv"
    path.write_text("\n".join(["age,sex,seen,mass", FINE, *map(",".join, rows)]) + "\n")
    manifest = declare()
    report = check_rows(manifest, CsvSource(path, manifest.csv_options))
    try:
        taken = list(iterate_rows(manifest, CsvSource(path, manifest.csv_options), lambda _: None))
    except IngestError:
        assert report.faults
    else:
        assert not report.faults
        assert sum(batch.count for batch in taken) == report.rows


def test_registration_keeps_the_report_that_a_check_gives(world: World) -> None:
    dataset_id = world.register("more", "town", ROWS)
    manifest = load_manifest(world.folder / "more.toml")
    checked = check_rows(manifest, CsvSource(world.folder / "more.csv", manifest.csv_options))
    (dataset,) = (one for one in world.curator.datasets.list_all() if one.id == dataset_id)
    assert world.curator.datasets.report(dataset) == checked
    assert any(column.missing and column.above for column in checked.columns)


def test_the_report_is_its_user_s_alone_and_among_what_a_backup_takes(world: World) -> None:
    dataset_id = world.register("more", "town", ROWS)
    (path,) = (path for path in world.curator.datasets.storage.files(dataset_id) if path.name == REPORT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_rows_are_available_without_their_report(world: World) -> None:
    dataset_id = world.register("more", "town", ROWS)
    (world.curator.datasets.storage.root / dataset_id / REPORT).unlink()
    assert world.curator.datasets.list_faults() == []


def test_no_answer_of_the_api_holds_anything_of_a_report(world: World) -> None:
    for dataset in world.curator.datasets.list_all():
        path = world.curator.datasets.storage.root / dataset.id / REPORT
        content = json.loads(path.read_bytes())
        marked = dict.fromkeys(("rows", "persons", "beyond_share"), int(CANARY)) | {"warnings": [CANARY]}
        marked |= {
            "columns": [one | dict.fromkeys(("missing", "below", "above"), int(CANARY)) for one in content["columns"]]
        }
        path.write_text(json.dumps(content | marked))
        assert world.curator.datasets.report(dataset).persons == int(CANARY)
    answers = [world.api().post("/v1/datasets/cohort/releases", json=body(), key="k")]
    answers.append(world.api().post("/v1/datasets/cohort/quotes", json=body()))
    values = {"name": "cohort", "population": "town", "release_id": answers[0].json()["id"]}
    for who in ("ada", "audra", "root"):
        api = world.api(who)
        paths = [path for path, item in api.app.openapi()["paths"].items() if "get" in item]
        filled = [re.sub(r"{(\w+)}", lambda found: values.get(found[1], "cohort"), path) for path in paths]
        answers += [
            api.get(path) for path in [*filled, "/v1/datasets/cohort/report", "/v1/admin/datasets/cohort/report"]
        ]
    assert sum(answer.status_code in {200, 201} for answer in answers) > 20
    assert not [answer.url for answer in answers if CANARY in answer.text]
