"""Games with few outcomes, each of which has an exact chance on either side: what is held against these chances.

The attacker's guesses are one test. How often each outcome comes is another one: noise that is narrower than stated, is
used twice or depends on what it must not depend on shows there long before it helps the attacker.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from audit import evidence
from audit.game import Test

Chances = dict[Hashable, tuple[float, float]]
"""The chance of each outcome about the dataset or record `zero`, and about `one`."""
Coins = npt.NDArray[np.integer[Any]]
Reckon = Callable[[float], Chances]
"""Chances under noise of so many times the stated scale."""

_FACTORS = (0.5, 2**-0.5)


def ratio(chances: tuple[float, float]) -> float:
    """Return the logarithm of the likelihood ratio of an outcome: above 0 where it speaks for `one`."""
    return math.log(chances[1] / chances[0])


def separation(chances: Chances) -> float:
    """Return how far the outcome that tells most tells the sides apart, in ε."""
    return max(abs(ratio(one)) for one in chances.values())


def judge(charged: float, reckon: Reckon, found: Sequence[Hashable], coins: Coins) -> Test:
    """Hold guesses against e^ε for what was charged.

    Guesses count after outcomes that tell enough. How much is enough is chosen beforehand, so that half of the noise is
    found best. After any such outcome a guess is right with at most the bound's probability.
    """
    stated, rounds = reckon(1.0), len(found)
    bound = evidence.success_bound_of_epsilon(charged)

    def guessed(least: float, factor: float) -> tuple[float, float]:
        """Return how often an outcome tells so much under noise of another scale, and a guess is right then."""
        telling = [(reckoned[factor][one], of > 0) for one, of in ratios.items() if abs(of) >= least]
        chance = sum(zero + one for (zero, one), _ in telling) / 2
        return chance, sum(chances[side] for chances, side in telling) / 2 / chance

    def excess(least: float) -> float:
        """Return how far half of the noise would lift right guesses above the bound, by the root of their number."""
        chance, right = guessed(least, 0.5)
        return math.sqrt(chance) * (right - bound)

    def power(factor: float) -> float:
        chance, right = guessed(least, factor)
        return max(evidence.power(round(rounds * chance), right, bound), power_of_chances(reckon, rounds, factor))

    reckoned = {factor: reckon(factor) for factor in _FACTORS}
    ratios = {one: ratio(chances) for one, chances in stated.items()}
    least = max((abs(of) * (1 - 1e-9) for of in ratios.values()), key=excess)
    told = ((ratios.get(one, 0.0), coin) for one, coin in zip(found, coins.tolist(), strict=True))
    guesses = [(of > 0) == coin for of, coin in told if abs(of) >= least]
    return Test(
        "epsilon",
        charged,
        len(guesses),
        sum(guesses),
        bound,
        evidence.binomial_p_value(sum(guesses), len(guesses), bound),
        evidence.epsilon_of_success(evidence.lower_bound(sum(guesses), len(guesses))),
        *map(power, _FACTORS),
    )


def check_chances(reckon: Reckon, found: Sequence[Hashable], coins: Coins) -> Iterator[str]:
    """Check that each outcome comes as often as its chance on either side says."""
    stated = reckon(1.0)
    if not {*found} <= {*stated}:
        yield "an outcome that should not be"
        return
    events, level = _events(reckon)
    for event in events:
        for side in (0, 1):
            of_side = [one in event for one, coin in zip(found, coins.tolist(), strict=True) if coin == side]
            count, trials, chance = sum(of_side), len(of_side), sum(stated[one][side] for one in event)
            often = evidence.binomial_p_value(count, trials, chance)
            if min(often, evidence.binomial_p_value(trials - count, trials, 1 - chance)) <= level:
                yield "outcomes do not come as often as the stated noise makes them"
                return


def power_of_chances(reckon: Reckon, rounds: int, factor: float) -> float:
    """Return the chance that the frequency of the event that shows it best tells noise of another scale."""
    stated, other, (events, level) = reckon(1.0), reckon(factor), _events(reckon)
    best = 0.0
    for event in events:
        for side in (0, 1):
            was, is_now = (sum(chances[one][side] for one in event) for chances in (stated, other))
            best = max(
                best,
                evidence.power(rounds // 2, is_now, was, level),
                evidence.power(rounds // 2, 1 - is_now, 1 - was, level),
            )
    return best


def _events(reckon: Reckon) -> tuple[list[set[Hashable]], float]:
    """Return what is counted: each outcome, and those that narrower noise makes likelier; and the level of each test.

    An honest service fails any of them once in a million runs, at most.
    """
    stated, narrow = reckon(1.0), reckon(2**-0.5)
    likelier = ({one for one in stated if narrow[one][side] > stated[one][side]} for side in (0, 1))
    events = [*({one} for one in stated), *likelier]
    return events, evidence.LEVEL / (4 * len(events))
