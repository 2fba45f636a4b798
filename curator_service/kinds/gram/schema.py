"""Requests of sufficient statistics."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from curator_service.kinds.features import FeatureModel
from curator_service.kinds.gram.plan import default_shares
from curator_service.kinds.gram.statistics import Statistic
from curator_service.kinds.request import ReleaseRequest
from curator_service.kit.wire import Positive
from curator_service.privacy.conversions import exact
from curator_service.privacy.row_maps import RowsModel

KIND: Literal["gram"] = "gram"
_Statistic = Annotated[Statistic, Field(strict=False)]


class GramRequest(ReleaseRequest):
    """A request for a ``gram`` release or for its quote."""

    kind: Literal["gram"] = KIND
    features: Annotated[list[FeatureModel], Field(min_length=1, max_length=200)]
    targets: list[FeatureModel] = Field(default=[], max_length=50)
    where: FeatureModel | None = None
    weight: FeatureModel | None = None
    intercept: bool = True
    rows: RowsModel | None = None
    expected_rows: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    statistics: Annotated[list[_Statistic], Field(min_length=1, max_length=4)] | None = None
    shares: dict[_Statistic, Positive] | None = None

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.rows is not None and self.expected_rows is not None:
            raise ValueError("expected_rows chooses a row map where none is named: leave out rows or expected_rows")
        if self.statistics is not None and len(set(self.statistics)) != len(self.statistics):
            raise ValueError("a statistic is named twice")
        needs_target = {Statistic.XTY, Statistic.YTY} & set(self.statistics or ())
        if needs_target and not self.targets:
            raise ValueError("xty and yty need a target")
        if self.targets and self.statistics is not None and not needs_target:
            raise ValueError("a target without xty or yty would change nothing but the rows; leave it out")
        if self.shares is not None:
            if set(self.shares) != set(self.chosen_statistics):
                raise ValueError("shares must name exactly the statistics that are asked for")
            if not math.isclose(sum(self.shares.values()), 1.0, abs_tol=1e-9):
                raise ValueError("shares must add up to 1")
        return self

    @property
    def shares_of_price(self) -> Mapping[Statistic, Fraction]:
        """The split over statistics, defaults filled in, with sum 1."""
        chosen = self.chosen_statistics
        default = default_shares(chosen, self.mechanism, self.calibration)
        # As an answer states them they are rounded: read off one and sent again, they are the same shares.
        if self.shares is None or self.shares == {s: float(default[s]) for s in chosen}:
            return default
        total = sum((exact(self.shares[s]) for s in chosen), Fraction(0))
        return {s: exact(self.shares[s]) / total for s in chosen}

    @property
    def chosen_statistics(self) -> tuple[Statistic, ...]:
        """The statistics in their fixed order, defaults filled in."""
        if self.statistics is None:
            return (Statistic.XTX, Statistic.XTY, Statistic.YTY) if self.targets else (Statistic.XTX,)
        return tuple(s for s in Statistic if s in self.statistics)


EXAMPLE: dict[str, Any] = {
    "kind": KIND,
    "features": ["age", "sex", "creatinine"],
    "targets": ["kappa"],
    "rows": {"map": "ball"},
    "statistics": ["xtx", "xty", "yty", "lambda_min"],
    "price": {"epsilon": 1.0, "delta": 1e-06},
}
