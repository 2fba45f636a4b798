"""Shared parts of comparisons, on numbers that can be checked by hand."""

import numpy as np
import pytest

from studies.protocol import adassp, draw_bounds, error_without_privacy


def rows(count: int = 4000) -> np.ndarray:
    generator = np.random.default_rng(1)
    x = generator.uniform(-1, 1, (count, 3))
    return np.column_stack([x, 0.5 * x[:, 0] - 0.2 * x[:, 1] + 0.05 * generator.standard_normal(count)])


@pytest.mark.parametrize(("kind", "least", "most"), [("tight", 1.1, 1.65), ("loose", 3.3, 5.0)])
def test_bounds_hold_every_value_and_are_as_wide_as_they_say(kind: str, least: float, most: float) -> None:
    data = rows()
    for column, (low, high) in zip(data.T, draw_bounds(data, kind, seed=7), strict=True):
        assert low <= column.min() <= column.max() <= high
        assert least <= (high - low) / (column.max() - column.min()) <= most


def test_adassp_is_least_squares_where_epsilon_is_large() -> None:
    data = rows()
    x, y = np.hstack([np.ones((len(data), 1)), data[:, :-1]]), data[:, -1]
    expected = np.linalg.lstsq(x, y, rcond=None)[0]
    assert adassp(x, y, 1e6, np.random.default_rng(2)) == pytest.approx(expected, abs=1e-4)
    errors = [np.linalg.norm(adassp(x, y, e, np.random.default_rng(2)) - expected) for e in (0.1, 1.0, 10.0)]
    assert errors[0] > errors[1] > errors[2]


def test_the_error_without_privacy_is_that_of_least_squares() -> None:
    data = rows()
    assert error_without_privacy(data[:3000], data[3000:]) == pytest.approx(0.05**2, rel=0.1)
