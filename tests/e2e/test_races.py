"""The same new key at the same instant, over any number of threads, processes and hosts: one charge, one answer."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from customers import read_record
from deployments import ANALYSTS, Caller, Deployment, at_once, ball, box, describe, slug
from patience import scaled
from planned_requests import ASYNC

pytestmark = pytest.mark.slow

TRIES = 2
Race = tuple[dict[str, Any], dict[str, str]]
RACES: dict[str, Race] = {
    "at_once": (box(), {}),
    "reserved_first": (ball(), {}),
    "job": (ball(), ASYNC),
    "stored": (box(fresh=False, price={"mu": 0.02}), {}),
}


def send_both(town: Deployment, callers: list[Caller], path: str, race: Race, key: str) -> list[httpx.Response]:
    """Send one request with one key over each connection, so that all find the key unknown; return the answers."""
    content, headers = race
    place = str(town.trace())

    def send(caller: Caller) -> Callable[[], httpx.Response]:
        order = {"at": "before begin", "action": "meet", "place": place, "count": 2, "trace": str(town.trace())}
        return lambda: caller.post(path, content, key, order=order, headers=headers)

    return at_once(*(send(caller) for caller in callers))


def settle(callers: list[Caller], path: str, race: Race, key: str, answers: list[httpx.Response]) -> set[bytes]:
    """Check each answer, and ask again with the key until all are answers; return the different bytes."""
    content, headers = race
    for answer in answers:
        allowed = answer.status_code in {200, 201, 202} or slug(answer) == "release-in-progress"
        assert allowed, describe(answer)
    bodies = {answer.content for answer in answers if answer.status_code in {200, 201}}
    for caller in callers:
        answer = caller.insist(path, content, key, headers=headers)
        assert answer.status_code in {200, 201}, describe(answer)
        bodies.add(answer.content)
    return bodies


@pytest.mark.parametrize("hosts", ["one_server", "two_servers"])
def test_two_who_race_with_one_new_key_get_one_answer_for_one_charge(town: Deployment, hosts: str) -> None:
    paths = {name: f"{town.open_account(f'raced_{name}')}/releases" for name in RACES}
    first = town.serve()
    second = first if hosts == "one_server" else town.serve_elsewhere()
    with town.call(first) as one, town.call(second) as two:
        for name, race in RACES.items():
            if name == "stored":
                assert one.insist(paths[name], race[0], "the-first").status_code == 201
            for i in range(TRIES):
                key = f"{name}-{i}"
                answers = send_both(town, [one, two], paths[name], race, key)
                bodies = settle([one, two], paths[name], race, key, answers)
                town.look(f"raced_{name}")
                assert len(bodies) == 1, name
            charged = 1 if name == "stored" else TRIES
            assert len(town.audit(f"raced_{name}").charges) == charged, name


@pytest.mark.parametrize("content", [box(), ball()], ids=["at_once", "reserved_first"])
def test_two_processes_that_race_with_the_same_keys_get_the_same_answers(
    town: Deployment, content: dict[str, Any]
) -> None:
    path = f"{town.open_account('raced')}/releases"
    servers, keys = [town.serve(), town.serve_elsewhere()], [f"key-{i}" for i in range(6)]
    start_at = time.time() + scaled(0.3)
    buyers = []
    for i, server in enumerate(servers):
        record = town.folder / f"{i}.record"
        arguments = {
            "url": server.url,
            "token": town.tokens[ANALYSTS[0]],
            "path": path,
            "content": content,
            "keys": keys,
            "start_at": start_at,
            "record": str(record),
        }
        buyers.append((town.process_factory.fork("customers:buy", arguments, {}, town.folder / f"{i}.log"), record))
    for child, _ in buyers:
        assert child.wait(60) == 0, child.text
    one, two = (read_record(record) for _, record in buyers)
    assert {sold.status for sold in one + two} == {201}
    assert [sold.digest for sold in one] == [sold.digest for sold in two]
    assert len({sold.digest for sold in one}) == len(keys)
    assert len(town.audit("raced").charges) == len(keys)
