"""Locks that tell whether a process of this machine lives."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from curator_service.kit.files import lock
from curator_service.releases import presence
from curator_service.releases.presence import Presence

ANNOUNCE = """
import sys
from pathlib import Path
from curator_service.releases.presence import Presence
print(Presence(Path(sys.argv[1])).announce(sys.argv[2]), flush=True)
sys.stdin.read()
"""
ROOT = Path(__file__).parents[3]


@contextmanager
def process(folder: Path, worker: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process that has announced itself; kill it at the end."""
    command = [sys.executable, "-c", ANNOUNCE, str(folder), worker]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        assert child.stdout.readline() == "True\n"
        yield child
    finally:
        child.kill()
        child.wait(30)
        child.stdout.close()
        child.stdin.close()


def test_a_process_is_dead_when_it_was_killed_and_not_before(tmp_path: Path) -> None:
    here = Presence(tmp_path / "workers")
    with process(tmp_path / "workers", "wrk_a1"):
        assert not here.is_dead("wrk_a1")
        assert not here.is_dead("wrk_a1", forget=True)
        assert here.list_known() == ["wrk_a1"]
    assert here.is_dead("wrk_a1")
    assert here.is_dead("wrk_a1", forget=True)
    assert here.list_known() == []
    assert not here.is_dead("wrk_a1")  # nothing is known of it any more


def test_the_own_process_is_alive_until_it_leaves(tmp_path: Path) -> None:
    own = Presence(tmp_path)
    assert own.announce("wrk_a1")
    assert not own.is_dead("wrk_a1", forget=True)
    own.leave("wrk_a1", forget=False)
    own.leave("wrk_a1", forget=True)
    assert own.is_dead("wrk_a1", forget=True)
    assert own.announce("wrk_a2")
    own.leave("wrk_a2", forget=True)
    assert own.list_known() == []


@pytest.mark.parametrize("worker", ["", ".", "..", "../x", "wrk_", "wrk_a1/../../x", "wrk_a1\n"])
def test_a_name_that_is_none_names_no_file(tmp_path: Path, worker: str) -> None:
    (tmp_path / "x").touch()
    here = Presence(tmp_path / "workers")
    assert here.announce("wrk_a1")
    assert not here.is_dead(worker, forget=True)
    assert (tmp_path / "x").exists()


def test_of_another_boot_or_machine_nothing_is_concluded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Presence(tmp_path)
    with process(tmp_path, "wrk_a1"):
        pass
    assert before.is_dead("wrk_a1")
    (tmp_path / "boot_id").write_text("another\n", encoding="ascii")
    monkeypatch.setattr(presence, "_BOOT_ID", tmp_path / "boot_id")
    assert not Presence(tmp_path).is_dead("wrk_a1")
    assert Presence(tmp_path).list_known() == []
    monkeypatch.setattr(presence, "_BOOT_ID", tmp_path / "nothing")
    assert not Presence(tmp_path).announce("wrk_a2")
    assert not Presence(tmp_path).is_dead("wrk_a1")


def test_of_the_copy_of_a_lock_nothing_is_concluded(tmp_path: Path) -> None:
    folder, old = tmp_path / "workers", tmp_path / "old"
    here = Presence(folder)
    with process(folder, "wrk_a1"):
        folder.rename(old)
        shutil.copytree(old, folder)
        assert here.list_known() == ["wrk_a1"]
        assert not here.is_dead("wrk_a1", forget=True)
    assert not here.is_dead("wrk_a1")
    assert Presence(old).is_dead("wrk_a1")


def test_a_folder_that_cannot_be_written_leaves_the_lease(tmp_path: Path) -> None:
    (tmp_path / "workers").touch()
    assert not Presence(tmp_path / "workers").announce("wrk_a1")


def test_a_file_that_is_forgotten_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of a file and its lock it is locked by nobody, and does not say yet which one it is."""
    here, other, opened = Presence(tmp_path), Presence(tmp_path), os.open
    interfered = []

    def slow_open(path: Path, flags: int, mode: int = 0o600) -> int:
        descriptor = opened(path, flags, mode)
        if flags & os.O_CREAT and not interfered:
            interfered.append(path)
            assert not other.is_dead("wrk_a1", forget=True)
            path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", slow_open)
    assert here.announce("wrk_a1")
    assert interfered
    assert here.list_known() == ["wrk_a1"]
    assert not other.is_dead("wrk_a1")
    here.leave("wrk_a1", forget=True)


def other_boot(folder: Path, name: str = "0" * 8 + "-0000" * 3 + "-" + "0" * 12) -> Path:
    """Return the folder of another boot."""
    other = folder / name
    other.mkdir()
    return other


def test_what_processes_of_earlier_boots_left_is_swept(tmp_path: Path) -> None:
    here, earlier = Presence(tmp_path), other_boot(tmp_path)
    (earlier / "wrk_a1").touch()
    (earlier / "wrk_a2").touch()
    with process(tmp_path, "wrk_a1"):
        pass
    assert here.announce("wrk_a3")
    here.sweep()
    assert not earlier.exists()
    assert sorted(here.list_known()) == ["wrk_a1", "wrk_a3"]  # of this boot it is told whether they are dead
    assert here.is_dead("wrk_a1")
    here.leave("wrk_a1", forget=True)


def test_what_is_locked_or_of_somebody_else_is_not_swept(tmp_path: Path) -> None:
    """A folder that two machines share holds locks of processes that live, and of other boots."""
    here, shared, foreign = Presence(tmp_path), other_boot(tmp_path), other_boot(tmp_path, "notes")
    for file in (shared / "wrk_a1", shared / "wrk_a2", foreign / "wrk_a1", tmp_path / "wrk_a1"):
        file.touch()
    held = lock(shared / "wrk_a1")
    assert held is not None
    here.sweep()
    assert [file.name for file in shared.iterdir()] == ["wrk_a1"]
    os.close(held)
    (shared / "notes").touch()
    here.sweep()
    assert [file.name for file in shared.iterdir()] == ["notes"]
    assert (foreign / "wrk_a1").exists()
    assert (tmp_path / "wrk_a1").exists()


@pytest.mark.parametrize("step", ["before it is opened", "before it is locked"])
def test_a_process_whose_folder_is_swept_while_it_announces_itself_makes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    (tmp_path / "boot_id").write_text("0" * 8 + "-0000" * 3 + "-" + "0" * 12 + "\n", encoding="ascii")
    here, there, opened = Presence(tmp_path / "workers"), Presence(tmp_path / "workers"), os.open
    own_id, other_id = tmp_path / "boot_id", presence._BOOT_ID
    monkeypatch.setattr(presence, "_BOOT_ID", own_id)
    swept = []

    def interfere() -> None:
        swept.append(here.folder)
        monkeypatch.setattr(presence, "_BOOT_ID", other_id)
        there.sweep()
        monkeypatch.setattr(presence, "_BOOT_ID", own_id)

    def slow_open(path: Path, flags: int, mode: int = 0o600) -> int:
        is_first = flags & os.O_CREAT and not swept
        if is_first and step == "before it is opened":
            interfere()
        descriptor = opened(path, flags, mode)
        if is_first and step == "before it is locked":
            interfere()
        return descriptor

    monkeypatch.setattr(os, "open", slow_open)
    assert here.announce("wrk_a1")
    assert swept
    assert here.list_known() == ["wrk_a1"]
    here.leave("wrk_a1", forget=True)


def test_a_name_that_is_given_anew_while_it_is_swept_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, opened = other_boot(tmp_path), os.open
    path, held = shared / "wrk_a1", []
    path.touch()

    def slow_open(file: Path, flags: int, mode: int = 0o600) -> int:
        descriptor = opened(file, flags, mode)
        if not held:
            held.append(descriptor)
            path.unlink()
            held.append(lock(path, os.O_CREAT) or 0)
        return descriptor

    monkeypatch.setattr(os, "open", slow_open)
    Presence(tmp_path).sweep()
    assert path.exists()
    os.close(held[1])


def test_sweeping_fails_for_nobody(tmp_path: Path) -> None:
    Presence(tmp_path / "nothing").sweep()
    (tmp_path / "workers").touch()
    Presence(tmp_path / "workers").sweep()
