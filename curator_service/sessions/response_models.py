"""Answers on threshold sessions."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from curator_service.entries.sessions import AnswerQuestion, Direction, OpenSession, SessionId
from curator_service.kinds.features import StatedFeature
from curator_service.kit.wire import Answer, Digits, Moment, left_out
from curator_service.ledger.response_models import AmountModel, Described


class SessionTerms(Answer):
    """Noise and price of a session, before or after it is opened."""

    dataset: str
    population: str
    direction: Direction
    positives: int
    step: Annotated[Digits, Field(description="Steps for which one row counts; scales are in steps")]
    sensitivity: Annotated[Digits, Field(description="How far a person moves a question, in steps")]
    threshold_scale: Annotated[Digits, Field(description="Scale of the discrete Laplace noise of the threshold")]
    question_scale: Annotated[Digits, Field(description="Scale of the fresh discrete Laplace noise of each question")]
    pure_epsilon: Annotated[float, Field(description="Pure ε of the whole session, rounded up")]
    cost: AmountModel


class SessionAnswer(SessionTerms):
    """A session that was opened."""

    id: SessionId
    created_at: Moment
    project: str | None
    receipt: Annotated[dict[str, Any], Described(OpenSession)]


class QuestionModel(Answer):
    """A question as it was planned."""

    where: StatedFeature = left_out()
    weight: StatedFeature = left_out()
    share: bool
    threshold: float
    direction: Literal["above", "below"]


class QuestionAnswer(Answer):
    """Answer to a question."""

    session: SessionId
    number: int
    is_positive: Annotated[
        bool, Field(description="Whether the noisy number reached the noisy threshold, in the question's direction")
    ]
    positives_left: Annotated[int, Field(description="The session has ended where it is 0")]
    question: QuestionModel
    receipt: Annotated[dict[str, Any], Described(AnswerQuestion)]


class AskedModel(Answer):
    """A question of a session, with its answer."""

    number: int
    question: QuestionModel
    is_positive: bool
    answered_at: Moment


class HeldSession(SessionTerms):
    """A session without its questions."""

    id: SessionId
    created_at: Moment
    holder: str
    project: str | None
    permit: Annotated[str | None, Field(description="The permit that pays; none where nobody needs one")]
    answered: Annotated[int, Field(description="Questions answered so far")]
    positives_left: int


class SessionHistory(HeldSession):
    """A session with the questions that it answered."""

    is_open: bool
    questions: list[AskedModel]
    next: Annotated[int | None, Field(description="The value of `after` for the next page")]


class HeldSessionsAnswer(Answer):
    """Sessions that are open."""

    items: ClassVar = "sessions"

    sessions: list[HeldSession]
