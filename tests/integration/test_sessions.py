"""Threshold sessions: opened and charged whole, asked, ended; nothing about rows leaves but the answers."""

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import ROWS, Api, World, ZeroNoise, open_world, problem
from test_versions import cut, register

from curator_service.backup import write_backup
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution
from curator_service.sessions.service import SessionService

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
    assert api.get(f"/v1/sessions/{opened['id']}?after={2**62}").json()["questions"] == []


def test_a_key_gives_its_answer_for_ever(world: World) -> None:
    api = world.api()
    opened = open_session(api)
    first = ask(api, opened, "q", 80)
    ask(api, opened, "r", 80)
    assert ask(api, opened, "q", 80) == first
    assert open_session(api) == opened
    reused = api.post(f"/v1/sessions/{opened['id']}/questions", json=question(81), key="q")
    problem(reused, "idempotency-key-reused", 422)


def test_questions_are_bounded_for_a_day(tmp_path: Path) -> None:
    with open_world(tmp_path, keys_per_day=4) as world:
        api = world.api()
        opened = open_session(api)
        for number in range(3):
            ask(api, opened, f"q{number}", 10**6)
        refused = api.post(f"/v1/sessions/{opened['id']}/questions", json=question(10**6), key="q9")
        problem(refused, "too-many-requests", 429)
        assert len(api.get(f"/v1/sessions/{opened['id']}").json()["questions"]) == 3
        assert world.curator.ledger.verify("town").ok


def test_a_cut_ends_a_session_whether_rows_changed_or_not(both: World) -> None:
    api = both.api()
    opened = open_session(api)
    ask(api, opened, "q", 10**6)
    both.clock.advance(days=31)
    both.curator.versions.cut_due()
    problem(api.post(f"/v1/sessions/{opened['id']}/questions", json=question(1), key="r"), "session-ended", 409)
    assert api.get(f"/v1/sessions/{opened['id']}").json()["is_open"] is False
    assert both.curator.ledger.verify("town").ok


class SetNoise:
    """Noise that a test sets, and what was asked of it."""

    def __init__(self) -> None:
        self.next = 0
        self.asked: list[tuple[Distribution, list[int]]] = []

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        self.asked.append((distribution, [*scales]))
        return [self.next for _ in scales]


@pytest.mark.parametrize(("direction", "positives"), [("above", 1), ("any", 7)])
def test_every_draw_has_the_scale_that_was_charged(world: World, direction: str, positives: int) -> None:
    """One for the threshold when a session is opened, and a fresh one for each question: what the entry states."""
    world.noise = noise = SetNoise()
    api = world.api()
    opened = open_session(api, direction=direction, positives=positives)
    laplace = Distribution.DISCRETE_LAPLACE
    assert noise.asked == [(laplace, [int(opened["threshold_scale"])])]
    thresholds = [10**6, 10**6, 1, 1][: 2 + positives]
    told = [ask(api, opened, f"q{i}", at, direction="above")["is_positive"] for i, at in enumerate(thresholds)]
    assert told == [False, False, True, True][: 2 + positives]
    assert noise.asked[1:] == len(told) * [(laplace, [int(opened["question_scale"])])]
    (stated,) = [entry for entry in world.entries() if entry["kind"] == "session"]
    scales = [int(stated[name]) for name in ("threshold_scale", "question_scale")]
    assert scales == [int(opened[name]) for name in ("threshold_scale", "question_scale")]
    step = (2**17 - 1) ** 2
    k = 1 if direction == "above" else 2
    epsilon = Fraction(step, scales[0]) + Fraction(k * positives * step, scales[1])
    assert epsilon <= Fraction(1, 10)
    accountant = world.curator.datasets.list_all()[0].accountant
    assert int(stated["units"]) == math.ceil(accountant.laplace(epsilon) * 10**12) == world.account().posted
    open_session(api, "another", direction=direction, positives=positives)
    assert noise.asked[1 + len(told) :] == noise.asked[:1]


@pytest.mark.parametrize(("threshold_noise", "question_noise"), [(0, 0), (5, 0), (0, 5), (7, 7), (-3, 0), (0, -3)])
@pytest.mark.parametrize("direction", ["above", "below"])
def test_an_answer_is_yes_where_number_and_noise_reach_threshold_and_noise(
    world: World, direction: str, threshold_noise: int, question_noise: int
) -> None:
    """Of 80 rows: a noise that is left out, or has the other sign, answers otherwise."""
    step = (2**17 - 1) ** 2
    world.noise = noise = SetNoise()
    noise.next = threshold_noise * step
    api = world.api()
    opened = open_session(api, direction=direction, positives=50)
    noise.next = question_noise * step
    sign = 1 if direction == "above" else -1
    edge = 80 + sign * (question_noise - threshold_noise)
    assert ask(api, opened, "at", edge)["is_positive"] is True
    assert ask(api, opened, "beyond", edge + sign)["is_positive"] is False


def test_a_person_of_two_rows_moves_a_question_twice_as_far(world: World) -> None:
    register(world, "visits")
    asked = [world.api().post(f"/v1/datasets/{name}/sessions/quotes", json=ASKED) for name in ("visits", "cohort")]
    of_two, of_one = (answer.json() for answer in asked)
    assert int(of_two["sensitivity"]) == 2 * int(of_one["sensitivity"]) == 2 * (2**17 - 1) ** 2
    assert int(of_two["question_scale"]) >= 2 * int(of_one["question_scale"]) - 2


def test_a_session_of_one_direction_is_refused_where_people_are_replaced(tmp_path: Path) -> None:
    """A person in another's place may raise one number and lower the next."""
    with open_world(tmp_path, adjacency=Adjacency.REPLACE_ONE) as world:
        for direction in ("above", "below"):
            answer = world.api().post(SESSIONS, json=ASKED | {"direction": direction}, key=direction)
            found = problem(answer, "request-invalid", 422)
            assert [error["pointer"] for error in found["errors"]] == ["/direction"]
        open_session(world.api(), direction="any")


@pytest.mark.parametrize("end", ["a cut", "the last positive answer"])
def test_the_chain_ends_a_session_whatever_a_first_look_says(
    world: World, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    world.noise = ZeroNoise()
    api = world.api()
    opened = open_session(api, positives=1)
    rows = world.sql("SELECT session_id, key_id, sealed FROM session_noise")
    if end == "a cut":
        cut(world)
    else:
        ask(api, opened, "last", 1)
        world.sql(f"INSERT INTO session_noise VALUES {rows[0]!r}")
    before = len(world.entries())
    monkeypatch.setattr(SessionService, "_check_open", lambda *_: None)
    problem(api.post(f"/v1/sessions/{opened['id']}/questions", json=question(1), key="more"), "session-ended", 409)
    assert len(world.entries()) == before


def test_a_backup_has_no_noise(world: World, tmp_path: Path) -> None:
    """What was answered since it was written is not known: a restored curator goes on with no session."""
    api = world.api()
    opened = open_session(api)
    ask(api, opened, "q", 10**6)
    file = tmp_path / "backup.tar"
    stored = write_backup(world.curator, file)["rows"]
    assert "session_noise" not in stored
    assert (stored["sessions"], stored["session_questions"]) == (1, 1)
    ((sealed,),) = world.sql("SELECT sealed FROM session_noise")
    assert sealed.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"positives": 0}, "/positives"),
        ({"positives": 1001}, "/positives"),
        ({"direction": "sideways"}, "/direction"),
        ({"price": {"mu": 0.1}}, "/price"),
        ({"price": {"epsilon": 0.1, "delta": 1e-6}}, "/price"),
        ({"price": {"epsilon": 1e-9}}, "/price"),
    ],
)
def test_a_session_that_means_nothing_is_refused_at_its_place(
    world: World, changes: dict[str, Any], place: str
) -> None:
    for end in ("", "/quotes"):
        answer = world.api().post(f"{SESSIONS}{end}", json=ASKED | changes, key="k")
        found = problem(answer, "request-invalid", 422)
        assert [error["pointer"] for error in found["errors"]] == [place], found
    assert world.account().posted == 0


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ({"threshold": -1}, "/threshold"),
        ({"threshold": 5, "direction": "below"}, "/direction"),
        ({"threshold": 0.5, "share": True, "weight": {"divide": ["kappa", 6]}}, "/share"),
        ({"threshold": 5, "where": "age"}, "/where"),
        ({"threshold": 5, "where": {"greater": ["hair", 2]}}, "/where/greater/0"),
        ({"threshold": 5, "weight": "age"}, "/weight"),
        ({}, "/threshold"),
    ],
)
def test_a_question_that_means_nothing_is_refused_at_its_place(world: World, asked: dict[str, Any], place: str) -> None:
    api = world.api()
    opened = open_session(api)
    answer = api.post(f"/v1/sessions/{opened['id']}/questions", json=asked, key="q")
    found = problem(answer, "request-invalid", 422)
    assert [error["pointer"] for error in found["errors"]] == [place], found
    assert api.get(f"/v1/sessions/{opened['id']}").json()["questions"] == []


def test_a_share_is_that_of_the_rows_of_its_condition(world: World) -> None:
    world.noise = ZeroNoise()
    api = world.api()
    opened = open_session(api, direction="any", positives=9)
    weight = {"divide": ["kappa", 6]}
    rows = [float(row["kappa"]) / 6 for row in ROWS if row["sex"] == "F"]
    mean = sum(min(max(value, 0.0), 1.0) for value in rows) / len(rows)
    where = {"in": ["sex", ["F"]]}
    for number, (offset, direction, holds) in enumerate(
        [(-0.01, "above", True), (0.01, "above", False), (0.01, "below", True), (-0.01, "below", False)]
    ):
        told = ask(
            api, opened, f"q{number}", mean + offset, share=True, weight=weight, where=where, direction=direction
        )
        assert told["is_positive"] is holds, (offset, direction)


@pytest.mark.parametrize("times", [1, 3])
def test_a_condition_is_a_weight_of_1_or_0(world: World, times: int) -> None:
    """So the share of rows in which something holds is asked for as such."""
    world.noise = ZeroNoise()
    api = world.api()
    opened = open_session(api, direction="any")
    high = {"greater": ["kappa", 3]}
    share = sum(float(row["kappa"]) > 3 for row in ROWS) / len(ROWS)
    weight = high if times == 1 else {"and": [high] * times}
    asked = {"weight": weight, "share": True, "direction": "above"}
    found = [ask(api, opened, f"q{i}", share + more, **asked) for i, more in enumerate((0.01, -0.01))]
    assert [one["is_positive"] for one in found] == [False, True]
