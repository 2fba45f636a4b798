"""Coverage of average marginal effects over what a refinement tells, of columns that are far from normal.

Each rate of a seeded simulation is above 95 % less three standard errors. The truth is the mean over a million rows.
"""

import math
from typing import Any

import numpy as np
import pytest

from analyst_client import LogisticRegression, PoissonRegression
from bench.ideal import IdealCurator

pytestmark = pytest.mark.simulations
REPEATS = 60
LEAST = 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / REPEATS)
BETA = np.array([1.0, -0.6, 0.8])
FITS: dict[str, Any] = {"binomial": LogisticRegression, "poisson": PoissonRegression}


def draw(n: int, generator: np.random.Generator) -> Any:
    """Return a uniform column, one with cut tails, and a boolean."""
    columns = (
        generator.uniform(-1.0, 1.0, n),
        generator.normal(0.0, 0.7, n).clip(-2.0, 2.0),
        generator.uniform(size=n) < 0.3,
    )
    return np.column_stack(columns).astype(float)


@pytest.mark.parametrize(("mu", "n"), [(0.3, 3000), (0.3, 10_000)])
@pytest.mark.parametrize("family", FITS)
def test_intervals_hold_the_effects(family: str, mu: float, n: int) -> None:
    def mean(index: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-index)) if family == "binomial" else np.exp(index)

    whole = draw(10**6, np.random.default_rng(1))
    index = -0.5 + whole @ BETA
    slope = np.mean(mean(index) * ((1.0 - mean(index)) if family == "binomial" else 1.0))
    rest = index - BETA[2] * whole[:, 2]
    truth = [*(BETA[:2] * slope), np.mean(mean(rest + BETA[2]) - mean(rest))]
    held = np.zeros(3)
    for seed in range(REPEATS):
        generator = np.random.default_rng([seed, n])
        x = draw(n, generator)
        expected = mean(-0.5 + x @ BETA)
        is_count = family == "poisson"
        y = np.minimum(generator.poisson(expected), 40) if is_count else generator.uniform(size=n) < expected
        bounds: list[Any] = [(-2.0, 2.0), (-2.0, 2.0), None, (0.0, 40.0) if is_count else None]
        curator = IdealCurator.of_rows(np.column_stack([x, y]).astype(float), bounds, generator)
        effects = FITS[family]().fit(curator.refine(mu, family=family)).margins()
        held += [one.conf_low <= true <= one.conf_high for one, true in zip(effects, truth, strict=True)]
    assert (held / REPEATS).min() > LEAST
