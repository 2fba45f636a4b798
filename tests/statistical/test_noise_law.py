"""The law of the noise, as a distribution.

The sampler takes its randomness from the operating system and cannot be seeded. Each test fails a right sampler with
probability at most 1e-6 per p-value; this file computes fewer than 50 of them, so it raises a false alarm less than
once in 20,000 runs.
"""

import math

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import Column, ColumnType, make_design
from curator_service.privacy.mechanisms import perturb
from curator_service.privacy.planning import Statistic, default_shares, plan_gram
from curator_service.privacy.rows import Ball, Box, RowMap
from curator_service.privacy.samplers import SIGMA_MAX, SystemNoise
from curator_service.privacy.statistics import SufficientStatistics

dp.enable_features("contrib")

FALSE_ALARM = 1e-6
DRAWS = 20_000
SCALES = [2**10, 2**10 + 3, 2**30, 2**40, SIGMA_MAX]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def draws() -> dict[int, list[int]]:
    noise = SystemNoise()
    return {sigma: noise.sample_discrete_gaussian([sigma] * DRAWS) for sigma in SCALES}


def binned_p_value(sample: list[int], sigma: int) -> float:
    """Compare 40 bins of equal probability with the exact discrete Gaussian, summed over its integers."""
    support = np.arange(-14 * sigma, 14 * sigma + 1)
    weights = np.exp(-(support.astype(np.float64) ** 2) / (2 * sigma**2))
    cumulative = np.cumsum(weights) / weights.sum()
    edges = support[np.searchsorted(cumulative, np.arange(1, 40) / 40)]
    below = np.concatenate([[0.0], cumulative[edges + 14 * sigma], [1.0]])
    observed = np.bincount(np.searchsorted(edges, sample, side="left"), minlength=40)
    return float(stats.chisquare(observed, np.diff(below) * len(sample)).pvalue)


def variance_p_value(sample: list[int], sigma: int) -> float:
    """Compare Σ(x/σ)² with χ², on both sides."""
    total = math.fsum((x / sigma) ** 2 for x in sample)
    law = stats.chi2(len(sample))
    return float(2 * min(law.cdf(total), law.sf(total)))


@pytest.mark.parametrize("sigma", [2**10, 2**10 + 3])
def test_small_scales_follow_the_discrete_gaussian(draws: dict[int, list[int]], sigma: int) -> None:
    assert binned_p_value(draws[sigma], sigma) > FALSE_ALARM


@pytest.mark.parametrize("sigma", [1, 2, 3, 10, 17])
def test_the_smallest_scales_follow_the_discrete_gaussian_integer_by_integer(sigma: int) -> None:
    sample = np.array(SystemNoise().sample_discrete_gaussian([sigma] * DRAWS))
    support = np.arange(-40 * sigma, 40 * sigma + 1)
    expected = np.exp(-(support.astype(np.float64) ** 2) / (2 * sigma**2))
    expected *= DRAWS / expected.sum()
    observed = (sample[:, None] == support).sum(axis=0)
    likely = expected >= 10
    merged = np.append(expected[likely], expected[~likely].sum())
    counted = np.append(observed[likely], observed[~likely].sum())
    assert counted.sum() == DRAWS
    assert stats.chisquare(counted, merged).pvalue > FALSE_ALARM


@pytest.mark.parametrize("sigma", [2**20, 2**30 + 7])
def test_the_law_is_that_of_an_independent_sampler(sigma: int) -> None:
    ours = np.array(SystemNoise().sample_discrete_gaussian([sigma] * DRAWS))
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    theirs = np.array(dp.m.make_gaussian(*space, scale=float(sigma))([0] * DRAWS))
    assert stats.ks_2samp(ours, theirs).pvalue > FALSE_ALARM


@pytest.mark.parametrize("sigma", [2**30, 2**40, SIGMA_MAX])
def test_large_scales_follow_the_normal_law(draws: dict[int, list[int]], sigma: int) -> None:
    # The distance between the two laws is below 1/σ, far below what 20,000 draws can show.
    assert stats.kstest(np.array(draws[sigma]) / sigma, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize("sigma", SCALES)
def test_the_mean_is_zero(draws: dict[int, list[int]], sigma: int) -> None:
    score = math.fsum(x / sigma for x in draws[sigma]) / math.sqrt(DRAWS)
    assert 2 * stats.norm.sf(abs(score)) > FALSE_ALARM


@pytest.mark.parametrize("sigma", SCALES)
def test_the_variance_is_that_of_the_scale(draws: dict[int, list[int]], sigma: int) -> None:
    assert variance_p_value(draws[sigma], sigma) > FALSE_ALARM


@pytest.mark.parametrize("sigma", SCALES)
def test_neighbouring_draws_are_uncorrelated(draws: dict[int, list[int]], sigma: int) -> None:
    sample = np.array(draws[sigma]) / sigma
    score = float(sample[:-1] @ sample[1:]) / math.sqrt(DRAWS - 1)
    assert 2 * stats.norm.sf(abs(score)) > FALSE_ALARM


def test_low_bits_are_as_good_as_high_ones(draws: dict[int, list[int]]) -> None:
    observed = np.bincount(np.array(draws[2**40]) % 16, minlength=16)
    assert stats.chisquare(observed).pvalue > FALSE_ALARM


def test_two_calls_are_independent(draws: dict[int, list[int]]) -> None:
    first = np.array(draws[2**30]) / 2**30
    second = np.array(SystemNoise().sample_discrete_gaussian([2**30] * DRAWS)) / 2**30
    score = float(first @ second) / math.sqrt(DRAWS)
    assert 2 * stats.norm.sf(abs(score)) > FALSE_ALARM


@pytest.mark.parametrize("wrong", [2**11 + 100, 2**11 - 100])
def test_the_law_test_sees_a_scale_that_is_five_percent_off(wrong: int) -> None:
    # A right sampler of the wrong scale: the test has power beyond 1 - 1e-9 here.
    assert variance_p_value(SystemNoise().sample_discrete_gaussian([wrong] * DRAWS), 2**11) < FALSE_ALARM


@pytest.mark.parametrize("row_map", [Box(), Ball.of_norm(1.2)], ids=["box", "ball"])
def test_a_release_has_the_planned_covariance(row_map: RowMap) -> None:
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
        price_units=56_028_963_825,
        shares=default_shares(tuple(Statistic)),
    )
    zero = SufficientStatistics(
        np.zeros((size, size), dtype=np.int64),
        np.zeros((size, targets), dtype=np.int64),
        np.zeros(targets, dtype=np.int64),
    )
    scales: list[int] = []
    for part in plan.parts:
        if part.statistic == Statistic.XTX:
            off = part.sigma_offdiagonal or part.sigma
            scales += [part.sigma if i == j else off for i in range(size) for j in range(i, size)]
        else:
            scales += [part.sigma] * {"xty": size * targets, "yty": targets, "lambda_min": 1}[part.statistic]
    noise = SystemNoise()
    released = [[v for s in Statistic for v in perturb(zero, plan, noise).values[s]] for _ in range(repeats)]
    whitened = np.array(released, dtype=np.float64) / np.array(scales, dtype=np.float64)
    per_entry = (whitened**2).sum(axis=0)
    law = stats.chi2(repeats)
    # Bonferroni over entries, then over pairs of entries.
    assert len(scales) * 2 * min(law.cdf(per_entry).min(), law.sf(per_entry).min()) > FALSE_ALARM
    products = np.abs(np.triu(whitened.T @ whitened, 1)).max() / math.sqrt(repeats)
    # A sum of products of normals has a slightly heavier tail than the normal: 7 leaves room for it.
    assert products < 7
