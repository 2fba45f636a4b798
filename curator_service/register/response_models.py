"""Answers on principals, tokens and the curator's own acts."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal, TokenRecord, sort_roles
from curator_service.identity.response_models import SignInIssuer
from curator_service.identity.service import Caller
from curator_service.identity.tokens import Token
from curator_service.kit.wire import Answer, Digest, Digits, Moment, left_out
from curator_service.ledger.response_models import Entry, KeyEntry, OpenEntry, ProposalId, ReconcileEntry

TokenId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
PrincipalId = Annotated[str, Field(pattern=r"^prn_[0-9a-f]{24}$")]


_Issuer = Annotated[str | None, Field(description="The identity provider where it signs in; null for a local one")]


class PrincipalAnswer(Answer):
    """A principal and its roles."""

    id: PrincipalId
    name: str
    shown_name: str
    roles: list[Role]
    issuer: _Issuer

    @classmethod
    def of(cls, principal: Principal) -> "PrincipalAnswer":
        """State a principal."""
        return cls.model_construct(
            id=principal.id,
            name=principal.name,
            shown_name=principal.shown_name or principal.name,
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
    shown_name: str
    roles: list[Role]
    read_only: bool
    authenticated_by: Literal["token", "provider"]
    token: TokenId | None
    issuer: _Issuer
    expires_at: Moment
    visas: Annotated[list[str], Field(description="Values of the visas that the identity provider passed on")]

    @classmethod
    def of_call(cls, caller: Caller) -> "CallerAnswer":
        """State who calls."""
        assert caller.method
        return cls.model_construct(
            **dict(PrincipalAnswer.of(caller.principal)),
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


class PrincipalEntry(Entry):
    """Whom the curator knows from here on, with these roles."""

    kind: Literal["principal"]
    principal: PrincipalId
    name: str
    roles: list[Role]
    issuer: Annotated[str, Field(description="Where somebody signed in")] = left_out()
    told_at: Annotated[Moment, Field(description="When that provider said so")] = left_out()
    claim: Annotated[str, Field(description="The claim by which it tells people apart")] = left_out()
    identity: Annotated[PrincipalId, Field(description="Who it is by that claim, if that is another id")] = left_out()
    links: Annotated[
        list[PrincipalId], Field(description="Principals that are the same person, and may do nothing from here on")
    ] = left_out()
    applications: Annotated[list[str], Field(description="Applications through which the person came")] = left_out()


class TokenEntry(Entry):
    """A token was issued."""

    kind: Literal["token"]
    token: TokenId
    principal: PrincipalId
    holder: str
    scopes: Annotated[list[str], Field(description="Roles that it may act with, and `read` if it may only look")]
    expires_at: Moment
    commitment: Annotated[Digest, Field(description="A hash of the hash that is stored of its secret")]
    replaces: TokenId = left_out()
    replaced_ends_at: Moment = left_out()


class TokenRevokedEntry(Entry):
    """A token was revoked."""

    kind: Literal["token-revoked"]
    token: TokenId
    holder: str


class ProposedEntry(Entry):
    """Something was proposed that waits for a second person; what came of it is an entry here, or of a population."""

    kind: Literal["proposed"]
    proposal: ProposalId
    about: Literal["limit", "population", "permit", "rows"]
    of_population: Annotated[str, Field(description="Empty where whoever asks is not told which it is")]
    reason: str
    asked_units: Annotated[Digits, Field(description="Of a limit")] = left_out()
    from_units: Digits = left_out()
    permit: Annotated[str, Field(pattern=r"^prm_[0-9a-f]{24}$")] = left_out()
    permit_version: Annotated[int, Field(description="Of the permit that is to change; 0 for a new one")] = left_out()
    rows: Annotated[str, Field(description="Of rows, their keyed digest")] = left_out()
    terms_digest: Annotated[Digest, Field(description="SHA-256 of the terms, as they are stored")] = left_out()


class _ClosedEntry(Entry):
    """Members of the entry for a proposal that was not approved."""

    proposal: ProposalId
    asked_by: PrincipalId
    reason: Annotated[str, Field(description="Of the decision")]


class ProposalRejectedEntry(_ClosedEntry):
    """A privacy officer refused what was proposed."""

    kind: Literal["proposal-rejected"]


class ProposalWithdrawnEntry(_ClosedEntry):
    """The author took the proposal back."""

    kind: Literal["proposal-withdrawn"]


class ProposalExpiredEntry(_ClosedEntry):
    """Nobody decided it in time."""

    kind: Literal["proposal-expired"]


ActModel = Annotated[
    OpenEntry
    | PrincipalEntry
    | TokenEntry
    | TokenRevokedEntry
    | ProposedEntry
    | ProposalRejectedEntry
    | ProposalWithdrawnEntry
    | ProposalExpiredEntry
    | KeyEntry
    | ReconcileEntry,
    Field(discriminator="kind"),
]


class RegisterAnswer(Answer):
    """A page of the register, in order."""

    items: ClassVar[str] = "entries"
    entries: list[ActModel]


class SignInAnswer(Answer):
    """Issuers at which people sign in; none if all tokens are the curator's own."""

    issuers: list[SignInIssuer]
