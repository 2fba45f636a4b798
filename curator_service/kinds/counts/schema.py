"""What a request of counts may say."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from curator_service.kinds.features import FeatureModel
from curator_service.kinds.request import ReleaseRequest
from curator_service.kit.wire import STRICT, Positive
from curator_service.privacy.calibration import Calibration

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


class CountsRequest(ReleaseRequest):
    """A request for a ``counts`` release or for its quote."""

    kind: Literal["counts"] = KIND
    tables: Annotated[list[TableRequest], Field(min_length=1, max_length=100)]
    where: FeatureModel | None = None
    weight: FeatureModel | None = None
    shares: list[Positive] | None = None

    @model_validator(mode="after")
    def _check_price(self) -> Self:
        if self.calibration is not Calibration.ANALYTIC:
            raise ValueError("counts are calibrated as analytic alone")
        if self.shares is not None and len(self.shares) != len(self.tables):
            raise ValueError("shares are one for each table")
        if self.shares is not None and not math.isclose(sum(self.shares), 1.0, abs_tol=1e-9):
            raise ValueError("shares must add up to 1")
        return self


EXAMPLE: dict[str, Any] = {
    "kind": KIND,
    "tables": [{"axes": [{"column": "sex"}, {"column": "age", "edges": [50, 60, 70, 80, 101]}]}],
    "price": {"epsilon": 1.0, "delta": 1e-06},
}
