"""The same new key at the same instant, over any number of threads, processes and hosts: one charge, one answer."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx
import pytest
from customers import read_record
from deployments import ANALYSTS, Caller, Deployment, at_once, ball, box, describe, slug
from patience import scaled, wait_for
from planned_requests import WISHES, PlannedRequest, close_reservations, question, session

pytestmark = pytest.mark.slow

TRIES = 2
POSITIVES, QUESTIONS_MAX = 3, 500


def send_both(town: Deployment, callers: list[Caller], wish: PlannedRequest, i: int) -> list[httpx.Response | None]:
    """Send one request with one key over each connection, so that all find the key unknown; return the answers."""
    place = str(town.trace())

    def send(caller: Caller) -> Callable[[], httpx.Response | None]:
        order = {"at": "before begin", "action": "meet", "place": place, "count": 2, "trace": str(town.trace())}
        return lambda: wish.send(caller, i, order)

    return at_once(*(send(caller) for caller in callers))


@pytest.mark.parametrize("hosts", ["one_server", "two_servers"])
def test_two_who_race_with_one_new_key_get_one_answer_for_one_charge(town: Deployment, hosts: str) -> None:
    paths = {make_wish: town.open_account(make_wish.__name__) for make_wish in WISHES}
    first = town.serve()
    second = first if hosts == "one_server" else town.serve_elsewhere()
    with town.call(first) as one, town.call(second) as two:
        for make_wish, path in paths.items():
            wish, name = make_wish(path, one), make_wish.__name__
            for i in range(1, TRIES + 1):
                answers = send_both(town, [one, two], wish, i)
                for answer in answers:
                    allowed = answer and (answer.is_success or slug(answer) == "release-in-progress")
                    assert allowed, f"{name}: {describe(answer)}"
                settled = {wish.settle(caller, i, answers.pop(), name).content for caller in (two, one)}
                assert len(settled) == 1, name
                wish.check(town.look(name), i, name)
            close_reservations(town, one, name)
            town.audit(name)


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


def ask_until_ended(callers: list[Caller], place: str, wished: tuple[int, ...], end: Callable[[], Any]) -> int:
    """Ask a session over each connection until something has ended it; return how many of its answers were positive.

    The first question has one key for all. Each answer of the chain must be one that somebody got.
    """

    def ask(i: int, caller: Caller) -> list[tuple[int, bool]]:
        told = []
        for j in range(QUESTIONS_MAX):
            content, key = question(wished[j % len(wished)]), f"{i if j else 'all'}-{j}"
            answer = caller.insist(f"{place}/questions", content, key)
            if slug(answer) == "session-ended":
                return told
            assert answer.status_code == 201, describe(answer)
            told.append((answer.json()["number"], answer.json()["is_positive"]))
        raise AssertionError("it does not end")

    *told, _ = at_once(*(partial(ask, i, caller) for i, caller in enumerate(callers)), end)
    (first,) = {own[0] for own in told}
    shown = callers[0].get(f"{place}?after={first[0] - 1}&limit=1000").json()
    assert (shown["is_open"], shown["next"]) == (False, None)
    got = [first, *(one for own in told for one in own[1:])]
    assert sorted(got) == [(one["number"], one["is_positive"]) for one in shown["questions"]]
    return sum(is_positive for _, is_positive in got)


@pytest.mark.parametrize("end", ["its last answer", "closed"])
def test_many_who_ask_one_session_at_once_get_the_answers_of_its_chain(town: Deployment, end: str) -> None:
    path = town.open_account("raced")
    servers, is_closed = [town.serve(), town.serve_elsewhere()], end == "closed"
    with ExitStack() as stack:
        callers = [stack.enter_context(town.call(server)) for server in servers * 3]
        opened = callers[0].insist(f"{path}/sessions", session(positives=POSITIVES), "open")
        place = f"/v1/sessions/{opened.json()['id']}"
        closers = [stack.enter_context(town.call(server)) for server in servers]

        def close() -> None:
            wait_for(lambda: len(town.look("raced").questions) > 20, "it was asked")
            answers = at_once(*(partial(caller.delete, place) for caller in closers))
            assert sorted(slug(answer) for answer in answers) == ["", "session-ended"]

        wished, end_it = ((0,), close) if is_closed else ((0, 0, 1), lambda: None)
        positives = ask_until_ended(callers, place, wished, end_it)
    assert positives == (0 if is_closed else POSITIVES)
    assert len(town.audit("raced").of_kind("close")) == is_closed
