"""Planning: integer scales as small as the price allows, and a cost that never exceeds it."""

import contextlib
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_service.privacy import planning
from curator_service.privacy.accountant import GaussianPart
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import Column, ColumnType, Design, MissingRule, make_design
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.planning import (
    GramPlan,
    PriceOutOfRangeError,
    Statistic,
    default_shares,
    plan_gram,
    sigma_for_mu_squared,
)
from curator_service.privacy.rows import Ball, Box, RowMap
from curator_service.privacy.samplers import SIGMA_MAX, SIGMA_MIN

MICRO = Fraction(1, 10**12)


def design(numeric: int = 2, levels: int = 3, targets: int = 1, intercept: bool = True) -> Design:
    category = Column("c", ColumnType.CATEGORICAL, MissingRule.INDICATOR, levels=tuple("abcdef"[:levels]))
    features = tuple(Column(f"x{i}", ColumnType.NUMERIC) for i in range(numeric))
    outcomes = tuple(Column(f"y{i}", ColumnType.NUMERIC) for i in range(targets))
    return make_design((*features, category), outcomes, intercept=intercept)


def plan(
    price_units: int,
    row_map: RowMap,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    shares: dict[Statistic, Fraction] | None = None,
    of: Design | None = None,
) -> GramPlan:
    return plan_gram(
        of or design(),
        row_map,
        adjacency,
        row_capacity=10**6,
        price_units=price_units,
        shares=shares or default_shares(tuple(Statistic)),
    )


def term_of_cost(part: GaussianPart, diagonal: int, off_diagonal: int | None) -> Fraction:
    """Return µ² of one part from first principles: the worse of all weight on the diagonal, or off it."""
    worst = part.sensitivity_squared / (diagonal**2 - 9)
    if off_diagonal is not None:
        worst = max(worst, part.sensitivity_squared / 2 / (off_diagonal**2 - 9))
    return part.copies * worst


ROW_MAPS = st.one_of(st.just(Box()), st.floats(0.05, 4).map(Ball.of_norm))
PRICES = st.one_of(st.integers(10**9, 10**14), st.sampled_from([10**9, 10**9 + 1, 56_028_963_825]))


@st.composite
def share_maps(draw: st.DrawFn) -> dict[Statistic, Fraction]:
    chosen = draw(st.lists(st.sampled_from(Statistic), min_size=1, unique=True))
    if draw(st.booleans()):
        return default_shares(tuple(chosen))
    weights = {s: Fraction(draw(st.integers(1, 100))) for s in chosen}
    total = sum(weights.values()) * draw(st.fractions(1, 2, max_denominator=7))
    return {s: w / total for s, w in weights.items()}


@settings(deadline=None)
@given(PRICES, ROW_MAPS, st.sampled_from(Adjacency), share_maps(), st.integers(1, 3))
def test_the_cost_is_within_the_price_and_equals_its_formula(
    price: int, row_map: RowMap, adjacency: Adjacency, shares: dict[Statistic, Fraction], targets: int
) -> None:
    made = plan(price, row_map, adjacency, shares, design(targets=targets))
    exact = sum(term_of_cost(p, p.sigma, p.sigma_offdiagonal) for p in made.parts)
    assert made.cost == math.ceil(exact / MICRO)
    assert 0 < made.cost <= price


@settings(deadline=None)
@given(PRICES, ROW_MAPS, st.sampled_from(Adjacency), share_maps())
def test_every_part_is_within_its_share(
    price: int, row_map: RowMap, adjacency: Adjacency, shares: dict[Statistic, Fraction]
) -> None:
    for part in plan(price, row_map, adjacency, shares).parts:
        assert part.mu_squared <= price * MICRO * shares[Statistic(part.statistic)]


@settings(deadline=None)
@given(PRICES, ROW_MAPS, st.sampled_from(Adjacency), share_maps())
def test_no_scale_could_be_one_smaller(
    price: int, row_map: RowMap, adjacency: Adjacency, shares: dict[Statistic, Fraction]
) -> None:
    for part in plan(price, row_map, adjacency, shares).parts:
        allowed = price * MICRO * shares[Statistic(part.statistic)]
        assert term_of_cost(part, part.sigma - 1, part.sigma_offdiagonal) > allowed
        if part.sigma_offdiagonal is not None:
            assert term_of_cost(part, part.sigma, part.sigma_offdiagonal - 1) > allowed


@given(
    st.fractions(min_value=Fraction(2**20), max_value=Fraction(2**80)),
    st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(1)),
)
def test_sigma_is_the_least_integer_that_affords(sensitivity_squared: Fraction, mu_squared: Fraction) -> None:
    try:
        sigma = sigma_for_mu_squared(sensitivity_squared, mu_squared)
    except PriceOutOfRangeError:
        return
    assert SIGMA_MIN <= sigma <= SIGMA_MAX
    assert sensitivity_squared / (sigma**2 - 9) <= mu_squared
    assert sensitivity_squared / ((sigma - 1) ** 2 - 9) > mu_squared


def test_sigma_of_an_exact_square_is_not_rounded_up() -> None:
    assert sigma_for_mu_squared(Fraction(2**20 - 9), Fraction(1)) == 2**10
    assert sigma_for_mu_squared(Fraction(2**20 - 9) + Fraction(1, 10**9), Fraction(1)) == 2**10 + 1


def test_the_ends_of_the_sigma_range_are_allowed_and_no_more() -> None:
    assert sigma_for_mu_squared(Fraction(SIGMA_MAX**2 - 9), Fraction(1)) == SIGMA_MAX
    with pytest.raises(PriceOutOfRangeError, match="too small"):
        sigma_for_mu_squared(Fraction(SIGMA_MAX**2 - 8), Fraction(1))
    with pytest.raises(PriceOutOfRangeError, match="too large"):
        sigma_for_mu_squared(Fraction((SIGMA_MIN - 1) ** 2 - 9), Fraction(1))


@pytest.mark.parametrize("row_map", [Box(), Ball.of_norm(1.2)], ids=["box", "ball"])
@pytest.mark.parametrize("price", [0, -1])
def test_a_price_of_nothing_is_refused(price: int, row_map: RowMap) -> None:
    with pytest.raises(PriceOutOfRangeError, match="smallest unit"):
        plan(price, row_map)


@pytest.mark.parametrize("row_map", [Box(), Ball.of_norm(1.2)], ids=["box", "ball"])
def test_a_price_below_the_lattice_is_refused(row_map: RowMap) -> None:
    with pytest.raises(PriceOutOfRangeError, match="too small"):
        plan(1, row_map)


@pytest.mark.parametrize("row_map", [Box(), Ball.of_norm(1.2)], ids=["box", "ball"])
def test_a_price_above_the_lattice_is_refused(row_map: RowMap) -> None:
    with pytest.raises(PriceOutOfRangeError, match="too large"):
        plan(10**40, row_map)


def test_a_ball_of_radius_zero_is_refused() -> None:
    with pytest.raises(PriceOutOfRangeError):
        plan(10**10, Ball(0))


def test_shares_above_one_are_refused() -> None:
    with pytest.raises((AssertionError, ValueError)):
        plan(10**10, Box(), shares={Statistic.XTX: Fraction(1), Statistic.XTY: Fraction(1)})


def test_a_box_has_one_scale_and_a_ball_two() -> None:
    assert plan(10**10, Box()).parts[0].sigma_offdiagonal is None
    ball = plan(10**10, Ball.of_norm(1.2)).parts[0]
    assert ball.sigma_offdiagonal is not None
    assert ball.sigma == pytest.approx(math.sqrt(2) * ball.sigma_offdiagonal, rel=1e-6)


@pytest.mark.parametrize(("diagonal", "off"), [(2000, 1414), (2000, 1415), (1500, 2000), (2000, 1024)])
def test_the_cost_of_two_scales_is_that_of_the_worse(diagonal: int, off: int) -> None:
    part = GaussianPart("xtx", Fraction(10**6), diagonal, off)
    assert part.mu_squared == max(Fraction(10**6, diagonal**2 - 9), Fraction(10**6, 2 * off**2 - 18))


def test_each_target_is_charged() -> None:
    shares = {Statistic.XTY: Fraction(1)}
    one, three = (plan(10**10, Box(), shares=shares, of=design(targets=t)).parts[0] for t in (1, 3))
    assert three.copies == 3
    assert three.sigma == pytest.approx(one.sigma * math.sqrt(3), rel=1e-6)


def test_replace_one_needs_more_noise_than_add_remove() -> None:
    for row_map in (Box(), Ball.of_norm(1.2)):
        less, more = (plan(10**10, row_map, a).parts for a in Adjacency)
        assert more[0].sigma > less[0].sigma
        assert more[1].sigma > less[1].sigma
        assert more[2].sigma == less[2].sigma
        assert more[3].sigma == less[3].sigma


def test_parts_follow_the_order_of_statistics() -> None:
    shares = {s: Fraction(1, 4) for s in reversed(Statistic)}
    assert [p.statistic for p in plan(10**10, Box(), shares=shares).parts] == list(Statistic)


def test_three_statistics_at_one_and_a_millionth_cost_7_32_units_of_noise_each() -> None:
    shares = {s: Fraction(1, 3) for s in (Statistic.XTX, Statistic.XTY, Statistic.YTY)}
    made = plan(56_028_963_825, Box(), shares=shares)
    for part in made.parts:
        assert part.sigma / math.sqrt(part.sensitivity_squared) == pytest.approx(7.32, abs=0.005)


@given(st.lists(st.sampled_from(Statistic), min_size=1, unique=True))
def test_default_shares_add_up_to_one(chosen: list[Statistic]) -> None:
    shares = default_shares(tuple(chosen))
    assert list(shares) == chosen
    assert all(share > 0 for share in shares.values())
    assert sum(shares.values()) == 1


def test_lambda_min_takes_a_twentieth_of_the_whole() -> None:
    shares = default_shares(tuple(Statistic))
    assert shares[Statistic.LAMBDA_MIN] == Fraction(1, 20)
    assert shares[Statistic.XTX] == Fraction(19, 20) * Fraction(1, 2)


def test_the_float_error_of_lambda_min_is_charged() -> None:
    shares = {Statistic.LAMBDA_MIN: Fraction(1)}
    scales = [
        plan_gram(design(), Box(), Adjacency.ADD_REMOVE, row_capacity=n, price_units=10**10, shares=shares)
        .parts[0]
        .sigma
        for n in (1, 5 * 10**8)
    ]
    assert scales[0] < scales[1]


def test_a_plan_does_not_use_the_number_of_columns_of_a_group() -> None:
    shares = {Statistic.XTX: Fraction(1)}
    few, many = (plan(10**10, Box(), shares=shares, of=design(levels=k)).parts[0] for k in (3, 6))
    assert few == many
    assert few.sensitivity_squared == Fraction(UNIT**4 * (4**2 + 4), 2)


def test_a_caller_cannot_change_the_default_shares_of_others() -> None:
    first = default_shares((Statistic.XTX, Statistic.YTY))
    with contextlib.suppress(TypeError):  # a read-only mapping refuses
        first[Statistic.XTX] = Fraction(1, 1000)
    assert sum(default_shares((Statistic.XTX, Statistic.YTY)).values()) == 1


def test_shares_change_the_plan_and_their_order_does_not() -> None:
    a, b = {Statistic.XTX: Fraction(1, 4), Statistic.YTY: Fraction(1, 2)}, {Statistic.XTX: Fraction(1, 2)}
    assert plan(10**10, Box(), shares=a).parts[0].sigma > plan(10**10, Box(), shares=b).parts[0].sigma
    assert plan(10**10, Box(), shares=a) == plan(10**10, Box(), shares=dict(reversed(a.items())))


def test_each_public_number_of_a_request_has_its_own_plan() -> None:
    # Plans may be remembered: a memory that ignored one of these would give another request's noise.
    shares = {Statistic.XTX: Fraction(1, 2), Statistic.LAMBDA_MIN: Fraction(1, 2)}
    known = [
        plan_gram(d, m, a, row_capacity=n, price_units=p, shares=shares)
        for d in (design(2), design(3))
        for m in (Box(), Ball(UNIT), Ball(UNIT + 1))
        for a in Adjacency
        for n in (10, 10**8)
        for p in (10**10, 10**11)
    ]
    assert len({(made.design, *(part.sigma for part in made.parts)) for made in known}) == 48


def test_a_cost_that_forgets_the_loss_of_variance_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    planning._plan.cache_clear()  # a failed plan is not remembered, so nothing is left behind
    monkeypatch.setattr(planning, "VARIANCE_LOSS", 0)
    with pytest.raises((AssertionError, ValueError)):
        # The price of σ² = 2^20 without the loss, rounded up: the cost of that σ is above it.
        plan_gram(
            design(),
            Box(),
            Adjacency.ADD_REMOVE,
            row_capacity=1,
            price_units=-(-(UNIT**4) * 10**12 // 2**20),
            shares={Statistic.YTY: Fraction(1)},
        )
