"""Coverage of intervals of refined logistic and Poisson regressions, with ideal noise and rows drawn of a population.

Each rate of a seeded simulation is above 95 % less three standard errors, and so is that of all together. No mean of
estimates is off by half a standard error. Where an interval is refused it is not counted, which may be of one in twenty
at most.
"""

import math

import numpy as np
import pytest

from bench.refined_generalized import FAMILIES, NORMAL, run_all

pytestmark = pytest.mark.slow

REPEATS = 60
LEAST = 0.95
SHIFT = 0.5


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("n", "mu"), [(2000, 0.25), (20_000, 0.1), (5000, 1.0)])
def test_intervals_hold_the_coefficients_of_the_population(family: str, n: int, mu: float) -> None:
    both, _, refused = run_all(family, n, mu, REPEATS)
    assert refused <= 0.05 * REPEATS
    for errors in both:
        covered = np.mean(np.abs(errors) < NORMAL, axis=0)
        assert covered.min() > LEAST - 3.0 * math.sqrt(LEAST * (1.0 - LEAST) / REPEATS)
        assert covered.mean() > LEAST - 3.0 * math.sqrt(LEAST * (1.0 - LEAST) / (REPEATS * len(covered)))
        assert np.abs(errors.mean(axis=0)).max() < SHIFT
        assert 0.6 < np.std(errors, axis=0).min() < np.std(errors, axis=0).max() < 1.2
