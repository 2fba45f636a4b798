"""Answers of the health addresses."""

from typing import Literal

from pydantic import BaseModel

from curator_service.kit.wire import STRICT


class HealthAnswer(BaseModel):
    """The process lives."""

    model_config = STRICT

    status: Literal["alive"]


class ReadyAnswer(BaseModel):
    """The process can serve."""

    model_config = STRICT

    status: Literal["ready"]


class UnreadyAnswer(BaseModel):
    """The process cannot serve now, or releases nothing."""

    model_config = STRICT

    status: Literal["not ready", "sealed"]
