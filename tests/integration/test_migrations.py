"""Models equal migrations, on both databases, and a populated database goes down and up."""

import hashlib
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from scenes import forget_permits
from sqlalchemy import CheckConstraint, inspect
from support import ADMIN, World, body, forget_register, open_world

from curator_service.kit.clock import timestamp
from curator_service.kit.db import Base, Database, SchemaError, migrations_dir
from curator_service.ledger.chain.verification import REGISTER
from curator_service.releases.models import CHUNK

RELEASES = "/v1/datasets/cohort/releases"


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


@pytest.mark.parametrize(
    ("revision", "reason"),
    [
        ("9999", r"9999, is that of a newer version.* restore a backup"),
        ("0001", r"0001, is older than the first that was released.* an empty database"),
    ],
)
def test_a_schema_that_this_version_does_not_know_is_refused_and_left_as_it_is(
    both: World, revision: str, reason: str
) -> None:
    both.sql(f"UPDATE alembic_version SET version_num = '{revision}'")
    for act in (both.curator.database.upgrade, both.curator.database.check_schema):
        with pytest.raises(SchemaError, match=reason):
            act()
    assert both.sql("SELECT version_num FROM alembic_version") == [(revision,)]


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
    both.sql(f"INSERT INTO column_holders VALUES ('c', 'n', 0, '8{'0' * (digits - 1)}', 'k')")
    for bits in (f"1{'0' * digits}", "", *(() if is_embedded else ("0x1", "-1", "F", "1 ", "1_1", "1\n"))):
        for act in (
            f"INSERT INTO column_holders VALUES ('c', 'n', 1, '{bits}', 'k')",
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


def migrate(world: World, act: Callable[[Config, str], None], revision: str) -> None:
    """Run a migration as the command line does."""
    with world.curator.database.engine.connect() as connection:
        config = Config()
        config.set_main_option("script_location", str(migrations_dir()))
        config.attributes["connection"] = connection
        act(config, revision)
        connection.commit()


def test_a_database_with_permits_does_not_go_down(both: World) -> None:
    forget_register(both)
    with pytest.raises(RuntimeError, match="permits were granted"):
        migrate(both, command.downgrade, "0009")
    assert both.curator.database.revisions()[0] == both.curator.database.revisions()[1]


def test_a_database_with_a_register_does_not_go_down(both: World) -> None:
    with pytest.raises(RuntimeError, match="acts were registered"):
        migrate(both, command.downgrade, "0010")
    assert both.curator.database.revisions()[0] == both.curator.database.revisions()[1]


def test_tokens_stay_when_what_is_known_of_them_goes_down_and_comes_up_again(both: World) -> None:
    forget_register(both)
    kept = "SELECT id, principal_id, secret_hash, created_at, expires_at, revoked_at FROM tokens ORDER BY id"
    before = both.sql(kept)
    migrate(both, command.downgrade, "0010")
    assert "scopes" not in {column["name"] for column in inspect(both.curator.database.engine).get_columns("tokens")}
    both.curator.database.upgrade()
    assert both.sql(kept) == before
    # Tokens of an earlier version work, at first without a register and then in it, once the curator has started.
    assert both.api().get("/v1/datasets").status_code == 200
    assert both.curator.start() == ""
    assert both.api().get("/v1/datasets").status_code == 200
    acts = both.curator.register.list_entries(after=1, count=100)
    assert [act["kind"] for act in acts] == ["principal"] * 4 + ["token"] * 4
    assert {act["actor"] for act in acts} == {"curator"}
    assert both.curator.ledger.verify(REGISTER).ok


def test_whoever_was_signed_in_at_the_version_before_signs_in_anew(both: World) -> None:
    """Its sessions have nothing that proves them; its tokens go on."""
    migrate(both, command.downgrade, "0012")
    (ada,) = [one for one in both.curator.identity.list_principals() if one.name == "ada"]
    session, token = secrets.token_urlsafe(32), both.tokens["ada"].split("_")[1]
    began, ends = timestamp(both.clock()), timestamp(both.clock() + timedelta(hours=1))
    stored = (hashlib.sha256(session.encode()).hexdigest(), ada.id, token, began, began, began, ends)
    both.sql(f"INSERT INTO browser_sessions VALUES {stored}")
    both.curator.database.upgrade()
    sessions = both.curator.browser_sessions
    assert sessions.find(session) is None
    begun = sessions.begin(sessions.enter(both.tokens["ada"]))
    found = sessions.find(begun.id)
    assert found is not None
    assert (found.principal.name, found.is_fresh, found.by_token) == ("ada", True, True)
    # Back again: a version that knows tokens alone keeps no session that began elsewhere.
    both.sql("UPDATE browser_sessions SET token_id = ''")
    migrate(both, command.downgrade, "0012")
    assert both.sql("SELECT count(*) FROM browser_sessions") == [(0,)]


def test_a_populated_database_goes_down_and_up(both: World) -> None:
    for rows in ("box", "ball"):
        assert both.api().post(RELEASES, json=body(rows={"map": rows}), key=rows).status_code == 201
    forget_permits(both)
    migrate(both, command.downgrade, "base")
    database = both.curator.database
    with database.engine.connect() as connection:
        assert set(inspect(connection).get_table_names()) <= {"alembic_version"}
    assert database.revisions()[0] is None
    database.upgrade()
    assert database.revisions()[0] == database.revisions()[1]
    assert both.sql("SELECT count(*) FROM ledger_entries") == [(0,)]


KEPT = {
    "ledger_entries": "*",
    "releases": "*",
    "idempotency_keys": "*",
    "shares": "population, scope, label, limit_units, posted_units, pending_units",
    "signing_keys": "*",
    "populations": "name, limit_units, posted_units, pending_units, head_sequence, head_hash, epoch",
}


def test_what_was_written_stays_when_the_schema_goes_back_to_the_first_and_up_again(both: World) -> None:
    for rows in ("box", "ball"):
        assert both.api().post(RELEASES, json=body(rows={"map": rows}), key=rows).status_code == 201
    forget_permits(both)
    before = {table: sorted(both.sql(f"SELECT {columns} FROM {table}")) for table, columns in KEPT.items()}
    migrate(both, command.downgrade, "0002")
    assert {table: sorted(both.sql(f"SELECT {columns} FROM {table}")) for table, columns in KEPT.items()} == before
    for table in ("ledger_entries", "releases", "idempotency_keys", "snapshots", "signing_keys"):
        with pytest.raises(Exception, match="append-only"):
            both.sql(f"DELETE FROM {table}")
    with pytest.raises(Exception, match="never changes"):
        both.sql("UPDATE idempotency_keys SET fingerprint = 'x'")
    both.curator.database.upgrade()
    assert {table: sorted(both.sql(f"SELECT {columns} FROM {table}")) for table, columns in KEPT.items()} == before


def test_the_highest_limit_is_read_off_a_chain_that_is_older_than_its_column(both: World) -> None:
    opened = both.account()
    both.add_token("rita", *ADMIN)
    for mu in (0.5, 0.1, 0.3):
        limit = {"limit": {"mu": mu}, "reason": "more or less"}
        set_at_once = both.api("root").post("/v1/admin/populations/town/limits", json=limit)
        if set_at_once.status_code == 202:
            approve = f"/v1/admin/proposals/{set_at_once.json()['id']}/approve"
            assert both.api("rita").post(approve).status_code == 200
    forget_permits(both)
    before = both.account()
    assert before.highest_limit == 250_000_000_000 > before.limit == 90_000_000_000 > opened.limit
    migrate(both, command.downgrade, "0002")
    assert "highest_limit_units" not in {
        column["name"] for column in inspect(both.curator.database.engine).get_columns("populations")
    }
    both.curator.database.upgrade()
    assert both.account() == before
    assert both.account("valley").highest_limit == opened.limit
    assert both.curator.ledger.verify("town").ok


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
