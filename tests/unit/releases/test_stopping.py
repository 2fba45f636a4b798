"""Cancelled work frees its thread at a public step, which tells nothing of rows, and is worked on no more."""

import pickle
import threading
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.looks import draw, make_kernels, store
from curator_service.datasets.engines.numpy import NumpyEngine, tile_rows
from curator_service.kit.problems import Problem
from curator_service.releases import response_time
from curator_service.releases.jobs import SHORT_S, FairQueue, JobRunner
from curator_service.releases.response_time import STEP_LEAST_S, STEPS, ResponseTimer
from curator_service.releases.stopping import StoppableKernel, Stopped
from curator_service.releases.submission import JobEnded

SPAN_S = 64.0
STEP_S = SPAN_S / STEPS


class Simulation:
    """Time that passes by sleeping alone, a pass over tiles that take some, and somebody who cancels."""

    def __init__(self, tiles_s: list[float], cancelled_s: float) -> None:
        self.now_s = 7.0
        self.ends_s = [self.now_s + end for end in accumulate(tiles_s)]
        self.cancelled_s = self.now_s + cancelled_s
        self.looked_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, span_s: float) -> None:
        self.now_s += span_s

    def begin(self, work: Callable[[], Callable[[], bool]]) -> Any:
        self.is_stopped = work()
        return SimpleNamespace(done=lambda: self.now_s >= self.left_s(), result=self.result)

    def result(self) -> str:
        if self.left_s() < self.ends_s[-1]:
            raise Stopped
        return "sums"

    def left_s(self) -> float:
        """Return when the pass leaves the thread: after its last tile, or after the one in which it is told to stop."""
        if not self.is_stopped():
            return self.ends_s[-1]
        return next((end for end in self.ends_s if end >= self.looked_s), self.ends_s[-1])

    def look(self) -> bool:
        self.looked_s = self.now_s  # the last time is that at which it is told
        return self.now_s >= self.cancelled_s

    def freed_s(self, monkeypatch: pytest.MonkeyPatch, piece_s: float = 0.0) -> tuple[float, bool]:
        """Return when the next job begins, and whether what the pass gave is drafted and posted before that."""
        monkeypatch.setattr(response_time, "time", self)
        monkeypatch.setattr(response_time, "begin", self.begin)
        start = self.now_s
        try:
            ResponseTimer().work_in_steps(lambda is_stopped: is_stopped, SPAN_S, self.look, step_least_s=piece_s)
            is_posted = True
        except Stopped:
            assert self.now_s >= self.cancelled_s
            is_posted = False
        else:
            assert self.now_s - start >= SPAN_S
        assert self.now_s >= self.left_s()  # one pass at a time
        return self.now_s - start, is_posted


MOMENTS = np.random.default_rng(11).uniform(0.0, 1.1 * SPAN_S, 400).tolist()
FAST, SLOW = [0.03] * 300, [0.05] * 7 + [0.11] * 290  # 9 s of work, and 32 s in tiles of another length
LATE = [0.6] * 130
"""78 s: after the public time."""


@pytest.mark.parametrize("other", [SLOW, [0.001], [0.4] * 100, [0.6] * 104])
def test_when_a_cancelled_job_frees_its_lane_tells_nothing_of_rows(
    monkeypatch: pytest.MonkeyPatch, other: list[float]
) -> None:
    """Nor whether sums are drafted and posted before, for nothing, which takes some milliseconds."""
    shown = [[Simulation(tiles, at).freed_s(monkeypatch) for at in MOMENTS] for tiles in (FAST, other)]
    assert shown[0] == shown[1]
    for cancelled_s, (freed_s, _is_posted) in zip(MOMENTS, shown[0], strict=True):
        assert freed_s % STEP_S == pytest.approx(0)
        assert min(cancelled_s + STEP_S, SPAN_S) <= freed_s <= min(cancelled_s + 2 * STEP_S, SPAN_S)


@pytest.mark.parametrize("tile_s", [3.9, 6.5, 9.1, 20.0])
def test_a_step_is_no_shorter_than_what_goes_on_though_it_is_told_to_stop(
    monkeypatch: pytest.MonkeyPatch, tile_s: float
) -> None:
    """Or the step at which a tile ends tells how long tiles take, of equal rows 0.65 of the time of others."""
    shown = []
    for tile in (tile_s, 0.65 * tile_s):
        tiles = [tile] * int(SPAN_S / tile_s)
        shown.append([Simulation(tiles, at).freed_s(monkeypatch, piece_s=20.0) for at in MOMENTS])
    assert shown[0] == shown[1]


def test_a_pass_that_is_late_or_slow_to_notice_frees_its_lane_at_a_later_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for tiles in (LATE, [2.5 * STEP_S] * 8):
        for at in MOMENTS:
            freed_s, _is_posted = Simulation(tiles, at).freed_s(monkeypatch)
            assert freed_s % STEP_S == pytest.approx(0)
            assert freed_s <= max(at + 5 * STEP_S, SPAN_S) or freed_s == 2 * SPAN_S


def test_work_that_nobody_cancels_ends_at_its_public_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for tiles, ends_s in ((FAST, SPAN_S), (SLOW, SPAN_S), (LATE, 2 * SPAN_S)):
        assert Simulation(tiles, float("inf")).freed_s(monkeypatch) == (pytest.approx(ends_s), True)


@pytest.mark.parametrize("span_s", [0.01, 0.3, 0.7501, 1.0, 3.99, 100.0 / 3])
def test_work_of_any_length_that_is_done_ends_at_its_public_time_though_looks_take_long(
    monkeypatch: pytest.MonkeyPatch, span_s: float
) -> None:
    simulation = Simulation([0.001], float("inf"))
    monkeypatch.setattr(response_time, "time", simulation)
    monkeypatch.setattr(response_time, "begin", simulation.begin)

    def look() -> bool:
        simulation.now_s += 0.2
        return False

    ResponseTimer().work_in_steps(lambda is_stopped: is_stopped, span_s, look, step_least_s=0.0)
    assert simulation.now_s == pytest.approx(7.0 + span_s)


def test_short_work_has_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation([0.001], 0.0)
    monkeypatch.setattr(response_time, "time", simulation)
    monkeypatch.setattr(response_time, "begin", simulation.begin)
    ResponseTimer().work_in_steps(lambda is_stopped: is_stopped, STEP_LEAST_S, simulation.look, step_least_s=0.0)
    assert simulation.now_s == 7.0 + STEP_LEAST_S


@pytest.mark.parametrize("fails", [False, True])
def test_work_runs_in_a_thread_of_its_own_and_gives_what_it_gives(fails: bool) -> None:
    def work(is_stopped: Callable[[], bool]) -> int:
        assert not is_stopped()
        assert threading.current_thread().daemon  # it keeps no server from ending
        return 7 // (not fails)

    timer = ResponseTimer()
    if fails:
        with pytest.raises(ZeroDivisionError):
            timer.work_in_steps(work, 0.01, lambda: False, step_least_s=0.0)
    else:
        assert timer.work_in_steps(work, 0.01, lambda: False, step_least_s=0.0) == 7


def test_work_that_is_left_for_an_error_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(FAST, 0.0)
    monkeypatch.setattr(response_time, "time", simulation)
    monkeypatch.setattr(response_time, "begin", simulation.begin)
    with pytest.raises(ZeroDivisionError):
        ResponseTimer().work_in_steps(lambda is_stopped: is_stopped, SPAN_S, lambda: bool(1 // 0), step_least_s=0.0)
    assert simulation.is_stopped()


# --- The pass


KERNEL = make_kernels()["`ball`, 4 numbers"]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_pass_ends_before_the_next_tile(tmp_path: Path, threads: int) -> None:
    tiles, asked = 6, list[bool]()
    count = tiles * tile_rows(KERNEL.width)
    rows = store(tmp_path, "d", draw(np.random.default_rng(1), count, 0.1), count, count)

    def is_stopped() -> bool:
        asked.append(True)
        return len(asked) > 3

    with pytest.raises(Stopped):
        NumpyEngine(threads).sum(StoppableKernel(KERNEL, is_stopped), rows)
    assert len(asked) <= 3 + threads
    whole = NumpyEngine(threads).sum(StoppableKernel(KERNEL, lambda: False), rows)
    assert np.array_equal(whole, NumpyEngine().sum(KERNEL, rows))


def test_another_process_gets_the_kernel_alone() -> None:
    assert pickle.loads(pickle.dumps(StoppableKernel(KERNEL, lambda: False))) == KERNEL


# --- Lanes


@pytest.fixture
def runner() -> JobRunner:
    nothing: Any = None
    return JobRunner(nothing, nothing, nothing, lease_s=1.0, waiting_max=16, clock=nothing)


class Lanes:
    """Jobs that take no work, and wait until they may end."""

    def __init__(self, runner: JobRunner) -> None:
        self.runner, self.begun, self.came = runner, list[str](), threading.Semaphore(0)
        self.ends: dict[str, tuple[threading.Event, Problem | None]] = {}

    def submit(self, who: str, job: str, expected_s: float, error: Problem | None = None) -> threading.Event:
        end = threading.Event()
        self.ends[job] = end, error

        def work() -> None:
            self.begun.append(job)
            self.came.release()
            assert end.wait(60)
            if error is not None:
                raise error

        with self.runner.place(job, who, expected_s) as place:
            place.take(work)
        return end

    def await_begin(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.came.acquire(timeout=60)


def test_a_short_job_does_not_wait_for_a_long_one(runner: JobRunner) -> None:
    lanes = Lanes(runner)
    lanes.submit("ada", "long", 714.0)
    lanes.await_begin()
    lanes.submit("ada", "long, too", SHORT_S + 0.1)
    lanes.submit("ben", "short", SHORT_S)
    lanes.await_begin()
    assert lanes.begun == ["long", "short"]


@pytest.mark.parametrize("error", [JobEnded("It was cancelled."), None])
def test_whoever_cancels_a_job_waits_behind_everybody_else(runner: JobRunner, error: Problem | None) -> None:
    lanes = Lanes(runner)
    first = lanes.submit("ada", "a1", 10.0, error)
    lanes.await_begin()
    for who, job in (("ada", "a2"), ("ben", "b1"), ("carl", "c1")):
        lanes.submit(who, job, 10.0).set()
    first.set()
    lanes.await_begin(3)
    assert lanes.begun == ["a1", *(["b1", "c1", "a2"] if error else ["a2", "b1", "c1"])]


def test_sending_back_loses_no_job() -> None:
    queue = FairQueue()
    queue.send_back("nobody")
    for who, job in (("ada", "a1"), ("ben", "b1"), ("ada", "a2")):
        queue.put(who, job, lambda: None)
    queue.send_back("ada")
    assert [queue.get()[1] for _ in range(3)] == ["b1", "a1", "a2"]
