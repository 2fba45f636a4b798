"""Data held of one person: found by the identifier and the private keys, by nobody without both."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from scenes import another_worker
from support import World
from typer.testing import CliRunner

from curator_service.backup import read_backup, write_backup
from curator_service.cli.main import app
from curator_service.datasets.repository import Dataset
from curator_service.datasets.subjects import _decode, find_person
from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.lattice import STORED_UNIT

MANIFEST = """
name = "{name}"
population = "{population}"
row_capacity = 100
subject = "patient"
rows_per_subject = 2
keep_by = "-year"

[[columns]]
name = "year"
type = "numeric"
missing = "complete"
lower = 2000
upper = 2040

[[columns]]
name = "smokes"
type = "boolean"
missing = "midpoint"

[[columns]]
name = "dose"
type = "numeric"
lower = 0
upper = 10
"""
VISITS = """patient,year,smokes,dose
NHS-4711-CANARY,2020,true,5
nhs-4711-canary ,2021,,
other,2022,false,25
NHS-4711-CANARY,2022,false,12.5
"""
CANARY = "nhs-4711-canary"


def register(world: World, name: str, population: str = "town", text: str = VISITS) -> Dataset:
    """Register visits."""
    manifest, data = world.folder / f"{name}.toml", world.folder / f"{name}.csv"
    manifest.write_text(MANIFEST.format(name=name, population=population))
    data.write_text(text)
    return world.curator.datasets.register(manifest, data, actor="operator:test")


def find(world: World, identifier: str) -> dict[str, Any]:
    """Return what is found of a person, by dataset."""
    datasets = world.curator.datasets
    held = find_person(datasets.storage, world.curator.keys, datasets.list_all(), identifier)
    return {presence.dataset.name: presence for presence in held}


def run(world: World, *arguments: str, identifier: str) -> Result:
    """Run a command on the world's data folder, the identifier on standard input."""
    environment = {"CURATOR_DATA_DIR": str(world.settings.data_dir), "COLUMNS": "200"}
    return CliRunner().invoke(app, ["subjects", *arguments], input=f"{identifier}\n", env=environment)


@pytest.mark.parametrize("identifier", ["NHS-4711-CANARY", " nhs-4711-canary", "ＮＨＳ-4711-canary"], ids=ascii)
def test_rows_of_a_person_are_found_however_the_identifier_is_written(world: World, identifier: str) -> None:
    register(world, "visits")
    register(world, "elsewhere", text=VISITS.replace("CANARY", "x").replace("canary", "x"))
    held = find(world, identifier)
    assert list(held) == ["visits"]
    assert held["visits"].values == {
        "year": [2020, 2021, 2022],
        "smokes": ["true", None, "false"],
        "dose": [5.0, None, 10.0],
    }
    assert held["visits"].counted.tolist() == [False, True, True]
    assert find(world, "nobody") == {}


def test_a_new_key_loses_nobody(world: World) -> None:
    register(world, "visits")
    world.curator.keys.rotate("2026-03-02T12:00:00Z")
    register(world, "later", text=VISITS.replace("5\n", "6\n"))
    assert sorted(find(world, CANARY)) == ["later", "visits"]


def test_identifiers_are_nowhere_in_what_is_stored(world: World) -> None:
    register(world, "visits")
    stored = [path for path in world.settings.data_dir.rglob("*") if path.is_file()]
    assert any(path.suffix == ".subjects" for path in stored)
    for path in stored:
        assert b"4711-canary" not in path.read_bytes().lower(), path.name  # digits alone are in some digest


def test_what_is_held_is_in_a_backup_and_found_again(world: World, tmp_path: Path) -> None:
    register(world, "visits")
    write_backup(world.curator, tmp_path / "b.tar")
    settings = world.settings.model_copy(
        update={"data_dir": tmp_path / "again", "keys_dir": world.settings.keys_folder}
    )
    fresh = another_worker(World(settings, world.curator, world.clock, tmp_path, world.noise))
    read_backup(fresh, tmp_path / "b.tar")
    held = find_person(fresh.datasets.storage, fresh.keys, fresh.datasets.list_all(), CANARY)
    assert [len(presence.counted) for presence in held] == [3]
    fresh.database.dispose()


@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_pseudonyms_that_are_gone_or_changed_are_a_fault(world: World, damage: str) -> None:
    dataset = register(world, "visits")
    (path,) = (world.settings.data_dir / "datasets" / dataset.id).glob("*.subjects")
    content = path.read_bytes()
    assert len(content) == 16 * 4
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:16] if damage == "cut" else content[16:] + content[:16])
    assert world.discrepancies() == ["the rows of dataset visits"]
    if damage != "changed":
        assert world.curator.datasets.list_faults() == ["dataset visits: its rows cannot be read"]


def test_the_command_says_what_is_held_and_what_the_budget_promises(world: World) -> None:
    register(world, "visits")
    result = run(world, "find", identifier="NHS-4711-CANARY")
    assert result.exit_code == 0, result.output
    assert "visits" in result.stdout
    assert "differentially private" in result.stdout
    assert CANARY not in result.output.lower()
    assert "not searched, for nobody kept whose their rows are: cohort" in result.stderr
    (row,) = json.loads(run(world, "find", "--json", identifier=CANARY).stdout)
    assert {name: row[name] for name in ("dataset", "population", "rows", "rows_that_count")} == {
        "dataset": "visits", "population": "town", "rows": 3, "rows_that_count": 2,
    }  # fmt: skip
    assert json.loads(run(world, "find", "--json", identifier="nobody").stdout) == []


def test_the_command_says_how_a_person_of_several_columns_is_named(world: World) -> None:
    text = MANIFEST.replace('subject = "patient"', 'subject = ["site", "patient"]')
    manifest, data = world.folder / "sites.toml", world.folder / "sites.csv"
    manifest.write_text(text.format(name="sites", population="town"))
    header, *lines = VISITS.splitlines()
    data.write_text("\n".join([f"site,{header}", *(f"north,{line}" for line in lines)]) + "\n")
    world.curator.datasets.register(manifest, data, actor="operator:test")
    said = "not searched: sites, where a person is 'site', 'patient': give one value of each, tabs between"
    assert said in run(world, "find", identifier=CANARY).stderr
    result = run(world, "find", identifier=f"North\t{CANARY}")
    assert "not searched: sites" not in result.stderr
    assert "sites" in result.stdout
    assert "no row of this person is stored" in run(world, "find", identifier="nobody").stdout
    assert run(world, "find", identifier=" ").exit_code == 1


def test_the_export_has_every_row_of_the_person_and_nobody_else_s(world: World, tmp_path: Path) -> None:
    register(world, "visits")
    out = tmp_path / "person.json"
    assert run(world, "export", "--out", str(out), identifier=CANARY).exit_code == 0
    rows = json.loads(out.read_text())["visits"]
    assert [(row["counts"], row["values"]["year"]) for row in rows] == [(False, 2020), (True, 2021), (True, 2022)]
    assert "25" not in out.read_text()


def test_without_the_private_key_nothing_is_told(world: World, tmp_path: Path) -> None:
    register(world, "visits")
    shutil.move(world.settings.keys_folder, tmp_path / "away")
    os.makedirs(world.settings.keys_folder)
    result = run(world, "find", identifier=CANARY)
    assert result.exit_code == 1
    assert "key" in result.output
    assert "visits" not in result.stdout


def test_what_is_stored_under_the_widest_bounds_can_be_written_out() -> None:
    column = Column("x", ColumnType.NUMERIC, lower=-1.7e308, upper=1.7e308)
    assert _decode(column, np.array([STORED_UNIT, 0], np.int32)) == [1.7e308, 0.0]
