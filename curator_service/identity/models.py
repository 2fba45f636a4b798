"""Tables of identity."""

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.identity.names import STORED_MAX
from curator_service.kit.db import Base


class PrincipalRow(Base):
    """A principal: a named person or program, and the roles it holds, in their order, with commas between them.

    `issuer` is the identity provider where it signs in; empty for a local one.
    """

    __tablename__ = "principals"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(63), unique=True)
    roles: Mapped[str] = mapped_column(String(63))
    created_at: Mapped[str] = mapped_column(String(32))
    issuer: Mapped[str] = mapped_column(String(255), default="", server_default="")


class PersonNameRow(Base):
    """The displayed name and the e-mail of a person: the only place where these are, so that they can be erased.

    The register has a digest of both under `key`, which is random and goes with them.
    """

    __tablename__ = "person_names"

    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(STORED_MAX))
    email: Mapped[str] = mapped_column(String(STORED_MAX))
    key: Mapped[str] = mapped_column(String(64))


class TokenRow(Base):
    """A bearer token: its public id and the hash of its secret, never the secret.

    `scopes` are the roles that it may act with, as in `PrincipalRow.roles`, and ``read`` if it may only look.
    `replaced_by` is the token that a rotation made of it.
    """

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"))
    secret_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[str] = mapped_column(String(32))
    expires_at: Mapped[str] = mapped_column(String(32))
    revoked_at: Mapped[str | None] = mapped_column(String(32))
    scopes: Mapped[str] = mapped_column(String(80), default="", server_default="")
    replaced_by: Mapped[str] = mapped_column(String(32), default="", server_default="")
    revoked_by: Mapped[str] = mapped_column(String(63), default="", server_default="")
    last_used_at: Mapped[str | None] = mapped_column(String(32))


class PermitRow(Base):
    """A permit as it is now, with its terms as JSON; what it was before is in the chains.

    `ended_at` is empty while it holds.
    """

    __tablename__ = "permits"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    version: Mapped[int]
    project: Mapped[str] = mapped_column(String(63))
    terms: Mapped[str] = mapped_column(Text)
    granted_at: Mapped[str] = mapped_column(String(32))
    ended_at: Mapped[str] = mapped_column(String(32))


class GrantRow(Base):
    """A grant: an analyst may see a dataset, and request releases of it under a permit."""

    __tablename__ = "grants"

    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"), primary_key=True)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), primary_key=True)
    permit_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    created_at: Mapped[str] = mapped_column(String(32))
