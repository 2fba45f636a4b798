"""Red tests: files that are replaced or removed under a running server."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from towns import ANALYSTS, Town, ball, box, describe

from curator_service.privacy.accountant import Price

pytestmark = pytest.mark.slow


def test_nothing_is_sold_into_a_log_without_a_name(embedded_doomed_town: Town) -> None:
    """The write-ahead log holds what was committed last. Where it was removed, a commit is gone with the process."""
    town = embedded_doomed_town
    path = f"{town.open_account('replaced')}/releases"
    server, file = town.serve(CURATOR_LEASE_S="3600"), town.world.settings.data_dir / "curator.sqlite3"
    with town.call(server) as caller:
        assert caller.post(path, box(), "before").status_code == 201
        for end in ("-wal", "-shm"):
            Path(f"{file}{end}").unlink()
        told = [caller.post(path, box(), f"after-{i}") for i in range(3)]
        ready = caller.get("/readyz")
    server.kill()
    sold, stored = 1 + sum(answer.status_code == 201 for answer in told), len(town.look("replaced").charges)
    assert sold <= max(stored, 1), f"{sold} answers left, {stored} charges are stored, and it was {ready.json()}"


@pytest.mark.parametrize("servers", [1, 2])
def test_a_budget_is_not_overspent_where_the_log_was_removed(embedded_doomed_town: Town, servers: int) -> None:
    """Connections that are open go on in the old log, and new ones begin another: each has a budget of its own."""
    town = embedded_doomed_town
    path = f"{town.open_account('replaced', Price(rho=0.5))}/releases"  # ten requests
    file = town.world.settings.data_dir / "curator.sqlite3"
    served = [town.serve(CURATOR_LEASE_S="3600") for _ in range(servers)]
    sold: dict[str, str] = {}

    def buy(i: int) -> None:
        with town.call(served[i % servers], ANALYSTS[i % 8]) as caller:
            answer = caller.post(path, box(price={"rho": 0.05}), f"key-{i}")
            if answer.status_code == 201:
                sold[f"key-{i}"] = answer.json()["id"]

    for i in range(5):
        buy(i * servers)
    for end in ("-wal", "-shm"):
        Path(f"{file}{end}").unlink()
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(buy, range(100, 180)))
    print(len(sold), [s.process.text[-400:] for s in served])
    assert len(sold) <= 10, f"{len(sold)} answers left of a budget for ten"


def test_a_file_that_is_overwritten_in_place_is_noticed(embedded_doomed_town: Town) -> None:
    """As `cp backup.sqlite3 curator.sqlite3` does: the file is the same one, with another content."""
    town = embedded_doomed_town
    path = f"{town.open_account('replaced')}/releases"
    file = town.world.settings.data_dir / "curator.sqlite3"
    town.world.curator.database.dispose()
    shutil.copy(file, town.folder / "old")
    server = town.serve(CURATOR_LEASE_S="3600")
    with town.call(server) as caller:
        for i in range(3):
            assert caller.post(path, box(), f"before-{i}").status_code == 201
        shutil.copy(town.folder / "old", file)
        for end in ("-wal", "-shm"):
            p = Path(f"{file}{end}")
            if p.exists():
                p.unlink()
        told = [caller.post(path, box(), f"after-{i}") for i in range(3)]
        ready = caller.get("/readyz")
    print([describe(t)[:150] for t in told], ready.text, server.process.text[-500:])
    assert {t.status_code for t in told} == {503}, [describe(t)[:100] for t in told]


def test_the_anchors_folder_is_copied_under_two_servers_and_no_job_of_a_living_one_is_given_up(
    embedded_doomed_town: Town,
) -> None:
    """As an operator does who moves the anchor to another disk: copies of the locks' files are locked by nobody."""
    town = embedded_doomed_town
    path = f"{town.open_account('lively')}/releases"
    one, other = town.serve(CURATOR_LEASE_S="3"), town.serve(CURATOR_LEASE_S="3")
    anchor = town.world.settings.anchor_folder
    copy = anchor.with_name("copy")
    shutil.copytree(anchor, copy)
    with town.call(one) as caller:
        order = {"at": "before draw", "action": "sleep", "seconds": 2.5, "trace": str(town.trace())}
        told = []
        worker = threading.Thread(target=lambda: told.append(caller.post(path, ball(), "the-key", order=order)))
        worker.start()
        time.sleep(0.3)
        anchor.rename(anchor.with_name("old"))
        copy.rename(anchor)
        worker.join()
    assert told[0].status_code == 201, describe(told[0])
    assert town.look("lively").of_kind("void") == []


def test_a_server_ends_in_order_where_its_anchor_cannot_be_read(embedded_doomed_town: Town) -> None:
    """`Workshop.stop` catches what the database raises, and not the `Problem` that a unit of work makes of the rest."""
    town = embedded_doomed_town
    path = f"{town.open_account('stopped', row_capacity=20_000_000)}/releases"
    server, anchor = town.serve(CURATOR_LEASE_S="3600"), town.world.settings.anchor_folder
    with town.call(server) as caller:
        assert caller.post(path, ball(), "the-key").status_code == 202
    (anchor / "checkpoints").rename(anchor / "aside")
    (anchor / "checkpoints").mkdir()
    server.terminate()
    assert "Traceback" not in server.process.text
