"""Intervals of refined fits cover the population's coefficients, and its R², with ideal noise and bootstrapped rows.

Each cell counts how often 95 % intervals hold their coefficients, over 150 refinements. It fails where coverage is
below 0.93 by more than three standard errors of it.
"""

import math
import warnings

import numpy as np
import pytest

from analyst_client import EstimationWarning
from analyst_client.refinement import RefinementRules
from bench.refined import Population, run
from bench.rsquared import population_of, tell

pytestmark = pytest.mark.simulations

REPEATS = 150
LEAST = 0.93


@pytest.mark.parametrize(
    ("kind", "n", "epsilon"),
    [
        ("t3", 1000, 1.0),
        ("skewed", 5000, 1.0),
        ("collinear", 5000, 3.0),
    ],
)
def test_intervals_cover_the_population_s_coefficients(kind: str, n: int, epsilon: float) -> None:
    population, rules = Population.of(kind, 4), RefinementRules()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)
        held = [run(population, n, epsilon, rules, seed, one_shot=False).held.mean() for seed in range(REPEATS)]
    assert np.mean(held) + 3.0 * np.std(held) / math.sqrt(REPEATS) >= LEAST


@pytest.mark.parametrize(("kind", "n", "epsilon"), [("t3", 1000, 1.0), ("zero-inflated", 5000, 1.0)])
def test_intervals_of_r_squared_hold_that_of_the_population(kind: str, n: int, epsilon: float) -> None:
    population, rules = population_of(kind), RefinementRules()
    told = [tell(population, n, epsilon, rules, seed) for seed in range(REPEATS // 2)]
    found = np.array([one for one in told if one is not None], dtype=np.float64)
    held, length, *_, contradicts = found.T
    assert held.mean() >= LEAST - 3.0 * math.sqrt(LEAST * (1.0 - LEAST) / len(held))
    assert np.median(length) < 0.8
    assert not contradicts.any()
