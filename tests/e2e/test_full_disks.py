"""Disks that are full: nothing is charged without its answer, and no answer leaves before the anchor has moved."""

import base64
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from crowds import Crowd
from deployments import (
    ANALYSTS,
    AUDITOR,
    Caller,
    Deployment,
    Server,
    ball,
    box,
    describe,
    free_port,
    open_place,
    open_town,
    slug,
)
from patience import pause, scaled, wait_for
from planned_requests import (
    ASYNC,
    WISHES,
    PlannedRequest,
    box_release,
    close_reservations,
    disturb,
    read_steps,
    wait_for_end,
)
from process_factory import ROOT, ProcessFactory, clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.crashes]

LOAD_S = scaled(0.9)
DISK_BYTES = 16 << 20
Fullness = Callable[[Deployment, Server], "Disk"]


class Disk:
    """A disk that can be full for a while."""

    def fill(self) -> None:
        """Let nothing more be written."""
        raise NotImplementedError

    def free(self) -> None:
        """Let everything be written again."""
        raise NotImplementedError

    @contextmanager
    def full(self) -> Iterator[None]:
        self.fill()
        try:
            yield
        finally:
            self.free()


class LimitedFiles(Disk):
    """A process whose files can grow no further: the operating system cuts a write off in its middle."""

    def __init__(self, server: Server, file: Path) -> None:
        self._server, self._file = server, file

    def fill(self) -> None:
        """Set the limit just behind the end of the file."""
        self._limit(self._file.stat().st_size + 1500)

    def free(self) -> None:
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, soft: int) -> None:
        resource.prlimit(self._server.process.pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))


class SmallDisk(Disk):
    """A file system in memory, mounted for a test; only root may."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Write until the kernel refuses."""
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def free(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


DISKS = ["limit", *(["disk"] if os.geteuid() == 0 and shutil.which("mount") else [])]


@pytest.fixture(params=DISKS)
def on_disk(
    request: pytest.FixtureRequest, embedded_town: Deployment, process_factory: ProcessFactory, tmp_path: Path
) -> Iterator[tuple[Deployment, Callable[[Server], Disk]]]:
    """Return a town on the embedded database, and what makes the disk of a server of it full."""
    if request.param == "limit":
        file = Path(embedded_town.world.settings.url.removeprefix("sqlite:///") + "-wal")
        yield embedded_town, lambda server: LimitedFiles(server, file)
        return
    with (
        small_disk(tmp_path / "disk") as disk,
        open_place(disk.folder / "world", None) as world,
        open_town(world, process_factory, tmp_path) as town,
    ):
        yield town, lambda _: disk


def empty_log(town: Deployment) -> None:
    """Write the log back and cut it off: what is committed from then on makes it grow."""
    with closing(sqlite3.connect(town.world.settings.url.removeprefix("sqlite:///"))) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def test_an_embedded_database_on_a_full_disk_charges_nothing_and_goes_on_when_there_is_room(
    on_disk: tuple[Deployment, Callable[[Server], Disk]],
) -> None:
    town, disk_of = on_disk
    server = town.serve()
    with town.call(server) as caller:
        planned_requests = {maker.__name__: maker(town.open_account(maker.__name__), caller) for maker in WISHES}
        empty_log(town)
        stored = planned_requests["stored_answer"].insist(caller, 1)
        received: dict[str, httpx.Response | None] = {}
        with disk_of(server).full():
            for name, wish in planned_requests.items():
                answer = received[name] = wish.send(caller, 2)
                assert slug(answer) == "busy", f"{name}: {describe(answer)}"
                assert answer.headers["retry-after"] == "1"
                wish.check(town.look(name), 0, name)
            assert caller.get(f"/v1/releases/{stored.json()['id']}").content == stored.content
        for name, wish in planned_requests.items():
            wish.settle(caller, 2, received[name], name)
            wish.check(town.look(name), 1, name)
            close_reservations(town, caller, name)
    for name in planned_requests:
        town.settle(name)


def test_a_reservation_that_cannot_be_posted_on_a_full_disk_is_given_back_and_charged_once(
    on_disk: tuple[Deployment, Callable[[Server], Disk]],
) -> None:
    town, disk_of = on_disk
    path, server, trace = f"{town.open_account('full')}/releases", town.serve(), town.trace()
    with town.call(server) as caller:
        assert caller.insist(path, box(), "before").status_code == 201
        order = {"at": "after draw", "action": "sleep", "seconds": 0.3, "trace": str(trace)}
        assert caller.post(path, ball(), "the-key", order=order, headers=ASYNC).status_code == 202
        wait_for(lambda: "after draw" in trace.read_text(encoding="utf-8"), "it was drawn")
        with disk_of(server).full():
            wait_for_end(trace)
            assert town.look("full").pending > 0
        assert caller.insist(path, ball(), "the-key", headers=ASYNC).status_code == 201
    books = town.settle("full")
    assert (len(books.charges), len(books.of_kind("void"))) == (2, 1)


def test_a_disk_that_is_full_now_and_then_loses_no_charge_and_invents_none(
    on_disk: tuple[Deployment, Callable[[Server], Disk]],
) -> None:
    town, disk_of = on_disk
    path, server = town.open_account("full"), town.serve()
    crowd, end, disk = Crowd(town, [server], path, LOAD_S), time.monotonic() + LOAD_S, disk_of(server)
    wait_for(lambda: len(town.look("full").charges) > 4, "each of four waits for one answer: somebody was served")
    while time.monotonic() < end:
        with disk.full():
            pause(0.3)
        pause(0.1)
    sent, _ = crowd.settle(server, "full")
    assert any(submission.status == 503 for submission in sent), "nobody was disturbed"
    assert any(submission.status == 201 for submission in sent), "nobody was served"


# --- The anchor


def test_no_answer_leaves_before_the_anchor_is_written(town: Deployment) -> None:
    """What is bought while the anchor cannot be written leaves when it can."""
    with town.call(town.serve()) as caller:
        for maker in WISHES:
            name = maker.__name__
            wish: PlannedRequest = maker(town.open_account(name), caller)
            before = town.anchored(name)
            for _ in range(2):
                received, step = disturb(town, caller, wish, 1, "no space", "within anchor")
                if wish.headers or not wish.kind:  # a job's address leaves, and what was let out before
                    break
                assert step, name
                assert town.anchored(name) == before, "it was written"
                assert slug(received) == "busy", f"{name}: {describe(received)}"
                assert received.headers["retry-after"] == "1"
                wish.check(town.look(name), 1, name)
            answer = wish.settle(caller, 1, None, name)
            assert answer.json()["receipt"]["sequence"] <= town.anchored(name), name
            wish.check(town.look(name), 1, name)
            close_reservations(town, caller, name)
    for maker in WISHES:
        town.settle(maker.__name__)


def test_a_stored_release_is_not_read_before_the_anchor_is_written(town: Deployment) -> None:
    path = town.open_account("full")
    with town.call(town.serve()) as caller:
        received, _ = disturb(town, caller, box_release(path, caller), 1, "no space", "within anchor")
        assert received is not None
        assert slug(received) == "busy"
        (release,) = town.look("full").releases
        order = {"at": "within anchor", "action": "no space", "trace": str(town.trace())}
        assert slug(caller.get(f"/v1/releases/{release}", order=order)) == "busy"
        order["trace"] = str(town.trace())
        assert slug(caller.get(f"{path}/budget", order=order)) == "busy"
        assert town.anchored("full") < town.look("full").releases[release]
        read = caller.get(f"/v1/releases/{release}")
        assert read.status_code == 200
        assert town.anchored("full") >= read.json()["receipt"]["sequence"]
        assert box_release(path, caller).insist(caller, 1).content == read.content


def test_a_checkpoint_of_an_entry_that_the_anchor_lacks_does_not_let_its_answer_out(town: Deployment) -> None:
    path, server = town.open_account("full"), town.serve()
    members = ("entry_hash", "epoch", "key_id", "limit", "pending", "population", "posted", "sequence", "signature")
    with town.call(server) as caller, town.call(server, AUDITOR) as auditor:
        wish = box_release(path, caller)
        received, _ = disturb(town, caller, wish, 1, "no space", "within anchor")
        assert received is not None
        assert slug(received) == "busy"
        entry = auditor.get(f"/v1/ledger/{town.full('full')}").json()["entries"][-1]
        text = json.dumps({name: entry[name] for name in members}, sort_keys=True, separators=(",", ":"))
        seen = {"Curator-Checkpoint": base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")}
        order = {"at": "within anchor", "action": "no space", "trace": str(town.trace())}
        answer = caller.post(wish.path, wish.content(1), wish.key(1), order=order, headers=seen)
        assert slug(answer) == "busy" or town.anchored("full") >= entry["sequence"], describe(answer)


def test_a_line_that_a_full_disk_cuts_off_does_not_keep_another_server_from_going_on(town: Deployment) -> None:
    first, second = town.serve(), town.serve()
    paths = [f"{town.open_account(name)}/releases" for name in ("a", "b", "c", "the_one_with_a_longer_line")]

    def ask(caller: Caller, path: str, **order: Any) -> httpx.Response:
        return caller.post(path, box(), "the-key", order={"at": "within anchor", **order})

    with (
        town.call(first) as one,
        town.call(first, ANALYSTS[1]) as two,
        town.call(first, ANALYSTS[2]) as three,
        town.call(second, ANALYSTS[3]) as other,
        ThreadPoolExecutor(3) as pool,
    ):
        traces = [town.trace() for _ in range(3)]
        writing = pool.submit(ask, one, paths[0], action="sleep", seconds=0.4, trace=str(traces[0]))
        wait_for(lambda: is_struck(traces[0]), "the anchor is being written")
        waiting = [
            pool.submit(ask, caller, path, action="cut", seconds=0.3, trace=str(trace))
            for caller, path, trace in zip((two, three), paths[1:], traces[1:], strict=False)
        ]
        wait_for(lambda: any(map(is_struck, traces[1:])), "of two lines the first one is written")
        assert other.insist(paths[3], box(), "one-key").status_code == 201
        assert writing.result(scaled(10)).status_code == 201
        assert {slug(answer.result(scaled(10))) for answer in waiting} == {"busy"}
        for key in ("another-key", "a-third-key"):
            assert other.insist(paths[3], box(), key, within_s=1.5).status_code == 201
        assert two.insist(paths[1], box(), "the-key").status_code == 201
        assert three.insist(paths[2], box(), "the-key").status_code == 201
    town.audit("the_one_with_a_longer_line")


def is_struck(trace: Path) -> bool:
    """Return whether a request has come to the step that was ordered."""
    return any(line.endswith(" struck") for line in read_steps(trace))


@pytest.mark.skipif("disk" not in DISKS, reason="only root may mount a small disk")
def test_an_anchor_on_a_full_disk_keeps_answers_in_until_there_is_room(town: Deployment, tmp_path: Path) -> None:
    path = f"{town.open_account('full')}/releases"
    with small_disk(tmp_path / "anchor") as disk:
        elsewhere = {"CURATOR_ANCHOR_DIR": str(disk.folder)}
        town.run("ledger", "begin-anchor", **elsewhere)
        server = town.serve(**elsewhere)
        with town.call(server) as caller:
            with disk.full():
                bought: list[httpx.Response] = []
                while len(bought) < 50 and (not bought or bought[-1].status_code == 201):  # its last block has room
                    bought.append(caller.post(path, box(), f"key-{len(bought)}"))
                *answered, kept_in = bought
                assert slug(kept_in) == "busy", describe(kept_in)
                assert slug(caller.post(path, box(), f"key-{len(answered)}")) == "busy"
                assert len(town.look("full").charges) == len(bought)
            for i, answer in enumerate(answered):
                assert caller.insist(path, box(), f"key-{i}").content == answer.content
            assert caller.insist(path, box(), f"key-{len(answered)}").status_code == 201
        server.terminate()
        lines = (disk.folder / "checkpoints").read_bytes().split(b"\n")
        assert lines[-1] == b""
        anchored = [json.loads(line) for line in lines[:-1]]  # no half line is left
        assert town.look("full").entries[-1]["sequence"] in {line["sequence"] for line in anchored}
        server.start()
        server.terminate()
    assert len(town.audit("full").charges) == len(bought)


# --- The table of open files


def test_a_curator_that_runs_out_of_file_descriptors_goes_on_when_there_are_some(town: Deployment) -> None:
    path, server, keys = f"{town.open_account('few')}/releases", town.serve(), [f"key-{i}" for i in range(8)]
    pid = server.process.pid
    with town.call(server) as caller:
        assert caller.insist(path, box(), "before").status_code == 201
        in_use = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        for i, key in enumerate(keys):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use - 3 + i, 4096))
            answer = caller.post(path, box(), key)
            assert answer.status_code == 201 or slug(answer) == "busy", describe(answer)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (4096, 4096))
        for key in keys:
            assert caller.insist(path, box(), key).status_code == 201
    assert len(town.settle("few").charges) == 1 + len(keys)


# --- The log


def test_a_curator_that_cannot_write_its_log_goes_on(town: Deployment) -> None:
    path, full = town.open_account("mute"), Path("/dev/full")
    server = town.serve_to(full, "info")
    with town.call(server) as caller:
        for maker in WISHES[:3]:
            wish = maker(path, caller)
            for i, at in enumerate(("before begin", "before commit", "after commit"), start=1):
                received, step = disturb(town, caller, wish, 10 * WISHES.index(maker) + i, "lose", at)
                assert step
                wish.settle(caller, 10 * WISHES.index(maker) + i, received, step)
    assert len(town.settle("mute").charges) == 9
    server.process.signal(15)
    server.process.wait()


def test_a_curator_whose_standard_streams_are_full_starts_serves_and_ends(embedded_town: Deployment) -> None:
    town, path, port = embedded_town, embedded_town.open_account("mute"), free_port()
    command = [sys.executable, "-m", "curator_service.cli.main", "serve", "--port", str(port)]
    with Path("/dev/full").open("wb") as full:
        process = subprocess.Popen(
            command, cwd=ROOT, env=clean_environment() | town.environment, stdout=full, stderr=full
        )
    try:
        with Caller(f"http://127.0.0.1:{port}", next(iter(town.tokens.values()))) as caller:
            wait_for(lambda: process.poll() is not None or answers(caller), "it serves", 30)
        with Caller(f"http://127.0.0.1:{port}", town.tokens["analyst-0"]) as caller:
            for content in (box(), ball(), box(price={"mu": -1})):
                answer = caller.insist(f"{path}/releases", content, f"key-{content['rows']['map']}")
                assert answer.status_code == (422 if content["price"]["mu"] < 0 else 201), describe(answer)
        process.terminate()
        process.wait(scaled(20))
    finally:
        process.kill()
        process.wait(scaled(5))
    assert len(town.audit("mute").charges) == 2


def answers(caller: Caller) -> bool:
    try:
        return caller.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False
