"""Answers on principals, tokens and the curator's own acts."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from curator_service.identity.entries import PrincipalId, TokenId
from curator_service.identity.people import Person
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal, TokenRecord, sort_roles
from curator_service.identity.response_models import SignInIssuer
from curator_service.identity.service import Caller
from curator_service.identity.tokens import Token
from curator_service.kit.wire import Answer, Moment
from curator_service.ledger.response_models import Described

_Issuer = Annotated[str | None, Field(description="The identity provider where it signs in; null for a local one")]
_Shown = Annotated[
    str, Field(description="The displayed name; `name` where there is none, and `cannot be shown` where it was changed")
]
_Email = Annotated[str | None, Field(description="The displayed e-mail; null where there is none")]


class PrincipalAnswer(Answer):
    """A principal and its roles."""

    id: PrincipalId
    name: str
    shown_name: _Shown
    email: _Email
    roles: list[Role]
    issuer: _Issuer

    @classmethod
    def of(cls, principal: Principal, person: Person) -> "PrincipalAnswer":
        """State a principal, and how it is displayed."""
        return cls.model_construct(
            id=principal.id,
            name=principal.name,
            shown_name=person.shown or principal.name,
            email=person.email or None,
            roles=sort_roles(principal.roles),
            issuer=principal.issuer or None,
        )


class PrincipalsAnswer(Answer):
    """Every principal, by name."""

    items: ClassVar[str] = "principals"
    principals: list[PrincipalAnswer]


class CallerAnswer(Answer):
    """The caller, and the way it signed in; `roles` are those of this call."""

    id: PrincipalId
    name: str
    shown_name: _Shown
    email: _Email
    roles: list[Role]
    read_only: bool
    authenticated_by: Literal["token", "provider"]
    token: TokenId | None
    issuer: _Issuer
    expires_at: Moment
    visas: Annotated[list[str], Field(description="Values of the visas that the identity provider passed on")]

    @classmethod
    def of_call(cls, caller: Caller, person: Person) -> "CallerAnswer":
        """State who calls, and how that one is displayed."""
        assert caller.method
        return cls.model_construct(
            **dict(PrincipalAnswer.of(caller.principal, person)),
            read_only=caller.principal.read_only,
            authenticated_by=caller.method,
            token=caller.token_id or None,
            expires_at=caller.expires_at,
            visas=sorted({visa.value for visa in caller.principal.visas}),
        )


class TokenAnswer(Answer):
    """A token, without its secret."""

    id: TokenId
    name: str
    roles: list[Role]
    read_only: bool
    created_at: Moment
    last_used_at: Annotated[Moment | None, Field(description="Within an hour")]
    expires_at: Moment
    revoked_at: Moment | None
    replaced_by: TokenId | None

    @classmethod
    def of(cls, record: TokenRecord) -> "TokenAnswer":
        """State a token."""
        return cls.model_construct(
            id=record.id,
            name=record.principal.name,
            roles=sort_roles(record.scopes.restrict(record.principal.roles)),
            read_only=record.scopes.read_only,
            created_at=record.created_at,
            last_used_at=record.last_used_at,
            expires_at=record.expires_at,
            revoked_at=record.revoked_at,
            replaced_by=record.replaced_by or None,
        )


class TokensAnswer(Answer):
    """Every token, the oldest first."""

    items: ClassVar[str] = "tokens"
    tokens: list[TokenAnswer]


class NewTokenAnswer(TokenAnswer):
    """A new token, with what its holder sends: it is shown this once."""

    token: Annotated[str, Field(pattern=r"^cur_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$")]

    @classmethod
    def of_new(cls, token: Token, record: TokenRecord) -> "NewTokenAnswer":
        """State a new token."""
        return cls.model_construct(**dict(TokenAnswer.of(record)), token=token.text)


class RegisterAnswer(Answer):
    """A page of the register, in order."""

    items: ClassVar[str] = "entries"
    entries: list[Annotated[dict[str, Any], Described(in_register=True)]]


class SignInAnswer(Answer):
    """Issuers at which people sign in; none if all tokens are the curator's own."""

    issuers: list[SignInIssuer]
