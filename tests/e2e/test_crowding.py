"""Many requests that take time: who is let in, what a refusal leaves behind, and who is served meanwhile."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from deployments import ANALYSTS, Deployment, ball, box, describe, slug
from patience import scaled, wait_for

from curator_service.container import THREADS
from curator_service.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.crashes]

GUESTS = 1000
PASSES = Settings.model_fields["passes_max"].default


class Held:
    """Requests that stand at one of their steps until they are let go."""

    def __init__(self, place: Path, pool: ThreadPoolExecutor) -> None:
        self.place, self.pool = place, pool
        self.sent: list[Future[httpx.Response]] = []

    @property
    def order(self) -> dict[str, Any]:
        """What each is told."""
        trace = self.place.with_name(f"trace-{len(self.sent)}")
        meeting = {"place": str(self.place), "count": GUESTS, "seconds": 120}
        return {"at": "before draw", "action": "meet", "trace": str(trace), **meeting}

    def send(self, act: Callable[[dict[str, Any]], httpx.Response]) -> Future[httpx.Response]:
        self.sent.append(self.pool.submit(act, self.order))
        return self.sent[-1]

    def count(self) -> int:
        """Return how many stand there."""
        return len(list(self.place.iterdir())) if self.place.is_dir() else 0

    def let_go(self) -> None:
        for i in range(GUESTS):
            (self.place / f"guest-{i}").touch()


@contextmanager
def holding(town: Deployment) -> Iterator[Held]:
    """Yield what holds requests, and let them go at the end."""
    with ThreadPoolExecutor(64) as pool:
        held = Held(town.folder / "meeting", pool)
        held.place.mkdir()
        try:
            yield held
        finally:
            held.let_go()


def test_passes_of_one_analyst_stop_neither_health_nor_others_and_a_refused_one_leaves_nothing(
    town: Deployment,
) -> None:
    path = f"{town.open_account('crowded')}/releases"
    server = town.serve()
    with (
        town.call(server) as ada,
        town.call(server, ANALYSTS[1]) as ben,
        town.call(server, ANALYSTS[2]) as carl,
        holding(town) as held,
    ):
        sent = {
            f"ada-{i}": held.send(lambda order, i=i: ada.post(path, ball(), f"ada-{i}", order=order)) for i in range(45)
        }
        # All but those that are worked on are answered while these are still at work.
        wait_for(lambda: sum(answer.done() for answer in sent.values()) == 45 - PASSES // 2, "the others are refused")
        assert held.count() == PASSES // 2
        for answer in sent.values():
            if answer.done():
                refused = answer.result()
                assert (refused.status_code, slug(refused)) == (429, "too-many-requests"), describe(refused)
                assert refused.headers["retry-after"] == "1"
        assert len(town.look("crowded").of_kind("reserve")) == PASSES // 2
        # Whoever needs no pass is served, and somebody else's pass finds room.
        assert carl.get("/readyz").status_code == 200
        assert carl.post(path, box(), "carl-1").status_code == 201
        others = [
            held.send(lambda order, i=i: ben.post(path, ball(), f"ben-{i}", order=order)) for i in range(PASSES // 2)
        ]
        wait_for(lambda: held.count() == PASSES, "the other analyst's are worked on")
        assert slug(carl.post(path, ball(), "carl-2")) == "too-many-requests"
        assert not any(answer.done() for answer in others)
        held.let_go()
        for answer in others:
            assert answer.result(scaled(60)).status_code == 201
        # A refused key is free for any request; each one is answered in the end, and charged once.
        refused_keys = [key for key, answer in sent.items() if answer.result(scaled(60)).status_code == 429]
        assert ada.insist(path, ball(price={"mu": 0.02}), refused_keys[0]).status_code == 201
        assert ada.insist(path, ball(), refused_keys[1]).status_code == 201
        assert carl.insist(path, ball(), "carl-2").status_code == 201
    books = town.audit("crowded")
    assert len(books.charges) == len(books.releases) == PASSES + 4
    assert books.of_kind("void") == []


def test_one_analyst_cannot_take_every_thread(embedded_town: Deployment) -> None:
    town = embedded_town
    path = f"{town.open_account('crowded')}/releases"
    server = town.serve()
    with town.call(server) as ada, town.call(server, ANALYSTS[1]) as ben, holding(town) as held:
        sent = [held.send(lambda order, i=i: ada.post(path, box(), f"ada-{i}", order=order)) for i in range(THREADS)]
        wait_for(lambda: held.count() == THREADS // 2, "half of the threads work for one")
        wait_for(lambda: sum(answer.done() for answer in sent) == THREADS // 2, "the others are refused")
        assert ben.post(path, box(), "ben-1").status_code == 201
        assert slug(ada.get("/v1/datasets")) == "too-many-requests"
        refused = [i for i, answer in enumerate(sent) if answer.done()]
        held.let_go()
        assert {answer.result(scaled(60)).status_code for answer in sent} == {201, 429}
        assert ada.insist(path, box(price={"mu": 0.02}), f"ada-{refused[0]}").status_code == 201  # the key was free
    assert len(town.audit("crowded").charges) == THREADS // 2 + 2


def test_a_request_that_is_worked_on_does_not_make_room_for_newcomers(embedded_town: Deployment) -> None:
    town, most = embedded_town, 8
    path = f"{town.open_account('crowded')}/releases"
    server = town.serve(CURATOR_CONNECTIONS_MAX=str(most))
    with town.call(server) as ada, holding(town) as held, ExitStack() as stack:
        sent = held.send(lambda order: ada.post(path, box(), "ada-1", order=order))
        wait_for(lambda: held.count() == 1, "it is worked on")
        for _ in range(4 * most):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=scaled(30)))
        assert ada.get("/healthz").status_code == 200  # and so the server has seen the others
        held.let_go()
        assert sent.result(scaled(60)).status_code == 201


def test_a_pass_holds_no_connection_to_the_database_while_it_works(postgres_town: Deployment) -> None:
    """There are eight of each kind in a process: passes that wait for their public times must not take them."""
    town, most = postgres_town, 10
    path = f"{town.open_account('crowded')}/releases"
    server = town.serve(CURATOR_PASSES_MAX=str(2 * most))
    with town.call(server) as ada, town.call(server, ANALYSTS[1]) as ben, holding(town) as held:
        sent = [held.send(lambda order, i=i: ada.post(path, ball(), f"ada-{i}", order=order)) for i in range(most)]
        wait_for(lambda: held.count() == most, "all of them work")
        assert ben.get("/readyz").status_code == 200
        assert ben.post(path, box(), "ben-1").status_code == 201
        held.let_go()
        assert {answer.result(scaled(60)).status_code for answer in sent} == {201}
    assert len(town.audit("crowded").charges) == most + 1


def test_what_takes_more_than_a_second_by_its_declarations_is_a_job_that_any_client_follows(town: Deployment) -> None:
    """Of ten million declared rows a pass is given 2.6 s: nobody's thread waits for them."""
    path = f"{town.open_account('declared', row_capacity=10_000_000)}"
    server = town.serve()
    with town.call(server) as ada:
        quote = ada.post(f"{path}/quotes", ball(), "")
        assert quote.json()["duration_s"] > 1
        accepted = [ada.post(f"{path}/releases", ball(), f"key-{i}") for i in range(9)]
        assert [answer.status_code for answer in accepted] == [202] * 8 + [429]
        assert accepted[-1].headers["retry-after"] == "10"
        assert ada.get("/readyz").status_code == 200
        assert len(town.look("declared").of_kind("reserve")) == 8
        for answer in accepted[:-1]:
            assert ada.delete(f"/v1/jobs/{answer.json()['id']}").status_code in {200, 409}
        wait_for(lambda: ada.post(f"{path}/releases", ball(), "key-8").status_code == 202, "there is a place again", 60)
