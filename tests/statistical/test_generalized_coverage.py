"""Coverage of intervals of refined logistic and Poisson regressions: rows and noise are drawn, and hits are counted.

A curator with ideal noise answers the plan. The truth is the coefficients of the population with its columns cut as the
refinement cut them: those of a large sample of it. Each rate of a seeded simulation is above 93 % less three standard
errors, and all together are above 93 %. Where an
interval is refused it is not counted, which may be of one in twenty at most.
"""

import math
from typing import Any

import numpy as np
import pytest

from analyst_client import EstimationError
from analyst_client.inference.units import raw_units
from analyst_client.refinement.family import Family
from analyst_client.refinement.generalized import RefinedGeneralized
from analyst_client.refinement.information import likelihood
from analyst_client.schema.columns import Term
from bench.ideal import IdealCurator

pytestmark = pytest.mark.slow

REPEATS = 60
LEAST = 0.93 - 3.0 * math.sqrt(0.93 * 0.07 / REPEATS)
NAMES = ("a", "b", "c", "d")
SLOPES = np.array([0.8, -0.5, 0.7, 0.0])
BOUNDS = dict.fromkeys(NAMES, (-10.0, 10.0))  # four times as wide as the columns are
COUNT_MAX = 60.0


def draw(family: str, n: int, generator: np.random.Generator) -> tuple[Any, Any]:
    """Return correlated columns, one of them of two values, and a target."""
    x = generator.standard_normal((n, 4))
    x[:, 1] = 0.6 * x[:, 0] + 0.8 * x[:, 1]
    x[:, 2] = x[:, 2] > 0.5
    if family == "binomial":
        return x, (generator.uniform(size=n) < 1.0 / (1.0 + np.exp(0.7 - x @ SLOPES))).astype(float)
    return x, np.minimum(generator.poisson(np.exp(0.7 + 0.5 * x @ SLOPES)), COUNT_MAX).astype(float)


def refined(family: str, n: int, mu: float, generator: np.random.Generator) -> RefinedGeneralized:
    x, y = draw(family, n, generator)
    bounds = BOUNDS | ({} if family == "binomial" else {"y": (0.0, COUNT_MAX)})
    curator = IdealCurator(dict(zip(NAMES, x.T, strict=True)) | {"y": y}, bounds, generator)
    found = curator.refine(mu, family=family).found
    assert isinstance(found, RefinedGeneralized)
    assert curator.spent == pytest.approx(mu**2)
    return found


def truth_of(found: RefinedGeneralized, x: Any, y: Any) -> Any:
    """Return the coefficients of a large sample whose columns are cut as they were."""
    assert found.frame is not None
    family: Family = found.family
    terms = found.frame.terms[1:]
    cut = [np.clip(x[:, j], term.center - term.scale, term.center + term.scale) for j, term in enumerate(terms)]
    z = np.column_stack([np.ones(len(x)), *cut])
    theta = np.array([family.link(float(y.mean()) / family.unit), *np.zeros(4)])
    for _ in range(7):
        H = (z * family.slope(z @ theta)[:, None]).T @ z
        theta = theta + np.linalg.solve(H, z.T @ (y / family.unit - family.mean(z @ theta)))
    return theta


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize(("n", "mu"), [(2000, 0.25), (5000, 1.0)])
def test_intervals_hold_the_coefficients_of_the_population(family: str, n: int, mu: float) -> None:
    large = draw(family, 60_000, np.random.default_rng(77))
    generator = np.random.default_rng([n, 3])
    ratios: dict[bool, list[Any]] = {False: [], True: []}
    refused = 0
    for _ in range(REPEATS):
        found = refined(family, n, mu, generator)
        try:
            told = likelihood(found)
        except EstimationError:
            refused += 1
            continue
        assert found.frame is not None
        forms = raw_units(found.frame.terms, Term("index", "numeric", "index", 0.0, 1.0), None)[0] @ found.frame.matrix
        errors = forms @ told.theta - truth_of(found, *large)
        for robust, kept in ratios.items():
            kept.append(errors / np.sqrt(np.diag(told.covariance(forms, robust=robust))))
    assert refused <= 0.05 * REPEATS
    for kept in ratios.values():
        covered = np.mean(np.abs(kept) < 1.96, axis=0)
        assert covered.min() > LEAST
        assert covered.mean() > 0.93 - 3.0 * math.sqrt(0.93 * 0.07 / (REPEATS * len(covered)))
        assert 0.6 < np.std(kept, axis=0).min() < np.std(kept, axis=0).max() < 1.2
