"""Versions: rows come, go and are forgotten at cuts that all look the same, and a crash leaves one of two versions."""

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from anyio import run as run_async
from anyio import to_thread
from entry_examples import read
from patience import wait_for
from rows_on_disk import read_columns
from scenes import ASYNC, another_worker, await_job
from support import World, body, csv_text, find_discrepancies, make_rows, open_world, problem
from typer.testing import CliRunner

from curator_service.app import create_app
from curator_service.backup import read_backup, write_backup
from curator_service.cli.main import app as commands
from curator_service.container import make_curator
from curator_service.datasets import service, snapshot, versions
from curator_service.datasets.batches import MARK
from curator_service.datasets.engines.numpy import NumpyEngine
from curator_service.datasets.repository import APPEND, REPLACE, Dataset
from curator_service.datasets.service import DatasetService, RegistrationError
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.subjects import make_pseudonymiser
from curator_service.datasets.versions import ChangeError
from curator_service.identity.policy import Role
from curator_service.kit.db import Database
from curator_service.ledger.trust.recovery import reconcile
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.lattice import MISSING
from curator_service.privacy.selftest import SelfTestError
from curator_service.releases import audit

MANIFEST = """
name = "{name}"
population = "{population}"
row_capacity = 40
subject = "patient"
rows_per_subject = 2
keep_by = "-year"
library = "shared"

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
HEAD = "patient,year,smokes,dose\n"
ANNA = "anna-canary,2020,true,5\nAnna-Canary,2021,,1\nanna-canary,2022,false,9.5\n"
OTHERS = "".join(f"p{i},{2001 + i},{'true' if i % 3 else 'false'},{i / 3:.2f}\n" for i in range(12))
OTHERS += "p3,2030,true,4.25\np3,2031,true,4.5\n"
MORE = "p3,2039,false,7\nq1,2010,true,2\nq2,2011,,3.5\n"
ASKED = {"features": ["year", "smokes"], "targets": ["dose"], "rows": {"map": "box"}, "price": {"mu": 0.05}}
OF_ROWS = "SELECT digest FROM snapshots WHERE key_id LIKE 'key_%'"
SKETCHES = "SELECT sealed FROM sketches JOIN datasets ON id = dataset_id WHERE name = 'visits'"
BLOCK = ASKED | {"price": {"mu": 0.02}}


def write(world: World, name: str, text: str) -> Path:
    """Write rows as a steward has them."""
    path = world.folder / f"{name}.csv"
    path.write_text(HEAD + text)
    return path


def register(world: World, name: str, text: str = ANNA + OTHERS, population: str = "town") -> Dataset:
    """Register visits, for ada to ask."""
    manifest = world.folder / f"{name}.toml"
    manifest.write_text(MANIFEST.format(name=name, population=population))
    made = world.curator.datasets.register(manifest, write(world, name, text), actor="operator:test")
    world.grant("ada", made.id)
    return made


def find(world: World, name: str) -> Dataset:
    """Return a dataset as it is now."""
    return next(found for found in world.curator.datasets.list_all() if found.name == name)


def gram(world: World, name: str) -> Any:
    """Return the exact Gram of a dataset."""
    dataset, storage = find(world, name), world.curator.datasets.storage
    return sum(part.read_gram(storage.root / dataset.folder) for part in storage.about(dataset.folder).parts)


def rows(world: World, name: str) -> list[tuple[int, ...]]:
    """Return the stored rows that count, in an order of their own."""
    storage, dataset = world.curator.datasets.storage, find(world, name)
    if storage.about(dataset.folder).rows == 0:
        return []
    stored = read_columns(storage, dataset)
    counted = stored[MARK] == 1
    return sorted(zip(*(stored[column][counted].tolist() for column in ("year", "smokes", "dose")), strict=True))


def erase(world: World, *names: str, identifier: str = " ANNA-canary") -> list[str]:
    """Ask for an erasure; return the datasets that it is about."""
    asked = world.curator.versions.erase(identifier, actor="operator:test", names=names or None)
    return [waiting.dataset.name for waiting in asked]


def add(world: World, name: str, text: str, act: str = APPEND) -> None:
    """Ask for rows to be added, or to stand for the others."""
    world.curator.versions.add_rows(name, write(world, "more", text), act=act, actor="operator:test")


def cut(world: World) -> list[str]:
    """Let the next cut come; return what was cut."""
    world.clock.advance(days=31)
    return [found.name for found in world.curator.versions.cut_due()]


def assert_sound(world: World) -> None:
    """Hold everything that is stored against the ledger, as a process that starts does."""
    witness = another_worker(world)
    try:
        assert witness.ledger.guard.start() == ""
        assert witness.datasets.start() == []
        for population in ("town", "valley"):
            assert witness.ledger.verify(population).ok
            assert find_discrepancies(witness, population) == []
    finally:
        witness.database.dispose()
    root = world.settings.data_dir / "datasets"
    live = world.curator.datasets.list_folders().folders
    assert {path.name for path in root.iterdir() if path.is_dir()} == live


def everywhere(world: World) -> bytes:
    """Return the bytes of all files of rows."""
    root = world.settings.data_dir / "datasets"
    return b"".join(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())


# --- Cuts


def test_every_cut_looks_the_same_whatever_has_changed(both: World) -> None:
    for name in ("a", "b", "c"):
        register(both, name)
    add(both, "c", MORE)
    assert erase(both, "b") == ["b"]
    before = {entry["dataset"]: entry for entry in both.entries() if entry["kind"] == "dataset"}
    length = len(both.entries())
    assert both.curator.versions.cut_due() == []  # not before its time
    assert sorted(cut(both)) == ["a", "b", "c", "cohort", "hidden"]
    entries = [entry for entry in both.entries() if entry["kind"] == "dataset" and entry["sequence"] > length]
    found = {entry["dataset"]: entry for entry in entries}
    assert set(found) == {"a", "b", "c", "cohort"}
    shapes = {tuple((name, type(value), len(str(value))) for name, value in entry.items() if name != "dataset")
              for name, entry in found.items() if name != "cohort"}  # fmt: skip
    assert len(shapes) == 1
    assert {entry["version"] for entry in entries} == {"2"}
    assert all(found[name]["snapshot"] != before[name]["snapshot"] for name in found)
    sizes = {
        name: sorted(path.stat().st_size for path in (both.settings.data_dir / "datasets" / find(both, name).folder)
        .glob("*.rows")) for name in ("a", "b", "c")
    }  # fmt: skip
    assert sizes["a"] == sizes["b"] == sizes["c"]
    assert rows(both, "a") != rows(both, "b")
    assert both.account().posted == 0
    assert_sound(both)
    assert sorted(cut(both)) == ["a", "b", "c", "cohort", "hidden"]  # always
    assert find(both, "b").version == 3
    assert_sound(both)


@pytest.mark.parametrize(
    ("schedule", "moments"),
    [("daily", ["2026-03-02"]), ("weekly", ["2026-03-02", "2026-03-09"]), ("monthly", ["2026-04-01", "2026-05-01"])],
)
def test_a_schedule_is_of_the_calendar_alone(tmp_path: Path, schedule: str, moments: list[str]) -> None:
    with open_world(tmp_path, cuts=schedule) as world:
        for moment in moments:
            dataset = find(world, "cohort")
            assert world.curator.versions.due(dataset) == f"{moment}T00:00:00Z"
            world.clock.moment = world.clock.moment.fromisoformat(f"{moment}T00:00:00+00:00")
            assert "cohort" in [found.name for found in world.curator.versions.cut_due()]


# --- Erasure


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_whoever_is_erased_is_nowhere_any_more_and_comes_back_to_the_same_sums(
    tmp_path: Path, adjacency: Adjacency
) -> None:
    with open_world(tmp_path, adjacency=adjacency) as world:
        register(world, "visits")
        register(world, "without", OTHERS)
        first, public = gram(world, "visits"), world.curator.datasets.public_count(find(world, "visits"))
        storage = world.curator.datasets.storage
        dataset = find(world, "visits")
        (part,) = storage.about(dataset.folder).parts
        pseudonym = bytes(part.read_subjects(storage.root / dataset.folder)[0])
        digests, sketches = world.sql(OF_ROWS), world.sql(SKETCHES)
        assert everywhere(world).count(pseudonym) == 3
        assert erase(world) == ["visits"]
        assert np.array_equal(gram(world, "visits"), first)  # until the cut
        old = storage.root / dataset.folder
        held = [path.open("rb") for path in sorted(old.iterdir())]
        cut(world)
        assert np.array_equal(gram(world, "visits"), gram(world, "without"))
        assert rows(world, "visits") == rows(world, "without")
        assert pseudonym not in everywhere(world)
        assert not old.exists()
        for file in held:  # overwritten, for whoever has them open
            with file:
                assert not any(file.read())
        kept = set(world.sql(OF_ROWS))
        assert len({*digests} - kept) == 2 * 1  # of the file, and of its values
        assert {*sketches}.isdisjoint(world.sql(SKETCHES))
        stored = read_columns(storage, find(world, "visits"))
        if adjacency is Adjacency.REPLACE_ONE:
            null = stored["year"] == MISSING
            assert null.sum() == 3
            assert not stored[MARK][null].any()
            assert all((stored[name][null] == MISSING).all() for name in ("year", "smokes", "dose"))
        else:
            assert len(stored["year"]) == 14
        assert world.curator.datasets.public_count(find(world, "visits")) == public
        add(world, "visits", ANNA)
        cut(world)
        assert np.array_equal(gram(world, "visits"), first)
        assert_sound(world)


def test_an_erasure_is_of_the_rows_that_are_there_and_not_of_those_that_come_later(world: World) -> None:
    register(world, "visits")
    first = rows(world, "visits")
    add(world, "visits", "anna-canary,2033,true,1\n")
    erase(world)
    add(world, "visits", ANNA)
    cut(world)
    assert rows(world, "visits") == first


def test_a_person_in_rows_that_wait_alone_is_found_and_forgotten(world: World) -> None:
    register(world, "visits", OTHERS)
    first = rows(world, "visits")
    assert erase(world) == []
    add(world, "visits", ANNA)
    assert erase(world) == ["visits"]
    cut(world)
    assert rows(world, "visits") == first
    assert_sound(world)


def test_the_last_person_may_be_erased(world: World) -> None:
    register(world, "visits", ANNA)
    erase(world)
    cut(world)
    assert rows(world, "visits") == []
    answer = world.api().post("/v1/datasets/visits/releases", json=body(**ASKED), key="k")
    assert answer.status_code == 201
    assert_sound(world)
    cut(world)
    assert_sound(world)


def test_a_restored_backup_brings_nobody_back(both: World, database_url: str | None) -> None:
    register(both, "visits")
    write_backup(both.curator, both.folder / "b.tar")
    erase(both)
    cut(both)
    settings = both.settings.model_copy(
        update={
            "data_dir": both.folder / "again", "database_url": None, "anchor_dir": both.settings.anchor_folder,
            "keys_dir": both.settings.keys_folder,
        }
    )  # fmt: skip
    with open_restored(both, settings) as again:
        read_backup(again.curator, both.folder / "b.tar")
        again.curator.keys.recover("2026-03-01T12:00:00Z")
        assert len(rows(again, "visits")) == 15
        assert again.curator.versions.recall_erasures() == 1
        assert again.curator.versions.recall_erasures() == 0
        reconcile(again.curator.ledger, [], [], actor="operator:test", anchor_lost=False)
        refused = again.api().post("/v1/datasets/visits/releases", json=body(**ASKED), key="k")
        problem(refused, "busy", 503)
        assert "visits" in [found.name for found in again.curator.versions.cut_due()]
        assert len(rows(again, "visits")) == 13
        assert again.api().post("/v1/datasets/visits/releases", json=body(**ASKED), key="k").status_code == 201
        assert_sound(again)


class open_restored:  # noqa: N801 -- a context
    """A world on other settings, with the tokens of another."""

    def __init__(self, world: World, settings: Any) -> None:
        self._made = World(settings, another_worker(World(settings, world.curator, world.clock, world.folder, None)),
                           world.clock, world.folder, world.noise, dict(world.tokens))  # fmt: skip

    def __enter__(self) -> World:
        """Return it."""
        return self._made

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._made.close()


# --- Rows that come, and datasets that end


def test_appended_rows_are_those_of_one_registration(both: World) -> None:
    register(both, "whole", ANNA + OTHERS + MORE)
    register(both, "visits")
    add(both, "visits", MORE)
    cut(both)
    assert rows(both, "visits") == rows(both, "whole")  # p3 has four rows, and two of them count
    assert np.array_equal(gram(both, "visits"), gram(both, "whole"))
    add(both, "visits", "q9,2001,true,1\n", REPLACE)
    cut(both)
    assert len(rows(both, "visits")) == 1
    assert_sound(both)


def test_rows_of_an_earlier_version_keep_the_function_of_their_pseudonyms(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or rows that come later were of other persons, and whoever is to be forgotten was not found."""
    register(world, "whole", ANNA + OTHERS + MORE)
    with monkeypatch.context() as earlier:
        earlier.setattr(
            service, "make_pseudonymiser", lambda keys: make_pseudonymiser(keys, keys.list_keys()[-1].key_id)
        )
        register(world, "visits")
    add(world, "visits", MORE)
    cut(world)
    assert rows(world, "visits") == rows(world, "whole")
    assert erase(world) == ["visits", "whole"]
    cut(world)
    assert rows(world, "visits") == rows(world, "whole")
    assert_sound(world)


def test_rows_of_people_with_another_budget_are_refused(world: World) -> None:
    people = make_rows(300, seed=99)
    world.register("theirs", "valley", people)
    world.register("ours", "town", make_rows(50, seed=98))
    before = world.curator.versions.list_changes()
    with pytest.raises(RegistrationError, match="under the population 'valley'"):
        world.curator.versions.add_rows("ours", world.folder / "theirs.csv", act=APPEND, actor="operator:test")
    assert world.curator.versions.list_changes() == before
    assert_sound(world)


def test_rows_that_were_replaced_are_still_recognised(world: World) -> None:
    people = make_rows(300, seed=97)
    world.register("ours", "town", people)
    (world.folder / "other.csv").write_text(csv_text(make_rows(300, seed=96)), encoding="utf-8")
    world.curator.versions.add_rows("ours", world.folder / "other.csv", act=REPLACE, actor="operator:test")
    cut(world)
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        world.register("again", "valley", people[::-1])


def test_what_does_not_fit_is_refused_before_it_waits(world: World) -> None:
    register(world, "visits")
    with pytest.raises(IngestError, match="row_capacity is 40"):
        add(world, "visits", "".join(f"x{i},2001,true,1\n" for i in range(30)))
    with pytest.raises(ChangeError, match="no dataset 'nothing'"):
        add(world, "nothing", MORE)
    with pytest.raises(ChangeError, match="its own successor"):
        world.curator.versions.retire("visits", actor="operator:test", successor="visits")
    assert world.curator.versions.list_changes() == []
    assert_sound(world)


def test_a_dataset_that_ends_keeps_its_releases_and_its_budget(both: World) -> None:
    register(both, "visits")
    api = both.api()
    kept = api.post("/v1/datasets/visits/releases", json=body(**ASKED), key="before").json()
    spent = both.account().posted
    both.curator.versions.retire("visits", actor="operator:test", successor="cohort")
    erase(both)  # whoever asks for both is heard
    cut(both)
    assert not (both.settings.data_dir / "datasets" / find(both, "visits").folder).exists()
    shown = api.get("/v1/datasets/visits").json()
    assert (shown["successor"], shown["until"], shown["rows"]) == ("cohort", None, None)
    assert shown["ended"].startswith("2026-04")
    asked = body(**ASKED | {"features": ["year"], "fresh": True})
    refused = problem(api.post("/v1/datasets/visits/releases", json=asked, key="k"), "dataset-closed", 409)
    assert "'cohort'" in refused["detail"]
    assert api.get(f"/v1/releases/{kept['id']}").json() == kept
    assert api.post("/v1/datasets/visits/releases", json=body(**ASKED), key="again").json()["id"] == kept["id"]
    assert both.account().posted == spent
    assert_sound(both)
    entries = both.entries()
    assert any("version" in entry for entry in entries)
    assert any("ended" in entry for entry in entries)
    assert [*map(read, entries)]
    with pytest.raises(RegistrationError, match="exists"):
        register(both, "visits")
    cut(both)
    assert_sound(both)


# --- Releases across versions


def test_a_stored_answer_is_served_across_cuts_and_a_fresh_one_is_of_the_new_rows(both: World) -> None:
    register(both, "visits")
    api = both.api()
    first = api.post("/v1/datasets/visits/releases", json=body(**ASKED), key="1").json()
    add(both, "visits", MORE)
    cut(both)
    again = api.post("/v1/datasets/visits/releases", json=body(**ASKED), key="2").json()
    assert again["id"] == first["id"]
    spent = both.account().posted
    block = api.post("/v1/datasets/visits/releases", json=body(**BLOCK | {"features": ["year"]}), key="3").json()
    assert block["derived_from"] == first["id"]
    assert block["receipt"]["snapshot"] == first["receipt"]["snapshot"]
    assert both.account().posted == spent
    new = api.post("/v1/datasets/visits/releases", json=body(fresh=True, **ASKED), key="4").json()
    assert new["receipt"]["snapshot"] == find(both, "visits").commitment != first["receipt"]["snapshot"]
    assert api.get("/v1/datasets/visits").json()["snapshot"] == new["receipt"]["snapshot"]
    assert api.post("/v1/datasets/visits/releases", json=body(**ASKED), key="5").json()["id"] == new["id"]
    assert api.post("/v1/datasets/visits/releases", json=body(**ASKED), key="1").json()["id"] == first["id"]
    other = api.post("/v1/datasets/visits/releases", json=body(**BLOCK | {"features": ["smokes"]}), key="6").json()
    assert other["derived_from"] == new["id"]
    assert_sound(both)


def test_nothing_is_released_from_rows_that_have_ended(both: World) -> None:
    """A request that was planned before the cut, and a job that was reserved before it."""
    register(both, "visits")
    api = both.api()
    publisher = both.apps[-1].state.curator.releases.publisher
    compute = publisher._compute

    def cut_meanwhile(*arguments: Any) -> Any:
        noisy = compute(*arguments)
        cut(both)
        return noisy

    publisher._compute = cut_meanwhile
    job = api.post(
        "/v1/datasets/visits/releases", json=body(**ASKED | {"rows": {"map": "ball"}}), key="j", headers=ASYNC
    )
    if job.status_code == 202:
        assert await_job(api, job.json()["id"])["state"] != "done"
    else:
        problem(job, "busy", 503)
    assert (both.account().posted, both.account().pending) == (0, 0)
    publisher._compute = compute
    checked = publisher.datasets.check_available

    def cut_before(dataset: Dataset) -> None:
        checked(dataset)
        cut(both)

    publisher.datasets.check_available = cut_before
    problem(api.post("/v1/datasets/visits/releases", json=body(**ASKED), key="k"), "busy", 503)
    publisher.datasets.check_available = checked
    assert both.account().posted == 0
    assert api.post("/v1/datasets/visits/releases", json=body(**ASKED), key="k").status_code == 201
    assert_sound(both)


def test_rows_of_an_earlier_version_are_not_taken_for_the_present_ones(world: World, tmp_path: Path) -> None:
    """Somebody who may write the database and the folder of rows puts back what was erased."""
    register(world, "visits")
    before = find(world, "visits")
    folder = world.settings.data_dir / "datasets" / before.folder
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    erase(world)
    cut(world)
    folder.mkdir()
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    world.sql(
        f"UPDATE datasets SET folder = '{before.folder}', version = 1, snapshot_commitment = '{before.commitment}' "
        "WHERE name = 'visits'"
    )
    witness = another_worker(world)
    assert "'visits' is not the one that the ledger registered" in witness.ledger.guard.start()
    witness.database.dispose()
    assert "dataset visits" in world.discrepancies()


# --- Crashes


def _die_at(step: str, settings: Any, moment: Any) -> None:
    """Cut in another process, and end it as a kill does at one step."""

    def die(*_arguments: object, **_options: object) -> None:
        os._exit(9)

    def after(act: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> None:
            act(*arguments, **options)
            os._exit(9)

        return run

    STEPS[step](die, after)
    make_curator(settings, now=lambda: moment).versions.cut_due()
    os._exit(0)


def _patch(owner: Any, name: str, made: Any) -> None:
    setattr(owner, name, made)


STEPS: dict[str, Callable[[Any, Any], None]] = {
    "before rows are written": lambda die, after: _patch(versions, "rewrite", die),
    "rows half written": lambda die, after: _patch(snapshot.PartWriter, "finish", die),
    "rows written, nothing committed": lambda die, after: _patch(versions, "rewrite", after(versions.rewrite)),
    "entry appended": lambda die, after: _patch(versions.repository, "put_version", die),
    "folder named": lambda die, after: _patch(snapshot.Storage, "publish", after(snapshot.Storage.publish)),
    "committed": lambda die, after: _patch(snapshot.Storage, "confirm", die),
    "confirmed": lambda die, after: _patch(snapshot.Storage, "confirm", after(snapshot.Storage.confirm)),
    "before anything is overwritten": lambda die, after: _patch(snapshot.Storage, "sweep", die),
    "overwritten in part": lambda die, after: _patch(Path, "unlink", after(Path.unlink)),
}


@pytest.mark.postgres
@pytest.mark.parametrize("step", list(STEPS))
@pytest.mark.crashes
def test_a_process_that_is_killed_leaves_one_version(town: World, step: str) -> None:
    """On the embedded database at any step: `test_version_crashes.py`."""
    register(town, "visits")
    register(town, "without", OTHERS + MORE)
    erase(town, "visits")
    add(town, "visits", MORE)
    before, after = rows(town, "visits"), rows(town, "without")
    town.clock.advance(days=31)
    town.curator.database.dispose()
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_die_at, args=(step, town.settings, town.clock.moment))
    process.start()
    process.join(300)
    assert process.exitcode == 9
    witness = another_worker(town)
    assert witness.ledger.guard.start() == ""
    assert witness.datasets.start() == []
    witness.database.dispose()
    found = rows(town, "visits")
    assert found == (before if find(town, "visits").version == 1 else after)
    town.curator.versions.cut_due()
    assert rows(town, "visits") == after
    assert find(town, "visits").version == 2
    assert_sound(town)


def test_a_cut_that_fails_is_tried_again_and_the_others_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    register(world, "a")
    register(world, "b")
    erase(world, "a")
    before = rows(world, "a")
    rewrite = versions.rewrite

    def fail(storage: Any, name: str, plan: Any, sketcher: Any) -> Any:
        if plan.manifest.name == "a":
            raise OSError(28, "No space left on device: anna-canary")
        return rewrite(storage, name, plan, sketcher)

    with monkeypatch.context() as patch:
        patch.setattr(versions, "rewrite", fail)
        assert "b" in cut(world)
    assert "anna-canary" not in caplog.text
    assert rows(world, "a") == before
    assert [found.name for found in world.curator.versions.cut_due()] == ["a"]
    assert rows(world, "a") != before
    assert_sound(world)


# --- The command line


def run(world: World, *arguments: str, identifier: str | None = None) -> Any:
    """Run a command on the world's data folder."""
    environment = {"CURATOR_DATA_DIR": str(world.settings.data_dir), "COLUMNS": "200"}
    return CliRunner().invoke(
        commands, arguments, input=None if identifier is None else f"{identifier}\n", env=environment
    )


def test_a_command_whose_cut_failed_ends_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    register(world, "a")
    register(world, "b")
    rewrite = versions.rewrite

    def fail(storage: Any, name: str, plan: Any, sketcher: Any) -> Any:
        if plan.manifest.name == "a":
            raise OSError(28, "No space left on device: anna-canary")
        return rewrite(storage, name, plan, sketcher)

    with monkeypatch.context() as patch:
        patch.setattr(versions, "rewrite", fail)
        done = run(world, "datasets", "cut", "--json")
    assert done.exit_code == 1
    assert "not cut: a;" in done.stderr
    assert "anna-canary" not in done.output
    assert "b" in [found["dataset"] for found in json.loads(done.stdout)["cut"]]
    assert run(world, "datasets", "cut").exit_code == 0
    assert (find(world, "a").version, find(world, "b").version) == (2, 2)


def test_metrics_do_not_tell_that_rows_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    register(world, "visits")
    storage, api = world.curator.datasets.storage, world.api()
    before = storage.measure(but_for=())
    total = 4 * before  # a disk that rows fill up

    def usage(_folder: object) -> SimpleNamespace:
        return SimpleNamespace(total=total, free=0.505 * total - (storage.measure(but_for=()) - before))

    monkeypatch.setattr(shutil, "disk_usage", usage)

    def told() -> list[str]:
        lines = api.get("/metrics").text.splitlines()
        return [line for line in lines if line.startswith("curator_disk_free_ratio")]

    quiet = told()
    assert quiet[0].endswith(" 0.5")
    add(world, "visits", MORE)
    assert usage(None).free < 0.49 * total
    assert told() == quiet


def test_the_operator_is_told_what_waits_and_until_when(world: World) -> None:
    register(world, "visits")
    write(world, "more", MORE)
    asked = run(world, "datasets", "append", "visits", str(world.folder / "more.csv"))
    assert asked.exit_code == 0, asked.output
    assert "visits: append, from 2" in asked.stdout
    erased = run(world, "subjects", "erase", "--yes", "--json", identifier="anna-canary")
    assert erased.exit_code == 0, erased.output
    assert [row["act"] for row in json.loads(erased.stdout)] == ["erase"]
    nobody = run(world, "subjects", "erase", "--yes", identifier="nobody")
    assert nobody.exit_code == 1
    assert "no row of this person is stored" in nobody.stderr
    shown = json.loads(run(world, "datasets", "changes", "--json").stdout)["changes"]
    assert [(row["act"], row["version"]) for row in shown] == [("append", None), ("erase", None)]
    retired = run(world, "datasets", "retire", "visits", "--successor", "cohort", "--yes")
    assert "visits: retire, from" in retired.stdout
    assert "anna" not in asked.output + erased.output + retired.output


ENDING = {
    "retire": ("datasets", "retire", "visits"),
    "replace": ("datasets", "replace", "visits", "more.csv"),
    "erase": ("subjects", "erase"),
}


@pytest.mark.parametrize("act", ENDING)
def test_an_act_that_ends_rows_is_confirmed(world: World, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    """On a terminal it asks; without one it needs the word."""
    register(world, "visits")
    write(world, "more", OTHERS)
    monkeypatch.chdir(world.folder)
    unasked = run(world, *ENDING[act], identifier="anna-canary")
    assert (unasked.exit_code, "add --yes" in unasked.stderr) == (1, True)
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    typed = ["anna-canary"] if act == "erase" else []
    refused = run(world, *ENDING[act], identifier="\n".join([*typed, "n"]))
    assert (refused.exit_code, "nothing was changed" in refused.stderr) == (1, True)
    assert "anna" not in unasked.output + refused.output
    assert world.curator.versions.list_changes() == []
    done = run(world, *ENDING[act], identifier="\n".join([*typed, "y"]))
    assert done.exit_code == 0, done.output
    assert [change.act for change in world.curator.versions.list_changes()] == [act]


def test_what_waits_is_in_a_backup(both: World) -> None:
    register(both, "visits")
    register(both, "whole", OTHERS + MORE)
    add(both, "visits", MORE)
    erase(both, "visits")
    write_backup(both.curator, both.folder / "b.tar")
    settings = both.settings.model_copy(
        update={
            "data_dir": both.folder / "again", "database_url": None, "anchor_dir": both.settings.anchor_folder,
            "keys_dir": both.settings.keys_folder,
        }
    )  # fmt: skip
    with open_restored(both, settings) as again:
        read_backup(again.curator, both.folder / "b.tar")
        again.curator.keys.recover("2026-03-01T12:00:00Z")
        assert again.curator.versions.recall_erasures() == 0
        reconcile(again.curator.ledger, [], [], actor="operator:test", anchor_lost=False)
        again.curator.versions.cut_due()
        assert rows(again, "visits") == rows(again, "whole")
        assert_sound(again)


def test_the_service_cuts_with_the_rights_that_it_has(both: World) -> None:
    """Also what changes digests and sketches, and what ends; the operator's commands have those of the owner."""
    for name in ("visits", "ended"):
        register(both, name)
    erase(both, "visits")
    add(both, "visits", MORE)
    both.curator.versions.retire("ended", actor="operator:test")
    both.clock.advance(days=31)
    service = make_curator(both.served or both.settings, now=both.clock)
    assert sorted(found.name for found in service.versions.cut_due()) == ["cohort", "ended", "hidden", "visits"]
    service.close()
    assert_sound(both)


def test_a_service_cuts_by_itself(world: World) -> None:
    register(world, "visits")
    erase(world)
    world.clock.advance(days=31)
    world.curator.identity.create_token("cleo", Role.ANALYST)  # the clock goes on from the newest entry
    app = create_app(world.settings, now=world.clock)

    async def serve() -> None:
        async with app.router.lifespan_context(app):
            await to_thread.run_sync(lambda: wait_for(lambda: find(world, "visits").version == 2, "it is cut"))

    run_async(serve)
    assert len(rows(world, "visits")) == 13
    assert_sound(world)


def test_an_engine_that_sums_wrongly_at_a_cut_seals_the_curator(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    right = NumpyEngine.sum
    with monkeypatch.context() as patch:
        patch.setattr(NumpyEngine, "sum", lambda *given: right(*given) + 1)
        with pytest.raises(SelfTestError):
            cut(world)
    assert "the engine 'numpy'" in world.curator.ledger.guard.reason()
    assert world.curator.versions.cut_due() == []
    assert find(world, "cohort").version == 1


def test_rows_that_are_renewed_while_the_ledger_is_verified_are_no_discrepancy(
    both: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(both, "visits")
    honest, moments = DatasetService.holds, iter([True])

    def hold(self: DatasetService, dataset: Dataset) -> bool:
        if next(moments, False):
            assert "visits" in cut(both)
        return honest(self, dataset)

    monkeypatch.setattr(DatasetService, "holds", hold)
    monkeypatch.setattr(Database, "forget_deleted", lambda _: None)  # it waits for readers, and this test is one
    chain, found = audit.verify(both.curator.ledger, both.curator.datasets, both.curator.kinds, "town")
    assert (chain.ok, found) == (True, [])
