"""Each number that is printed has a judge, and judges see what is wrong."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from analyst_client.inference.results import TargetResults
from bench import figures
from bench.figures import judged, printed
from bench.judges import Verdict, judge_error, judge_interval, judge_point, judge_size, near

REPEATS = 400


def test_every_number_that_is_printed_has_a_judge_and_every_judge_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = figures._shown()  # of fits, which are made once: no line of them is changed below
    monkeypatch.setattr(figures, "_shown", lambda: set(shown))
    assert (printed() - judged(), judged() - printed()) == (set(), set())
    monkeypatch.setattr(TargetResults, "new_figure", property(lambda self: 1.0), raising=False)
    assert printed() - judged() == {"new_figure"}


def drawn(column: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what a part is told: rows of a function of estimates of 0 with a standard error of 1."""
    z = np.random.default_rng(3).standard_normal(REPEATS)
    return {"part": np.column_stack([np.broadcast_to(one, REPEATS) for one in column(z)])}


def intervals(half: float, shift: float = 0.0) -> dict[str, Any]:
    return drawn(lambda z: (z + shift - half, z + shift + half, 0.0, 1.96))


def told(verdict: Verdict) -> str:
    return verdict.state(final=True)


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (judge_interval(intervals(2.2)), "met"),
        (judge_interval(intervals(1.6)), "missed"),
        (judge_interval(intervals(2.2, shift=1.5)), "missed"),
        (judge_interval(drawn(lambda z: (-math.inf, math.inf, 0.0, 1.0))), "untold"),
        (judge_size(drawn(lambda z: (0.5 + 0.0 * z,))), "met"),
        (judge_size(drawn(lambda z: (np.exp(-np.abs(z)) - 0.2,))), "missed"),
        (judge_point(drawn(lambda z: (z, 0.0, 1.0))), "met"),
        (judge_point(drawn(lambda z: (z + 1.0, 0.0, 1.0))), "missed"),
        (judge_error(drawn(lambda z: (1.0, z))), "met"),
        (judge_error(drawn(lambda z: (0.5, z))), "missed"),
        (near(0.1)(drawn(lambda z: (1.0 + 0.1 * z, 1.0))), "met"),
        (near(0.1)(drawn(lambda z: (1.3 + 0.1 * z, 1.0))), "missed"),
    ],
)
def test_a_judge_tells_what_holds_from_what_does_not(verdict: Verdict, state: str) -> None:
    assert told(verdict) == state


def test_what_is_near_its_goal_is_not_decided_before_it_is_repeated() -> None:
    verdict = judge_interval(intervals(1.85))
    assert (verdict.state(final=False), told(verdict)) == ("near", "met")
    assert verdict.length == pytest.approx(1.85 / 1.96)
