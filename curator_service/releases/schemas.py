"""Requests of a reservation."""

from typing import Annotated

from pydantic import BaseModel, Field

from curator_service.kinds.request import ColumnName
from curator_service.kit.wire import STRICT
from curator_service.ledger.schemas import PriceModel


class ReservationRequest(BaseModel):
    """A request to hold an amount for a study: releases are drawn from it until its time is over."""

    model_config = STRICT

    price: PriceModel
    expires_in_s: Annotated[int, Field(ge=60, le=31_536_000)]
    project: ColumnName | None = None


RESERVATION_EXAMPLE = {"price": {"epsilon": 0.5, "delta": 1e-06}, "expires_in_s": 604_800, "project": "kidney-2026"}
