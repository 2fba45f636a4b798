"""Requests for tokens."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from curator_service.identity.service import DAYS_MAX, GRACE_S_MAX
from curator_service.kit.wire import STRICT, Name


class TokenRequest(BaseModel):
    """A token to make for an analyst or an auditor; a new name becomes a principal with these roles."""

    model_config = STRICT

    name: Name
    roles: Annotated[list[Literal["analyst", "auditor"]], Field(min_length=1, max_length=2)]
    read_only: bool = False
    days: Annotated[int, Field(ge=1, le=DAYS_MAX)] = 90


class RotationRequest(BaseModel):
    """A rotation of the token of this call."""

    model_config = STRICT

    grace_s: Annotated[int, Field(ge=0, le=GRACE_S_MAX)] = 0


TOKEN_EXAMPLE: dict[str, Any] = {"name": "ada", "roles": ["analyst"], "read_only": False, "days": 90}
