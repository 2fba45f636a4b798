"""How models of JSON read: exactly what they declare."""

from typing import Annotated

from pydantic import ConfigDict, Field

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
