"""Clocks that jump a year ahead and back: a reservation may end early, and no charge is lost or doubled."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deployments import ANALYSTS, Caller, Deployment, Server, ball, box, slug
from faulty import CLOCK_VARIABLE
from patience import pause, wait_for
from planned_requests import ASYNC, RESERVATION, question, session, wait_for_end
from test_races import ask_until_ended

pytestmark = pytest.mark.slow

YEAR = 366


class Shifted:
    """A curator whose clock is wrong by whole days, and an analyst whose token outlives that."""

    def __init__(self, town: Deployment) -> None:
        self._file: Path = town.folder / "days"
        self.shift(0)
        self.server: Server = town.serve(**{CLOCK_VARIABLE: str(self._file)})
        words = ["tokens", "create", town.full(ANALYSTS[0]), "--role", "analyst", "--days", "3650"]
        self.token: str = town.run(*words)["token"]

    def shift(self, days: int) -> None:
        """Let the clock jump."""
        coming = self._file.with_suffix(".next")
        coming.write_text(str(days), encoding="utf-8")
        coming.rename(self._file)

    def call(self) -> Caller:
        """Return the analyst's connection."""
        return Caller(self.server.url, self.token)


def test_a_key_gives_the_same_bytes_after_a_year_and_after_a_clock_that_went_back(town: Deployment) -> None:
    path, shifted = town.open_account("years"), Shifted(town)
    stored = ball(fresh=False, price={"mu": 0.02})
    asked = {"at-once": box(), "reserved-first": ball(), "first": stored, "stored": stored}
    requests = {key: (f"{path}/releases", content) for key, content in asked.items()}
    requests["session"] = f"{path}/sessions", session()
    with shifted.call() as caller:
        place = caller.insist(*requests["session"], "session").json()["id"]
    requests["question"] = f"/v1/sessions/{place}/questions", question(0)
    first: dict[str, bytes] = {}
    for days in (0, YEAR, -YEAR, 0):
        shifted.shift(days)
        with shifted.call() as caller:
            for key, request in requests.items():
                answer = caller.insist(*request, key)
                assert answer.status_code in {200, 201}
                assert answer.content == first.setdefault(key, answer.content)
        if days == YEAR:
            shifted.server.terminate()
            shifted.server.start()
    books = town.audit("years")
    assert [len(books.of_kind(kind)) for kind in ("charge", "session", "answer")] == [3, 1, 1]


def test_a_session_outlives_jumps_of_the_clock_and_ends_for_good_at_a_cut(town: Deployment) -> None:
    path, shifted = town.open_account("years"), Shifted(town)
    middle = 45 - datetime.now(UTC).day  # no cut comes a day before or after it
    with shifted.call() as caller:
        shifted.shift(middle)
        opened = caller.insist(f"{path}/sessions", session(), "open").json()
        questions = f"/v1/sessions/{opened['id']}/questions"
        for i, days in enumerate((middle + 1, middle - 1, middle), start=1):
            shifted.shift(days)
            assert caller.insist(questions, question(0), f"key-{i}").json()["number"] == i

        def renew() -> None:
            wait_for(lambda: len(town.look("years").questions) > 20, "it was asked")
            shifted.shift(middle + 31)

        with ExitStack() as stack:
            callers = [stack.enter_context(shifted.call()) for _ in range(4)]
            ask_until_ended(callers, questions.rpartition("/")[0], (0,), renew)
        for days in (middle, -YEAR, 0):
            shifted.shift(days)
            assert slug(caller.insist(questions, question(0), "late")) == "session-ended"
            assert caller.insist(questions, question(0), "key-2").json()["number"] == 2
    town.audit("years")


def test_a_clock_that_jumps_a_year_while_a_job_runs_costs_nobody_anything(town: Deployment) -> None:
    path, shifted = town.open_account("years"), Shifted(town)
    with shifted.call() as caller:
        for i, days in enumerate((YEAR, -YEAR, 0)):
            order = {"at": "before draw", "action": "sleep", "seconds": 0.3, "trace": str(town.trace())}
            job = caller.post(f"{path}/releases", ball(), f"key-{i}", order=order, headers=ASYNC)
            assert job.status_code == 202
            shifted.shift(days)
            answer = caller.insist(f"{path}/releases", ball(), f"key-{i}")
            assert answer.status_code == 201
            assert caller.insist(f"{path}/releases", ball(), f"key-{i}").content == answer.content
    assert len(town.audit("years").charges) == 3


def test_a_reservation_ends_early_when_the_clock_jumps_ahead_and_keeps_what_it_paid(town: Deployment) -> None:
    path, shifted = town.open_account("years"), Shifted(town)
    with shifted.call() as caller:
        caller.get("/v1/me")
        pause(0.6)  # tests before this one left entries of a year ahead: the clock is believed a moment after a look
        reservation_id = caller.insist(f"{path}/reservations", RESERVATION, "reservation").json()["id"]
        before = caller.insist(f"{path}/releases", box(reservation=reservation_id), "before")
        assert before.status_code == 201, before.text
        shifted.shift(YEAR)
        late = caller.insist(f"{path}/releases", box(reservation=reservation_id), "late")
        assert slug(late) == "reservation-ended"
        wait_for(lambda: town.look("years").pending == 0, "the reservation was closed by itself")
        shifted.shift(0)
        assert slug(caller.insist(f"{path}/releases", box(reservation=reservation_id), "late")) == "reservation-ended"
        assert slug(caller.delete(f"/v1/reservations/{reservation_id}")) == "reservation-ended"
        assert caller.insist(f"{path}/releases", box(reservation=reservation_id), "before").content == before.content
    books = town.audit("years")
    assert len(books.charges) == len(books.of_kind("void")) == 1


def test_a_reservation_goes_on_when_the_clock_jumps_back_and_is_closed_once(town: Deployment) -> None:
    path, shifted = town.open_account("years"), Shifted(town)
    with shifted.call() as caller:
        shifted.shift(YEAR)
        reservation_id = caller.insist(f"{path}/reservations", RESERVATION, "reservation").json()["id"]
        for i, days in enumerate((0, -YEAR, YEAR)):
            shifted.shift(days)
            for content in (box(reservation=reservation_id), ball(reservation=reservation_id)):
                assert caller.insist(f"{path}/releases", content, f"{content['rows']['map']}-{i}").status_code == 201
        assert caller.delete(f"/v1/reservations/{reservation_id}").status_code == 200
    books = town.audit("years")
    assert (len(books.charges), len(books.of_kind("void"))) == (6, 1)


@pytest.mark.parametrize("ending", ["charged", "cancelled"])
def test_a_job_outlives_the_reservation_that_pays_it_when_the_clock_jumps_ahead(
    embedded_town: Deployment, ending: str
) -> None:
    town = embedded_town
    path, shifted = town.open_account("years"), Shifted(town)
    with shifted.call() as caller:
        # No jump leads over the end of a month: a job whose rows are renewed meanwhile is given back.
        middle = 45 - datetime.now(UTC).day
        shifted.shift(middle)
        assert caller.insist(f"{path}/releases", ball(), "first").status_code == 201
        reservation_id = caller.insist(f"{path}/reservations", RESERVATION, "reservation").json()["id"]
        trace = town.trace()
        order = {"at": "before draw", "action": "sleep", "seconds": 0.8, "trace": str(trace)}
        job = caller.post(f"{path}/releases", ball(reservation=reservation_id), "the-key", order=order, headers=ASYNC)
        assert job.status_code == 202
        shifted.shift(middle + 1)
        wait_for(lambda: len(town.look("years").of_kind("void")) == 1, "the reservation was closed")
        assert town.look("years").pending > 0, "the job holds its own part"
        if ending == "cancelled":
            assert caller.delete(f"/v1/jobs/{job.json()['id']}").json()["state"] == "cancelled"
        wait_for_end(trace)
        answer = caller.insist(f"{path}/releases", ball(reservation=reservation_id), "the-key")
    books = town.audit("years")
    if ending == "cancelled":
        assert slug(answer) == "reservation-ended"
        assert len(books.charges) == 1
    else:
        assert answer.status_code == 201
        assert len(books.charges) == 2
