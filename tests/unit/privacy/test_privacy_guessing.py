"""Chances of a guess: against the best tests there are, and never rounded down."""

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.privacy.accountant import GDP, PURE, ZCDP, Accountant
from curator_service.privacy.conversions import UNITS_PER_ONE
from curator_service.privacy.guessing import EVEN, best_guess, number_up, percent_up

PHI = NormalDist().cdf
PRIORS = [EVEN, Fraction(1, 3), Fraction(1, 10), Fraction(1, 1000)]


def units(number: float) -> int:
    return math.ceil(number * UNITS_PER_ONE)


def attack_gaussian(mu: float, prior: float) -> float:
    """Tell N(0, 1) from N(µ, 1) by the best threshold."""
    threshold = mu / 2 + math.log((1 - prior) / prior) / mu
    return prior * PHI(mu - threshold) + (1 - prior) * PHI(threshold)


@pytest.mark.parametrize("prior", PRIORS)
@given(mu=st.floats(1e-3, 8))
def test_under_gdp_the_best_test_of_two_gaussians_reaches_the_bound(prior: Fraction, mu: float) -> None:
    found, reached = float(best_guess([(GDP, units(mu**2))], prior)), attack_gaussian(mu, float(prior))
    assert reached - 1e-12 <= found <= reached + 1e-8
    if prior == EVEN:
        assert found == pytest.approx(PHI(mu / 2), abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
@given(epsilon=st.floats(1e-3, 30))
def test_under_pure_randomised_response_reaches_the_bound(prior: Fraction, epsilon: float) -> None:
    told = math.exp(epsilon) / (1 + math.exp(epsilon))
    p = float(prior)
    reached = max(told, 1 - p)  # believe the answer, or stay with the likelier story
    found = float(best_guess([(PURE, units(epsilon))], prior))
    assert reached - 1e-12 <= found <= reached + 1e-8
    assert prior != EVEN or found == pytest.approx(told, abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
@given(rho=st.floats(1e-6, 20))
def test_under_zcdp_the_bound_is_above_what_gaussians_reach(prior: Fraction, rho: float) -> None:
    assert float(best_guess([(ZCDP, units(rho))], prior)) >= attack_gaussian(math.sqrt(2 * rho), float(prior)) - 1e-12


def play_stopping(increments: Callable[[int], np.ndarray], steps: int, threshold: float) -> tuple[float, np.ndarray]:
    """Buy answers until they say enough; return how often the guess is right, and how many each run bought."""
    ratios = np.cumsum(np.stack([increments(200_000) for _ in range(steps)], axis=1), axis=1)
    enough = np.abs(ratios) >= threshold
    last = np.where(enough.any(axis=1), enough.argmax(axis=1), steps - 1)
    return float(np.mean(ratios[np.arange(len(ratios)), last] > 0)), last + 1


def test_who_stops_when_he_has_enough_beats_what_he_spent_and_not_the_limit() -> None:
    generator, steps, limit = np.random.default_rng(0), 8, 9.0
    mu = math.sqrt(limit / steps)
    right, bought = play_stopping(lambda n: mu * generator.normal(mu, 1, n) - mu**2 / 2, steps, threshold=2.5)
    allowed = {k: float(best_guess([(GDP, units(k * limit / steps))])) for k in range(1, steps + 1)}
    stated = float(np.mean([allowed[k] for k in bought.tolist()]))
    assert (right, stated) == (
        pytest.approx(0.925, abs=2e-3),
        pytest.approx(0.858, abs=1e-3),
    )  # docs/privacy.md states both
    assert right < allowed[steps] + 0.003


def test_under_pure_what_was_spent_bounds_every_run_whenever_it_ends() -> None:
    generator, steps, epsilon = np.random.default_rng(0), 8, 0.25
    told = math.exp(epsilon) / (1 + math.exp(epsilon))
    right, bought = play_stopping(lambda n: np.where(generator.random(n) < told, epsilon, -epsilon), steps, 0.7)
    allowed = {k: float(best_guess([(PURE, units(k * epsilon))])) for k in range(1, steps + 1)}
    assert right < float(np.mean([allowed[k] for k in bought.tolist()])) + 0.003


@given(st.floats(1e-3, 3), st.floats(1e-3, 3))
def test_populations_add_up_in_mu_squared(one: float, other: float) -> None:
    assert best_guess([(GDP, units(one)), (GDP, units(other))]) == best_guess([(GDP, units(one) + units(other))])
    mixed = float(best_guess([(GDP, units(one)), (PURE, units(other))]))
    # A Gaussian, and randomised response: each is tried alone.
    assert mixed >= max(PHI(math.sqrt(one) / 2), math.exp(other) / (1 + math.exp(other))) - 1e-12


@pytest.mark.parametrize("accountants", [(GDP, ZCDP), (PURE, ZCDP), (GDP, PURE, ZCDP), (PURE, PURE)])
def test_several_accounts_tell_no_less_than_each(accountants: tuple[Accountant, ...]) -> None:
    spent = [(accountant, units(0.05)) for accountant in accountants]
    assert all(best_guess(spent) >= best_guess([alone]) for alone in spent)
    assert best_guess([*spent, (GDP, 0)]) == best_guess(spent)


def test_of_several_epsilons_the_smaller_of_two_bounds_counts() -> None:
    assert float(best_guess([(PURE, units(0.01))] * 100)) < math.exp(1) / (1 + math.exp(1)) - 0.05
    # Odds of 1 to 9 that grow e²-fold at most stay below even: the likelier story is always the better guess.
    assert float(best_guess([(PURE, units(1.0))] * 2, Fraction(1, 10))) == pytest.approx(0.9, abs=1e-11)


@pytest.mark.parametrize("accountant", [GDP, ZCDP, PURE])
def test_nothing_spent_tells_nothing_and_everything_spent_tells_all(accountant: Accountant) -> None:
    assert [best_guess([(accountant, 0)], prior) for prior in PRIORS] == [1 - prior for prior in PRIORS]
    assert best_guess([]) == EVEN
    assert best_guess([(accountant, 10**18)]) == 1
    assert best_guess([(accountant, 1)]) > EVEN
    assert best_guess([(PURE, 2 * 10**15), (GDP, 1)]) == 1  # beyond the largest ε that has a µ


@pytest.mark.parametrize("prior", [Fraction(0), Fraction(51, 100), Fraction(-1, 2)])
def test_a_prior_is_of_the_rarer_story(prior: Fraction) -> None:
    with pytest.raises(ValueError, match="prior"):
        best_guess([], prior)


@given(st.fractions(0, 1), st.integers(0, 3))
def test_a_percentage_is_never_below_the_share(share: Fraction, places: int) -> None:
    written = percent_up(share, places)
    assert share * 100 <= Fraction(written) < share * 100 + Fraction(1, 10**places)
    assert len(written.partition(".")[2]) == places


@given(st.floats(1e-12, 1e12))
def test_a_number_is_never_written_below_itself(value: float) -> None:
    assert value <= float(number_up(value)) <= value * 1.002


def test_the_number_for_a_person_is_the_next_whole_one() -> None:
    assert percent_up(best_guess([(GDP, UNITS_PER_ONE)])) == "70"  # Φ(1/2) = 69.15%
    assert percent_up(Fraction(689, 1000)) == "69"
    assert percent_up(Fraction(690, 1000)) == "69"
