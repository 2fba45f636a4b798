"""Questions about numbers: one by the piecewise mechanism, vectors by the ℓ∞ sampler; products and gradients, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from math import prod
from typing import ClassVar

from analyst_client.local.exact import Below, Number, happens, logistic, read_number, read_value
from analyst_client.local.mechanisms import Corners, Window
from analyst_client.local.questions import Bounds, Loss, Question, record_members

ENTRIES_MAX, STEPS_MAX = 256, 2**20


@dataclass(frozen=True)
class BoundedQuestion(Question):
    """A question of numbers.

    Parameters
    ----------
    bounds : mapping from str to (number, number)
        Public ends of each column. Values beyond count as the end, missing ones (None or NaN) as the middle.

    Raises
    ------
    ValueError
        Where a declaration breaks its rule.
    """

    bounds: Bounds

    def _declare(self) -> None:
        found = {name: tuple(map(read_number, ends)) for name, ends in dict(self.bounds).items()}
        self._normalise("bounds", tuple(found.items()))
        if not found or not all(isinstance(n, str) and len(e) == 2 and e[0] < e[1] for n, e in found.items()):
            raise ValueError("bounds name for each column its lower and its upper end, as (0, 120)")

    @property
    def columns(self) -> dict[str, tuple[Fraction, Fraction]]:
        """Bounds of each column."""
        return {name: (read_number(low), read_number(high)) for name, (low, high) in dict(self.bounds).items()}

    def _scaled(self, value: object) -> dict[str, Fraction]:
        """Return a record's numbers, cut to their bounds, from −1 to 1."""
        columns = self.columns
        return {
            name: 2 * (read_value(one, low, high) - low) / (high - low) - 1
            for (name, (low, high)), one in zip(columns.items(), record_members(value, [*columns]), strict=True)
        }


@dataclass(frozen=True)
class PiecewiseMechanism(BoundedQuestion):
    """The piecewise mechanism [1]_ on whole numbers: answers near the value are e^ε times as likely as others.

    It has less noise than `LInfinitySampler` of one column from ε of about 1.3 on.

    Parameters
    ----------
    steps : int
        Steps of the lattice between the ends, from 1 to 2²⁰. A value between two of its points becomes one of them,
        so that it stays right on average.

    References
    ----------
    .. [1] N. Wang et al., "Collecting and analyzing multidimensional data with local differential privacy", ICDE 2019.

    Examples
    --------
    >>> from analyst_client.local import PiecewiseMechanism
    >>> question = PiecewiseMechanism({"age": (0, 120)}, epsilon=2)
    >>> sorted(question.report(61))
    ['answer', 'question', 'token']
    """

    steps: int = 1024
    mechanism: ClassVar[str] = "piecewise"

    def _declare(self) -> None:
        super()._declare()
        if len(self.columns) != 1 or type(self.steps) is not int or not 1 <= self.steps <= STEPS_MAX:
            raise ValueError(f"the piecewise mechanism takes one column, and from 1 to {STEPS_MAX} steps")

    @property
    def law(self) -> Window:
        """The law of its answers."""
        return Window(self.steps, self.odds)

    def _answer(self, value: object, below: Below) -> int:
        (scaled,) = self._scaled(value).values()
        place, part = divmod((scaled + 1) / 2 * self.steps, 1)
        return self.law.draw(int(place) + happens(part, below), below)


@dataclass(frozen=True)
class LInfinitySampler(BoundedQuestion):
    """The ℓ∞ sampler [1]_ of numbers: an answer is a corner of the cube, with better odds near the record's corner.

    Of one column it is the two-valued mechanism of the same authors. Of several it differs from theirs in the set of
    near corners: no tie is counted twice, and its size is the one with the least noise (docs/local.md).

    References
    ----------
    .. [1] J. Duchi, M. Jordan, M. Wainwright, "Minimax optimal procedures for locally private estimation", JASA 113,
       2018.

    Examples
    --------
    >>> from analyst_client.local import LInfinitySampler
    >>> question = LInfinitySampler({"age": (0, 120), "weight": (30, 200)}, epsilon=1)
    >>> len(question.report({"age": 61, "weight": 80})["answer"])  # bits, one for each column
    2
    """

    mechanism: ClassVar[str] = "l_infinity_sampler"

    def _declare(self) -> None:
        super()._declare()
        columns = len(self.columns)  # they may be a stranger's, and entries grow with their square
        if (size := columns if columns > ENTRIES_MAX else len(self.entries)) > ENTRIES_MAX:
            raise ValueError(f"a report has at most {ENTRIES_MAX} entries, and these columns make {size}")

    @property
    def entries(self) -> tuple[tuple[str, ...], ...]:
        """Columns that each entry of the vector is made of."""
        return tuple((name,) for name in self.columns)

    @property
    def law(self) -> Corners:
        """The law of its answers."""
        return corners(len(self.entries), self.odds)

    def _vector(self, scaled: dict[str, Fraction]) -> list[Fraction]:
        """Return the entries of a record, from −1 to 1."""
        return list(scaled.values())

    def _answer(self, value: object, below: Below) -> str:
        corner = [happens((1 + entry) / 2, below) for entry in self._vector(self._scaled(value))]
        return self.law.draw(corner, below)


@dataclass(frozen=True)
class RegressionQuestion(LInfinitySampler):
    """A question of a target and features.

    Parameters
    ----------
    target : str
        Column that is explained; all others are features.
    """

    target: str

    def _declare(self) -> None:
        super()._declare()
        if self.target not in self.columns or len(self.columns) < 2:
            raise ValueError("a regression takes bounds of its target and of one feature or more")

    @property
    def features(self) -> tuple[str, ...]:
        """Columns beside the target."""
        return tuple(name for name in self.columns if name != self.target)


@dataclass(frozen=True)
class MomentSampler(RegressionQuestion):
    """The ℓ∞ sampler of all products of a linear regression: features, their products, and products with the target.

    Numbers are scaled from −1 to 1 first. A square x² stands as 2x² − 1, which has the same range as the others.

    Examples
    --------
    >>> from analyst_client.local import MomentSampler
    >>> question = MomentSampler({"age": (0, 120), "weight": (30, 200)}, target="weight", epsilon=1)
    >>> question.features, len(question.report({"age": 61, "weight": 80})["answer"])
    (('age',), 4)
    """

    mechanism: ClassVar[str] = "moment_sampler"

    @property
    def entries(self) -> tuple[tuple[str, ...], ...]:
        """Factors of each entry."""
        pairs = combinations_with_replacement(self.features, 2)
        alone = [(name,) for name in (*self.features, self.target)]
        return (*alone, *pairs, *((name, self.target) for name in self.features))

    def _vector(self, scaled: dict[str, Fraction]) -> list[Fraction]:
        products = [(prod((scaled[name] for name in names), start=Fraction(1)), names) for names in self.entries]
        return [2 * value - 1 if len(names) == 2 and names[0] == names[1] else value for value, names in products]


@dataclass(frozen=True)
class GradientSampler(RegressionQuestion):
    """The ℓ∞ sampler of the gradient of a loss at posted coefficients, of numbers that are scaled from −1 to 1.

    Parameters
    ----------
    coefficients : sequence of number
        The intercept and one for each feature, in scaled units; of ``"logistic"`` the target runs from 0 to 1.
    loss : {"squared", "logistic"}
    clip : number
        Entries are cut to ± this; above 0. Nothing is cut of ``"logistic"`` from 1 on.

    Examples
    --------
    >>> from analyst_client.local import GradientSampler
    >>> bounds = {"age": (0, 120), "weight": (30, 200)}
    >>> question = GradientSampler(bounds, target="weight", coefficients=[0, 0], epsilon=1)
    >>> len(question.report({"age": 61, "weight": 80})["answer"])
    2
    """

    coefficients: Sequence[Number]
    loss: Loss = "squared"
    clip: Number = 1
    mechanism: ClassVar[str] = "gradient_sampler"

    def _declare(self) -> None:
        self._normalise("coefficients", tuple(map(read_number, self.coefficients)))
        self._normalise("clip", read_number(self.clip))
        super()._declare()
        if len(self.coefficients) != len(self.columns) or self.loss not in {"squared", "logistic"}:
            raise ValueError('coefficients are an intercept and one for each feature; loss is "squared" or "logistic"')
        if read_number(self.clip) <= 0:
            raise ValueError("clip is above 0, such as 1")

    @property
    def entries(self) -> tuple[tuple[str, ...], ...]:
        """The feature of each entry; of the intercept none."""
        return ((), *((name,) for name in self.features))

    def _vector(self, scaled: dict[str, Fraction]) -> list[Fraction]:
        x, clip = [Fraction(1), *(scaled[name] for name in self.features)], read_number(self.clip)
        fitted = sum((read_number(b) * e for b, e in zip(self.coefficients, x, strict=True)), start=Fraction(0))
        target = scaled[self.target]
        residual = fitted - target if self.loss == "squared" else logistic(fitted) - (1 + target) / 2
        return [min(max(residual * entry / clip, Fraction(-1)), Fraction(1)) for entry in x]


@lru_cache(maxsize=64)
def corners(size: int, odds: Fraction) -> Corners:
    """Return the law of corners, for which the nearness is looked for once."""
    return Corners(size, odds)
