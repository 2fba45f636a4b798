"""The row map of a request that names none: which of three, from public numbers and a guess alone."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.kinds.gram.defaults import choose_row_map, default_row_maps
from curator_service.kinds.gram.kind import Gram
from curator_service.kinds.gram.plan import default_shares, plan_gram
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import GDP, PURE, ZCDP, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import Column, ColumnType, Design, make_design
from curator_service.privacy.row_maps import Ball

Y = Column("y", ColumnType.NUMERIC, lower=0.0, upper=1.0)


def design_of(numbers: int, levels: tuple[int, ...] = (), *, intercept: bool = True, targets: bool = True) -> Design:
    columns = [Column(f"x{j}", ColumnType.NUMERIC, lower=-1.0, upper=1.0) for j in range(numbers)]
    columns += [
        Column(f"g{j}", ColumnType.CATEGORICAL, levels=tuple(map(str, range(count)))) for j, count in enumerate(levels)
    ]
    return make_design(tuple(columns), (Y,) if targets else (), intercept=intercept)


DESIGNS = [
    design_of(1),
    design_of(8),
    design_of(40),
    design_of(3, intercept=False),
    design_of(1, intercept=False),
    design_of(2, (12,)),
    design_of(0, (3, 30)),
]


def noise_of(
    design: Design,
    price: Price,
    accountant: Accountant = GDP,
    mechanism: Mechanism = Mechanism.GAUSSIAN,
    rows_per_person: int = 1,
    statistics: tuple[Statistic, ...] = (Statistic.XTX, Statistic.XTY, Statistic.YTY),
) -> dict[str, float]:
    plan = plan_gram(
        design,
        Ball.of_norm(default_row_maps(design)[0]["norm"]),
        Adjacency.ADD_REMOVE,
        row_capacity=10**6,
        price=price,
        shares=default_shares(statistics, mechanism),
        accountant=accountant,
        mechanism=mechanism,
        rows_per_person=rows_per_person,
    )
    return Gram().state_noise(plan.parts)


def place(design: Design, noise: dict[str, float], expected_rows: int | None, row_capacity: int = 10**9) -> int:
    chosen = choose_row_map(design, noise, expected_rows=expected_rows, row_capacity=row_capacity)
    return default_row_maps(design).index(chosen)


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: f"{len(design.terms)} terms")
def test_norms_grow_and_never_exceed_the_longest_row(design: Design) -> None:
    small, wide, box = default_row_maps(design)
    assert small["norm"] <= wide["norm"] <= math.sqrt(design.group_count)
    assert wide["norm"] ** 2 >= 0.75 * design.group_count * (1 - 1e-12)
    assert box == {"map": "box"}


@pytest.mark.parametrize(
    ("epsilon", "small_below", "box_from"), [(0.3, 88_000, 7_320_000), (1.0, 9_300, 774_000), (3.0, 1_240, 103_400)]
)
def test_the_bands_of_eight_features(epsilon: float, small_below: int, box_from: int) -> None:
    design = design_of(8)
    noise = noise_of(design, Price(epsilon=epsilon, delta=1e-6))
    for rows, expected in (
        (0.97 * small_below, 0),
        (1.03 * small_below, 1),
        (0.97 * box_from, 1),
        (1.03 * box_from, 2),
    ):
        assert place(design, noise, int(rows)) == expected, rows


@given(st.sampled_from(DESIGNS), st.floats(0.01, 3.0), st.integers(1, 10**9), st.integers(1, 10**9))
def test_more_rows_never_mean_a_smaller_norm(design: Design, mu: float, first: int, second: int) -> None:
    noise = noise_of(design, Price(mu=mu))
    low, high = sorted((first, second))
    assert place(design, noise, low) <= place(design, noise, high)


@given(st.sampled_from(DESIGNS), st.floats(0.01, 3.0), st.integers(1, 10**9))
def test_without_a_guess_a_quarter_of_the_capacity_is_taken_and_never_the_box(
    design: Design, mu: float, row_capacity: int
) -> None:
    noise = noise_of(design, Price(mu=mu))
    small, wide, box = default_row_maps(design)
    quarter = choose_row_map(design, noise, expected_rows=row_capacity, row_capacity=row_capacity)
    unstated = choose_row_map(design, noise, expected_rows=None, row_capacity=4 * row_capacity)
    assert unstated == (wide if quarter == box else quarter)
    assert unstated in (small, wide)


def test_no_guess_exceeds_the_capacity() -> None:
    design = design_of(8)
    noise = noise_of(design, Price(epsilon=1.0, delta=1e-6))
    assert place(design, noise, 10**9, row_capacity=1000) == 0


def test_louder_noise_asks_for_more_rows() -> None:
    design, price = design_of(8), Price(epsilon=1.0, delta=1e-6)
    rows = 10_000
    assert place(design, noise_of(design, price), rows) == 1
    assert place(design, noise_of(design, price, rows_per_person=3), rows) == 0
    assert place(design, noise_of(design, Price(epsilon=2.0), PURE, Mechanism.LAPLACE), rows) == 1
    assert place(design, noise_of(design, Price(epsilon=1.0), PURE, Mechanism.LAPLACE), rows) == 0
    assert place(design, noise_of(design, Price(rho=0.028), ZCDP), rows) == 1


def test_without_a_target_the_noise_in_xtx_decides() -> None:
    design, price = design_of(8, targets=False), Price(mu=0.2)
    alone = noise_of(design, price, statistics=(Statistic.XTX,))
    # For the whole price the noise is that of an Xᵀy that had the whole price.
    unit = 1 / 0.2**2
    norm_squared = default_row_maps(design)[0]["norm"] ** 2
    below = 120 * unit * norm_squared
    assert [place(design, alone, int(below * share)) for share in (0.99, 1.01)] == [0, 1]
    only = noise_of(design, price, statistics=(Statistic.LAMBDA_MIN,))
    assert place(design, only, 10**9) == 0


def test_shares_are_what_the_bands_assume() -> None:
    assert default_shares((Statistic.XTX, Statistic.XTY, Statistic.YTY))[Statistic.XTY] == Fraction(415, 1000)
