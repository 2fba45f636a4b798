"""Entries of the register on surveys; reports stand in no chain."""

from typing import Annotated, Literal

from pydantic import Field

from curator_service.identity.entries import Act
from curator_service.kit.wire import Absent, Digest, Digits, Name, left_out

NUMBERS_MAX, BITS_MAX, REPORTS_MAX = 2**53, 4096, 1_000_000
Participants = Literal["invited", "anyone"]


class SurveyOpened(Act):
    """Reports of a question are collected from here on."""

    kind = "survey"
    meaning = "a survey was opened, which collects reports"

    survey: Name
    question_digest: Annotated[Digest, Field(description="Of the question's canonical JSON, as reports state it")]
    participants: Annotated[Participants, Field(description="Whether a report needs an invitation")]
    reports_max: Annotated[int, Field(ge=1, le=REPORTS_MAX)]
    below: Annotated[Digits | Absent, Field(description="An answer is a whole number that is less")] = left_out()
    bits: Annotated[int | Absent, Field(description="Or so many bits, as text")] = left_out()


class SurveyClosed(Act):
    """A survey takes no more reports."""

    kind = "survey-closed"
    meaning = "a survey was closed"

    survey: Name
