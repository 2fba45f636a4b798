"""Releases that cannot be what they say are named; sites that differ are warned of, and averaged as sites."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from client_examples import noised, release_of_rows

from analyst_client import OLS, AdaSSP, EstimationError, EstimationWarning, Release
from analyst_client.inference.agreement import random_effects
from analyst_client.kinds import Noise

BETA = np.array([0.1, 0.4, -0.3])
QUIET = Noise(4.0, 3.0, 3.0, 3.0, distribution="discrete_gaussian")


def draw(
    generator: np.random.Generator,
    beta: np.ndarray = BETA,
    *,
    rows: int = 500,
    noise: Noise = QUIET,
    cross: float = 1.0,
    square: float = 1.0,
) -> Release:
    """Return a release of simulated rows; `cross` and `square` are what Xᵀy and yᵀy are multiplied with."""
    X = generator.uniform(-1.0, 1.0, (rows, len(beta) - 1))
    y = beta[0] + X @ beta[1:] + generator.normal(0.0, 0.3, rows)
    made = noised(release_of_rows(X, y), noise, generator)
    return Release.from_arrays(made.xtx, cross * made.xty, square * made.yty, noise=noise)


@pytest.mark.parametrize("wrong", [{"cross": 50.0}, {"square": -1.0}])
def test_a_release_that_no_rows_have_is_refused_and_named(wrong: Any) -> None:
    generator = np.random.default_rng(1)
    sites = [draw(generator), draw(generator), draw(generator, **wrong)]
    with pytest.raises(EstimationError, match="release 3 of 3, of 'local', cannot be sums over rows"):
        AdaSSP().fit(sites)
    with pytest.raises(EstimationError, match="the release cannot be sums over rows"):
        OLS().fit(sites[2])
    AdaSSP().fit(sites[:2])


@pytest.mark.parametrize("distribution", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("d", [2, 12])
def test_noise_alone_is_never_taken_for_a_wrong_number(distribution: str, d: int) -> None:
    """Rows that say nothing beside noise of every shape; the noise would refuse a release in 10⁹."""
    generator = np.random.default_rng(2)
    beta = np.zeros(d)
    for diagonal, cross, square in [(1.4, 1.0, 1.0), (1.0, 0.01, 3.0), (1.0, 30.0, 0.1)]:
        noise = Noise(300.0 * diagonal, 300.0, 300.0 * cross, 300.0 * square, distribution=distribution)
        for _ in range(100):
            AdaSSP().fit(draw(generator, beta, rows=20, noise=noise))


@pytest.mark.parametrize("left", [1e-15, 1e-3, 0.5])
def test_hardly_more_rows_than_terms_are_too_few(left: float) -> None:
    fit = AdaSSP().fit(Release.from_arrays([[2.0 + left, 0.0], [0.0, 20.0]], [1.0, 6.0], 90.0, noise=3.0))
    with pytest.raises(EstimationError, match="too few"):
        fit.conf_int()


def test_one_shifted_site_of_four_is_warned_of_where_it_is_pooled() -> None:
    generator = np.random.default_rng(3)
    sites = [draw(generator) for _ in range(3)]
    OLS().fit(sites)
    sites.append(draw(generator, np.array([0.1, 0.8, -0.3])))
    with pytest.warns(EstimationWarning, match=r"conf_int\(method='random-effects'\)") as caught:
        fit = OLS().fit(sites)
    assert caught[0].filename == __file__
    pooled, random = fit.conf_int(), fit.conf_int(method="random-effects")
    assert np.ptp(random[1]) > 5.0 * np.ptp(pooled[1])  # the slope in which it differs
    assert random[1, 0] < 0.4 < random[1, 1]


def test_without_differences_random_effects_are_the_inverse_variance_mean() -> None:
    """With no excess over K − 1 it is the textbook's mean, and its standard error times Student's quantile."""
    generator = np.random.default_rng(8)
    sites = [draw(generator, noise=Noise(1e-6, 1e-6, 1e-6, 1e-6, distribution="discrete_gaussian")) for _ in range(3)]
    fit = OLS().fit(sites)
    found = fit.conf_int(method="random-effects")
    own = [OLS().fit(site) for site in sites]
    weights = np.array([each.std_errors_**-2.0 for each in own])
    mean = np.sum(weights * [each.params_ for each in own], axis=0) / np.sum(weights, axis=0)
    excess = np.sum(weights * (np.array([each.params_ for each in own]) - mean) ** 2, axis=0)
    same = excess < 2.0
    assert same.any()
    half = 4.30265 / np.sqrt(np.sum(weights, axis=0))
    assert found[same] == pytest.approx(np.column_stack([mean - half, mean + half])[same], rel=1e-3)


@pytest.mark.filterwarnings("ignore:the releases do not tell")
def test_random_effects_cover_the_mean_of_sites_that_differ() -> None:
    generator = np.random.default_rng(4)
    covered = []
    for _ in range(60):
        sites = [draw(generator, BETA + 0.15 * generator.normal(size=3)) for _ in range(4)]
        low, high = OLS().fit(sites).conf_int(method="random-effects").T
        covered.append((low <= BETA) & (high >= BETA))
    assert np.mean(covered) >= 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / 180.0)


def test_random_effects_need_two_sites_that_tell_something() -> None:
    generator = np.random.default_rng(5)
    fit = OLS().fit(draw(generator))
    with pytest.raises(EstimationError, match="two releases at least"):
        fit.conf_int(method="random-effects")
    equations = fit.results_[0].equations
    shared = replace(equations, sites=tuple(replace(site, overlap=2) for site in equations.sites))
    with pytest.raises(EstimationError, match="same people"):
        random_effects(shared, np.eye(3), 0.95)
