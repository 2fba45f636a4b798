"""Memory of ledgers: whole, private, shared by threads and processes, and never silently forgotten."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from client_examples import FIRST, RELEASE_TEXT, SECOND, TOKEN, URL, Curator, Ledger, ask, released
from hypothesis import given
from hypothesis import strategies as st
from patience import scaled

from analyst_client import CuratorClient
from analyst_client.errors import LedgerForkedError, LedgerMemoryError
from analyst_client.ledger import Checkpoint
from analyst_client.ledger.files import default_memory_path
from analyst_client.ledger.history import ENTRIES_KEPT, LedgerHistory
from analyst_client.ledger.memory import Memory

KEYS = {FIRST.key_id: FIRST.raw}


def seen(*ledgers: Ledger) -> LedgerHistory:
    """Return what somebody remembers who saw the heads of ledgers."""
    state = LedgerHistory(keys=KEYS)
    for ledger in ledgers:
        state = state.with_checkpoint(Checkpoint.read(ledger.checkpoint))
    return state


def grown(ledger: Ledger, entries: int) -> list[Checkpoint]:
    checkpoints = []
    for _ in range(entries):
        ledger.post()
        checkpoints.append(Checkpoint.read(ledger.checkpoint))
    return checkpoints


def remember(memory: Memory, checkpoint: Checkpoint) -> None:
    memory.update(lambda state: state.with_keys(KEYS).with_checkpoint(checkpoint))


CHAIN = grown(Ledger(), 12)


# The value


@given(st.lists(st.sampled_from(CHAIN)), st.lists(st.sampled_from(CHAIN)))
def test_merging_is_the_same_in_either_order_and_the_highest_wins(
    ours: list[Checkpoint], others: list[Checkpoint]
) -> None:
    left = right = LedgerHistory()
    for checkpoint in ours:
        left = left.with_checkpoint(checkpoint)
    for checkpoint in others:
        right = right.with_checkpoint(checkpoint)
    merged = left.merged(right)
    assert merged == right.merged(left)
    assert merged.merged(left) == merged
    orders = [checkpoint.order for checkpoint in ours + others]
    assert [found.order for found in merged.highest.values()] == ([max(orders)] if orders else [])
    assert set(merged.seen.get("olmsted", {})) == set(orders)


@given(st.permutations(CHAIN))
def test_order_in_which_entries_are_seen_does_not_matter(order: list[Checkpoint]) -> None:
    state = LedgerHistory()
    for checkpoint in order:
        state = state.with_checkpoint(checkpoint)
    assert state.highest["olmsted"] == CHAIN[-1]
    assert len(state.seen["olmsted"]) == len(CHAIN)


def test_higher_epoch_is_higher_than_any_sequence() -> None:
    low, high = Ledger(100), Ledger(3, epoch=2)
    assert seen(high, low).highest["olmsted"].order == (2, 4)
    assert seen(low, high) == seen(high, low)


def test_another_entry_at_a_place_is_a_fork_and_both_are_named() -> None:
    ledger = Ledger()
    other = ledger.copy()
    ledger.post(actor="a"), other.post(actor="b")
    with pytest.raises(LedgerForkedError) as caught:
        seen(ledger, other)
    assert caught.value.remembered == Checkpoint.read(ledger.checkpoint)
    assert caught.value.received == Checkpoint.read(other.checkpoint)
    ledger.post()
    with pytest.raises(LedgerForkedError) as caught:
        seen(ledger, Ledger()).merged(seen(other))
    assert caught.value.remembered.entry_hash == seen(ledger, Ledger()).seen["olmsted"][1, 12]


def test_entry_that_does_not_follow_the_one_that_was_seen_before_is_a_fork() -> None:
    state = seen(Ledger())
    after = Ledger(12)
    after.post()
    checkpoint = Checkpoint.read(after.checkpoint)
    assert state.with_checkpoint(checkpoint).highest["olmsted"] == checkpoint
    with pytest.raises(LedgerForkedError) as caught:
        state.with_checkpoint(checkpoint, after.receipt["previous_hash"])
    assert caught.value.received == checkpoint
    assert state.with_checkpoint(checkpoint, Ledger().checkpoint["entry_hash"])


def test_first_entry_of_an_epoch_may_follow_another_entry() -> None:
    restored = Ledger(12, epoch=2)
    restored.post()
    assert seen(Ledger()).with_checkpoint(Checkpoint.read(restored.checkpoint), restored.receipt["previous_hash"])


def test_dataset_does_not_move_to_another_population() -> None:
    town = Ledger(population="town")
    state = seen(Ledger(), town)
    state = state.with_dataset("flchain", state.highest["olmsted"])
    with pytest.raises(LedgerForkedError, match="belonged to the population 'olmsted'"):
        state.with_dataset("flchain", state.highest["town"])


def test_as_many_entries_are_kept_as_are_needed() -> None:
    state = seen(Ledger(ENTRIES_KEPT + 4))
    for sequence in (*range(1, ENTRIES_KEPT + 5), 3):
        state = state.with_checkpoint(replace(CHAIN[0], sequence=sequence, entry_hash=f"{sequence:064x}"))
    assert len(state.seen["olmsted"]) == ENTRIES_KEPT
    assert min(state.seen["olmsted"]) == (1, 6)
    assert state.highest["olmsted"].sequence == ENTRIES_KEPT + 5
    assert LedgerHistory.from_json(state.to_json(URL).decode()) == state


def test_what_is_remembered_survives_its_text() -> None:
    state = seen(Ledger(), Ledger(40), Ledger(7, population="Sankt Pölten ☃", epoch=3))
    state = state.with_keys({SECOND.key_id: SECOND.raw}).with_dataset("flchain", state.highest["olmsted"])
    assert LedgerHistory.from_json(state.to_json(URL).decode()) == state


# The file


def test_memory_survives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "memory.json"
    memory = Memory(path, URL)
    assert not path.parent.exists()  # a client that only looks around leaves nothing behind
    remember(memory, CHAIN[0])
    assert Memory(path, URL).refresh() == memory.refresh() == seen(Ledger())


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_file_and_folder_are_private(state_folder: Path) -> None:
    memory = Memory("default", URL)
    remember(memory, CHAIN[0])
    assert memory.path.parent == state_folder / "dp-curator"
    assert memory.path.parent.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in memory.path.parent.iterdir()} == {0o600}
    assert sorted(path.name for path in memory.path.parent.iterdir()) == [memory.path.name, memory.path.name + ".lock"]


def test_each_curator_has_a_file_of_its_own_in_the_state_folder(
    state_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with CuratorClient(URL + "/", TOKEN) as client:
        path = client._session.trust.memory.path
    with CuratorClient(URL.upper().replace("HTTPS", "https"), TOKEN) as same:
        assert same._session.trust.memory.path == path
    with CuratorClient(URL + "/other", TOKEN) as other:
        assert other._session.trust.memory.path != path
    assert path.parent == state_folder / "dp-curator"
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    for unusable in ("", "relative/folder"):
        monkeypatch.setenv("XDG_STATE_HOME", unusable)
        assert default_memory_path(URL) == tmp_path / "home/.local/state/dp-curator" / path.name


def test_windows_keeps_it_with_the_users_local_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert default_memory_path(URL).parent == tmp_path / "local" / "dp-curator"
    monkeypatch.delenv("LOCALAPPDATA")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert default_memory_path(URL).parent == tmp_path / "AppData/Local/dp-curator"


def test_user_without_a_home_is_told_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(LedgerMemoryError, match="give memory="):
        CuratorClient(URL, TOKEN)


@pytest.mark.parametrize("place", ["memory.json", 3, b"path"])
def test_place_that_is_no_path_is_refused(place: Any) -> None:
    with pytest.raises(ValueError, match="memory must be"):
        CuratorClient(URL, TOKEN, memory=place)


def test_memory_never_holds_the_token(tmp_path: Path) -> None:
    with Curator(released(), Ledger().budget).client(memory=tmp_path / "memory.json") as client:
        ask(client)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes()
    assert json.loads((tmp_path / "memory.json").read_text())["curator"] == URL


def truncated(text: str) -> str:
    return text[: len(text) // 2]


def members_changed(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        members = json.loads(text)
        change(members)
        return json.dumps(members)

    return apply


DAMAGES: list[Callable[[str], str]] = [
    lambda _: "",
    lambda _: "null",
    lambda _: "[]",
    lambda _: "{}",
    truncated,
    lambda text: text + "}",
    lambda text: text.replace('"format"', '"format": 1, "format"'),
    members_changed(lambda members: members.update(format=2)),
    members_changed(lambda members: members.update(format=True)),
    members_changed(lambda members: members.pop("keys")),
    members_changed(lambda members: members.pop("datasets")),
    members_changed(lambda members: members.update(populations=[])),
    members_changed(lambda members: members["keys"].update({FIRST.key_id: SECOND.public_key})),
    members_changed(lambda members: members["keys"].update({FIRST.key_id: "AAAA"})),
    members_changed(lambda members: members["datasets"].update(cohort="unknown")),
    members_changed(lambda members: members["datasets"].update(cohort=["olmsted"])),
    members_changed(lambda members: members["populations"].update(town=members["populations"]["olmsted"])),
    members_changed(lambda members: members["populations"]["olmsted"].pop("checkpoint")),
    members_changed(lambda members: members["populations"]["olmsted"]["checkpoint"].update(sequence=13)),
    members_changed(lambda members: members["populations"]["olmsted"]["checkpoint"].update(signature="")),
    members_changed(lambda members: members["populations"]["olmsted"]["checkpoint"].update(posted="1")),
    members_changed(lambda members: members.update(keys={SECOND.key_id: SECOND.public_key})),
    members_changed(lambda members: members["populations"]["olmsted"].update(entries=[])),
    members_changed(lambda members: members["populations"]["olmsted"].update(entries=3)),
    members_changed(lambda members: members["populations"]["olmsted"]["entries"].append([1, 99, "0" * 64])),
    members_changed(lambda members: members["populations"]["olmsted"]["entries"].append([1, 2])),
    members_changed(lambda members: members["populations"]["olmsted"]["entries"].append([1, 2, "hash"])),
    members_changed(lambda members: members["populations"]["olmsted"]["entries"].append([1, 2.0, "0" * 64])),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=range(len(DAMAGES)))
def test_damaged_memory_is_refused_with_what_to_do_and_left_as_it_is(
    damage: Callable[[str], str], tmp_path: Path
) -> None:
    path = tmp_path / "memory.json"
    ask(Curator(released()).client(memory=path))
    path.write_text(damaged := damage(path.read_text()))
    with pytest.raises(LedgerMemoryError) as caught:
        CuratorClient(URL, TOKEN, memory=path)
    assert caught.value.path == path
    for word in (str(path), "damaged", "move it away", "copy"):
        assert word in str(caught.value)
    assert path.read_text() == damaged


def test_memory_that_is_damaged_while_a_client_lives_stops_it_before_it_pays(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    curator = Curator(released())
    client = curator.client(memory=path)
    ask(client)
    path.write_bytes(b"\xff")
    for call in (lambda: ask(client), lambda: client.budget("flchain"), client.datasets):
        with pytest.raises(LedgerMemoryError, match="damaged"):
            call()
    assert len(curator.requests) == 1


def test_memory_that_is_taken_away_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    ledger = Ledger()
    client = Curator(released(ledger.release()), ledger.budget).client(memory=path)
    ask(client)
    before = path.read_bytes()
    path.unlink()
    client.budget("flchain")
    assert path.read_bytes() == before


def test_folder_that_cannot_be_made_stops_the_client_before_it_pays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    curator = Curator()
    with pytest.raises(LedgerMemoryError, match=r"memory=None"):
        ask(curator.client(memory=tmp_path / "file" / "memory.json"))
    curator = Curator()
    client = curator.client(memory=tmp_path / "new" / "memory.json")
    (tmp_path / "new").write_text("")
    with pytest.raises(LedgerMemoryError, match=r"memory=None"):
        ask(client)
    assert curator.requests == []


def test_folder_that_turns_out_to_be_read_only_stops_the_client_before_it_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    curator = Curator(Ledger().budget)
    client = curator.client(memory=tmp_path / "new" / "memory.json")
    monkeypatch.setattr(Path, "mkdir", read_only)
    for call in (lambda: ask(client), lambda: client.reserve("flchain", mu=0.1, expires_in_s=60)):
        with pytest.raises(LedgerMemoryError, match=r"Permission denied.*memory=None"):
            call()
    assert curator.requests == []


def test_release_is_not_lost_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "memory.json"
    client = Curator(released()).client(memory=path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(LedgerMemoryError, match="No space left") as caught:
            ask(client, idempotency_key="mine")
    assert (caught.value.release.text, caught.value.idempotency_key) == (RELEASE_TEXT, "mine")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["memory.json.lock"]


def test_interrupted_write_leaves_the_older_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.json"
    memory = Memory(path, URL)
    remember(memory, CHAIN[0])
    before = path.read_bytes()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            remember(memory, CHAIN[1])
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == ["memory.json", "memory.json.lock"]
    remember(memory, CHAIN[1])
    assert Memory(path, URL).refresh().highest["olmsted"] == CHAIN[1]


# Several at once


def test_two_clients_of_one_file_learn_from_each_other(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    first, second = Memory(path, URL), Memory(path, URL)
    remember(first, CHAIN[3])
    remember(second, CHAIN[1])
    remember(first, CHAIN[2])
    for memory in (first, second):
        state = memory.refresh()
        assert state.highest["olmsted"] == CHAIN[3]
        assert sorted(state.seen["olmsted"]) == [CHAIN[i].order for i in (1, 2, 3)]


def test_client_finds_what_contradicts_another_client(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    ledger = Ledger()
    other = ledger.copy()
    ledger.post(actor="a"), other.post(actor="b")
    first, second = Memory(path, URL), Memory(path, URL)
    remember(first, Checkpoint.read(ledger.checkpoint))
    with pytest.raises(LedgerForkedError):
        remember(second, Checkpoint.read(other.checkpoint))
    assert second.refresh() == first.refresh() == seen(ledger)


def test_threads_lose_nothing() -> None:
    memory = Memory(None, URL)
    chain = grown(Ledger(), 80)

    def slowly(checkpoint: Checkpoint) -> None:
        def change(state: LedgerHistory) -> LedgerHistory:
            time.sleep(0.0005)  # others come between, if they can
            return state.with_checkpoint(checkpoint)

        memory.update(change)

    run([lambda part=i: [slowly(checkpoint) for checkpoint in chain[part::8]] for i in range(8)])
    assert set(memory.refresh().seen["olmsted"]) == {checkpoint.order for checkpoint in chain}


def test_clients_of_one_file_in_one_process_lose_nothing(tmp_path: Path) -> None:
    chain = grown(Ledger(), 40)
    memories = [Memory(tmp_path / "memory.json", URL) for _ in range(4)]
    run(
        [
            lambda part=i: [remember(memories[part], checkpoint) for checkpoint in chain[part::4]]
            for i in range(len(memories))
        ]
    )
    assert {len(memory.refresh().seen["olmsted"]) for memory in memories} == {len(chain)}


def run(tasks: list[Callable[[], object]]) -> None:
    failures: list[BaseException] = []

    def guarded(task: Callable[[], object]) -> None:
        try:
            task()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(scaled(60))
    assert failures == []


PROCESS = """
import sys
from pathlib import Path
from client_examples import URL, Ledger
from test_client_memory import grown, remember
from analyst_client.ledger.memory import Memory
memory = Memory(Path(sys.argv[1]), URL)
for checkpoint in grown(Ledger(), 40)[int(sys.argv[2])::3]:
    remember(memory, checkpoint)
"""


def test_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    here = Path(__file__)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(place) for place in (here.parent, here.parents[2]))}
    command = [sys.executable, "-c", PROCESS, str(path)]
    processes = [subprocess.Popen([*command, str(i)], env=environment) for i in range(3)]
    assert [process.wait(scaled(60)) for process in processes] == [0, 0, 0]
    assert len(Memory(path, URL).refresh().seen["olmsted"]) == 40
