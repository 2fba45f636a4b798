"""Queries of identity."""

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, or_, select, update
from sqlalchemy.orm import aliased

from curator_service.identity.models import GrantRow, PersonNameRow, PrincipalRow, TokenRow
from curator_service.identity.policy import Role
from curator_service.kit.db import Connection, InsertIfAbsent, Statement

READ = "read"
"""Beside the roles of a token's scopes: it may only look."""


@dataclass(frozen=True, slots=True)
class Visa:
    """A right that another authority gave a person, until a time in seconds since 1970."""

    value: str
    expires: float


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller: a person or a program.

    Attributes
    ----------
    id, name : str
    roles : frozenset of Role
        What the principal may act with here: of a call, no more than its token has.
    read_only : bool
        Whether it may only look.
    issuer : str
        The identity provider where it signs in; empty for a local one.
    visas : tuple of Visa
    """

    id: str
    name: str
    roles: frozenset[Role]
    read_only: bool = field(default=False, compare=False)
    issuer: str = field(default="", compare=False)
    visas: tuple[Visa, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class PersonName:
    """A displayed name and an e-mail; empty where there is none."""

    name: str = ""
    email: str = ""


NAMELESS = PersonName()


@dataclass(frozen=True, slots=True)
class StoredName:
    """What is stored of a person's name.

    Attributes
    ----------
    said : PersonName
    key : str
        Of the digest in the register.
    """

    said: PersonName
    key: str

    def commit(self, principal_id: str) -> str:
        """Return the digest that the register has: nobody finds a name for it, nor checks a guess without the key."""
        told = json.dumps(["curator-person-name:1", principal_id, self.said.name, self.said.email], default=str)
        return hmac.new(str(self.key).encode(), told.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Recognition:
    """The rule by which an identity provider tells one person from others.

    Attributes
    ----------
    claim : str
        The claim that does.
    application : str
        The application of the provider through which the person came; empty if unknown.
    identity_before : str
        The identity by the claim that did so before; empty if none did.
    """

    claim: str = "sub"
    application: str = ""
    identity_before: str = ""


BY_SUBJECT = Recognition()


def sort_roles(roles: Iterable[Role]) -> list[Role]:
    """Return roles in the order in which they are shown and stored."""
    return sorted(roles, key=list(Role).index)


def write_roles(roles: Iterable[Role]) -> str:
    """Return roles as they are stored."""
    return ",".join(sort_roles(roles))


def read_roles(text: str) -> frozenset[Role]:
    """Read roles as they are stored; a word that is none gives nothing, and hides no other row."""
    return frozenset(Role(name) for name in text.split(",") if name in _ROLES)


_ROLES = frozenset(Role)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The part of its holder's rights that a token gives.

    Attributes
    ----------
    roles : frozenset of Role
    read_only : bool
    """

    roles: frozenset[Role]
    read_only: bool = False

    @classmethod
    def read(cls, text: str) -> "Scopes":
        """Read them as they are stored."""
        return cls(read_roles(text), READ in text.split(","))

    @property
    def names(self) -> list[str]:
        """The names that are stored and written into the register."""
        return [*sort_roles(self.roles), *([READ] if self.read_only else [])]

    def restrict(self, roles: frozenset[Role]) -> frozenset[Role]:
        """Return those of a holder's roles that the token may act with."""
        return roles & self.roles


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A stored token with its principal; `replaced_by` is empty where it was not rotated."""

    id: str
    principal: Principal
    secret_hash: str
    created_at: str
    expires_at: str
    scopes: Scopes
    revoked_at: str | None = None
    replaced_by: str = ""
    revoked_by: str = ""
    last_used_at: str | None = None


_PRINCIPAL = (
    PrincipalRow.id,
    PrincipalRow.name,
    PrincipalRow.roles,
    PrincipalRow.issuer,
)
_TOKENS = select(
    TokenRow.id,
    TokenRow.secret_hash,
    TokenRow.created_at,
    TokenRow.expires_at,
    TokenRow.revoked_at,
    TokenRow.scopes,
    TokenRow.replaced_by,
    TokenRow.revoked_by,
    TokenRow.last_used_at,
    *_PRINCIPAL,
).join(PrincipalRow, PrincipalRow.id == TokenRow.principal_id)
_PRINCIPALS = select(*_PRINCIPAL)
_FIND_TOKEN = Statement(_TOKENS.where(TokenRow.id == bindparam("token")))
_LIST_TOKENS = Statement(_TOKENS.order_by(TokenRow.created_at, TokenRow.id))
_FIND_PRINCIPAL = Statement(_PRINCIPALS.where(PrincipalRow.name == bindparam("name")))
_FIND_PRINCIPAL_BY_ID = Statement(_PRINCIPALS.where(PrincipalRow.id == bindparam("principal")))
_COUNT_GRANTS = Statement(
    select(func.count()).select_from(GrantRow).where(GrantRow.principal_id == bindparam("principal"))
)
_LIST_PRINCIPALS = Statement(_PRINCIPALS.order_by(PrincipalRow.name))
_INSERT_PRINCIPAL = InsertIfAbsent(PrincipalRow)
_UPDATE_PRINCIPAL = Statement(
    update(PrincipalRow).where(PrincipalRow.id == bindparam("principal")).values(roles=bindparam("held"))
)
_COLUMNS = ("principal_id", "name", "email", "key")
_NAMES = select(*(getattr(PersonNameRow, column) for column in _COLUMNS))
_FIND_NAME = Statement(_NAMES.where(PersonNameRow.principal_id == bindparam("principal")))
_LIST_NAMES = Statement(_NAMES.order_by(PersonNameRow.principal_id))
_INSERT_NAME = Statement(insert(PersonNameRow))
_DELETE_NAME = Statement(delete(PersonNameRow).where(PersonNameRow.principal_id == bindparam("principal")))
_DELETE_NAMES = Statement(delete(PersonNameRow))
_INSERT_TOKEN = Statement(insert(TokenRow))
_REVOKE_TOKEN = Statement(
    update(TokenRow)
    .where(TokenRow.id == bindparam("token"), TokenRow.revoked_at.is_(None))
    .values(revoked_at=bindparam("moment"), revoked_by=bindparam("actor"))
)
_REPLACE_TOKEN = Statement(
    update(TokenRow)
    .where(TokenRow.id == bindparam("token"), TokenRow.revoked_at.is_(None), TokenRow.replaced_by == "")
    .values(replaced_by=bindparam("successor"), expires_at=bindparam("ends"))
)
_successor = aliased(TokenRow)
_COUNT_ROTATIONS = Statement(
    select(func.count())
    .select_from(TokenRow)
    .join(_successor, _successor.id == TokenRow.replaced_by)
    .where(TokenRow.principal_id == bindparam("principal"), _successor.created_at > bindparam("moment"))
)
_NOTE_USE = Statement(
    update(TokenRow)
    .where(
        TokenRow.id == bindparam("token"),
        or_(TokenRow.last_used_at.is_(None), TokenRow.last_used_at <= bindparam("before")),
    )
    .values(last_used_at=bindparam("moment"))
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


def find_principal_by_id(connection: Connection, principal_id: str) -> Principal | None:
    """Return a principal, or None."""
    row = _FIND_PRINCIPAL_BY_ID.first(connection, principal=principal_id)
    return None if row is None else _principal(row)


def list_principals(connection: Connection) -> list[Principal]:
    """Return every principal, by name."""
    return [_principal(row) for row in _LIST_PRINCIPALS.all(connection)]


def insert_principal(connection: Connection, principal: Principal, created_at: str) -> bool:
    """Insert a principal; False if the name is taken."""
    inserted = _INSERT_PRINCIPAL.changed(
        connection,
        id=principal.id,
        name=principal.name,
        roles=write_roles(principal.roles),
        issuer=principal.issuer,
        created_at=created_at,
    )
    return inserted == 1


def update_principal(connection: Connection, principal: Principal) -> None:
    """Write a principal's roles."""
    _UPDATE_PRINCIPAL.execute(connection, principal=principal.id, held=write_roles(principal.roles))


def find_name(connection: Connection, principal_id: str) -> StoredName | None:
    """Return what is stored of a person's name, or None."""
    row = _FIND_NAME.first(connection, principal=principal_id)
    return None if row is None else StoredName(PersonName(row[1], row[2]), row[3])


def list_names(connection: Connection) -> dict[str, StoredName]:
    """Return what is stored of the names of people, by the ids of their principals."""
    return {row[0]: StoredName(PersonName(row[1], row[2]), row[3]) for row in _LIST_NAMES.all(connection)}


def write_name(connection: Connection, principal_id: str, stored: StoredName) -> None:
    """Write a person's name in the place of the one before."""
    delete_name(connection, principal_id)
    said = stored.said
    _INSERT_NAME.execute(connection, principal_id=principal_id, name=said.name, email=said.email, key=stored.key)


def delete_name(connection: Connection, principal_id: str) -> bool:
    """Delete a person's name; False if there is none.

    The embedded database overwrites what is deleted, but a page that was split may hold a copy of it. So all other
    names are written anew, in their order, into new pages.
    """
    if _DELETE_NAME.changed(connection, principal=principal_id) == 0:
        return False
    if connection.dialect.name == "sqlite":
        others = [dict(zip(_COLUMNS, row, strict=True)) for row in _LIST_NAMES.all(connection)]
        _DELETE_NAMES.execute(connection)
        _INSERT_NAME.execute_each(connection, others)
    return True


def has_permits(connection: Connection, principal_id: str) -> bool:
    """Return whether permits name a principal."""
    row = _COUNT_GRANTS.first(connection, principal=principal_id)
    return row is not None and row[0] > 0


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
        scopes=",".join(record.scopes.names),
        replaced_by=record.replaced_by,
        revoked_by=record.revoked_by,
        last_used_at=record.last_used_at,
    )


def revoke_token(connection: Connection, token_id: str, moment: str, actor: str) -> bool:
    """Mark a token as revoked; False if there is none."""
    return _REVOKE_TOKEN.changed(connection, token=token_id, moment=moment, actor=actor) == 1


def replace_token(connection: Connection, token_id: str, successor: str, ends_at: str) -> bool:
    """Let a token end where its successor is known; False if it was revoked, or rotated before."""
    return _REPLACE_TOKEN.changed(connection, token=token_id, successor=successor, ends=ends_at) == 1


def count_rotations(connection: Connection, principal_id: str, moment: str) -> int:
    """Return how many tokens of somebody were rotated after a moment."""
    row = _COUNT_ROTATIONS.first(connection, principal=principal_id, moment=moment)
    return 0 if row is None else int(row[0])


def note_use(connection: Connection, token_id: str, moment: str, before: str) -> None:
    """Write when a token was used, unless it is known to have been used since a time."""
    _NOTE_USE.execute(connection, token=token_id, moment=moment, before=before)


def _principal(row: tuple[Any, ...]) -> Principal:
    principal_id, name, roles, issuer = row
    return Principal(principal_id, name, read_roles(roles), issuer=issuer)


def _record(row: tuple[Any, ...]) -> TokenRecord:
    token_id, secret_hash, created_at, expires_at, revoked_at, scopes, replaced_by, revoked_by, used_at, *of = row
    return TokenRecord(
        token_id,
        _principal(tuple(of)),
        secret_hash,
        created_at,
        expires_at,
        Scopes.read(scopes),
        revoked_at,
        replaced_by,
        revoked_by,
        used_at,
    )
