"""A curator whose connections go through PgBouncer: a session may be another one in each transaction."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from poolers import open_pooler
from scenes import BUDGET_OF, QUOTES, RELEASES, RESERVATIONS, box
from support import Api, World, ZeroNoise, make_rows, open_world, service_url
from typer.testing import CliRunner

from curator_service.cli.main import app
from curator_service.container import make_curator
from curator_service.kit.db import Connection
from curator_service.privacy.accountant import Price

pytestmark = pytest.mark.postgres

THREADS, ROUNDS = 8, 6


@pytest.fixture(params=["transaction", "session"])
def pooled(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> Iterator[World]:
    """Return a world that is served through a pooler; its database commits before it is durable by default."""
    with open_world(tmp_path, url=postgres_url, limit=Price(mu=50.0), noise=ZeroNoise()) as world:
        assert world.settings.database_url is not None
        with psycopg.connect(world.settings.database_url, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET synchronous_commit = off')
        with open_pooler(tmp_path, service_url(postgres_url), mode=request.param) as url:
            world.served = world.settings.model_copy(update={"database_url": url})
            yield world


def test_requests_at_once_are_answered_each_with_its_own(pooled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pooled.api()
    commits: list[Any] = []
    commit = Connection.commit

    def record(self: Connection) -> None:
        with closing(self.cursor()) as cursor:
            cursor.execute("SELECT current_setting('synchronous_commit'), current_setting('lock_timeout')")
            commits.append(cursor.fetchone())
        commit(self)

    monkeypatch.setattr(Connection, "commit", record)

    def visit(thread: int) -> list[Any]:
        api, answers = Api(pooled.apps[-1], pooled.tokens["ada"]), []
        pooled.apis.append(api)
        for turn in range(ROUNDS):
            price = {"mu": (1 + thread * ROUNDS + turn) / 100}
            request = {"json": box(price=price, fresh=True)}
            key = f"key-{thread}-{turn}"
            bought = api.post(RELEASES, key=key, **request)
            again = api.post(RELEASES, key=key, **request)
            held = api.post(RESERVATIONS, json={"price": price, "expires_in_s": 600}, key=f"held-{key}")
            answers.append((bought, again, held, api.post(QUOTES, **request), api.get(BUDGET_OF)))
        return answers

    with ThreadPoolExecutor(THREADS) as pool:
        visits = list(pool.map(visit, range(THREADS)))
    for thread, answers in enumerate(visits):
        for turn, (bought, again, held, quote, budget) in enumerate(answers):
            assert [a.status_code for a in (bought, again, held, quote, budget)] == [201, 201, 201, 200, 200]
            assert bought.json()["cost"]["mu"] == pytest.approx((1 + thread * ROUNDS + turn) / 100, rel=1e-3)
            assert again.content == bought.content
    assert len(commits) >= 2 * THREADS * ROUNDS
    assert set(commits) == {("on", "30s")}
    assert pooled.curator.ledger.verify("town").reason == ""
    assert pooled.discrepancies() == []


def test_a_unit_of_work_needs_one_connection(tmp_path: Path, postgres_url: str) -> None:
    """Where a pooler has one connection to the server, a unit of work that waits for a second one waits for itself."""
    with open_world(tmp_path, url=postgres_url) as world, open_pooler(tmp_path, postgres_url, size=1) as url:
        owner = replace(world, curator=make_curator(world.settings.model_copy(update={"database_url": url})))
        with closing(owner.curator):
            owner.register("another", "town", make_rows(40, seed=9))
        assert world.curator.ledger.verify("town").reason == ""


def test_a_pooler_that_refuses_transactions_is_refused_at_the_start(
    tmp_path: Path, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_pooler(tmp_path, empty_postgres_url, mode="statement") as url:
        monkeypatch.setenv("CURATOR_DATABASE_URL", url)
        monkeypatch.setenv("CURATOR_DATA_DIR", str(tmp_path / "data"))
        for command in (["populations", "list"], ["db", "upgrade"], ["doctor", "--json"]):
            ended = CliRunner().invoke(app, command)
            assert ended.exit_code != 0, command
            assert "set its pool_mode to transaction or session" in " ".join(ended.output.split()), command
