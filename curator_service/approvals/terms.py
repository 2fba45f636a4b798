"""What a new population is proposed with."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.kit.wire import STRICT
from curator_service.ledger.schemas import PriceModel
from curator_service.privacy.adjacency import Adjacency


class PopulationTerms(BaseModel):
    """The budget that people are given, and how it is counted; fixed for good, but for the limit."""

    model_config = STRICT

    adjacency: Annotated[Adjacency, Field(strict=False)]
    accountant: Literal["gdp", "zcdp", "pure"] = "gdp"
    limit: PriceModel
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-6
