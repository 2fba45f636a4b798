"""The audit's statistics: exact tests, confidence bounds, likelihood ratios, power."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.evidence import (
    LEVEL,
    Law,
    binomial_p_value,
    critical_count,
    epsilon_of_success,
    lower_bound,
    mu_of_success,
    power,
    success_bound_of_epsilon,
    success_bound_of_mu,
)


def tail(successes: int, trials: int, bound: Fraction) -> float:
    """Return P(X ≥ successes) as a sum of rationals."""
    chances = (math.comb(trials, k) * bound**k * (1 - bound) ** (trials - k) for k in range(successes, trials + 1))
    return float(sum(chances, Fraction(0)))


@given(st.integers(1, 60), st.data(), st.integers(1, 19))
def test_the_p_value_is_the_sum_of_the_binomial_tail(trials: int, data: st.DataObject, twentieths: int) -> None:
    successes, bound = data.draw(st.integers(0, trials)), Fraction(twentieths, 20)
    assert binomial_p_value(successes, trials, float(bound)) == pytest.approx(
        tail(successes, trials, bound), rel=1e-9, abs=1e-300
    )


@given(st.integers(1, 500), st.data())
def test_the_lower_bound_is_the_probability_at_which_the_tail_is_what_confidence_leaves(
    trials: int, data: st.DataObject
) -> None:
    successes = data.draw(st.integers(1, trials))
    bound = lower_bound(successes, trials, 0.99)
    assert bound <= successes / trials
    assert binomial_p_value(successes, trials, bound) == pytest.approx(0.01, rel=1e-6)


def test_no_success_bounds_nothing() -> None:
    assert lower_bound(0, 10) == 0.0
    assert binomial_p_value(0, 10, 0.3) == 1.0


def test_the_lower_bound_covers() -> None:
    generator, probability = np.random.default_rng(3), 0.7
    missed = sum(lower_bound(int(x), 200, 0.9) > probability for x in generator.binomial(200, probability, 2000))
    assert missed <= 250  # 200 are expected at most; 3.7 standard errors


@pytest.mark.parametrize(("trials", "bound"), [(3000, 0.6915), (100, 0.5), (19, 0.5), (1, 0.5)])
def test_the_critical_count_is_the_least_that_rejects(trials: int, bound: float) -> None:
    count = critical_count(trials, bound)
    assert binomial_p_value(count - 1, trials, bound) > LEVEL
    if count <= trials:
        assert binomial_p_value(count, trials, bound) <= LEVEL


def test_power_is_the_level_for_an_honest_service_and_near_one_for_half_of_the_noise() -> None:
    bound = success_bound_of_mu(1.0)
    assert power(3000, bound, bound) <= LEVEL
    assert power(3000, success_bound_of_mu(math.sqrt(2)), bound) > 0.999
    assert power(3000, success_bound_of_mu(2.0), bound) > 1 - 1e-12
    assert power(10, 1.0, bound) == 0.0  # ten right guesses prove nothing at this level


@given(st.floats(0.01, 8))
def test_bounds_on_guesses_are_inverted(number: float) -> None:
    assert mu_of_success(success_bound_of_mu(number)) == pytest.approx(number, rel=1e-6)
    assert epsilon_of_success(success_bound_of_epsilon(number)) == pytest.approx(number, rel=1e-6)


def test_a_guess_no_better_than_a_coin_shows_nothing() -> None:
    assert mu_of_success(0.5) == 0.0
    assert mu_of_success(0.0) == 0.0
    assert epsilon_of_success(0.3) == 0.0
    assert epsilon_of_success(0.0) == 0.0
    assert epsilon_of_success(1.0) == math.inf


@pytest.mark.parametrize("name", ["discrete_gaussian", "discrete_laplace"])
def test_the_likelihood_ratio_is_that_of_the_densities(name: str) -> None:
    law = Law(name, np.array([0.5, 2.0]))
    zero, one, answer = np.array([0.0, 1.0]), np.array([1.0, -1.0]), np.array([[0.3, 4.0], [0.0, 1.0]])

    def log_density(center: np.ndarray) -> np.ndarray:
        z = (answer - center) / law.sd
        return -np.sum(z**2 / 2 if law.is_gaussian else math.sqrt(2) * np.abs(z), axis=1)

    ratios = law.log_likelihood_ratio(answer, zero, one)
    assert ratios == pytest.approx(log_density(one) - log_density(zero))


def test_the_separation_of_gaussian_noise_is_mu() -> None:
    law = Law("discrete_gaussian", np.array([1.0, 2.0]))
    zero, one = np.zeros(2), np.array([0.6, 1.6])
    assert law.separation(zero, one) == pytest.approx(1.0)
    guesses = law.log_likelihood_ratio(one + law.sample(200_000, np.random.default_rng(5)), zero, one) > 0
    assert np.mean(guesses) == pytest.approx(success_bound_of_mu(1.0), abs=0.005)


def test_the_separation_of_laplace_noise_is_epsilon() -> None:
    law = Law("discrete_laplace", math.sqrt(2) * np.array([1.0, 2.0]))
    zero, one = np.zeros(2), np.array([0.6, 0.4])
    assert law.separation(zero, one) == pytest.approx(0.8)
    ratios = law.log_likelihood_ratio(one + law.sample(200_000, np.random.default_rng(5)), zero, one)
    assert np.max(np.abs(ratios)) <= 0.8 + 1e-9
    telling = np.abs(ratios) > 0.8 - 1e-9
    assert np.mean(ratios[telling] > 0) == pytest.approx(success_bound_of_epsilon(0.8), abs=0.01)
