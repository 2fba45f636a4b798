"""What a request may say: the JSON of a release request, and its canonical form."""

import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

import rfc8785
from pydantic import BaseModel, Field, StringConstraints, model_validator

from curator_service.kinds.gram.plan import default_shares
from curator_service.kit.names import NAME_PATTERN
from curator_service.kit.wire import STRICT, Positive
from curator_service.ledger.schemas import PriceModel
from curator_service.privacy.calibration import Calibration, Mechanism
from curator_service.privacy.conversions import exact
from curator_service.privacy.parts import Statistic
from curator_service.privacy.row_maps import RowsModel

ColumnName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
RESERVATION_PATTERN = r"^res_[0-9a-f]{24}$"
# JSON has no enumerations of its own: strings become members.
_Statistic = Annotated[Statistic, Field(strict=False)]


class ReleaseRequest(BaseModel):
    """A request for a ``gram`` release or for its quote."""

    model_config = STRICT

    kind: Literal["gram"] = "gram"
    features: Annotated[list[ColumnName], Field(min_length=1, max_length=200)]
    targets: Annotated[list[ColumnName], Field(max_length=50)] = []
    intercept: bool = True
    rows: RowsModel | None = None
    expected_rows: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    statistics: Annotated[list[_Statistic], Field(min_length=1, max_length=4)] | None = None
    mechanism: Annotated[Mechanism, Field(strict=False)] = Mechanism.GAUSSIAN
    calibration: Annotated[Calibration, Field(strict=False)] = Calibration.ANALYTIC
    price: PriceModel
    shares: dict[_Statistic, Positive] | None = None
    fresh: bool = False
    project: ColumnName | None = None
    reservation: Annotated[str, StringConstraints(pattern=RESERVATION_PATTERN)] | None = None

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name in (*self.features, *self.targets):
            if (*self.features, *self.targets).count(name) > 1:
                both = name in self.features and name in self.targets
                rule = "is a feature and a target; it can be one of them" if both else "is named twice"
                raise ValueError(f"the column {name!r} {rule}")
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


def digest(canonical_request: dict[str, Any], **context: str) -> str:
    """Hash a canonical request (RFC 8785, SHA-256) with what else decides its answer."""
    return hashlib.sha256(rfc8785.dumps({**context, "request": canonical_request})).hexdigest()


class StudyRequest(BaseModel):
    """A request to hold an amount for a study: releases are drawn from it until its time is over."""

    model_config = STRICT

    price: PriceModel
    expires_in_s: Annotated[int, Field(ge=60, le=31_536_000)]
    project: ColumnName | None = None


STUDY_EXAMPLE = {"price": {"epsilon": 0.5, "delta": 1e-06}, "expires_in_s": 604_800, "project": "kidney-2026"}
REQUEST_EXAMPLE = {
    "kind": "gram",
    "features": ["age", "sex", "creatinine"],
    "targets": ["kappa"],
    "rows": {"map": "ball"},
    "statistics": ["xtx", "xty", "yty", "lambda_min"],
    "price": {"epsilon": 1.0, "delta": 1e-06},
}
