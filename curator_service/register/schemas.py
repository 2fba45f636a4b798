"""Principals and tokens as JSON."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal, TokenRecord, sort_roles
from curator_service.identity.service import DAYS_MAX, GRACE_S_MAX, Caller
from curator_service.identity.tokens import Token
from curator_service.kit.wire import STRICT, Name


class TokenRequest(BaseModel):
    """A token to make for an analyst or an auditor; a new name becomes a principal with these roles."""

    model_config = STRICT

    name: Name
    roles: Annotated[list[Literal["analyst", "auditor"]], Field(min_length=1, max_length=2)]
    read_only: bool = False
    days: Annotated[int, Field(ge=1, le=DAYS_MAX)] = 90


class RotationRequest(BaseModel):
    """How the token of this call is rotated."""

    model_config = STRICT

    grace_s: Annotated[int, Field(ge=0, le=GRACE_S_MAX)] = 0


TOKEN_EXAMPLE: dict[str, Any] = {"name": "ada", "roles": ["analyst"], "read_only": False, "days": 90}


def render_caller(caller: Caller) -> dict[str, Any]:
    """Return who calls, as JSON."""
    principal = caller.principal
    return {
        "id": principal.id,
        "name": principal.name,
        "shown_name": principal.shown_name or principal.name,
        "roles": _names(principal.roles),
        "read_only": principal.read_only,
        "authenticated_by": caller.method,
        "token": caller.token_id or None,
        "issuer": principal.issuer or None,
        "expires_at": caller.expires_at,
        "visas": sorted({visa.value for visa in principal.visas}),
    }


def render_principal(principal: Principal) -> dict[str, Any]:
    """Return a principal as JSON."""
    return {
        "id": principal.id,
        "name": principal.name,
        "shown_name": principal.shown_name or principal.name,
        "roles": _names(principal.roles),
        "issuer": principal.issuer or None,
    }


def render_token(record: TokenRecord) -> dict[str, Any]:
    """Return a token as JSON, without its secret."""
    return {
        "id": record.id,
        "name": record.principal.name,
        "roles": _names(record.scopes.restrict(record.principal.roles)),
        "read_only": record.scopes.read_only,
        "created_at": record.created_at,
        "last_used_at": record.last_used_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
        "replaced_by": record.replaced_by or None,
    }


def render_new_token(token: Token, record: TokenRecord) -> dict[str, Any]:
    """Return a token as JSON with what its holder sends: once, and never again."""
    return {**render_token(record), "token": token.text}


def _names(roles: frozenset[Role]) -> list[str]:
    return [role.value for role in sort_roles(roles)]
