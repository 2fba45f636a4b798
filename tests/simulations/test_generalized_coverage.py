"""Coverage of intervals of refined logistic and Poisson regressions, with ideal noise and rows drawn of a population.

Each rate of a seeded simulation is above 95 % less three standard errors, counted among intervals with an end, and so
is that of all together. The truth is of the columns as they are declared. No prediction is worse than the mean alone.
"""

import math

import pytest

from analyst_client.planning.prices import gdp_delta, number_of
from bench.refined_generalized import DELTA, MADE, judge, make

pytestmark = pytest.mark.simulations


REPEATS = 40
LEAST = 0.95


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("kind", MADE)
def test_intervals_hold_the_coefficients_of_declared_columns(kind: str, epsilon: float) -> None:
    whole = make(kind)
    found = judge(whole, 5000, number_of(gdp_delta, epsilon, DELTA), REPEATS)
    # Of seven terms two nearly follow from each other, and the rarest has 50 rows.
    assert found.bounded > (0.7 if kind == "collinear" else 0.95)
    assert found.worst > LEAST - 3.0 * math.sqrt(LEAST * (1.0 - LEAST) / REPEATS)
    assert found.mean > LEAST - 3.0 * math.sqrt(LEAST * (1.0 - LEAST) / (REPEATS * len(whole.columns)))
    assert found.gain < 2.0 * found.gain_sd
    assert 0.8 < found.rate < 1.25
