"""Person of a row: told with a second key, and with nothing else."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result
from scenes import another_worker
from support import World
from test_subjects import CANARY, VISITS, find, register
from typer.testing import CliRunner

from curator_service.backup import read_backup, write_backup
from curator_service.cli.main import app
from curator_service.datasets.exports.processing import Holdings, render_record, write_markdown
from curator_service.datasets.pseudonyms import SIZE
from curator_service.datasets.reidentification import (
    IDENTIFIER_MAX,
    SubjectKey,
    SubjectKeyError,
    identify,
    list_keys,
)
from curator_service.datasets.repository import Dataset
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.subjects import find_identified, identify_rows, make_pseudonymiser


@pytest.fixture
def key(world: World, tmp_path: Path) -> SubjectKey:
    """Return a key whose file the world's registrations are told of."""
    world.curator.keys.subject_key_file = tmp_path / "subjects.key"
    return SubjectKey.make(tmp_path / "subjects.key")


def run(world: World, *arguments: str, key: Path | None = None) -> Result:
    environment = {"CURATOR_DATA_DIR": str(world.settings.data_dir), "COLUMNS": "200"}
    environment |= {} if key is None else {"CURATOR_SUBJECT_KEY_FILE": str(key)}
    return CliRunner().invoke(app, ["subjects", *arguments], env=environment)


def table_of(world: World, name: str) -> Path:
    (path,) = folder_of(world, name).glob("*.identifiers")
    return path


def folder_of(world: World, name: str) -> Path:
    (dataset,) = (dataset for dataset in world.curator.datasets.list_all() if dataset.name == name)
    return world.curator.datasets.storage.root / dataset.folder


def test_with_the_key_it_is_told_whose_rows_are(world: World, key: SubjectKey) -> None:
    dataset = register(world, "visits")
    storage = world.curator.datasets.storage
    assert identify_rows(storage, dataset, key, [4, 3, 1]) == [CANARY, "other", CANARY]
    assert sorted(find(world, CANARY)) == ["visits"]  # the pseudonyms are what they were
    assert world.discrepancies() == []


def test_without_the_setting_nothing_is_kept(world: World, tmp_path: Path) -> None:
    dataset = register(world, "visits")
    assert list_keys(folder_of(world, "visits")) == []
    with pytest.raises(SubjectKeyError, match="keeps no identifiers"):
        identify_rows(world.curator.datasets.storage, dataset, SubjectKey.make(tmp_path / "k"), [1])


def test_the_table_tells_nothing_but_how_many_persons_there_are(world: World, key: SubjectKey) -> None:
    register(world, "visits", text=VISITS.replace("other", "x" * IDENTIFIER_MAX))
    register(world, "again", text=VISITS.replace(",5\n", ",6\n"))
    tables = [table_of(world, name).read_bytes() for name in ("visits", "again")]
    assert [len(table) for table in tables] == [2 * (SIZE + 16 + IDENTIFIER_MAX + 1)] * 2
    assert CANARY.encode() not in b"".join(tables)
    assert tables[0][SIZE:160] != tables[1][SIZE:160]  # of one person, in two datasets
    for path in world.settings.data_dir.rglob("*"):
        assert not path.is_file() or key.secret not in path.read_bytes()
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder_of(world, "visits").iterdir())


def test_a_record_cannot_be_put_in_the_place_of_another(world: World, key: SubjectKey) -> None:
    dataset = register(world, "visits")
    path = table_of(world, "visits")
    table = path.read_bytes()
    half = len(table) // 2
    path.write_bytes(table[:SIZE] + table[half + SIZE :] + table[half : half + SIZE] + table[SIZE:half])
    with pytest.raises(SubjectKeyError, match="changed or damaged"):
        identify_rows(world.curator.datasets.storage, dataset, key, [1])


def test_the_table_is_in_a_backup(world: World, key: SubjectKey, tmp_path: Path) -> None:
    register(world, "visits")
    write_backup(world.curator, tmp_path / "b.tar")
    settings = world.settings.model_copy(
        update={"data_dir": tmp_path / "again", "keys_dir": world.settings.keys_folder}
    )
    fresh = another_worker(World(settings, world.curator, world.clock, tmp_path, world.noise))
    read_backup(fresh, tmp_path / "b.tar")
    (dataset,) = (dataset for dataset in fresh.datasets.list_all() if dataset.name == "visits")
    assert identify_rows(fresh.datasets.storage, dataset, key, [3]) == ["other"]
    fresh.database.dispose()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("gone", "cannot be read"),
        ("open", "may be read by others"),
        ("empty", "holds no key"),
        ("short", "holds no key"),
        ("pipe", "not a regular file"),
    ],
)
def test_a_key_that_cannot_be_used_stops_a_registration(
    world: World, key: SubjectKey, tmp_path: Path, damage: str, message: str
) -> None:
    path = tmp_path / "subjects.key"
    content = path.read_text()
    match damage:
        case "gone":
            path.unlink()
        case "open":
            path.chmod(0o640)
        case "pipe":
            path.unlink()
            os.mkfifo(path, 0o600)
        case _:
            path.write_text("" if damage == "empty" else content[:40])
    with pytest.raises(SubjectKeyError, match=message) as caught:
        register(world, "visits")
    assert content.strip()[-20:] not in str(caught.value)
    assert "visits" not in [dataset.name for dataset in world.curator.datasets.list_all()]
    assert not list(world.settings.data_dir.rglob(".incoming-*"))


def test_an_identifier_that_is_too_long_is_refused_unseen(world: World, key: SubjectKey) -> None:
    with pytest.raises(IngestError, match="more than 127 bytes") as caught:
        register(world, "visits", text=VISITS.replace("other", "y" * (IDENTIFIER_MAX + 1)))
    assert "yy" not in str(caught.value)


def test_commands_make_a_key_use_it_and_change_it(world: World, tmp_path: Path) -> None:
    old, new = tmp_path / "old.key", tmp_path / "new.key"
    made = json.loads(run(world, "make-key", str(old), "--json").stdout)
    assert old.stat().st_mode & 0o077 == 0
    assert run(world, "make-key", str(old)).exit_code == 1
    assert "kept elsewhere" in run(world, "make-key", str(world.settings.data_dir / "here")).stderr
    world.curator.keys.subject_key_file = old
    register(world, "visits")
    assert list_keys(folder_of(world, "visits")) == [made["key_id"]]
    assert json.loads(run(world, "identify", "visits", "3", "1", "--json", key=old).stdout) == [
        {"row": 3, "identifier": "other"},
        {"row": 1, "identifier": CANARY},
    ]
    assert "name the file of the key" in run(world, "identify", "visits", "1").stderr
    assert "have the numbers 1 to 4" in run(world, "identify", "visits", "5", key=old).stderr
    run(world, "make-key", str(new))
    refused = run(world, "identify", "visits", "1", "--key", str(new))
    assert refused.exit_code == 1
    assert f"the identifiers are under {made['key_id']}, and the file holds sub_" in refused.stderr
    assert json.loads(run(world, "change-key", str(old), str(new), "--json").stdout) == {
        "changed": 2,
        "key_id": SubjectKey.read(new).key_id,
    }
    assert "other" in run(world, "identify", "visits", "3", "--key", str(new)).stdout
    assert run(world, "identify", "visits", "3", "--key", str(old)).exit_code == 1
    assert "0 identifiers" in run(world, "change-key", str(old), str(new)).stdout
    assert CANARY not in run(world, "find").output


def test_a_change_of_key_that_was_killed_is_done_again(world: World, key: SubjectKey, tmp_path: Path) -> None:
    dataset = register(world, "visits")
    storage, path = world.curator.datasets.storage, table_of(world, "visits")
    held = path.read_bytes()
    new = SubjectKey.make(tmp_path / "new")
    for _ in range(2):
        assert run(world, "change-key", str(tmp_path / "subjects.key"), str(tmp_path / "new")).exit_code == 0
        assert list_keys(folder_of(world, "visits")) == [new.key_id]
        assert identify_rows(storage, dataset, new, [1, 2, 3]) == [CANARY, CANARY, "other"]
        path.write_bytes(held)


def test_a_part_that_came_later_is_known_too(world: World, key: SubjectKey) -> None:
    dataset = register(world, "visits")
    storage, folder = world.curator.datasets.storage, folder_of(world, "visits")
    writer, later = make_pseudonymiser(world.curator.keys), pa.array(["other", "newcomer"])
    pseudonyms = writer.make(later)
    writer.remember(folder, later, pseudonyms)
    newcomer = bytes(pseudonyms[1])
    assert identify(folder, key, {newcomer}) == {newcomer: "newcomer"}
    assert identify_rows(storage, dataset, key, [3]) == ["other"]


def cut(world: World) -> Dataset:
    """Let a month pass, and the rows be renewed."""
    world.clock.advance(days=31)
    (dataset,) = (dataset for dataset in world.curator.versions.cut_due() if dataset.name == "visits")
    return dataset


def test_the_table_goes_on_with_the_next_version(world: World, key: SubjectKey) -> None:
    register(world, "visits")
    dataset = cut(world)
    assert identify_rows(world.curator.datasets.storage, dataset, key, [4, 3]) == [CANARY, "other"]
    assert world.discrepancies() == []


def test_what_is_forgotten_is_in_no_table(world: World, key: SubjectKey) -> None:
    register(world, "visits")
    world.curator.versions.erase(CANARY, actor="operator:test")
    dataset = cut(world)
    assert identify_rows(world.curator.datasets.storage, dataset, key, [1]) == ["other"]
    assert table_of(world, "visits").stat().st_size == SIZE + 16 + IDENTIFIER_MAX + 1
    assert len(list(world.settings.data_dir.rglob("*.identifiers"))) == 1


def test_rows_that_come_bring_their_identifiers(world: World, key: SubjectKey, tmp_path: Path) -> None:
    register(world, "visits")
    (tmp_path / "more.csv").write_text("patient,year,smokes,dose\nnewcomer,2023,false,1\n")
    world.curator.versions.add_rows("visits", tmp_path / "more.csv", act="append", actor="operator:test")
    dataset = cut(world)
    assert identify_rows(world.curator.datasets.storage, dataset, key, [5, 1]) == ["newcomer", CANARY]


def test_a_record_that_was_not_written_to_its_end_is_none(world: World, key: SubjectKey) -> None:
    dataset = register(world, "visits")
    path = table_of(world, "visits")
    path.write_bytes(path.read_bytes() + b"torn")
    assert identify_rows(world.curator.datasets.storage, dataset, key, [3]) == ["other"]


def test_the_record_of_processing_says_that_identifiers_are_kept(world: World, key: SubjectKey) -> None:
    dataset = register(world, "visits")
    kept = find_identified(world.curator.datasets.storage, [dataset])
    populations = world.curator.ledger.list_populations()
    held = Holdings("2026-03-01T12:00:00Z", {}, populations, [dataset], [], [], kept)
    assert "told apart by patient, which is stored encrypted" in write_markdown(render_record(held))
