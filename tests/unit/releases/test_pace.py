"""A block of work ends at public times only, however long it takes and however it ends; the machine sets their pace."""

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import body, open_world
from typer.testing import CliRunner

from curator_service import app as application
from curator_service.cli.main import app as command
from curator_service.kinds.registry import KINDS
from curator_service.releases import pace
from curator_service.releases import response_time as response_timer
from curator_service.releases.pace import measure_pace, round_up
from curator_service.releases.response_time import HEADROOM, ResponseTimer, pass_duration_s, row_s
from curator_service.settings import Settings


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


@given(st.floats(2**-8, 2**12))
def test_a_pace_is_on_a_coarse_grid_and_never_below_what_was_measured(slowness: float) -> None:
    chosen = round_up(slowness)
    assert slowness <= chosen * (1 + 1e-12)
    assert chosen <= slowness * 2**0.25 * (1 + 1e-12)
    assert 4 * math.log2(chosen) == pytest.approx(round(4 * math.log2(chosen)), abs=1e-9)


def test_the_slowest_kernel_at_its_best_moment_sets_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine on which every number takes 3 units of what the reference takes for a row of the widest."""
    kernels = KINDS.typical
    moment, seconds = [0.0], iter(3.0 + i % 5 for i in range(10_000))

    def thread_time() -> float:
        moment[0] += next(seconds)
        return moment[0]

    monkeypatch.setattr(pace.time, "thread_time", thread_time)
    least = [pace.tile_rows(kernel.width) * row_s(kernel) for kernel in kernels]
    assert measure_pace.__wrapped__() == round_up(3.0 / min(least))


def test_a_pass_is_made_to_take_several_times_what_the_reference_machine_needs() -> None:
    kernel = KINDS.typical[0]
    slope = pass_duration_s(kernel, 2_000_000) - pass_duration_s(kernel, 1_000_000)
    assert slope == pytest.approx(HEADROOM * 1_000_000 * row_s(kernel))


def test_quotes_state_the_times_of_the_pace_that_is_set(tmp_path: Path) -> None:
    told = []
    for k, chosen in enumerate((1.0, 2.0)):
        with open_world(tmp_path / str(k), pace=chosen) as world:
            quotes = [world.api().post("/v1/datasets/cohort/quotes", json=asked).json() for asked in _ASKED]
            told.append([quote["duration_s"] for quote in quotes])
    assert told[0][1] == 0
    assert told[1] == [2 * duration_s for duration_s in told[0]]


_ASKED: list[dict[str, Any]] = [
    body(),
    body(rows={"map": "box"}),
    body(rows={"map": "box"}, statistics=["xtx", "xty", "lambda_min"]),
]


def test_an_application_measures_where_no_pace_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "measure_pace", lambda _kinds: 1.25)
    for settings, expected in (({}, 1.25), ({"pace": 3.0}, 3.0)):
        made = application.create_app(Settings(data_dir=tmp_path, **settings))
        assert made.state.curator.releases.pace == expected
        made.state.curator.close()


@pytest.mark.parametrize("chosen", [None, "7.5"])
def test_workers_are_told_the_pace_that_was_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    told: list[float | None] = []
    monkeypatch.setenv("CURATOR_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr("curator_service.api.serving.run_server", lambda *_, **__: told.append(Settings().pace))
    monkeypatch.setattr(pace, "measure_pace", lambda: 2**0.25)
    monkeypatch.setattr(os, "environ", os.environ.copy() | ({} if chosen is None else {"CURATOR_PACE": chosen}))
    assert CliRunner().invoke(command, ["serve", "--port", "0"]).exit_code == 0
    assert told == [2**0.25 if chosen is None else 7.5]
