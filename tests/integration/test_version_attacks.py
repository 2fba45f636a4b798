"""Attacks on versions and erasure: each test states a promise that somebody may try to break."""

import json
import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rows_on_disk import read_columns
from scenes import another_worker, await_job
from sqlalchemy.exc import OperationalError
from support import COLUMNS, World, ZeroNoise, body, csv_text, make_rows, open_world, problem
from test_versions import (
    ANNA,
    ASKED,
    HEAD,
    MORE,
    OTHERS,
    add,
    assert_sound,
    cut,
    erase,
    find,
    gram,
    open_restored,
    register,
    rows,
    run,
)

from curator_service.backup import read_backup, write_backup
from curator_service.datasets import repository, snapshot, versions
from curator_service.datasets.batches import MARK
from curator_service.datasets.parts import StoredRows
from curator_service.datasets.repository import APPEND, REPLACE
from curator_service.datasets.service import RegistrationError
from curator_service.datasets.sources.base import IngestError
from curator_service.kit.problems import Problem
from curator_service.ledger.chain.signing import SigningError
from curator_service.ledger.trust.recovery import reconcile
from curator_service.privacy.adjacency import Adjacency

pytestmark = pytest.mark.crashes

PLENTY = "".join(f"n{i},{2003 + i % 30},true,{i / 7:.3f}\n" for i in range(20))


def folder_of(world: World, name: str) -> Path:
    """Return where the rows of a dataset are."""
    return world.settings.data_dir / "datasets" / find(world, name).folder


def stored_bytes(world: World) -> bytes:
    """Return the bytes of the database's files, its log included."""
    found = sorted(path for path in world.settings.data_dir.iterdir() if path.is_file())
    return b"".join(path.read_bytes() for path in found)


def pseudonym_of(world: World, name: str, row: int = 0) -> bytes:
    """Return whose a stored row is."""
    storage, dataset = world.curator.datasets.storage, find(world, name)
    (part,) = storage.about(dataset.folder).parts
    return bytes(part.read_subjects(storage.root / dataset.folder)[row])


# --- Erased means gone


def test_rows_that_wait_for_a_dataset_that_ends_are_overwritten(world: World) -> None:
    register(world, "visits", OTHERS)
    add(world, "visits", ANNA)
    world.curator.versions.retire("visits", actor="operator:test")
    cut(world)
    cut(world)
    root, id_ = world.settings.data_dir / "datasets", find(world, "visits").id
    assert [path.name for path in root.iterdir() if path.name.startswith(id_)] == []


def test_rows_that_are_appended_while_a_dataset_ends_are_overwritten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(world, "visits", OTHERS)
    storage = world.curator.datasets.storage
    ingest = storage.ingest

    def end_meanwhile(*arguments: Any, **options: Any) -> Any:
        made = ingest(*arguments, **options)
        world.curator.versions.retire("visits", actor="operator:test")
        cut(world)
        return made

    monkeypatch.setattr(storage, "ingest", end_meanwhile)
    with suppress(ValueError, Problem):  # a refusal is as good
        add(world, "visits", ANNA)
    monkeypatch.undo()
    cut(world)
    root, id_ = world.settings.data_dir / "datasets", find(world, "visits").id
    assert [path.name for path in root.iterdir() if path.name.startswith(id_)] == []


def test_an_erasure_makes_anew_the_sketch_of_present_rows_and_no_other(world: World) -> None:
    """Whose values one of rows that were replaced has cannot be told, and their people keep their budget."""
    made = register(world, "visits")
    of = f"SELECT version, sealed FROM sketches WHERE dataset_id = '{made.id}'"
    add(world, "visits", ANNA + PLENTY, REPLACE)
    cut(world)
    before = dict(world.sql(of))
    assert erase(world) == ["visits"]
    cut(world)
    after = dict(world.sql(of))
    assert (set(before), set(after)) == ({1, 2}, {1, 2, 3})
    assert after[1] == before[1]
    assert before[2] not in after.values()


def test_an_erasure_while_other_rows_wait_to_stand_for_the_present_ones_is_written_down(world: World) -> None:
    """Whoever has rows now is known to a backup of now: nothing else would keep the person from coming back."""
    register(world, "visits")
    sealed = world.sql("SELECT sealed FROM sketches")
    add(world, "visits", OTHERS + PLENTY[: PLENTY.index("n15")], REPLACE)
    assert erase(world) == ["visits"]
    assert [change.act for change in world.curator.versions.erasures.read(world.curator.keys)] == ["erase"]
    cut(world)
    assert len({*sealed} - {*world.sql("SELECT sealed FROM sketches")}) == 1


def test_an_erasure_during_an_append_is_of_its_rows_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file was read before the person was erased: whoever asked was told that it is done."""
    register(world, "visits")
    storage = world.curator.datasets.storage
    ingest = storage.ingest

    def erase_meanwhile(*arguments: Any, **options: Any) -> Any:
        made = ingest(*arguments, **options)
        assert erase(world) == ["visits"]
        return made

    monkeypatch.setattr(storage, "ingest", erase_meanwhile)
    known = pseudonym_of(world, "visits")
    add(world, "visits", "anna-canary,2033,true,1\n")
    cut(world)
    assert known not in (folder_of(world, "visits") / next(folder_of(world, "visits").glob("*.subjects"))).read_bytes()


# --- Erased persons who come back


def test_an_erasure_outlives_a_database_that_was_put_back_unseen(world: World) -> None:
    """No entry was written between the copy and the erasure, so that the anchor sees nothing."""
    register(world, "visits")
    world.curator.database.dispose()
    copies = {path: path.read_bytes() for path in world.settings.data_dir.iterdir() if path.is_file()}
    assert erase(world) == ["visits"]
    world.curator.database.dispose()
    for path in [path for path in world.settings.data_dir.iterdir() if path.is_file()]:
        path.unlink()
    for path, content in copies.items():
        path.write_bytes(content)
    witness = another_worker(world)
    assert witness.ledger.guard.start() == ""
    witness.datasets.start()
    world.clock.advance(days=31)
    witness.versions.cut_due()
    witness.database.dispose()
    assert len(rows(world, "visits")) == 13


@pytest.mark.parametrize(
    "act",
    [
        "DELETE FROM changes",
        """UPDATE changes SET version = 1, number = 7, content = '{"pseudonyms": {}}'""",
        "UPDATE changes SET act = 'append'",
    ],
)
def test_an_erasure_that_was_struck_out_of_the_database_is_carried_out(world: World, act: str) -> None:
    """The service's own role may do all but the first; the file beside the anchor knows better."""
    register(world, "visits")
    erase(world)
    world.sql(act)
    cut(world)
    assert len(rows(world, "visits")) == 13
    assert_sound(world)


def test_an_erasure_that_was_carried_out_is_not_asked_again(world: World) -> None:
    """Whoever comes again stays, whatever became of the change's row."""
    register(world, "visits")
    first = rows(world, "visits")
    erase(world)
    add(world, "visits", ANNA)
    cut(world)
    world.sql("DELETE FROM changes")
    cut(world)
    assert rows(world, "visits") == first
    assert world.curator.versions.list_changes() == []


def test_nothing_is_charged_for_rows_of_before_that_were_put_back_under_a_running_server(world: World) -> None:
    """As `check_registered` says of whoever may change the tables, for a moment."""
    register(world, "visits")
    api = world.api()
    assert api.post("/v1/datasets/visits/releases", json=body(**ASKED), key="a").status_code == 201
    before, folder = find(world, "visits"), folder_of(world, "visits")
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    erase(world)
    cut(world)
    fresh = body(fresh=True, **ASKED)
    assert api.post("/v1/datasets/visits/releases", json=fresh, key="b").status_code == 201
    spent = world.account().posted
    folder.mkdir()
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    world.sql(
        f"UPDATE datasets SET folder = '{before.folder}', version = 1, snapshot_commitment = '{before.commitment}' "
        "WHERE name = 'visits'"
    )
    answer = api.post("/v1/datasets/visits/releases", json=fresh, key="c")
    assert answer.status_code != 201
    assert world.account().posted == spent


def test_a_dataset_that_ended_is_not_brought_back_by_the_database(world: World) -> None:
    register(world, "visits")
    folder = folder_of(world, "visits")
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    world.curator.versions.retire("visits", actor="operator:test")
    cut(world)
    folder.mkdir()
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    world.sql("UPDATE datasets SET retired_at = '' WHERE name = 'visits'")
    witness = another_worker(world)
    reason = witness.ledger.guard.start()
    witness.database.dispose()
    assert "'visits' is not the one" in reason


def test_a_dataset_that_ended_is_not_brought_back_by_a_restore(world: World) -> None:
    register(world, "visits")
    write_backup(world.curator, world.folder / "b.tar")
    world.curator.versions.retire("visits", actor="operator:test")
    cut(world)
    settings = world.settings.model_copy(
        update={
            "data_dir": world.folder / "again",
            "anchor_dir": world.settings.anchor_folder,
            "keys_dir": world.settings.keys_folder,
        }
    )
    with open_restored(world, settings) as restored:
        read_backup(restored.curator, world.folder / "b.tar")
        restored.curator.keys.recover("2026-03-01T12:00:00Z")
        restored.curator.versions.recall_erasures()
        reconcile(restored.curator.ledger, [], [], actor="operator:test", anchor_lost=False)
        restored.curator.versions.cut_due()
        assert find(restored, "visits").is_retired


def test_a_backup_during_a_cut_is_of_one_version(both: World, monkeypatch: pytest.MonkeyPatch) -> None:
    register(both, "visits")
    erase(both)
    storage = both.curator.datasets.storage
    files = storage.files

    def cut_before(name: str) -> Any:
        monkeypatch.undo()
        cut(both)
        return files(name)

    monkeypatch.setattr(storage, "files", cut_before)
    write_backup(both.curator, both.folder / "b.tar")
    both.curator.versions.cut_due()
    assert len(rows(both, "visits")) == 13
    settings = both.settings.model_copy(
        update={
            "data_dir": both.folder / "again",
            "database_url": None,
            "anchor_dir": both.settings.anchor_folder,
            "keys_dir": both.settings.keys_folder,
        }
    )
    with open_restored(both, settings) as restored:
        read_backup(restored.curator, both.folder / "b.tar")
        restored.curator.keys.recover("2026-03-01T12:00:00Z")
        restored.curator.versions.recall_erasures()
        reconcile(restored.curator.ledger, [], [], actor="operator:test", anchor_lost=False)
        restored.curator.versions.cut_due()
        assert rows(restored, "visits") == rows(both, "visits")


# --- What an analyst sees


def test_a_cut_with_an_erasure_needs_no_more_keys_than_one_without(world: World) -> None:
    keys = world.curator.keys
    before = {path.name for path in world.settings.keys_folder.iterdir()}
    keys.rotate("2026-03-01T12:00:00Z")
    world.curator = another_worker(world)
    between = {path.name for path in world.settings.keys_folder.iterdir()} - before
    register(world, "other", PLENTY)  # its digests are under the key in between
    world.curator.keys.rotate("2026-03-01T13:00:00Z")
    world.curator = another_worker(world)
    register(world, "visits")
    register(world, "without", OTHERS)
    for name in between:
        if "pub" not in name:
            (world.settings.keys_folder / name).unlink()
    world.curator = another_worker(world)
    assert erase(world, "visits") == ["visits"]
    done = cut(world)
    assert ("visits" in done) == ("without" in done)


@pytest.mark.parametrize("who", ["p1", "q1"])
def test_the_public_number_does_not_tell_who_was_there_before(tmp_path: Path, who: str) -> None:
    """Each upload adds its own number of persons, whether they are new, come again, or come again after an erasure."""
    with open_world(tmp_path, adjacency=Adjacency.REPLACE_ONE) as world:
        for name in ("visits", "plain"):
            register(world, name)
        erase(world, "visits")
        cut(world)
        for name in ("visits", "plain"):
            assert world.curator.datasets.public_count(find(world, name)) == 13
            add(world, name, f"{ANNA}{who},2035,true,2\n")
        cut(world)
        assert [world.curator.datasets.public_count(find(world, name)) for name in ("visits", "plain")] == [15, 15]
        add(world, "visits", ANNA, REPLACE)
        cut(world)
        assert world.curator.datasets.public_count(find(world, "visits")) == 1


def test_what_a_cut_reads_follows_from_public_numbers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10⁸ rows its duration would tell how many there are."""
    register(world, "many", OTHERS + PLENTY)
    register(world, "few", OTHERS[: OTHERS.index("p4")])
    monkeypatch.setattr(snapshot, "_READ_ROWS", 4)
    read, tiles = Counter[str](), StoredRows.tiles

    def follow(self: StoredRows, *arguments: Any) -> Any:
        for stored, count in tiles(self, *arguments):
            read[self.folder.name.partition("ds_")[2][:24]] += count
            yield stored, count

    monkeypatch.setattr(StoredRows, "tiles", follow)
    cut(world)
    assert read[find(world, "many").id[3:]] == read[find(world, "few").id[3:]] > 0


def test_a_version_shows_at_a_public_time(world: World) -> None:
    """Recognising rows takes longer for more of them; whoever asks again and again sees when the version turns."""
    register(world, "many", OTHERS + PLENTY)
    register(world, "few", OTHERS[: OTHERS.index("p4")])
    seen: list[tuple[float, int]] = []

    @contextmanager
    def follow(duration_s: float) -> Iterator[None]:
        yield
        seen.append((duration_s, find(world, "few").version + find(world, "many").version))

    world.curator.versions.ending_after = follow
    world.clock.advance(days=31)
    for name in ("few", "many"):
        world.curator.versions.cut(find(world, name))
    assert [versions for _duration_s, versions in seen] == [2, 3]  # nothing shows before its time
    assert seen[0][0] == seen[1][0] > 0


def test_the_entry_of_a_cut_says_which_one_it_is_and_not_how_long_it_took(world: World) -> None:
    world.clock.advance(days=31, minutes=17)
    made = next(found for found in world.curator.versions.cut_due() if found.name == "cohort")
    assert made.cut_at == world.entries()[-1]["time"] == "2026-04-01T00:00:00Z"


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_every_kind_answers_of_null_rows_as_of_none(tmp_path: Path, adjacency: Adjacency) -> None:
    asked: list[dict[str, Any]] = [
        ASKED,
        ASKED | {"rows": {"map": "ball"}},
        {"kind": "counts", "features": ..., "targets": ..., "price": {"mu": 0.05},
         "tables": [{"axes": [{"column": "smokes", "missing": True}]},
                    {"axes": [{"column": "year", "edges": [2000, 2010, 2040]}]}]},
        {"kind": "marginals", "features": ..., "targets": ..., "price": {"mu": 0.05},
         "marginals": [{"type": "moments", "columns": ["year"]}, {"type": "tree", "columns": ["year"], "levels": 3}]},
    ]  # fmt: skip
    with open_world(tmp_path, adjacency=adjacency, noise=ZeroNoise()) as world:
        register(world, "visits")
        register(world, "without", OTHERS)
        erase(world, "visits")
        cut(world)
        api = world.api()
        for i, request in enumerate(asked):
            found = []
            for name in ("visits", "without"):
                answer = api.post(f"/v1/datasets/{name}/releases", json=body(**request), key=f"{name}-{i}")
                if answer.status_code == 202:
                    assert await_job(api, answer.json()["id"])["state"] == "done"
                    answer = api.post(f"/v1/datasets/{name}/releases", json=body(**request), key=f"{name}-{i}")
                assert answer.status_code in {200, 201}, answer.text[:600]
                found.append(answer.json()["statistics"])
            assert found[0] == found[1]


# --- Second budgets


def test_rows_that_wait_are_recognised_under_another_population(world: World) -> None:
    people = make_rows(300, seed=99)
    world.register("ours", "town", make_rows(50, seed=98))
    (world.folder / "new.csv").write_text(csv_text(people), encoding="utf-8")
    world.curator.versions.add_rows("ours", world.folder / "new.csv", act=APPEND, actor="operator:test")
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        world.register("theirs", "valley", people[::-1])


def test_people_of_whom_some_are_appended_are_recognised(world: World) -> None:
    """Not a few: they have too few values of their own."""
    people = make_rows(300, seed=99)
    world.register("ours", "town", people)
    world.register("theirs", "valley", make_rows(5, seed=98))
    (world.folder / "new.csv").write_text(csv_text(people[20:220]), encoding="utf-8")
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        world.curator.versions.add_rows("theirs", world.folder / "new.csv", act=APPEND, actor="operator:test")


def test_the_rows_that_are_left_stay_known_when_somebody_of_them_is_erased(world: World) -> None:
    """Of people with few and coarse columns only digests tell, and those of rows with the erased person are deleted."""
    coarse = "".join(f"c{i},2010,{'true' if i % 2 else 'false'},5\n" for i in range(30))
    register(world, "visits", coarse)
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        register(world, "again", coarse, "valley")
    assert erase(world, identifier="c7") == ["visits"]
    cut(world)
    left = "".join(line for line in coarse.splitlines(keepends=True) if not line.startswith("c7,"))
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        register(world, "again", left, "valley")


def test_an_erasure_forgets_no_digest_of_another_dataset(world: World) -> None:
    coarse = "".join(f"c{i},2010,{'true' if i % 2 else 'false'},5\n" for i in range(30))
    register(world, "first", coarse)
    register(world, "second", coarse)
    assert erase(world, "second", identifier="c7") == ["second"]
    cut(world)
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        register(world, "again", coarse.replace(",5\n", ",5.0\n"), "valley")  # another file, and the same values


def test_a_cut_makes_no_sketch_that_recognises_less(world: World) -> None:
    """A registration sketches values as they came, a cut those of the lattice, where what is clipped is not told."""
    narrow = [
        (name, kind, rule, (0.0, 1e-6) if kind == "numeric" else public, unit)
        for name, kind, rule, public, unit in COLUMNS
    ]
    people = make_rows(300, seed=99)
    ours = world.register("ours", "town", people, columns=narrow)
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        world.register("theirs", "valley", people[::-1])
    (world.folder / "new.csv").write_text(csv_text(make_rows(1, seed=3)), encoding="utf-8")
    for _ in range(2):
        world.curator.versions.add_rows("ours", world.folder / "new.csv", act=APPEND, actor="operator:test")
        cut(world)
    assert world.sql(f"SELECT version FROM sketches WHERE dataset_id = '{ours}' ORDER BY version") == [(1,), (3,)]
    with pytest.raises(RegistrationError, match="under the population 'town'"):
        world.register("theirs", "valley", people[::-1])


def test_rows_that_wait_are_found_for_whoever_asks_for_them(world: World) -> None:
    register(world, "visits", OTHERS)
    add(world, "visits", ANNA)
    found = run(world, "subjects", "find", "--json", identifier="anna-canary")
    assert [row["dataset"] for row in json.loads(found.stdout)] == ["visits"]


def test_two_changes_at_once_have_two_numbers(both: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or rows that took hours to read are refused by a constraint."""
    register(both, "visits")
    number, meet = repository.next_number, threading.Barrier(2)

    def wait(connection: Any, dataset_id: str) -> int:
        found = number(connection, dataset_id)
        with suppress(threading.BrokenBarrierError):  # the other one waits for this one's lock
            meet.wait(3)
        return found

    monkeypatch.setattr(repository, "next_number", wait)
    failed: list[str] = []

    def ask(worker: Any, identifier: str) -> None:
        try:
            worker.versions.erase(identifier, actor="operator:test", names=["visits"])
        except Exception as error:
            failed.append(type(error).__name__)

    workers = [another_worker(both) for _ in range(2)]
    threads = [threading.Thread(target=ask, args=(worker, f"p{i}")) for i, worker in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.database.dispose()
    assert failed == []


def test_a_dataset_of_before_pseudonyms_keeps_its_rows_and_marks(world: World) -> None:
    made = register(world, "visits", ANNA + OTHERS)
    before, counted = gram(world, "visits"), rows(world, "visits")
    folder = world.settings.data_dir / "datasets" / made.folder
    about = json.loads((folder / "snapshot.json").read_text())
    about["parts"][0]["subjects"] = None
    (folder / "snapshot.json").write_text(json.dumps(about))
    next(folder.glob("*.subjects")).unlink()
    world.curator = another_worker(world)
    cut(world)
    cut(world)
    assert find(world, "visits").version == 3
    assert np.array_equal(gram(world, "visits"), before)
    assert rows(world, "visits") == counted
    assert world.discrepancies() == []


def test_damaged_rows_are_not_taken_over_into_the_next_version(world: World) -> None:
    """What `curator ledger verify` would name before the cut, it must name after it."""
    register(world, "visits")
    storage, dataset = world.curator.datasets.storage, find(world, "visits")
    (part,) = storage.about(dataset.folder).parts
    part.overwrite(storage.root / dataset.folder, "dose", 0, np.array([12345], np.int32))
    assert world.discrepancies() == ["the rows of dataset visits"]
    cut(world)
    assert world.discrepancies() == ["the rows of dataset visits"]


def test_rows_of_before_that_are_put_into_the_present_folder_are_not_cut(world: World) -> None:
    """Somebody who may write the folder of rows alone brings back what was erased."""
    register(world, "visits")
    kept = {path.name: path.read_bytes() for path in folder_of(world, "visits").iterdir()}
    erase(world)
    cut(world)
    folder = folder_of(world, "visits")
    shutil.rmtree(folder)
    folder.mkdir()
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    world.curator = another_worker(world)  # it has not seen what was beside the rows
    cut(world)
    witness = another_worker(world)
    sealed = witness.ledger.guard.start()
    witness.database.dispose()
    assert sealed or len(rows(world, "visits")) == 13 or "the rows of dataset visits" in world.discrepancies()


def test_rows_that_wait_are_those_that_were_compared(world: World) -> None:
    register(world, "visits", OTHERS)
    add(world, "visits", ANNA)
    (name,) = {*world.curator.datasets.list_folders().folders} - {
        dataset.folder for dataset in world.curator.datasets.list_all()
    }
    storage = world.curator.datasets.storage
    (part,) = storage.about(name).parts
    part.overwrite(storage.root / name, "dose", 0, np.array([12345], np.int32))
    before = rows(world, "visits")
    cut(world)
    assert rows(world, "visits") == before


def test_a_damaged_dataset_keeps_no_other_from_its_cut(world: World) -> None:
    register(world, "a")
    register(world, "visits")
    storage, dataset = world.curator.datasets.storage, find(world, "a")
    (part,) = storage.about(dataset.folder).parts
    part.overwrite(storage.root / dataset.folder, "smokes", 0, np.array([12345], np.int32))
    erase(world, "visits")
    world.clock.advance(days=31)
    with suppress(Exception):  # the thread that cuts logs it, and tries again
        world.curator.versions.cut_due()
    assert len(rows(world, "visits")) == 13


def test_a_fault_of_the_database_keeps_no_other_dataset_from_its_cut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(world, "a")
    register(world, "visits")
    publish = world.curator.versions._publish

    def fail(ledger: Any, dataset: Any, *more: Any) -> Any:
        if dataset.name == "a":
            raise OperationalError("UPDATE", {}, Exception("database is locked"))
        return publish(ledger, dataset, *more)

    monkeypatch.setattr(world.curator.versions, "_publish", fail)
    world.clock.advance(days=31)
    with suppress(OperationalError):
        world.curator.versions.cut_due()
    assert find(world, "visits").version == 2


def test_rows_that_wait_and_cannot_be_read_are_told_before_the_cut(world: World) -> None:
    register(world, "visits")
    add(world, "visits", MORE)
    (name,) = {*world.curator.datasets.list_folders().folders} - {
        dataset.folder for dataset in world.curator.datasets.list_all()
    }
    next((world.settings.data_dir / "datasets" / name).glob("*.rows")).write_bytes(b"")
    witness = another_worker(world)
    assert any("visits" in fault for fault in witness.datasets.list_faults())
    witness.database.dispose()


def test_rows_that_wait_and_cannot_be_read_can_be_given_up(world: World) -> None:
    register(world, "visits")
    add(world, "visits", MORE)
    (name,) = {*world.curator.datasets.list_folders().folders} - {
        dataset.folder for dataset in world.curator.datasets.list_all()
    }
    shutil.rmtree(world.settings.data_dir / "datasets" / name)
    world.curator = another_worker(world)
    add(world, "visits", OTHERS, REPLACE)
    assert "visits" in cut(world)


def test_a_dataset_whose_rows_are_gone_takes_others(world: World) -> None:
    register(world, "visits")
    shutil.rmtree(folder_of(world, "visits"))
    world.curator = another_worker(world)
    add(world, "visits", OTHERS + PLENTY[: PLENTY.index("n9")], REPLACE)
    assert "visits" in cut(world)


def test_a_dataset_of_nobody_takes_rows_after_any_number_of_cuts(world: World) -> None:
    register(world, "visits", ANNA)
    erase(world)
    cut(world)
    cut(world)
    add(world, "visits", OTHERS)
    cut(world)
    assert len(rows(world, "visits")) == 13


def test_a_key_that_is_new_while_rows_come_and_stand_for_others_blocks_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(world, "visits")
    storage = world.curator.datasets.storage
    ingest = storage.ingest

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        made = ingest(*arguments, **options)
        monkeypatch.undo()
        other = another_worker(world)
        other.keys.rotate("2026-03-01T12:00:00Z")
        other = another_worker(world)
        path = world.folder / "new.csv"
        path.write_text(HEAD + PLENTY[: PLENTY.index("n9")])
        other.versions.add_rows("visits", path, act=REPLACE, actor="operator:test")
        return made

    monkeypatch.setattr(storage, "ingest", meanwhile)
    with suppress(ValueError, Problem, SigningError):  # a refusal is as good
        add(world, "visits", MORE)
    world.curator = another_worker(world)
    assert "visits" in cut(world)


def test_a_clock_that_was_ahead_does_not_put_off_an_erasure(world: World) -> None:
    register(world, "visits")
    world.clock.advance(days=1000)
    world.curator.versions.cut_due()
    world.clock.advance(days=-1000)
    erase(world)
    for _ in range(3):
        cut(world)
    assert len(rows(world, "visits")) == 13


def test_the_service_may_do_all_that_a_cut_does(both: World) -> None:
    """With the rights of its group alone."""
    register(both, "visits")
    register(both, "ends", OTHERS)
    api = both.api()
    served = both.apps[-1].state.curator
    erase(both, "visits")
    add(both, "visits", MORE)
    both.curator.versions.retire("ends", actor="operator:test")
    both.clock.advance(days=31)
    assert "visits" in [found.name for found in served.versions.cut_due()]
    assert api.get("/v1/datasets/visits").json()["version"] == 2


def test_a_server_with_caches_releases_what_another_process_has_cut(tmp_path: Path, database_url: str | None) -> None:
    with open_world(tmp_path, url=database_url, noise=ZeroNoise()) as world:
        register(world, "visits")
        register(world, "without", OTHERS)
        api = world.api()
        fresh = body(fresh=True, **ASKED)
        first = api.post("/v1/datasets/visits/releases", json=fresh, key="1").json()["statistics"]
        erase(world, "visits")
        world.clock.advance(days=31)
        other = another_worker(world)
        other.versions.cut_due()
        other.database.dispose()
        second = api.post("/v1/datasets/visits/releases", json=fresh, key="2").json()["statistics"]
        model = api.post("/v1/datasets/without/releases", json=fresh, key="3").json()["statistics"]
        assert second == model != first


def test_nothing_is_released_from_rows_whose_cut_is_overdue(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """`subjects erase` said "from ... on"; a disk without room must not make that a lie. Of every dataset alike."""
    register(world, "visits")
    register(world, "without", OTHERS)
    api = world.api()
    before = {name: api.post(f"/v1/datasets/{name}/releases", json=body(**ASKED), key=name).content
              for name in ("visits", "without")}  # fmt: skip
    assert erase(world) == ["visits"]

    def fail(*_arguments: Any) -> Any:
        raise OSError(28, "No space left on device")

    fresh, spent = body(fresh=True, **ASKED), world.account().posted
    with monkeypatch.context() as patch:
        patch.setattr(versions, "rewrite", fail)
        cut(world)
    assert api.get("/v1/datasets/visits").json()["until"] == "2026-04-01T00:00:00Z"
    said = {problem(api.post(f"/v1/datasets/{name}/releases", json=fresh, key="k"), "busy", 503)["detail"]
            for name in before}  # fmt: skip
    assert len(said) == 1
    assert world.account().posted == spent
    for name, answer in before.items():  # what was released is served
        assert api.post(f"/v1/datasets/{name}/releases", json=body(**ASKED), key=name).content == answer
    world.curator.versions.cut_due()
    for name in before:
        assert api.post(f"/v1/datasets/{name}/releases", json=fresh, key=f"{name}-again").status_code == 201


@pytest.mark.parametrize("is_read", [False])
def test_the_log_of_the_database_is_emptied_when_nobody_reads_it_any_more(world: World, *, is_read: bool) -> None:
    register(world, "visits")
    reader = another_worker(world)
    before = {text for (text,) in world.sql("SELECT digest FROM snapshots")}
    with reader.database.snapshot() if is_read else nullcontext() as connection:  # an auditor verifies the ledger
        if connection is not None:
            repository.list_changes(connection)
        erase(world)
        cut(world)
    gone = before - {text for (text,) in world.sql("SELECT digest FROM snapshots")}
    assert gone
    reader.database.dispose()
    world.curator.versions.cut_due()
    content = stored_bytes(world)
    assert not any(text.encode() in content for text in gone)


def test_an_erasure_during_a_cut_is_carried_out_when_it_was_said_to_be(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(world, "visits")
    rewrite = versions.rewrite
    due: list[str] = []

    def erase_meanwhile(storage: Any, name: str, plan: Any, sketcher: Any) -> Any:
        written = rewrite(storage, name, plan, sketcher)
        if plan.manifest.name == "visits" and not due:
            due.append(world.curator.versions.erase("anna-canary", actor="operator:test")[0].due)
        return written

    monkeypatch.setattr(versions, "rewrite", erase_meanwhile)
    cut(world)
    world.curator.versions.cut_due()
    assert len(rows(world, "visits")) == 13 or due[0] > find(world, "visits").cut_at


def test_rows_without_a_subject_count_once_however_often_they_are_appended(world: World) -> None:
    """A row is a person there, whose sensitivity is that of one row."""
    people = make_rows(300, seed=99)
    world.register("ours", "town", people)
    before = gram(world, "ours")
    with pytest.raises(RegistrationError):  # noqa: PT012
        world.curator.versions.add_rows("ours", world.folder / "ours.csv", act=APPEND, actor="operator:test")
        cut(world)
        assert not np.array_equal(gram(world, "ours"), 2 * before)


# --- Exactness


def _final(history: list[tuple[str, str]], start: str) -> str:
    """The rows that are left, by a slow model: lines of text."""
    lines = start.splitlines()
    for act, content in history:
        if act == "replace":
            lines = content.splitlines()
        elif act == "append":
            lines += content.splitlines()
        else:
            lines = [line for line in lines if line.split(",")[0] != content]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_sequence_of_changes_is_one_registration_of_the_final_rows(
    tmp_path: Path, adjacency: Adjacency, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_READ_ROWS", 3)
    source = random.Random(seed)

    def draw(count: int) -> str:
        return "".join(
            f"p{source.randrange(6)},{source.choice(['2010', '2010', '2020', '2033'])},"
            f"{source.choice(['true', 'false', ''])},{source.choice(['', '1', '2.5', '20'])}\n"
            for _ in range(count)
        ).replace(",,\n", ",,1\n")

    with open_world(tmp_path, adjacency=adjacency) as world:
        start = "p0,2010,true,1\n" + draw(9).replace(",\n", ",3\n")
        register(world, "visits", start)
        history: list[tuple[str, str]] = []
        for step in range(6):
            for _ in range(source.randrange(4)):
                act = source.choice(["append", "append", "replace", "erase", "erase"])
                if act == "erase":
                    who = f"p{source.randrange(6)}"
                    world.curator.versions.erase(who, actor="operator:test", names=["visits"])
                    history.append((act, who))
                    continue
                text = draw(source.randrange(1, 4)).replace(",\n", ",3\n")
                try:
                    add(world, "visits", text, act)
                except IngestError:
                    continue
                history.append((act, text))
            cut(world)
            left = _final(history, start)
            if not left:
                assert rows(world, "visits") == []
                break
            register(world, f"model{step}", left)
            assert np.array_equal(gram(world, "visits"), gram(world, f"model{step}")), (step, history)
            assert rows(world, "visits") == rows(world, f"model{step}")
            if adjacency is Adjacency.ADD_REMOVE:
                storage = world.curator.datasets.storage
                ours, model = (storage.about(find(world, name).folder) for name in ("visits", f"model{step}"))
                assert ours.parts[0].digests == model.parts[0].digests
            else:
                mine, model = (
                    read_columns(world.curator.datasets.storage, find(world, name))
                    for name in ("visits", f"model{step}")
                )
                assert sorted(mine[MARK]).count(1) == sorted(model[MARK]).count(1)
