"""Noise and price of threshold sessions: no two neighbours are told apart better than ε allows, and nearly as well."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from curator_service.privacy.accountant import ACCOUNTANTS, GDP, PURE, Price
from curator_service.privacy.calibration import PlanError
from curator_service.privacy.samplers import SCALE_MIN
from curator_service.privacy.thresholds import SessionNoise, plan_session

WIDTH = 700
"""Noise beyond it has a probability below 10⁻²⁴."""


def law(scale: float) -> np.ndarray:
    """Return the probabilities of discrete Laplace noise from −WIDTH to WIDTH."""
    if scale == 0:
        return (np.arange(-WIDTH, WIDTH + 1) == 0).astype(float)
    weights = np.exp(-np.abs(np.arange(-WIDTH, WIDTH + 1)) / scale)
    return weights / weights.sum()


def probability(
    numbers: Sequence[int], answers: Sequence[bool], threshold_scale: float, question_scale: float
) -> float:
    """Return how likely answers are about numbers that are compared with 0."""
    rho, nu = law(threshold_scale), law(question_scale)
    at = np.arange(-WIDTH, WIDTH + 1)
    of_each = np.ones(len(at))  # given each noise of the threshold
    upper = np.concatenate([np.cumsum(nu[::-1])[::-1], [0.0]])  # P(ν ≥ at)
    for number, is_positive in zip(numbers, answers, strict=True):
        needed = np.clip(at - number + WIDTH, 0, len(at))
        yes = upper[needed]
        of_each *= yes if is_positive else 1.0 - yes
    return float(rho @ of_each)


def told_apart(noise: SessionNoise, moves: Sequence[int], answers: Sequence[bool], **changed: float) -> float:
    """Return the largest log-ratio of a transcript's probabilities, over where the numbers lie."""
    scales = {"threshold_scale": noise.threshold_scale, "question_scale": noise.question_scale} | changed
    found = 0.0
    for low, high in itertools.product((-80, -40, -20, 0, 20, 40), repeat=2):
        numbers = [high if one else low for one in answers]
        moved = [number + move for number, move in zip(numbers, moves, strict=True)]
        one, other = (probability(at, answers, **scales) for at in (numbers, moved))
        if min(one, other) > 1e-12:
            found = max(found, abs(math.log(one / other)))
    return found


GENERAL = SessionNoise(1, 2, is_monotone=False, threshold_scale=4, question_scale=12)
MONOTONE = SessionNoise(1, 2, is_monotone=True, threshold_scale=4, question_scale=8)
ANSWERS = [False] * 12 + [True, False, True]
WORST = [1 if not one else -1 for one in ANSWERS]
"""A person who is added raises every number that is answered no, and lowers every other."""
RISING = [0 if one else 1 for one in ANSWERS]
"""The worst of those who raise numbers alone."""


@pytest.mark.parametrize("noise", [GENERAL, MONOTONE])
def test_no_transcript_tells_neighbours_apart_better_than_the_price(noise: SessionNoise) -> None:
    rng = np.random.default_rng(5)
    one_way = [RISING, [1 - move for move in RISING], [1] * len(ANSWERS), *rng.integers(0, 2, (6, len(ANSWERS)))]
    moves = [*one_way, *([-move for move in moves] for moves in one_way)]
    if not noise.is_monotone:
        moves += [WORST, [-move for move in WORST], *rng.integers(-1, 2, (6, len(ANSWERS)))]
    found = max(told_apart(noise, move, ANSWERS) for move in moves)
    assert found <= float(noise.epsilon) * (1 + 1e-9)
    assert found >= 0.9 * float(noise.epsilon)


@pytest.mark.parametrize(
    ("noise", "moves", "changed"),
    [
        (GENERAL, WORST, {"threshold_scale": 0}),
        (GENERAL, WORST, {"question_scale": 6}),
        (GENERAL, WORST, {"question_scale": 8}),
        (MONOTONE, WORST, {}),
        (MONOTONE, RISING, {"question_scale": 4}),
    ],
    ids=["no noise of the threshold", "not scaled by c", "as if monotone", "either way in a monotone one", "half"],
)
def test_known_mistakes_are_told(noise: SessionNoise, moves: list[int], changed: dict[str, float]) -> None:
    assert told_apart(noise, moves, ANSWERS, **changed) > float(noise.epsilon)


def test_an_answer_beyond_the_last_positive_one_is_told() -> None:
    answers = [*ANSWERS, True, True]
    moves = [1 if not one else -1 for one in answers]
    assert told_apart(GENERAL, moves, answers) > float(GENERAL.epsilon)


@pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=list(ACCOUNTANTS))
@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1.0, 5.0])
@pytest.mark.parametrize(("positives", "is_monotone"), [(1, True), (7, False), (1000, False)])
def test_a_session_costs_at_most_its_price_and_hardly_less(
    accountant: object, epsilon: float, positives: int, is_monotone: bool
) -> None:
    given = {"sensitivity": 3 * (2**17 - 1) ** 2, "positives": positives, "is_monotone": is_monotone}
    noise = plan_session(accountant, Price(epsilon=epsilon), **given)  # type: ignore[arg-type]
    assert noise.epsilon <= Fraction(epsilon).limit_denominator(10**6)
    most = accountant.units_of(Price(epsilon=epsilon))  # type: ignore[attr-defined]
    assert noise.cost(accountant) <= most  # type: ignore[arg-type]
    assert float(noise.epsilon) >= epsilon * (1 - 1e-4)
    of_threshold = Fraction(noise.sensitivity, noise.threshold_scale) / noise.epsilon
    weight = (1 if is_monotone else 2) * positives
    assert float(of_threshold) == pytest.approx(1 / (1 + weight ** (2 / 3)), rel=1e-3)


def test_a_cost_is_that_of_one_mechanism_and_not_of_two() -> None:
    """Two parts of a Gaussian account would cost less together than what holds of both noises at once."""
    noise = plan_session(GDP, Price(epsilon=1.0), sensitivity=10**10, positives=3, is_monotone=False)
    parts = [Fraction(noise.sensitivity, noise.threshold_scale)]
    parts.append(noise.epsilon - parts[0])
    assert noise.cost(GDP) > sum(float(GDP.laplace(part)) for part in parts) * 1e12


@pytest.mark.parametrize("price", [Price(mu=1.0), Price(rho=1.0), Price(epsilon=1.0, delta=1e-6), Price(epsilon=1e-9)])
def test_other_prices_are_refused(price: Price) -> None:
    with pytest.raises(PlanError) as caught:
        plan_session(PURE, price, sensitivity=2**34, positives=1, is_monotone=True)
    assert caught.value.field == "price"


def test_noise_is_fine_enough() -> None:
    with pytest.raises(PlanError, match="outside of what is drawn"):
        plan_session(PURE, Price(epsilon=1.0), sensitivity=SCALE_MIN // 8, positives=1, is_monotone=True)


def spread(noise: SessionNoise) -> float:
    """Return a number that is proportional to the standard deviation of ν − ρ."""
    return math.hypot(noise.threshold_scale, noise.question_scale)


@pytest.mark.parametrize(
    ("accountant", "positives", "is_monotone", "ratio"),
    [("gdp", 2, True, 1.04), ("gdp", 10, True, 1.5), ("gdp", 10, False, 1.84), ("zcdp", 10, True, 1.5),
     ("pure", 10, True, 0.474)],
)  # fmt: skip
def test_sessions_of_one_positive_answer_each_have_less_noise_where_charges_add_up_in_squares(
    accountant: str, positives: int, is_monotone: bool, ratio: float
) -> None:
    """As docs/privacy.md says: one after another, at ε/√c each, they cost no more; under `pure` it is ε/c."""
    of = ACCOUNTANTS[accountant]
    given = {"sensitivity": 10**10, "is_monotone": is_monotone}
    whole = plan_session(of, Price(epsilon=0.3), positives=positives, **given)  # type: ignore[arg-type]
    parts = positives if accountant == "pure" else math.sqrt(positives)
    one = plan_session(of, Price(epsilon=0.3 * (1 - 2e-3) / parts), positives=1, **given)  # type: ignore[arg-type]
    assert positives * one.cost(of) <= whole.cost(of)
    assert spread(whole) / spread(one) == pytest.approx(ratio, rel=0.01)
