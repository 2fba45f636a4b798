"""Attacks on threshold sessions: each test states a promise that somebody may try to break."""

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest
from failpoints import Killed, Run, running
from scenes import assert_sound
from support import Api, World, ZeroNoise, open_world, problem
from test_sessions import ASKED, SESSIONS, ask, open_session, question
from test_versions import cut

from curator_service.container import make_curator
from curator_service.entries.sessions import AnswerQuestion, CloseSession
from curator_service.kinds.wide import WideKernel
from curator_service.kit import db
from curator_service.kit.db import Connection, Statement
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.trust.anchor import Anchor, AnchorError
from curator_service.ledger.trust.histories import read_histories
from curator_service.ledger.trust.recovery import reconcile
from curator_service.privacy.accountant import ACCOUNTANTS, Accountant, Price
from curator_service.privacy.lattice import MISSING, STORED_UNIT
from curator_service.privacy.thresholds import SessionNoise, plan_session
from curator_service.sessions.questions import STEP, _whole, read_question
from curator_service.sessions.schemas import QuestionRequest
from curator_service.settings import Settings

pytestmark = pytest.mark.crashes
YES, NO = 10, 500
"""Thresholds, where there is no noise."""
SMALL: dict[str, Any] = {"price": {"epsilon": 0.02}}


def send(api: Api, opened: dict[str, Any], key: str, threshold: float, **more: Any) -> httpx.Response:
    return api.post(f"/v1/sessions/{opened['id']}/questions", json=question(threshold, **more), key=key)


def answers(world: World) -> Counter[str]:
    """Return how many answers the chain has."""
    return Counter(entry["answer"] for entry in world.entries() if entry["kind"] == "answer")


def close(api: Api, opened: dict[str, Any]) -> httpx.Response:
    return api.request("DELETE", f"/v1/sessions/{opened['id']}")


def end_by_cut(world: World) -> None:
    cut(world)


def end_by_reconciliation(world: World) -> None:
    reconcile(world.curator.ledger, actor="operator:test", anchor_lost=False)


# --- What the answer is shows by the answer alone


def test_no_positive_answer_shows_by_an_error_and_is_not_counted(town: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may write tables as the service does keeps a row locked, and an analyst asks: nothing tells yes from no."""
    impatient = db._POSTGRES_WRITE.replace(f"lock_timeout = {db.BUSY_TIMEOUT_MS}", "lock_timeout = 500")
    monkeypatch.setattr(db, "_POSTGRES_WRITE", impatient)  # the attack is as good after 30 seconds
    town.noise = ZeroNoise()
    api = town.api()
    opened = open_session(api, positives=1)
    assert town.served is not None
    with psycopg.connect(str(town.served.database_url)) as intruder:
        intruder.execute("DELETE FROM session_noise")
        told = {threshold: send(api, opened, f"q{threshold}", threshold).status_code for threshold in (NO, 81, YES)}
        intruder.rollback()
    assert set(told.values()) == {201}, told
    assert answers(town)["positive"] == 1


def test_an_answer_takes_the_same_statements_whatever_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock, a full disk or a kill at a statement before the commit that yes alone has would tell it, uncounted."""
    world.noise = ZeroNoise()
    api, ran = world.api(), []
    sessions = [open_session(api, f"open-{threshold}", positives=1, **SMALL) for threshold in (YES, NO)]

    def follow(of: type, name: str) -> None:
        run: Callable[..., Any] = getattr(of, name)
        monkeypatch.setattr(of, name, lambda self, *a, **k: (ran.append(name), run(self, *a, **k))[1])

    for name in ("execute", "first", "all", "changed"):
        follow(Statement, name)
    follow(Connection, "commit")
    took = []
    for opened, threshold in zip(sessions, (YES, NO), strict=True):
        ran.clear()
        ask(api, opened, f"ask-{threshold}", threshold)
        assert "commit" in ran
        took.append(ran[: ran.index("commit")])
    assert took[0] == took[1]


def test_an_entry_has_the_same_size_whatever_the_answer(world: World) -> None:
    """The size of a transaction that was undone stays to be seen in the log of a server."""
    world.noise = ZeroNoise()
    api = world.api()
    sessions = [open_session(api, f"open-{threshold}", **SMALL) for threshold in (YES, NO)]
    for opened, threshold in zip(sessions, (YES, NO), strict=True):
        ask(api, opened, f"ask-{threshold}", threshold)
    stored = world.sql('SELECT length(payload) FROM ledger_entries WHERE payload LIKE \'%"kind":"answer"%\'')
    assert len(stored) == 2
    assert len({*stored}) == 1


def fail_to_move(*_: Any, **__: Any) -> None:
    raise AnchorError("the anchor's disk is full")


def test_no_answer_leaves_before_the_anchor_by_a_page_of_the_chain(world: World) -> None:
    """The entry of an answer says it, as that of a release does not."""
    world.noise = ZeroNoise()
    api = world.api()
    opened = open_session(api, positives=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Anchor, "move", fail_to_move)
        problem(send(api, opened, "last", YES), "busy", 503)
        shown = world.api("audra").get("/v1/ledger/town")
    assert '"answer":"positive"' not in shown.text


def test_no_answer_leaves_before_the_anchor_by_the_history_of_its_session(world: World) -> None:
    """Else a database that is wound back to before it, which the anchor does not contradict, answers once more."""
    world.noise = ZeroNoise()
    api = world.api()
    opened = open_session(api, positives=1)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Anchor, "move", fail_to_move)
        problem(send(api, opened, "last", YES), "busy", 503)
        shown = api.get(f"/v1/sessions/{opened['id']}")
    assert shown.status_code == 503 or shown.json()["questions"] == [], shown.text
    assert shown.status_code == 503 or shown.json()["positives_left"] == 1


def test_a_page_of_a_session_may_begin_after_any_number(both: World) -> None:
    api = both.api()
    opened = open_session(api)
    assert api.get(f"/v1/sessions/{opened['id']}?after={2**40}").json()["questions"] == []


# --- A session that has ended has ended


@pytest.mark.parametrize("end", [end_by_cut, end_by_reconciliation])
def test_closing_a_session_that_has_ended_does_not_break_the_ledger(world: World, end: Callable[[World], None]) -> None:
    api = world.api()
    opened = open_session(api)
    end(world)
    answer = close(api, opened)
    found = world.curator.ledger.verify("town")
    assert found.ok, found.reason
    problem(answer, "session-ended", 409)


def test_noise_that_is_put_back_does_not_close_a_session_twice(world: World) -> None:
    world.noise = ZeroNoise()
    api = world.api()
    opened = open_session(api, positives=1)
    ((key_id, sealed),) = world.sql("SELECT key_id, sealed FROM session_noise")
    ask(api, opened, "last", YES)
    world.sql(f"INSERT INTO session_noise VALUES ('{opened['id']}', '{key_id}', '{sealed}')")
    problem(send(api, opened, "one-more", YES), "session-ended", 409)
    close(api, opened)
    found = world.curator.ledger.verify("town")
    assert found.ok, found.reason


@pytest.mark.parametrize("end", [end_by_cut, end_by_reconciliation])
def test_a_session_that_has_ended_is_not_listed_as_open(world: World, end: Callable[[World], None]) -> None:
    api = world.api()
    opened = open_session(api)
    end(world)
    assert api.get(f"/v1/sessions/{opened['id']}").json()["is_open"] is False
    assert api.get("/v1/sessions").json()["sessions"] == []


def test_closing_under_a_seal_is_a_documented_refusal(world: World) -> None:
    api = world.api()
    opened = open_session(api)
    world.curator.ledger.guard.seal("a test")
    problem(close(api, opened), "ledger-unverified", 503)


def test_positives_of_a_copied_database_are_none_or_accounted_for(tmp_path: Path) -> None:
    """A copy of all files, with keys and anchor, goes on beside the original; its whole history is brought later."""
    with open_world(tmp_path, limit=Price(mu=1.0)) as world:
        world.noise = ZeroNoise()
        opened = open_session(world.api(), positives=1)
        spent = world.account().posted
        for curator in (world.curator, *(app.state.curator for app in world.apps)):
            curator.database.dispose()
        folder, anchor = world.folder / "copied", world.folder / "copied-anchor"
        shutil.copytree(world.settings.data_dir, folder)
        shutil.copytree(world.settings.anchor_folder, anchor)
        settings = Settings(data_dir=folder, keys_dir=world.settings.keys_folder, anchor_dir=anchor)
        copied = make_curator(settings, noise=ZeroNoise(), now=world.clock)
        copy = World(settings, copied, world.clock, world.folder, ZeroNoise(), dict(world.tokens))
        try:
            assert copied.ledger.guard.start() == ""
            asked = zip((copy, world), (YES, YES + 1), strict=True)
            there, here = (send(one.api(), opened, "ask", threshold).status_code for one, threshold in asked)
            histories = read_histories(world.curator.ledger, copied.ledger)
            people = {"actor": "operator:test", "approved_by": "operator:other"}
            anchors = [copied.ledger.guard.anchor]
            reconcile(world.curator.ledger, anchors=anchors, histories=histories, anchor_lost=False, **people)
        finally:
            copy.close()
        assert (there, here) != (201, 201) or world.account().posted > spent


# --- Whose it is


def test_a_key_in_the_tables_shows_no_other_analysts_session(world: World) -> None:
    ben, ada = world.api("ben"), world.api()
    other, own = open_session(ben), open_session(ada, key="own")
    ((sequence,),) = world.sql(f"SELECT sequence FROM sessions WHERE id = '{other['id']}'")
    world.sql(
        "INSERT INTO idempotency_keys (principal_id, key, fingerprint, population, sequence) SELECT principal_id, "
        f"'forged', fingerprint, 'town', {sequence} FROM idempotency_keys WHERE key = 'own'"
    )
    shown = ada.post(SESSIONS, json=ASKED, key="forged")
    assert other["id"] not in shown.text
    assert own["id"] != other["id"]


def test_a_key_in_the_tables_that_names_another_entry_is_no_internal_error(world: World) -> None:
    api = world.api()
    open_session(api, key="own")
    world.sql(
        "INSERT INTO idempotency_keys (principal_id, key, fingerprint, population, sequence) SELECT principal_id, "
        "'forged', fingerprint, 'town', 1 FROM idempotency_keys WHERE key = 'own'"
    )
    assert api.post(SESSIONS, json=ASKED, key="forged").status_code != 500


def test_a_permit_that_has_ended_is_a_clean_refusal_whatever_other_permit_there_is(world: World) -> None:
    api = world.api()
    opened = open_session(api)
    world.permit("kidney")
    (dataset,) = [found for found in world.curator.datasets.list_all() if found.name == "cohort"]
    world.end_grant("ada", dataset.id)
    refused = send(api, opened, "ask", YES)
    assert world.curator.ledger.guard.reason() == ""
    assert refused.status_code in {403, 409}, refused.text


# --- What a moment's error, or many questions, may not do


def test_an_error_while_a_chain_is_read_does_not_seal_the_curator(world: World) -> None:
    """What a process knows of a chain is brought up to date whole, or not at all."""
    api, other = world.api(), world.api()
    opened = open_session(api)
    ask(other, opened, "here", NO)
    for i in range(3):
        ask(api, opened, f"elsewhere-{i}", NO)
    trust = other.app.state.curator.ledger.guard.trust
    holds = trust.holds

    def fail_at(place: int) -> Callable[[Receipt], bool]:
        count: list[Receipt] = []

        def check(receipt: Receipt) -> bool:
            count.append(receipt)
            if len(count) == place:
                raise sqlite3.OperationalError("disk I/O error")
            return bool(holds(receipt))

        return check

    for place in range(1, 9):
        trust.holds = fail_at(place)
        send(other, opened, f"failing-{place}", NO)
        trust.holds = holds
        assert send(other, opened, f"after-{place}", NO).status_code == 201, place
        ask(api, opened, f"elsewhere-after-{place}", NO)
    assert world.curator.ledger.guard.reason() == ""


def test_an_answer_is_as_much_work_whatever_was_asked_before(world: World) -> None:
    """Questions are free, so a session has any number of them."""
    api, works, read = world.api(), [], []
    opened = open_session(api)

    def count_work(of: Api) -> None:
        trust = of.app.state.curator.ledger.guard.trust
        holds = trust.holds

        def count(receipt: Receipt) -> bool:
            read.append(receipt)
            return bool(holds(receipt))

        trust.holds = count

    count_work(api)
    for i in range(30):
        read.clear()
        ask(api, opened, f"ask-{i}", NO)
        works.append(len(read))
    assert works[-1] <= works[2] + 2, works
    another = world.api()
    count_work(another)
    for act in (lambda: open_session(another, "another", **SMALL), lambda: ask(another, opened, "there", NO)):
        read.clear()
        act()
        assert len(read) <= works[0] + 8, len(read)


def without_triggers(world: World, *acts: str) -> None:
    found = [row[0] for row in world.sql("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    world.sql("PRAGMA foreign_keys = OFF", *(f"DROP TRIGGER {name}" for name in found), *acts)


def test_answers_that_are_gone_from_the_chain_are_not_given_again(world: World) -> None:
    """Whoever may change the tables could take answers away, and have one more that is positive."""
    world.noise = ZeroNoise()
    api = world.api()
    opened = open_session(api)
    for key, threshold in (("first", NO), ("yes", YES), ("last", NO)):
        ask(api, opened, key, threshold)
    at = world.entries()[-1]["sequence"]
    open_session(api, "after", **SMALL)
    without_triggers(
        world,
        f"UPDATE ledger_entries SET payload = '{{}}' WHERE sequence IN ({at - 1}, {at})",
        "DELETE FROM session_questions WHERE number > 1",
    )
    problem(send(api, opened, "more", YES), "ledger-unverified", 503)
    assert world.curator.ledger.guard.reason()


@pytest.mark.parametrize("act", ["DELETE FROM ledger_entries", "UPDATE ledger_entries SET payload = '{}'"])
def test_answers_that_are_gone_are_not_given_again_by_a_process_that_saw_none(world: World, act: str) -> None:
    """It has only the chain to go by, and its start was before."""
    world.noise = ZeroNoise()
    api, other = world.api(), world.api()
    opened = open_session(api, positives=1)
    noise = world.sql("SELECT session_id, key_id, sealed FROM session_noise")
    ask(api, opened, "last", YES)
    open_session(api, "after", **SMALL)
    assert not other.app.state.curator.start()
    without_triggers(
        world,
        f"""{act} WHERE payload LIKE '%"kind":"answer"%'""",
        "DELETE FROM session_questions",
        *(f"INSERT INTO session_noise VALUES {row}" for row in noise),
    )
    problem(send(other, opened, "more", YES), "ledger-unverified", 503)
    assert world.curator.ledger.guard.reason()


def test_answers_that_nobody_signed_are_found(world: World) -> None:
    api = world.api()
    opened = open_session(api)
    ask(api, opened, "first", NO)
    of_first = world.entries()[-1]["sequence"]
    open_session(api, "after", **SMALL)
    open_session(api, "head", **SMALL)
    forged = f"""replace(replace((SELECT payload FROM ledger_entries WHERE sequence = {of_first}),
        '"number":1', '"number":7'), '"sequence":{of_first}', '"sequence":{of_first + 1}')"""
    without_triggers(world, f"UPDATE ledger_entries SET payload = {forged} WHERE sequence = {of_first + 1}")
    problem(send(api, opened, "second", NO), "ledger-unverified", 503)


def test_a_quote_is_little_work_at_any_price() -> None:
    priced = []

    class Counted(SessionNoise):
        def cost(self, accountant: Accountant) -> int:
            priced.append(self)
            return super().cost(accountant)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("curator_service.privacy.thresholds.SessionNoise", Counted)
        plan_session(ACCOUNTANTS["gdp"], Price(epsilon=4.3e-6), sensitivity=STEP, positives=1, is_monotone=True)
    assert len(priced) < 200


# --- Attacks that failed


def test_one_positive_answer_is_given_once_to_many_at_once(both: World) -> None:
    both.noise = ZeroNoise()
    opened = open_session(both.api(), positives=1)
    clients = [both.api() for _ in range(6)]
    with ThreadPoolExecutor(len(clients)) as pool:
        found = list(pool.map(lambda one: send(one[1], opened, f"ask-{one[0]}", YES), enumerate(clients)))
    assert Counter(one.status_code for one in found) == {201: 1, 409: 5}
    assert_sound(both)


def test_a_process_that_is_killed_at_any_step_gives_one_answer_and_no_more(tmp_path: Path) -> None:
    with open_world(tmp_path, limit=Price(epsilon=20.0, delta=1e-6)) as world:
        world.noise = ZeroNoise()
        at, lived = 0, False
        while not lived:
            opened = open_session(world.api(), f"open-{at}", positives=1, **SMALL)
            run, key = Run(at), f"ask-{at}"
            with running(run):
                try:
                    send(world.api(), opened, key, YES)
                except (Killed, BaseExceptionGroup):
                    assert run.is_dead
            lived = not run.is_dead
            assert ask(world.api(), opened, key, YES)["is_positive"]
            assert ask(world.api(), opened, key, YES)["number"] == 1
            problem(send(world.api(), opened, f"more-{at}", YES), "session-ended", 409)
            while world.apps:
                world.apps.pop().state.curator.close()
                world.apis.pop().close()
            at += 1
        assert answers(world) == {"positive": at}
        assert_sound(world)


def test_a_chain_with_a_positive_answer_too_many_is_refused(world: World) -> None:
    world.noise = ZeroNoise()
    api = world.api()
    opened = open_session(api, positives=1)
    ask(api, opened, "last", YES)
    with world.curator.ledger.unit() as ledger:
        head = ledger.next("town")
        said = {"actor": "prn_x", "time": "2026-03-01T12:00:00Z", "session": opened["id"]}
        ledger.record(
            head, AnswerQuestion(**said, number=2, positives=1, question_digest="0" * 64, answer="positive"), 0
        )
    assert not world.curator.ledger.verify("town").ok


def test_a_chain_with_an_answer_after_a_close_is_refused(world: World) -> None:
    opened = open_session(world.api())
    said = {"actor": "prn_x", "time": "2026-03-01T12:00:00Z", "session": opened["id"]}
    with world.curator.ledger.unit() as ledger:
        ledger.record(ledger.next("town"), CloseSession(**said, holder="prn_x"), 0)
    assert world.curator.ledger.verify("town").ok
    with world.curator.ledger.unit() as ledger:
        answer = AnswerQuestion(**said, number=1, positives=0, question_digest="0" * 64, answer="negative")
        ledger.record(ledger.next("town"), answer, 0)
    assert not world.curator.ledger.verify("town").ok


def test_noise_of_another_session_or_of_no_key_is_none(world: World) -> None:
    api = world.api()
    opened, other = open_session(api), open_session(api, "other", **SMALL)
    of = dict(world.sql("SELECT session_id, sealed FROM session_noise"))
    ((key_id,),) = world.sql("SELECT DISTINCT key_id FROM session_noise")
    swapped, own = of[other["id"]], of[opened["id"]]
    forged = [(key_id, swapped), ("../" + key_id, own), ("", ""), (key_id, "AAAA"), ("x" * 40, "=")]
    for i, (key, sealed) in enumerate(forged):
        world.sql(
            f"DELETE FROM session_noise WHERE session_id = '{opened['id']}'",
            f"INSERT INTO session_noise VALUES ('{opened['id']}', '{key}', '{sealed}')",
        )
        problem(send(api, opened, f"ask-{i}", YES), "session-ended", 409)
    assert world.curator.ledger.guard.reason() == ""


@pytest.mark.parametrize(
    "asked",
    [
        {"threshold": 0.3, "share": True, "direction": "above", "weight": {"divide": ["kappa", 6]}},
        {"threshold": 1, "share": True, "direction": "below", "weight": {"divide": ["lambda", 6]}, "where": "frail"},
        {"threshold": 0, "share": True, "direction": "below", "weight": {"divide": ["lambda", 6]}},
        {"threshold": 3.3, "direction": "below", "weight": {"divide": ["lambda", 6]}, "where": {"not": ["frail"]}},
        {"threshold": 1e12, "direction": "above"},
    ],
)
def test_a_row_moves_a_question_by_a_step_at_most(world: World, asked: dict[str, Any]) -> None:
    """Also where it is replaced, and whatever damaged files hold."""
    (dataset,) = [found for found in world.curator.datasets.list_all() if found.name == "cohort"]
    session: Any = SimpleNamespace(direction="any")
    planned = read_question(dataset, session, QuestionRequest.model_validate(asked), 1.0)
    kernel, source, count = planned.kernel, np.random.default_rng(1), 400
    odd = [MISSING, -STORED_UNIT, STORED_UNIT, 0, 1, -1, 7, 2**31 - 1, -(2**31) + 1]
    stored = {name: source.choice(odd, count).astype(np.int32) for name in kernel.columns}
    rows = np.empty((count, kernel.width))
    kernel.map(stored, source.random(count) < 0.8, rows)

    def move(some: Any) -> int:
        sums = _whole(kernel.sum(some))
        assert sums == _whole(WideKernel(kernel).sum(some))
        return sums[0] - planned.threshold * (sums[1] // STEP) if planned.is_share else sums[0]

    moves = [move(rows[i : i + 1]) for i in range(count)]
    assert sum(moves) == move(rows)
    assert max(moves) - min(*moves, 0) <= STEP
    assert planned.is_share or min(moves) >= 0
