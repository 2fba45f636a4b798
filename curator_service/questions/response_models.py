"""Answers on what was asked."""

from typing import Annotated, ClassVar

from pydantic import Field

from curator_service.kinds.response_models import ReleaseId
from curator_service.kit.wire import Answer, Digits, Moment
from curator_service.releases.response_models import CanonicalRequest


class AskedAnswer(Answer):
    """What was asked by a release, without its numbers."""

    release: ReleaseId
    population: str
    sequence: Annotated[Digits, Field(description="Of its entry in the ledger")]
    dataset: str
    kind: str
    asked_at: Moment
    asked_by: Annotated[str, Field(description="A name")]
    permit: str | None
    project: str | None
    words: Annotated[str, Field(description="The question, or that it cannot be shown")]
    formula: Annotated[str | None, Field(description="Of a model")]
    asked: Annotated[
        CanonicalRequest | None,
        Field(
            description="The request, as the ledger's entry has its digest; null where what is stored is another one"
        ),
    ]
    units: Annotated[Digits, Field(description="Charged; 0 of an answer that was cut out of a stored one")]
    epsilon: Annotated[float | None, Field(description="The same at the account's delta; null beyond 1000")]
    source: Annotated[str | None, Field(description="The release that it was cut out of")]


class AskedListAnswer(Answer):
    """What was asked of a population, the newest first."""

    items: ClassVar[str] = "questions"
    questions: list[AskedAnswer]
    next: Annotated[Digits | None, Field(description="The value of `before` for the next page")]
