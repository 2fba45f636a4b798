"""A database that fails in the middle of a request: no charge without its answer, and one charge for each key."""

import itertools
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import psycopg
import pytest
from crowds import Crowd
from deployments import Caller, Deployment, at_once, ball, box, describe, slug
from faulty import PATIENCE_VARIABLE
from patience import pause, scaled, wait_for
from planned_requests import (
    ASYNC,
    WISHES,
    WishMaker,
    ball_release,
    box_release,
    close_reservations,
    disturb,
    job,
    job_from_reservation,
    read_steps,
    reservation,
    stored_answer,
    wait_for_end,
)
from proxies import LATE, NEVER_SENT, UNANSWERED, DatabaseProxy
from support import service_url

pytestmark = [pytest.mark.slow, pytest.mark.crashes]

IS_LONG = os.environ.get("CURATOR_TEST_LONG") == "1"
STRIDE = 1 if IS_LONG else 9
SOME_WISHES = WISHES if IS_LONG else (*WISHES[:3], *WISHES[-2:])
LOAD_S = 20.0 if IS_LONG else scaled(0.9)
STATEMENT = re.compile(r"\d+ before (SELECT|INSERT|UPDATE|DELETE)")
ASKED_AGAIN = {stored_answer, reservation}  # they only say that the database is busy
RESERVED_FIRST = {"ball_release", "job", "job_from_reservation"}
both_ways = pytest.mark.parametrize("make_wish", [box_release, ball_release], ids=["at_once", "reserved_first"])


@both_ways
def test_connections_that_end_at_any_step_cost_nobody_anything(
    postgres_town: Deployment, make_wish: WishMaker, record_property: Callable[[str, object], None]
) -> None:
    town, path = postgres_town, postgres_town.open_account("ended")
    struck = []
    with town.call(town.serve()) as caller:
        wish = make_wish(path, caller)
        for i in range(1, 200):
            received, step = disturb(town, caller, wish, i, "terminate", 1 + (i - 1) * STRIDE)
            assert received.status_code == 201 or slug(received) == "busy", f"{step}: {describe(received)}"
            wish.settle(caller, i, received, step)
            wish.check(town.settle("ended") if IS_LONG else town.look("ended"), i, step)
            if not step:
                break
            struck.append((step, received.status_code))
    town.settle("ended")
    record_property("steps", len(struck))
    print(f"{make_wish.__name__}: ended at {len(struck)} steps; {struck}")


@pytest.mark.parametrize("make_wish", WISHES, ids=lambda wish: wish.__name__)
def test_deadlocks_and_conflicts_at_any_statement_are_passed_over(
    postgres_town: Deployment, make_wish: WishMaker, record_property: Callable[[str, object], None]
) -> None:
    town, path = postgres_town, postgres_town.open_account("moment")
    with town.call(town.serve()) as caller:
        wish = make_wish(path, caller)
        for i in (1, 2):  # the second one finds the first one stored, as all that follow
            trace = town.trace()
            assert wish.send(caller, i, {"at": 0, "action": "none", "trace": str(trace)}) is not None
            statements = find_statements_of_units(wait_for_end(trace))
        faults = list(itertools.product(statements, ("deadlock", "conflict")))
        told = []
        for i, (statement, fault) in enumerate(faults if IS_LONG else faults[::5], start=3):
            received, step = disturb(town, caller, wish, i, fault, statement)
            assert step
            told.append((step, received.status_code))
            is_passed_over = received.status_code in {200, 201, 202}
            # Beside a job's unit its request reads, and either may come first.
            may_ask = make_wish in ASKED_AGAIN or (make_wish in {job, job_from_reservation} and "SELECT" in step)
            assert is_passed_over or (may_ask and slug(received) == "busy"), describe(received)
            wish.settle(caller, i, received, step)
            wish.check(town.look("moment"), i, step)
        close_reservations(town, caller, "moment")
    town.settle("moment")
    record_property("faults", len(told))
    print(f"{make_wish.__name__}: {told}")


def find_statements_of_units(steps: list[str]) -> list[str]:
    """Return the names of the statements of a request's units of work, and of their commits."""
    found, is_within = [], False
    for line in steps:
        name = line.partition(" ")[2]
        if name.startswith("before begin"):
            is_within = True
        elif is_within and (STATEMENT.match(line) or name.startswith("before commit")):
            found.append(name)
            is_within = not name.startswith("before commit")
    return found


WAITING = (
    "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()"
)


def test_a_real_deadlock_is_passed_over(postgres_town: Deployment) -> None:
    town, path = postgres_town, postgres_town.open_account("tangled")
    with town.call(town.serve()) as caller, psycopg.connect(town.url or "") as other, ThreadPoolExecutor(1) as pool:
        wish, gave_way = ball_release(path, caller), False
        wish.settle(caller, 1, None, "")
        for i in range(2, 8):
            other.execute("SELECT 1 FROM shares WHERE population = %s FOR UPDATE", [town.full("tangled")])
            waiting = pool.submit(wish.send, caller, i)  # it has the account, and waits for the share
            wait_for(lambda: other.execute(WAITING).fetchone() == (1,), "it waits")
            # Whoever has waited for a second looks for a deadlock, once: on a busy machine it may have looked before
            # there is one, and then it is this connection that gives way.
            with suppress(psycopg.errors.DeadlockDetected):
                other.execute("SELECT 1 FROM populations WHERE name = %s FOR UPDATE", [town.full("tangled")])
                gave_way = True
            other.rollback()
            received = waiting.result(scaled(30))
            assert received.status_code == 201, describe(received)
            wish.settle(caller, i, received, "deadlock")
            if gave_way:
                break
        assert gave_way
    assert len(town.audit("tangled").charges) == i


@pytest.mark.parametrize("fate", [NEVER_SENT, LATE, UNANSWERED])
def test_a_commit_whose_answer_is_lost_is_neither_undone_nor_done_again(postgres_town: Deployment, fate: str) -> None:
    town = postgres_town
    with DatabaseProxy(town.url or "") as proxy:
        with town.call(town.serve(CURATOR_DATABASE_URL=proxy.url)) as caller:
            for make_wish in SOME_WISHES:
                name = make_wish.__name__
                wish = make_wish(town.open_account(name), caller)
                for commit in (1, 2) if name in RESERVED_FIRST else (1,):
                    proxy.cut(fate, commit)
                    received, _ = disturb(town, caller, wish, commit, "none", 0)
                    assert proxy.was_cut
                    place = f"{name}, commit {commit}: {describe(received)}"
                    assert received.status_code in {200, 201, 202} or slug(received) == "busy", place
                    wish.settle(caller, commit, received, place)
                    wish.check(town.look(name), commit, place)
                close_reservations(town, caller, name)
        town.servers[0].terminate()
    for make_wish in SOME_WISHES:
        town.audit(make_wish.__name__)


def test_a_commit_whose_outcome_is_not_known_is_looked_up(town: Deployment) -> None:
    with town.call(town.serve()) as caller:
        for make_wish in SOME_WISHES:
            name = make_wish.__name__
            wish = make_wish(town.open_account(name), caller)
            for i, at in enumerate(("after commit", "after commit 2") if name in RESERVED_FIRST else ("after commit",)):
                received, step = disturb(town, caller, wish, i, "lose", at)
                assert step
                wish.settle(caller, i, received, f"{name} {step}")
                wish.check(town.look(name), i + 1, f"{name} {step}")
            close_reservations(town, caller, name)
    for make_wish in SOME_WISHES:
        town.audit(make_wish.__name__)


def test_a_charge_whose_outcome_is_not_known_is_never_given_back(town: Deployment) -> None:
    """A job is charged, and neither its commit nor the question about it is answered; then all is as it was."""
    path = town.open_account("unknown")
    with town.call(town.serve()) as caller:
        wish = ball_release(path, caller)
        received, step = disturb(town, caller, wish, 1, "lose", ["after commit 2", "before SELECT idempotency_keys 2"])
        assert step.endswith("before SELECT idempotency_keys 2 struck")
        assert received is not None
        assert slug(received) == "busy", describe(received)
        wish.settle(caller, 1, received, step)
        wish.check(town.look("unknown"), 1, step)
    town.audit("unknown")


def test_connections_that_end_again_and_again_under_load_lose_no_charge_and_invent_none(
    postgres_town: Deployment, record_property: Callable[[str, object], None]
) -> None:
    town, path = postgres_town, postgres_town.open_account("ended")
    server, ended = town.serve(), 0
    crowd, end = Crowd(town, [server], path, LOAD_S), time.monotonic() + LOAD_S
    with psycopg.connect(service_url(town.url or ""), autocommit=True) as other:
        while time.monotonic() < end:
            ended += len(
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'curator-%' AND datname = current_database() "
                    "AND random() < 0.3"  # others live on: how long a unit of work takes is the machine's matter
                ).fetchall()
            )
            pause(0.03)
    sent, books = crowd.settle(server, "ended")
    record_property("connections", ended)
    print(f"{ended} connections ended, {len(sent)} requests, {len(books.charges)} charges")
    assert any(submission.status == 503 for submission in sent), "nobody was disturbed"
    assert any(submission.status == 201 for submission in sent), "nobody was served"


# --- The embedded database, while another process writes


@contextmanager
def write_lock(town: Deployment) -> Iterator[None]:
    """Hold the embedded database's write lock, as another process may."""
    file = town.world.settings.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")


def test_whoever_finds_the_embedded_database_locked_is_asked_to_come_again(embedded_town: Deployment) -> None:
    town = embedded_town
    with town.call(town.serve(**{PATIENCE_VARIABLE: "100"})) as caller:
        for make_wish in WISHES:
            name = make_wish.__name__
            wish = make_wish(town.open_account(name), caller)
            with write_lock(town):
                received = wish.send(caller, 1)
                assert slug(received) == "busy", f"{name}: {describe(received)}"
                assert received.headers["retry-after"] == "1"
                wish.check(town.look(name), 0, name)
            wish.settle(caller, 1, received, name)
            wish.check(town.look(name), 1, name)
            close_reservations(town, caller, name)
    for make_wish in WISHES:
        town.settle(make_wish.__name__)


@pytest.mark.parametrize("headers", [{}, ASYNC], ids=["reserved_first", "job"])
def test_a_reservation_that_cannot_be_posted_for_a_lock_is_given_back_and_charged_once(
    embedded_town: Deployment, headers: dict[str, str]
) -> None:
    town, path = embedded_town, embedded_town.open_account("locked")
    with town.call(town.serve(**{PATIENCE_VARIABLE: "100"})) as caller, ThreadPoolExecutor(1) as pool:
        trace = town.trace()
        order = {"at": "after draw", "action": "sleep", "seconds": 0.3, "trace": str(trace)}
        sent = pool.submit(caller.post, f"{path}/releases", ball(), "the-key", order=order, headers=headers)
        wait_for(lambda: any("after draw" in line for line in read_steps(trace)), "it was drawn")
        with write_lock(town):
            received = sent.result(scaled(10))
            assert slug(received) == "busy" or headers, describe(received)
            wait_for_end(trace)
            assert town.look("locked").pending > 0
        answer = caller.insist(f"{path}/releases", ball(), "the-key", headers=headers)
        assert answer.status_code == 201
    books = town.settle("locked")
    assert len(books.charges) == len(books.of_kind("void")) == 1


def test_many_who_find_the_embedded_database_locked_wait_no_longer_than_one(embedded_town: Deployment) -> None:
    town, path, patience_s = embedded_town, embedded_town.open_account("locked"), 0.3
    server = town.serve(**{PATIENCE_VARIABLE: str(int(1000 * patience_s))})
    callers = [town.call(server) for _ in range(8)]

    def wait(caller: Caller, key: str) -> Callable[[], tuple[str, float]]:
        def send() -> tuple[str, float]:
            start = time.monotonic()
            return slug(caller.post(f"{path}/releases", box(), key)), time.monotonic() - start

        return send

    with write_lock(town):
        told = at_once(*(wait(caller, f"key-{i}") for i, caller in enumerate(callers)))
    for caller in callers:
        caller.close()
    assert {name for name, _ in told} == {"busy"}
    assert max(waited for _, waited in told) < 3 * scaled(patience_s), sorted(waited for _, waited in told)
    assert town.audit("locked").charges == []
