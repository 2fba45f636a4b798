"""Entries of the register on principals and their tokens."""

from typing import Annotated

from pydantic import Field

from curator_service.entries.base import Event
from curator_service.identity.policy import Role
from curator_service.kit.wire import Absent, Digest, Moment, left_out

TokenId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
PrincipalId = Annotated[str, Field(pattern=r"^prn_[0-9a-f]{24}$")]


class Act(Event):
    """An act of the curator, which stands in the register alone."""

    in_populations = False
    in_register = True


class PrincipalNamed(Act):
    """Whom the curator knows from here on, with these roles."""

    kind = "principal"
    meaning = "a principal has these roles from here on"

    principal: PrincipalId
    name: str
    roles: list[Annotated[Role, Field(strict=False)]]
    issuer: Annotated[str | Absent, Field(description="Where somebody signed in")] = left_out()
    told_at: Annotated[Moment | Absent, Field(description="When that provider said so")] = left_out()
    claim: Annotated[str | Absent, Field(description="The claim by which it tells people apart")] = left_out()
    identity: Annotated[PrincipalId | Absent, Field(description="Who it is by that claim, if that is another id")] = (
        left_out()
    )
    links: Annotated[
        list[PrincipalId] | Absent,
        Field(description="Principals that are the same person, and may do nothing from here on"),
    ] = left_out()
    applications: Annotated[list[str] | Absent, Field(description="Applications through which the person came")] = (
        left_out()
    )


class PersonNamed(Act):
    """A person has another displayed name."""

    kind = "person-name"
    meaning = "a person has another displayed name or e-mail, of which the register has a digest alone"

    principal: PrincipalId
    commitment: Annotated[Digest, Field(description="An HMAC-SHA-256 of name and e-mail, by a key kept beside them")]


class PersonNameErased(Act):
    """A person's displayed name was erased."""

    kind = "person-name-erased"
    meaning = "the displayed name and e-mail of a person, and the key of their digest, were erased"

    principal: PrincipalId


class TokenIssued(Act):
    """A token was issued."""

    kind = "token"
    meaning = "a token was issued"

    token: TokenId
    principal: PrincipalId
    holder: str
    scopes: Annotated[list[str], Field(description="Roles that it may act with, and `read` if it may only look")]
    expires_at: Moment
    commitment: Annotated[Digest, Field(description="A hash of the hash that is stored of its secret")]
    replaces: TokenId | Absent = left_out()
    replaced_ends_at: Moment | Absent = left_out()


class TokenRevoked(Act):
    """A token was revoked."""

    kind = "token-revoked"
    meaning = "a token was revoked"

    token: TokenId
    holder: str
