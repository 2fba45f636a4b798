"""Analyses of a Gram: intervals cover the truth, and tests reject a true hypothesis, as often as they say.

Rows and releases are those of `bench.analyses`, which prints the whole grid. Seeds are fixed; another seed of a right
method would be outside of the limits, four standard errors from 0.95 and 0.05, with a probability below 1 %.
"""

import math
from collections import defaultdict

import pytest

from analyst_client.kinds import Noise
from bench.analyses import TESTS, TRUTHS, run_repeat

pytestmark = pytest.mark.simulations

REPEATS = 120
MARGIN = 4.0 * math.sqrt(0.95 * 0.05 / REPEATS)
CELLS = {
    "without noise": (500, Noise(0.0, 0.0, 0.0, 0.0)),
    "gaussian": (2000, Noise(4.0, 3.0, 3.0, 2.0, distribution="discrete_gaussian")),
    "laplace": (2000, Noise(3.0, 3.0, 3.0, 3.0, distribution="discrete_laplace")),
}


@pytest.fixture(scope="module", params=CELLS)
def shares(request: pytest.FixtureRequest) -> dict[str, float]:
    """Return of each figure how often its interval held the truth, or its test rejected a true hypothesis."""
    found: dict[str, list[float]] = defaultdict(list)
    for seed in range(REPEATS):
        for name, right in run_repeat((seed, *CELLS[request.param])).items():
            found[name].append(right)
    assert all(len(outcomes) > 0.9 * REPEATS for outcomes in found.values())
    return {name: sum(outcomes) / len(outcomes) for name, outcomes in found.items()}


@pytest.mark.parametrize("name", TRUTHS)
def test_intervals_cover(shares: dict[str, float], name: str) -> None:
    assert shares[name] >= 0.95 - MARGIN


@pytest.mark.parametrize("name", TESTS)
def test_tests_have_their_size(shares: dict[str, float], name: str) -> None:
    assert shares[name] <= 0.05 + MARGIN
