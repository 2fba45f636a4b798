"""Members of answers and quotes of every kind. A kind adds its own members, and names its models."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from curator_service.entries.amounts import Charge, Derive
from curator_service.kit.wire import STRICT, Moment, left_out
from curator_service.ledger.response_models import AmountModel, Described

ReleaseId = Annotated[str, Field(pattern=r"^rel_[0-9a-f]{24}$")]


class CostModel(AmountModel):
    """The cost of a release."""

    pure_epsilon: Annotated[float, Field(description="Of that release alone, where its noise is Laplace")] = left_out()
    share_of_budget: float


class StatisticModel(BaseModel):
    """A noisy statistic, in scaled units: each value is a whole number of steps."""

    model_config = STRICT

    shape: list[int]
    packing: Annotated[
        Literal["upper", "full"], Field(description="`upper` is the upper triangle with the diagonal, row by row")
    ]
    step: float
    values: list[float]


class AnswerMembers(BaseModel):
    """Members of every answer, whatever its kind."""

    model_config = STRICT

    id: ReleaseId
    dataset: str
    created_at: Moment
    cost: CostModel
    receipt: Annotated[dict[str, Any], Described(Charge, Derive)]


class DerivedMembers(BaseModel):
    """Members of answers of a kind with a library: some are cut out of others."""

    derived_from: Annotated[ReleaseId, Field(description="The release that the answer is a block of")] = left_out()


class OfferModel(BaseModel):
    """A stored release that comes near a request."""

    model_config = STRICT

    release: ReleaseId
    difference: str


class QuoteMembers(BaseModel):
    """Members of every quote, whatever its kind."""

    model_config = STRICT

    dataset: str
    cost: CostModel
    affordable: bool
    pass_over_rows: bool
    duration_s: float
    answer_bytes: int
    answer_bytes_left: int
    stored_release: ReleaseId | None
    derivable_from: ReleaseId | None
    offers: list[OfferModel]


@dataclass(frozen=True, slots=True)
class KindModels:
    """The models of a kind.

    Attributes
    ----------
    request, quote, answer : type
        Each has the member `kind`, which names the kind.
    """

    request: type[BaseModel]
    quote: type[QuoteMembers]
    answer: type[AnswerMembers]
