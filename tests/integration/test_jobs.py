"""Jobs: what passes over rows may run while nobody waits; it is charged with its answer, or not at all."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from patience import scaled, wait_for
from scenes import (
    ASYNC,
    QUOTES,
    RELEASES,
    Gate,
    Interrupted,
    another_worker,
    assert_sound,
    await_job,
    box,
    in_background,
    kinds,
    open_reservations,
    register_private,
)
from support import EPOCH, Api, BrokenNoise, World, ZeroNoise, body, open_world, problem

from curator_service.container import make_curator
from curator_service.identity.policy import Role
from curator_service.kinds.gram.schema import GramRequest
from curator_service.kinds.registry import KINDS
from curator_service.kit.problems import TooManyRequests, Unavailable
from curator_service.ledger.accounts.reservations import Reservation
from curator_service.privacy.mechanism import ExactSums
from curator_service.privacy.samplers import Distribution
from curator_service.releases import jobs, preparation, waiting
from curator_service.releases import response_time as response_timer
from curator_service.releases.preparation import prepare
from curator_service.releases.reservations import JobEnded
from curator_service.releases.response_time import ResponseTimer

MARKER = "patient-4711-weighs-93.5"


@pytest.fixture
def gated(tmp_path: Path, database_url: str | None) -> Iterator[tuple[World, Gate]]:
    """Return a world in which every answer waits at a gate, once on each database."""
    gate = Gate()
    with open_world(tmp_path, url=database_url, noise=gate) as world:
        yield world, gate
        gate.opened.set()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[World, Gate]]:
    """Return the same on the embedded database alone."""
    gate = Gate()
    with open_world(tmp_path, noise=gate) as world:
        yield world, gate
        gate.opened.set()


def submit(api: Api, key: str = "k", **changes: Any) -> dict[str, Any]:
    """Send a request that becomes a job, and return it."""
    answer = api.post(RELEASES, json=body(**changes), key=key, headers=ASYNC)
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = answer.json()
    return job


def finish_queue(api: Api) -> None:
    """Return when every job before now is over: they run one after the other."""
    assert await_job(api, submit(api, "the-last-one", fresh=True)["id"])["state"] == "done"


def charges(world: World) -> list[dict[str, Any]]:
    return [entry for entry in world.entries() if entry["kind"] == "charge"]


def test_a_job_says_where_it_is_holds_its_cost_and_becomes_a_release(gated: tuple[World, Gate]) -> None:
    world, gate = gated
    api = world.api()
    cost = int(api.post(QUOTES, json=body()).json()["cost"]["units"])
    answer = api.post(RELEASES, json=body(), key="k", headers=ASYNC)
    job = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (202, f"/v1/jobs/{job['id']}")
    assert answer.headers["retry-after"] == "1"
    assert list(job) == ["id", "dataset", "state", "progress", "created_at", "release", "reason", "request"]
    assert (job["dataset"], job["state"], job["release"], job["reason"]) == ("cohort", "running", None, None)
    assert (world.account().posted, world.account().pending) == (0, cost)
    gate.await_entry()
    assert "retry-after" in api.get(f"/v1/jobs/{job['id']}").headers
    gate.opened.set()
    done = await_job(api, job["id"])
    assert (done["state"], done["progress"], done["request"]) == ("done", 1.0, job["request"])
    release = api.get(f"/v1/releases/{done['release']}")
    assert release.json()["receipt"]["reservation"] == job["id"]
    assert release.json()["request"] == job["request"]
    replayed = api.post(RELEASES, json=body(), key="k", headers=ASYNC)
    assert (replayed.status_code, replayed.headers["curator-answer"]) == (201, "replayed")
    assert replayed.content == release.content
    assert (world.account().posted, world.account().pending) == (cost, 0)
    assert kinds(world) == ["reserve", "charge"]
    assert_sound(world)


def wait_at(api: Api, job_id: str, wait_s: int = 20) -> Callable[[], Any]:
    """Begin to wait for a job in one request."""
    return in_background(lambda: api.get(f"/v1/jobs/{job_id}", headers={"Prefer": f"wait={wait_s}, respond-async"}))


def is_waited_for(api: Api) -> bool:
    return bool(api.app.state.job_waits._waiting)


def test_whoever_waits_for_a_job_hears_of_its_end_and_holds_no_thread(gated: tuple[World, Gate]) -> None:
    world, gate = gated
    api, elsewhere = world.api(), world.api()  # another process than the one that works
    asked = api.post(RELEASES, json=body(), key="k", headers=ASYNC)
    assert asked.headers["curator-wait"] == "20"
    job = asked.json()["id"]
    gate.await_entry()
    answers = [wait_at(elsewhere, job)]
    wait_for(lambda: is_waited_for(elsewhere), "somebody waits")
    assert elsewhere.app.state.curator.requests._held.total() == 0
    gate.opened.set()
    began = time.monotonic()
    for answer in answers:
        assert (answer().status_code, answer().json()["state"]) == (200, "done")
    assert time.monotonic() - began < scaled(5)
    assert not is_waited_for(elsewhere)
    assert wait_at(elsewhere, job)().json()["state"] == "done"  # one that has ended is not waited for


def test_a_wait_ends_with_its_time_and_with_the_server(slow: tuple[World, Gate]) -> None:
    world, gate = slow
    api, other, third = world.api(), world.api(), world.api()
    job = submit(api)["id"]
    gate.await_entry()
    began = time.monotonic()
    answer = wait_at(other, job, 1)()
    assert (answer.json()["state"], answer.headers["retry-after"]) == ("running", "1")
    assert 1.0 <= time.monotonic() - began < scaled(10)
    stopped = wait_at(third, job)
    wait_for(lambda: is_waited_for(third), "somebody waits")
    loop = next(iter(third.app.state.job_waits._waiting)).get_loop()
    loop.call_soon_threadsafe(third.app.state.job_waits.stop)
    assert stopped().json()["state"] == "running"
    assert wait_at(third, job)().json()["state"] == "running"  # and at once from then on


@pytest.mark.parametrize("preference", ["", "wait", "wait=", "wait=x", "wait=-1", "wait=0", "wait=1.5", "waiting=20"])
def test_what_states_no_time_is_answered_at_once(slow: tuple[World, Gate], preference: str) -> None:
    world, _gate = slow
    api = world.api()
    job = submit(api)["id"]
    with mock.patch.object(waiting.JobWaits, "wait") as waited:
        assert api.get(f"/v1/jobs/{job}", headers={"Prefer": preference}).json()["state"] == "running"
    assert not waited.called


def test_nobody_waits_for_what_may_not_be_seen_nor_keeps_others_from_waiting(slow: tuple[World, Gate]) -> None:
    world, gate = slow
    with mock.patch.object(waiting, "WAITS_MAX", 2):
        api, other = world.api(), world.api()
    job = submit(api)["id"]
    gate.await_entry()
    problem(wait_at(world.api(None), job)(), "authentication-required", 401)
    problem(wait_at(world.api(), f"job_{'0' * 24}")(), "not-found", 404)
    first = wait_at(other, job)
    wait_for(lambda: is_waited_for(other), "somebody waits")
    places = other.app.state.job_waits._places
    with pytest.raises(TooManyRequests):
        places.acquire(next(iter(places._held)))  # a second one of the same principal is answered at once
    gate.opened.set()
    assert first().json()["state"] == "done"


def test_a_request_becomes_a_job_by_what_it_declares_never_by_what_is_stored(tmp_path: Path) -> None:
    with open_world(tmp_path, synchronous_s=0.004) as world:  # a pass is given 0.005 s, and more for each row
        api = world.api()
        job = api.post(RELEASES, json=body(), key="k1")
        assert job.status_code == 202
        assert api.post(RELEASES, json=box(), key="k2", headers=ASYNC).status_code == 201
        assert await_job(api, job.json()["id"])["state"] == "done"
        assert api.post(RELEASES, json=body(), key="k3", headers=ASYNC).headers["curator-answer"] == "stored"


def test_progress_is_the_share_of_the_public_time(slow: tuple[World, Gate]) -> None:
    world, gate = slow
    api = world.api()
    job = submit(api)
    gate.await_entry()
    assert job["progress"] == 0.0
    world.clock.advance(hours=1)  # however long the work takes, and however far it is
    assert api.get(f"/v1/jobs/{job['id']}").json()["progress"] == 0.99
    world.clock.advance(hours=-2)
    assert api.get(f"/v1/jobs/{job['id']}").json()["progress"] == 0.0


def test_a_job_that_is_cancelled_gives_back_and_its_draw_never_leaves(gated: tuple[World, Gate]) -> None:
    world, gate = gated
    api, before = world.api(), world.account()
    job = submit(api)
    gate.await_entry()
    cancelled = api.request("DELETE", f"/v1/jobs/{job['id']}")
    assert (cancelled.status_code, cancelled.json()["state"], cancelled.json()["release"]) == (200, "cancelled", None)
    assert "Nothing was charged" in cancelled.json()["reason"]
    assert (world.account().posted, world.account().pending) == (before.posted, before.pending)
    problem(api.request("DELETE", f"/v1/jobs/{job['id']}"), "job-ended", 409)
    gate.opened.set()
    finish_queue(api)
    assert api.get(f"/v1/jobs/{job['id']}").json()["state"] == "cancelled"
    assert [entry["reservation"] for entry in charges(world)] != [job["id"]]
    assert kinds(world) == ["reserve", "void", "reserve", "charge"]
    problem(api.post(RELEASES, json=body(features=["age"]), key="k"), "idempotency-key-reused", 422)
    assert api.post(RELEASES, json=body(), key="k").headers["curator-answer"] == "stored"  # open to the same request
    assert_sound(world)


def test_a_cancelled_job_does_not_disturb_what_else_is_held(slow: tuple[World, Gate]) -> None:
    """The late post must be refused for its own reason: alone on the account, or beside others."""
    world, gate = slow
    api = world.api()
    first, second = submit(api, "k1", fresh=True), submit(api, "k2", fresh=True)
    gate.await_entry()
    assert api.request("DELETE", f"/v1/jobs/{first['id']}").status_code == 200
    gate.opened.set()
    assert await_job(api, second["id"])["state"] == "done"
    assert [entry["reservation"] for entry in charges(world)] == [second["id"]]
    assert open_reservations(world) == {}
    assert_sound(world)


def test_a_cancelled_job_frees_its_lane_long_before_its_public_time(world: World) -> None:
    gate = Gate()
    gate.opened.set()
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
    analyst = next(p for p in world.curator.identity.list_principals() if p.name == "ada")
    prepared = prepare(KINDS, dataset, GramRequest.model_validate(body(fresh=True)))
    vars(prepared)["piece_s"] = 0.0  # as if its few rows were many tiles
    worker = another_worker(world, noise=gate, response_timer=ResponseTimer(32.0 / prepared.duration_s))
    began = time.monotonic()
    asked = [worker.releases.submit(prepared, analyst, f"k{i}") for i in range(2)]
    first, second = (job.id for job in asked if isinstance(job, Reservation))
    gate.await_entry()
    worker.reservations.cancel(worker.reservations.get_job(first), analyst)
    gate.await_entry()  # the other one's noise is drawn
    assert time.monotonic() - began < 32.0
    worker.reservations.cancel(worker.reservations.get_job(second), analyst)
    wait_for(lambda: not worker.job_runner._attended, "the lane is free")
    assert kinds(world) == ["reserve", "reserve", "void", "void"]
    assert open_reservations(world) == {}
    assert_sound(world)
    worker.close()


def test_a_late_post_is_refused_without_an_error(slow: tuple[World, Gate], caplog: pytest.LogCaptureFixture) -> None:
    """It is an ordinary end of a job, not a failure of the database."""
    world, gate = slow
    api = world.api()
    job = submit(api)
    gate.await_entry()
    api.request("DELETE", f"/v1/jobs/{job['id']}")
    gate.opened.set()
    finish_queue(api)
    assert job["id"] not in caplog.text


def test_what_was_charged_cannot_be_cancelled(slow: tuple[World, Gate]) -> None:
    world, gate = slow
    gate.opened.set()
    api = world.api()
    job = submit(api)
    assert await_job(api, job["id"])["state"] == "done"
    before, entries = world.account(), world.entries()
    problem(api.request("DELETE", f"/v1/jobs/{job['id']}"), "job-ended", 409)
    assert (world.account(), world.entries()) == (before, entries)


def test_a_cancellation_that_meets_the_charge_loses(gated: tuple[World, Gate]) -> None:
    """It looks while the job is running, and comes to the account when it is charged."""
    world, gate = gated
    api = world.api()
    job = submit(api)
    gate.await_entry()
    reservations, unit = world.curator.reservations, world.curator.ledger.unit
    running = reservations.get_job(job["id"])

    def after_the_charge() -> Any:
        gate.opened.set()
        assert await_job(api, job["id"])["state"] == "done"
        return unit()

    analyst = next(p for p in world.curator.identity.list_principals() if p.name == "ada")
    with mock.patch.object(world.curator.ledger, "unit", after_the_charge), pytest.raises(JobEnded):
        reservations.cancel(running, analyst)
    assert kinds(world) == ["reserve", "charge"]
    assert_sound(world)


def test_a_job_that_fails_is_given_back_and_tells_no_data(
    tmp_path: Path, database_url: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    noise = BrokenNoise(MARKER)
    with open_world(tmp_path, url=database_url, noise=noise) as world:
        api = world.api()
        job = submit(api)
        ended = await_job(api, job["id"])
        assert (ended["state"], ended["release"]) == ("voided", None)
        assert "Nothing was charged" in ended["reason"]
        wait_for(lambda: "RuntimeError" in caplog.text, "the log's word about the job, which comes after its end")
        assert MARKER not in str(ended) + caplog.text
        assert (kinds(world), world.account().posted, world.account().pending) == (["reserve", "void"], 0, 0)
        noise.broken = False
        assert api.post(RELEASES, json=body(), key="k").headers["curator-answer"] == "new"
        assert api.get(f"/v1/jobs/{job['id']}").json()["state"] == "voided"
        assert_sound(world)


def test_a_full_queue_refuses_before_anything_is_held(tmp_path: Path) -> None:
    gate = Gate()
    with open_world(tmp_path, noise=gate, jobs_waiting_max=2) as world:
        api = world.api()
        waiting = [submit(api, "k0", fresh=True), submit(world.api("ben"), "k1", fresh=True)]
        before, entries = world.account(), world.entries()
        refused = api.post(RELEASES, json=body(fresh=True), key="k2", headers=ASYNC)
        problem(refused, "too-many-requests", 429)
        assert refused.headers["retry-after"] == "10"
        assert (world.account(), world.entries()) == (before, entries)
        assert world.sql("SELECT count(*) FROM idempotency_keys")[0][0] == 2
        gate.opened.set()
        assert {await_job(api, job["id"])["state"] for job in waiting} == {"done"}
        finish_queue(api)  # a place is free again


def test_a_job_is_seen_with_access_and_cancelled_by_no_other_analyst(slow: tuple[World, Gate]) -> None:
    world, gate = slow
    world.add_token("carl", Role.ANALYST)
    api = world.api()
    job = submit(api)
    gate.await_entry()
    address = f"/v1/jobs/{job['id']}"
    for reader in ("ben", "root"):
        assert world.api(reader).get(address).json()["id"] == job["id"]
    problem(world.api("carl").get(address), "not-found", 404)
    problem(world.api("audra").get(address), "permission-denied", 403)
    problem(world.api("ben").request("DELETE", address), "not-found", 404)
    problem(world.api("audra").request("DELETE", address), "permission-denied", 403)
    problem(world.api("carl").request("DELETE", address), "not-found", 404)
    assert open_reservations(world) != {}


def test_an_admin_ends_anybodys_job_so_that_nobody_hoards(slow: tuple[World, Gate]) -> None:
    world, gate = slow
    job = submit(world.api())
    gate.await_entry()
    ended = world.api("root").request("DELETE", f"/v1/jobs/{job['id']}")
    assert (ended.status_code, ended.json()["state"]) == (200, "cancelled")
    admin = next(p for p in world.curator.identity.list_principals() if p.name == "root")
    entry = world.entries()[-1]
    assert (entry["kind"], entry["actor"], entry["holder"]) == ("void", admin.id, world.entries()[-2]["actor"])
    assert world.account().pending == 0
    assert_sound(world)


def test_a_private_dataset_hides_jobs_of_others(slow: tuple[World, Gate]) -> None:
    world, gate = slow
    private = register_private(world, "ada", "ben")
    job = world.api().post(f"{private}/releases", json=body(), key="k", headers=ASYNC).json()
    gate.await_entry()
    problem(world.api("ben").get(f"/v1/jobs/{job['id']}"), "not-found", 404)
    assert world.api("root").get(f"/v1/jobs/{job['id']}").json()["state"] == "running"
    problem(world.api("ben").request("DELETE", f"/v1/jobs/{job['id']}"), "not-found", 404)
    other = world.api("ben").post(f"{private}/releases", json=body(), key="k", headers=ASYNC)
    assert other.status_code == 202  # nor is he told that somebody asks the same
    assert other.json()["id"] != job["id"]


def test_whoever_asks_the_same_meanwhile_is_pointed_to_the_job(gated: tuple[World, Gate]) -> None:
    """Also where the first one waits for its answer: it holds a job like any other."""
    world, gate = gated
    first = in_background(lambda: world.api().post(RELEASES, json=body(), key="k"))
    gate.await_entry()
    (job,) = open_reservations(world)
    for who, key, headers in (("ada", "k", {}), ("ada", "other", {}), ("ben", "k", ASYNC)):
        refused = world.api(who).post(RELEASES, json=body(), key=key, headers=headers)
        assert problem(refused, "release-in-progress", 409)["job"] == job
        assert int(refused.headers["retry-after"]) >= 1
    gate.opened.set()
    answer = first()
    assert (answer.status_code, answer.headers["curator-answer"]) == (201, "new")
    assert world.api().post(RELEASES, json=body(), key="k").content == answer.content
    assert world.api("ben").post(RELEASES, json=body(), key="k").headers["curator-answer"] == "stored"
    assert (gate.calls, len(charges(world))) == (1, 1)


@pytest.mark.parametrize("headers", [{}, ASYNC], ids=["waiting", "as_a_job"])
@pytest.mark.parametrize(
    "changes",
    [
        {"price": {"mu": 0.02}},
        {"price": {"epsilon": 0.05, "delta": 1e-6}},
        {"price": {"mu": 0.05}},
        {"features": ["sex", "age"], "price": {"mu": 0.03}},
    ],
    ids=["cheaper", "cheaper_in_another_notion", "the_same", "another_order"],
)
def test_whoever_asks_what_a_job_will_answer_waits_for_it(
    slow: tuple[World, Gate], changes: dict[str, Any], headers: dict[str, str]
) -> None:
    world, gate = slow
    job = submit(world.api(), price={"mu": 0.05})
    gate.await_entry()
    ben, asked = world.api("ben"), body(**changes)
    refused = ben.post(RELEASES, json=asked, key="his", headers=headers)
    assert problem(refused, "release-in-progress", 409)["job"] == job["id"]
    assert list(open_reservations(world)) == [job["id"]]
    gate.opened.set()
    await_job(world.api(), job["id"])
    assert ben.post(RELEASES, json=asked, key="his", headers=headers).headers["curator-answer"] == "stored"
    assert len(charges(world)) == 1


@pytest.mark.parametrize(
    "changes",
    [{"price": {"mu": 0.08}}, {"targets": ["alive"]}, {"intercept": False}, {"rows": {"map": "ball", "norm": 1.0}}],
    ids=["quieter", "another_target", "no_constant", "other_rows"],
)
def test_whoever_asks_what_a_job_will_not_answer_begins_another(
    slow: tuple[World, Gate], changes: dict[str, Any]
) -> None:
    world, gate = slow
    first = submit(world.api(), price={"mu": 0.05})
    gate.await_entry()
    second = submit(world.api("ben"), **changes)
    assert set(open_reservations(world)) == {first["id"], second["id"]}
    gate.opened.set()
    assert {await_job(world.api(), job["id"])["state"] for job in (first, second)} == {"done"}
    assert len(charges(world)) == 2


def test_a_job_that_states_no_noise_answers_the_same_request_alone(slow: tuple[World, Gate]) -> None:
    """An earlier version began it."""
    world, gate = slow
    job, ben = submit(world.api()), world.api("ben")
    world.sql("UPDATE reservations SET details = json_remove(details, '$.noise')")
    refused = ben.post(RELEASES, json=body(), key="the-same", headers=ASYNC)
    assert problem(refused, "release-in-progress", 409)["job"] == job["id"]
    submit(ben, "cheaper", price={"mu": 0.02})
    gate.opened.set()


def test_a_fresh_draw_is_nobody_elses_answer(slow: tuple[World, Gate]) -> None:
    world, gate = slow
    api = world.api()
    jobs_asked = [submit(api, f"k{i}", fresh=True)["id"] for i in range(2)]
    gate.opened.set()
    assert len({await_job(api, job)["release"] for job in jobs_asked}) == 2
    assert len(charges(world)) == 2


def test_a_job_for_a_fresh_draw_answers_nobody_else(slow: tuple[World, Gate]) -> None:
    world, gate = slow
    fresh, other = submit(world.api(), "k1", fresh=True), submit(world.api("ben"), "k2")
    assert set(open_reservations(world)) == {fresh["id"], other["id"]}
    gate.opened.set()


# --- Workers that end, or fall silent


def test_a_worker_that_stops_gives_its_jobs_up(gated: tuple[World, Gate]) -> None:
    world, gate = gated
    api = world.api()
    running, waiting = submit(api, "k1", fresh=True), submit(api, "k2", fresh=True)
    gate.await_entry()
    job_runner = api.app.state.curator.job_runner
    job_runner.start()
    job_runner.stop()
    assert {api.get(f"/v1/jobs/{job['id']}").json()["state"] for job in (running, waiting)} == {"voided"}
    assert world.sql("SELECT count(*) FROM workers")[0][0] == 0
    assert (world.account().posted, world.account().pending) == (0, 0)
    problem(api.post(RELEASES, json=body(), key="k3", headers=ASYNC), "busy", 503)
    gate.opened.set()
    bought = world.api().post(RELEASES, json=body(fresh=True), key="k1")  # another process takes over
    assert bought.headers["curator-answer"] == "new"
    assert len(charges(world)) == 1
    assert_sound(world)


@pytest.mark.parametrize("reason", ["the database is busy", "the curator is sealed"])
def test_what_a_worker_cannot_give_up_when_it_stops_is_given_up_by_the_next(
    slow: tuple[World, Gate], lease: "Lease", monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """No lease has to pass: it has let go of its lock, and its file is there until nothing of it is open."""
    world, gate = slow
    api = world.api()
    job = submit(api)
    gate.await_entry()
    job_runner = api.app.state.curator.job_runner
    job_runner.start()
    with monkeypatch.context() as patch:
        if reason == "the database is busy":
            patch.setattr(job_runner.ledger, "end", mock.Mock(side_effect=Unavailable("The database is busy.")))
        else:
            patch.setattr(job_runner.ledger.guard, "reason", lambda: "restored")
        job_runner.stop()
    assert list(open_reservations(world)) == [job["id"]]
    watcher = another_worker(world)
    assert watcher.job_runner.sweep() == [job["id"]]
    assert watcher.job_runner.presence.list_known() == []
    assert (world.account().posted, world.account().pending) == (0, 0)
    assert_sound(world)
    watcher.close()


def test_whoever_starts_sweeps_what_was_left_before_the_machine_was_started(world: World) -> None:
    earlier = world.settings.anchor_folder / "workers" / "11111111-1111-1111-1111-111111111111"
    earlier.mkdir(parents=True)
    (earlier / "wrk_a1").touch()
    worker = another_worker(world)
    worker.job_runner.start()
    assert not earlier.exists()
    worker.close()


class Lease:
    """A monotonic clock in the hands of a test, for the watchers of workers."""

    def __init__(self) -> None:
        self.moment_s = 50.0

    def monotonic(self) -> float:
        return self.moment_s


@pytest.fixture
def lease(monkeypatch: pytest.MonkeyPatch) -> Lease:
    """Return the clock that decides whether a worker is silent."""
    clock = Lease()
    monkeypatch.setattr(jobs, "time", clock)
    return clock


def test_a_silent_worker_loses_its_job_and_its_late_answer_is_refused(gated: tuple[World, Gate], lease: Lease) -> None:
    world, gate = gated
    api = world.api()
    job = submit(api)
    gate.await_entry()
    watcher = another_worker(world, noise=ZeroNoise())
    lease_s = watcher.job_runner.lease_s
    world.sql(f"INSERT INTO workers (id, beat) VALUES ('{api.app.state.curator.job_runner.worker_id}', 7)")
    assert watcher.job_runner.sweep() == []  # the first look
    for _ in range(3):
        lease.moment_s += 0.9 * lease_s
        world.sql("UPDATE workers SET beat = beat + 1")  # it lives
        assert watcher.job_runner.sweep() == []
    lease.moment_s += 0.9 * lease_s
    assert watcher.job_runner.sweep() == []
    lease.moment_s += 0.2 * lease_s  # it slept for longer than a lease since its last beat
    assert watcher.job_runner.sweep() == [job["id"]]
    assert watcher.job_runner.sweep() == []
    bought = world.api(noise=ZeroNoise()).post(RELEASES, json=body(), key="k")
    assert bought.headers["curator-answer"] == "new"
    gate.opened.set()
    finish_queue(api)
    assert api.get(f"/v1/jobs/{job['id']}").json()["state"] == "voided"
    assert api.post(RELEASES, json=body(), key="k").content == bought.content
    assert job["id"] not in [entry["reservation"] for entry in charges(world)]
    assert_sound(world)
    watcher.close()


def test_no_worker_gives_up_what_it_works_on_itself(slow: tuple[World, Gate], lease: Lease) -> None:
    world, gate = slow
    api = world.api()
    submit(api, "k1", fresh=True)
    submit(api, "k2", fresh=True)
    gate.await_entry()
    job_runner = api.app.state.curator.job_runner
    for _ in range(3):
        lease.moment_s += 10 * job_runner.lease_s
        assert job_runner.sweep() == []
    assert len(open_reservations(world)) == 2


def test_a_request_that_is_given_up_while_its_caller_waits_is_not_charged_and_open_to_a_retry(
    both: World, lease: Lease
) -> None:
    noise, watcher = Interrupted(), another_worker(both)
    api = both.api(noise=noise)

    def fall_silent() -> None:
        watcher.job_runner.sweep()
        lease.moment_s += watcher.job_runner.lease_s
        assert len(watcher.job_runner.sweep()) == 1

    noise.act = fall_silent
    refused = api.post(RELEASES, json=body(), key="k")
    assert "Nothing was charged" in problem(refused, "busy", 503)["detail"]
    assert (kinds(both), both.account().posted, both.account().pending) == (["reserve", "void"], 0, 0)
    answer = api.post(RELEASES, json=body(), key="k")
    assert (answer.status_code, len(charges(both))) == (201, 1)
    assert answer.json()["receipt"]["reservation"] == charges(both)[0]["reservation"]
    assert_sound(both)
    watcher.close()


def test_a_request_that_its_analyst_cancels_while_waiting_is_not_charged(both: World) -> None:
    """The analyst was told that nothing was charged, and the caller still waits: it must stay true."""
    noise = Interrupted()
    api, canceller = both.api(noise=noise), both.api()

    def cancel() -> None:
        (job,) = open_reservations(both)
        sent = in_background(lambda: canceller.request("DELETE", f"/v1/jobs/{job}"))
        assert sent().json()["state"] == "cancelled"

    noise.act = cancel
    answer = api.post(RELEASES, json=body(), key="k")
    problem(answer, "job-ended", 409)
    assert (charges(both), both.account().posted, both.account().pending) == ([], 0, 0)
    assert_sound(both)


# --- Public times


class Work:
    """Time that passes only by working and sleeping, and rows that take some of it."""

    def __init__(self, works_s: float, fails: bool) -> None:
        self.moment_s = 100.0
        self.works_s = works_s
        self.fails = fails

    def monotonic(self) -> float:
        return self.moment_s

    def sleep(self, span_s: float) -> None:
        """Let time pass."""
        self.moment_s += span_s

    def now(self) -> datetime:
        """Return the time as entries state it."""
        return EPOCH + timedelta(seconds=self.moment_s)

    def before(self, act: Callable[..., ExactSums]) -> Callable[..., ExactSums]:
        """Let some work be done before rows are summed."""

        def working(*given: Any) -> ExactSums:
            self.moment_s += self.works_s
            if self.fails:
                raise RuntimeError(MARKER)
            return act(*given)

        return working


SCALE = 10_000.0
"""Makes seconds of milliseconds, for entries tell seconds."""


def time_of_end(
    world: World, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], works_s: float, *, fails: bool
) -> tuple[str, float]:
    """Return when a request showed how it ends, and how long it is made to take."""
    work = Work(works_s, fails)
    monkeypatch.setattr(response_timer, "time", work)
    worker = make_curator(world.settings, noise=ZeroNoise(), now=work.now, response_timer=ResponseTimer(SCALE))
    monkeypatch.setattr(worker.datasets, "sum_rows", work.before(worker.datasets.sum_rows))
    try:
        dataset = next(d for d in worker.datasets.list_all() if d.name == "cohort")
        analyst = next(p for p in worker.identity.list_principals() if p.name == "ada")
        prepared = prepare(KINDS, dataset, GramRequest.model_validate(asked | {"fresh": True}))
        key = f"k{len(world.entries())}"
        if fails:
            with pytest.raises(RuntimeError):
                worker.releases.release(prepared, analyst, key)
        else:
            worker.releases.release(prepared, analyst, key)
        return world.entries()[-1]["time"], prepared.duration_s * SCALE
    finally:
        worker.close()


PACED = [
    body(price={"mu": 0.01}),
    box(price={"mu": 0.01}, features=["creatinine"]),
    box(price={"mu": 0.01}, statistics=["xtx", "xty", "lambda_min"]),
]


@pytest.mark.parametrize("asked", PACED, ids=["ball", "omit", "lambda_min"])
def test_an_answer_and_a_failure_show_at_times_that_do_not_depend_on_the_work(
    world: World, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    shown: Callable[..., tuple[str, float]] = lambda works_s, fails: time_of_end(  # noqa: E731
        world, monkeypatch, asked, works_s, fails=fails
    )
    first, duration_s = shown(0.0, False)
    assert duration_s > 40
    assert first == (EPOCH + timedelta(seconds=100 + duration_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for share in (0.1, 0.5, 0.99):
        for fails in (False, True):
            assert shown(share * duration_s, fails)[0] == first
    late, _ = shown(1.01 * duration_s, False)
    assert late == (EPOCH + timedelta(seconds=100 + 2 * duration_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert {shown(share * duration_s, fails)[0] for share in (1.2, 1.9) for fails in (False, True)} == {late}
    assert {entry["kind"] for entry in world.entries()} == {"open", "dataset", "permit", "reserve", "charge", "void"}


def test_what_needs_no_pass_takes_no_public_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, duration_s = time_of_end(world, monkeypatch, box(price={"mu": 0.01}), 0.0, fails=False)
    assert (duration_s, shown) == (0.0, (EPOCH + timedelta(seconds=100)).strftime("%Y-%m-%dT%H:%M:%SZ"))


@pytest.mark.parametrize(("entries", "expected"), [(2, ["reserve", "charge"]), (5_000, ["charge"])])
def test_no_noise_is_drawn_while_the_account_is_locked_and_a_wide_request_reserves(
    both: World, monkeypatch: pytest.MonkeyPatch, entries: int, expected: list[str]
) -> None:
    monkeypatch.setattr(preparation, "IMMEDIATE_VALUES_MAX", entries)
    before = kinds(both)
    locked: list[bool] = []

    class Watching(ZeroNoise):
        def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
            try:
                with both.apps[-1].state.curator.database.begin():
                    locked.append(False)
            except RuntimeError:  # a unit of work within another
                locked.append(True)
            return super().sample(distribution, scales)

    api = both.api(noise=Watching())
    answer = api.post(RELEASES, json=box(), key="k")
    assert answer.status_code == 201, answer.text
    assert locked == [False]
    assert kinds(both)[len(before) :] == expected
    assert api.post(RELEASES, json=box(), key="k").content == answer.content
    assert_sound(both)
