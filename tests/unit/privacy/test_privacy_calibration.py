"""Conversions between (ε, δ), µ, ρ and the account's integers: each rounds in the direction that is safe."""

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curator_service.privacy import calibration
from curator_service.privacy.calibration import (
    DELTA_RESERVE,
    EPSILON_MAX,
    UNITS_PER_MU_SQUARED,
    affordable_epsilon,
    affordable_mu,
    affordable_rho,
    epsilon_of_units,
    exact,
    round_down,
    units_of_epsilon_delta,
    units_of_mu,
    units_of_rho,
)

MILLIONTH = Fraction(1, 10**6)
SLOW = settings(deadline=None, max_examples=60)
EPSILONS = st.floats(-3, 2).map(lambda p: exact(float(f"{10**p:.6g}")))
DELTAS = st.integers(2, 12).map(lambda k: Fraction(1, 10**k))
UNITS = st.floats(0, 15).map(lambda p: int(10**p))


def delta_of(epsilon: Fraction, units: int) -> mpmath.mpf:
    """Evaluate δ(ε; µ) through the error function, with 80 digits, apart from the code under test."""
    context = mpmath.MPContext()
    context.dps = 80
    e = context.mpf(epsilon.numerator) / epsilon.denominator
    mu = context.sqrt(context.mpf(units) / UNITS_PER_MU_SQUARED)
    root = context.sqrt(2)
    left = context.erfc((e / mu - mu / 2) / root) / 2
    right = context.exp(e) * context.erfc((e / mu + mu / 2) / root) / 2
    return left - right


def allowed(delta: Fraction) -> mpmath.mpf:
    kept = delta - Fraction(1, 2**60)
    context = mpmath.MPContext()
    context.dps = 80
    return context.mpf(kept.numerator) / kept.denominator


@SLOW
@given(EPSILONS, DELTAS)
@example(Fraction(1), MILLIONTH)
@example(Fraction(EPSILON_MAX), Fraction(1, 10**15))
@example(Fraction(1, 10**6), Fraction(1, 10**15))
@example(Fraction(1, 10**9), Fraction(999, 1000))
def test_a_price_is_the_largest_integer_within_epsilon_and_delta(epsilon: Fraction, delta: Fraction) -> None:
    units = units_of_epsilon_delta(epsilon, delta)
    assert units == 0 or delta_of(epsilon, units) <= allowed(delta)
    assert delta_of(epsilon, units + 1) > allowed(delta)


@SLOW
@given(UNITS, DELTAS)
@example(56_028_963_825, MILLIONTH)
@example(1, MILLIONTH)
def test_epsilon_of_an_amount_is_rounded_up_in_the_ninth_digit(units: int, delta: Fraction) -> None:
    epsilon = epsilon_of_units(units, delta)
    if epsilon in {0.0, float("inf")}:
        edge, inside = (Fraction(0), True) if epsilon == 0.0 else (Fraction(EPSILON_MAX), False)
        assert (delta_of(edge, units) <= allowed(delta)) is inside
        return
    assert delta_of(exact(epsilon), units) <= allowed(delta)
    assert delta_of(exact(epsilon) * (1 - Fraction(1, 10**8)), units) > allowed(delta)


@SLOW
@given(EPSILONS, DELTAS)
def test_a_price_that_is_spent_reads_as_its_own_epsilon(epsilon: Fraction, delta: Fraction) -> None:
    units = units_of_epsilon_delta(epsilon, delta)
    assert epsilon_of_units(units, delta) <= float(epsilon) * (1 + 1e-8)


def test_one_and_a_millionth_come_back_exactly() -> None:
    assert epsilon_of_units(units_of_epsilon_delta(Fraction(1), MILLIONTH), MILLIONTH) == 1.0
    assert affordable_epsilon(units_of_epsilon_delta(Fraction(1), MILLIONTH), MILLIONTH) == 1.0


@SLOW
@given(UNITS, DELTAS)
@example(1, MILLIONTH)
@example(10**15, Fraction(1, 10**12))
def test_an_affordable_epsilon_costs_at_most_the_amount(units: int, delta: Fraction) -> None:
    epsilon = affordable_epsilon(units, delta)
    if epsilon > 0:
        assert units_of_epsilon_delta(exact(epsilon), delta) <= units


@SLOW
@given(EPSILONS, DELTAS)
def test_an_affordable_epsilon_is_the_largest_of_nine_digits(epsilon: Fraction, delta: Fraction) -> None:
    units = units_of_epsilon_delta(epsilon, delta)
    if units > 10**6:
        assert affordable_epsilon(units, delta) >= float(epsilon) * (1 - 1e-8)


@given(st.integers(0, 10**24))
@example(1)
@example(10**22 - 1)
@example(10**20 - 1)
def test_an_affordable_mu_or_rho_costs_at_most_the_amount(units: int) -> None:
    assert units_of_mu(exact(affordable_mu(units))) <= units
    assert units_of_rho(exact(affordable_rho(units))) <= units


@pytest.mark.parametrize("rho", ["0.15", "0.05", "0.1", "0.3", "0.7", "1.5e-12"])
def test_an_affordable_rho_gives_back_a_short_decimal(rho: str) -> None:
    assert affordable_rho(units_of_rho(exact(rho))) == float(rho)


def test_nothing_affords_nothing() -> None:
    assert (affordable_mu(0), affordable_rho(0), affordable_epsilon(0, MILLIONTH)) == (0.0, 0.0, 0.0)


def test_a_delta_below_the_reserve_affords_no_epsilon() -> None:
    assert affordable_epsilon(1000, Fraction(1, 10**20)) == 0.0


def test_three_times_a_tenth_of_rho_is_three_tenths() -> None:
    assert units_of_rho(exact(0.15)) == 3 * units_of_rho(exact(0.05))
    assert units_of_rho(exact(0.3)) == 3 * units_of_rho(exact(0.1))


def test_a_float_is_read_as_the_decimal_that_was_written() -> None:
    assert exact(0.1) == Fraction(1, 10)
    assert exact(1e-6) == MILLIONTH
    assert exact("0.30") == Fraction(3, 10)


def test_a_numpy_float_is_read_like_a_python_float() -> None:
    assert exact(np.float64(0.1)) == Fraction(1, 10)


def test_mu_and_rho_are_rounded_down() -> None:
    assert units_of_mu(exact(0.5)) == 25 * 10**10
    assert units_of_mu(Fraction(1, 3)) == 111_111_111_111
    assert units_of_rho(Fraction(1, 3)) == 666_666_666_666


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, "1e-6"), (-1, "1e-6"), (1001, "1e-6"), (1, "0"), (1, "1"), (1, "9e-16")]
)
def test_epsilon_or_delta_out_of_range_is_refused(epsilon: int, delta: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        units_of_epsilon_delta(Fraction(epsilon), Fraction(delta))


def test_two_to_the_minus_sixty_of_delta_is_kept_back() -> None:
    assert Fraction(1, 2**60) == DELTA_RESERVE
    units = units_of_epsilon_delta(Fraction(1), Fraction(1, 10**15))
    kept = Fraction(1, 10**15) - DELTA_RESERVE
    assert delta_of(Fraction(1), units) <= float(kept) < delta_of(Fraction(1), units + 10**6)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**15))
def test_rounding_down_never_raises_a_number(value: Fraction) -> None:
    rounded = exact(round_down(value))
    assert value * (1 - Fraction(1, 10**11)) <= rounded <= value


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_search_finds_the_last_true_from_any_guess(last: int, guess: int) -> None:
    assert calibration._last_true(lambda k: k <= last, guess) == last


@pytest.mark.parametrize("guess", [-5, 0, 10**15])
def test_the_search_survives_a_bad_guess(guess: int) -> None:
    assert calibration._last_true(lambda k: k <= 123_456, guess) == 123_456


@pytest.mark.parametrize("factor", [0.5, 0.999, 1.001, 2.0])
def test_a_wrong_first_guess_does_not_change_a_price(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    right = units_of_epsilon_delta(Fraction(7, 10), MILLIONTH)
    guess = calibration._float_mu
    monkeypatch.setattr(calibration, "_float_mu", lambda e, d: factor * guess(e, d))
    assert units_of_epsilon_delta.__wrapped__(Fraction(7, 10), MILLIONTH) == right


def test_sixteen_threads_get_the_values_of_one() -> None:
    questions = [(Fraction(k, 37), Fraction(1, 10 ** (4 + k % 7))) for k in range(1, 33)]

    def answer(question: tuple[Fraction, Fraction]) -> tuple[int, float, float]:
        # Past the caches: every thread computes.
        units = units_of_epsilon_delta.__wrapped__(*question)
        delta = question[1]
        return units, epsilon_of_units.__wrapped__(units, delta), affordable_epsilon.__wrapped__(units, delta)

    serial = [answer(q) for q in questions]
    barrier = threading.Barrier(16)

    def worker(shift: int) -> list[tuple[int, float, float]]:
        barrier.wait()
        turned = questions[shift:] + questions[:shift]
        found = [answer(q) for q in turned]
        return found[len(found) - shift :] + found[: len(found) - shift]

    with ThreadPoolExecutor(16) as pool:
        assert all(found == serial for found in pool.map(worker, range(16)))
