"""Whatever fails, and wherever: no charge, no key, no entry, no text of the failure; and a retry succeeds."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event
from support import BrokenNoise, World, body, open_world, problem

from curator_service.db import Statement

RELEASES = "/v1/datasets/cohort/releases"
MARKER = "patient-4711-weighs-93.5"


def state(world: World) -> list[list[tuple[Any, ...]]]:
    """Return everything that a release may write."""
    tables = ("populations", "ledger_entries", "releases", "idempotency_keys")
    return [sorted(world.sql(f"SELECT * FROM {table}")) for table in tables]


def assert_failed_without_trace(world: World, before: object, answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Assert that a failure left and told nothing."""
    problem(answer, "internal-error", 500)
    assert MARKER not in answer.text
    assert MARKER not in caplog.text
    assert "Traceback" not in caplog.text
    assert state(world) == before


class Failpoint:
    """Fail the n-th statement of a request, before or after it has run."""

    def __init__(self, at: int, *, after: bool, error: Exception) -> None:
        self.at, self.after, self.error = at, after, error
        self.count = 0

    @contextmanager
    def armed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator["Failpoint"]:
        execute = Statement.execute

        def failing(statement: Statement, connection: Any, /, **values: object) -> Any:
            self.count += 1
            if self.count == self.at and not self.after:
                raise self.error
            cursor = execute(statement, connection, **values)
            if self.count == self.at:
                cursor.close()
                raise self.error
            return cursor

        with monkeypatch.context() as patch:
            patch.setattr(Statement, "execute", failing)
            yield self


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_database_error_at_any_statement_leaves_no_trace(
    both: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, after: bool
) -> None:
    api = both.api()
    error = (sqlite3 if both.curator.database.is_sqlite else psycopg).OperationalError(MARKER)
    for at in range(1, 40):
        before = state(both)
        request = body(price={"mu": 0.01 + at * 1e-5})  # never the request of an earlier turn
        with Failpoint(at, after=after, error=error).armed(monkeypatch) as point:
            answer = api.post(RELEASES, json=request, key=f"k{at}")
        if point.count < at:
            assert answer.status_code == 201
            break
        assert_failed_without_trace(both, before, answer, caplog)
        retried = api.post(RELEASES, json=request, key=f"k{at}")
        assert (retried.status_code, retried.headers["curator-answer"]) == (201, "new")
    else:
        pytest.fail("a release runs more statements than this test looks at")
    assert at > 8  # a release runs at least: token, dataset, key, account; claim, charge, entry, head, release
    assert both.curator.ledger.verify("town").ok
    assert both.curator.releases.find_unbacked("town") == []


def test_a_failed_commit_leaves_no_trace(
    both: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api = both.api()
    before = state(both)
    engine = both.apps[-1].state.curator.database.engine

    def fail(_connection: object) -> None:
        raise RuntimeError(MARKER)

    event.listen(engine, "commit", fail)
    try:
        answer = api.post(RELEASES, json=body(), key="k")
    finally:
        event.remove(engine, "commit", fail)
    assert_failed_without_trace(both, before, answer, caplog)
    assert api.post(RELEASES, json=body(), key="k").headers["curator-answer"] == "new"


def test_failing_noise_leaves_no_trace(
    tmp_path: Path, database_url: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    noise = BrokenNoise(MARKER)
    with open_world(tmp_path, url=database_url, noise=noise) as world:
        api, before = world.api(), state(world)
        answer = api.post(RELEASES, json=body(), key="k")
        assert_failed_without_trace(world, before, answer, caplog)
        assert answer.headers["x-request-id"] in caplog.text  # the log has the id, and the kind of error
        assert "RuntimeError" in caplog.text
        noise.broken = False
        assert api.post(RELEASES, json=body(), key="k").headers["curator-answer"] == "new"


@pytest.mark.parametrize("request_rows", [{"map": "box"}, {"map": "ball"}], ids=["cached", "pass"])
def test_failing_storage_leaves_no_trace(
    world: World, caplog: pytest.LogCaptureFixture, request_rows: dict[str, str]
) -> None:
    (folder,) = [
        path
        for path in (world.settings.data_dir / "datasets").iterdir()
        if path.name == world.curator.datasets.list_all()[0].id
    ]
    api, before, request = world.api(), state(world), body(rows=request_rows)
    away = folder.with_name(f"{MARKER}-away")
    folder.rename(away)
    answer = api.post(RELEASES, json=request, key="k")
    assert_failed_without_trace(world, before, answer, caplog)
    away.rename(folder)
    assert api.post(RELEASES, json=request, key="k").headers["curator-answer"] == "new"


@pytest.mark.parametrize(
    "place",
    [
        "curator_service.releases.service.perturb",
        "curator_service.releases.service.render_answer",
        "curator_service.releases.service.charge_facts",
        "curator_service.datasets.storage.code_rows",
        "curator_service.datasets.storage.compute_gram",
        "curator_service.datasets.service.split_gram",
        "curator_service.ledger.repository.charge",
        "curator_service.ledger.repository.append_entry",
        "curator_service.ledger.service.entry_hash",
        "curator_service.releases.repository.claim_key",
        "curator_service.releases.repository.insert_release",
    ],
)
@pytest.mark.parametrize("kind", [RuntimeError, ValueError, MemoryError])
def test_a_failure_at_any_step_leaves_no_trace(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
    kind: type[Exception],
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise kind(MARKER)

    api, before = world.api(), state(world)
    with monkeypatch.context() as patch:
        patch.setattr(place, fail)
        answer = api.post(RELEASES, json=body(), key="k")
    assert_failed_without_trace(world, before, answer, caplog)
    assert api.post(RELEASES, json=body(), key="k").headers["curator-answer"] == "new"


def test_after_a_failure_the_database_is_free(both: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection goes back to the pool inside a transaction: others write at once."""

    def fail(*_arguments: object) -> None:
        raise RuntimeError(MARKER)

    api = both.api()
    with monkeypatch.context() as patch:
        patch.setattr("curator_service.releases.repository.insert_release", fail)
        for i in range(5):
            problem(api.post(RELEASES, json=body(), key=f"k{i}"), "internal-error", 500)
    both.sql("UPDATE populations SET posted_units = posted_units")  # would wait for a lock, and fail
    if not both.curator.database.is_sqlite:
        idle = both.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        )
        assert idle == [(0,)]


def test_after_refusals_and_reads_the_database_is_free(both: World) -> None:
    api = both.api()
    assert api.post(RELEASES, json=body(), key="k").status_code == 201
    for who, url in (("ada", RELEASES), ("ada", "/v1/datasets"), ("audra", "/v1/ledger/town")):
        assert api.get(url, token=both.tokens[who]).status_code == 200
    problem(api.post(RELEASES, json=body(price={"mu": 0.5}), key="k2"), "budget-exceeded", 409)
    problem(api.post(RELEASES, json=body(features=["age"]), key="k"), "idempotency-key-reused", 422)
    assert both.curator.ledger.verify("town").ok
    if not both.curator.database.is_sqlite:
        idle = both.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        )
        assert idle == [(0,)]
    both.sql("UPDATE populations SET posted_units = posted_units")
