"""Noise is added once per released entry, at the plan's scale, in integers."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from grams import SufficientStatistics, perturb, split_gram
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from curator_service.kinds.gram.kernel import compute_lambda_min
from curator_service.kinds.gram.plan import GramPlan, default_shares, plan_gram
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import Column, ColumnType, make_design
from curator_service.privacy.lattice import UNIT, IntArray
from curator_service.privacy.mechanism import STEP_DENOMINATOR, add_noise, draw_noise, noise_sd
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY
from curator_service.privacy.samplers import SCALE_MAX, SUM_MAX, Distribution, SystemNoise
from curator_service.privacy.sums import compute_gram

GAUSSIAN, LAPLACE = Distribution.DISCRETE_GAUSSIAN, Distribution.DISCRETE_LAPLACE
BALL, BOX = Ball.of_norm(1.2), Box()
MAPS = pytest.mark.parametrize("row_map", [BOX, BALL, Unit(), UnitXY()], ids=["box", "ball", "unit", "unit_xy"])
MECHANISMS = pytest.mark.parametrize("mechanism", list(Mechanism))


class RecordingNoise:
    """A noise source that hands out known, distinct, large integers and remembers what was asked."""

    def __init__(self, first: int = 10**18) -> None:
        self.calls: list[Distribution] = []
        self.asked: list[int] = []
        self.given: list[int] = []
        self._next = first

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        draws = [self._next + k for k in range(len(scales))]
        self._next += len(scales)
        self.calls.append(distribution)
        self.asked.extend(scales)
        self.given.extend(draws)
        return draws


class ScaleAsNoise:
    """A noise source whose every draw is its own scale: shows which entry got which."""

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        return list(scales)


def make_plan(
    row_map: RowMap,
    mechanism: Mechanism = Mechanism.GAUSSIAN,
    *,
    features: int = 3,
    targets: int = 2,
    statistics: tuple[Statistic, ...] = tuple(Statistic),
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
        price=Price(epsilon=1.0, delta=1e-6) if mechanism is Mechanism.GAUSSIAN else Price(epsilon=1.0),
        shares=default_shares(statistics, mechanism),
        mechanism=mechanism,
    )


def make_statistics(terms: int = 4, targets: int = 2) -> SufficientStatistics:
    rng = np.random.default_rng(3)
    rows = rng.integers(-UNIT, UNIT, size=(200, terms + targets), endpoint=True)
    return split_gram(compute_gram([rows], terms + targets), terms)


def exact_values(statistics: SufficientStatistics, plan: GramPlan) -> dict[Statistic, list[int]]:
    size = len(statistics.xtx)
    return {
        Statistic.XTX: [int(statistics.xtx[i, j]) for i in range(size) for j in range(i, size)],
        Statistic.XTY: [int(value) for row in statistics.xty for value in row],
        Statistic.YTY: [int(value) for value in statistics.yty],
        Statistic.LAMBDA_MIN: [compute_lambda_min(statistics.xtx, plan.lambda_min_tolerance)],
    }


@MECHANISMS
@MAPS
def test_every_draw_is_added_to_exactly_one_entry(row_map: RowMap, mechanism: Mechanism) -> None:
    plan, noise, statistics = make_plan(row_map, mechanism), RecordingNoise(), make_statistics()
    noisy = perturb(statistics, plan, draw_noise(plan, noise))
    exact = exact_values(statistics, plan)
    added = [n - e for s in Statistic for n, e in zip(noisy.values[s], exact[s], strict=True)]
    assert added == noise.given  # in the order of the statistics, of rows, of columns


@MECHANISMS
@MAPS
def test_a_release_calls_its_source_once_for_the_law_of_its_plan(row_map: RowMap, mechanism: Mechanism) -> None:
    noise = RecordingNoise()
    draw_noise(make_plan(row_map, mechanism), noise)
    assert noise.calls == [GAUSSIAN if mechanism is Mechanism.GAUSSIAN else LAPLACE]


@pytest.mark.parametrize(
    ("row_map", "mechanism"), [(BOX, Mechanism.GAUSSIAN), (BOX, Mechanism.LAPLACE), (BALL, Mechanism.LAPLACE)]
)
def test_each_part_has_one_scale_where_pairs_weigh_as_the_diagonal(row_map: RowMap, mechanism: Mechanism) -> None:
    plan, noise = make_plan(row_map, mechanism), RecordingNoise()
    perturb(make_statistics(), plan, draw_noise(plan, noise))
    assert [part.scales[0] == part.scales[1] for part in plan.parts] == [True] * 4
    xtx, xty, yty, lambda_min = (part.scales[0] for part in plan.parts)
    assert noise.asked == [xtx] * 10 + [xty] * 8 + [yty] * 2 + [lambda_min]
    assert len({xtx, xty, yty, lambda_min}) == 4


def test_laplace_scales_are_those_of_the_plan() -> None:
    plan = make_plan(BOX, Mechanism.LAPLACE)
    assert [part.scales for part in plan.parts] == [(part.scale, part.scale) for part in plan.parts]
    # Δ₁ q⁻²: 10 entries of XᵀX; 4 of Xᵀy and 1 of yᵀy for each target: t is its share of ε, or one more.
    shares = default_shares(tuple(Statistic), Mechanism.LAPLACE)
    for part, bound in zip(plan.parts[:3], (10, 2 * 4, 2 * 1), strict=True):
        assert part.scale == math.ceil(bound * UNIT**2 / shares[part.statistic])


@pytest.mark.parametrize("row_map", [BALL, Unit(), UnitXY()], ids=["ball", "unit", "unit_xy"])
def test_gaussian_scales_of_a_norm_go_to_the_diagonal_and_off_it(row_map: RowMap) -> None:
    plan, statistics = make_plan(row_map), make_statistics()
    diagonal, offdiagonal = plan.parts[0].scales
    noisy = perturb(statistics, plan, draw_noise(plan, ScaleAsNoise()))
    exact = exact_values(statistics, plan)[Statistic.XTX]
    added = [n - e for n, e in zip(noisy.values[Statistic.XTX], exact, strict=True)]
    assert added == [diagonal if i == j else offdiagonal for i in range(4) for j in range(i, 4)]
    assert diagonal == pytest.approx(math.sqrt(2) * offdiagonal, rel=1e-6)


@MECHANISMS
@pytest.mark.parametrize("row_map", [BOX, BALL], ids=["box", "ball"])
@pytest.mark.parametrize("statistic", list(Statistic))
def test_only_what_was_planned_is_drawn_and_released(
    row_map: RowMap, statistic: Statistic, mechanism: Mechanism
) -> None:
    noise = RecordingNoise()
    plan = make_plan(row_map, mechanism, statistics=(statistic,))
    noisy = perturb(make_statistics(), plan, draw_noise(plan, noise))
    assert list(noisy.values) == [statistic]
    assert len(noise.given) == len(noisy.values[statistic])


@MECHANISMS
def test_each_release_draws_afresh(mechanism: Mechanism) -> None:
    statistics, plan = make_statistics(), make_plan(BALL, mechanism)
    first, second = (perturb(statistics, plan, draw_noise(plan, SystemNoise())) for _ in range(2))
    for statistic in Statistic:
        assert first.values[statistic] != second.values[statistic]  # false alarm below 1e-8


@pytest.mark.parametrize("change", [lambda draws: draws[:-1], lambda draws: np.append(draws, 1), lambda d: d[:0]])
def test_too_few_draws_and_too_many_are_refused(change: Callable[[IntArray], IntArray]) -> None:
    plan = make_plan(BALL)
    with pytest.raises(ValueError, match="one draw for each entry"):
        perturb(make_statistics(), plan, change(draw_noise(plan, SystemNoise())))


def test_a_single_term_under_the_ball_has_no_pair_to_draw() -> None:
    design = make_design((), (Column("y", ColumnType.NUMERIC),), intercept=True)
    plan = plan_gram(
        design,
        Ball.of_norm(1.0),
        Adjacency.ADD_REMOVE,
        row_capacity=10,
        price=Price(rho=0.05),
        shares=default_shares(tuple(Statistic)),
    )
    noisy = perturb(make_statistics(1, 1), plan, draw_noise(plan, SystemNoise()))
    assert [len(noisy.values[s]) for s in Statistic] == [1, 1, 1, 1]


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sum_and_sixty_scales_of_noise_are_added_exactly(sign: int) -> None:
    draw = sign * 60 * SCALE_MAX
    assert add_noise(np.array([sign * SUM_MAX]), np.array([draw])) == [sign * SUM_MAX + draw]


INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(st.integers(-SUM_MAX, SUM_MAX), INT64), min_size=1))
def test_what_is_returned_is_a_function_of_the_noisy_integer_whatever_the_draw(pairs: list[tuple[int, int]]) -> None:
    """The residue modulo 2⁶⁴: the noisy integer itself wherever it fits."""
    sums, draws = np.array(pairs, dtype=np.int64).T
    assert add_noise(sums, draws) == [(a + b + 2**63) % 2**64 - 2**63 for a, b in pairs]


def test_what_may_not_fit_is_refused_before_it_is_added() -> None:
    whole = np.array([1], dtype=np.int64)
    for wrong in (whole.astype(np.float64), whole.astype(np.int32), np.array([10**20], dtype=object)):
        for sums, draws in ((whole, wrong), (wrong, whole)):
            with pytest.raises(TypeError, match="sums and draws are of int64"):
                add_noise(sums, draws)
    with pytest.raises(ValueError, match="one draw for each entry"):
        add_noise(whole, np.zeros((1, 1), dtype=np.int64))


def test_the_statistics_are_not_changed() -> None:
    plan, statistics = make_plan(BALL), make_statistics()
    before = exact_values(statistics, plan)
    perturb(statistics, plan, draw_noise(plan, RecordingNoise()))
    assert exact_values(statistics, plan) == before


def test_the_step_is_one_over_the_squared_unit() -> None:
    assert STEP_DENOMINATOR == UNIT**2


class HalvedNoise(SystemNoise):
    """A wrong source: half the scale."""

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        return super().sample(distribution, [scale // 2 for scale in scales])


class DoubledPairs(SystemNoise):
    """A wrong source: an off-diagonal entry gets the mean of two draws, as when both triangles are averaged."""

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        twice = super().sample(distribution, [scale for scale in scales for _ in range(2)])
        return [(a + b) // 2 for a, b in zip(twice[::2], twice[1::2], strict=True)]


class SummedPairs(SystemNoise):
    """A wrong source: an off-diagonal entry gets the sum of two draws, as when both triangles are added."""

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        twice = super().sample(distribution, [scale for scale in scales for _ in range(2)])
        return [a + b for a, b in zip(twice[::2], twice[1::2], strict=True)]


def scale_p_values(
    row_map: RowMap, mechanism: Mechanism, source: Callable[[], SystemNoise], repeats: int = 400
) -> dict[str, float]:
    """Return, per kind of entry, the p-value of the size of its noise at the scale that the plan states.

    Σ(x/σ)² of a Gaussian is χ²; 2 Σ|x|/t of a Laplace too, with twice the degrees of freedom. Scales are above 2^30,
    where the discrete laws and the continuous ones cannot be told apart.
    """
    plan, statistics = make_plan(row_map, mechanism), make_statistics()
    exact = exact_values(statistics, plan)
    diagonal = [i == j for i in range(4) for j in range(i, 4)]
    sizes: dict[str, list[float]] = {}
    for _ in range(repeats):
        noisy = perturb(statistics, plan, draw_noise(plan, source()))
        for part in plan.parts:
            statistic = part.statistic
            for k, (n, e) in enumerate(zip(noisy.values[statistic], exact[statistic], strict=True)):
                off = statistic is Statistic.XTX and not diagonal[k]
                size = abs(n - e) / part.scales[off]
                sizes.setdefault("pair" if off else statistic.value, []).append(size)
    p_values = {}
    for kind, values in sizes.items():
        if mechanism is Mechanism.GAUSSIAN:
            total, law = math.fsum(v * v for v in values), stats.chi2(len(values))
        else:
            total, law = 2 * math.fsum(values), stats.chi2(2 * len(values))
        p_values[kind] = float(2 * min(law.cdf(total), law.sf(total)))
    return p_values


@MECHANISMS
@pytest.mark.parametrize("row_map", [BOX, BALL], ids=["box", "ball"])
def test_the_scale_of_every_kind_of_entry_is_the_planned_one(row_map: RowMap, mechanism: Mechanism) -> None:
    # Five kinds in each of four tests, each with a false alarm once in a million.
    for p_value in scale_p_values(row_map, mechanism, SystemNoise).values():
        assert p_value > 1e-6


@MECHANISMS
@pytest.mark.parametrize("wrong", [HalvedNoise, DoubledPairs, SummedPairs])
@pytest.mark.parametrize("row_map", [BOX, BALL], ids=["box", "ball"])
def test_wrong_noise_is_seen(row_map: RowMap, wrong: Callable[[], SystemNoise], mechanism: Mechanism) -> None:
    # The power of the test above: 2,400 pairs, whose mean size is off by a quarter or more, 12 standard errors.
    assert scale_p_values(row_map, mechanism, wrong)["pair"] < 1e-6


def exact_sd(distribution: Distribution, scale: int, reach: int) -> mpmath.mpf:
    """Sum m² P(m) over the integers, in lattice units, with 120 digits."""
    with mpmath.workdps(120):

        def weight(m: int) -> mpmath.mpf:
            gamma = mpmath.mpf(m * m) / (2 * scale**2) if distribution is GAUSSIAN else mpmath.mpf(m) / scale
            return mpmath.exp(-gamma)

        weights = [weight(m) for m in range(1, reach * scale)]
        squares = mpmath.fsum(m * m * w for m, w in enumerate(weights, start=1))
        return mpmath.sqrt(2 * squares / (1 + 2 * mpmath.fsum(weights)))


@pytest.mark.parametrize("scale", [1, 2, 3, 10, 40])
def test_the_stated_sd_of_laplace_noise_is_the_exact_one(scale: int) -> None:
    stated = noise_sd(LAPLACE, scale) * STEP_DENOMINATOR
    assert stated == pytest.approx(float(exact_sd(LAPLACE, scale, 120)), rel=1e-14)


@pytest.mark.parametrize("scale", [1, 5, 2**10, 2**10 + 1, 2**20, 2**37 + 11, SCALE_MAX])
def test_the_stated_sd_of_laplace_noise_follows_its_formula(scale: int) -> None:
    with mpmath.workdps(60):
        p = mpmath.exp(-mpmath.mpf(1) / scale)
        sd = mpmath.sqrt(2 * p) / (1 - p) / STEP_DENOMINATOR
    assert noise_sd(LAPLACE, scale) == pytest.approx(float(sd), rel=1e-14)
    # √2 t, from below, within 1/(24 t²).
    assert 0 < math.sqrt(2) * scale * (1 + 1e-15) - noise_sd(LAPLACE, scale) * STEP_DENOMINATOR < 0.1 * scale


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_the_variance_of_gaussian_noise_is_below_that_of_its_scale_by_next_to_nothing(scale: int) -> None:
    # By Poisson's summation formula: 8π²σ² e^−2π²σ² in proportion, and what is smaller still.
    with mpmath.workdps(120):
        missing = 1 - (exact_sd(GAUSSIAN, scale, 30) / scale) ** 2
        bound = 8 * mpmath.pi**2 * scale**2 * mpmath.exp(-2 * mpmath.pi**2 * scale**2)
        assert 0 < missing < bound * (1 + mpmath.mpf(10) ** -6)


@pytest.mark.parametrize("scale", [2**10, 2**37 + 11, SCALE_MAX])
def test_the_stated_sd_of_gaussian_noise_is_its_scale(scale: int) -> None:
    assert noise_sd(GAUSSIAN, scale) == float(Fraction(scale, STEP_DENOMINATOR))
