"""Requests of surveys."""

import hashlib
import json
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import from_json

from curator_service.kit.wire import STRICT, Digest, Line, Name
from curator_service.surveys.entries import BITS_MAX, NUMBERS_MAX, REPORTS_MAX, Participants

EPSILON_MIN, EPSILON_MAX, PARTS_MAX = Fraction(1, 1000), Fraction(20), 10**6
"""Those of the client's questions, as a test holds: it reads no others."""
Token = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", description="Random, and so the name of a report")]


class LocalQuestion(BaseModel):
    """A question, of which the curator understands these members; the client that wrote it knows the others."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False, extra="allow")

    format: Literal[1]
    mechanism: Literal[
        "randomized_response", "unary_encoding", "piecewise", "l_infinity_sampler", "moment_sampler", "gradient_sampler"
    ]
    epsilon: Annotated[
        str, Field(pattern=r"^[0-9]{1,12}(/[1-9][0-9]{0,11})?$", description="A whole number or fraction")
    ]
    study: Line
    protects: Literal["person", "group"]

    @model_validator(mode="after")
    def _check_epsilon(self) -> "LocalQuestion":
        epsilon = Fraction(self.epsilon)
        if not (EPSILON_MIN <= epsilon <= EPSILON_MAX and epsilon.denominator <= PARTS_MAX):
            raise ValueError("the epsilon of a report is from 0.001 to 20, in parts of a million at most")
        if str(epsilon) != self.epsilon:
            raise ValueError(f"this epsilon is written {epsilon}: a client writes it so, and its reports state that")
        return self

    @model_validator(mode="after")
    def _check_text(self) -> "LocalQuestion":
        try:  # as each later look at the survey does
            from_json(self.text, allow_inf_nan=False)
        except ValueError:
            raise ValueError("a member is nested too deep, or is no text or number of JSON") from None
        return self

    @property
    def text(self) -> str:
        """Canonical JSON, of which reports state the digest."""
        return json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class SurveyRequest(BaseModel):
    """A survey: a question, and what its reports look like.

    Attributes
    ----------
    name : str
    question : LocalQuestion
        As a local question's ``to_json`` returns it.
    below, bits : int
        One of them: an answer is a whole number from 0 to below the one, or as many bits as the other, as text.
    participants : str
        ``invited``: each invitation gives one report. ``anyone``: without invitation, and as often as somebody likes.
    reports_max : int
        It takes no more; of invitations there are as many.
    """

    model_config = STRICT

    name: Name
    question: LocalQuestion
    below: Annotated[int, Field(ge=2, le=NUMBERS_MAX)] | None = None
    bits: Annotated[int, Field(ge=1, le=BITS_MAX)] | None = None
    participants: Participants
    reports_max: Annotated[int, Field(ge=1, le=REPORTS_MAX)]

    @model_validator(mode="after")
    def _check_answers(self) -> "SurveyRequest":
        if (self.below is None) is (self.bits is None):
            raise ValueError("answers are numbers below one, or so many bits: state either")
        return self


class ReportRequest(BaseModel):
    """A report, as a local question's ``report`` returns it, with an invitation where the survey needs one."""

    model_config = STRICT

    question: Digest
    token: Token
    answer: Annotated[int, Field(ge=0, lt=NUMBERS_MAX)] | Annotated[str, Field(max_length=BITS_MAX, pattern="^[01]+$")]
    invitation: Annotated[str, Field(max_length=64)] | None = None


SURVEY_EXAMPLE: dict[str, Any] = {
    "name": "smoking",
    "question": {
        "format": 1,
        "mechanism": "randomized_response",
        "epsilon": "1",
        "study": "smoking 2026",
        "protects": "person",
        "levels": [["smoker", ["no", "yes"]]],
    },
    "below": 2,
    "participants": "invited",
    "reports_max": 500,
}
REPORT_EXAMPLE: dict[str, Any] = {"question": "0" * 64, "token": "0" * 32, "answer": 1}
