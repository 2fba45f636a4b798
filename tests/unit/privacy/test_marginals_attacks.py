"""A climb on the request lattice itself for weights and values that beat a bound of moments."""

import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from curator_service.kinds.marginals.marginals import HALF, Moments
from curator_service.kinds.marginals.sensitivity import marginal_l1, marginal_l2_squared
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import Column, ColumnType, MissingRule
from curator_service.privacy.lattice import UNIT

MOMENTS = Moments((Column("x", ColumnType.NUMERIC, MissingRule.OMIT, -1.0, 1.0),))
WHOLE = UNIT**2
CORNERS = [UNIT, -UNIT, 0, UNIT // 2, -UNIT // 2, round(UNIT / 2**0.5)]


def weigh(number: int, weight: int) -> int:
    return (1 if number >= 0 else -1) * (abs(number) * weight // WHOLE)


def add(value: int, weight: int) -> list[int]:
    return [weigh(number, weight) for number in (HALF, UNIT * value, value * value - HALF - 1)]


def move(state: Sequence[int], adjacency: Adjacency, power: int) -> int:
    value, weight, other, its = state
    replacing = add(other, its) if adjacency is Adjacency.REPLACE_ONE else [0, 0, 0]
    return sum(abs(a - b) ** power for a, b in zip(add(value, weight), replacing, strict=True))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_no_weights_beat_a_bound_of_moments_on_the_lattice_of_requests(adjacency: Adjacency, power: int) -> None:
    draw, best = random.Random(power), 0
    bound = (marginal_l1 if power == 1 else marginal_l2_squared)(MOMENTS, adjacency, 1)
    for _ in range(150):
        state = []
        for _ in range(2):
            state.append(draw.choice([*CORNERS, draw.randint(-UNIT, UNIT)]))
            state.append(WHOLE - draw.choice([0, 1, 2, draw.randint(0, UNIT), draw.randint(0, WHOLE)]))
        found = move(state, adjacency, power)
        for _ in range(120):
            place = draw.randrange(4)
            least, most, digits = (-UNIT, UNIT, 17) if place % 2 == 0 else (0, WHOLE, 34)
            moved = list(state)
            moved[place] = max(
                least, min(most, moved[place] + int(draw.choice([-1, 1]) * 2 ** draw.uniform(0, digits)))
            )
            if (further := move(moved, adjacency, power)) >= found:
                state, found = moved, further
        best = max(best, found)
        contributed = MOMENTS.contribute(np.array([state[0] + 2.0 * UNIT]), np.array([float(state[1])]))
        exact = [int(number[0]) for number in contributed]
        assert exact == add(*state[:2])
    assert bound * Fraction(999, 1000) < best <= bound
