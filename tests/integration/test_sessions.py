"""Threshold sessions: opened and charged whole, asked, ended; nothing about rows leaves but the answers."""

from typing import Any

from support import Api, World, ZeroNoise, problem

SESSIONS = "/v1/datasets/cohort/sessions"
ASKED: dict[str, Any] = {"positives": 2, "direction": "above", "price": {"epsilon": 0.1}}


def question(threshold: float, **more: Any) -> dict[str, Any]:
    """Return a question about the number of rows."""
    return {"threshold": threshold, **more}


def open_session(api: Api, key: str = "open", **changes: Any) -> dict[str, Any]:
    answer = api.post(SESSIONS, json=ASKED | changes, key=key)
    assert answer.status_code == 201, answer.text
    opened: dict[str, Any] = answer.json()
    return opened


def ask(api: Api, session: dict[str, Any], key: str, threshold: float, **more: Any) -> dict[str, Any]:
    answer = api.post(f"/v1/sessions/{session['id']}/questions", json=question(threshold, **more), key=key)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_questions_cost_nothing_and_the_last_positive_answer_ends_a_session(both: World) -> None:
    both.noise = ZeroNoise()
    api = both.api()
    opened = open_session(api)
    spent = both.account().posted
    assert spent > 0
    told = [ask(api, opened, f"q{i}", threshold)["is_positive"] for i, threshold in enumerate((500, 80, 200, 10))]
    assert told == [False, True, False, True]
    ended = api.post(f"/v1/sessions/{opened['id']}/questions", json=question(5), key="q9")
    problem(ended, "session-ended", 409)
    assert both.account().posted == spent
    assert both.curator.ledger.verify("town").ok
    assert both.discrepancies() == []
    shown = api.get(f"/v1/sessions/{opened['id']}").json()
    assert [one["is_positive"] for one in shown["questions"]] == told
    assert (shown["is_open"], shown["positives_left"]) == (False, 0)


def test_a_key_gives_its_answer_for_ever(world: World) -> None:
    api = world.api()
    opened = open_session(api)
    first = ask(api, opened, "q", 80)
    ask(api, opened, "r", 80)
    assert ask(api, opened, "q", 80) == first
    assert open_session(api) == opened
    reused = api.post(f"/v1/sessions/{opened['id']}/questions", json=question(81), key="q")
    problem(reused, "idempotency-key-reused", 422)
