"""Tables of releases."""

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.db import Base


class ReleaseRow(Base):
    """A published answer and its receipt, as the bytes that were and will be sent."""

    __tablename__ = "releases"
    __table_args__ = (
        UniqueConstraint("population", "sequence"),
        Index("ix_releases_dataset_request", "dataset_id", "request_digest"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    population: Mapped[str] = mapped_column(ForeignKey("populations.name"))
    sequence: Mapped[int] = mapped_column(BigInteger)
    request_digest: Mapped[str] = mapped_column(String(64))
    answer: Mapped[str] = mapped_column(Text)
    receipt: Mapped[str] = mapped_column(Text)


class IdempotencyKeyRow(Base):
    """A key that a principal used, the digest of what it asked, and the answer it got. Never pruned."""

    __tablename__ = "idempotency_keys"

    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"), primary_key=True)
    key: Mapped[str] = mapped_column(String(128), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(80))
    release_id: Mapped[str] = mapped_column(ForeignKey("releases.id", deferrable=True, initially="DEFERRED"))
