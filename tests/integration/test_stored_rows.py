"""Rows that are gone, changed or left behind on disk are noticed, told and refused; what is alive is left alone."""

import json
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scenes import ASYNC, RELEASES, another_worker, await_job, box
from support import World, body, csv_text, make_rows, manifest_text, problem

from curator_service.backup import read_backup, write_backup
from curator_service.datasets.snapshot import About, Storage
from curator_service.datasets.sources.coding import Coder


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


def change_a_value(folder: Path) -> None:
    """Change one person's age within the stored rows."""
    table = pq.read_table(folder / "rows.parquet")
    ages = table.column("age").to_pylist()
    ages[3] += 1
    pq.write_table(table.set_column(0, "age", pa.array(ages, pa.int32())), folder / "rows.parquet")


def cut(path: Path) -> None:
    """Lose the second half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change_about(folder: Path, **changes: Any) -> None:
    """Change what is said beside the rows."""
    path = folder / "snapshot.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "the folder is gone": shutil.rmtree,
    "the rows are gone": lambda folder: (folder / "rows.parquet").unlink(),
    "the sums are gone": lambda folder: (folder / "gram.npy").unlink(),
    "the rows are cut": lambda folder: cut(folder / "rows.parquet"),
    "the rows are empty": lambda folder: (folder / "rows.parquet").write_bytes(b""),
    "the sums are cut": lambda folder: cut(folder / "gram.npy"),
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
    if "gone" in name or {"box": "sums", "ball": "rows"}[rows] in name:
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
    cut(folder / "rows.parquet")
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
    whole = (folder / "rows.parquet").read_bytes()
    change_a_value(folder)
    assert world.discrepancies() == ["the rows of dataset cohort"]
    (folder / "rows.parquet").write_bytes(whole)
    assert world.discrepancies() == []
    gram = np.load(folder / "gram.npy")
    gram[0, 0] += 1
    np.save(folder / "gram.npy", gram)
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
    forged = Storage(folder.parent).read_snapshot(dataset.id, dataset.manifest, None)
    change_about(folder, lattice_digest=forged.lattice_digest)
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

    def publish_and_stop(self: Storage, dataset_id: str, about: About) -> None:
        publish(self, dataset_id, about)
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
        assert world.curator.datasets.storage.sweep(set()) == []  # somebody writes
        assert (root / left).exists()
    finally:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    names = {dataset.name for dataset in world.curator.datasets.list_all()}
    assert ("new" in names) is registered
    assert faults(world) == []
    assert (root / left).exists() is registered
    assert not (root / left / "unregistered").exists()
    assert {path.name for path in root.iterdir()} - {left} == before


def test_a_restore_that_was_killed_is_swept_and_begins_anew(world: World, tmp_path: Path) -> None:
    write_backup(world.curator, tmp_path / "b.tar")
    left = world.settings.data_dir / "datasets" / ".restored-ds_000000000000000000000001"
    left.mkdir()
    (left / "rows.parquet").write_bytes(b"rows")
    assert faults(world) == []
    assert not left.exists()
    settings = world.settings.model_copy(update={"data_dir": tmp_path / "again"})
    fresh = another_worker(World(settings, world.curator, world.clock, tmp_path, world.noise))
    dataset = folder_of(world).name
    (settings.data_dir / "datasets" / f".restored-{dataset}").mkdir(parents=True)
    read_backup(fresh, tmp_path / "b.tar")
    assert sorted(path.name for path in (settings.data_dir / "datasets" / dataset).iterdir()) == [
        "gram.npy", "rows.parquet", "snapshot.json",
    ]  # fmt: skip
    fresh.database.dispose()


def test_a_folder_that_nobody_marked_is_never_removed(world: World) -> None:
    """It may be of another database: rows are removed only where a mark says that they were never registered."""
    strange = world.settings.data_dir / "datasets" / "ds_00000000000000000000000f"
    strange.mkdir()
    (strange / "rows.parquet").write_bytes(b"rows")
    assert faults(world) == []
    assert strange.exists()
