"""The laws of the noise, as distributions: discrete Gaussian and discrete Laplace.

The sampler takes its randomness from the operating system and cannot be seeded. Each test fails a right sampler with
probability about 1e-6 per p-value; this file computes fewer than 200 of them, so it raises a false alarm about once in
5,000 runs. Tests of power, on a sampler that is wrong on purpose, pass a wrong one with less probability still.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
import pytest
from scipy import stats

from curator_service.kinds.gram.plan import default_shares, plan_gram
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy import samplers
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import Column, ColumnType, make_design
from curator_service.privacy.mechanism import ExactSums, draw_noise, perturb
from curator_service.privacy.row_maps import Ball, Box, RowMap
from curator_service.privacy.samplers import SCALE_MAX, Distribution, SystemNoise, propose

dp.enable_features("contrib")

GAUSSIAN, LAPLACE = Distribution.DISCRETE_GAUSSIAN, Distribution.DISCRETE_LAPLACE
BOTH = pytest.mark.parametrize("distribution", [GAUSSIAN, LAPLACE], ids=str)
FALSE_ALARM = 1e-6
DRAWS = 50_000
SCALES = [2**10 + 3, 10**6, 2**30, SCALE_MAX - 12345, SCALE_MAX]
LARGE = pytest.mark.parametrize("scale", SCALES)
CONTINUOUS = {GAUSSIAN: stats.norm(), LAPLACE: stats.laplace()}

Draws = Callable[[Distribution, int], npt.NDArray[np.int64]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def draws() -> Draws:
    """Return draws of a law at a scale: the same ones to each test that asks."""
    drawn: dict[tuple[Distribution, int], npt.NDArray[np.int64]] = {}

    def get(distribution: Distribution, scale: int) -> npt.NDArray[np.int64]:
        if (distribution, scale) not in drawn:
            drawn[distribution, scale] = sample(distribution, scale, DRAWS)
        return drawn[distribution, scale]

    return get


def sample(distribution: Distribution, scale: int, count: int) -> npt.NDArray[np.int64]:
    return np.array(SystemNoise().sample(distribution, [scale] * count))


def normal_scores(distribution: Distribution, scale: int, values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return what is standard normal if the values follow the law, at scales where it is next to continuous."""
    sizes = np.abs(values) / scale
    upper = CONTINUOUS[distribution].sf(sizes)
    scores: npt.NDArray[np.float64] = np.sign(values) * stats.norm.isf(upper)
    return scores


def weights_of(distribution: Distribution, scale: int, support: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    x = support / scale
    weights: npt.NDArray[np.float64] = np.exp(-x * x / 2) if distribution is GAUSSIAN else np.exp(-np.abs(x))
    return weights / weights.sum()


def counts_p_value(values: npt.NDArray[np.int64], probabilities: npt.NDArray[np.float64]) -> float:
    """Compare counts of 0, 1, … with their probabilities; cells at the ends join where fewer than 20 are expected."""
    expected = probabilities * len(values)
    likely = np.flatnonzero(expected >= 20)
    first, last = int(likely[0]), int(likely[-1])
    observed = np.bincount(np.clip(values, first, last) - first, minlength=last - first + 1)
    merged = expected[first : last + 1].copy()
    merged[0] += expected[:first].sum()
    merged[-1] += expected[last + 1 :].sum()
    return float(stats.chisquare(observed, merged / merged.sum() * len(values)).pvalue)


def integers_p_value(distribution: Distribution, scale: int, values: npt.NDArray[np.int64]) -> float:
    """Compare counts with the exact law, integer by integer."""
    support = np.arange(-45 * scale, 45 * scale + 1)
    return counts_p_value(values - support[0], weights_of(distribution, scale, support))


def size_p_value(distribution: Distribution, scale: int, values: npt.NDArray[np.int64]) -> float:
    """Compare Σ(x/σ)², or 2 Σ|x|/t, with χ², on both sides: the best test of the scale of either law."""
    sizes = np.abs(values) / scale
    if distribution is GAUSSIAN:
        total, law = math.fsum(sizes**2), stats.chi2(len(values))
    else:
        total, law = 2 * math.fsum(sizes), stats.chi2(2 * len(values))
    return float(2 * min(law.cdf(total), law.sf(total)))


def normal_p_value(score: float) -> float:
    return float(2 * stats.norm.sf(abs(score)))


# --- one law, one integer at a time ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("scale", [1, 2, 3, 10, 17])
def test_the_smallest_scales_follow_the_law_integer_by_integer(distribution: Distribution, scale: int) -> None:
    assert integers_p_value(distribution, scale, sample(distribution, scale, 4 * DRAWS)) > FALSE_ALARM


@BOTH
@pytest.mark.parametrize("scale", [1, 3, 10])
def test_small_calls_follow_the_law_integer_by_integer(distribution: Distribution, scale: int) -> None:
    # A small call makes two trials at once for each entry.
    noise = SystemNoise()
    values = np.array([noise.sample(distribution, [scale] * 40) for _ in range(400)])
    assert integers_p_value(distribution, scale, values.ravel()) > FALSE_ALARM


@BOTH
def test_scales_of_one_call_do_not_mix(distribution: Distribution) -> None:
    scales = [1, 17, 2, 10**6]
    values = np.array(SystemNoise().sample(distribution, scales * DRAWS)).reshape(-1, 4)
    for column, scale in zip(values.T[:3], scales[:3], strict=True):
        assert integers_p_value(distribution, scale, column) > FALSE_ALARM
    assert size_p_value(distribution, scales[3], values[:, 3]) > FALSE_ALARM


@BOTH
@pytest.mark.parametrize("factor", [0.5, 0.95, 1.05, 2.0])
def test_the_law_tests_see_a_wrong_scale(distribution: Distribution, factor: float) -> None:
    scale = 1000
    wrong = sample(distribution, int(scale * factor), DRAWS)
    assert size_p_value(distribution, scale, wrong) < FALSE_ALARM
    if factor not in {0.95, 1.05}:  # a test of every integer needs more to see so little
        assert integers_p_value(distribution, 20, sample(distribution, int(20 * factor), DRAWS)) < FALSE_ALARM


# --- large scales ---------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("scale", SCALES[1:])
def test_large_scales_follow_the_continuous_law(draws: Draws, distribution: Distribution, scale: int) -> None:
    # The distance between the two laws is below 1/scale, far below what these draws can show.
    values = draws(distribution, scale) / scale
    assert stats.kstest(values, CONTINUOUS[distribution].cdf).pvalue > FALSE_ALARM


@BOTH
@LARGE
def test_the_size_is_that_of_the_scale(draws: Draws, distribution: Distribution, scale: int) -> None:
    assert size_p_value(distribution, scale, draws(distribution, scale)) > FALSE_ALARM


@BOTH
@LARGE
def test_the_mean_is_zero_and_the_variance_that_of_the_law(
    draws: Draws, distribution: Distribution, scale: int
) -> None:
    scores = normal_scores(distribution, scale, draws(distribution, scale))
    assert normal_p_value(math.fsum(scores) / math.sqrt(DRAWS)) > FALSE_ALARM
    law = stats.chi2(DRAWS)
    total = math.fsum(scores**2)
    assert 2 * min(law.cdf(total), law.sf(total)) > FALSE_ALARM
    # And the plain variance, σ² or 2t², by the central limit; 10 standard errors leave room for the skew of squares.
    squares = (draws(distribution, scale) / scale) ** 2
    variance, error = (1.0, math.sqrt(2)) if distribution is GAUSSIAN else (2.0, math.sqrt(20))
    assert abs(squares.mean() - variance) < 10 * error / math.sqrt(DRAWS)


@BOTH
@pytest.mark.parametrize("scale", [3, 2**20, 2**30 + 7])
def test_the_law_is_that_of_an_independent_sampler(distribution: Distribution, scale: int) -> None:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    theirs = (
        dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=float(scale))
        if distribution is GAUSSIAN
        else dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(scale))
    )
    other, ours = np.array(theirs([0] * 20_000)), sample(distribution, scale, 20_000)
    if scale > 100:
        assert stats.ks_2samp(ours, other).pvalue > FALSE_ALARM
        return
    kinds = np.clip(np.stack([ours, other]), -4 * scale, 4 * scale)
    table = np.array([np.bincount(row + 4 * scale, minlength=8 * scale + 1) for row in kinds])
    both = table[:, table.sum(axis=0) >= 20]
    table = np.column_stack([both, table.sum(axis=1) - both.sum(axis=1)])
    assert stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > FALSE_ALARM


# --- independence ---------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("lag", [1, 2, 21])
@pytest.mark.parametrize("scale", [10**6, SCALE_MAX])
def test_neighbouring_draws_are_uncorrelated(draws: Draws, distribution: Distribution, scale: int, lag: int) -> None:
    scores = normal_scores(distribution, scale, draws(distribution, scale))
    for values in (scores, scores**2 - 1):  # in value, and in size
        products = values[:-lag] * values[lag:]
        assert normal_p_value(products.sum() / math.sqrt((products**2).sum())) > FALSE_ALARM


@BOTH
def test_draws_of_a_small_call_are_uncorrelated(distribution: Distribution) -> None:
    noise, scale = SystemNoise(), 2**37 + 11
    values = np.array([noise.sample(distribution, [scale] * 21) for _ in range(2000)])
    scores = normal_scores(distribution, scale, values)
    correlations = np.corrcoef(scores, rowvar=False)[np.triu_indices(21, 1)]
    # Bonferroni over 210 pairs, at Fisher's z.
    assert 210 * normal_p_value(np.arctanh(np.abs(correlations).max()) * math.sqrt(2000 - 3)) > FALSE_ALARM
    assert size_p_value(distribution, scale, values.ravel()) > FALSE_ALARM


@BOTH
def test_two_calls_are_independent(draws: Draws, distribution: Distribution) -> None:
    first = normal_scores(distribution, 2**30, draws(distribution, 2**30))
    second = normal_scores(distribution, 2**30, sample(distribution, 2**30, DRAWS))
    assert normal_p_value(first @ second / math.sqrt(DRAWS)) > FALSE_ALARM


@BOTH
@pytest.mark.parametrize("scale", [2**30, SCALE_MAX - 12345, SCALE_MAX])
def test_low_bits_are_as_good_as_high_ones(draws: Draws, distribution: Distribution, scale: int) -> None:
    for divisor in (16, 9):
        observed = np.bincount(draws(distribution, scale) % divisor, minlength=divisor)
        assert stats.chisquare(observed).pvalue > FALSE_ALARM


@BOTH
@pytest.mark.parametrize("scale", [10**6, 2**30])
def test_the_sign_is_even_and_says_nothing_of_the_size(draws: Draws, distribution: Distribution, scale: int) -> None:
    values = draws(distribution, scale)
    negative = values < 0
    assert stats.binomtest(int(negative.sum()), DRAWS).pvalue > FALSE_ALARM
    # Sizes by the bin that they fall into, and by the place within it.
    width = -(-scale // 8)
    for kinds in (np.minimum(np.abs(values) // width, 30), np.abs(values) % width * 16 // width):
        table = np.array([np.bincount(kinds[side], minlength=31) for side in (negative, ~negative)])
        assert stats.chi2_contingency(table[:, table.sum(axis=0) >= 10]).pvalue > FALSE_ALARM


@BOTH
@pytest.mark.parametrize("scale", [10**6, 2**30])
def test_the_sign_is_independent_of_the_table(distribution: Distribution, scale: int) -> None:
    # Of candidates, kept or not: every place of the table has both signs, alike.
    rng = np.random.default_rng()
    words = rng.integers(0, 2**64, size=(2, 200_000), dtype=np.uint64)
    value, _ = propose(distribution, np.full(words.shape[1], scale), words)
    kinds = (words[0] % np.uint64(2**16) // np.uint64(2**12)).astype(np.int64)
    table = np.array([np.bincount(kinds[side], minlength=16) for side in (value < 0, value > 0)])
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


# --- the tail -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("scale", [9, 1000, 2**30 + 1, SCALE_MAX])
def test_the_tail_follows_the_law_beyond_the_last_bin(distribution: Distribution, scale: int) -> None:
    law = samplers._LAWS[distribution]
    width = -(-scale // 8)
    first = law.bin_count * width
    # A coin's first bits may be 0 without loss: no chance in the tail is above 2^-spare.
    highest = 2 * law.envelope * scale / width / law.counts[-1] * math.exp(-float(law.exact_decay(first, scale)))
    spare = math.floor(-math.log2(highest))
    assert spare >= 0
    count = 12_000
    words = np.frombuffer(np.random.default_rng().bytes(16 * count), dtype=np.uint64).reshape(2, -1).copy()
    words[0] = words[0] << np.uint64(spare) >> np.uint64(spare) | np.uint64(2**16 - 1)  # the table's last place
    words[1] |= np.uint64(2**63)
    value, kept = propose(distribution, np.full(count, scale), words)
    sizes, negative = np.abs(value[kept]), (value[kept] < 0).sum()
    assert len(sizes) > 500
    assert sizes.min() >= first
    assert stats.binomtest(int(negative), len(sizes)).pvalue > FALSE_ALARM
    if scale < 100:
        support = np.arange(first, first + 30 * scale)
        decays = [float(law.exact_decay(int(m), scale) - law.exact_decay(first, scale)) for m in support]
        weights = np.exp(-np.array(decays))
        assert counts_p_value(sizes - first, weights / weights.sum()) > FALSE_ALARM
        return
    # P(size > x | size ≥ first), uniform in [0, 1] to within 1/scale.
    continuous = CONTINUOUS[distribution]
    uniform = np.exp(continuous.logsf((sizes + 0.5) / scale) - continuous.logsf((first - 0.5) / scale))
    assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM
    assert (sizes >= first + scale).any() or distribution is GAUSSIAN  # a later block: e^-1 of the tail for Laplace


@BOTH
def test_the_tail_is_visited_as_often_as_it_should(distribution: Distribution) -> None:
    # Beyond the bins at scale 1000: 5.7e-7 of a Gaussian, 6.1e-6 of a Laplace; beyond half of them many more.
    values = np.abs(sample(distribution, 1000, 400_000))
    continuous = CONTINUOUS[distribution]
    for limit in (1500, 2500, 3500, 5000 if distribution is GAUSSIAN else 12_000):
        seen = int((values >= limit).sum())
        expected = 2 * len(values) * float(continuous.sf((limit - 0.5) / 1000))
        assert stats.binomtest(seen, len(values), expected / len(values)).pvalue > FALSE_ALARM


# --- a release ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", list(Mechanism))
@pytest.mark.parametrize("row_map", [Box(), Ball.of_norm(1.2)], ids=["box", "ball"])
def test_a_release_has_the_planned_covariance(row_map: RowMap, mechanism: Mechanism) -> None:
    size, targets, repeats = 4, 2, 600
    design = make_design(
        tuple(Column(f"x{i}", ColumnType.NUMERIC) for i in range(size - 1)),
        tuple(Column(f"y{i}", ColumnType.NUMERIC) for i in range(targets)),
        intercept=True,
    )
    plan = plan_gram(
        design,
        row_map,
        Adjacency.REPLACE_ONE,
        row_capacity=10**6,
        price=Price(epsilon=1.0, delta=1e-6) if mechanism is Mechanism.GAUSSIAN else Price(epsilon=1.0),
        shares=default_shares(tuple(Statistic), mechanism),
        mechanism=mechanism,
    )
    zero = ExactSums(np.zeros(sum(output.size for output in plan.outputs), dtype=np.int64))
    scales: list[int] = []
    for part in plan.parts:
        diagonal, offdiagonal = part.scales
        if part.statistic == Statistic.XTX:
            scales += [diagonal if i == j else offdiagonal for i in range(size) for j in range(i, size)]
        else:
            scales += [diagonal] * {"xty": size * targets, "yty": targets, "lambda_min": 1}[part.statistic]
    noise, distribution = SystemNoise(), plan.parts[0].distribution
    answers = [perturb(zero, plan, draw_noise(plan, noise)).values for _ in range(repeats)]
    released = np.array([[value for statistic in Statistic for value in values[statistic]] for values in answers])
    # Bonferroni over entries, then over pairs of entries.
    p_values = [size_p_value(distribution, scale, column) for column, scale in zip(released.T, scales, strict=True)]
    assert len(scales) * min(p_values) > FALSE_ALARM
    columns: list[Any] = [normal_scores(distribution, s, column) for column, s in zip(released.T, scales, strict=True)]
    correlations = np.abs(np.triu(np.corrcoef(columns), 1)).max()
    pairs = len(scales) * (len(scales) - 1) / 2
    assert pairs * normal_p_value(np.arctanh(correlations) * math.sqrt(repeats - 3)) > FALSE_ALARM
