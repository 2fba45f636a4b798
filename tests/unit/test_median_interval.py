"""The interval of a median that benches state, from the order of values alone."""

import math
import random

import pytest

from bench.against import median_interval


@pytest.mark.parametrize(("count", "rank"), [(5, 0), (6, 0), (8, 0), (9, 1), (15, 3), (17, 4), (40, 13)])
def test_it_is_between_the_ranks_of_the_table(count: int, rank: int) -> None:
    """Conover, Practical Nonparametric Statistics, table A3: the binomial distribution with p = 1/2."""
    values = [float(i) for i in range(count)]
    random.Random(count).shuffle(values)
    assert median_interval(values) == (rank, count - 1 - rank)


def test_it_covers_as_often_as_it_says() -> None:
    """Exactly: of n values each is below the median with probability 1/2."""
    for count in range(6, 40):
        low, high = median_interval([float(i) for i in range(count)])
        covered = sum(math.comb(count, below) for below in range(int(low) + 1, int(high) + 1)) / 2**count
        narrower = sum(math.comb(count, below) for below in range(int(low) + 2, int(high))) / 2**count
        assert covered >= 0.95 > narrower
