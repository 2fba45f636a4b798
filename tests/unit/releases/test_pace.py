"""A block of work ends at public times only, however long it takes and however it ends."""

from contextlib import suppress

import pytest

from curator_service.releases import response_time as response_timer
from curator_service.releases.response_time import ResponseTimer


class Hands:
    """Time that passes only when a test lets it."""

    def __init__(self, oversleeps_s: float = 0.0) -> None:
        self.moment_s = 7.0
        self.oversleeps_s = oversleeps_s

    def monotonic(self) -> float:
        return self.moment_s

    def sleep(self, span_s: float) -> None:
        """Let time pass; sleeping takes no less than was asked, and may wake early by a hair."""
        assert span_s > 0
        self.moment_s += span_s + self.oversleeps_s


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    clock = Hands()
    monkeypatch.setattr(response_timer, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("works_s", "ends_s"),
    [(0.0, 8.0), (1.0, 8.0), (7.9, 8.0), (8.0, 8.0), (8.1, 16.0), (16.0, 16.0), (16.1, 32.0), (40.0, 64.0)],
)
@pytest.mark.parametrize("fails", [False, True], ids=["answer", "failure"])
def test_work_ends_at_its_duration_or_at_twice_or_four_times(
    hands: Hands, works_s: float, ends_s: float, fails: bool
) -> None:
    start = hands.moment_s
    with suppress(ZeroDivisionError), ResponseTimer().ending_at_public_time(8.0):
        hands.moment_s += works_s
        hands.moment_s /= 0 if fails else 1
    assert hands.moment_s - start == pytest.approx(ends_s)


def test_a_sleep_that_wakes_too_early_goes_on(hands: Hands) -> None:
    hands.oversleeps_s, start = -0.25, hands.moment_s
    asked: list[float] = []
    sleep = hands.sleep

    def short(span_s: float) -> None:
        asked.append(span_s)
        hands.oversleeps_s = -span_s / 2 if len(asked) == 1 else 0.0
        sleep(span_s)

    hands.sleep = short  # type: ignore[method-assign]
    with ResponseTimer().ending_at_public_time(8.0):
        pass
    assert len(asked) == 2
    assert hands.moment_s - start == pytest.approx(8.0)


@pytest.mark.parametrize(("factor", "duration_s"), [(0.0, 8.0), (1.0, 0.0)])
def test_nothing_is_kept_where_nothing_takes_long(hands: Hands, factor: float, duration_s: float) -> None:
    start = hands.moment_s
    with ResponseTimer(factor).ending_at_public_time(duration_s):
        hands.moment_s += 0.5
    assert hands.moment_s - start == 0.5
