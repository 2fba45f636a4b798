"""Failures at any place: no charge, no answer, no text of the failure; and a retry with the same key succeeds.

A request that passes over no rows is one unit of work, and a failure leaves no trace of it. One that does reserves
first: a failure gives the amount back, and the ledger says so.
"""

import pkgutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support import BrokenNoise, World, body, open_world, problem

from curator_service.kit.db import Connection, Database, Statement
from curator_service.ledger.repository import Population

pytestmark = pytest.mark.crashes

RELEASES = "/v1/datasets/cohort/releases"
MARKER = "patient-4711-weighs-93.5"
BOX, BALL = {"map": "box"}, {"map": "ball"}
PATHS = pytest.mark.parametrize("rows", [BOX, BALL], ids=["at once", "pass"])


def tables(world: World, *names: str) -> list[list[tuple[Any, ...]]]:
    return [sorted(world.sql(f"SELECT * FROM {name}"), key=repr) for name in names]


def state(world: World) -> list[list[tuple[Any, ...]]]:
    """Return everything that a release may write."""
    return tables(
        world, "populations", "shares", "reservations", "ledger_entries", "releases", "idempotency_keys", "seal"
    )


def assert_told_nothing(answer: Any, caplog: pytest.LogCaptureFixture, slug: str = "internal-error") -> None:
    """Assert that a failure is a problem, with no text of what failed."""
    problem(answer, slug, 500 if slug == "internal-error" else 503)
    assert MARKER not in answer.text
    assert MARKER not in caplog.text
    assert "Traceback" not in caplog.text


class Before:
    """State before a failure, to compare with."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.everything = state(world)
        self.releases = tables(world, "releases")
        self.account: Population = world.account()
        self.entries = world.entries()

    def assert_no_trace(self) -> None:
        """Assert that nothing at all was written."""
        assert state(self.world) == self.everything

    def assert_given_back(self) -> None:
        """Assert that nothing is charged, held or stored: the ledger says at most what was reserved, and its return."""
        account, added = self.world.account(), self.world.entries()[len(self.entries) :]
        assert (account.posted, account.pending) == (self.account.posted, 0)
        assert self.world.sql("SELECT sum(pending_units) FROM shares WHERE pending_units > 0") == [(None,)]
        assert tables(self.world, "releases") == self.releases
        assert [entry["kind"] for entry in added] in ([], ["reserve", "void"])
        assert len({(entry["units"], entry["reservation"]) for entry in added}) <= 1
        assert self.world.sql("SELECT count(*) FROM reservations WHERE state = 'open'") == [(0,)]
        assert self.world.curator.ledger.verify("town").ok
        assert self.world.discrepancies() == []

    def assert_undone(self, rows: dict[str, str]) -> None:
        """Assert of either path what holds of it."""
        if rows == BOX:
            self.assert_no_trace()
        self.assert_given_back()

    def assert_charged_once(self, answer: Any) -> None:
        """Assert that a retry was answered anew, and that it is the only charge."""
        assert (answer.status_code, answer.headers["curator-answer"]) == (201, "new")
        account = self.world.account()
        assert account.posted - self.account.posted == int(answer.json()["cost"]["units"])
        assert account.pending == 0
        (charge,) = [entry for entry in self.world.entries()[len(self.entries) :] if entry["kind"] == "charge"]
        assert charge["release"] == answer.json()["id"]


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


@PATHS
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_database_error_at_any_statement_is_undone(
    both: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, after: bool, rows: dict[str, str]
) -> None:
    api = both.api()
    error = (sqlite3 if both.curator.database.is_sqlite else psycopg).OperationalError(MARKER)
    voided = 0
    for at in range(1, 60):
        before = Before(both)
        request = body(price={"mu": 0.01 + at * 1e-5}, rows=rows)  # never the request of an earlier turn
        with Failpoint(at, after=after, error=error).armed(monkeypatch) as point:
            answer = api.post(RELEASES, json=request, key=f"k{at}")
        if point.count < at:
            assert answer.status_code == 201
            break
        assert_told_nothing(answer, caplog, "busy")
        assert answer.headers["retry-after"] == "1"
        before.assert_undone(rows)
        voided += before.account.sequence < both.account().sequence
        before.assert_charged_once(api.post(RELEASES, json=request, key=f"k{at}"))
    else:
        pytest.fail("a release runs more statements than this test looks at")
    # A release runs at least: token, dataset, key, account; claim, charge, share, entry, head, release. One that passes
    # over rows runs about as many again: reserve, entry, head; post, close, entry, head, release, keys.
    assert at > (10 if rows == BOX else 18)
    assert voided == 0 if rows == BOX else voided > 5
    assert both.curator.ledger.verify("town").ok
    assert both.discrepancies() == []


@contextmanager
def failing_commits(*numbers: int, error: Exception) -> Iterator[None]:
    """Fail these commits, counted from 1."""
    honest, count = Connection.commit, 0

    def commit(self: Connection) -> None:
        nonlocal count
        count += 1
        if count in numbers:
            raise error
        honest(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "commit", commit)
        yield


@pytest.mark.parametrize(
    ("rows", "number", "entries"), [(BOX, 1, 0), (BALL, 1, 0), (BALL, 2, 2)], ids=["charge", "reserve", "post"]
)
def test_a_failed_commit_is_undone(
    both: World, caplog: pytest.LogCaptureFixture, rows: dict[str, str], number: int, entries: int
) -> None:
    api, before, request = both.api(), Before(both), body(rows=rows)
    with failing_commits(number, error=RuntimeError(MARKER)):
        answer = api.post(RELEASES, json=request, key="k")
    assert_told_nothing(answer, caplog)
    before.assert_given_back()
    assert len(both.entries()) == len(before.entries) + entries
    if not entries:
        before.assert_no_trace()
    before.assert_charged_once(api.post(RELEASES, json=request, key="k"))


@contextmanager
def lost_commits(world: World, monkeypatch: pytest.MonkeyPatch, *numbers: int) -> Iterator[None]:
    """Lose the connection of these units of work right after they were committed, counted from 1."""
    error = (sqlite3 if world.curator.database.is_sqlite else psycopg).OperationalError(MARKER)
    begin, count = Database.begin, 0

    @contextmanager
    def losing(database: Database) -> Iterator[Any]:
        nonlocal count
        with begin(database) as connection:
            yield connection
        count += 1
        if count in numbers:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(Database, "begin", losing)
        yield


@pytest.mark.parametrize(("rows", "number"), [(BOX, 1), (BALL, 2)], ids=["charge", "post"])
def test_a_commit_whose_outcome_is_not_known_is_looked_up(
    both: World, monkeypatch: pytest.MonkeyPatch, rows: dict[str, str], number: int
) -> None:
    api, before, request = both.api(), Before(both), body(rows=rows)
    with lost_commits(both, monkeypatch, number):
        answer = api.post(RELEASES, json=request, key="k")
    before.assert_charged_once(answer)
    again = api.post(RELEASES, json=request, key="k")
    assert (again.headers["curator-answer"], again.content) == ("replayed", answer.content)


def test_a_reservation_of_which_nobody_knows_is_given_back(
    both: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its commit had happened after all; whoever reserved it lives, and does not work on it."""
    api, before, request = both.api(), Before(both), body(rows=BALL)
    with lost_commits(both, monkeypatch, 1):
        answer = api.post(RELEASES, json=request, key="k")
    assert_told_nothing(answer, caplog, "busy")
    assert_swept(both, before)
    before.assert_charged_once(api.post(RELEASES, json=request, key="k"))


def test_what_could_not_be_given_back_at_once_is_given_back_later(
    both: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The database failed at the posting, and again at the return."""
    error = (sqlite3 if both.curator.database.is_sqlite else psycopg).OperationalError(MARKER)
    api, before, request = both.api(), Before(both), body(rows=BALL)
    with failing_commits(2, 3, error=error):
        answer = api.post(RELEASES, json=request, key="k")
    assert_told_nothing(answer, caplog, "busy")
    assert_swept(both, before)
    before.assert_charged_once(api.post(RELEASES, json=request, key="k"))


def assert_swept(world: World, before: Before) -> None:
    """Assert that a worker that lives gives back what it does not work on, at the latest after a lease."""
    job_runner = world.apps[-1].state.curator.job_runner
    job_runner.lease_s = 0.0
    for _ in range(2):
        job_runner.sweep()
    before.assert_given_back()


@PATHS
def test_failing_noise_is_undone(
    tmp_path: Path, database_url: str | None, caplog: pytest.LogCaptureFixture, rows: dict[str, str]
) -> None:
    noise = BrokenNoise(MARKER)
    with open_world(tmp_path, url=database_url, noise=noise) as world:
        api, before = world.api(), Before(world)
        answer = api.post(RELEASES, json=body(rows=rows), key="k")
        assert_told_nothing(answer, caplog)
        before.assert_undone(rows)
        assert answer.headers["x-request-id"] in caplog.text  # the log has the id, and the kind of error
        assert "RuntimeError" in caplog.text
        noise.broken = False
        before.assert_charged_once(api.post(RELEASES, json=body(rows=rows), key="k"))


@PATHS
def test_failing_storage_is_undone(world: World, caplog: pytest.LogCaptureFixture, rows: dict[str, str]) -> None:
    (folder,) = [
        path
        for path in (world.settings.data_dir / "datasets").iterdir()
        if path.name == world.curator.datasets.list_all()[0].id
    ]
    api, before, request = world.api(), Before(world), body(rows=rows)
    away = folder.with_name(f"{MARKER}-away")
    folder.rename(away)
    answer = api.post(RELEASES, json=request, key="k")
    assert_told_nothing(answer, caplog, "dataset-unavailable")
    away.rename(folder)
    before.assert_no_trace()
    before.assert_charged_once(api.post(RELEASES, json=request, key="k"))


def steps(rows: dict[str, str], *places: str, call: int = 1) -> list[Any]:
    return [
        pytest.param(f"curator_service.{place}", call, rows, id=f"{rows['map']}-{place}-{call}") for place in places
    ]


AT_ONCE = (
    "releases.preparation.perturb",
    "releases.publisher.render_answer",
    "releases.publisher.state_charge",
    "kinds.gram.kind.flatten",
    "ledger.repository.move",
    "ledger.repository.move_share",
    "ledger.repository.append_entry",
    "ledger.repository.add_spending",
    "ledger.accounts.unit_of_work.entry_hash",
    "ledger.chain.signing.Signer.sign",
    "releases.repository.claim_key",
    "releases.repository.insert_release",
)
OF_A_PASS = (
    "kinds.gram.kernel.code_rows",
    "kinds.gram.kernel.compute_gram",
    "ledger.accounts.reservations.insert_reservation",
    "ledger.accounts.reservations.close_reservation",
    "releases.repository.answer_keys",
)
TWICE = (  # in the unit of work that reserves, and in the one that posts
    "ledger.repository.move",
    "ledger.repository.move_share",
    "ledger.repository.append_entry",
    "ledger.accounts.unit_of_work.entry_hash",
    "ledger.chain.signing.Signer.sign",
)


@pytest.mark.parametrize(
    ("place", "call", "rows"), steps(BOX, *AT_ONCE) + steps(BALL, *AT_ONCE, *OF_A_PASS) + steps(BALL, *TWICE, call=2)
)
@pytest.mark.parametrize("kind", [RuntimeError, ValueError, MemoryError])
def test_a_failure_at_any_step_is_undone(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
    call: int,
    rows: dict[str, str],
    kind: type[Exception],
) -> None:
    whole, calls = pkgutil.resolve_name(place), 0

    def fail(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise kind(MARKER)
        return whole(*arguments, **options)

    api, before = world.api(), Before(world)
    with monkeypatch.context() as patch:
        patch.setattr(place, fail)
        answer = api.post(RELEASES, json=body(rows=rows), key="k")
    assert calls >= call
    assert_told_nothing(answer, caplog)
    before.assert_undone(rows)
    before.assert_charged_once(api.post(RELEASES, json=body(rows=rows), key="k"))


@PATHS
def test_after_a_failure_the_database_is_free(
    both: World, monkeypatch: pytest.MonkeyPatch, rows: dict[str, str]
) -> None:
    """No connection goes back to the pool inside a transaction: others write at once."""

    def fail(*_arguments: object) -> None:
        raise RuntimeError(MARKER)

    api = both.api()
    with monkeypatch.context() as patch:
        patch.setattr("curator_service.releases.repository.insert_release", fail)
        for i in range(5):
            problem(api.post(RELEASES, json=body(rows=rows), key=f"k{i}"), "internal-error", 500)
    both.sql("UPDATE populations SET posted_units = posted_units")  # would wait for a lock, and fail
    if not both.curator.database.is_sqlite:
        idle = both.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        )
        assert idle == [(0,)]


@PATHS
def test_after_refusals_and_reads_the_database_is_free(both: World, rows: dict[str, str]) -> None:
    api = both.api()
    assert api.post(RELEASES, json=body(rows=rows), key="k").status_code == 201
    for who, url in (("ada", RELEASES), ("ada", "/v1/datasets"), ("audra", "/v1/ledger/town")):
        assert api.get(url, token=both.tokens[who]).status_code == 200
    problem(api.post(RELEASES, json=body(price={"mu": 0.5}, rows=rows), key="k2"), "budget-exceeded", 409)
    problem(api.post(RELEASES, json=body(features=["age"], rows=rows), key="k"), "idempotency-key-reused", 422)
    assert both.curator.ledger.verify("town").ok
    if not both.curator.database.is_sqlite:
        idle = both.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
        )
        assert idle == [(0,)]
    both.sql("UPDATE populations SET posted_units = posted_units")
