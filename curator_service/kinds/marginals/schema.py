"""Requests of marginals."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from curator_service.kinds.features import FeatureModel
from curator_service.kinds.items import ItemsRequest
from curator_service.kit.wire import STRICT

KIND: Literal["marginals"] = "marginals"
LEVELS_MAX, BINS_MAX = 14, 10_000
COLUMNS_MAX = 1000
"""Of all items together: what a row becomes has a number for each."""
NUMBERS_MAX = 100_000
"""That are released together."""


class _MarginalRequest(BaseModel):
    """Numeric columns, each by itself."""

    model_config = STRICT

    columns: Annotated[list[FeatureModel], Field(min_length=1, max_length=200)]


class TreeRequest(_MarginalRequest):
    """Rows by 2, 4, …, 2^levels equal bins of a column's declared bounds. A missing value is in none."""

    type: Literal["tree"]
    levels: Annotated[int, Field(ge=1, le=LEVELS_MAX)]


class FlatRequest(_MarginalRequest):
    """Rows by equal bins of a column's declared bounds. A missing value is in none."""

    type: Literal["flat"]
    bins: Annotated[int, Field(ge=2, le=BINS_MAX)] = 16


class MomentsRequest(_MarginalRequest):
    """Half of how many rows have a value u in scaled units, Σ u and Σ (u² − 1/2)."""

    type: Literal["moments"]


MarginalRequest = Annotated[TreeRequest | FlatRequest | MomentsRequest, Field(discriminator="type")]


class MarginalsRequest(ItemsRequest):
    """A request for a ``marginals`` release or for its quote."""

    kind: Literal["marginals"] = KIND
    marginals: Annotated[list[MarginalRequest], Field(min_length=1, max_length=100)]

    member: ClassVar = "marginals"
    noun: ClassVar = "marginal"


EXAMPLE: dict[str, Any] = {
    "kind": KIND,
    "marginals": [{"type": "tree", "columns": ["age"], "levels": 8}, {"type": "moments", "columns": ["age"]}],
    "price": {"epsilon": 1.0, "delta": 1e-06},
}
