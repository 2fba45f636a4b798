"""The accountants: exact costs, and views that never flatter."""

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curator_service.kinds.gram.sensitivity import GramJointBound, joint_cost
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import ACCOUNTANTS, GDP, PURE, ZCDP, Accountant, Price
from curator_service.privacy.conversions import (
    EPSILON_MAX,
    GDP_CURVE,
    UNITS_PER_ONE,
    ZCDP_CURVE,
    exact,
    mu_squared_of_pure,
    units_of_epsilon_delta,
)
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part

MICRO = Fraction(1, UNITS_PER_ONE)
CURVED = [GDP, ZCDP]
every_accountant = pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=lambda a: a.name)
every_curved = pytest.mark.parametrize("accountant", CURVED, ids=lambda a: a.name)

SCALES = st.integers(2**10, 2**53)
GAUSSIAN_PARTS = st.builds(
    GaussianPart,
    st.sampled_from(Statistic),
    st.fractions(min_value=Fraction(1), max_value=Fraction(2**70)),
    SCALES,
    st.one_of(st.none(), SCALES),
    st.integers(1, 4),
)
LAPLACE_PARTS = st.builds(
    LaplacePart,
    st.sampled_from(Statistic),
    st.fractions(min_value=Fraction(1), max_value=Fraction(2**19)),
    SCALES,
    st.integers(1, 4),
)
PARTS = st.lists(st.one_of(GAUSSIAN_PARTS, LAPLACE_PARTS), max_size=4, unique_by=lambda p: p.statistic)
QUICK = settings(deadline=None)
SETTINGS = settings(deadline=None, max_examples=60)


def cost_of(accountant: Accountant, part: Part) -> Fraction:
    """Return a part's cost by the formulas of the account's table."""
    if isinstance(part, LaplacePart):
        epsilon = part.sensitivity / part.scale
        one = {"gdp": mu_squared_of_pure(epsilon), "zcdp": epsilon**2 / 2, "pure": epsilon}[accountant.name]
        return part.copies * one
    loss = {"gdp": 9, "zcdp": 0}[accountant.name]
    worst = part.sensitivity_squared / (part.sigma**2 - loss)
    if part.sigma_offdiagonal is not None:
        worst = max(worst, part.sensitivity_squared / 2 / (part.sigma_offdiagonal**2 - loss))
    return part.copies * worst * (1 if accountant is GDP else Fraction(1, 2))


# --- costs ------------------------------------------------------------------------------------------------------------


def test_there_are_three_accountants_each_under_its_name() -> None:
    assert {name: a.symbol for name, a in ACCOUNTANTS.items()} == {"gdp": "µ²", "zcdp": "ρ", "pure": "ε"}


@SETTINGS
@given(PARTS, st.sampled_from(CURVED))
def test_a_cost_is_the_formulas_sum_rounded_up(parts: list[Part], accountant: Accountant) -> None:
    exact_cost = sum((cost_of(accountant, part) for part in parts), Fraction(0)) / MICRO
    assert accountant.cost(parts) == math.ceil(exact_cost)


@SETTINGS
@given(st.lists(LAPLACE_PARTS, max_size=4, unique_by=lambda p: p.statistic))
def test_a_cost_in_pure_epsilon_is_the_sum_rounded_up(parts: list[Part]) -> None:
    exact_cost = sum((cost_of(PURE, part) for part in parts), Fraction(0)) / MICRO
    assert PURE.cost(parts) == math.ceil(exact_cost)


@SETTINGS
@given(PARTS, st.integers(0, 4), st.sampled_from(CURVED))
def test_a_cost_together_is_at_most_one_unit_below_the_sum(parts: list[Part], at: int, accountant: Accountant) -> None:
    together, apart = accountant.cost(parts), accountant.cost(parts[:at]) + accountant.cost(parts[at:])
    assert together <= apart <= together + 1


@every_curved
def test_the_variance_asked_for_costs_what_was_offered(accountant: Accountant) -> None:
    offered = Fraction(7, 1000)
    variance = accountant.sigma_squared(Fraction(10**6), offered)
    loss = 9 if accountant is GDP else 0
    assert Fraction(10**6) / (variance - loss) * (1 if accountant is GDP else Fraction(1, 2)) == offered


def test_a_pure_account_sells_no_gaussian_noise() -> None:
    part = GaussianPart(Statistic.YTY, Fraction(16), 5)
    with pytest.raises(ValueError, match="pure epsilon"):
        PURE.gaussian(part)
    with pytest.raises(ValueError, match="pure epsilon"):
        PURE.cost([part])
    with pytest.raises(ValueError, match="pure epsilon"):
        PURE.sigma_squared(Fraction(1), Fraction(1))


@every_accountant
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 100.0])
def test_the_float_estimate_of_a_cost_is_close(accountant: Accountant, epsilon: float) -> None:
    assert accountant.float_laplace(epsilon) == pytest.approx(float(accountant.laplace(exact(epsilon))), rel=1e-9)


GRAM_PARTS = (
    GaussianPart(Statistic.XTX, Fraction(10**12), 2**20),
    GaussianPart(Statistic.XTY, Fraction(10**12), 2**20, copies=2),
    GaussianPart(Statistic.YTY, Fraction(10**11), 2**20, copies=2),
    GaussianPart(Statistic.LAMBDA_MIN, Fraction(10**12), 2**22),
)


@every_curved
def test_the_joint_bound_is_charged_where_it_is_given(accountant: Accountant) -> None:
    xtx, xty, yty, lambda_min = (cost_of(accountant, part) for part in GRAM_PARTS)
    joint = joint_cost(xtx, xty, yty, Fraction(9, 8)) + lambda_min
    assert accountant.cost(GRAM_PARTS, GramJointBound(Fraction(9, 8))) == math.ceil(joint / MICRO)
    assert accountant.cost(GRAM_PARTS, GramJointBound(Fraction(9, 8))) < accountant.cost(GRAM_PARTS)


@every_curved
@pytest.mark.parametrize("parts", [GRAM_PARTS[1:], GRAM_PARTS[:1], GRAM_PARTS[::3]], ids=["no xtx", "xtx", "no xty"])
def test_the_joint_bound_saves_nothing_without_both_of_its_parts(accountant: Accountant, parts: Sequence[Part]) -> None:
    assert accountant.cost(parts, GramJointBound(Fraction(1))) == accountant.cost(parts)


# --- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("accountant", "own"), [(GDP, "rho"), (ZCDP, "rho"), (PURE, "epsilon")])
def test_three_tenths_buy_exactly_three_times_a_tenth_in_the_accounts_unit(accountant: Accountant, own: str) -> None:
    for whole, third in ((0.3, 0.1), (0.15, 0.05), (0.6, 0.2), (3e-9, 1e-9)):
        assert accountant.units_of(Price(**{own: whole})) == 3 * accountant.units_of(Price(**{own: third}))


@every_curved
def test_three_tenths_of_epsilon_and_delta_buy_seven_times_a_tenth(accountant: Accountant) -> None:
    limit = accountant.units_of(Price(epsilon=0.3, delta=1e-6))
    assert limit // accountant.units_of(Price(epsilon=0.1, delta=1e-6)) == 7


# --- prices -----------------------------------------------------------------------------------------------------------


def test_the_notions_agree_under_gaussian_dp() -> None:
    assert GDP.units_of(Price(mu=0.5)) == GDP.units_of(Price(rho=0.125)) == 25 * 10**10


def test_each_account_reads_its_own_number_as_it_is_written() -> None:
    assert ZCDP.units_of(Price(rho=0.125)) == 125 * 10**9
    assert PURE.units_of(Price(epsilon=0.1)) == 10**11


def test_a_price_in_the_accounts_number_is_rounded_down() -> None:
    assert GDP.units_of(Price(mu=1.5e-6)) == 2
    assert GDP.units_of(Price(rho=1.26e-12)) == 2
    assert ZCDP.units_of(Price(rho=1.9e-12)) == 1
    assert PURE.units_of(Price(epsilon=1.9e-12)) == 1


def test_epsilon_and_delta_are_read_by_the_accounts_curve() -> None:
    one, millionth = Fraction(1), Fraction(1, 10**6)
    price = Price(epsilon=1.0, delta=1e-6)
    assert GDP.units_of(price) == units_of_epsilon_delta(GDP_CURVE, one, millionth) == 56_028_963_825
    assert ZCDP.units_of(price) == units_of_epsilon_delta(ZCDP_CURVE, one, millionth) == 24_355_970_359


@every_accountant
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 1000.0])
def test_epsilon_alone_is_what_an_epsilon_dp_mechanism_costs_rounded_down(
    accountant: Accountant, epsilon: float
) -> None:
    units = accountant.units_of(Price(epsilon=epsilon))
    assert units == math.floor(accountant.laplace(exact(epsilon)) / MICRO)


@every_accountant
def test_an_epsilon_alone_above_the_range_is_refused_with_the_range(accountant: Accountant) -> None:
    with pytest.raises(ValueError, match=f"at most {EPSILON_MAX}"):
        accountant.units_of(Price(epsilon=1000.1))


@every_curved
@pytest.mark.parametrize(("epsilon", "delta"), [(1000.1, 1e-6), (1.0, 1.0), (1.0, 9e-16)])
def test_epsilon_or_delta_out_of_range_is_refused(accountant: Accountant, epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        accountant.units_of(Price(epsilon=epsilon, delta=delta))


def test_a_notion_that_an_account_does_not_know_is_refused_with_what_it_does() -> None:
    with pytest.raises(ValueError, match="state rho, or epsilon with delta"):
        ZCDP.units_of(Price(mu=0.5))
    for price in (Price(mu=0.5), Price(rho=0.5), Price(epsilon=1.0, delta=1e-6)):
        with pytest.raises(ValueError, match="state epsilon alone"):
            PURE.units_of(price)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"delta": 1e-6},
        {"epsilon": 1.0, "mu": 1.0},
        {"delta": 1e-6, "rho": 1.0},
        {"epsilon": 1.0, "delta": 1e-6, "mu": 5.0},
        {"mu": 1.0, "rho": 1.0},
    ],
    ids=str,
)
def test_a_price_that_is_not_one_notion_is_refused_when_it_is_made(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a price is epsilon with delta"):
        Price(**wrong)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -1.0], ids=str)
@pytest.mark.parametrize("name", ["epsilon", "mu", "rho"])
def test_a_number_that_is_not_finite_and_positive_is_refused_when_it_is_made(name: str, bad: float) -> None:
    with pytest.raises(ValueError, match="finite, positive"):
        Price(**{name: bad})


@pytest.mark.parametrize(("epsilon", "delta"), [(math.nan, 1e-6), (-1.0, 1e-6), (1.0, 0.0), (1.0, math.nan)])
def test_both_numbers_of_a_pair_are_checked(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="finite, positive"):
        Price(epsilon=epsilon, delta=delta)


def test_epsilon_alone_is_a_pure_price() -> None:
    assert Price(epsilon=1.0).is_pure
    assert not any(p.is_pure for p in (Price(epsilon=1.0, delta=1e-6), Price(mu=1.0), Price(rho=1.0)))


# --- views ------------------------------------------------------------------------------------------------------------

UNITS = [1, 2, 999, 10**6, 56_028_963_825, 123_456_789_012, 10**14]


@every_curved
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-9), (3.0, 1e-5), (50.0, 1e-12)])
def test_what_a_price_buys_reads_as_that_price(accountant: Accountant, epsilon: float, delta: float) -> None:
    amount = accountant.spent(accountant.units_of(Price(epsilon=epsilon, delta=delta)), delta)
    assert amount.epsilon == epsilon
    assert amount.delta == delta


def test_an_amount_is_seen_in_every_notion_that_it_implies() -> None:
    gdp, zcdp, pure = (a.spent(25 * 10**10, 1e-6) for a in (GDP, ZCDP, PURE))
    assert (gdp.units, gdp.mu, gdp.rho) == (25 * 10**10, 0.5, 0.125)
    assert (zcdp.units, zcdp.mu, zcdp.rho) == (25 * 10**10, None, 0.25)
    assert (pure.units, pure.rho, pure.epsilon, pure.delta) == (25 * 10**10, 0.03125, 0.25, 0.0)
    assert pure.mu == pytest.approx(math.sqrt(mu_squared_of_pure(Fraction(1, 4))), rel=1e-15)


def test_an_amount_of_pure_epsilon_above_the_range_has_no_mu() -> None:
    assert PURE.spent(2000 * UNITS_PER_ONE, 1e-6).mu == math.inf
    assert PURE.spent(2000 * UNITS_PER_ONE, 1e-6).epsilon == 2000.0


@every_curved
@pytest.mark.parametrize("units", UNITS)
def test_the_epsilon_of_what_was_spent_never_flatters(accountant: Accountant, units: int) -> None:
    view = accountant.spent(units, 1e-6)
    if 0 < view.epsilon <= EPSILON_MAX:
        assert accountant.units_of(Price(epsilon=view.epsilon, delta=1e-6)) >= units


@every_accountant
@pytest.mark.parametrize("units", UNITS)
def test_each_view_of_what_remains_can_be_paid(accountant: Accountant, units: int) -> None:
    view = accountant.affordable(units, 1e-6)
    assert view.units == units
    prices = [Price(**{name: n}) for name in ("mu", "rho") if (n := getattr(view, name)) is not None]
    if 0 < view.epsilon <= EPSILON_MAX:
        prices.append(Price(view.epsilon, None if accountant is PURE else 1e-6))
    assert prices
    for price in prices:
        assert accountant.units_of(price) <= units


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 10**24), st.sampled_from(list(ACCOUNTANTS.values())))
@example(1, GDP)
@example(10**22 - 1, GDP)
@example(10**20 - 1, ZCDP)
def test_what_remains_in_the_accounts_number_can_be_paid(units: int, accountant: Accountant) -> None:
    if accountant is PURE:
        units = min(units, EPSILON_MAX * UNITS_PER_ONE)
        assert accountant.units_of(Price(epsilon=accountant.affordable(units, 1e-6).epsilon)) <= units
        return
    view = accountant.affordable(units, 1e-6)
    assert accountant.units_of(Price(rho=view.rho)) <= units
    if accountant is GDP:
        assert GDP.units_of(Price(mu=view.mu)) <= units


@pytest.mark.parametrize("number", [0.15, 0.05, 0.1, 0.3, 0.7, 123.456, 2e-12])
def test_what_remains_gives_back_a_short_decimal(number: float) -> None:
    for accountant in CURVED:
        assert accountant.affordable(accountant.units_of(Price(rho=number)), 1e-6).rho == number
    assert PURE.affordable(PURE.units_of(Price(epsilon=number)), 1e-6).epsilon == number


def test_half_a_unit_of_rho_is_a_whole_one_of_mu_squared() -> None:
    assert GDP.affordable(GDP.units_of(Price(rho=1.5e-12)), 1e-6).rho == 1.5e-12


@every_accountant
def test_nothing_left_affords_nothing_and_nothing_spent_implies_nothing(accountant: Accountant) -> None:
    for view in (accountant.affordable(0, 1e-6), accountant.spent(0, 1e-6)):
        assert {view.mu, view.rho, view.epsilon} <= {0.0, None}
