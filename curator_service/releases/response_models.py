"""Answers on releases, quotes, jobs and reservations; `kind` tells those of different kinds apart."""

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from curator_service.entries.amounts import Reserve
from curator_service.kinds.registry import KINDS
from curator_service.kinds.request import RESERVATION_PATTERN
from curator_service.kinds.response_models import CostModel, ReleaseId
from curator_service.kit.problem_models import ProblemModel
from curator_service.kit.wire import Answer, Digits, Moment
from curator_service.ledger.accounts.reservations import OPEN, Reservation
from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import AmountModel, Described

_JobId = Annotated[str, Field(pattern=r"^job_[0-9a-f]{24}$")]


class ByKind:
    """A union of models that `kind` tells apart; of one kind it is that model, for generators of clients.

    Parameters
    ----------
    *models : type
        Each has the member `kind`, of one value.
    """

    def __init__(self, *models: type[BaseModel]) -> None:
        self._models = {get_args(model.model_fields["kind"].annotation)[0]: model for model in models}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the union as pydantic reads it."""
        choices = {kind: handler.generate_schema(model) for kind, model in self._models.items()}
        if len(choices) == 1:
            return choices.popitem()[1]
        return core_schema.tagged_union_schema(choices, discriminator="kind")


ReleaseAnswer = Annotated[Any, ByKind(*(kind.models.answer for kind in KINDS))]
QuoteAnswer = Annotated[Any, ByKind(*(kind.models.quote for kind in KINDS))]
CanonicalRequest = Annotated[Any, ByKind(*(kind.models.request for kind in KINDS))]


class ReleaseSummary(Answer):
    """A release without its statistics."""

    id: ReleaseId
    dataset: str
    kind: str
    created_at: Moment
    request: CanonicalRequest
    cost: CostModel


class ReleasesAnswer(Answer):
    """A page of releases."""

    releases: list[ReleaseSummary]
    next: Annotated[Digits | None, Field(description="The value of `after` for the next page")]


class JobAnswer(Answer):
    """The state of a job."""

    id: _JobId
    dataset: str
    state: Literal["running", "done", "voided", "cancelled", "expired"]
    progress: Annotated[float, Field(description="The share of its public time that has passed; it tells no rows")]
    created_at: Moment
    release: ReleaseId | None
    reason: str | None
    request: CanonicalRequest


class ReservationState(Answer):
    """An amount that is held for a study, without the receipt."""

    id: Annotated[str, Field(pattern=RESERVATION_PATTERN)]
    dataset: str
    population: str
    state: Literal["open", "closed", "expired"]
    reserved: AmountModel
    drawn: AmountModel
    remaining: AmountModel
    created_at: Moment
    expires_at: Moment
    project: str | None

    @classmethod
    def of(cls, reservation: Reservation, dataset: str, population: Population) -> "ReservationState":
        """State a reservation."""
        state: Any = OPEN if reservation.state == OPEN else reservation.outcome
        return cls.model_construct(
            id=reservation.id,
            dataset=dataset,
            population=reservation.population,
            state=state,
            reserved=AmountModel.of(population.view(reservation.units)),
            drawn=AmountModel.of(population.view(reservation.drawn)),
            remaining=AmountModel.of(population.view_left(reservation.left)),
            created_at=reservation.created_at,
            expires_at=reservation.expires_at,
            project=reservation.project or None,
        )


class ReservationAnswer(ReservationState):
    """An amount that is held for a study."""

    receipt: Annotated[dict[str, Any], Described(Reserve)]


class _Held(Answer):
    """A held amount and its holder."""

    id: str
    dataset: str
    population: str
    holder: str
    project: str | None
    permit: str
    remaining: Annotated[AmountModel, Field(description="What of it is neither spent nor given back")]
    created_at: Moment


class HeldJob(_Held):
    """A job that waits or runs."""

    id: _JobId


class HeldJobsAnswer(Answer):
    """Jobs that wait or run, the oldest first."""

    items: ClassVar[str] = "jobs"
    jobs: list[HeldJob]


class HeldReservation(_Held):
    """A reservation that is open."""

    id: Annotated[str, Field(pattern=RESERVATION_PATTERN)]
    expires_at: Moment


class HeldReservationsAnswer(Answer):
    """Open reservations, the oldest first."""

    items: ClassVar[str] = "reservations"
    reservations: list[HeldReservation]


class ReleaseInProgressProblem(ProblemModel):
    """The answer is being worked on."""

    type: Literal["/problems/release-in-progress"]
    job: _JobId


class AnswerSpaceExceededProblem(ProblemModel):
    """No space is left for stored answers of the caller."""

    type: Literal["/problems/answer-space-exceeded"]
    answer_bytes: int
    answer_bytes_left: int
