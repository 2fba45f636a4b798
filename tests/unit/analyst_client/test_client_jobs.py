"""Releases that take longer than one answer: waited for, looked at, cancelled, joined."""

import itertools
import pickle
from typing import Any

import httpx
import pytest
from client_examples import RELEASE_TEXT, Curator, Ledger, ask, compact, problem, release_body, released

from analyst_client import CuratorClient, RequestInvalidError, TransportError
from analyst_client.errors import (
    JobEndedError,
    JobRunningError,
    JobVoidedError,
    LedgerForkedError,
    ReceiptInvalidError,
    ServiceError,
    ServiceUnavailableError,
)
from analyst_client.schema import Job

ID = "job_0123456789abcdef01234567"


def job(
    state: str = "running", *, status: int = 200, retry_after: str | None = "5", headers: Any = None, **changes: Any
) -> httpx.Response:
    members: dict[str, Any] = {
        "id": ID,
        "dataset": "flchain",
        "state": state,
        "progress": 0.25 if state == "running" else 1,
        "created_at": "2026-01-01T00:00:00Z",
        "release": "rel_1" if state == "done" else None,
        "reason": None,
        "request": {"kind": "gram"},
    }
    sent = {"Location": f"/v1/jobs/{ID}"} | (headers or {})
    if state == "running" and retry_after is not None:
        sent["Retry-After"] = retry_after
    return httpx.Response(status, content=compact(members | changes), headers=sent)


def accepted(**options: Any) -> httpx.Response:
    return job(status=202, **options)


def fetched(text: str = RELEASE_TEXT) -> httpx.Response:
    return httpx.Response(200, content=text.encode())


def in_progress(job_id: str | None = ID) -> httpx.Response:
    return problem("release-in-progress", 409, retry_after="1", job=job_id)


def submit(client: CuratorClient, **options: Any) -> Job:
    return client.submit_release("flchain", ["age", "sex"], target="kappa", mu=0.1, **options)


def paths(curator: Curator) -> list[str]:
    return [f"{request.method} {request.url.path.removeprefix('/v1')}" for request in curator.requests]


# Waiting within a release


def test_release_waits_for_its_job_and_fetches_what_it_made() -> None:
    curator = Curator(accepted(retry_after="30"), job(), job("done"), fetched())
    release = ask(curator.client())
    assert (release.text, release.answer) == (RELEASE_TEXT, "new")
    assert paths(curator) == ["POST /datasets/flchain/releases", *[f"GET /jobs/{ID}"] * 2, "GET /releases/rel_1"]
    assert 30.0 <= curator.waits[0] <= 31.0
    assert 5.0 <= curator.waits[1] <= 6.0


def test_job_without_a_time_to_look_again_is_looked_at_less_and_less_often() -> None:
    answers = [accepted(retry_after=None), *[job(retry_after=None)] * 20, job("done"), fetched()]
    curator = Curator(*answers)
    ask(curator.client())
    assert curator.waits[0] <= 0.25
    assert 4.0 <= curator.waits[-1] <= 8.0


@pytest.mark.parametrize(("asked", "sent"), [(True, "respond-async"), (False, None)])
def test_job_is_asked_for_where_the_caller_wants_one(asked: bool, sent: str | None) -> None:
    curator = Curator(released())
    ask(curator.client(), respond_async=asked)
    assert curator.requests[0].headers.get("Prefer") == sent


def test_looks_and_reads_are_repeated_after_transport_errors() -> None:
    curator = Curator(accepted(), httpx.ReadTimeout, job("done"), httpx.ConnectError, fetched())
    assert ask(curator.client()).id == "rel_1"


def test_lost_answer_to_a_look_keeps_the_key() -> None:
    curator = Curator(accepted(), httpx.ReadTimeout)
    with pytest.raises(TransportError) as caught:
        ask(curator.client(max_attempts=1), idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"


@pytest.mark.parametrize(("state", "reason"), [("voided", "worker lost"), ("cancelled", None)])
def test_job_that_ends_without_a_release_says_that_nothing_was_charged(state: str, reason: str | None) -> None:
    curator = Curator(accepted(), job(state, reason=reason))
    with pytest.raises(JobVoidedError, match=r"nothing was charged.*same idempotency_key may be repeated") as caught:
        ask(curator.client(), idempotency_key="mine")
    assert state in str(caught.value)
    assert (reason or "") in str(caught.value)
    assert caught.value.idempotency_key == "mine"
    assert (caught.value.job.id, caught.value.job.state, caught.value.job.idempotency_key) == (ID, state, "mine")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.job, str(copy)) == (caught.value.job, str(caught.value))


def test_same_call_with_the_same_key_after_a_voided_job_starts_another() -> None:
    curator = Curator(accepted(), job("voided"), accepted(), job("done"), fetched())
    client = curator.client()
    with pytest.raises(JobVoidedError) as caught:
        ask(client)
    assert ask(client, idempotency_key=caught.value.idempotency_key).id == "rel_1"


def test_wait_is_bounded_and_never_looks_earlier_than_it_may() -> None:
    curator = Curator(accepted(retry_after="10"), job(retry_after="10"), job(retry_after="10"))
    client = curator.client()
    with pytest.raises(JobRunningError, match="still running \\(25% of its time") as caught:
        ask(client, wait_s=25.0, idempotency_key="mine")
    assert sum(curator.waits) <= 25.0
    assert len(curator.waits) == 2
    assert caught.value.idempotency_key == "mine"
    assert caught.value.job is not None
    curator.answers = [job("done"), fetched()]
    assert client.wait(caught.value.job).id == "rel_1"


def test_no_time_to_wait_means_no_look() -> None:
    curator = Curator(accepted())
    with pytest.raises(JobRunningError):
        ask(curator.client(), wait_s=0.0)
    assert curator.waits == []


WAITS = {"Curator-Wait": "20"}


class Holding(Curator):
    """A curator that answers a look after some seconds, on the clock of its client."""

    holds_s, held_s = 15.0, 0.0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if "Prefer" in request.headers:
            self.held_s += self.holds_s
        return super().__call__(request)

    def client(self, **options: Any) -> CuratorClient:
        client = super().client(**options)
        client._transport.clock = lambda: sum(self.waits) + self.held_s
        return client


def test_a_curator_that_tells_of_the_end_is_asked_to_and_not_slept_for() -> None:
    curator = Holding(accepted(headers=WAITS), *[job(headers=WAITS)] * 3, job("done"), fetched())
    assert ask(curator.client()).id == "rel_1"
    assert curator.waits == []
    assert [request.headers.get("Prefer") for request in curator.requests[1:]] == ["wait=15"] * 4 + [None]


def test_a_curator_that_does_not_hold_a_look_is_asked_as_seldom_as_it_says() -> None:
    curator = Holding(accepted(headers=WAITS), *[job(headers=WAITS)] * 3, job("done"), fetched())
    curator.holds_s = 0.0
    assert ask(curator.client()).id == "rel_1"
    assert len(curator.waits) >= 2
    assert min(curator.waits) >= 5.0


def test_a_wait_is_as_long_as_the_caller_has_time() -> None:
    curator = Holding(accepted(headers=WAITS), *[job(headers=WAITS)] * 9)
    curator.holds_s = 7.0
    with pytest.raises(JobRunningError):
        ask(curator.client(), wait_s=7.5)
    assert [request.headers.get("Prefer") for request in curator.requests[1:]] == ["wait=7"]


@pytest.mark.parametrize("wait_s", [-1.0, float("nan")])
def test_time_to_wait_is_not_negative(wait_s: float) -> None:
    curator = Curator()
    with pytest.raises(ValueError, match="wait_s"):
        ask(curator.client(), wait_s=wait_s)
    assert curator.requests == []


@pytest.mark.parametrize(
    "answer",
    [accepted(state="done", release=None), accepted(dataset="other"), httpx.Response(202, content="{}")],
    ids=range(3),
)
def test_malformed_job_is_a_service_error_with_the_key(answer: httpx.Response) -> None:
    with pytest.raises(ServiceError, match="malformed answer") as caught:
        ask(Curator(answer).client(), idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"


def test_job_that_is_shown_as_running_goes_on_even_if_it_names_its_release() -> None:
    """State and release may be read one after the other."""
    curator = Curator(accepted(release="rel_1"), job("done"), fetched())
    assert ask(curator.client()).id == "rel_1"
    assert len(curator.waits) == 1


# The release of a job is checked


def test_release_of_a_job_must_be_above_what_was_seen_before_it_was_asked_for() -> None:
    client = Curator(Ledger(20).budget, accepted(), job("done"), fetched(Ledger(7).release())).client()
    client.budget("flchain")
    with pytest.raises(LedgerForkedError) as caught:
        ask(client)
    assert caught.value.release is not None


def test_release_of_a_job_may_be_below_what_was_seen_while_it_ran() -> None:
    """A job that is shown as running may have been charged already; others are charged after it."""
    ledger = Ledger()
    curator = Curator(accepted())
    client = curator.client()
    mine = submit(client)
    text = ledger.release()
    ledger.post()
    curator.answers = [ledger.budget, job(), job("done"), fetched(text)]
    client.budget("flchain")
    assert client.wait(mine).text == text


def test_job_that_was_accepted_before_may_be_older_than_what_was_seen() -> None:
    again = accepted(headers={"Curator-Answer": "replayed"})
    client = Curator(Ledger(20).budget, again, job("done"), fetched(Ledger(7).release())).client()
    client.budget("flchain")
    assert ask(client).id == "rel_1"


def test_job_of_an_earlier_process_may_be_older_than_what_was_seen() -> None:
    client = Curator(Ledger(20).budget, job("done"), fetched(Ledger(7).release())).client()
    client.budget("flchain")
    assert client.wait(ID).id == "rel_1"


def test_release_that_the_job_did_not_make_is_refused() -> None:
    other = Ledger().release(release_body() | {"id": "rel_9"}, release="rel_9")
    with pytest.raises(ServiceError, match="rel_1 was asked, and rel_9 was answered"):
        ask(Curator(accepted(), job("done"), fetched(other)).client())


def test_release_of_a_job_that_does_not_hold_is_refused() -> None:
    changed = fetched(RELEASE_TEXT.replace("900.0", "900.5"))
    with pytest.raises(ReceiptInvalidError, match="answer_digest"):
        ask(Curator(accepted(), job("done"), changed).client())


# Joining


@pytest.mark.parametrize("end", ["done", "voided", "cancelled"])
def test_request_that_a_job_works_on_waits_for_it_and_is_sent_again(end: str) -> None:
    curator = Curator(in_progress(), job(), job(end), released(answer="stored"))
    client = curator.client()
    assert ask(client).answer == "stored"
    assert paths(curator) == [
        "POST /datasets/flchain/releases",
        *[f"GET /jobs/{ID}"] * 2,
        "POST /datasets/flchain/releases",
    ]
    assert curator.keys[0] == curator.keys[-1]
    assert len(curator.waits) == 1


def test_request_may_get_a_job_of_its_own_after_the_other_ended() -> None:
    other = "job_" + "f" * 24
    curator = Curator(in_progress(other), job("voided", id=other), accepted(), job("done"), fetched())
    assert ask(curator.client()).id == "rel_1"


def test_wait_for_anothers_job_is_bounded_too() -> None:
    curator = Curator(in_progress(), job(retry_after="60"))
    with pytest.raises(JobRunningError) as caught:
        ask(curator.client(), wait_s=10.0, idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"


def test_job_that_may_not_be_seen_leaves_the_refusal() -> None:
    curator = Curator(in_progress(), problem("not-found", 404))
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(curator.client())
    assert (caught.value.slug, caught.value.job) == ("release-in-progress", ID)


def test_job_that_has_ended_and_is_still_in_the_way_does_not_make_a_loop() -> None:
    curator = Curator(*itertools.chain(*[(in_progress(), job("done"))] * 2))
    with pytest.raises(ServiceUnavailableError):
        ask(curator.client())
    assert len(curator.requests) == 3


def test_request_in_progress_without_a_job_is_retried() -> None:
    curator = Curator(in_progress(None), released(answer="replayed"))
    assert ask(curator.client()).answer == "replayed"
    assert 1.0 <= curator.waits[0] <= 2.0


# A job in hand


def test_submitted_release_is_a_job_to_wait_for() -> None:
    curator = Curator(accepted(), job(), job("done"), fetched())
    client = curator.client()
    mine = submit(client, idempotency_key="mine", fresh=True)
    assert (mine.id, mine.state, mine.progress, mine.is_running) == (ID, "running", 0.25, True)
    assert (mine.idempotency_key, mine.created_at) == ("mine", "2026-01-01T00:00:00Z")
    assert curator.waits == []
    assert curator.requests[0].headers["Prefer"] == "respond-async"
    assert curator.bodies[0]["fresh"] is True
    assert client.wait(mine).text == RELEASE_TEXT


def test_submitted_release_that_comes_at_once_is_a_job_that_is_done() -> None:
    curator = Curator(released(answer="stored"))
    client = curator.client()
    mine = submit(client)
    assert (mine.id, mine.state, mine.progress, mine.release_id) == (None, "done", 1.0, "rel_1")
    assert client.wait(mine) is mine.result
    assert client.job(mine) is mine
    assert len(curator.requests) == 1
    with pytest.raises(JobEndedError, match="no job to cancel"):
        client.cancel(mine)


def test_submitted_release_that_comes_at_once_is_checked() -> None:
    with pytest.raises(ReceiptInvalidError) as caught:
        submit(Curator(released(RELEASE_TEXT.replace("900.0", "900.5"))).client(), idempotency_key="mine")
    assert caught.value.release is not None
    assert caught.value.idempotency_key == "mine"


def test_submitting_what_is_in_progress_gives_its_job() -> None:
    curator = Curator(in_progress(), job())
    assert submit(curator.client(), idempotency_key="mine").id == ID
    curator = Curator(in_progress(None))
    with pytest.raises(ServiceUnavailableError) as caught:
        submit(curator.client(max_attempts=1), idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"


def test_job_is_looked_at_by_its_id_or_by_itself() -> None:
    curator = Curator(job(), job("done"))
    client = curator.client()
    first = client.job(ID)
    second = client.job(first)
    assert (first.state, second.state, second.release_id) == ("running", "done", "rel_1")
    assert paths(curator) == [f"GET /jobs/{ID}"] * 2


def test_job_of_another_analyst_is_not_found() -> None:
    with pytest.raises(RequestInvalidError):
        Curator(problem("not-found", 404)).client().job(ID)


def test_waiting_for_a_voided_job_raises_with_its_key() -> None:
    client = Curator(accepted(), job("voided", reason="worker lost")).client()
    with pytest.raises(JobVoidedError, match="worker lost") as caught:
        client.wait(submit(client, idempotency_key="mine"))
    assert caught.value.idempotency_key == "mine"


def test_waiting_is_bounded() -> None:
    curator = Curator(job(retry_after="60"))
    with pytest.raises(JobRunningError):
        curator.client().wait(ID, wait_s=30.0)
    assert curator.waits == []


def test_job_is_cancelled() -> None:
    curator = Curator(job("cancelled"))
    assert curator.client().cancel(ID).state == "cancelled"
    assert paths(curator) == [f"DELETE /jobs/{ID}"]


def test_job_that_was_charged_is_not_cancelled() -> None:
    curator = Curator(problem("job-ended", 409), job("done"))
    with pytest.raises(JobEndedError) as caught:
        curator.client().cancel(ID)
    assert caught.value.job.release_id == "rel_1"


def test_cancellation_whose_answer_was_lost_is_no_error() -> None:
    curator = Curator(httpx.ReadTimeout, problem("job-ended", 409), job("cancelled"))
    assert curator.client().cancel(ID).state == "cancelled"
