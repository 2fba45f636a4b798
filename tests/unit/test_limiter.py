"""Bounds on what is worked on at once, and on how often somebody asks."""

import threading
from contextlib import ExitStack
from http import HTTPStatus

import pytest

from curator_service.kit.limiter import ConcurrencyLimiter, FailureLimiter, RateLimiter, network_of
from curator_service.kit.problems import Problem, TooManyRequests
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


def take_all(rate: RateLimiter, key: str) -> None:
    while True:
        rate.take(key)


class TestRate:
    def test_so_many_at_once_and_as_many_again_within_a_minute(self) -> None:
        moment = [1000.0]
        rate = RateLimiter(6, "requests", now=lambda: moment[0])
        for _ in range(6):
            rate.take("ada")
        with pytest.raises(TooManyRequests, match="6 requests a minute") as refused:
            rate.take("ada")
        assert refused.value.headers == {"Retry-After": "10"}
        rate.take("ben")  # has a bucket of their own
        moment[0] += 9.9
        with pytest.raises(TooManyRequests):
            rate.take("ada")
        moment[0] += 0.1
        rate.take("ada")
        with pytest.raises(TooManyRequests):
            rate.take("ada")
        moment[0] += 3600
        for _ in range(6):  # no more than a full bucket, however long nobody asked
            rate.take("ada")
        with pytest.raises(TooManyRequests):
            rate.take("ada")

    @pytest.mark.parametrize("per_minute", [1, 7, 600, 999_983])
    def test_whoever_waits_as_long_as_was_said_is_let_in(self, per_minute: int) -> None:
        moment = [0.1]
        rate = RateLimiter(per_minute, "requests", now=lambda: moment[0])
        for _ in range(per_minute):
            rate.take("ada")
        for _ in range(5):
            with pytest.raises(TooManyRequests) as refused:
                take_all(rate, "ada")
            wait_s = int(refused.value.headers["Retry-After"])
            assert 1 <= wait_s <= 60
            moment[0] += wait_s
            rate.take("ada")

    def test_a_look_takes_nothing(self) -> None:
        rate = RateLimiter(1, "requests", now=lambda: 5.0)
        for _ in range(3):
            rate.check("ada")
        rate.take("ada")
        with pytest.raises(TooManyRequests):
            rate.check("ada")

    def test_strangers_take_no_memory(self) -> None:
        rate = RateLimiter(5, "requests", keys_max=100, now=lambda: 5.0)
        for i in range(1000):
            rate.take(f"stranger-{i}")
        assert len(rate._full_at) == 100

    def test_threads_take_no_more_than_there_is(self) -> None:
        rate, taken = RateLimiter(100, "requests", now=lambda: 5.0), []

        def work() -> None:
            for _ in range(100):
                try:
                    rate.take("ada")
                except TooManyRequests:
                    continue
                taken.append(None)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 100


class Invalid(Problem):
    """A token that is not good."""

    slug, status, title = "invalid", HTTPStatus.UNAUTHORIZED, "Invalid"


class TestFailures:
    def fail(self, limiter: FailureLimiter, peer: str, header: str) -> None:
        with limiter.watch(peer, header):
            raise Invalid("no")

    def test_an_address_is_refused_before_anything_is_looked_up(self) -> None:
        limiter = FailureLimiter(RateLimiter(3, "tokens", now=lambda: 5.0), Invalid)
        for i in range(3):
            with pytest.raises(Invalid):
                self.fail(limiter, "192.0.2.1", f"Bearer {i}")
        with pytest.raises(TooManyRequests), limiter.watch("192.0.2.1", "Bearer 4"):
            pytest.fail("it was looked up")
        with limiter.watch("192.0.2.2", "Bearer 4"):
            pass  # another address

    def test_whoever_was_let_in_before_is_not_locked_out_by_others_of_the_same_address(self) -> None:
        limiter = FailureLimiter(RateLimiter(1, "tokens", now=lambda: 5.0), Invalid)
        with limiter.watch("192.0.2.1", "Bearer good"):
            pass
        with pytest.raises(Invalid):
            self.fail(limiter, "192.0.2.1", "Bearer bad")
        for _ in range(3):
            with limiter.watch("192.0.2.1", "Bearer good"):
                pass
        with pytest.raises(TooManyRequests):  # it was revoked: from here on it is like any other
            self.fail(limiter, "192.0.2.1", "Bearer good")
        with pytest.raises(TooManyRequests), limiter.watch("192.0.2.1", "Bearer good"):
            pytest.fail("it was looked up")

    def test_headers_are_kept_as_keyed_hashes_and_not_for_ever(self) -> None:
        limiter = FailureLimiter(RateLimiter(1, "tokens"), Invalid, known_max=10)
        for i in range(100):
            with limiter.watch("192.0.2.1", f"Bearer cur_{i}"):
                pass
        assert len(limiter._known) == 10
        assert b"cur_" not in b"".join(limiter._known)

    def test_what_fails_otherwise_does_not_count(self) -> None:
        limiter = FailureLimiter(RateLimiter(1, "tokens", now=lambda: 5.0), Invalid)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), limiter.watch("192.0.2.1", "Bearer x"):
                1 / 0  # noqa: B018


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", "unknown"),
        ("<script>", "unknown"),
        ("localhost", "unknown"),
    ],
)
def test_an_address_of_version_6_counts_as_its_network(host: str, network: str) -> None:
    assert network_of(host) == network
