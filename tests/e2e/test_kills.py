"""A curator that is killed between any two steps of a request: nothing is lost, nothing is charged twice.

Short form: the steps at the seams. ``CURATOR_TEST_LONG=1``: every step, until the request survives.
"""

import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from crowds import Crowd
from deployments import LEASE_S, Caller, Deployment, Server, ball, box, is_stopped, slug
from faulty import WATCHER_VARIABLE
from patience import pause, scaled, wait_for
from planned_requests import (
    ASYNC,
    AT_ONCE,
    STEPS_MAX,
    WISHES,
    PlannedRequest,
    WishMaker,
    close_reservations,
    question,
    read_steps,
    session,
)

pytestmark = [pytest.mark.slow, pytest.mark.crashes]

IS_LONG = os.environ.get("CURATOR_TEST_LONG") == "1"
LOAD_S = 20.0 if IS_LONG else scaled(0.9)


def send_to_be_killed(
    town: Deployment, server: Server, caller: Caller, wish: PlannedRequest, i: int, at: int | str
) -> tuple[httpx.Response | None, str]:
    """Send a request once whose server dies at a step; return its answer, if it came, and the step, if it died."""
    trace = town.trace()
    answer = wish.send(caller, i, {"at": at, "action": "kill", "trace": str(trace)})
    wait_for(lambda: read_steps(trace)[-1:] == ["end"] or server.process.poll() is not None, "the request is over")
    if server.process.poll() is None:
        return answer, ""
    assert server.process.wait() == -signal.SIGKILL, server.process.text[-2000:]
    last = read_steps(trace)[-1]
    assert last.endswith(" struck"), last
    return answer, last


@pytest.mark.parametrize("make_wish", WISHES, ids=lambda wish: wish.__name__)
def test_a_killed_curator_has_charged_each_key_once_and_answers_it_with_the_same_bytes(
    town: Deployment, make_wish: WishMaker, record_property: Callable[[str, object], None]
) -> None:
    path = town.open_account("killed")
    server = town.serve()
    killed: list[str] = []
    with town.call(server) as caller:
        wish = make_wish(path, caller)
        steps: Iterator[int | str] = itertools.count(1) if IS_LONG else iter(wish.seams)
        for i, at in enumerate(steps, start=1):
            assert i < STEPS_MAX, "the request never survives"
            received, step = send_to_be_killed(town, server, caller, wish, i, at)
            if step:
                killed.append(step)
                server.start()
            wish.settle(caller, i, received, step)
            wish.check(town.look("killed"), i, step)
            if not step:
                break
        close_reservations(town, caller, "killed")
    town.audit("killed")
    record_property("kills", len(killed))
    print(f"{make_wish.__name__}: killed {len(killed)} times, {'; '.join(killed)}")
    assert IS_LONG or len(killed) == len(wish.seams)


@pytest.mark.parametrize("at", AT_ONCE)
@pytest.mark.parametrize("end", ["its last answer", "closed"])
def test_a_session_whose_curator_is_killed_as_it_ends_has_ended_once(town: Deployment, end: str, at: str) -> None:
    path, server = town.open_account("killed"), town.serve()
    with town.call(server) as caller:
        opened = caller.insist(f"{path}/sessions", session(positives=1), "open").json()
        place, order = f"/v1/sessions/{opened['id']}", {"at": at, "action": "kill", "trace": str(town.trace())}
        with suppress(httpx.TransportError):
            if end == "closed":
                caller.delete(place, order=order)
            else:
                caller.post(f"{place}/questions", question(1), "ask", order=order)
        assert server.process.wait() == -signal.SIGKILL
        server.start()
        if end == "closed":
            assert (slug(caller.delete(place)) == "session-ended") == (at != "before commit")
        else:
            answer = caller.insist(f"{place}/questions", question(1), "ask")
            assert (answer.json()["number"], answer.json()["is_positive"]) == (1, True)
            assert caller.insist(f"{place}/questions", question(1), "ask").content == answer.content
        assert slug(caller.post(f"{place}/questions", question(1), "more")) == "session-ended"
        assert caller.get(place).json()["is_open"] is False
    books = town.audit("killed")
    assert len(books.of_kind("answer")) + len(books.of_kind("close")) == 1


def test_a_curator_that_is_killed_again_and_again_under_load_loses_no_charge_and_invents_none(
    town: Deployment, record_property: Callable[[str, object], None]
) -> None:
    path, server, kills = town.open_account("killed"), town.serve(), 0
    crowd, end = Crowd(town, [server], path, LOAD_S), time.monotonic() + LOAD_S
    while time.monotonic() < end:
        wait_for(crowd.count_served, "somebody was served") if not kills else pause(0.3)
        server.kill()
        kills += 1
        server.start()
    sent, books = crowd.settle(server, "killed")
    record_property("kills", kills)
    print(f"killed {kills} times under load: {len(sent)} requests, {len(books.charges)} charges")
    assert any(submission.status == 0 for submission in sent), "nobody was cut off"
    assert any(submission.status == 201 for submission in sent), "nobody was served"


def test_what_a_curator_of_another_machine_had_reserved_is_given_back_after_its_lease_and_charged_once(
    town: Deployment,
) -> None:
    path, lease_s = f"{town.open_account('killed')}/releases", 1.5 * LEASE_S
    changes = {"CURATOR_LEASE_S": f"{lease_s:.2f}"}
    server, other = town.serve(**changes), town.serve_elsewhere(**changes)
    with town.call(server) as caller:
        begun = time.monotonic()
        kill_after_reserving(town, server, caller, path, {})
        if town.is_sqlite:  # both are on this machine: as if nothing was known of the other one
            shutil.rmtree(workers_of(town))
    with town.call(other) as caller:
        assert slug(caller.post(path, ball(), "the-key")) == "release-in-progress"
        answer = caller.insist(path, ball(), "the-key")
        assert time.monotonic() - begun > lease_s, "it was given up before its lease was over"
        assert answer.status_code == 201
        assert caller.insist(path, ball(), "the-key").content == answer.content
    books = town.audit("killed")
    assert len(books.charges) == len(books.of_kind("void")) == 1


def workers_of(town: Deployment) -> Path:
    """Return the folder of the locks of this machine's processes."""
    return town.world.settings.anchor_folder / "workers"


@pytest.mark.parametrize("headers", [ASYNC, {}], ids=["job", "reserved"])
def test_a_curator_that_starts_again_gives_back_at_once_what_it_had_reserved_when_it_was_killed(
    town: Deployment, headers: dict[str, str]
) -> None:
    path = f"{town.open_account('killed')}/releases"
    server = town.serve(CURATOR_LEASE_S="3600")  # nobody waits for it
    with town.call(server) as caller:
        kill_after_reserving(town, server, caller, path, headers)
        server.start()
        assert town.look("killed").pending == 0
        assert caller.insist(path, ball(), "the-key", headers=headers).status_code == 201
    books = town.audit("killed")
    assert len(books.charges) == len(books.of_kind("void")) == 1
    server.terminate()
    assert [file for file in workers_of(town).rglob("wrk_*") if file.is_file()] == []


@pytest.mark.parametrize("how", ["works", "is stopped"])
def test_a_curator_that_starts_beside_a_live_one_takes_nothing_from_it(town: Deployment, how: str) -> None:
    path = f"{town.open_account('alive')}/releases"
    changes = {"CURATOR_LEASE_S": "3600"}
    first, meeting = town.serve(**changes), town.folder / "meeting"
    order = {"trace": str(town.trace())}
    if how == "works":
        order |= {"at": "after draw", "action": "meet", "place": str(meeting), "count": 2, "seconds": 60}  # type: ignore[dict-item]
    else:
        order |= {"at": "after draw", "action": "stop"}
    with town.call(first) as caller, ThreadPoolExecutor(1) as pool:
        asleep = pool.submit(caller.post, path, ball(), "the-key", order=order)
        wait_for(lambda: town.look("alive").pending > 0, "it has reserved")
        wait_for(lambda: meeting.is_dir() if how == "works" else is_stopped(first), "it is at work")
        second = town.serve(**changes)
        assert town.look("alive").pending > 0
        second.terminate()
        assert town.look("alive").pending > 0
        if how == "works":
            (meeting / "guest").touch()
        else:
            first.process.signal(signal.SIGCONT)
        assert asleep.result(30).status_code == 201
    books = town.audit("alive")
    assert (len(books.charges), books.of_kind("void")) == (1, [])


def kill_after_reserving(town: Deployment, server: Server, caller: Caller, path: str, headers: dict[str, str]) -> None:
    """Let a server die with a reservation that nobody attends to."""
    order = {"at": "after draw", "action": "kill", "trace": str(town.trace())}
    with suppress(httpx.TransportError):
        caller.post(path, ball(), "the-key", order=order, headers=headers)
    assert server.process.wait() == -signal.SIGKILL
    assert town.look("killed").pending > 0


GIVING_UP = (
    "before begin",
    "before UPDATE populations",
    "before UPDATE reservations",
    "before INSERT ledger_entries",
    "before commit",
    "after commit",
)


def test_a_job_is_given_up_once_however_many_watchers_are_killed_while_they_do_it(town: Deployment) -> None:
    path = f"{town.open_account('killed')}/releases"
    server = town.serve()
    with town.call(server) as caller:
        kill_after_reserving(town, server, caller, path, {})
    for at in GIVING_UP if IS_LONG else GIVING_UP[-2:]:
        assert town.audit("killed", settled=False).of_kind("void") == []
        server.environment[WATCHER_VARIABLE] = json.dumps({"at": at, "action": "kill", "trace": str(town.trace())})
        assert server.launch().wait() == -signal.SIGKILL
    assert len(town.audit("killed").of_kind("void")) == 1
    del server.environment[WATCHER_VARIABLE]
    server.start()
    with town.call(server) as caller:
        assert caller.insist(path, ball(), "the-key").status_code == 201
    books = town.audit("killed")
    assert len(books.charges) == len(books.of_kind("void")) == 1


def test_a_curator_starts_again_after_a_command_was_killed_that_created_a_population(doomed_town: Deployment) -> None:
    town = doomed_town
    path, name = town.open_account("older"), town.full("created")
    words = ["populations", "create", name, "--adjacency", "add_remove", "--mu", "1"]
    order = {"at": "after commit", "action": "kill", "trace": str(town.trace())}
    log = town.folder / "command.log"
    child = town.process_factory.fork("faulty:run_command", {"words": words, "order": order}, town.environment, log)
    assert child.wait() == -signal.SIGKILL, child.text
    server = town.serve()
    with town.call(server) as caller:
        assert caller.get("/readyz").json() == {"status": "ready"}
        assert caller.insist(f"{path}/releases", box(), "the-key").status_code == 201
    assert len(town.audit("created").of_kind("open")) == 1


def test_a_curator_starts_after_the_command_was_killed_that_created_its_first_population(
    embedded_town: Deployment,
) -> None:
    town, home = embedded_town, {"CURATOR_DATA_DIR": str(embedded_town.folder / "new" / "data")}
    town.run("db", "upgrade", **home)
    words = ["populations", "create", "first", "--adjacency", "add_remove", "--mu", "1"]
    order = {"at": "before anchor", "action": "kill", "trace": str(town.trace())}
    log = town.folder / "command.log"
    child = town.process_factory.fork("faulty:run_command", {"words": words, "order": order}, home, log)
    assert child.wait() == -signal.SIGKILL, child.text
    with town.call(town.serve(**home)) as caller:
        assert caller.get("/readyz").json() == {"status": "ready"}


def copy_rows(home: Path, host: Path) -> None:
    """Bring the rows of new datasets to a further host, as its admin does."""
    for folder in (home / "datasets").iterdir():
        if not (host / "datasets" / folder.name).exists():
            shutil.copytree(folder, host / "datasets" / folder.name)


def test_a_further_host_starts_again_after_a_population_was_created_elsewhere(postgres_town: Deployment) -> None:
    path, host = postgres_town.open_account("older"), postgres_town.serve_elsewhere()
    host.terminate()
    postgres_town.open_account("newer")
    with postgres_town.call(host.start()) as caller:
        assert caller.get("/readyz").json() == {"status": "not ready"}  # until the new rows are brought to it
        copy_rows(postgres_town.world.settings.data_dir, Path(host.environment["CURATOR_DATA_DIR"]))
        assert caller.get("/readyz").json() == {"status": "ready"}
        assert caller.insist(f"{path}/releases", box(), "the-key").status_code == 201


def test_a_job_that_takes_longer_than_the_lease_is_not_given_up_while_its_curator_lives(town: Deployment) -> None:
    path = f"{town.open_account('long')}/releases"
    first, second = town.serve(), town.serve_elsewhere()
    order = {"at": "after draw", "action": "sleep", "seconds": 0.8, "trace": str(town.trace())}
    with town.call(first) as caller, town.call(second) as other:
        assert caller.post(path, ball(), "the-key", order=order).status_code == 201
        assert other.insist(path, ball(), "the-key").status_code == 201
    books = town.audit("long")
    assert (len(books.charges), len(books.of_kind("void"))) == (1, 0)


def test_the_job_of_a_live_curator_is_not_given_up_where_the_anchors_folder_is_a_copy(doomed_town: Deployment) -> None:
    """As whoever moves the anchor to another disk makes one: the copies of the locks are locked by nobody."""
    town = doomed_town
    path, lease_s = f"{town.open_account('lively')}/releases", scaled(1.2)
    one, _other = (town.serve(CURATOR_LEASE_S=str(lease_s)) for _ in range(2))
    anchor, meeting = town.world.settings.anchor_folder, town.folder / "meeting"
    order = {"at": "after draw", "action": "meet", "place": str(meeting), "count": 2, "seconds": 60}
    with town.call(one) as caller, ThreadPoolExecutor(1) as pool:
        asleep = pool.submit(caller.post, path, ball(), "the-key", order=order | {"trace": str(town.trace())})
        wait_for(meeting.is_dir, "it is at work")
        shutil.copytree(anchor, anchor.with_name("copy"))
        anchor.rename(anchor.with_name("old"))
        anchor.with_name("copy").rename(anchor)
        time.sleep(lease_s / 4 * 2)  # the other one has looked
        (meeting / "guest").touch()
        assert asleep.result(30).status_code == 201
    assert town.look("lively").of_kind("void") == []
