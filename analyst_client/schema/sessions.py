"""Threshold sessions as values: their noise and price before they are opened, and what they answered."""

import math
from dataclasses import dataclass
from typing import Any

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
        threshold: 2 exp(−a/t₁) + n exp(−b/t₂) ≤ β for α = a + b, the least such α (the tails of discrete Laplace noise,
        and a union bound).

        Parameters
        ----------
        questions : int
            Questions that are asked, n.
        beta : float
            Probability that an answer is wrong, in (0, 1).

        Returns
        -------
        float
            α, in rows. Of a share, in rows divided by the rows of its condition.

        Raises
        ------
        ValueError
        """
        if questions < 1 or not 0.0 < beta < 1.0:
            raise ValueError("accuracy is for at least 1 question and a probability within 0 and 1")
        each = beta / (self.threshold_scale + self.question_scale)
        of_threshold = self.threshold_scale * math.log(max(1.0, 2.0 / (each * self.threshold_scale)))
        of_question = self.question_scale * math.log(max(1.0, questions / (each * self.question_scale)))
        return (of_threshold + of_question) / self.step


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
