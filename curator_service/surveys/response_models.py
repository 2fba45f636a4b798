"""Answers on surveys."""

from typing import Annotated, ClassVar

from pydantic import Field

from curator_service.kit.wire import Answer, Digest, Moment, Name
from curator_service.surveys.entries import Participants
from curator_service.surveys.schemas import Token


class SurveyAnswer(Answer):
    """A survey, and what protects whom in it."""

    name: Name
    question: Annotated[str, Field(description="Its canonical JSON, of which `question_digest` is the SHA-256")]
    question_digest: Digest
    participants: Participants
    reports_max: int
    reports: Annotated[int, Field(description="Given so far")]
    is_open: bool
    opened_at: Moment
    protection: Annotated[list[str], Field(description="What protects whom, and what does not, in sentences")]


class SurveysAnswer(Answer):
    """All surveys."""

    items: ClassVar = "surveys"

    surveys: list[SurveyAnswer]


class GivenAnswer(Answer):
    """A report that the curator has."""

    survey: Name
    token: Token


class LocalReport(Answer):
    """A report as it was given."""

    question: Digest
    token: Token
    answer: int | str


class ReportsAnswer(Answer):
    """A page of reports, by their tokens."""

    reports: list[LocalReport]
    next: Annotated[str | None, Field(description="The value of `after` for the next page")]


class InvitationsAnswer(Answer):
    """Invitations of a survey, from the first that was asked for on."""

    invitations: list[str]
