"""Rules of a file and a manifest: a mistake is named by place, shows no value, and leaves nothing behind."""

import multiprocessing
import os
import signal
import sqlite3
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rows_on_disk import read_columns
from support import COLUMNS, PERSONS, ROWS, World, csv_text, make_rows, manifest_text

from curator_service.datasets.engines import numpy as engine
from curator_service.datasets.manifest import ManifestError, load_manifest
from curator_service.datasets.service import RegistrationError
from curator_service.datasets.sources import base as reader
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.sources.coding import iterate_rows
from curator_service.datasets.sources.opening import open_source
from curator_service.kinds.gram import kernel
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kit.problems import Unavailable
from curator_service.privacy.design import code_rows, make_design
from curator_service.privacy.lattice import MISSING, UNIT
from curator_service.privacy.row_maps import Ball

SECRET = "4711.5"
SMALL: list[tuple[str, str, str, tuple[Any, ...], str | None]] = [
    ("age", "numeric", "complete", (50.0, 100.0), "years"),
    ("weight", "numeric", "omit", (40.0, 160.0), "kg"),
    ("sex", "categorical", "complete", ("F", "M"), None),
    ("alive", "boolean", "midpoint", (), None),
]


def state(world: World) -> list[Any]:
    """Return all that a registration writes: rows, entries and folders."""
    tables = ("datasets", "ledger_entries", "snapshots", "sketches", "populations")
    folders = sorted(path.name for path in (world.settings.data_dir / "datasets").iterdir())
    return [sorted(world.sql(f"SELECT * FROM {table}")) for table in tables] + [folders]


def register(world: World, data: str | bytes, manifest: str | None = None) -> None:
    manifest_path, source = world.folder / "new.toml", world.folder / "new.csv"
    manifest_path.write_text(manifest_text("new", columns=SMALL) if manifest is None else manifest, encoding="utf-8")
    source.write_bytes(data.encode() if isinstance(data, str) else data)
    world.curator.datasets.register(manifest_path, source, actor="operator:test")


def assert_refused(
    world: World, kind: type[Exception], parts: list[str], data: str | bytes, manifest: str | None = None
) -> None:
    """Assert that a registration fails in these words, shows no value, and leaves nothing."""
    before = state(world)
    with pytest.raises(kind) as caught:
        register(world, data, manifest)
    message = str(caught.value)
    for part in parts:
        assert part in message
    assert SECRET not in message
    assert state(world) == before


GOOD = "age,weight,sex,alive\n60,70,F,true\n"

BAD_FILES: dict[str, tuple[str | bytes, list[str]]] = {
    "no number": (GOOD + f"x{SECRET},70,F,true\n", ["new.csv, line 3, column 'age'", "not a number"]),
    "decimal comma": (GOOD + f'"{SECRET.replace(".", ",")}",70,F,true\n', ["line 3, column 'age'", "not a number"]),
    "thousands": (GOOD + '"4,711.5",70,F,true\n', ["line 3, column 'age'"]),
    "NA": (GOOD + "60,NA,F,true\n", ["line 3, column 'weight'", "not a number"]),
    "infinity": (GOOD + "60,inf,F,true\n", ["line 3, column 'weight'", "not a number"]),
    "minus infinity": (GOOD + "60,-Infinity,F,true\n", ["line 3, column 'weight'", "not a number"]),
    "infinity where complete": (GOOD + "inf,70,F,true\n", ["line 3, column 'age'", "not a number"]),
    "NaN where complete": (GOOD + "NaN,70,F,true\n", ["line 3, column 'age'", "missing"]),
    "undeclared level": (GOOD + f"60,70,{SECRET},true\n", ["line 3, column 'sex'", "declared levels F, M"]),
    "level in other case": (GOOD + "60,70,f,true\n", ["line 3, column 'sex'", "declared levels F, M"]),
    "no boolean": (GOOD + f"60,70,F,{SECRET}\n", ["line 3, column 'alive'", "declared levels"]),
    "missing where complete": (GOOD + ",70,F,true\n", ["line 3, column 'age'", "missing", "complete"]),
    "missing level where complete": (GOOD + "60,70,,true\n", ["line 3, column 'sex'", "missing", "complete"]),
    "short line": (GOOD + f"60,70,{SECRET}\n", ["line 3", "3 fields", "4"]),
    "long line": (GOOD + f"60,70,F,true,{SECRET}\n", ["line 3", "5 fields", "4"]),
    "duplicate header": ("age,weight,sex,alive,age\n60,70,F,true,60\n", ["line 1", "more than one column 'age'"]),
    "missing column": ("age,weight,sex\n60,70,F\n", ["line 1", "no column 'alive'"]),
    "column in other case": ("Age,weight,sex,alive\n60,70,F,true\n", ["line 1", "no column 'age'"]),
    "empty file": ("", ["line 1", "empty"]),
    "header alone": ("age,weight,sex,alive\n", ["no rows"]),
    "blank lines alone": ("age,weight,sex,alive\n\n\n", ["no rows"]),
    "Latin-1": (GOOD.encode() + "60,70,\xc9,true\n".encode("latin-1"), ["not UTF-8"]),
    "UTF-16": (GOOD.encode("utf-16"), []),
    "NUL": (GOOD + f"60,7\x000{SECRET},F,true\n", ["line 3"]),
    "open quote": (GOOD + f'60,70,F,"{SECRET}\n', ["line"]),
    "text after a quote": (GOOD + f'60,70,"F"{SECRET},true\n', ["line 3"]),
    "a field over three lines": (
        'age,note,weight,sex,alive\n60,x,70,F,true\n60,"one\ntwo\nthree",70,F,true\n', ["line 3", "quote"]
    ),
    "a stray quote that swallows other rows": (
        'age,note,weight,sex,alive\n60,"x,70,F,true\n61,y,71,F,true\n62,z",72,M,true\n', ["line 2", "quote"]
    ),
    "a quote that is never closed": ('age,note,weight,sex,alive\n60,"x,70,F,true\n61,y,71,F,true\n', ["line"]),
    "after blank lines": (GOOD + "\n\nx,70,F,true\n", ["line 5, column 'age'"]),
    "after CRLF": ("age,weight,sex,alive\r\n60,70,F,true\r\nx,70,F,true\r\n", ["line 3, column 'age'"]),
    "formula": (GOOD + "60,70,=cmd|' /C calc'!A0,true\n", ["line 3, column 'sex'"]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BAD_FILES))
def test_a_bad_file_is_refused_by_place(world: World, name: str) -> None:
    data, parts = BAD_FILES[name]
    assert_refused(world, IngestError, ["new.csv", *parts], data)


def test_a_formula_in_a_bad_value_is_not_repeated(world: World) -> None:
    with pytest.raises(IngestError) as caught:
        register(world, GOOD + "60,70,=cmd|calc,true\n")
    assert "=cmd" not in str(caught.value)


def column_text(lines: str) -> str:
    head = f'name = "new"\npopulation = "town"\n{PERSONS}\nrow_capacity = 10\n'
    return f'{head}[[columns]]\nname = "age"\n{lines}\n'


BAD_MANIFESTS: dict[str, tuple[str, list[str]]] = {
    "no bounds": (column_text('type = "numeric"'), ["column 'age'", "bounds", "declared"]),
    "one bound": (column_text('type = "numeric"\nlower = 0'), ["column 'age'", "bounds"]),
    "bounds the wrong way round": (column_text('type = "numeric"\nlower = 9\nupper = 1'), ["column 'age'", "below"]),
    "equal bounds": (column_text('type = "numeric"\nlower = 9\nupper = 9'), ["column 'age'", "below"]),
    "infinite bound": (column_text('type = "numeric"\nlower = 0\nupper = inf'), ["column 'age', upper", "finite"]),
    "NaN bound": (column_text('type = "numeric"\nlower = nan\nupper = 1'), ["column 'age', lower", "finite"]),
    "bounds too close": (column_text('type = "numeric"\nlower = 0\nupper = 1e-301'), ["column 'age'", "close"]),
    "levels of a number": (column_text('type = "numeric"\nlower = 0\nupper = 1\nlevels = ["a"]'), ["column 'age'"]),
    "bounds of a category": (column_text('type = "categorical"\nlevels = ["a", "b"]\nlower = 0'), ["column 'age'"]),
    "one level": (column_text('type = "categorical"\nlevels = ["a"]'), ["column 'age'", "two"]),
    "no levels": (column_text('type = "categorical"'), ["column 'age' needs levels", "never read from the data"]),
    "other that is no level": (
        column_text('type = "categorical"\nlevels = ["a", "b"]\nother = "c"'), ["column 'age'", "other names one"]
    ),
    "format of no text": (
        column_text('type = "numeric"\nlower = 0\nupper = 1\nformat = ["date"]'), ["column 'age', format", "'date' or"]
    ),
    "other of a boolean": (
        column_text('type = "boolean"\nlevels = ["a", "b"]\nother = "b"'), ["column 'age'", "column has no other"]
    ),
    "header with a name twice": (
        column_text('type = "boolean"\n[csv]\nheader = ["age", "x", "x"]'), ["csv", "header", "equal"]
    ),
    "duplicate level": (column_text('type = "categorical"\nlevels = ["a", "a"]'), ["column 'age'", "differ"]),
    "bracket in a level": (column_text('type = "categorical"\nlevels = ["a", "b]"]'), ["column 'age', levels, 1"]),
    "empty level": (column_text('type = "categorical"\nlevels = ["a", ""]'), ["column 'age', levels, 1"]),
    "newline in a level": (column_text('type = "categorical"\nlevels = ["a", "b\\n"]'), ["column 'age', levels, 1"]),
    "level that no trimmed value equals": (
        column_text('type = "categorical"\nlevels = ["a", " b"]'), ["column 'age'", "space"],
    ),
    "level that collides with the indicator": (
        column_text('type = "categorical"\nlevels = ["a", "missing"]\nmissing = "indicator"'),
        ["column 'age'", "missing"],
    ),
    "three boolean levels": (column_text('type = "boolean"\nlevels = ["a", "b", "c"]'), ["column 'age'", "two"]),
    "unknown type": (column_text('type = "date"'), ["column 'age', type"]),
    "unknown missing rule": (column_text('type = "boolean"\nmissing = "mean"'), ["column 'age', missing"]),
    "unknown field": (column_text('type = "boolean"\nsubject = true'), ["column 'age', subject"]),
    "no type": (column_text(""), ["column 'age', type"]),
    "column twice": (
        column_text('type = "boolean"\n[[columns]]\nname = "age"\ntype = "boolean"'), ["'age'", "twice"]
    ),
    "reserved name": (column_text('type = "boolean"').replace('"age"', '"(constant)"'), ["column '(constant)', name"]),
    "name with a bracket": (column_text('type = "boolean"').replace('"age"', '"age[M]"'), ["column 'age[M]', name"]),
    "name with a newline": (column_text('type = "boolean"').replace('"age"', '"age\\n"'), ["name"]),
    "no columns": ('name = "new"\npopulation = "town"\nrow_capacity = 10\ncolumns = []', ["columns"]),
    "columns no list": ('name = "new"\npopulation = "town"\nrow_capacity = 10\ncolumns = 3', ["columns"]),
    "column no table": ('name = "new"\npopulation = "town"\nrow_capacity = 10\ncolumns = [3]', ["column number 1"]),
    "no population": (column_text('type = "boolean"').replace('population = "town"', ""), ["population"]),
    "no name": (column_text('type = "boolean"').replace('name = "new"', ""), ["name"]),
    "name with a slash": (column_text('type = "boolean"').replace('"new"', '"../new"'), ["name"]),
    "capacity 0": (column_text('type = "boolean"').replace("= 10", "= 0"), ["row_capacity"]),
    "capacity too large": (column_text('type = "boolean"').replace("= 10", f"= {10**11 + 1}"), ["row_capacity"]),
    "capacity missing": (column_text('type = "boolean"').replace("row_capacity = 10", ""), ["row_capacity"]),
    "not TOML": ("name = new", ["not valid TOML"]),
    "5,000 digits": (column_text('type = "boolean"').replace("= 10", f"= {'9' * 5000}"), ["thousands of digits"]),
    "5,000 hexadecimal digits": (
        column_text('type = "boolean"').replace("= 10", f"= 0x{'f' * 5000}"), ["row_capacity", "thousands of digits"]
    ),
    "a key of 50,000 parts": (".".join(["a"] * 50_000) + " = 1", ["16 parts"]),
    "a quoted key of 50,000 parts": (" . ".join(["'a'"] * 50_000) + " = 1", ["16 parts"]),
    "a header of 50,000 parts": (f"[{'.'.join(['a'] * 50_000)}]", ["16 parts"]),
    "a key of 50,000 parts in a table": (f"x = {{ {'.'.join(['a'] * 50_000)} = 1 }}", ["16 parts"]),
    "300,000 columns": ("[[columns]]\n" * 300_000, ["more than 1000 columns"]),
    "too many bytes": ("#" * (4 * 2**20 + 1), ["more than 4194304 bytes"]),
    "deep TOML": (f"a = {'[' * 5000}{']' * 5000}", ["not valid TOML"]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BAD_MANIFESTS))
def test_a_bad_manifest_is_refused_by_place(world: World, name: str) -> None:
    manifest, parts = BAD_MANIFESTS[name]
    assert_refused(world, ManifestError, ["new.toml", *parts], GOOD, manifest)


@pytest.mark.parametrize(
    "text",
    [
        'name = "new"\npopulation = "town"\nrow_capacity = 10'
        + "".join(f'\n[[columns]]\nname = "c{i}"\ntype = "boolean"' for i in range(1001)),
        column_text('type = "boolean"').replace('"new"', f'"{"n" * 5000}"'),
    ],
    ids=["columns", "name"],
)
def test_a_message_repeats_little_of_a_manifest(world: World, text: str) -> None:
    path = world.folder / "large.toml"
    path.write_text(text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    assert len(str(caught.value)) < 300 + len(str(path))


def test_dots_within_texts_and_numbers_are_no_keys(world: World) -> None:
    oid = "2.16.840.1.113883.6.1.2.3.4.5.6.7.8.9.10.11.12.13.14"
    path = world.folder / "dots.toml"
    text = f'# {oid}\ndescription = "a \\" {oid}"\n' + column_text(f"type = \"boolean\"\nunit = '{oid}'")
    path.write_text(text + f'description = """{oid}\n{oid}"""\n')
    assert load_manifest(path).columns[0].unit == oid


def test_a_long_list_of_mistakes_is_cut(world: World) -> None:
    path = world.folder / "many.toml"
    path.write_text(column_text('type = "boolean"') + "".join(f"x{i} = 1\n" for i in range(1000)))
    with pytest.raises(ManifestError, match="and 980 more mistakes"):
        load_manifest(path)


@pytest.mark.parametrize("which", ["pipe", "/dev/zero", "/proc/self/mem", "/proc/version"])
def test_what_is_no_regular_file_is_refused_at_once(world: World, which: str) -> None:
    place = world.folder / which
    if which == "pipe":
        os.mkfifo(place)
    manifest, data = world.folder / "new.toml", world.folder / "new.csv"
    manifest.write_text(manifest_text("new", columns=SMALL))
    data.write_text(GOOD)
    before = state(world)
    with pytest.raises(ManifestError, match="not a regular file"):
        world.curator.datasets.register(place, data, actor="operator:test")
    with pytest.raises(IngestError, match="not a regular file"):
        world.curator.datasets.register(manifest, place, actor="operator:test")
    assert state(world) == before


@pytest.mark.parametrize("before", ["", GOOD], ids=["header", "row"])
def test_a_line_that_is_too_long_is_refused_before_it_is_read(world: World, before: str) -> None:
    source, manifest = world.folder / "long.csv", world.folder / "new.toml"
    manifest.write_text(manifest_text("new", columns=SMALL))
    with source.open("w") as file:
        file.write(before)
        file.write("1," * 2**24)
    declared = load_manifest(manifest)
    tracemalloc.start()
    try:
        with pytest.raises(IngestError, match=f"line {1 if not before else 3}: longer than"):
            list(iterate_rows(declared, open_source(source, declared.csv_options), lambda _: None))
        assert tracemalloc.get_traced_memory()[1] < 2**25  # the line alone has 2**25 characters
    finally:
        tracemalloc.stop()


def test_long_lines_are_parsed_in_smaller_chunks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And cutting them elsewhere changes nothing of what is stored."""
    register(world, csv_text(make_rows(50, seed=3)), manifest_text("whole"))
    monkeypatch.setattr(reader, "BATCH_CHARACTERS", 500)
    counts: list[int] = [0]
    (world.folder / "new.toml").write_text(manifest_text("cut"))
    (world.folder / "new.csv").write_text(csv_text(make_rows(50, seed=3)))
    world.curator.datasets.register(
        world.folder / "new.toml",
        world.folder / "new.csv",
        actor="operator:test",
        progress=lambda count, _share: counts.append(count),
    )
    assert max(np.diff(counts)) < 20
    assert counts[-1] == 50
    (whole, gram), (cut, cut_gram) = read_back(world, "whole"), read_back(world, "cut")
    assert whole == cut
    assert (gram == cut_gram).all()


def test_a_manifest_that_is_not_utf_8_is_refused(world: World) -> None:
    path = world.folder / "latin.toml"
    path.write_bytes('description = "\xe9"'.encode("latin-1"))
    with pytest.raises(ManifestError, match="not UTF-8"):
        load_manifest(path)


@pytest.mark.parametrize("sign", ["\x9b", "\x80", "\u202e", "\u2066", "\u200f", "\u061c", "\\u202e", "\\u007f"])
def test_what_a_terminal_would_obey_is_no_part_of_a_manifest(tmp_path: Path, sign: str) -> None:
    path, text = tmp_path / "m.toml", manifest_text("new", columns=SMALL)
    said = f"U+{int(sign[2:], 16) if sign[0] == chr(92) else ord(sign):04X} changes how a terminal shows a text"
    for wrong in (
        text.replace('"years"', f'"ye{sign}ars"'),
        text.replace('"F"', f'"F{sign}"'),
        f'description = "{sign}"\n{text}',
        f'subject = "who{sign}"\nrows_per_subject = 1\n{text}',
        f'"{sign}" = 1\n{text}',
        f'missing_values = ["{sign}"]\n{text}',
    ):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(ManifestError) as caught:
            load_manifest(path)
        assert said in str(caught.value)
        assert sign not in str(caught.value)


def test_too_many_rows_are_refused_and_never_cut(world: World) -> None:
    rows = make_rows(5, seed=2)
    assert_refused(
        world,
        IngestError,
        ["new.csv", "row_capacity of 4", "nothing was cut"],
        csv_text(rows),
        manifest_text("new", row_capacity=4),
    )
    register(world, csv_text(rows[:4]), manifest_text("new", row_capacity=4))


def test_an_unknown_population_is_refused(world: World) -> None:
    manifest = manifest_text("new", "twon", columns=SMALL)
    assert_refused(world, RegistrationError, ["'twon'", "does not exist"], GOOD, manifest)


def test_a_population_in_other_case_is_another_population(world: World) -> None:
    assert_refused(world, RegistrationError, ["'Town'"], GOOD, manifest_text("new", "Town", columns=SMALL))


def test_a_dataset_s_name_is_given_once(world: World) -> None:
    assert_refused(
        world, RegistrationError, ["'cohort' exists"], csv_text(make_rows(9, seed=5)), manifest_text("cohort")
    )


def test_a_new_version_of_the_same_people_shares_their_budget(world: World) -> None:
    register(world, csv_text(ROWS), manifest_text("new", "town"))
    assert {d.population for d in world.curator.datasets.list_all() if d.name in {"new", "cohort"}} == {"town"}


def test_a_failure_while_registering_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("no disk")

    place = "RuntimeError in datasets/snapshot.py, line"
    for name, error, said in (("Storage.publish", RuntimeError, "no disk"), ("sync", IngestError, place)):
        with monkeypatch.context() as patch:
            patch.setattr(f"curator_service.datasets.snapshot.{name}", fail)
            assert_refused(world, error, [said], GOOD)
    register(world, GOOD)


@pytest.mark.parametrize("way", ["abort", "kill", "memory"])
def test_a_file_that_ends_its_reader_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    """As one might that a library does not stand: nothing is left, and nothing of it is shown."""

    def end(*_arguments: object) -> None:
        os.write(2, SECRET.encode())
        match way:
            case "abort":
                os.abort()
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "memory":
                np.ones(2**27)

    monkeypatch.setattr("curator_service.datasets.snapshot.Persons.add", end)
    words = {"abort": "SIGABRT", "kill": "SIGKILL", "memory": "it takes more memory than it may"}
    said = ["new.csv: its reading was ended, and nothing is kept of it", words[way], "512 MiB"]
    manifest = manifest_text("new", columns=SMALL).replace(PERSONS, 'subject = "who"\nrows_per_subject = 1')
    assert_refused(world, IngestError, said, GOOD.replace("age,", "who,age,").replace("\n60", "\np,60"), manifest)
    assert SECRET not in "".join(capfd.readouterr())


def test_a_registration_that_is_interrupted_leaves_nothing(world: World) -> None:
    def interrupt(_count: int, _share: float | None) -> None:
        assert len(multiprocessing.active_children()) == 1
        raise KeyboardInterrupt

    manifest, source, before = world.folder / "new.toml", world.folder / "new.csv", state(world)
    manifest.write_text(manifest_text("new", columns=SMALL))
    source.write_text(GOOD)
    with pytest.raises(KeyboardInterrupt):
        world.curator.datasets.register(manifest, source, actor="operator:test", progress=interrupt)
    assert multiprocessing.active_children() == []
    assert state(world) == before


def test_what_fails_after_the_commit_leaves_the_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An anchor that cannot be written: the dataset is registered, and its rows must not go."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise Unavailable("the anchor")

    with monkeypatch.context() as patch:
        patch.setattr("curator_service.ledger.trust.guard.Guard.anchor_before_send", fail)
        with pytest.raises(Unavailable):
            register(world, GOOD)
    assert world.curator.datasets.list_faults() == []
    assert "new" in {dataset.name for dataset in world.curator.datasets.list_all()}
    assert world.discrepancies() == []


def test_a_commit_of_unknown_outcome_leaves_the_rows_to_the_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(world)

    def fail(*_arguments: object, **_options: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr("curator_service.datasets.repository.list_changes", fail)
        patch.setattr("curator_service.datasets.repository.insert_dataset", fail)
        with pytest.raises(sqlite3.OperationalError):
            register(world, GOOD)
    assert len(state(world)[-1]) == len(before[-1]) + 1
    assert world.curator.datasets.start() == []
    assert state(world) == before


def read_back(world: World, name: str) -> tuple[dict[str, list[int | None]], Any]:
    """Return what was stored of a dataset: the lattice, and the cached Gram."""
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == name)
    storage = world.curator.datasets.storage
    (part,) = storage.about(dataset.id).parts
    stored = read_columns(storage, dataset)
    rows = {name: [None if v == MISSING else v for v in stored[name].tolist()] for name in part.columns}
    return rows, part.read_gram(storage.root / dataset.id)


SAME: dict[str, Callable[[str], bytes]] = {
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "spaces": lambda text: text.replace(",", " , ").encode(),
    "blank lines": lambda text: text.replace("\n", "\n\n").encode(),
    "no newline at the end": lambda text: text.rstrip("\n").encode(),
    "more columns": lambda text: "\n".join(f"{line},note" for line in text.splitlines()).encode(),
    "all quoted": lambda text: "\n".join(
        ",".join(f'"{field}"' for field in line.split(",")) for line in text.splitlines()
    ).encode(),
}


@pytest.mark.parametrize("name", list(SAME))
def test_how_a_file_is_written_does_not_change_the_lattice(world: World, name: str) -> None:
    rows, gram = read_back(world, "cohort")
    register(world, SAME[name](csv_text(ROWS)), manifest_text("new", "town"))
    new_rows, new_gram = read_back(world, "new")
    assert new_rows == rows
    np.testing.assert_array_equal(new_gram, gram)


@pytest.mark.parametrize("size", [1, 3, 79, 80, 81])
def test_chunk_boundaries_change_neither_rows_nor_gram(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    rows, gram = read_back(world, "cohort")
    monkeypatch.setattr(reader, "BATCH_ROWS", size)
    register(world, csv_text(ROWS), manifest_text("new", "town"))
    new_rows, new_gram = read_back(world, "new")
    assert new_rows == rows
    np.testing.assert_array_equal(new_gram, gram)


def test_line_numbers_are_right_beyond_the_first_chunk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BATCH_ROWS", 3)
    assert_refused(world, IngestError, ["line 9, column 'age'"], GOOD + "60,70,F,true\n" * 6 + "x,70,F,true\n")


def test_the_manifest_alone_decides_what_is_cached(world: World) -> None:
    """Not whether a value is in fact missing: two files, one without any blank, cache the same terms."""
    full = [{**row, **{name: row[name] or fill(name) for name in row}} for row in make_rows(20, seed=9)]
    register(world, csv_text(full), manifest_text("new", "town"))
    assert read_back(world, "new")[1].shape == read_back(world, "cohort")[1].shape
    cached = 1 + sum(
        (len(public) if kind == "categorical" else 1) + (missing == "indicator")
        for _, kind, missing, public, _ in COLUMNS
        if missing != "omit"
    )
    assert read_back(world, "cohort")[1].shape == (cached, cached)


def fill(name: str) -> str:
    """Return a value that a column may have."""
    kind, public = next((kind, public) for column, kind, _, public, _ in COLUMNS if column == name)
    return str(public[0]) if kind == "numeric" else (public or ("true",))[0]


def test_extreme_bounds_and_values_stay_on_the_lattice(world: World) -> None:
    columns: Any = [
        ("wide", "numeric", "complete", (-1.7e308, 1.7e308), None),
        ("narrow", "numeric", "complete", (1.0, 1.0000000001), None),
        ("far", "numeric", "complete", (1e300, 1.1e300), None),
        ("tiny", "numeric", "complete", (0.0, 1e-290), None),
    ]
    text = "wide,narrow,far,tiny\n1.7e308,1e308,-1e308,1\n-1.7e308,-1e308,1e308,-1\n0,1,1e300,0\n"
    register(world, text, manifest_text("new", "town", columns=columns))
    rows, _ = read_back(world, "new")
    for values in rows.values():
        assert all(value is not None and -(2**30) <= value <= 2**30 for value in values)
    assert rows["wide"] == [2**30, -(2**30), 0]


def test_nan_text_is_a_missing_value(world: World) -> None:
    register(world, GOOD + "60,NaN,F,true\n60,nan,F,true\n60,,F,true\n")
    assert read_back(world, "new")[0]["weight"][1:] == [None, None, None]


def test_stored_files_are_the_operator_s_alone(world: World) -> None:
    folder = world.settings.data_dir / "datasets"
    assert folder.stat().st_mode & 0o077 == 0
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    assert (world.settings.data_dir / "curator.sqlite3").stat().st_mode & 0o077 == 0


def test_what_was_registered_is_pinned_in_the_ledger_without_a_count(world: World) -> None:
    register(world, GOOD)
    entry = world.entries()[-1]
    assert (entry["kind"], entry["dataset"], entry["units"]) == ("dataset", "new", "0")
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "new")
    assert (entry["snapshot"], entry["dataset_id"]) == (dataset.commitment, dataset.id)
    assert set(entry) == {
        "actor", "dataset", "dataset_id", "entry_hash", "epoch", "format", "key_id", "kind", "limit", "manifest_digest",
        "pending", "population", "posted", "previous_hash", "sequence", "signature", "snapshot", "time", "units",
    }  # fmt: skip


def test_equal_rows_have_different_commitments(world: World) -> None:
    """A bare digest of rows would let anyone test guesses of the last row."""
    register(world, csv_text(ROWS), manifest_text("new", "town"))
    commitments = {d.commitment for d in world.curator.datasets.list_all() if d.name in {"new", "cohort"}}
    assert len(commitments) == 2


def test_the_example_s_manifest_is_sound() -> None:
    manifest = load_manifest(Path(__file__).parents[3] / "examples" / "flchain" / "manifest.toml")
    assert manifest.name == "flchain"


def test_a_wide_pass_takes_more_batches_and_gives_the_same_gram(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by entries, not by rows: rows × terms of a batch stay below a constant."""
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
    columns = tuple(c for c in dataset.manifest.by_name.values())
    design = make_design(columns, (), intercept=True)
    whole = world.curator.datasets.storage.sum_rows(dataset.id, dataset.manifest, GramKernel(design, Ball.of_norm(1.0)))
    monkeypatch.setattr(engine, "tile_rows", lambda _width: 1)
    coded: list[int] = []

    def count_rows(stored: Any, design: Any, count: int, *rest: Any) -> Any:
        coded.append(count)
        return code_rows(stored, design, count, *rest)

    monkeypatch.setattr(kernel, "code_rows", count_rows)
    sliced = world.curator.datasets.storage.sum_rows(
        dataset.id, dataset.manifest, GramKernel(design, Ball.of_norm(1.0))
    )
    assert set(coded[1:]) == {1}  # behind the rows that show that those not counted are none
    assert sum(coded[1:]) == dataset.manifest.row_capacity  # whatever the number of rows
    assert (sliced == whole).all()


def test_a_blank_line_of_a_single_column_is_a_missing_value(world: World) -> None:
    # It must be a row: or the public number of rows would count, exactly and unpaid, the values that are not missing.
    manifest = manifest_text("new", columns=[("alive", "boolean", "midpoint", (), None)])
    register(world, "alive\ntrue\n\nfalse\n", manifest)
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "new")
    assert world.curator.datasets.storage.about(dataset.id).rows == 3


def test_a_pass_works_through_the_declared_capacity_whatever_the_number_of_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "tile_rows", lambda _width: 66)
    add, seen = GramKernel.sum, []

    def record(of: GramKernel, rows: Any) -> Any:
        seen.append(rows.shape)
        return add(of, rows)

    monkeypatch.setattr(GramKernel, "sum", record)
    for count in (1, 49, 50, 51, 199):
        text = manifest_text(f"some{count}", row_capacity=200)
        (world.folder / "m.toml").write_text(text, encoding="utf-8")
        (world.folder / "d.csv").write_text(csv_text(make_rows(count, seed=count)), encoding="utf-8")
        dataset = world.curator.datasets.register(
            world.folder / "m.toml", world.folder / "d.csv", actor="operator:test"
        )
        seen.clear()
        design = make_design((dataset.manifest.by_name["age"],), (dataset.manifest.by_name["kappa"],), intercept=True)
        sums = world.curator.datasets.sum_rows(dataset, GramKernel(design, Ball.of_norm(1.2)))
        assert seen[1:] == [(66, 3), (66, 3), (66, 3), (2, 3)]
        assert 0 < sums.values[0, 0] <= count * UNIT**2
