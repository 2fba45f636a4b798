"""The embedded database's file is replaced under a running server: nothing more is sold, and nothing is lost to it."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from deployments import ANALYSTS, Deployment, box, describe, slug
from patience import wait_for
from support import World

from curator_service.kit.db import Database, DatabaseReplaced
from curator_service.ledger.trust.guard import LedgerUnverified
from curator_service.privacy.accountant import Price

pytestmark = [pytest.mark.slow, pytest.mark.crashes]


def moved_over(file: Path, copy: Path) -> None:
    """As `mv backup.sqlite3 curator.sqlite3` does."""
    shutil.copy(file, copy)
    copy.replace(file)


def removed_and_copied(file: Path, copy: Path) -> None:
    """As `rm` and `cp` do."""
    shutil.copy(file, copy)
    file.unlink()
    shutil.copy(copy, file)


def moved_away(file: Path, copy: Path) -> None:
    """As `mv curator.sqlite3 old.sqlite3` does."""
    file.replace(copy)


def without_its_log(file: Path, copy: Path) -> None:
    """As `rm curator.sqlite3-*` does: what was committed last is in the log."""
    for end in ("-wal", "-shm"):
        file.with_name(file.name + end).unlink()


def with_another_log(file: Path, copy: Path) -> None:
    """As whoever opens the database makes one after that."""
    without_its_log(file, copy)
    for end in ("-wal", "-shm"):
        file.with_name(file.name + end).touch(0o600)


def without_its_index(file: Path, copy: Path) -> None:
    """As `rm curator.sqlite3-shm` does: whoever opens the database next has locks of his own."""
    file.with_name(file.name + "-shm").unlink()


def without_its_pages(file: Path, copy: Path) -> None:
    """As `rm curator.sqlite3-wal` does: whoever opens the database next begins a log of his own."""
    file.with_name(file.name + "-wal").unlink()


def overwritten(file: Path, copy: Path) -> None:
    """As `cp backup.sqlite3 curator.sqlite3` does, and `rm curator.sqlite3-*`: the file is the same one."""
    shutil.copy(file, copy)
    shutil.copy(copy, file)
    without_its_log(file, copy)


WAYS = [
    moved_over,
    removed_and_copied,
    moved_away,
    without_its_log,
    with_another_log,
    without_its_index,
    without_its_pages,
    overwritten,
]


@pytest.mark.parametrize("replace", WAYS, ids=lambda f: f.__name__)
def test_nothing_is_sold_into_a_file_without_a_name(
    embedded_doomed_town: Deployment, replace: Callable[[Path, Path], None]
) -> None:
    town = embedded_doomed_town
    path = f"{town.open_account('replaced')}/releases"
    server, file = town.serve(CURATOR_LEASE_S="3600"), town.world.settings.data_dir / "curator.sqlite3"
    with town.call(server) as caller:
        before = caller.post(path, box(), "before")
        assert before.status_code == 201
        replace(file, town.folder / "copy.sqlite3")
        for key in ("after-1", "after-2"):
            refused = caller.post(path, box(), key)
            assert slug(refused) == "ledger-unverified", describe(refused)
        ready = caller.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "sealed"})
        assert "was replaced, moved or removed" in server.process.text
        assert str(file) in server.process.text
    server.terminate()


def test_what_was_sold_is_stored_where_the_log_was_removed_and_the_server_killed(
    embedded_doomed_town: Deployment,
) -> None:
    town = embedded_doomed_town
    path = f"{town.open_account('replaced')}/releases"
    server, file = town.serve(CURATOR_LEASE_S="3600"), town.world.settings.data_dir / "curator.sqlite3"
    with town.call(server) as caller:
        without_its_log(file, town.folder / "copy")
        told = [caller.post(path, box(), f"after-{i}") for i in range(3)]
    server.kill()
    assert {slug(answer) for answer in told} == {"ledger-unverified"}


@pytest.mark.parametrize("servers", [1, 2])
def test_a_budget_is_not_overspent_where_the_log_was_removed(embedded_doomed_town: Deployment, servers: int) -> None:
    """Connections that are open go on in the old log, and new ones begin another: each would have its own budget."""
    town = embedded_doomed_town
    path = f"{town.open_account('replaced', Price(rho=0.5))}/releases"  # ten requests
    file = town.world.settings.data_dir / "curator.sqlite3"
    served = [town.serve(CURATOR_LEASE_S="3600") for _ in range(servers)]
    sold: set[str] = set()

    def buy(i: int) -> None:
        with town.call(served[i % servers], ANALYSTS[i % len(ANALYSTS)]) as caller:
            answer = caller.post(path, box(price={"rho": 0.05}), f"key-{i}")
            if answer.status_code == 201:
                sold.add(answer.json()["id"])

    for i in range(5):
        buy(i)
    assert len(sold) == 5
    without_its_log(file, town.folder / "copy")
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(buy, range(100, 180)))
    assert len(sold) == 5, f"{len(sold) - 5} answers left after the log was removed"


def test_whoever_asks_for_nothing_is_told_by_the_beat(embedded_doomed_town: Deployment) -> None:
    town = embedded_doomed_town
    town.open_account("replaced")
    server = town.serve()
    moved_over(town.world.settings.data_dir / "curator.sqlite3", town.folder / "copy.sqlite3")
    wait_for(lambda: "was replaced, moved or removed" in server.process.text, "the log says so")


def test_a_file_that_is_replaced_within_a_unit_of_work_gets_no_answer_out(world: World) -> None:
    """After the commit the file is looked at again, before anybody is told of what it holds."""
    database = world.curator.database
    file = world.settings.data_dir / "curator.sqlite3"
    with pytest.raises(DatabaseReplaced), database.begin():
        moved_over(file, world.folder / "copy.sqlite3")
    with pytest.raises(DatabaseReplaced), database.begin():
        pytest.fail("it went on")
    with pytest.raises(LedgerUnverified), world.curator.ledger.unit():
        pytest.fail("it went on")
    assert "was replaced" in world.curator.ledger.guard.reason()
    database.dispose()  # as if it was started again
    with world.curator.ledger.unit():
        pass


def test_a_log_that_is_removed_within_a_unit_of_work_gets_no_answer_out(world: World) -> None:
    database = world.curator.database
    with pytest.raises(DatabaseReplaced), database.begin():
        without_its_log(world.settings.data_dir / "curator.sqlite3", world.folder / "copy")


def test_no_new_connection_is_opened_on_another_file(world: World) -> None:
    """Whoever only reads looks at no file before: a connection that is new would read another database."""
    database = world.curator.database
    with database.read():
        pass
    moved_over(world.settings.data_dir / "curator.sqlite3", world.folder / "copy.sqlite3")
    database.engine.dispose()  # every connection of the pool is closed
    with pytest.raises(DatabaseReplaced), database.read():
        pytest.fail("it reads on")


def test_a_log_that_comes_and_goes_with_its_connections_is_no_replacement(world: World) -> None:
    """Checkpoints empty it; whoever else opens and closes the database leaves it; a restart begins another."""
    file = world.settings.data_dir / "curator.sqlite3"
    database, other = world.curator.database, Database(world.settings.url)
    for _ in range(3):
        for each in (database, other):
            with each.begin() as connection:
                connection.run("UPDATE workers SET beat = beat")
            each.forget_deleted()
            each.engine.dispose()  # every connection of the pool is closed
            each.check_file()
        with closing(sqlite3.connect(file)) as guest, closing(sqlite3.connect(":memory:")) as backup:
            guest.backup(backup)
        other.dispose()
        database.check_file()
    database.dispose()
    assert not file.with_name(file.name + "-wal").exists()
    for each in (other, database):
        with each.begin():
            pass
    other.dispose()
    database.check_file()


def test_the_same_file_under_the_same_name_is_no_replacement(world: World) -> None:
    file = world.settings.data_dir / "curator.sqlite3"
    os.utime(file)
    file.chmod(0o640)
    with world.curator.database.begin():
        pass
