"""Noise is added once per released entry, at the plan's scale, in integers."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import Column, ColumnType, make_design
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.mechanisms import STEP_DENOMINATOR, NoisyStatistics, perturb
from curator_service.privacy.planning import GramPlan, Statistic, default_shares, plan_gram
from curator_service.privacy.rows import Ball, Box, RowMap
from curator_service.privacy.samplers import SystemNoise
from curator_service.privacy.statistics import SufficientStatistics, compute_gram, compute_lambda_min, split_gram

BALL, BOX = Ball.of_norm(1.2), Box()


class RecordingNoise:
    """A noise source that hands out known, distinct, huge integers and remembers what was asked."""

    def __init__(self, first: int = 10**20) -> None:
        self.asked: list[int] = []
        self.given: list[int] = []
        self._next = first

    def sample_discrete_gaussian(self, sigmas: Sequence[int]) -> list[int]:
        draws = [self._next + k for k in range(len(sigmas))]
        self._next += len(sigmas)
        self.asked.extend(sigmas)
        self.given.extend(draws)
        return draws


class ScaleAsNoise:
    """A noise source whose every draw is its own scale: shows which entry got which."""

    def sample_discrete_gaussian(self, sigmas: Sequence[int]) -> list[int]:
        return list(sigmas)


def make_plan(
    row_map: RowMap, *, features: int = 3, targets: int = 2, statistics: tuple[Statistic, ...] = tuple(Statistic)
) -> GramPlan:
    design = make_design(
        tuple(Column(f"x{i}", ColumnType.NUMERIC) for i in range(features)),
        tuple(Column(f"y{i}", ColumnType.NUMERIC) for i in range(targets)),
        intercept=True,
    )
    return plan_gram(
        design,
        row_map,
        Adjacency.ADD_REMOVE,
        row_capacity=10**6,
        price_units=56_028_963_825,
        shares=default_shares(statistics),
    )


def make_statistics(terms: int = 4, targets: int = 2) -> SufficientStatistics:
    rng = np.random.default_rng(3)
    rows = rng.integers(-UNIT, UNIT, size=(200, terms + targets), endpoint=True)
    return split_gram(compute_gram([rows], terms + targets), terms)


def exact_values(statistics: SufficientStatistics) -> dict[Statistic, list[int]]:
    size = len(statistics.xtx)
    return {
        Statistic.XTX: [int(statistics.xtx[i, j]) for i in range(size) for j in range(i, size)],
        Statistic.XTY: [int(value) for row in statistics.xty for value in row],
        Statistic.YTY: [int(value) for value in statistics.yty],
        Statistic.LAMBDA_MIN: [compute_lambda_min(statistics.xtx)],
    }


@pytest.mark.parametrize("row_map", [BOX, BALL], ids=["box", "ball"])
def test_every_draw_is_added_to_exactly_one_entry(row_map: RowMap) -> None:
    noise, statistics = RecordingNoise(), make_statistics()
    noisy = perturb(statistics, make_plan(row_map), noise)
    exact = exact_values(statistics)
    added = [n - e for s in exact for n, e in zip(noisy.values[s], exact[s], strict=True)]
    assert sorted(added) == noise.given


@pytest.mark.parametrize("row_map", [BOX, BALL], ids=["box", "ball"])
def test_one_draw_is_taken_per_unordered_pair(row_map: RowMap) -> None:
    noise = RecordingNoise()
    perturb(make_statistics(), make_plan(row_map), noise)
    assert len(noise.asked) == 4 * 5 // 2 + 4 * 2 + 2 + 1


def test_box_draws_use_the_scale_of_their_part() -> None:
    plan, noise = make_plan(BOX), RecordingNoise()
    perturb(make_statistics(), plan, noise)
    xtx, xty, yty, lambda_min = plan.parts
    assert noise.asked == [xtx.sigma] * 10 + [xty.sigma] * 8 + [yty.sigma] * 2 + [lambda_min.sigma]


def test_ball_scales_go_to_the_diagonal_and_off_it() -> None:
    plan, statistics = make_plan(BALL), make_statistics()
    part = plan.parts[0]
    noisy = perturb(statistics, plan, ScaleAsNoise())
    exact = exact_values(statistics)[Statistic.XTX]
    added = [n - e for n, e in zip(noisy.values[Statistic.XTX], exact, strict=True)]
    expected = [part.sigma if i == j else part.sigma_offdiagonal for i in range(4) for j in range(i, 4)]
    assert added == expected
    assert part.sigma != part.sigma_offdiagonal


@pytest.mark.parametrize("row_map", [BOX, BALL], ids=["box", "ball"])
@pytest.mark.parametrize("statistic", list(Statistic))
def test_only_what_was_planned_is_drawn_and_released(row_map: RowMap, statistic: Statistic) -> None:
    noisy = perturb(make_statistics(), make_plan(row_map, statistics=(statistic,)), RecordingNoise())
    assert list(noisy.values) == [statistic]


def test_each_release_draws_afresh() -> None:
    statistics, plan = make_statistics(), make_plan(BALL)
    first, second = (perturb(statistics, plan, SystemNoise()) for _ in range(2))
    for statistic in Statistic:
        assert first.values[statistic] != second.values[statistic]  # false alarm below 1e-8


def test_a_single_term_under_the_ball_has_no_pair_to_draw() -> None:
    design = make_design((), (Column("y", ColumnType.NUMERIC),), intercept=True)
    plan = plan_gram(
        design,
        Ball.of_norm(1.0),
        Adjacency.ADD_REMOVE,
        row_capacity=10,
        price_units=10**11,
        shares=default_shares(tuple(Statistic)),
    )
    noisy = perturb(make_statistics(1, 1), plan, SystemNoise())
    assert [len(noisy.values[s]) for s in Statistic] == [1, 1, 1, 1]


def test_sums_beyond_int64_stay_exact() -> None:
    size = 2
    top = np.full((size, size), 2**63 - 1, dtype=np.int64)
    statistics = SufficientStatistics(top, top[:, :1], top[0, :1])
    plan = make_plan(BOX, features=1, targets=1, statistics=(Statistic.XTX, Statistic.XTY, Statistic.YTY))
    noisy = perturb(statistics, plan, RecordingNoise(first=2**62))
    assert noisy.values[Statistic.XTX] == [2**63 - 1 + 2**62 + k for k in range(3)]


def test_noisy_values_are_python_integers() -> None:
    noisy = perturb(make_statistics(), make_plan(BALL), SystemNoise())
    assert all(type(value) is int for values in noisy.values.values() for value in values)


def test_the_statistics_are_not_changed() -> None:
    statistics = make_statistics()
    before = exact_values(statistics)
    perturb(statistics, make_plan(BALL), RecordingNoise())
    assert exact_values(statistics) == before


@given(st.lists(st.integers(-(2**64), 2**64), min_size=1))
def test_scaled_values_are_rounded_once(values: list[int]) -> None:
    noisy = NoisyStatistics({Statistic.YTY: values})
    assert noisy.scaled(Statistic.YTY) == [float(Fraction(value, UNIT**2)) for value in values]


def test_the_step_is_one_over_the_squared_unit() -> None:
    assert STEP_DENOMINATOR == UNIT**2


class HalvedNoise(SystemNoise):
    """A wrong source: half the scale."""

    def sample_discrete_gaussian(self, sigmas: Sequence[int]) -> list[int]:
        return super().sample_discrete_gaussian([sigma // 2 for sigma in sigmas])


class DoubledPairs(SystemNoise):
    """A wrong source: an off-diagonal entry gets the mean of two draws, as when both triangles are averaged."""

    def sample_discrete_gaussian(self, sigmas: Sequence[int]) -> list[int]:
        twice = super().sample_discrete_gaussian([sigma for sigma in sigmas for _ in range(2)])
        return [(a + b) // 2 for a, b in zip(twice[::2], twice[1::2], strict=True)]


class SummedPairs(SystemNoise):
    """A wrong source: an off-diagonal entry gets the sum of two draws, as when both triangles are added."""

    def sample_discrete_gaussian(self, sigmas: Sequence[int]) -> list[int]:
        twice = super().sample_discrete_gaussian([sigma for sigma in sigmas for _ in range(2)])
        return [a + b for a, b in zip(twice[::2], twice[1::2], strict=True)]


def variance_ratios(row_map: RowMap, source: Callable[[], SystemNoise], repeats: int = 150) -> dict[str, float]:
    """Return, per kind of entry, the mean of squared noise over what the plan states."""
    plan, statistics = make_plan(row_map), make_statistics()
    exact = exact_values(statistics)
    diagonal = [i == j for i in range(4) for j in range(i, 4)]
    squares: dict[str, list[float]] = {}
    for _ in range(repeats):
        noisy = perturb(statistics, plan, source())
        for part in plan.parts:
            statistic = Statistic(part.statistic)
            for k, (n, e) in enumerate(zip(noisy.values[statistic], exact[statistic], strict=True)):
                off = statistic is Statistic.XTX and not diagonal[k]
                sigma = part.sigma_offdiagonal if off and part.sigma_offdiagonal else part.sigma
                squares.setdefault("pair" if off else statistic.value, []).append(((n - e) / sigma) ** 2)
    return {kind: float(np.mean(values)) for kind, values in squares.items()}


@pytest.mark.parametrize("row_map", [BOX, BALL], ids=["box", "ball"])
def test_the_variance_of_every_kind_of_entry_is_the_planned_one(row_map: RowMap) -> None:
    # 150 to 1,200 squares per kind: a ratio outside these limits has probability below 1e-6 for each.
    for ratio in variance_ratios(row_map, SystemNoise).values():
        assert 0.5 < ratio < 1.7


@pytest.mark.parametrize("wrong", [HalvedNoise, DoubledPairs, SummedPairs])
@pytest.mark.parametrize("row_map", [BOX, BALL], ids=["box", "ball"])
def test_wrong_noise_is_seen(row_map: RowMap, wrong: Callable[[], SystemNoise]) -> None:
    # Pairs are judged, with 900 squares: right noise stays within 0.77 and 1.26 but once in a million.
    ratio = variance_ratios(row_map, wrong)["pair"]
    assert not 0.77 < ratio < 1.26
