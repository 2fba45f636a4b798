"""Servers that are stopped for a while, or asked to end, in the middle of their work."""

import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from crowds import Crowd
from deployments import ANALYSTS, Caller, Deployment, ball, box, describe, is_retried, is_stopped, slug
from faulty import PATIENCE_VARIABLE
from patience import scaled, wait_for
from planned_requests import ASYNC

pytestmark = [pytest.mark.slow, pytest.mark.crashes]

LOAD_S = scaled(0.9)
HOLDS_ITS_KEY = "after INSERT idempotency_keys"


def test_a_server_that_slept_past_its_lease_neither_charges_again_nor_sends_a_second_draw(town: Deployment) -> None:
    """A server sleeps between its draw and its charge, until another one has answered the same key."""
    path = f"{town.open_account('slept')}/releases"
    # The first one beats rarely: stopped while it beats, it would hold the embedded database's one place to write.
    first, second = town.serve(CURATOR_LEASE_S="60"), town.serve_elsewhere()
    order = {"at": "after draw", "action": "stop", "trace": str(town.trace())}
    with town.call(first) as sleeping, town.call(second) as awake, ThreadPoolExecutor(1) as pool:
        asleep = pool.submit(sleeping.post, path, ball(), "the-key", order=order)
        wait_for(lambda: is_stopped(first), "the first server sleeps")
        answer = awake.insist(path, ball(), "the-key")
        assert answer.status_code == 201
        assert len(town.audit("slept").charges) == 1
        first.process.signal(signal.SIGCONT)
        woken = asleep.result(scaled(30))
        is_refused = slug(woken) in {"busy", "release-in-progress"}
        assert is_refused or woken.content == answer.content, f"a second draw leaves: {describe(woken)}"
        assert awake.insist(path, ball(), "the-key").content == answer.content
    assert len(town.audit("slept").charges) == 1


@pytest.mark.parametrize(
    ("content", "at"),
    [(box(), HOLDS_ITS_KEY), (box(), "before commit"), (ball(), "before commit 2")],
    ids=["at_once_with_its_key", "at_once_charged", "posted"],
)
def test_a_server_that_stops_in_a_unit_of_work_holds_others_up_for_a_session_at_most(
    postgres_town: Deployment, content: dict[str, Any], at: str
) -> None:
    town, session_s = postgres_town, 0.8
    path = f"{town.open_account('stopped')}/releases"
    first = town.serve(**{PATIENCE_VARIABLE: str(int(1000 * session_s))})
    second = town.serve_elsewhere(**{PATIENCE_VARIABLE: "100"})
    order = {"at": at, "action": "stop", "trace": str(town.trace())}
    with town.call(first) as sleeping, town.call(second) as awake, ThreadPoolExecutor(1) as pool:
        asleep = pool.submit(sleeping.post, path, content, "the-key", order=order)
        wait_for(lambda: is_stopped(first), "the first server is stopped")
        start = time.monotonic()
        assert is_retried(awake.post(path, content, "the-key"))
        held_up = awake.post(path, content, "another-key")
        assert slug(held_up) == "busy" or at == HOLDS_ITS_KEY, describe(held_up)
        answer = awake.insist(path, content, "the-key", within_s=session_s + 5)
        assert answer.status_code == 201
        assert time.monotonic() - start < scaled(session_s + 2)
        assert awake.insist(path, content, "another-key").status_code == 201
        first.process.signal(signal.SIGCONT)
        woken = asleep.result(scaled(30))
        is_refused = slug(woken) in {"busy", "release-in-progress"}
        assert is_refused or woken.content == answer.content, f"a second draw leaves: {describe(woken)}"
        assert sleeping.insist(path, content, "the-key").content == answer.content
        assert sleeping.insist(path, content, "a-third-key").status_code == 201
    assert len(town.settle("stopped").charges) == 3


@pytest.mark.parametrize(
    ("content", "ending"),
    [(box(), "killed"), (ball(), "continued")],
    ids=["at_once_killed", "reserved_first_continued"],
)
def test_a_server_that_stops_in_a_unit_of_work_of_the_embedded_database_holds_others_up_until_it_goes_on(
    embedded_town: Deployment, content: dict[str, Any], ending: str
) -> None:
    town = embedded_town
    path = f"{town.open_account('stopped')}/releases"
    first, second = town.serve(), town.serve(**{PATIENCE_VARIABLE: "100"})
    at = "before commit" if content["rows"]["map"] == "box" else "before commit 2"
    order = {"at": at, "action": "stop", "trace": str(town.trace())}
    with town.call(first) as sleeping, town.call(second) as awake, ThreadPoolExecutor(1) as pool:
        asleep = pool.submit(attempt, sleeping, path, content, order)
        wait_for(lambda: is_stopped(first), "the first server is stopped")
        for key in ("another-key", "another-key"):
            held_up = awake.post(path, content, key)
            assert slug(held_up) == "busy", describe(held_up)
            assert held_up.headers["retry-after"] == "1"
        if ending == "continued":
            first.process.signal(signal.SIGCONT)
            woken = asleep.result(scaled(30))
            assert woken.status_code == 201, describe(woken)
            assert awake.insist(path, content, "the-key").content == woken.content
        else:
            first.kill()
            assert asleep.result(scaled(30)) is None
            assert awake.insist(path, content, "the-key").status_code == 201
        assert awake.insist(path, content, "another-key").status_code == 201
    assert len(town.settle("stopped").charges) == 2


def attempt(caller: Caller, path: str, content: dict[str, Any], order: dict[str, Any]) -> httpx.Response | None:
    """Send a request once; None if no answer came."""
    try:
        return caller.post(path, content, "the-key", order=order)
    except httpx.TransportError:
        return None


def test_a_server_that_stops_while_it_writes_the_anchor_does_not_hold_others_up_for_ever(town: Deployment) -> None:
    path = f"{town.open_account('stopped')}/releases"
    first, second = town.serve(), town.serve(**{PATIENCE_VARIABLE: "100"})
    order = {"at": "within anchor", "action": "stop", "trace": str(town.trace())}
    with (
        town.call(first) as sleeping,
        Caller(second.url, town.tokens[ANALYSTS[0]], timeout_s=scaled(1.5)) as awake,
        ThreadPoolExecutor(1) as pool,
    ):
        asleep = pool.submit(attempt, sleeping, path, box(), order)
        wait_for(lambda: is_stopped(first), "the first server is stopped")
        try:
            held_up = awake.post(path, box(), "another-key")
        finally:
            first.process.signal(signal.SIGCONT)
        assert slug(held_up) == "busy", describe(held_up)
        woken = asleep.result(scaled(30))
        assert woken.status_code == 201
        assert awake.insist(path, box(), "another-key").status_code == 201
    assert len(town.audit("stopped").charges) == 2


def test_a_job_whose_server_slept_past_its_lease_is_answered_once(town: Deployment) -> None:
    path = f"{town.open_account('slept')}/releases"
    # The first one beats rarely: stopped while it beats, it would hold the embedded database's one place to write.
    first, second = town.serve(CURATOR_LEASE_S="60"), town.serve_elsewhere()
    trace = town.trace()
    order = {"at": "after draw", "action": "stop", "trace": str(trace)}
    with town.call(first) as sleeping, town.call(second) as awake, ThreadPoolExecutor(1) as pool:
        # It may be stopped before it has said that there is a job.
        accepted = pool.submit(sleeping.post, path, ball(), "the-key", order=order, headers=ASYNC)
        wait_for(lambda: is_stopped(first), "the first server sleeps")
        answer = awake.insist(path, ball(), "the-key", headers=ASYNC)
        assert answer.status_code == 201
        first.process.signal(signal.SIGCONT)
        assert accepted.result(scaled(30)).status_code == 202
        wait_for(lambda: trace.read_text(encoding="utf-8").endswith("end\n"), "the job is over")
        assert sleeping.insist(path, ball(), "the-key", headers=ASYNC).content == answer.content
    assert len(town.audit("slept").charges) == 1


def test_a_server_that_is_asked_to_end_under_load_loses_no_charge_and_invents_none(town: Deployment) -> None:
    path = town.open_account("ended")
    server = town.serve()
    crowd = Crowd(town, [server], path, LOAD_S)
    for _ in range(2):
        time.sleep(LOAD_S / 3)
        server.terminate()
        server.start()
    sent, books = crowd.settle(server, "ended")
    statuses = Counter(submission.status for submission in sent)
    assert statuses[201] > 0, statuses
    assert statuses[0] > 0, statuses
    assert len(books.charges) > 0


def test_a_job_that_waits_when_its_server_is_asked_to_end_is_given_back_at_once(town: Deployment) -> None:
    path = f"{town.open_account('ended')}/releases"
    server = town.serve(CURATOR_LEASE_S="60")  # nobody waits for it
    order = {"at": "before draw", "action": "sleep", "seconds": 0.5, "trace": str(town.trace())}
    with town.call(server) as caller:
        assert caller.post(path, ball(), "running", order=order, headers=ASYNC).status_code == 202
        assert caller.post(path, ball(price={"mu": 0.02}), "waiting", headers=ASYNC).status_code == 202
        server.terminate()
        town.audit("ended")
        server.start()
        for key, content in (("running", ball()), ("waiting", ball(price={"mu": 0.02}))):
            assert caller.insist(path, content, key, headers=ASYNC).status_code == 201
    assert len(town.audit("ended").charges) == 2


def test_a_server_ends_in_order_where_its_anchor_cannot_be_read(doomed_town: Deployment) -> None:
    """Its job is left to the next process that looks, and it takes leave all the same."""
    town = doomed_town
    path = f"{town.open_account('stopped', row_capacity=100_000)}/releases"
    server, anchor = town.serve(CURATOR_LEASE_S="3600", CURATOR_PACE="1024"), town.world.settings.anchor_folder
    with town.call(server) as caller:
        assert caller.post(path, ball(), "the-key").status_code == 202
    assert len(list((anchor / "workers").glob("*/wrk_*"))) == 1
    (anchor / "checkpoints").rename(anchor / "aside")
    (anchor / "checkpoints").mkdir()
    server.terminate()
    assert "Traceback" not in server.process.text
    assert len(list((anchor / "workers").glob("*/wrk_*"))) == 1  # which tells that it has ended
