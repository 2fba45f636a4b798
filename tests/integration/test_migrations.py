"""Models equal migrations, on both databases, and a populated database goes down and up."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from schemas import describe_schema
from sqlalchemy import CheckConstraint, inspect
from support import World, open_world

from curator_service.kit.db import Base, Database, SchemaError
from curator_service.releases.models import CHUNK

RELEASES = "/v1/datasets/cohort/releases"


def test_models_equal_migrations(empty_database_url: str | None, tmp_path: Path) -> None:
    database = Database(empty_database_url or f"sqlite:///{tmp_path / 'curator.sqlite3'}")
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


def test_tables_rules_and_rights_are_those_of_the_record(both: World) -> None:
    """What the service may not do, and what nobody may, stands in triggers and grants, which no model has."""
    database = both.curator.database
    record = Path(__file__).parents[1] / "golden" / f"schema-{database.engine.dialect.name}.json"
    with database.engine.connect() as connection:
        assert describe_schema(connection) == json.loads(record.read_text(encoding="utf-8"))


def test_a_schema_that_this_version_does_not_know_is_refused_and_left_as_it_is(both: World) -> None:
    both.sql("UPDATE alembic_version SET version_num = '9999'")
    for act in (both.curator.database.upgrade, both.curator.database.check_schema):
        with pytest.raises(SchemaError, match=r"9999, is that of another version.* restore a backup"):
            act()
    assert both.sql("SELECT version_num FROM alembic_version") == [("9999",)]


def test_check_constraints_have_the_names_of_the_models(both: World) -> None:
    """Autogeneration does not compare them: a later migration that drops one by name would not find it."""
    expected = {
        table.name: {str(c.name) for c in table.constraints if isinstance(c, CheckConstraint)}
        for table in Base.metadata.tables.values()
    }
    with both.curator.database.engine.connect() as connection:
        look = inspect(connection)
        found = {name: {str(check["name"]) for check in look.get_check_constraints(name)} for name in expected}
    assert found == expected
    assert expected["populations"] == {"ck_populations_within_limit", "ck_populations_amounts_not_negative"}
    assert expected["shares"] == {"ck_shares_within_limit", "ck_shares_amounts_not_negative"}
    assert expected["reservations"] == {"ck_reservations_drawn_within"}
    assert expected["column_holders"] == {"ck_column_holders_digits"}


def test_a_chunk_of_the_tables_is_a_chunk_of_the_models(both: World) -> None:
    """Longer bits, or none, would hide releases: on PostgreSQL the trigger compares as many as a chunk has."""
    digits = CHUNK // 4
    is_embedded = both.curator.database.is_sqlite
    insert = "INSERT INTO column_holders (collection, kind, name, chunk, bits) VALUES ('c', 'k', 'n'"
    both.sql(f"{insert}, 0, '8{'0' * (digits - 1)}')")
    for bits in (f"1{'0' * digits}", "", *(() if is_embedded else ("0x1", "-1", "F", "1 ", "1_1", "1\n"))):
        for act in (
            f"{insert}, 1, '{bits}')",
            f"UPDATE column_holders SET bits = '{bits}'",
        ):
            with pytest.raises(Exception, match=r"(?i)check|only grows|hexadecimal"):
                both.sql(act)
    if not is_embedded:
        with pytest.raises(Exception, match="only grows"):
            both.sql(f"UPDATE column_holders SET bits = '7{'f' * (digits - 1)}'")
    both.sql(f"UPDATE column_holders SET bits = '{'f' * digits}'")


def test_whatever_refers_to_a_row_is_found_without_reading_its_table(both: World) -> None:
    """A key is written before its answer: the embedded database then looks for it when the answer is inserted."""
    with both.curator.database.engine.connect() as connection:
        look, bare = inspect(connection), []
        for table in look.get_table_names():
            known = [index["column_names"] for index in look.get_indexes(table)]
            known += [unique["column_names"] for unique in look.get_unique_constraints(table)]
            known.append(look.get_pk_constraint(table)["constrained_columns"])
            for key in look.get_foreign_keys(table):
                columns = key["constrained_columns"]
                grows = key["referred_table"] in {"releases", "ledger_entries", "reservations"}
                if grows and not any(index[: len(columns)] == columns for index in known):
                    bare.append((table, *columns))
    assert bare == []


def test_upgrading_twice_changes_nothing(both: World) -> None:
    before = both.sql("SELECT * FROM ledger_entries ORDER BY population, sequence")
    both.curator.database.upgrade()
    assert both.sql("SELECT * FROM ledger_entries ORDER BY population, sequence") == before


def test_the_embedded_database_is_durable(world: World) -> None:
    """Write-ahead log, full synchronisation, foreign keys: on every connection that writes."""
    with world.curator.database.engine.begin() as connection:
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
        assert other.execute("SELECT count(*) FROM populations").fetchone() == (3,)  # readers go on
