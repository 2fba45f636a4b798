"""Queries of identity."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from curator_service.identity.models import PrincipalRow, TokenRow
from curator_service.identity.policy import Role
from curator_service.kit.db import Connection, InsertIfAbsent, Statement


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts."""

    id: str
    name: str
    roles: frozenset[Role]


def sort_roles(roles: Iterable[Role]) -> list[Role]:
    """Return roles in the order in which they are shown and stored."""
    return sorted(roles, key=list(Role).index)


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A stored token with its principal."""

    id: str
    principal: Principal
    secret_hash: str
    created_at: str
    expires_at: str
    revoked_at: str | None


_TOKENS = select(
    TokenRow.id,
    TokenRow.secret_hash,
    TokenRow.created_at,
    TokenRow.expires_at,
    TokenRow.revoked_at,
    PrincipalRow.id,
    PrincipalRow.name,
    PrincipalRow.roles,
).join(PrincipalRow, PrincipalRow.id == TokenRow.principal_id)
_PRINCIPALS = select(PrincipalRow.id, PrincipalRow.name, PrincipalRow.roles)
_FIND_TOKEN = Statement(_TOKENS.where(TokenRow.id == bindparam("token")))
_LIST_TOKENS = Statement(_TOKENS.order_by(TokenRow.created_at, TokenRow.id))
_FIND_PRINCIPAL = Statement(_PRINCIPALS.where(PrincipalRow.name == bindparam("name")))
_LIST_PRINCIPALS = Statement(_PRINCIPALS.order_by(PrincipalRow.name))
_INSERT_PRINCIPAL = InsertIfAbsent(PrincipalRow)
_INSERT_TOKEN = Statement(insert(TokenRow))
_REVOKE_TOKEN = Statement(
    update(TokenRow)
    .where(TokenRow.id == bindparam("token"), TokenRow.revoked_at.is_(None))
    .values(revoked_at=bindparam("moment"))
)


def find_token(connection: Connection, token_id: str) -> TokenRecord | None:
    """Return a stored token, or None."""
    row = _FIND_TOKEN.first(connection, token=token_id)
    return None if row is None else _record(row)


def list_tokens(connection: Connection) -> list[TokenRecord]:
    """Return every token, the oldest first."""
    return [_record(row) for row in _LIST_TOKENS.all(connection)]


def find_principal(connection: Connection, name: str) -> Principal | None:
    """Return a principal by name, or None."""
    row = _FIND_PRINCIPAL.first(connection, name=name)
    return None if row is None else _principal(row)


def list_principals(connection: Connection) -> list[Principal]:
    """Return every principal, by name."""
    return [_principal(row) for row in _LIST_PRINCIPALS.all(connection)]


def insert_principal(connection: Connection, principal: Principal, created_at: str) -> bool:
    """Insert a principal; False if the name is taken."""
    values = {"id": principal.id, "name": principal.name, "roles": ",".join(sort_roles(principal.roles))}
    return _INSERT_PRINCIPAL.changed(connection, **values, created_at=created_at) == 1


def insert_token(connection: Connection, record: TokenRecord) -> None:
    """Insert a token."""
    _INSERT_TOKEN.execute(
        connection,
        id=record.id,
        principal_id=record.principal.id,
        secret_hash=record.secret_hash,
        created_at=record.created_at,
        expires_at=record.expires_at,
        revoked_at=record.revoked_at,
    )


def revoke_token(connection: Connection, token_id: str, moment: str) -> bool:
    """Mark a token as revoked; False if there is none."""
    return _REVOKE_TOKEN.changed(connection, token=token_id, moment=moment) == 1


def _principal(row: tuple[Any, ...]) -> Principal:
    principal_id, name, roles = row
    return Principal(principal_id, name, frozenset(map(Role, roles.split(","))))


def _record(row: tuple[Any, ...]) -> TokenRecord:
    token_id, secret_hash, created_at, expires_at, revoked_at, *principal = row
    return TokenRecord(token_id, _principal(tuple(principal)), secret_hash, created_at, expires_at, revoked_at)
