"""Commands that are given a wrong place: no folder becomes a curator by being looked at, and a start says why not."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import ForkProcess
from pathlib import Path
from tempfile import gettempdir
from typing import IO

import pytest
from forks import fork
from patience import scaled
from support import World
from typer.testing import CliRunner
from uvicorn import _subprocess

from curator_service.cli.main import app

READERS = [
    ["ledger", "verify"],
    ["ledger", "show", "town"],
    ["ledger", "register"],
    ["ledger", "status"],
    ["ledger", "begin-anchor"],
    ["populations", "list"],
    ["datasets", "list"],
    ["datasets", "cut"],
    ["permits", "list"],
    ["principals", "list"],
    ["tokens", "list"],
    ["proposals", "list"],
    ["spending"],
    ["keys", "list"],
    ["backup", "a.tar"],
    ["restore", "--reconcile"],
    ["doctor"],
]


def run(*words: str, **environment: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(words), env={"COLUMNS": "400", **environment})
    assert found.exception is None or isinstance(found.exception, SystemExit), repr(found.exception)
    return found.exit_code, " ".join((found.output + found.stderr).split())


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("place", ["nothing", "an empty folder", "an empty database"])
def test_what_reads_makes_no_curator_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    if place != "nothing":
        data.mkdir(mode=0o700)
    if place == "an empty database":
        (data / "curator.sqlite3").touch()
    before = sorted(tmp_path.rglob("*"))
    status, said = run(*words, CURATOR_DATA_DIR=str(data))
    assert sorted(tmp_path.rglob("*")) == before
    if words != ["doctor"]:
        assert status == 1
        assert f"there is no curator: the database (sqlite, {data}/curator.sqlite3) is not there." in said
        assert "Let CURATOR_DATA_DIR name the place of yours" in said


def test_a_database_s_address_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    status, said = run("ledger", "verify", CURATOR_DATABASE_URL=f"sqlite:///{tmp_path}/other.sqlite3")
    assert status == 1
    assert "Let CURATOR_DATABASE_URL name the place" in said


def test_the_doctor_names_the_database_and_not_its_password(world: World) -> None:
    found = {one["what"]: one for one in json.loads(run("doctor", "--json", **places(world))[1])}
    assert found["database"]["found"] == f"sqlite, {world.settings.data_dir}/curator.sqlite3"
    address = "postgresql://curator_app:swordfish@127.0.0.1:1/records?password=swordfish"
    status, said = run("doctor", "--json", CURATOR_DATABASE_URL=address, **places(world))
    assert status == 1
    assert "postgresql, records on 127.0.0.1" in said
    assert "swordfish" not in said


def test_the_doctor_is_red_about_a_mistyped_name(world: World) -> None:
    status, said = run("doctor", CURATOR_DATBASE_URL="postgresql://x", **places(world))
    assert status == 1
    assert "CURATOR_DATBASE_URL is no setting: did you mean CURATOR_DATABASE_URL?" in said


def places(world: World) -> dict[str, str]:
    return {"CURATOR_DATA_DIR": str(world.settings.data_dir)}


LARGE = ["populations", "create", "village", "--adjacency", "add_remove", "--epsilon", "1", "--delta", "0.1"]


def test_a_large_delta_is_opened_only_by_whoever_says_so(tmp_path: Path) -> None:
    place = {"CURATOR_DATA_DIR": str(tmp_path / "data")}
    status, said = run(*LARGE, **place)
    assert status == 1
    assert "a row may be published as it is, with a probability of up to 0.1" in said
    assert "--accept-large-delta" in said
    view = [*LARGE[:5], "--mu", "1", "--view-delta", "0.1"]
    assert run(*view, **place)[0] == 1
    assert run(*LARGE, "--accept-large-delta", **place)[0] == 0
    usual = ["populations", "create", "town", *LARGE[3:-1]]
    assert run(*usual, "1e-4", **place)[0] == 0


@dataclass
class Served:
    """A process that serves, in a session of its own, and the end of the pipe that it writes to."""

    process: ForkProcess | subprocess.Popen[bytes]
    said: IO[str]

    def end(self, how: signal.Signals) -> None:
        """Send a signal; a kill ends all of its processes, as where a machine stops."""
        assert self.process.pid is not None
        (os.killpg if how == signal.SIGKILL else os.kill)(self.process.pid, how)

    def wait(self) -> int | None:
        """Wait for its end; return how it ended."""
        if isinstance(self.process, subprocess.Popen):
            return self.process.wait(scaled(60))
        self.process.join(scaled(60))
        return self.process.exitcode


@contextmanager
def serve(port: int, folder: Path, *words: str, is_forked: bool = True) -> Iterator[Served]:
    """Serve, from a process that is forked, workers too, or from interpreters as an operator starts them."""
    changes = {"CURATOR_DATA_DIR": str(folder / "data"), "CURATOR_PACE": "1", "TMPDIR": str(folder)}
    given = ["serve", "--port", str(port), *words]
    reads, writes = os.pipe()
    process: ForkProcess | subprocess.Popen[bytes]
    if is_forked:
        process = fork(partial(_serve, given), changes, writes, writes)
    else:
        command = [sys.executable, "-m", "curator_service.cli.main", *given]
        process = subprocess.Popen(command, env=os.environ | changes, stderr=writes, start_new_session=True)
    os.close(writes)
    with open(reads, encoding="utf-8") as said:
        served = Served(process, said)
        yield served
        served.wait()


def _serve(words: list[str]) -> None:
    _subprocess.spawn = multiprocessing.get_context("fork")  # type: ignore[assignment]
    sys.argv = ["curator", *words]
    app()


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_is_taken_is_said_before_anything_is_made(tmp_path: Path, taken: int, workers: str) -> None:
    with serve(taken, tmp_path, "--workers", workers) as served:
        said = served.said.read()
        assert served.wait() == 1
    assert f"error: it cannot listen on 127.0.0.1, port {taken}: Address already in use" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "end", "is_forked"),
    [
        ("1", signal.SIGTERM, True),
        ("2", signal.SIGTERM, False),
        ("2", signal.SIGINT, True),
        ("2", signal.SIGKILL, True),
    ],
)
def test_a_server_leaves_no_folder_of_its_counters_behind(
    tmp_path: Path, workers: str, end: signal.Signals, is_forked: bool
) -> None:
    assert gettempdir() != str(tmp_path)
    # Nobody can clear up where it was killed: the next server does.
    for how in (end, signal.SIGTERM) if end == signal.SIGKILL else (end,):
        with serve(0, tmp_path, "--workers", workers, is_forked=is_forked) as served:
            said = [next(line for line in served.said if "startup complete" in line)]
            folders = list(tmp_path.glob("curator-metrics-*"))
            served.end(how)
            said += served.said
        assert len(folders) == int(workers != "1"), said
    assert list(tmp_path.glob("curator-metrics-*")) == []
