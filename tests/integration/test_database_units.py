"""Units of work and readings: what waits for what, and what a server's defaults cannot weaken."""

import errno
import os
import threading

import psycopg
import pytest
from sqlalchemy import text
from support import World

from curator_service.kit.db import DATABASE_ERRORS, Database, Statement
from curator_service.ledger import repository


def test_a_unit_of_work_within_another_is_refused(both: World) -> None:
    database = both.curator.database
    with database.begin(), pytest.raises(RuntimeError, match="within another"), database.begin():
        pass
    with database.begin() as connection:
        assert repository.find_population(connection, "town") is not None


def test_a_writer_that_waits_holds_no_reader(both: World) -> None:
    """Buyers in line for one account must not starve whoever only reads."""
    database = both.curator.database
    with database.shared_read():
        with database.read() as connection:
            assert repository.find_population(connection, "town") is not None
        assert database._read_by.pool.checkedout() == 1
        with database.begin():
            assert sum(engine.pool.checkedout() for engine in {database._writer, database._read_by}) == 1
        with database.read() as connection:
            assert repository.find_population(connection, "town") is not None
    assert database._read_by.pool.checkedout() == 0


def test_a_sitting_sees_what_others_commit_in_the_meantime(both: World) -> None:
    database = both.curator.database

    def charge() -> None:
        with database.begin() as connection:
            assert repository.move(connection, "town", posted=1, pending=0) is not None

    with database.shared_read():
        with database.read() as connection:
            before = repository.find_population(connection, "town")
        thread = threading.Thread(target=charge)
        thread.start()
        thread.join()
        with database.read() as connection:
            after = repository.find_population(connection, "town")
    assert after.posted == before.posted + 1


def test_what_ends_a_snapshot_is_told_and_its_connection_is_as_others_are(both: World) -> None:
    """A disk's failure ends the transaction too: there is nothing to undo then, and nothing else to tell."""
    database = both.curator.database
    reading = database.snapshot()
    reading.__enter__().run("ROLLBACK")
    failure = ValueError("of a disk")
    assert not reading.__exit__(ValueError, failure, None)
    with database.snapshot() as connection:
        assert repository.find_population(connection, "town") is not None
    with database.begin() as connection:
        assert repository.move(connection, "town", posted=1, pending=0) is not None


@pytest.mark.postgres
@pytest.mark.parametrize("way", ["begin", "read"])
def test_a_connection_that_the_system_refuses_is_an_error_of_the_database(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def wait(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    database = Database(empty_postgres_url)
    with monkeypatch.context() as broken:
        broken.setattr(psycopg.waiting, "wait_conn", wait)
        with pytest.raises(DATABASE_ERRORS), getattr(database, way)():
            pass
    with getattr(database, way)() as connection:
        assert Statement(text("SELECT 1")).first(connection) == (1,)
    database.dispose()


@pytest.mark.postgres
def test_the_defaults_of_the_server_cannot_weaken_a_commit(empty_postgres_url: str) -> None:
    admin = Database(empty_postgres_url)
    name = admin.url.database
    with admin.begin() as connection:
        connection.run(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
        connection.run(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'serializable'")
    admin.dispose()
    database = Database(empty_postgres_url)
    with database.begin() as connection:
        assert Statement(text("SHOW synchronous_commit")).first(connection) == ("on",)
        assert Statement(text("SHOW transaction_isolation")).first(connection) == ("read committed",)
    database.dispose()
