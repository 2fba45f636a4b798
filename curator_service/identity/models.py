"""Tables of identity."""

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.kit.db import Base


class PrincipalRow(Base):
    """Who acts: a named person or program with one role."""

    __tablename__ = "principals"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(63), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[str] = mapped_column(String(32))


class TokenRow(Base):
    """A bearer token: its public id and the hash of its secret, never the secret."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"))
    secret_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[str] = mapped_column(String(32))
    expires_at: Mapped[str] = mapped_column(String(32))
    revoked_at: Mapped[str | None] = mapped_column(String(32))


class GrantRow(Base):
    """That an analyst may see a dataset and request releases of it."""

    __tablename__ = "grants"

    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"), primary_key=True)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), primary_key=True)
    created_at: Mapped[str] = mapped_column(String(32))
