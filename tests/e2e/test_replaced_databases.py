"""The embedded database's file is replaced under a running server: nothing more is sold, and nothing is lost to it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import wait_for
from support import World
from towns import Town, box, describe, slug

from curator_service.db import DatabaseReplaced
from curator_service.ledger.guard import LedgerUnverified

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("replace", [moved_over, removed_and_copied, moved_away], ids=lambda f: f.__name__)
def test_nothing_is_sold_into_a_file_without_a_name(
    embedded_doomed_town: Town, replace: Callable[[Path, Path], None]
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


def test_whoever_asks_for_nothing_is_told_by_the_beat(embedded_doomed_town: Town) -> None:
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


def test_the_same_file_under_the_same_name_is_no_replacement(world: World) -> None:
    file = world.settings.data_dir / "curator.sqlite3"
    os.utime(file)
    file.chmod(0o640)
    with world.curator.database.begin():
        pass
