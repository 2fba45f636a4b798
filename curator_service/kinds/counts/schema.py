"""Requests of counts."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from curator_service.kinds.features import FeatureModel
from curator_service.kinds.items import ItemsRequest
from curator_service.kit.wire import STRICT

KIND: Literal["counts"] = "counts"
CELLS_MAX = 100_000
"""Of all tables of a request together."""
EDGES_MAX = 10_000
"""Of all axes together: a request, its answer and each list that shows it write every edge."""


class AxisRequest(BaseModel):
    """A column: a numeric one in bins `[a, b)`, by their edges or as equal bins of its bounds; others by their levels.

    The bin that ends at the declared upper bound holds it. A missing value has a cell of its own, or is in none.
    """

    model_config = STRICT

    column: FeatureModel
    edges: Annotated[list[float], Field(min_length=2, max_length=EDGES_MAX)] | None = None
    bins: Annotated[int, Field(ge=1, lt=EDGES_MAX)] | None = None
    missing: bool = False


class TableRequest(BaseModel):
    """A joint histogram over one to three columns."""

    model_config = STRICT

    axes: Annotated[list[AxisRequest], Field(min_length=1, max_length=3)]


class CountsRequest(ItemsRequest):
    """A request for a ``counts`` release or for its quote."""

    kind: Literal["counts"] = KIND
    tables: Annotated[list[TableRequest], Field(min_length=1, max_length=100)]

    member: ClassVar = "tables"
    noun: ClassVar = "table"


EXAMPLE: dict[str, Any] = {
    "kind": KIND,
    "tables": [{"axes": [{"column": "sex"}, {"column": "age", "edges": [50, 60, 70, 80, 101]}]}],
    "price": {"epsilon": 1.0, "delta": 1e-06},
}
