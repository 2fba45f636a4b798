"""A person's keeper adds up, refuses, repeats, and keeps no value of a record."""

import json
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from analyst_client.errors import LocalBudgetError, ParticipantFileError
from analyst_client.local import LInfinitySampler, Participant, RandomizedResponse
from analyst_client.local import participant as module

SMOKER = RandomizedResponse({"smoker": ["never-ever", "often-enough"]}, epsilon=1)
AGE = LInfinitySampler({"age": (0, 120)}, epsilon="0.5")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "person" / "privacy.json"


@pytest.fixture
def person(path: Path) -> Participant:
    return Participant(path, limit=2)


def refuse_to_draw(n: int) -> int:
    raise AssertionError("a report was drawn")


class Unread(dict[str, object]):
    """A record that nobody may look at."""

    def __getitem__(self, key: str) -> object:
        raise AssertionError("the record was read")

    __iter__ = __contains__ = keys = items = __getitem__  # type: ignore[assignment]


def test_amounts_of_reports_and_notes_add_up(person: Participant) -> None:
    person.answer(SMOKER, "never-ever")
    person.note("the curator of Olmsted", "0.25")
    person.answer(AGE, 71)
    assert (person.spent, person.remaining, person.limit) == (Fraction(7, 4), Fraction(1, 4), 2)


def test_the_same_question_gets_the_same_report_at_no_cost(person: Participant, path: Path) -> None:
    first = person.answer(SMOKER, "never-ever")
    assert person.answer(SMOKER, "often-enough", below=refuse_to_draw) == first
    again = RandomizedResponse([["smoker", ("never-ever", "often-enough")]], epsilon=Fraction(1))  # type: ignore[arg-type]
    assert Participant(path).answer(again, Unread(), below=refuse_to_draw) == first
    assert person.spent == 1


def test_a_repeated_report_does_not_tell_that_it_is_one(person: Participant) -> None:
    first, again = (json.dumps(person.answer(SMOKER, "never-ever")) for _ in range(2))
    assert first == again
    assert sorted(json.loads(first)) == ["answer", "question", "token"]


def test_a_report_beyond_the_limit_is_refused_before_the_record_is_read(person: Participant, path: Path) -> None:
    person.note("elsewhere", "1.5")
    before = path.read_bytes()
    with pytest.raises(LocalBudgetError, match="costs ε = 1, and 1/2 of the limit 2 remains") as caught:
        person.answer(SMOKER, Unread(), below=refuse_to_draw)
    assert (caught.value.requested, caught.value.remaining) == (1, Fraction(1, 2))
    assert path.read_bytes() == before
    assert person.answer(AGE, 30)  # which fits exactly
    assert person.remaining == 0


def test_a_refusal_does_not_depend_on_the_record(person: Participant) -> None:
    person.note("elsewhere", 2)
    told = set()
    for record in ("never-ever", "often-enough", "no level at all", None):
        with pytest.raises(LocalBudgetError) as caught:
            person.answer(SMOKER, record)
        told.add(str(caught.value))
    assert len(told) == 1


def test_a_record_that_does_not_fit_spends_nothing_and_is_not_shown(person: Participant, path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(ValueError, match="none of its levels") as caught:
        person.answer(SMOKER, "sometimes-secretly")
    assert "sometimes" not in str(caught.value)
    assert path.read_bytes() == before


def test_the_file_holds_reports_and_amounts_alone(person: Participant, path: Path) -> None:
    report = person.answer(AGE, 71.25)
    person.answer(SMOKER, "often-enough")
    text = path.read_text(encoding="utf-8")
    assert "71.25" not in text
    assert "often-enough" not in text
    found = json.loads(text)
    assert sorted(found) == ["elsewhere", "format", "limit", "reports"]
    assert found["reports"][AGE.digest] == {"epsilon": "1/2", "report": report}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_notes_may_go_beyond_the_limit_since_they_are_spent(person: Participant) -> None:
    person.note("elsewhere", 5)
    assert (person.spent, person.remaining) == (5, 0)
    person.set_limit(8)
    person.answer(SMOKER, "never-ever")
    assert (person.limit, person.remaining) == (8, 2)


@pytest.mark.parametrize(
    ("act", "rule"),
    [
        (lambda person: person.note("elsewhere", -1), "0 or more"),
        (lambda person: person.set_limit(0), "a limit is above 0"),
        (lambda person: Participant(person.path, limit=3), "has the limit 2: give that or none"),
        (lambda person: Participant(person.path.with_name("new")), "limit= is needed for a new one"),
        (lambda person: Participant(person.path.with_name("new"), limit=-1), "a limit is above 0"),
    ],
)
def test_wrong_amounts_are_refused(person: Participant, act: Callable[[Participant], Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        act(person)
    assert person.spent == 0


def test_a_report_does_not_leave_unless_its_cost_is_on_the_disk(
    person: Participant, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(module, "replace_file", fail)
        with pytest.raises(ParticipantFileError, match="No space left"):
            person.answer(SMOKER, "never-ever")
    assert person.spent == 0
    assert SMOKER.digest not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff", b'{"format": 2}', b'{"format": 1, "limit": "x-secret"}', b"[" * 100_000]
)
def test_a_damaged_file_is_refused_and_not_shown(person: Participant, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ParticipantFileError, match="its content is damaged: put back a copy") as caught:
        person.answer(SMOKER, "never-ever")
    assert caught.value.path == path
    assert caught.value.__context__ is None
    assert path.read_bytes() == content


def test_a_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParticipantFileError, match="Is a directory"):
        Participant(tmp_path, limit=1)


def test_two_at_once_do_not_spend_one_amount_twice(path: Path) -> None:
    Participant(path, limit=3)
    questions = [RandomizedResponse({"a": ["0", "1"]}, epsilon=1, study=str(k)) for k in range(8)]
    gate = threading.Barrier(8)

    def answer(question: RandomizedResponse) -> bool:
        gate.wait()
        try:
            Participant(path).answer(question, "1")
        except LocalBudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(answer, questions)) == 3
    assert Participant(path).remaining == 0


def test_two_at_once_give_one_report(path: Path) -> None:
    Participant(path, limit=3)
    gate = threading.Barrier(8)

    def answer(_: int) -> str:
        gate.wait()
        return json.dumps(Participant(path).answer(SMOKER, "never-ever"))

    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(answer, range(8))}) == 1
    assert Participant(path).spent == 1
