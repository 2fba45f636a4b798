"""Conversions between ε, (ε, δ), µ, ρ and an account's integers: each rounds in the direction that is safe."""

import itertools
import math
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curator_service.privacy import conversions
from curator_service.privacy.conversions import (
    DELTA_MIN,
    EPSILON_MAX,
    GDP_CURVE,
    UNITS_PER_ONE,
    ZCDP_CURVE,
    Curve,
    affordable_epsilon,
    epsilon_of_units,
    exact,
    float_mu_squared_of_pure,
    largest_below,
    mu_squared_of_pure,
    root_down,
    round_down,
    units_down,
    units_of_epsilon_delta,
    units_up,
)

MILLIONTH = Fraction(1, 10**6)
QUICK = settings(deadline=None)
SLOW = settings(deadline=None, max_examples=40)
CURVES = st.sampled_from([GDP_CURVE, ZCDP_CURVE])
EPSILONS = st.floats(-3, 2).map(lambda p: exact(float(f"{10**p:.6g}")))
DELTAS = st.floats(-12, -2).map(lambda p: exact(float(f"{10**p:.3g}")))
UNITS = st.floats(0, 15).map(lambda p: int(10**p))
EPSILON_GRID = [exact(e) for e in (1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)]
DELTA_GRID = [exact(d) for d in (1e-12, 1e-9, 1e-6, 1e-4, 1e-2)]

both_curves = pytest.mark.parametrize("curve", [GDP_CURVE, ZCDP_CURVE], ids=lambda c: c.name)

precise = mpmath.MPContext()
precise.dps = 80


def number(value: Fraction) -> mpmath.mpf:
    return precise.mpf(value.numerator) / value.denominator


def gdp_delta_of(epsilon: mpmath.mpf, mu_squared: mpmath.mpf) -> mpmath.mpf:
    mu, root = precise.sqrt(mu_squared), precise.sqrt(2)
    left = precise.erfc((epsilon / mu - mu / 2) / root) / 2
    return left - precise.exp(epsilon) * precise.erfc((epsilon / mu + mu / 2) / root) / 2


def zcdp_delta_of(epsilon: mpmath.mpf, rho: mpmath.mpf) -> mpmath.mpf:
    """Search for the least value over α by golden section: no derivative, and no first guess."""

    def log_bound(log_beyond: mpmath.mpf) -> mpmath.mpf:
        alpha = 1 + precise.exp(log_beyond)
        power = (alpha - 1) * (alpha * rho - epsilon) + alpha * precise.log(1 - 1 / alpha)
        return power - precise.log(alpha - 1)

    shrink = (precise.sqrt(5) - 1) / 2
    low, high = precise.mpf(-30), precise.mpf(60)
    left, right = high - shrink * (high - low), low + shrink * (high - low)
    at_left, at_right = log_bound(left), log_bound(right)
    for _ in range(110):  # down to 1e-21, so that the value is off by about its square
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - shrink * (high - low)
            at_left = log_bound(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + shrink * (high - low)
            at_right = log_bound(right)
    return precise.exp(min(at_left, at_right))


@lru_cache(maxsize=4096)
def delta_of(curve: Curve, epsilon: Fraction, units: int) -> mpmath.mpf:
    """Evaluate δ with 80 digits, apart from the code under test."""
    function = gdp_delta_of if curve is GDP_CURVE else zcdp_delta_of
    return function(number(epsilon), number(Fraction(units, UNITS_PER_ONE)))


def allowed(curve: Curve, delta: Fraction) -> mpmath.mpf:
    return number(delta - Fraction(1, 2**60) if curve is GDP_CURVE else delta)


def is_within(curve: Curve, epsilon: Fraction, units: int, delta: Fraction) -> bool:
    return units <= 0 or bool(delta_of(curve, epsilon, units) <= allowed(curve, delta))


# --- a price becomes units --------------------------------------------------------------------------------------------


@both_curves
@pytest.mark.parametrize("delta", DELTA_GRID, ids=float)
@pytest.mark.parametrize("epsilon", EPSILON_GRID, ids=float)
def test_a_price_is_the_largest_integer_on_a_grid(curve: Curve, epsilon: Fraction, delta: Fraction) -> None:
    units = units_of_epsilon_delta(curve, epsilon, delta)
    assert units > 0
    assert is_within(curve, epsilon, units, delta)
    assert not is_within(curve, epsilon, units + 1, delta)


@SLOW
@given(CURVES, EPSILONS, DELTAS)
@example(GDP_CURVE, Fraction(1), MILLIONTH)
@example(ZCDP_CURVE, Fraction(1), MILLIONTH)
@example(GDP_CURVE, Fraction(EPSILON_MAX), DELTA_MIN)
@example(ZCDP_CURVE, Fraction(EPSILON_MAX), DELTA_MIN)
@example(GDP_CURVE, Fraction(1, 10**6), DELTA_MIN)
@example(ZCDP_CURVE, Fraction(1, 10**6), DELTA_MIN)
@example(GDP_CURVE, Fraction(1, 10**9), Fraction(999, 1000))
@example(ZCDP_CURVE, Fraction(1, 10**9), Fraction(999, 1000))
def test_a_price_is_the_largest_integer_within_epsilon_and_delta(
    curve: Curve, epsilon: Fraction, delta: Fraction
) -> None:
    units = units_of_epsilon_delta(curve, epsilon, delta)
    assert is_within(curve, epsilon, units, delta)
    assert not is_within(curve, epsilon, units + 1, delta)


@both_curves
def test_a_price_grows_with_epsilon_and_with_delta(curve: Curve) -> None:
    table = [[units_of_epsilon_delta(curve, e, d) for d in DELTA_GRID] for e in EPSILON_GRID]
    for line in (*table, *zip(*table, strict=True)):
        assert all(less < more for less, more in itertools.pairwise(line))


@both_curves
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, "1e-6"), (-1, "1e-6"), (1001, "1e-6"), (1, "0"), (1, "1"), (1, "9e-16")]
)
def test_epsilon_or_delta_out_of_range_is_refused(curve: Curve, epsilon: int, delta: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        units_of_epsilon_delta(curve, Fraction(epsilon), Fraction(delta))


def test_two_to_the_minus_sixty_of_delta_is_kept_back_under_gaussian_dp_alone() -> None:
    assert GDP_CURVE.reserve == Fraction(1, 2**60)
    assert ZCDP_CURVE.reserve == 0
    units = units_of_epsilon_delta(GDP_CURVE, Fraction(1), DELTA_MIN)
    assert delta_of(GDP_CURVE, Fraction(1), units) <= number(DELTA_MIN - Fraction(1, 2**60))
    without = replace(GDP_CURVE, reserve=Fraction(0))
    assert units_of_epsilon_delta(without, Fraction(1), DELTA_MIN) > units


@pytest.mark.parametrize("factor", [0.5, 0.999, 1.001, 2.0])
@both_curves
def test_a_wrong_first_guess_does_not_change_a_price(
    monkeypatch: pytest.MonkeyPatch, curve: Curve, factor: float
) -> None:
    right = units_of_epsilon_delta(curve, Fraction(7, 10), MILLIONTH)
    guess = conversions._float_number
    monkeypatch.setattr(conversions, "_float_number", lambda c, e, d: factor * guess(c, e, d))
    assert units_of_epsilon_delta.__wrapped__(curve, Fraction(7, 10), MILLIONTH) == right


# --- units read as ε --------------------------------------------------------------------------------------------------


@SLOW
@given(CURVES, UNITS, DELTAS)
@example(GDP_CURVE, 56_028_963_825, MILLIONTH)
@example(ZCDP_CURVE, 24_355_970_359, MILLIONTH)
@example(GDP_CURVE, 1, MILLIONTH)
@example(ZCDP_CURVE, 1, MILLIONTH)
@example(GDP_CURVE, 10**15, MILLIONTH)
@example(ZCDP_CURVE, 10**15, MILLIONTH)
def test_epsilon_of_an_amount_is_rounded_up_in_the_ninth_digit(curve: Curve, units: int, delta: Fraction) -> None:
    epsilon = epsilon_of_units(curve, units, delta)
    if epsilon in {0.0, math.inf}:
        edge, inside = (Fraction(0), True) if epsilon == 0.0 else (Fraction(EPSILON_MAX), False)
        assert is_within(curve, edge, units, delta) is inside
        return
    assert is_within(curve, exact(epsilon), units, delta)
    assert not is_within(curve, exact(epsilon) * (1 - Fraction(1, 10**8)), units, delta)


@both_curves
@pytest.mark.parametrize("delta", DELTA_GRID, ids=float)
@pytest.mark.parametrize("epsilon", EPSILON_GRID, ids=float)
def test_epsilon_of_a_price_inverts_it(curve: Curve, epsilon: Fraction, delta: Fraction) -> None:
    # One unit is the grain: at the smallest prices it is worth 1/units of the price.
    units = units_of_epsilon_delta(curve, epsilon, delta)
    grain = 2 / units + 1e-8
    assert float(epsilon) * (1 - 50 * grain) <= epsilon_of_units(curve, units, delta) <= float(epsilon) * (1 + 1e-8)


@SLOW
@given(CURVES, EPSILONS, DELTAS)
def test_a_price_that_is_spent_reads_as_its_own_epsilon(curve: Curve, epsilon: Fraction, delta: Fraction) -> None:
    units = units_of_epsilon_delta(curve, epsilon, delta)
    assert epsilon_of_units(curve, units, delta) <= float(epsilon) * (1 + 1e-8)


@both_curves
def test_one_and_a_millionth_come_back_exactly(curve: Curve) -> None:
    units = units_of_epsilon_delta(curve, Fraction(1), MILLIONTH)
    assert epsilon_of_units(curve, units, MILLIONTH) == 1.0
    assert affordable_epsilon(curve, units, MILLIONTH) == 1.0


@both_curves
def test_epsilon_of_an_amount_grows_with_it_and_falls_with_delta(curve: Curve) -> None:
    table = [[epsilon_of_units(curve, 10**k, d) for d in DELTA_GRID] for k in range(2, 15)]
    for line in table:
        assert all(more >= less for more, less in itertools.pairwise(line))
    for column in zip(*table, strict=True):
        assert all(less < more or less == more == 0.0 for less, more in itertools.pairwise(column))


@both_curves
def test_nothing_spent_reads_as_nothing(curve: Curve) -> None:
    assert epsilon_of_units(curve, 0, MILLIONTH) == 0.0


@both_curves
def test_an_amount_reads_as_boundless_where_no_epsilon_in_range_covers_it(curve: Curve) -> None:
    assert epsilon_of_units(curve, 10**18, MILLIONTH) == math.inf
    assert epsilon_of_units(curve, 1000, DELTA_MIN / 2) == math.inf


# --- units that are left ----------------------------------------------------------------------------------------------


@SLOW
@given(CURVES, UNITS, DELTAS)
@example(GDP_CURVE, 1, MILLIONTH)
@example(ZCDP_CURVE, 1, MILLIONTH)
@example(GDP_CURVE, 10**15, Fraction(1, 10**12))
@example(ZCDP_CURVE, 10**15, Fraction(1, 10**12))
def test_an_affordable_epsilon_costs_at_most_the_amount(curve: Curve, units: int, delta: Fraction) -> None:
    epsilon = affordable_epsilon(curve, units, delta)
    if epsilon > 0:
        assert units_of_epsilon_delta(curve, exact(epsilon), delta) <= units


@SLOW
@given(CURVES, EPSILONS, DELTAS)
def test_an_affordable_epsilon_is_the_largest_of_nine_digits(curve: Curve, epsilon: Fraction, delta: Fraction) -> None:
    units = units_of_epsilon_delta(curve, epsilon, delta)
    if units > 10**6:
        assert affordable_epsilon(curve, units, delta) >= float(epsilon) * (1 - 1e-8)


@both_curves
def test_nothing_affords_nothing(curve: Curve) -> None:
    assert affordable_epsilon(curve, 0, MILLIONTH) == 0.0
    assert affordable_epsilon(curve, -1, MILLIONTH) == 0.0


@both_curves
def test_a_delta_below_the_least_affords_no_epsilon(curve: Curve) -> None:
    assert affordable_epsilon(curve, 1000, Fraction(1, 10**20)) == 0.0


@both_curves
def test_an_affordable_epsilon_stays_within_the_range_of_prices(curve: Curve) -> None:
    assert affordable_epsilon(curve, 10**18, MILLIONTH) == EPSILON_MAX


# --- pure ε under Gaussian DP -----------------------------------------------------------------------------------------


def excess_at_the_corner(mu_squared: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """Return by how much the Gaussian error exceeds that of randomised response at its corner."""
    error = precise.erfc(precise.sqrt(number(mu_squared)) / 2 / precise.sqrt(2)) / 2
    return error - 1 / (1 + precise.exp(number(epsilon)))


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 0.1, 0.7, 1.0, 3.0, 10.0, 40.0, 200.0, 1000.0])
def test_mu_of_pure_epsilon_is_the_least_that_covers_randomised_response(epsilon: float) -> None:
    mu_squared = mu_squared_of_pure(exact(epsilon))
    assert excess_at_the_corner(mu_squared, exact(epsilon)) <= 0
    assert excess_at_the_corner(mu_squared - Fraction(1, 10**18), exact(epsilon)) > 0


def test_the_mu_of_no_epsilon_is_none() -> None:
    assert mu_squared_of_pure(Fraction(0)) == 0


@pytest.mark.parametrize("epsilon", [-1, 1001])
def test_a_pure_epsilon_out_of_range_is_refused(epsilon: int) -> None:
    with pytest.raises(ValueError, match="epsilon must"):
        mu_squared_of_pure(Fraction(epsilon))


@SLOW
@given(st.lists(st.floats(-5, 2).map(lambda p: exact(10**p)), min_size=2, max_size=6))
@example([Fraction(1, 10**5)] * 2)
@example([Fraction(1, 3)] * 3)
@example([Fraction(50)] * 6)
def test_parts_of_epsilon_cost_at_most_the_whole(parts: list[Fraction]) -> None:
    assert sum(map(mu_squared_of_pure, parts)) <= mu_squared_of_pure(sum(parts, Fraction(0)))


def test_parts_of_epsilon_cost_at_most_the_whole_on_a_grid() -> None:
    for whole in (Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(7), Fraction(60), Fraction(900)):
        for k in range(1, 20):
            part = whole * k / 20
            assert mu_squared_of_pure(part) + mu_squared_of_pure(whole - part) <= mu_squared_of_pure(whole)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 100.0, 1000.0])
def test_the_float_estimate_of_a_pure_epsilon_is_close(epsilon: float) -> None:
    assert float_mu_squared_of_pure(epsilon) == pytest.approx(float(mu_squared_of_pure(exact(epsilon))), rel=1e-9)


# --- rounding ---------------------------------------------------------------------------------------------------------


def test_a_float_is_read_as_the_decimal_that_was_written() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert exact(1e-6) == MILLIONTH
    assert exact("0.30") == Fraction(3, 10)


def test_a_numpy_float_is_read_like_a_python_float() -> None:
    assert exact(np.float64(0.1)) == Fraction(1, 10)


@QUICK
@given(st.fractions(min_value=0, max_value=10**6))
def test_units_are_rounded_down_for_a_price_and_up_for_a_cost(value: Fraction) -> None:
    down, up = units_down(value), units_up(value)
    assert Fraction(down, UNITS_PER_ONE) <= value <= Fraction(up, UNITS_PER_ONE)
    assert up - down == (0 if (value * UNITS_PER_ONE).denominator == 1 else 1)


@QUICK
@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**15))
def test_rounding_down_never_raises_a_number(value: Fraction) -> None:
    rounded = exact(round_down(value))
    assert value * (1 - Fraction(1, 10**11)) <= rounded <= value


@QUICK
@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**15))
@example(Fraction(10**22 - 1, 10**12))
@example(Fraction(10**20 - 1, 10**12))
@example(Fraction(1, 10**12))
def test_a_root_is_rounded_down_in_the_twelfth_digit(square: Fraction) -> None:
    root = exact(root_down(square))  # one digit fewer just below a power of ten
    assert root**2 <= square < (root * (1 + Fraction(2, 10**11))) ** 2


@pytest.mark.parametrize("value", [0, -1])
def test_nothing_is_rounded_to_nothing(value: int) -> None:
    assert round_down(Fraction(value)) == 0.0


def test_the_root_of_nothing_is_nothing() -> None:
    assert root_down(Fraction(0)) == 0.0


@QUICK
@given(st.floats(-9, 2).map(lambda p: 10**p))
def test_the_largest_float_below_a_bound_is_found(answer: float) -> None:
    assert largest_below(lambda e: e**2, answer**2) == pytest.approx(answer, rel=1e-12)


@QUICK
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_search_finds_the_last_true_from_any_guess(last: int, guess: int) -> None:
    assert conversions._last_true(lambda k: k <= last, guess) == last


@pytest.mark.parametrize("guess", [-5, 0, 10**15])
def test_the_search_survives_a_bad_guess(guess: int) -> None:
    assert conversions._last_true(lambda k: k <= 123_456, guess) == 123_456


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def _hurried_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@both_curves
@pytest.mark.usefixtures("_hurried_threads")
def test_sixteen_threads_get_the_values_of_one(curve: Curve) -> None:
    questions = [(Fraction(k, 37), Fraction(1, 10 ** (4 + k % 7))) for k in range(1, 17)]

    def answer(inputs: tuple[Fraction, Fraction]) -> tuple[int, float, float, Fraction]:
        # Past the caches: every thread computes.
        epsilon, delta = inputs
        units = units_of_epsilon_delta.__wrapped__(curve, epsilon, delta)
        return (
            units,
            epsilon_of_units.__wrapped__(curve, units, delta),
            affordable_epsilon.__wrapped__(curve, units, delta),
            mu_squared_of_pure.__wrapped__(epsilon),
        )

    serial = [answer(q) for q in questions]
    barrier = threading.Barrier(16)

    def worker(shift: int) -> list[tuple[int, float, float, Fraction]]:
        barrier.wait()
        turned = questions[shift:] + questions[:shift]
        found = [answer(q) for q in turned]
        return found[len(found) - shift :] + found[: len(found) - shift]

    with ThreadPoolExecutor(16) as pool:
        assert all(found == serial for found in pool.map(worker, range(16)))
    # A function of mpmath changes the precision while it runs: two at once would leave it changed.
    assert conversions._context.dps == 60
