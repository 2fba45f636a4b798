"""A bound on what is worked on at once: for all, and for each principal half of it."""

import threading
from contextlib import ExitStack

import pytest

from curator_service.kit.limiter import ConcurrencyLimiter
from curator_service.kit.problems import TooManyRequests
from curator_service.releases.jobs import FairQueue


@pytest.mark.parametrize(("total", "each"), [(1, 1), (2, 1), (3, 1), (4, 2), (40, 20)])
def test_one_principal_takes_half_of_the_places_and_another_one_finds_room(total: int, each: int) -> None:
    limiter = ConcurrencyLimiter(total, "passes", retry_after_s=3)
    with ExitStack() as held:
        for _ in range(each):
            held.enter_context(limiter.place("ada"))
        with pytest.raises(TooManyRequests, match="Nothing was charged or reserved") as refused, limiter.place("ada"):
            pytest.fail("it was let in")
        assert refused.value.headers == {"Retry-After": "3"}
        for i in range(total - each):
            held.enter_context(limiter.place(f"ben{i}"))
        with pytest.raises(TooManyRequests), limiter.place("carl"):
            pytest.fail("it was let in")
    with ExitStack() as held:  # every place is free again, of whoever was refused too
        for i in range(total):
            held.enter_context(limiter.place(f"dora{i}"))


def test_a_place_is_given_back_when_the_work_fails() -> None:
    limiter = ConcurrencyLimiter(1, "passes", retry_after_s=1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), limiter.place("ada"):
            1 / 0  # noqa: B018


def test_nothing_is_remembered_of_who_has_left() -> None:
    limiter = ConcurrencyLimiter(1, "passes", retry_after_s=1)
    with limiter.place("ada"):
        for i in range(100):
            with pytest.raises(TooManyRequests):
                limiter.acquire(f"stranger-{i}")
    assert not limiter._held


def test_threads_never_hold_more_than_the_bound_together() -> None:
    limiter, held, most, refused = ConcurrencyLimiter(4, "passes", retry_after_s=1), [0], [0], [0]
    turn = threading.Lock()

    def work(who: str) -> None:
        for _ in range(300):
            try:
                with limiter.place(who):
                    with turn:
                        held[0] += 1
                        most[0] = max(most[0], held[0])
                    with turn:
                        held[0] -= 1
            except TooManyRequests:
                refused[0] += 1

    threads = [threading.Thread(target=work, args=(f"a{i % 3}",)) for i in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held == [0]
    assert most[0] <= 4
    assert not limiter._held


def test_whoever_has_one_job_does_not_wait_behind_all_of_somebody_elses() -> None:
    queue, done = FairQueue(), []
    for who, job in [("ada", "a1"), ("ada", "a2"), ("ada", "a3"), ("ben", "b1"), ("carl", "c1"), ("ben", "b2")]:
        queue.put(who, job, lambda: None)
    for _ in range(3):
        done.append(queue.get()[:2])
    queue.put("dora", "d1", lambda: None)
    done += [queue.get()[:2] for _ in range(4)]
    assert [job for _, job in done] == ["a1", "b1", "c1", "a2", "b2", "d1", "a3"]
    assert all(who[0] == job[0] for who, job in done)
