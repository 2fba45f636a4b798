"""Models equal migrations, on both databases, and a populated database goes down and up."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect
from support import World, body, open_world

from curator_service.db import Base, Database, migrations_dir


def test_models_equal_migrations(database_url: str | None, tmp_path: Path) -> None:
    database = Database(database_url or f"sqlite:///{tmp_path / 'curator.sqlite3'}")
    try:
        assert database.revisions()[0] is None
        database.upgrade()
        current, head = database.revisions()
        assert current == head
        with database.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, Base.metadata) == []
    finally:
        database.dispose()


def test_check_constraints_have_the_names_of_the_models(both: World) -> None:
    """Autogeneration does not compare them: a later migration that drops one by name would not find it."""
    with both.curator.database.engine.connect() as connection:
        checks = {check["name"] for check in inspect(connection).get_check_constraints("populations")}
    assert checks == {"ck_populations_within_limit", "ck_populations_amounts_not_negative"}


def test_upgrading_twice_changes_nothing(both: World) -> None:
    before = both.sql("SELECT * FROM ledger_entries ORDER BY population, sequence")
    both.curator.database.upgrade()
    assert both.sql("SELECT * FROM ledger_entries ORDER BY population, sequence") == before


def test_a_populated_database_goes_down_and_up(both: World) -> None:
    assert both.api().post("/v1/datasets/cohort/releases", json=body(), key="k").status_code == 201
    database = both.curator.database
    with database.engine.connect() as connection:
        config = Config()
        config.set_main_option("script_location", str(migrations_dir()))
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        connection.commit()
        assert set(inspect(connection).get_table_names()) <= {"alembic_version"}
    assert database.revisions()[0] is None
    database.upgrade()
    assert database.revisions()[0] == database.revisions()[1]
    assert both.sql("SELECT count(*) FROM ledger_entries") == [(0,)]


def test_the_embedded_database_is_durable(world: World) -> None:
    """Write-ahead log, full synchronisation, foreign keys: on every connection that writes."""
    with world.curator.database.begin() as connection:
        pragmas = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert pragmas == ["wal", 2, 1]


@pytest.mark.postgres
def test_postgresql_commits_are_durable(tmp_path: Path, postgres_url: str) -> None:
    with open_world(tmp_path, url=postgres_url) as world:
        assert world.sql("SHOW synchronous_commit") == [("on",)]
        assert world.sql("SHOW transaction_isolation") == [("read committed",)]


def test_an_embedded_unit_of_work_holds_the_write_lock_from_its_start(world: World) -> None:
    """What it reads cannot change under it, before it has written anything."""
    path = world.settings.data_dir / "curator.sqlite3"
    with world.curator.database.begin(), closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        assert other.execute("SELECT count(*) FROM populations").fetchone() == (2,)  # readers go on
