"""The best of several null slopes is significant as often as it should be, and their intervals hold together."""

import numpy as np
import pytest

from analyst_client import OLS, Column, Release
from analyst_client.kinds import Noise

pytestmark = pytest.mark.simulations

NULL = [Column.numeric(f"x{j}", -1, 1) for j in range(10)]
NOISE = Noise(8.0, 8.0, 8.0, 8.0, distribution="discrete_gaussian")


def null_release(rng: np.random.Generator, columns: int = 10, rows: int = 500) -> Release:
    """Return XᵀX and Xᵀy, with noise, of columns that have nothing to do with the target."""
    X = np.column_stack([np.ones(rows), rng.uniform(-1.0, 1.0, (rows, columns))])
    y = rng.normal(0.0, 0.3, rows)
    E = np.triu(8.0 * rng.normal(size=(columns + 1, columns + 1)))
    noisy = X.T @ y + 8.0 * rng.normal(size=columns + 1)
    return Release.from_arrays(
        X.T @ X + E + np.triu(E, 1).T, noisy, y @ y + 8.0 * rng.normal(), features=NULL[:columns], noise=NOISE
    )


def test_the_best_of_ten_null_columns_is_significant_in_one_of_twenty() -> None:
    rng, repeats = np.random.default_rng(30), 1000
    plain, adjusted, apart, together = (np.zeros(repeats, dtype=bool) for _ in range(4))
    for k in range(repeats):
        fit = OLS().fit(null_release(rng))
        plain[k], adjusted[k] = (np.min(p[1:]) < 0.05 for p in (fit.pvalues_, fit.adjusted_pvalues()))
        apart[k], together[k] = (
            np.all(found[1:, 0] * found[1:, 1] <= 0.0) for found in (fit.conf_int(), fit.conf_int(simultaneous=True))
        )
    assert plain.mean() > 0.3
    assert adjusted.mean() <= 0.06
    assert apart.mean() < 0.7
    assert together.mean() >= 0.94


def test_the_best_slope_of_all_models_is_significant_in_one_of_twenty_at_most() -> None:
    rng, repeats = np.random.default_rng(31), 200
    subsets = [[f"x{j}" for j in range(4) if code >> j & 1] for code in range(1, 16)]
    plain, adjusted = np.zeros(repeats), np.zeros(repeats)
    for k in range(repeats):
        release = null_release(rng, columns=4)
        fits = [OLS().fit(release, features=features) for features in subsets]
        plain[k] = min(np.min(fit.pvalues_[1:]) for fit in fits)
        adjusted[k] = min(np.min(fit.adjusted_pvalues("release")[1:]) for fit in fits)
    assert np.mean(plain < 0.05) > 0.15
    assert np.mean(adjusted < 0.05) <= 0.06
