"""Intervals cover the truth where rows are weighted and columns fit their bounds badly.

Releases come from the server's own code, with the default row map for the right number of rows. Seeds are fixed for the
rows and not for the noise: a cell of 250 releases whose intervals cover 95 % fails with a probability below 0.1 %.
"""

import numpy as np
import pytest

from bench.weights import run_repeat

pytestmark = pytest.mark.simulations

REPEATS = 250
LOW = 0.95 - 4.0 * np.sqrt(0.95 * 0.05 / REPEATS)
HIGH = 0.975 + 3.0 * np.sqrt(0.975 * 0.025 / REPEATS)


def coverage(kind: str, n: int, epsilon: float, residual_sd: float) -> tuple[str, float, float]:
    """Return the row map, the coverage of one slope's intervals, and the share of privacy noise."""
    names, covered, _, private = zip(
        *(run_repeat((kind, n, 1, epsilon, residual_sd, seed)) for seed in range(REPEATS)), strict=True
    )
    return names[0], float(np.mean(covered)), float(np.mean(private))


@pytest.mark.parametrize("kind", ["uniform", "at 0.9", "zero-inflated", "skewed", "0/1"])
@pytest.mark.parametrize(("n", "epsilon", "row_map"), [(1000, 1.0, "small"), (5000, 3.0, "wide"), (40_000, 3.0, "box")])
def test_intervals_cover_whatever_columns_are_like(kind: str, n: int, epsilon: float, row_map: str) -> None:
    name, covered, private = coverage(kind, n, epsilon, 0.4)
    assert name == row_map
    assert covered >= LOW
    if private < 0.5:
        assert covered <= HIGH
