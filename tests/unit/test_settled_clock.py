"""A clock that was set wrongly ends nothing for good before somebody could set it right."""

from datetime import UTC, datetime, timedelta

import pytest

from curator_service.kit import clock
from curator_service.kit.clock import SettledClock, timestamp

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


class Machine:
    """A machine whose clock may be set, and whose seconds pass."""

    def __init__(self, newest: datetime | None) -> None:
        self.newest = "" if newest is None else timestamp(newest)
        self.set_by, self.passed_s = timedelta(0), 0.0
        self.clock = SettledClock(self.now, lambda: self.newest, lambda: self.passed_s)
        self.settled, self.judge = self.clock.is_settled, self.clock.judge

    def now(self) -> datetime:
        return NOON + self.set_by + timedelta(seconds=self.passed_s)


@pytest.mark.parametrize("last", [None, NOON, NOON - timedelta(hours=23), NOON + timedelta(minutes=59)])
def test_a_clock_that_goes_on_from_what_is_stored_is_believed_at_once(last: datetime | None) -> None:
    assert Machine(last).settled()


@pytest.mark.parametrize("last", [NOON - timedelta(days=90), NOON + timedelta(days=3)])
def test_any_other_clock_is_believed_when_nobody_has_set_it_for_a_while(
    last: datetime, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(last)
    for passed_s in (0.0, 60.0, clock.SETTLING_S - 1):
        machine.passed_s = passed_s
        assert not machine.settled()
    assert caplog.text.count("the clock says 2027-03-01T12:00:00Z") == 1
    machine.passed_s = clock.SETTLING_S
    assert machine.settled()


def test_a_clock_that_is_set_right_meanwhile_has_ended_nothing() -> None:
    machine = Machine(NOON)
    machine.set_by = timedelta(days=365)
    for passed_s in (0.0, 60.0):
        machine.passed_s = passed_s
        assert not machine.settled()
    machine.set_by = timedelta(0)
    assert machine.settled()


def test_a_clock_that_is_set_while_the_service_runs_is_looked_at_anew() -> None:
    machine = Machine(NOON)
    assert machine.settled()
    machine.passed_s = 3600.0
    assert machine.settled()
    machine.set_by = timedelta(days=3)
    assert not machine.settled()
    machine.passed_s += clock.SETTLING_S
    assert machine.settled()


def test_ends_are_held_against_what_is_stored_while_a_clock_that_is_behind_is_not_believed() -> None:
    machine = Machine(NOON + timedelta(days=3))
    assert machine.judge() == NOON + timedelta(days=3)
    machine.passed_s = clock.SETTLING_S - 1
    assert machine.judge() == machine.now() + timedelta(days=3)
    machine.passed_s = clock.SETTLING_S
    assert machine.judge() == machine.now()
    machine.set_by = timedelta(days=3)
    assert machine.judge() == machine.now()


@pytest.mark.parametrize("last", [None, NOON, NOON - timedelta(days=90), NOON + timedelta(minutes=59)])
def test_ends_are_held_against_any_other_clock(last: datetime | None) -> None:
    machine = Machine(last)
    assert machine.judge() == machine.now()
