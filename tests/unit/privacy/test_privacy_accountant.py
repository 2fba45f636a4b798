"""The accountant: exact costs, a filter on integers, and views that never flatter."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.privacy.accountant import (
    GaussianPart,
    Price,
    affordable,
    compute_cost,
    fits_within,
    spent,
)

PARTS = st.lists(
    st.builds(
        GaussianPart,
        st.just("xtx"),
        st.fractions(min_value=Fraction(1), max_value=Fraction(2**70)),
        st.integers(2**10, 2**53),
        st.one_of(st.none(), st.integers(2**10, 2**53)),
        st.integers(1, 4),
    ),
    max_size=5,
)


@given(PARTS, PARTS)
def test_a_joint_cost_is_at_most_one_unit_below_the_sum(first: list[GaussianPart], second: list[GaussianPart]) -> None:
    joint, apart = compute_cost([*first, *second]), compute_cost(first) + compute_cost(second)
    assert joint <= apart <= joint + 1


@given(PARTS)
def test_a_cost_is_rounded_up(parts: list[GaussianPart]) -> None:
    exact_cost = sum((part.mu_squared for part in parts), Fraction(0)) * 10**12
    assert compute_cost(parts) - 1 < exact_cost <= compute_cost(parts)


def test_a_positive_cost_never_rounds_to_zero() -> None:
    assert compute_cost([GaussianPart("yty", Fraction(1), 2**53)]) == 1


def test_nothing_costs_nothing() -> None:
    assert compute_cost([]) == 0


def test_the_variance_that_an_entry_costs_is_nine_less() -> None:
    assert GaussianPart("yty", Fraction(16), 5).mu_squared == 1


def test_copies_multiply_the_cost() -> None:
    assert GaussianPart("xty", Fraction(16), 5, copies=3).mu_squared == 3


def test_a_cost_of_nothing_does_not_fit() -> None:
    assert not fits_within(0, posted=0, pending=0, limit=10)
    assert not fits_within(-1, posted=0, pending=0, limit=10)


@given(*[st.integers(0, 10**30)] * 4)
def test_the_filter_is_exact_on_integers(cost: int, posted: int, pending: int, limit: int) -> None:
    fits = fits_within(cost, posted=posted, pending=pending, limit=limit)
    assert fits == (cost > 0 and posted + pending + cost <= limit)


def test_a_limit_of_one_request_buys_it_once() -> None:
    price = Price(epsilon=1.0, delta=1e-6).units
    limit = Price(epsilon=1.0, delta=1e-6).units
    assert fits_within(price, posted=0, pending=0, limit=limit)
    assert not fits_within(1, posted=price, pending=0, limit=limit)


def test_three_tenths_buy_three_times_a_tenth_in_the_accounts_unit() -> None:
    limit, price = Price(rho=0.3).units, Price(rho=0.1).units
    assert limit == 3 * price
    assert Price(rho=0.15).units == 3 * Price(rho=0.05).units


def test_three_tenths_of_epsilon_buy_seven_times_a_tenth() -> None:
    limit, price = Price(epsilon=0.3, delta=1e-6).units, Price(epsilon=0.1, delta=1e-6).units
    assert limit // price == 7


def test_the_notions_agree() -> None:
    assert Price(mu=0.5).units == Price(rho=0.125).units == 25 * 10**10


@pytest.mark.parametrize(
    "wrong",
    [{}, {"epsilon": 1.0}, {"delta": 1e-6}, {"mu": math.nan}, {"rho": math.inf}, {"epsilon": math.nan, "delta": 1e-6}],
    ids=str,
)
def test_a_price_that_is_incomplete_or_not_finite_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the message is that of whichever number is wrong
        _ = Price(**wrong).units


@pytest.mark.parametrize("wrong", [{"mu": -1.0}, {"rho": -1.0}, {"epsilon": -1.0, "delta": 1e-6}], ids=str)
def test_a_negative_price_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        _ = Price(**wrong).units


@pytest.mark.parametrize("wrong", [{"epsilon": 1.0, "delta": 1e-6, "mu": 5.0}, {"mu": 1.0, "rho": 1.0}], ids=str)
def test_a_price_in_two_notions_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="price"):
        _ = Price(**wrong).units


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-9), (3.0, 1e-5), (50.0, 1e-12)])
def test_what_a_price_buys_reads_as_that_price(epsilon: float, delta: float) -> None:
    amount = spent(Price(epsilon=epsilon, delta=delta).units, delta)
    assert amount.epsilon == epsilon
    assert amount.delta == delta


def test_an_amount_is_seen_in_every_notion() -> None:
    amount = spent(25 * 10**10, 1e-6)
    assert (amount.units, amount.mu, amount.rho) == (25 * 10**10, 0.5, 0.125)


@pytest.mark.parametrize("units", [1, 2, 999, 10**6, 56_028_963_825, 123_456_789_012, 10**14])
def test_each_view_of_what_remains_can_be_paid(units: int) -> None:
    view = affordable(units, 1e-6)
    for price in (Price(mu=view.mu), Price(rho=view.rho), Price(epsilon=view.epsilon, delta=1e-6)):
        if price.epsilon != 0.0:
            assert price.units <= units
