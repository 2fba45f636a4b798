"""Requests of a score."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from curator_service.kinds.features import FeatureModel
from curator_service.kinds.request import ReleaseRequest
from curator_service.kinds.score.statistics import Statistic
from curator_service.kit.wire import STRICT, Positive
from curator_service.privacy.calibration import Calibration
from curator_service.privacy.conversions import exact
from curator_service.privacy.losses import Loss
from curator_service.privacy.row_maps.linear import BitsModel, MatrixModel, WeightsModel

KIND: Literal["score"] = "score"
_SHARES = {Statistic.SCORE: 94, Statistic.NORMS: 6, Statistic.MEAT: 40}
"""Parts of a price where a request names none: norms are told by far fewer numbers than they are asked of."""
_Statistic = Annotated[Statistic, Field(strict=False)]


class Coefficients(BaseModel):
    """Coefficients at which the gradient is computed: θ, a number for each term."""

    model_config = STRICT

    bits: BitsModel
    weights: WeightsModel


class Directions(BaseModel):
    """Directions onto which the gradient is projected: P, numbers for each term."""

    model_config = STRICT

    bits: BitsModel
    matrix: MatrixModel


class ScoreRequest(ReleaseRequest):
    """A request for a ``score`` release or for its quote."""

    kind: Literal["score"] = KIND
    features: Annotated[list[FeatureModel], Field(min_length=1, max_length=200)]
    target: FeatureModel
    intercept: bool = True
    loss: Annotated[Loss, Field(strict=False)]
    link: Annotated[str, Field(min_length=64, max_length=64)] | None = None
    coefficients: Coefficients
    directions: Directions
    where: FeatureModel | None = None
    weight: FeatureModel | None = None
    statistics: Annotated[list[_Statistic], Field(min_length=1, max_length=3)] = Field(default=[Statistic.SCORE])
    shares: dict[_Statistic, Positive] | None = None

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        if self.calibration is not Calibration.ANALYTIC:
            raise ValueError("a score is calibrated as analytic alone")
        if len(set(self.statistics)) != len(self.statistics):
            raise ValueError("a statistic is named twice")
        if self.shares is not None:
            if set(self.shares) != set(self.statistics):
                raise ValueError("shares must name exactly the statistics that are asked for")
            if not math.isclose(sum(self.shares.values()), 1.0, abs_tol=1e-9):
                raise ValueError("shares must add up to 1")
        return self

    @property
    def shares_of_price(self) -> Mapping[Statistic, Fraction]:
        """The split over statistics, in their fixed order and with sum 1."""
        chosen = [s for s in Statistic if s in self.statistics]
        whole = sum(_SHARES[s] for s in chosen)
        default = {s: Fraction(_SHARES[s], whole) for s in chosen}
        # As an answer states them they are rounded: read off one and sent again, they are the same shares.
        if self.shares is None or self.shares == {s: float(share) for s, share in default.items()}:
            return default
        total = sum((exact(share) for share in self.shares.values()), Fraction(0))
        return {s: exact(self.shares[s]) / total for s in chosen}


EXAMPLE: dict[str, Any] = {
    "kind": KIND,
    "features": ["age", "sex"],
    "target": "kappa",
    "loss": "linear",
    "coefficients": {"bits": 4, "weights": {"(constant)": 1, "age": 5}},
    "directions": {"bits": 2, "matrix": {"(constant)": [4, 0], "age": [-1, 6], "sex[M]": [0, 1]}},
    "statistics": ["score", "norms"],
    "price": {"epsilon": 1.0, "delta": 1e-06},
}
