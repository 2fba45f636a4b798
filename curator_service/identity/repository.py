"""Queries of identity."""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from curator_service.identity.models import GrantRow, PrincipalRow, TokenRow
from curator_service.identity.policy import Role


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts."""

    id: str
    name: str
    role: Role


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
    PrincipalRow.id.label("principal_id"),
    PrincipalRow.name,
    PrincipalRow.role,
).join(PrincipalRow, PrincipalRow.id == TokenRow.principal_id)
_TOKEN = _TOKENS.where(TokenRow.id == bindparam("token"))


def _record(row) -> TokenRecord:  # type: ignore[no-untyped-def]
    principal = Principal(row.principal_id, row.name, Role(row.role))
    return TokenRecord(row.id, principal, row.secret_hash, row.created_at, row.expires_at, row.revoked_at)


def find_token(connection: Connection, token_id: str) -> TokenRecord | None:
    """Return a stored token, or None."""
    row = connection.execute(_TOKEN, {"token": token_id}).first()
    return None if row is None else _record(row)


def list_tokens(connection: Connection) -> list[TokenRecord]:
    """Return every token, the oldest first."""
    return [_record(row) for row in connection.execute(_TOKENS.order_by(TokenRow.created_at, TokenRow.id))]


def find_principal(connection: Connection, name: str) -> Principal | None:
    """Return a principal by name, or None."""
    query = select(PrincipalRow.id, PrincipalRow.name, PrincipalRow.role).where(PrincipalRow.name == name)
    row = connection.execute(query).first()
    return None if row is None else Principal(row.id, row.name, Role(row.role))


def list_principals(connection: Connection) -> list[Principal]:
    """Return every principal, by name."""
    query = select(PrincipalRow.id, PrincipalRow.name, PrincipalRow.role).order_by(PrincipalRow.name)
    return [Principal(row.id, row.name, Role(row.role)) for row in connection.execute(query)]


def insert_principal(connection: Connection, principal: Principal, created_at: str) -> None:
    """Insert a principal."""
    row = {"id": principal.id, "name": principal.name, "role": principal.role.value, "created_at": created_at}
    connection.execute(insert(PrincipalRow), row)


def insert_token(connection: Connection, record: TokenRecord) -> None:
    """Insert a token."""
    connection.execute(
        insert(TokenRow),
        {
            "id": record.id,
            "principal_id": record.principal.id,
            "secret_hash": record.secret_hash,
            "created_at": record.created_at,
            "expires_at": record.expires_at,
            "revoked_at": record.revoked_at,
        },
    )


def revoke_token(connection: Connection, token_id: str, moment: str) -> bool:
    """Mark a token as revoked; False if there is none."""
    query = update(TokenRow).where(TokenRow.id == token_id, TokenRow.revoked_at.is_(None)).values(revoked_at=moment)
    return connection.execute(query).rowcount == 1


def insert_grant(connection: Connection, principal_id: str, dataset_id: str, moment: str) -> None:
    """Insert a grant."""
    connection.execute(insert(GrantRow), {"principal_id": principal_id, "dataset_id": dataset_id, "created_at": moment})


def delete_grant(connection: Connection, principal_id: str, dataset_id: str) -> bool:
    """Remove a grant; False if there was none."""
    query = delete(GrantRow).where(GrantRow.principal_id == principal_id, GrantRow.dataset_id == dataset_id)
    return connection.execute(query).rowcount == 1


def list_grants(connection: Connection) -> list[tuple[str, str]]:
    """Return every grant as (principal's name, dataset's id)."""
    query = (
        select(PrincipalRow.name, GrantRow.dataset_id)
        .join(PrincipalRow, PrincipalRow.id == GrantRow.principal_id)
        .order_by(PrincipalRow.name, GrantRow.dataset_id)
    )
    return [(row.name, row.dataset_id) for row in connection.execute(query)]
