"""The guessing game on local privacy: a person reports one of two records, and the reader guesses which.

The laws of reports are those of docs/local.md in float64; they share no code with the client.
"""

import math
import secrets
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from analyst_client.local import (
    GradientSampler,
    LInfinitySampler,
    MomentSampler,
    PiecewiseMechanism,
    Question,
    RandomizedResponse,
    UnaryEncoding,
)
from audit.chances import Chances, check_chances, judge, separation
from audit.game import SHARP, Outcome

Law = Callable[[float], dict[Hashable, float]]
"""Of e^ε: the chance of each answer."""

_ODDS = math.e
"""Of every question here, whose ε is 1: laws have the shape that these odds give, also where noise is reckoned less."""

ROUNDS = 4
"""Reports for each release of a cell."""


@dataclass(frozen=True, slots=True)
class Local:
    """A question, two records that are far apart, and the laws of their answers."""

    question: Question
    records: tuple[Any, Any]
    laws: tuple[Law, Law]

    def reckon(self, factor: float) -> Chances:
        """Return the chances of answers under so many times the noise of ε: of ε over that."""
        zero, one = (law(math.exp(float(self.question.cost) / factor)) for law in self.laws)
        return {answer: (zero[answer], one[answer]) for answer in zero}


def play_local(name: str, game: Local, rounds: int) -> Outcome:
    """Play a game."""
    coins = np.frombuffer(secrets.token_bytes(ROUNDS * rounds), dtype=np.uint8) & 1
    reports = [game.question.report(game.records[coin]) for coin in coins.tolist()]
    answers, charged = [one["answer"] for one in reports], float(game.question.cost)
    breaches, moved = [*check_chances(game.reckon, answers, coins)], separation(game.reckon(1.0))
    if moved < SHARP * charged:
        breaches.append("the records are not the worst ones: no answer tells 95 % of what it costs")
    if any({*one} != {"answer", "question", "token"} for one in reports):
        breaches.append("a report says more than its answer")
    if len({one["token"] for one in reports}) < len(reports):
        breaches.append("a token came twice")
    return Outcome(name, moved, charged, (judge(charged, game.reckon, answers, coins),), tuple(breaches))


def _kary(size: int, cell: int) -> Law:
    return lambda odds: _shares({answer: odds if answer == cell else 1.0 for answer in range(size)})


def _unary(size: int, cell: int) -> Law:
    def law(odds: float) -> dict[Hashable, float]:
        ones = [0.5 if place == cell else 1 / (1 + odds) for place in range(size)]
        return {
            "".join(bits): math.prod(one if bit == "1" else 1 - one for bit, one in zip(bits, ones, strict=True))
            for bits in product("01", repeat=size)
        }

    return law


def _window(steps: int, place: int) -> Law:
    def law(odds: float) -> dict[Hashable, float]:
        width = max(1, int(steps / math.sqrt(_ODDS)))
        return _shares({s: odds if place <= s < place + width else 1.0 for s in range(steps + width)})

    return law


def _corner(corner: str) -> Law:
    """Return the law about a corner, as bits: near corners are those for which answers shrink least."""
    size = len(corner)

    def weights(odds: float, near: int) -> list[float]:
        return [odds if agreements >= near else 1.0 for agreements in range(size + 1)]

    def shrinkage(near: int) -> float:
        counts = [math.comb(size, j) * weight for j, weight in enumerate(weights(_ODDS, near))]
        return sum((2 * j - size) * count for j, count in enumerate(counts)) / sum(counts)

    near = max(range(1, size + 1), key=shrinkage)

    def law(odds: float) -> dict[Hashable, float]:
        answers = ("".join(bits) for bits in product("01", repeat=size))
        of_each = weights(odds, near)
        return _shares({z: of_each[sum(a == b for a, b in zip(z, corner, strict=True))] for z in answers})

    return law


def _shares(weights: dict[Any, float]) -> dict[Hashable, float]:
    total = sum(weights.values())
    return {answer: weight / total for answer, weight in weights.items()}


def _numbers(size: int) -> dict[str, tuple[int, int]]:
    return dict.fromkeys("abc"[:size], (-1, 1))


_LEVELS = {"g": ["p", "q", "r", "s"]}
_XY = {"x": (-1, 1), "y": (-1, 1)}
_HIGH, _LOW = {"x": 1, "y": 1}, {"x": 1, "y": -1}
LOCAL = {
    "a report, randomised response": Local(
        RandomizedResponse(_LEVELS, epsilon=1), ("p", "q"), (_kary(4, 0), _kary(4, 1))
    ),
    "a report, unary encoding": Local(UnaryEncoding(_LEVELS, epsilon=1), ("p", "q"), (_unary(4, 0), _unary(4, 1))),
    "a report, piecewise mechanism": Local(
        PiecewiseMechanism({"a": (0, 9)}, steps=8, epsilon=1), (-3, 99), (_window(8, 0), _window(8, 8))
    ),
    "a report, one number": Local(LInfinitySampler(_numbers(1), epsilon=1), (-1, 1), (_corner("0"), _corner("1"))),
    # Of two numbers a corner that agrees in one place with one record may agree in none with the other.
    "a report, two numbers": Local(
        LInfinitySampler(_numbers(2), epsilon=1), ({"a": 1, "b": 1}, {"a": 1, "b": -1}), (_corner("11"), _corner("10"))
    ),
    "a report, three numbers": Local(
        LInfinitySampler(_numbers(3), epsilon=1),
        (dict.fromkeys("abc", -1), dict.fromkeys("abc", 1)),
        (_corner("000"), _corner("111")),
    ),
    # x, y, 2x² − 1 and xy.
    "a report, moments": Local(MomentSampler(_XY, "y", epsilon=1), (_LOW, _HIGH), (_corner("1010"), _corner("1111"))),
    # The residual of 0 times 1 and x.
    "a report, a gradient": Local(
        GradientSampler(_XY, "y", coefficients=[0, 0], epsilon=1), (_LOW, _HIGH), (_corner("11"), _corner("00"))
    ),
}
"""Games by name."""
