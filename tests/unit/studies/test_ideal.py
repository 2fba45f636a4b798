"""The curator of rows in memory answers refinements that fits take as they take a curator's."""

import math
from typing import Any

import numpy as np
import pytest

from analyst_client import AdaSSP, LogisticRegression, PoissonRegression, RefinedRegression
from bench.ideal import IdealCurator

BOUNDS = [(-6.0, 6.0), (-3.0, 9.0)]
SLOPES = np.array([0.5, -0.3])


def rows_of(family: str, n: int) -> Any:
    generator = np.random.default_rng(5)
    x = generator.standard_normal((n, 2))
    eta = 0.4 + x @ SLOPES
    target = {
        "gaussian": lambda: eta + generator.standard_normal(n),
        "binomial": lambda: generator.uniform(size=n) < 1.0 / (1.0 + np.exp(-eta)),
        "poisson": lambda: generator.poisson(np.exp(eta)),
    }[family]()
    return np.column_stack([x, target])


@pytest.mark.parametrize(
    ("family", "last", "fit"),
    [
        ("gaussian", (-10.0, 20.0), RefinedRegression()),
        ("binomial", None, LogisticRegression()),
        ("poisson", (0.0, 40.0), PoissonRegression()),
    ],
)
def test_a_refinement_of_rows_in_memory_is_fitted_and_predicts(family: str, last: Any, fit: Any) -> None:
    rows = rows_of(family, 20_000)
    curator = IdealCurator.of_rows(rows, [*BOUNDS, last], np.random.default_rng(6))
    fit.fit(curator.refine(1.0, family=family))
    assert curator.spent == pytest.approx(1.0)
    assert fit.coef_ == pytest.approx(SLOPES, abs=0.06)
    assert np.isfinite(fit.conf_int()).all()
    far, farther = fit.predict([[6.0, 9.0], [100.0, 100.0]], clip=True)
    assert far == farther  # numbers are cut to their bounds, or to what the refinement found
    assert fit.score(rows[:, :-1], rows[:, -1]) > 0.05


def test_without_noise_a_release_is_that_of_the_rows() -> None:
    rows = rows_of("gaussian", 500)
    bounds = [*BOUNDS, (-10.0, 20.0)]
    curator = IdealCurator.of_rows(rows, bounds, np.random.default_rng(7), noiseless=True)
    release = curator.one_release(math.inf)
    fit = AdaSSP().fit(release)
    x = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    assert [fit.intercept_, *fit.coef_] == pytest.approx(np.linalg.lstsq(x, rows[:, -1], rcond=None)[0], abs=0.02)


def test_one_release_splits_its_price_as_a_curator_does_by_default() -> None:
    rows = np.random.default_rng(6).uniform(-1.0, 1.0, (50, 3))
    release = IdealCurator.of_rows(rows, [(-1.0, 1.0)] * 3, np.random.default_rng(7)).one_release(2.0)
    norm = np.sqrt(1.2)
    assert release.noise.xtx_diagonal == pytest.approx(norm**2 / (2.0 * 0.5**0.5))
    assert release.noise.xty == pytest.approx(norm / (2.0 * 0.415**0.5))
    assert release.noise.yty == pytest.approx(1.0 / (2.0 * 0.085**0.5))
