"""Rows that are gone, changed or left behind on disk are noticed, told and refused; what is alive is left alone."""

import fcntl
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import wait_for
from rows_on_disk import read_columns
from scenes import ASYNC, RELEASES, another_worker, await_job, box
from support import World, body, csv_text, make_rows, manifest_text, problem

from curator_service.backup import read_backup, write_backup
from curator_service.datasets.snapshot import Storage
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.sources.coding import Coder
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.privacy.design import make_design
from curator_service.privacy.row_maps import Ball, Box


def folder_of(world: World, name: str = "cohort") -> Path:
    """Return where a dataset is stored."""
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == name)
    return world.settings.data_dir / "datasets" / dataset.id


def faults(world: World) -> list[str]:
    """Return what a process that starts now says of stored rows."""
    worker = another_worker(world)
    try:
        assert worker.ledger.guard.start() == ""
        return worker.datasets.start()
    finally:
        worker.database.dispose()


def rows_of(folder: Path) -> Path:
    """Return the file of a dataset's rows."""
    (path,) = folder.glob("*.rows")
    return path


def sums_of(folder: Path) -> Path:
    """Return the file of a dataset's sums."""
    (path,) = folder.glob("*.gram.npy")
    return path


def change_a_value(folder: Path) -> None:
    """Change one person's first value within the stored rows."""
    content = bytearray(rows_of(folder).read_bytes())
    content[12] ^= 1
    rows_of(folder).write_bytes(content)


def cut(path: Path) -> None:
    """Lose the second half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change_about(folder: Path, **changes: Any) -> None:
    """Change what is said beside the rows."""
    path = folder / "snapshot.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "the folder is gone": shutil.rmtree,
    "the rows are gone": lambda folder: rows_of(folder).unlink(),
    "the sums are gone": lambda folder: sums_of(folder).unlink(),
    "the rows are cut": lambda folder: cut(rows_of(folder)),
    "the rows are empty": lambda folder: rows_of(folder).write_bytes(b""),
    "the sums are cut": lambda folder: cut(sums_of(folder)),
}


@pytest.mark.parametrize("name", list(DAMAGES))
@pytest.mark.parametrize("rows", ["ball", "box"])
def test_what_needs_rows_that_are_gone_is_refused_and_costs_nothing(world: World, name: str, rows: str) -> None:
    api = world.api()
    kept = api.post(RELEASES, json=box(), key="before").json()
    before = world.account().posted
    DAMAGES[name](folder_of(world))
    api = world.api()
    answer = api.post(RELEASES, json=body(fresh=True, rows={"map": rows}), key="k")
    if (rows, name) != ("ball", "the sums are cut"):
        refused = problem(answer, "dataset-unavailable", 503)
        assert "cohort" not in refused["detail"]
        assert (world.account().posted, world.account().pending) == (before, 0)
        assert world.curator.ledger.verify("town").ok
    else:
        assert answer.status_code == 201
    assert api.get(f"/v1/releases/{kept['id']}").status_code == 200
    assert api.post("/v1/datasets/cohort/quotes", json=body()).status_code == 200


def test_a_job_on_rows_that_went_meanwhile_gives_its_reservation_back(both: World) -> None:
    api = both.api()
    folder = folder_of(both)
    both.curator.datasets.check_available(both.curator.datasets.list_all()[0])
    cut(rows_of(folder))
    job = api.post(RELEASES, json=body(), key="k", headers=ASYNC)
    if job.status_code == 202:
        assert await_job(api, job.json()["id"])["state"] != "done"
    assert (both.account().posted, both.account().pending) == (0, 0)


@pytest.mark.parametrize("name", list(DAMAGES))
def test_it_is_told_at_the_start_and_by_the_verification(
    world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert faults(world) == []
    assert world.discrepancies() == []
    DAMAGES[name](folder_of(world))
    (fault,) = faults(world)
    assert fault.startswith("dataset cohort: its rows ")
    assert fault in caplog.text
    assert world.discrepancies() == ["the rows of dataset cohort"]
    assert world.discrepancies("valley") == []


def test_readiness_follows_the_files(world: World) -> None:
    api = world.api(None)
    assert api.get("/readyz").status_code == 200
    away = folder_of(world).with_name("away")
    here = folder_of(world)
    here.rename(away)
    answer = api.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
    away.rename(here)
    assert api.get("/readyz").status_code == 200


def test_a_changed_row_or_sum_is_found_by_the_verification(world: World) -> None:
    folder = folder_of(world)
    whole = rows_of(folder).read_bytes()
    change_a_value(folder)
    assert world.discrepancies() == ["the rows of dataset cohort"]
    rows_of(folder).write_bytes(whole)
    assert world.discrepancies() == []
    gram = np.load(sums_of(folder))
    gram[0, 0] += 1
    np.save(sums_of(folder), gram)
    assert world.discrepancies() == ["the rows of dataset cohort"]


def test_rows_of_another_dataset_are_not_those_that_were_registered(world: World) -> None:
    cohort, hidden = folder_of(world), folder_of(world, "hidden")
    shutil.rmtree(cohort)
    shutil.copytree(hidden, cohort)
    assert faults(world) == ["dataset cohort: its rows are not those that were registered"]
    assert world.discrepancies() == ["the rows of dataset cohort"]


def test_what_lies_beside_the_rows_is_held_against_the_ledger(world: World) -> None:
    """Whoever changes rows and their digest cannot change the commitment that the curator signed."""
    folder = folder_of(world)
    change_a_value(folder)
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
    (part,) = Storage(folder.parent).about(dataset.id).parts
    numbers = read_columns(Storage(folder.parent), dataset)
    digests = [[name, hashlib.sha256(numbers[name].data).hexdigest()] for name, _ in part.digests]
    assert digests != part.describe()["digests"]
    change_about(folder, parts=[part.describe() | {"digests": digests}])
    assert faults(world) == ["dataset cohort: its rows are not those that were registered"]
    assert world.discrepancies() == ["the rows of dataset cohort"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"persons": 1}', b"\xff"])
def test_a_damaged_note_beside_the_rows_is_a_fault_and_no_crash(world: World, content: bytes) -> None:
    (folder_of(world) / "snapshot.json").write_bytes(content)
    (fault,) = faults(world)
    assert "cohort" in fault
    assert world.discrepancies() == ["the rows of dataset cohort"]


def test_a_stored_answer_that_was_edited_is_found_by_the_verification_and_never_served(world: World) -> None:
    api = world.api()
    kept = api.post(RELEASES, json=box(), key="k").json()["id"]
    world.sql(
        "DROP TRIGGER releases_no_update",
        f"UPDATE releases SET answer = replace(answer, 'xtx', 'xyx') WHERE id = '{kept}'",
    )
    assert world.discrepancies() == [kept]
    problem(api.get(f"/v1/releases/{kept}"), "ledger-unverified", 503)


def rows_beyond(folder: Path) -> int:
    """Return where, in bytes, the first number of a row that there is not lies."""
    (part,) = Storage(folder.parent).about(folder.name).parts
    assert part.rows < part.capacity
    return 4 * part.rows


@pytest.mark.parametrize("column", [0, -1], ids=["a value", "a mark"])
def test_a_row_beyond_those_that_there_are_is_found_by_the_verification(world: World, column: int) -> None:
    folder = folder_of(world)
    (part,) = Storage(folder.parent).about(folder.name).parts
    place = rows_beyond(folder) + 4 * part.capacity * (column % (len(part.columns) + 1))
    content = bytearray(rows_of(folder).read_bytes())
    content[place] ^= 1
    rows_of(folder).write_bytes(content)
    assert faults(world) == []
    assert world.discrepancies() == ["the rows of dataset cohort"]


def test_a_row_that_was_made_to_count_for_nothing_is_found_by_the_verification(world: World) -> None:
    folder = folder_of(world)
    (part,) = Storage(folder.parent).about(folder.name).parts
    content = bytearray(rows_of(folder).read_bytes())
    content[4 * part.capacity * len(part.columns)] ^= 1
    rows_of(folder).write_bytes(content)
    assert world.discrepancies() == ["the rows of dataset cohort"]


def sums_of_all(world: World) -> dict[str, list[int]]:
    """Return sums of passes over the rows of every dataset."""
    found = {}
    for dataset in world.curator.datasets.list_all():
        columns = [column for column in dataset.manifest.by_name.values() if column.type != "categorical"]
        design = make_design(tuple(columns), (), intercept=True)
        for row_map in (Ball.of_norm(1.1), Box()):
            sums = Storage(folder_of(world).parent).sum_rows(dataset.id, dataset.manifest, GramKernel(design, row_map))
            found[f"{dataset.name}, {row_map}"] = sums.ravel().tolist()
    return found


def test_a_capacity_for_which_there_is_no_room_is_refused_before_anything_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(world.folder)
    before = sorted(path.name for path in (world.settings.data_dir / "datasets").iterdir())
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=1000))
    with pytest.raises(IngestError, match=r"take 0\.00 GiB, and where rows are stored 0\.00 GiB are free"):
        world.register("new", "town", make_rows(3, seed=3))
    assert sorted(path.name for path in (world.settings.data_dir / "datasets").iterdir()) == before


# --- What a killed process leaves


def _ingest_and_stop(root: Path, folder: Path, step: str, ready: Any) -> None:
    """Register in another process, and stop for good at a step."""
    from curator_service.container import make_curator
    from curator_service.settings import Settings

    curator = make_curator(Settings(data_dir=root))

    def stop(*_: Any, **__: Any) -> None:
        ready.set()
        signal.pause()

    publish = Storage.publish

    def publish_and_stop(self: Storage, dataset_id: str) -> None:
        publish(self, dataset_id)
        stop()

    place, name, act = {
        "reading": (Coder, "code", stop),
        "published": (Storage, "publish", publish_and_stop),
        "committed": (Storage, "confirm", stop),
    }[step]
    setattr(place, name, act)
    curator.datasets.register(folder / "new.toml", folder / "new.csv", actor="operator:test")


STEPS = {"reading": (".incoming-ds_", False), "published": ("ds_", False), "committed": ("ds_", True)}


@pytest.mark.parametrize("step", list(STEPS))
def test_a_killed_registration_is_swept_and_a_living_one_is_not(world: World, step: str) -> None:
    prefix, registered = STEPS[step]
    (world.folder / "new.toml").write_text(manifest_text("new"), encoding="utf-8")
    (world.folder / "new.csv").write_text(csv_text(make_rows(30, seed=61)), encoding="utf-8")
    root = world.settings.data_dir / "datasets"
    before = {path.name for path in root.iterdir()}
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_ingest_and_stop, args=(world.settings.data_dir, world.folder, step, ready))
    process.start()
    try:
        assert ready.wait(300)
        (left,) = {path.name for path in root.iterdir()} - before
        assert left.startswith(prefix)
        assert world.curator.datasets.storage.sweep(world.curator.datasets.list_folders) == []  # somebody writes
        assert (root / left).exists()
    finally:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    names = {dataset.name for dataset in world.curator.datasets.list_all()}
    assert ("new" in names) is registered
    # What reads for a process that was killed ends behind it, and holds its lock until then.
    wait_for(lambda: faults(world) == [] and (root / left).exists() is registered, "it is swept, or stays")
    assert not (root / left / "unregistered").exists()
    assert {path.name for path in root.iterdir()} - {left} == before


def test_a_restore_that_was_killed_is_swept_and_begins_anew(world: World, tmp_path: Path) -> None:
    write_backup(world.curator, tmp_path / "b.tar")
    left = world.settings.data_dir / "datasets" / ".restored-ds_000000000000000000000001"
    left.mkdir()
    (left / "part.rows").write_bytes(b"rows")
    assert faults(world) == []
    assert not left.exists()
    settings = world.settings.model_copy(update={"data_dir": tmp_path / "again"})
    fresh = another_worker(World(settings, world.curator, world.clock, tmp_path, world.noise))
    dataset = folder_of(world).name
    (settings.data_dir / "datasets" / f".restored-{dataset}").mkdir(parents=True)
    read_backup(fresh, tmp_path / "b.tar")
    (part,) = Storage(settings.data_dir / "datasets").about(dataset).parts
    assert sorted(path.name for path in (settings.data_dir / "datasets" / dataset).iterdir()) == [
        f"{part.id}.gram.npy", f"{part.id}.rows", "report.json", "snapshot.json",
    ]  # fmt: skip
    fresh.database.dispose()


def test_a_folder_that_nobody_marked_is_never_removed(world: World) -> None:
    """It may be of another database: rows are removed only where a mark says that they were never registered."""
    strange = world.settings.data_dir / "datasets" / "ds_00000000000000000000000f"
    strange.mkdir()
    (strange / "part.rows").write_bytes(b"rows")
    assert faults(world) == []
    assert strange.exists()


# --- Notes and sums that are damaged in other ways


def put_in_the_note(folder: Path, place: str) -> None:
    """Put text that is no number in base 16 into the note beside the rows."""
    path = folder / "snapshot.json"
    content = json.loads(path.read_text())
    if place == "nonce":
        content["nonce"] = "zz"
    else:
        content["parts"][0]["digests"][0][1] = "zz"
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("place", ["nonce", "digest"])
def test_a_note_whose_digests_are_none_is_a_fault_and_no_crash(world: World, place: str) -> None:
    put_in_the_note(folder_of(world), place)
    (fault,) = faults(world)
    assert "cohort" in fault
    assert world.discrepancies() == ["the rows of dataset cohort"]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file anew."""
    path.write_bytes(content)


WRONG_SUMS: dict[str, Callable[[Path], None]] = {
    "of another shape": lambda path: np.save(path, np.zeros((1, 1), np.int64)),
    "of another type": lambda path: np.save(path, np.load(path) * 1.5),
    "an archive": lambda path: write_bytes(path, b"PK\x03\x04" + b"x" * 100),
}


@pytest.mark.parametrize("name", list(WRONG_SUMS))
def test_sums_that_are_no_sums_are_refused_and_no_crash(world: World, name: str) -> None:
    WRONG_SUMS[name](sums_of(folder_of(world)))
    assert all("cohort" in fault for fault in faults(world))
    problem(world.api().post(RELEASES, json=box(), key="k"), "dataset-unavailable", 503)
    assert world.discrepancies() == ["the rows of dataset cohort"]


def test_nothing_is_written_anew_while_a_backup_reads_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the backup would lack files, or hold a half of one beside the digest of the whole."""
    locks, add = [], tarfile.TarFile.add

    def look(self: tarfile.TarFile, *arguments: Any, **options: Any) -> None:
        with (folder_of(world).parent / ".lock").open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                locks.append("held")
            else:
                locks.append("free")
        add(self, *arguments, **options)

    monkeypatch.setattr(tarfile.TarFile, "add", look)
    write_backup(world.curator, world.folder / "b.tar")
    assert set(locks) == {"held"}


def test_what_is_beside_the_rows_may_be_nonsense_of_any_depth(world: World) -> None:
    (folder_of(world) / "snapshot.json").write_text("[" * 200_000)
    assert faults(world) == ["dataset cohort: its rows cannot be read"]
    assert world.discrepancies() == ["the rows of dataset cohort"]
