"""Threshold sessions as values: their noise and price before they are opened, and what they answered."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.schema.amounts import Amount
from analyst_client.schema.reading import Readable


@dataclass(frozen=True)
class SessionTerms(Readable):
    """Noise and price of a threshold session.

    Attributes
    ----------
    dataset, population : str
    direction : str
        ``"above"``, ``"below"`` or ``"any"``.
    positives : int
        Questions answered yes after which it ends.
    step : int
        Steps for which one row counts; scales are in steps.
    sensitivity : int
        How far a person moves a question, in steps.
    threshold_scale, question_scale : int
        Scales of the discrete Laplace noise, of the threshold and of each question.
    pure_epsilon : float
        ε of the whole session.
    cost : Amount
    """

    dataset: str
    population: str
    direction: str
    positives: int
    step: int
    sensitivity: int
    threshold_scale: int
    question_scale: int
    pure_epsilon: float
    cost: Amount

    def accuracy(self, questions: int, beta: float = 0.05) -> float:
        """Return how far from its threshold a number must be for its answer to be right.

        With probability at least 1 − β, each of so many answers is right whose number is at least α away from its
        threshold.

        Parameters
        ----------
        questions : int
            Questions that are asked, n.
        beta : float
            Probability that an answer is wrong, in (0, 1).

        Returns
        -------
        float
            The least such α, in rows. Of a share, in rows divided by the rows of its condition.

        Raises
        ------
        ValueError

        Notes
        -----
        Given the threshold's noise ρ the answers are independent, so all are right with the probability
        E[F(α + ρ)ⁿ⁻ʲ F(α − ρ)ʲ], where F is the distribution function of a question's noise and j numbers lie above.
        It is convex in j, so a ternary search finds the worst j from 0 to c. The integral over ρ is by Gauss–Legendre
        quadrature, of Laplace noise: steps are too fine to matter. It is of the chance that an answer is wrong, which
        may be small.
        """
        if questions < 1 or not 0.0 < beta < 1.0:
            raise ValueError("accuracy is for at least 1 question and a probability within 0 and 1")
        low, high = 0.0, 1.0
        while self._chance_of_wrong(questions, high) > beta:
            low, high = high, 2.0 * high
        while high - low > 1e-6 * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if self._chance_of_wrong(questions, middle) <= beta else (middle, high)
        return high * self.question_scale / self.step

    def _chance_of_wrong(self, questions: int, alpha: float) -> float:
        """Return the largest chance that an answer is wrong, for α in scales of a question's noise."""
        ratio = self.threshold_scale / self.question_scale
        far = [start + 40.0 * scale for start in (0.0, alpha) for scale in (ratio, min(ratio, 1.0))]
        kinks = np.unique([0.0, *(side * place for side in (-1.0, 1.0) for place in (alpha, *far))])
        ends = np.unique(np.concatenate([np.linspace(*pair, _PANELS + 1) for pair in pairwise(kinks)]))
        middles, halves = (ends[1:] + ends[:-1]) / 2.0, np.diff(ends) / 2.0
        rho = (middles[:, None] + halves[:, None] * _NODES).ravel()
        mass = (halves[:, None] * _WEIGHTS).ravel() * np.exp(-abs(rho) / ratio) / (2.0 * ratio)
        below, above = _log_laplace(alpha + rho), _log_laplace(alpha - rho)
        most = min(self.positives, questions)
        low, high = 0, most

        def chance(j: int) -> float:
            return float(mass @ -np.expm1((questions - j) * below + j * above))

        while high - low > 2:
            first, second = low + (high - low) // 3, high - (high - low) // 3
            low, high = (low, second) if chance(first) >= chance(second) else (first, high)
        return max(map(chance, range(low, high + 1)))


_PANELS = 24
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def _log_laplace(x: FloatArray) -> FloatArray:
    """Return the logarithm of the distribution function of Laplace noise of scale 1."""
    return np.where(x < 0.0, x - np.log(2.0), np.log1p(-np.exp(-abs(x)) / 2.0))


@dataclass(frozen=True)
class OpenedSession(SessionTerms):
    """A threshold session that was opened, with its receipt."""

    id: str
    created_at: str
    project: str | None
    receipt: dict[str, Any]


@dataclass(frozen=True)
class QuestionAnswer(Readable):
    """Answer to a question of a threshold session.

    Attributes
    ----------
    session : str
    number : int
        From 1 on.
    is_positive : bool
        Whether the noisy number reached the noisy threshold, in the question's direction.
    positives_left : int
        0 where the session has ended.
    question : dict
        The question as the curator read it.
    receipt : dict
    """

    session: str
    number: int
    is_positive: bool
    positives_left: int
    question: dict[str, Any]
    receipt: dict[str, Any]


@dataclass(frozen=True)
class AskedQuestion(Readable):
    """A question of a session, and its answer."""

    number: int
    question: dict[str, Any]
    is_positive: bool
    answered_at: str


@dataclass(frozen=True)
class HeldSession(SessionTerms):
    """A threshold session without its questions.

    Attributes
    ----------
    id, created_at : str
    holder : str
    project : str or None
    permit : str or None
        The permit that pays; None where nobody needs one.
    answered : int
        Questions answered so far.
    positives_left : int
    """

    id: str
    created_at: str
    holder: str
    project: str | None
    permit: str | None
    answered: int
    positives_left: int


@dataclass(frozen=True)
class SessionHistory(HeldSession):
    """A threshold session with the questions that it answered.

    Attributes
    ----------
    is_open : bool
    questions : tuple of AskedQuestion
    next : int or None
        Number after which the next page begins.
    """

    is_open: bool
    questions: tuple[AskedQuestion, ...]
    next: int | None
