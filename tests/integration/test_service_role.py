"""Rights of the service in a PostgreSQL database: its work, and nothing that could change history."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from scenes import ASYNC, RELEASES, await_job, box
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import ProgrammingError
from support import World, body, service_url
from typer.testing import CliRunner

from curator_service.cli.main import app
from curator_service.kit.db import Base
from curator_service.privacy.accountant import Price

pytestmark = pytest.mark.postgres

LOG = {
    "ledger_entries", "releases", "release_listings", "signing_keys", "sessions", "session_questions",
    "survey_reports", "used_invitations",
}  # fmt: skip
FORGETTING = {"snapshots", "sketches", "session_noise", "person_names"}
KEPT = {
    "populations", "shares", "reservations", "idempotency_keys", "principals", "proposals", "seal", "column_holders",
    "answer_space", "key_counts", "changes", "permits", "spending", "surveys",
}  # fmt: skip
PASSING = {"datasets", "tokens", "grants", "workers", "browser_sessions", "sign_ins"}


@pytest.fixture
def service(town: World) -> Iterator[Engine]:
    engine = create_engine(town.served.database_url.replace("postgresql:", "postgresql+psycopg:"))
    yield engine
    engine.dispose()


def is_allowed(engine: Engine, statement: str) -> bool:
    """Return whether a role may run a statement that changes no row."""
    try:
        with engine.begin() as connection:
            connection.execute(text(statement))
    except ProgrammingError as error:
        if not isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            raise
        return False
    return True


def test_every_table_is_one_of_the_four_kinds() -> None:
    assert {*LOG, *FORGETTING, *KEPT, *PASSING} == set(Base.metadata.tables)


@pytest.mark.parametrize("table", sorted(LOG | FORGETTING | KEPT | PASSING))
def test_the_service_changes_only_what_is_not_history(town: World, service: Engine, table: str) -> None:
    is_allowed(service, f"GRANT ALL ON {table} TO CURRENT_USER")  # no error, and no effect: nothing below may change
    column = next(iter(Base.metadata.tables[table].columns)).name
    assert is_allowed(service, f"SELECT * FROM {table} WHERE false")
    assert is_allowed(service, f"INSERT INTO {table} SELECT * FROM {table} WHERE false")
    assert is_allowed(service, f"UPDATE {table} SET {column} = {column} WHERE false") == (table not in LOG | FORGETTING)
    assert is_allowed(service, f"DELETE FROM {table} WHERE false") == (table in PASSING | FORGETTING)
    for statement in (
        f"TRUNCATE {table} CASCADE",
        f"ALTER TABLE {table} DISABLE TRIGGER ALL",
        f"DROP TABLE {table} CASCADE",
        f"CREATE TRIGGER mine BEFORE INSERT ON {table} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    ):
        assert not is_allowed(service, statement), statement
    assert town.curator.ledger.verify("town").ok


def test_the_service_cannot_touch_the_schema(service: Engine) -> None:
    for statement in (
        "UPDATE alembic_version SET version_num = '0002'",
        "SET session_replication_role = replica",  # triggers would sleep
        "CREATE TABLE mine (id integer)",
    ):
        assert not is_allowed(service, statement), statement


def test_the_service_can_do_all_of_its_work(town: World) -> None:
    ada, root = town.api(), town.api("root")
    assert ada.post(RELEASES, json=box(), key="now").status_code == 201
    assert ada.post(RELEASES, json=body(), key="later").status_code == 201
    job = ada.post(RELEASES, json=body(fresh=True), key="job", headers=ASYNC)
    assert await_job(ada, job.json()["id"])["state"] == "done"
    assert ada.post(RELEASES, json=box(), key="again").status_code == 200
    reservation = ada.post(
        "/v1/datasets/cohort/reservations", json={"price": {"mu": 0.05}, "expires_in_s": 600}, key="reservation"
    )
    assert reservation.status_code == 201, reservation.text
    place = f"/v1/reservations/{reservation.json()['id']}"
    paid = ada.post(
        RELEASES, json=box(fresh=True, price={"mu": 0.01}, reservation=reservation.json()["id"]), key="paid"
    )
    assert paid.status_code == 201, paid.text
    assert ada.request("DELETE", place).status_code == 200
    served = town.apps[-1].state.curator
    admin = served.identity.authenticate(f"Bearer {town.tokens['root']}")
    for epsilon in (2.0, 0.9):  # a proposal, and a lowering
        served.approvals.propose_limit("town", Price(epsilon=epsilon, delta=1e-6), "a second year", admin)
    assert root.get("/v1/ledger/town").status_code == 200
    served.ledger.guard.seal("a test")
    assert ada.post(RELEASES, json=box(fresh=True), key="sealed").status_code == 503
    assert town.curator.ledger.verify("town").ok
    assert town.discrepancies() == []


def test_a_command_that_needs_the_owner_says_so(town: World, tmp_path: Path, postgres_url: str) -> None:
    environment = {"CURATOR_DATA_DIR": str(town.settings.data_dir), "COLUMNS": "200"}
    backup = str(tmp_path / "b.tar")
    url = service_url(postgres_url)
    assert CliRunner().invoke(app, ["backup", backup], env=environment | {"CURATOR_DATABASE_URL": url}).exit_code == 0
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    for command in (["restore", backup], ["db", "upgrade"]):
        result = CliRunner().invoke(app, command, env=environment | {"CURATOR_DATABASE_URL": url})
        assert isinstance(result.exception, SystemExit), repr(result.exception)
        assert result.exit_code == 1
        assert "owner" in result.stderr


def test_an_upgrade_says_where_the_group_has_no_rights(town: World) -> None:
    environment = {"CURATOR_DATA_DIR": str(town.settings.data_dir), "CURATOR_DATABASE_URL": town.settings.database_url}
    for warned in (False, True):
        result = CliRunner().invoke(app, ["db", "upgrade"], env=environment)
        assert result.exit_code == 0, result.output
        assert ("docs/ledger.md" in result.stdout) == warned
        town.sql("REVOKE ALL ON ledger_entries FROM curator_service")
