"""The unit of privacy: a manifest says whose rows they are, and columns that look like keys do not contradict it."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from support import PERSONS, World, manifest_text

from curator_service.datasets import repeats
from curator_service.datasets.checking import check_rows
from curator_service.datasets.drafting import draft_manifest
from curator_service.datasets.manifest import Manifest, ManifestError, load_manifest
from curator_service.datasets.reidentification import SubjectKey
from curator_service.datasets.sources.base import IngestError, Source
from curator_service.datasets.sources.opening import open_source
from curator_service.datasets.sources.sql import open_query
from curator_service.datasets.subjects import find_person, identify_rows, tells_persons_apart

X = [{"name": "x", "type": "numeric", "lower": 0, "upper": 100}]
SMALL: list[tuple[str, str, str, tuple[Any, ...], str | None]] = [("x", "numeric", "omit", (0.0, 100.0), None)]
COUNT = 280
VISITS: dict[str, list[Any]] = {
    "measurement_id": list(range(COUNT)),
    "person_id": [i // 10 for i in range(COUNT)],
    "visit_no": [i % 10 for i in range(COUNT)],
    "site_id": [i % 2 for i in range(COUNT)],
    "x": [i % 90 for i in range(COUNT)],
}
"""28 persons of ten visits each."""


def declare(**fields: Any) -> Manifest:
    return Manifest.model_validate({"name": "d", "population": "p", "row_capacity": 10**6, "columns": X} | fields)


def write_csv(folder: Path, table: dict[str, list[Any]]) -> Path:
    pyarrow.csv.write_csv(pa.table(table), folder / "d.csv")
    return folder / "d.csv"


def open_csv(folder: Path, table: dict[str, list[Any]]) -> Source:
    path = write_csv(folder, table)
    return open_source(path, declare().csv_options)


def open_doubtful_csv(folder: Path, table: dict[str, list[Any]]) -> Source:
    """Return a file that the careful reader reads, for a carriage return ends a line."""
    path = write_csv(folder, table)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r", 1))
    return open_source(path, declare().csv_options)


def open_parquet(folder: Path, table: dict[str, list[Any]]) -> Source:
    """Return two files, of which one has a key more."""
    (folder / "rows").mkdir()
    rows = pa.table(table)
    pq.write_table(rows.slice(0, 100).append_column("note_id", [[""] * 100]), folder / "rows" / "a.parquet")
    pq.write_table(rows.slice(100), folder / "rows" / "b.parquet")
    return open_source(folder / "rows", declare().csv_options)


def open_table(folder: Path, table: dict[str, list[Any]]) -> Source:
    with sqlite3.connect(folder / "d.db") as connection:
        connection.execute(f"CREATE TABLE d ({', '.join(table)})")
        connection.executemany(
            f"INSERT INTO d VALUES ({', '.join('?' * len(table))})", zip(*table.values(), strict=True)
        )
    (folder / "d.sql").write_text("SELECT * FROM d")
    return open_query(folder / "d.sql", "hospital", f"sqlite:///{folder / 'd.db'}")


OPENERS = {"csv": open_csv, "careful": open_doubtful_csv, "parquet": open_parquet, "query": open_table}


def find_keys(source: Source, **fields: Any) -> list[str]:
    """Return the columns of which a check says that they contradict a manifest, and nothing else."""
    rules = [fault.rule for fault in check_rows(declare(**fields), source).faults]
    assert all("the column " in rule for rule in rules), rules
    return [rule.split("'")[1] for rule in rules]


# --- What a manifest must say


def load(folder: Path, text: str) -> Manifest:
    (folder / "m.toml").write_text(text)
    return load_manifest(folder / "m.toml")


def test_a_manifest_that_does_not_say_whose_rows_they_are_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    for line in ("", "rows_are_persons = false"):
        with pytest.raises(ManifestError, match=r'subject = "…", with rows_per_subject, .*rows_are_persons = true'):
            load(tmp_path, manifest_text().replace(PERSONS, line))


def test_the_unit_is_asked_for_beside_every_other_fault(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        load(tmp_path, manifest_text(columns=SMALL).replace(PERSONS, "").replace("upper = 100.0", ""))
    assert "whose rows these are" in str(caught.value)
    assert "column 'x' needs upper" in str(caught.value)


@pytest.mark.parametrize("subject", ['"who"', '["site", "id"]'])
def test_rows_are_persons_or_a_subject_and_not_both(tmp_path: Path, subject: str) -> None:
    with pytest.raises(ManifestError, match="leave out this or the subject"):
        load(tmp_path, manifest_text().replace(PERSONS, f"{PERSONS}\nsubject = {subject}\nrows_per_subject = 1"))


def test_a_stored_manifest_without_a_word_of_it_means_that_rows_are_persons(tmp_path: Path) -> None:
    said = load(tmp_path, manifest_text())
    stored = said.model_dump_json()
    assert "rows_are_persons" not in stored
    assert "not_persons" not in stored
    again = Manifest.model_validate_json(stored)
    assert (again, again.digest, again.rows_per_person) == (said, said.digest, 1)


def test_what_is_no_person_is_part_of_the_declaration_whatever_the_rows_are(tmp_path: Path) -> None:
    text = manifest_text().replace(PERSONS, f'{PERSONS}\nnot_persons = ["visit_no", "nowhere"]')
    stored = load(tmp_path, text).model_dump_json()
    assert json.loads(stored)["not_persons"] == ["visit_no", "nowhere"]
    with pytest.raises(ManifestError, match="'who' tells persons apart, so it must not be in not_persons"):
        load(tmp_path, text.replace(PERSONS, 'subject = "who"\nrows_per_subject = 1').replace("nowhere", "who"))


@pytest.mark.parametrize(
    ("subject", "rule"),
    [
        ('["site", "site"]', "'site' is read twice"),
        ('["site", "age"]', "'age' tells persons apart, so it must not be a column"),
        ("[]", "at least 1"),
        ("3", "valid string"),
    ],
)
def test_a_subject_is_one_column_or_several_that_differ(tmp_path: Path, subject: str, rule: str) -> None:
    with pytest.raises(ManifestError, match=rule):
        load(tmp_path, manifest_text().replace(PERSONS, f"subject = {subject}\nrows_per_subject = 1"))


# --- What a check finds


@pytest.mark.parametrize("kind", OPENERS)
def test_a_key_that_is_not_declared_shows_that_rows_are_no_persons(tmp_path: Path, kind: str) -> None:
    source = OPENERS[kind](tmp_path, VISITS)
    assert find_keys(source, rows_are_persons=True) == ["person_id", "visit_no"]


@pytest.mark.parametrize("kind", OPENERS)
def test_a_person_shows_that_the_subject_is_only_a_visit(tmp_path: Path, kind: str) -> None:
    source = OPENERS[kind](tmp_path, VISITS)
    assert find_keys(source, subject="measurement_id", rows_per_subject=1, not_persons=["visit_no"]) == ["person_id"]


def test_a_person_shows_too_where_a_visit_has_several_rows(tmp_path: Path) -> None:
    table = VISITS | {"stay_id": [i // 5 for i in range(COUNT)]}
    table = {name: table[name] for name in ("stay_id", "person_id", "x")}
    assert find_keys(open_csv(tmp_path, table), subject="stay_id", rows_per_subject=5) == ["person_id"]


def test_a_person_by_name_shows_in_several_households_although_these_have_several_persons(tmp_path: Path) -> None:
    table = {
        "household_id": [i // 4 for i in range(COUNT)],
        "patient_id": [i % (COUNT - 20) for i in range(COUNT)],
        "visit_no": [i % (COUNT - 20) for i in range(COUNT)],
        "x": VISITS["x"],
    }
    assert find_keys(open_csv(tmp_path, table), subject="household_id", rows_per_subject=4) == ["patient_id"]


def test_visits_of_a_person_do_not_contradict_that_the_person_is_the_subject(tmp_path: Path) -> None:
    assert find_keys(open_csv(tmp_path, VISITS), subject="person_id", rows_per_subject=5) == []


def test_staff_does_not_contradict_a_subject_that_is_a_person_by_name(tmp_path: Path) -> None:
    table = {"patient_id": list(range(COUNT)), "provider_id": VISITS["person_id"], "x": VISITS["x"]}
    assert find_keys(open_csv(tmp_path, table), subject="patient_id", rows_per_subject=1) == []
    assert find_keys(open_csv(tmp_path, table), rows_are_persons=True) == ["provider_id"]


def test_the_way_out_of_each_refusal_is_a_declaration(tmp_path: Path) -> None:
    source = open_csv(tmp_path, VISITS)
    assert find_keys(source, rows_are_persons=True, not_persons=["person_id", "visit_no"]) == []
    (fault,) = check_rows(declare(rows_are_persons=True, not_persons=["visit_no"]), source).faults
    assert fault.rule == (
        "the column 'person_id' seems to number persons: 28 of its 28 values are in more than one row, so that one "
        "person may count as many. Name the column that tells persons apart as the subject; or, if rows with one value "
        "of 'person_id' may be of different persons, declare not_persons = [\"person_id\"]"
    )


@pytest.mark.parametrize(
    "column",
    [
        {"type": "numeric", "lower": 0, "upper": 5},
        {"type": "categorical", "levels": list(range(28))},
        {"type": "numeric", "lower": 0, "upper": 5, "source": "person_id", "name": "number"},
    ],
    ids=["numeric", "categorical", "renamed"],
)
def test_a_key_that_is_declared_as_a_feature_is_counted_too(tmp_path: Path, column: dict[str, Any]) -> None:
    """Before bounds: persons beyond an upper bound of 5 would be one."""
    columns = [{"name": "person_id"} | column]
    assert find_keys(open_csv(tmp_path, VISITS), columns=columns, not_persons=["visit_no"]) == ["person_id"]
    assert find_keys(open_csv(tmp_path, VISITS), columns=columns, not_persons=["visit_no", "person_id"]) == []


def test_one_value_of_a_hundred_may_repeat_and_not_two(tmp_path: Path) -> None:
    for twice, found in ((1, []), (2, ["id"])):
        table = {"id": [f"N{i}" for i in [*range(100), *range(twice)]], "x": [1] * (100 + twice)}
        assert find_keys(open_csv(tmp_path, table)) == found


def test_look_alikes_are_one_value_and_missing_ones_are_none(tmp_path: Path) -> None:
    pairs = [f" n{i}" for i in range(9)] + [f"N{i}" for i in range(9)]
    assert find_keys(open_csv(tmp_path, {"id": pairs, "x": [1] * 18})) == ["id"]
    table = {"id": [*map(str, range(50)), "", "", "NA", "NA"], "x": [1] * 54}
    assert find_keys(open_csv(tmp_path, table), missing_values=["NA"]) == []


@pytest.mark.parametrize("times", [1, 3])
def test_beyond_so_many_values_a_sample_of_them_is_counted(
    tmp_path: Path, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "_KEPT", 500)
    monkeypatch.setattr(repeats, "_PENDING", 900)
    monkeypatch.setattr("curator_service.datasets.sources.base.BATCH_ROWS", 700)
    table = {"id": list(range(6000 // times)) * times, "x": [1] * 6000}
    report = check_rows(declare(), open_csv(tmp_path, table))
    assert [fault.rule.split(" are ")[0].split(": ")[1] for fault in report.faults] == (
        [] if times == 1 else [f"{count} of a sample of {count} of its values" for count in _counts_of(report)]
    )


def _counts_of(report: Any) -> Sequence[str]:
    counts = [fault.rule.split("a sample of ")[1].split(" ")[0] for fault in report.faults]
    assert all(200 < int(count) <= 500 for count in counts)
    return counts


@pytest.mark.parametrize("kind", ["csv", "careful", "query"])
def test_a_text_that_is_too_long_for_a_key_is_no_value_of_one(tmp_path: Path, kind: str) -> None:
    table: dict[str, list[Any]] = {"patient": ["{" * 400] * 10 + [f"p{i}" for i in range(20)], "x": [1] * 30}
    assert find_keys(OPENERS[kind](tmp_path, table)) == []
    table["patient"][:2] = ["q", "q"]
    (tmp_path / "again").mkdir()
    assert find_keys(OPENERS[kind](tmp_path / "again", table)) == ["patient"]


@pytest.mark.parametrize("length", [10_000, 3000], ids=["of one value", "of all together"])
def test_long_texts_under_the_name_of_a_key_are_neither_counted_nor_refused(
    tmp_path: Path, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curator_service.datasets.sources.parquet._BATCH_BYTES", 2**15)
    monkeypatch.setattr("curator_service.datasets.sources.parquet._BATCH_BYTES_EACH", 2**10)
    table = pa.table({"patient": ["{" * length] * 30, "x": [i / 7 for i in range(30)]})
    pq.write_table(table, tmp_path / "d.parquet")
    source = open_source(tmp_path / "d.parquet", declare().csv_options)
    assert check_rows(declare(), source).faults == ()
    assert "'patient' holds texts too long" in draft_manifest(source, None, name="d")


def test_a_subject_that_numbers_records_by_its_name_is_warned_of(tmp_path: Path) -> None:
    source = open_csv(tmp_path, {"visit_id": VISITS["measurement_id"], "x": VISITS["x"]})
    (warning,) = check_rows(declare(subject="visit_id", rows_per_subject=1), source).warnings
    assert warning == "the subject's column 'visit_id' seems to number records, of which one person may have several"


# --- Registering


def write(world: World, table: dict[str, list[Any]], head: str) -> tuple[Path, Path]:
    manifest = world.folder / "d.toml"
    manifest.write_text(manifest_text("d", columns=SMALL).replace(PERSONS, head))
    return manifest, write_csv(world.folder, table)


def entries(world: World) -> list[Any]:
    return sorted(world.sql("SELECT * FROM ledger_entries"))


def test_a_registration_is_refused_with_no_entry_anywhere(world: World, caplog: pytest.LogCaptureFixture) -> None:
    before = entries(world), world.curator.datasets.list_all()
    with pytest.raises(IngestError, match="'person_id' seems to number persons: 28 of its 28 values"):
        world.curator.datasets.register(*write(world, VISITS, PERSONS), actor="operator:test")
    assert (entries(world), world.curator.datasets.list_all()) == before
    assert "person_id" not in caplog.text
    assert not list((world.settings.data_dir / "datasets").glob(".incoming-*"))
    head = f'{PERSONS}\nnot_persons = ["person_id", "visit_no"]'
    world.curator.datasets.register(*write(world, VISITS, head), actor="operator:test")


def test_rows_for_a_registered_dataset_may_leave_the_column_out(world: World) -> None:
    once = {name: values[::10] for name, values in VISITS.items() if name in {"person_id", "x"}}
    world.curator.datasets.register(*write(world, once, PERSONS), actor="operator:test")
    path = write_csv(world.folder, VISITS | {"visit_no": list(range(COUNT))})
    with pytest.raises(IngestError, match="leave the column out of these rows"):
        world.curator.versions.add_rows("d", path, act="replace", actor="operator:test")
    world.curator.versions.add_rows("d", write_csv(world.folder, {"x": VISITS["x"]}), act="replace", actor="operator:t")


def test_a_registered_dataset_keeps_what_its_manifest_declared(world: World) -> None:
    columns = [*SMALL, ("visit_no", "numeric", "omit", (0.0, 10.0), None)]
    manifest, data = write(world, {"visit_no": list(range(9)), "x": list(range(9))}, PERSONS)
    manifest.write_text(manifest_text("d", columns=columns))
    world.curator.datasets.register(manifest, data, actor="operator:test")
    path = write_csv(world.folder, {"visit_no": [1] * 9, "x": list(range(1, 10))})
    world.curator.versions.add_rows("d", path, act="replace", actor="operator:test")


# --- Subjects of several columns

SITES = {"site": ["north", "north", "South", "south "], "id": ["7", "7", "7", "8"], "x": [1, 2, 3, 4]}


def test_columns_tell_persons_apart_together(tmp_path: Path) -> None:
    report = check_rows(declare(subject=["site", "id"], rows_per_subject=1), open_csv(tmp_path, SITES))
    assert (report.faults, report.persons, report.beyond_share) == ((), 3, 1)
    joined = {"site": ["a", "ab", "a"], "id": ["bc", "c", ""], "x": [1, 2, 3]}
    report = check_rows(declare(subject=["site", "id"], rows_per_subject=1), open_csv(tmp_path, joined))
    assert report.persons == 2
    (fault,) = report.faults
    assert (fault.column, fault.places) == ("id", (4,))


def test_a_person_of_several_columns_is_found_by_all_of_them(world: World) -> None:
    head = 'subject = ["site", "id"]\nrows_per_subject = 2'
    dataset = world.curator.datasets.register(*write(world, SITES, head), actor="operator:test")
    storage, keys = world.curator.datasets.storage, world.curator.keys
    (held,) = find_person(storage, keys, [dataset], "North\t7")
    assert held.values["x"] == pytest.approx([1, 2])
    assert list(find_person(storage, keys, [dataset], "7")) == []
    assert not tells_persons_apart(storage, dataset, "7")
    assert tells_persons_apart(storage, dataset, "north\t9")
    assert [waiting.dataset.name for waiting in world.curator.versions.erase("SOUTH\t8", actor="operator:test")] == [
        "d"
    ]
    assert world.curator.versions.erase("south8", actor="operator:test") == []


def test_a_row_of_several_columns_is_identified_as_it_is_searched_for(world: World, tmp_path: Path) -> None:
    key = SubjectKey.make(tmp_path / "subjects.key")
    world.curator.keys.subject_key_file = tmp_path / "subjects.key"
    head = 'subject = ["site", "id"]\nrows_per_subject = 2'
    dataset = world.curator.datasets.register(*write(world, SITES, head), actor="operator:test")
    (found,) = identify_rows(world.curator.datasets.storage, dataset, key, [3])
    assert found == "south\t7"
    assert list(find_person(world.curator.datasets.storage, world.curator.keys, [dataset], found))
