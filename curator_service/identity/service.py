"""Who is calling, and what that principal may do."""

import secrets
from datetime import timedelta
from http import HTTPStatus
from typing import ClassVar

from curator_service.identity import repository
from curator_service.identity.policy import Action, Objects, Role, allowed_objects, roles_for
from curator_service.identity.repository import Principal, TokenRecord, sort_roles
from curator_service.identity.tokens import Token, make_token, parse_token
from curator_service.kit.clock import Clock, timestamp, utc_now
from curator_service.kit.db import Database
from curator_service.kit.names import NAME, NAME_RULE
from curator_service.kit.problems import Problem


class AuthenticationRequired(Problem):
    """No token, or none that is valid: which of these is not said."""

    slug = "authentication-required"
    status = HTTPStatus.UNAUTHORIZED
    title = "Authentication is required"
    default_headers: ClassVar = {"WWW-Authenticate": "Bearer"}


class PermissionDenied(Problem):
    """No role of the caller's may do this."""

    slug = "permission-denied"
    status = HTTPStatus.FORBIDDEN
    title = "Your role does not allow this"


class IdentityError(ValueError):
    """A principal or a token cannot be changed as asked; the message says why, for the admin."""


class IdentityService:
    """Principals and tokens.

    Parameters
    ----------
    database : Database
    now : callable
        The clock.
    """

    def __init__(self, database: Database, now: Clock = utc_now) -> None:
        self.database = database
        self.now = now

    def authenticate(self, authorization: str | None) -> Principal:
        """Return the principal of an ``Authorization`` header.

        Raises
        ------
        AuthenticationRequired
            If the header is absent, or its token unknown, expired or revoked.
        """
        scheme, _, text = (authorization or "").partition(" ")
        token = parse_token(text) if scheme.lower() == "bearer" else None
        record = None if token is None else self.find_valid(token.id)
        if token is not None and record is not None and token.matches(record.secret_hash):
            return record.principal
        raise AuthenticationRequired(
            "Send a valid token as `Authorization: Bearer cur_…`; an admin makes one with `curator tokens create`."
        )

    def find_valid(self, token_id: str) -> TokenRecord | None:
        """Return a token that holds now, by its public id: for sessions, which began with it and end with it."""
        with self.database.read() as connection:
            record = repository.find_token(connection, token_id)
        if record is None or record.revoked_at is not None or timestamp(self.now()) >= record.expires_at:
            return None
        return record

    @staticmethod
    def authorize(principal: Principal, action: Action) -> Objects:
        """Return the objects on which a principal may take an action.

        Raises
        ------
        PermissionDenied
            If its roles may not take it at all.
        """
        objects = allowed_objects(principal.roles, action)
        if objects is None:
            needed = [role.value for role in roles_for(action)]
            held = ", ".join(sort_roles(principal.roles))
            raise PermissionDenied(
                f"Your roles, {held}, may not {action.value}; needed: {' or '.join(needed)}.",
                needed_role=needed,
            )
        return objects

    def create_token(self, name: str, *roles: Role, days: int = 90) -> Token:
        """Make a token for a principal, who is created when the name is new.

        Raises
        ------
        IdentityError
            If the name exists with other roles, or the lifetime is not from 1 to 3650 days.
        """
        if not NAME.fullmatch(name):
            raise IdentityError(f"the name must be {NAME_RULE}")
        if not 1 <= days <= 3650:
            raise IdentityError("a token lives from 1 to 3650 days")
        if not roles:
            raise IdentityError("name at least one role")
        token, moment = make_token(), self.now()
        with self.database.begin() as connection:
            new = Principal(f"prn_{secrets.token_hex(12)}", name, frozenset(roles))
            repository.insert_principal(connection, new, timestamp(moment))
            principal = repository.find_principal(connection, name)
            assert principal is not None
            if principal.roles != new.roles:
                held = ", ".join(sort_roles(principal.roles))
                raise IdentityError(f"{name!r} holds the roles {held}, and a token changes none of them")
            expires = timestamp(moment + timedelta(days=days))
            record = TokenRecord(token.id, principal, token.secret_hash, timestamp(moment), expires, None)
            repository.insert_token(connection, record)
        return token

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token by its public id, from the next request on.

        Raises
        ------
        IdentityError
            If there is no such token, or it was revoked before.
        """
        with self.database.begin() as connection:
            if not repository.revoke_token(connection, token_id, timestamp(self.now())):
                raise IdentityError(f"there is no token {token_id!r} that could be revoked")

    def list_tokens(self) -> list[TokenRecord]:
        """Return every token, without secrets."""
        with self.database.read() as connection:
            return repository.list_tokens(connection)

    def list_principals(self) -> list[Principal]:
        """Return every principal, by name."""
        with self.database.read() as connection:
            return repository.list_principals(connection)
