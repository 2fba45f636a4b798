"""Exact laws of what a source of randomness decides, and fast draws of many reports with the same law."""

from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from analyst_client.local import Reports
from analyst_client.local.mechanisms import Corners, Kary, Unary, Window
from analyst_client.local.questions import Question
from analyst_client.local.vectors import LInfinitySampler

T = TypeVar("T", bound=Hashable)
Below = Callable[[int], int]
Floats = npt.NDArray[np.float64]


def exact_law(draw: Callable[[Below], T]) -> dict[T, Fraction]:
    """Return the chance of each outcome: run through every sequence of numbers that the source may give."""
    found: dict[T, Fraction] = {}
    pending: list[list[int]] = [[]]
    while pending:
        script, chance, asked = pending.pop(), Fraction(1), 0

        def below(n: int, script: list[int] = script) -> int:
            nonlocal chance, asked
            assert type(n) is int
            assert n >= 1
            if n > 10**6:  # a token, whose value decides nothing
                return 0
            if asked == len(script):
                pending.extend([*script, other] for other in range(1, n))
                script.append(0)
            chance, asked = chance / n, asked + 1
            return script[asked - 1]

        outcome = draw(below)
        found[outcome] = found.get(outcome, Fraction(0)) + chance
    assert sum(found.values()) == 1
    return found


def largest_ratio(laws: list[dict[T, Fraction]]) -> Fraction:
    """Return the largest ratio of chances of one outcome between two laws; all must have the same outcomes."""
    outcomes = {*laws[0]}
    assert all({*law} == outcomes for law in laws)
    return max(max(law[one] for law in laws) / min(law[one] for law in laws) for one in outcomes)


def draw_reports(question: Question, codes: npt.NDArray[np.int64] | Floats, rng: np.random.Generator) -> Reports:
    """Draw many reports by the weights of the question's law, in floats.

    Codes are cells, or places on a lattice; of the ℓ∞ sampler vectors from −1 to 1, of shape (n, d).
    """
    n, law = len(codes), question.law
    answers: list[int | str]
    if isinstance(law, Kary):
        p = float(law.chances[0])
        others = (codes + rng.integers(1, law.size, n)) % law.size
        answers = np.where(rng.random(n) < p, codes, others).astype(int).tolist()
    elif isinstance(law, Unary):
        own, other = map(float, law.chances)
        chances = np.full((n, law.size), other)
        chances[np.arange(n), codes.astype(int)] = own
        answers = as_texts(rng.random(chances.shape) < chances)
    elif isinstance(law, Window):
        inside = rng.random(n) < float(law.odds * law.width / (law.odds * law.width + law.steps))
        within = codes + rng.integers(0, law.width, n)
        outside = rng.integers(0, law.steps, n)
        answers = np.where(inside, within, outside + law.width * (outside >= codes)).astype(int).tolist()
    else:
        assert isinstance(law, Corners)
        assert isinstance(question, LInfinitySampler)
        corners = rng.random(codes.shape) < (1.0 + codes) / 2.0
        weights = np.array([float(Fraction(one, sum(law.weights(law.near)))) for one in law.weights(law.near)])
        agreements = rng.choice(law.size + 1, size=n, p=weights / weights.sum())
        ranks = rng.random(codes.shape).argsort(axis=1).argsort(axis=1)
        answers = as_texts(corners == (ranks < agreements[:, np.newaxis]))
    return Reports(question, tuple(map(str, range(n))), tuple(answers))


def as_texts(bits: npt.NDArray[np.bool_]) -> list[int | str]:
    """Return rows of bits as texts."""
    text = (bits.astype(np.uint8) + ord("0")).tobytes().decode()
    size = bits.shape[1]
    return [text[at : at + size] for at in range(0, len(text), size)]
