"""Laws of reports: from a whole number that codes a record to an answer, by two weights A > B.

Every law draws one of finitely many answers with chance A/T or B/T, where T does not depend on the record; `Unary`
draws bits. The odds A/B are at most e^ε exactly (`odds_within`), so that no ratio of chances exceeds e^ε. Proofs stand
in docs/local.md.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, isqrt

from analyst_client.local.exact import Below, happens, pick, pick_places


@dataclass(frozen=True)
class Kary:
    """One of k answers: the true one has weight A, each other one B."""

    size: int
    odds: Fraction

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """Chance of an answer of a record that has it, and of one that has another."""
        total = self.odds + self.size - 1
        return self.odds / total, 1 / total

    def draw(self, code: int, below: Below) -> int:
        """Return an answer to a code from 0 to k − 1."""
        a, b = self.odds.as_integer_ratio()
        weights = (a if j == code else b for j in range(self.size))
        return pick(weights, a + (self.size - 1) * b, below)

    def reads(self, answer: object) -> bool:
        """Return whether this is an answer."""
        return type(answer) is int and 0 <= answer < self.size


@dataclass(frozen=True)
class Unary:
    """One bit for each of k answers: of the true one 1 in half of the cases, of another one in B of A + B."""

    size: int
    odds: Fraction

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """Chance of a bit being 1 of a record that has the answer, and of one that has another."""
        return Fraction(1, 2), 1 / (1 + self.odds)

    def draw(self, code: int, below: Below) -> str:
        """Return the bits of a code from 0 to k − 1."""
        own, other = self.chances
        return "".join("01"[happens(own if j == code else other, below)] for j in range(self.size))

    def reads(self, answer: object) -> bool:
        """Return whether this is an answer."""
        return is_bits(answer, self.size)


@dataclass(frozen=True)
class Window:
    """A whole number: those of a window that begins at the code have weight A, others of 0, …, `size` − 1 have B."""

    steps: int
    odds: Fraction

    @property
    def width(self) -> int:
        """Length of the window: its share of all answers is near the piecewise mechanism's, 1/(e^(ε/2) + 1)."""
        a, b = self.odds.as_integer_ratio()
        return max(isqrt(self.steps**2 * b // a), 1)

    @property
    def size(self) -> int:
        """Number of answers: the window fits at each code from 0 to `steps`."""
        return self.steps + self.width

    @property
    def total(self) -> int:
        """The sum of all weights."""
        a, b = self.odds.as_integer_ratio()
        return self.width * a + self.steps * b

    @property
    def line(self) -> tuple[Fraction, Fraction]:
        """Mean answer to code 0, and by how much the mean grows from a code to the next."""
        (a, b), w, m = self.odds.as_integer_ratio(), self.width, self.size
        return Fraction(b * m * (m - 1) + (a - b) * w * (w - 1), 2 * self.total), Fraction((a - b) * w, self.total)

    def draw(self, code: int, below: Below) -> int:
        """Return an answer to a code from 0 to `steps`."""
        a, b = self.odds.as_integer_ratio()
        part = pick((b * code, a * self.width, b * (self.steps - code)), self.total, below)
        start, length = ((0, code), (code, self.width), (code + self.width, self.steps - code))[part]
        return start + below(length)

    def reads(self, answer: object) -> bool:
        """Return whether this is an answer."""
        return type(answer) is int and 0 <= answer < self.size


@dataclass(frozen=True)
class Corners:
    """A corner of a cube: those that agree with the record's in `near` places or more have weight A, others B."""

    size: int
    odds: Fraction

    @cached_property
    def near(self) -> int:
        """The number of agreements from which a corner counts as near: the one with the least noise for these odds."""
        return max(range(1, self.size + 1), key=self._shrinkage)

    @property
    def shrinkage(self) -> Fraction:
        """The mean answer as a multiple of the record's corner, c: an answer over c is right on average."""
        return self._shrinkage(self.near)

    def weights(self, near: int) -> list[int]:
        """Return the weights of 0, …, d agreements: of all corners that have so many together."""
        a, b = self.odds.as_integer_ratio()
        return [comb(self.size, j) * (a if j >= near else b) for j in range(self.size + 1)]

    def _shrinkage(self, near: int) -> Fraction:
        weights, d = self.weights(near), self.size
        return Fraction(sum((2 * j - d) * weight for j, weight in enumerate(weights)), d * sum(weights))

    def draw(self, corner: Sequence[bool], below: Below) -> str:
        """Return an answer to a corner, both as bits: 1 is the upper side."""
        weights = self.weights(self.near)
        agree = set(pick_places(pick(weights, sum(weights), below), self.size, below))
        return "".join("01"[bit == (j in agree)] for j, bit in enumerate(corner))

    def reads(self, answer: object) -> bool:
        """Return whether this is an answer."""
        return is_bits(answer, self.size)


def is_bits(answer: object, size: int) -> bool:
    """Return whether this is so many bits, as text."""
    return isinstance(answer, str) and len(answer) == size and re.fullmatch("[01]*", answer) is not None
