"""Tables of releases."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.kinds.base import NAME_MAX
from curator_service.kit.db import Base

CHUNK = 8192
"""Sequences of one row of `column_holders`, four to a digit; the migration has the same number."""


class ReleaseRow(Base):
    """A published answer, as the bytes that were and will be sent. Its receipt is its entry in the ledger."""

    __tablename__ = "releases"
    __table_args__ = (
        UniqueConstraint("population", "sequence"),
        ForeignKeyConstraint(
            ["population", "sequence"],
            ["ledger_entries.population", "ledger_entries.sequence"],
            name="fk_releases_entry",
        ),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    population: Mapped[str] = mapped_column(String(63))
    sequence: Mapped[int] = mapped_column(BigInteger)
    request_digest: Mapped[str] = mapped_column(String(64))
    answer: Mapped[str] = mapped_column(Text)


class ListingRow(Base):
    """The library's index of releases, without values. It only nominates: a release is checked before it is served."""

    __tablename__ = "release_listings"
    __table_args__ = (
        Index("ix_release_listings_members", "members", "loudness", "sequence"),
        Index("ix_release_listings_shelf", "shelf", "least_sd", "sequence"),
        Index("ix_release_listings_collection", "collection", "sequence"),
        Index("ix_release_listings_dataset", "dataset_id", "sequence"),
    )

    release_id: Mapped[str] = mapped_column(ForeignKey("releases.id"), primary_key=True)
    dataset_id: Mapped[str] = mapped_column(String(32))
    collection: Mapped[str] = mapped_column(String(80))
    sequence: Mapped[int] = mapped_column(BigInteger)
    shelf: Mapped[str] = mapped_column(String(64))
    members: Mapped[str] = mapped_column(String(64))
    least_sd: Mapped[float] = mapped_column(Double)
    loudness: Mapped[float] = mapped_column(Double)
    noise: Mapped[str] = mapped_column(Text)
    summary: Mapped[str] = mapped_column(Text)


class ColumnHoldersRow(Base):
    """The releases of a kind and a collection that hold a column: a bit for each sequence of a chunk.

    They are hexadecimal digits. That they are digits PostgreSQL tells, and whoever reads them.
    """

    __tablename__ = "column_holders"
    __table_args__ = (CheckConstraint(f"length(bits) BETWEEN 1 AND {CHUNK // 4}", name="digits"),)

    collection: Mapped[str] = mapped_column(String(80), primary_key=True)
    kind: Mapped[str] = mapped_column(String(NAME_MAX), primary_key=True)
    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    chunk: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    bits: Mapped[str] = mapped_column(Text)


class AnswerSpaceRow(Base):
    """Bytes of answers that were stored for an analyst, of one population."""

    __tablename__ = "answer_space"

    population: Mapped[str] = mapped_column(ForeignKey("populations.name"), primary_key=True)
    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"), primary_key=True)
    bytes: Mapped[int] = mapped_column(BigInteger)


class KeyCountRow(Base):
    """New keys that a principal used on its last day with new keys."""

    __tablename__ = "key_counts"

    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"), primary_key=True)
    day: Mapped[str] = mapped_column(String(10))
    keys: Mapped[int] = mapped_column(BigInteger)


class IdempotencyKeyRow(Base):
    """A key that a principal used, the digest of what it asked, and the answer that it got or waits for. Never pruned.

    The answer is a release, or what an entry of a chain states: `population` and `sequence`. A key with an answer never
    changes; one whose reservation was voided is open to the same request.
    """

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        Index("ix_idempotency_keys_release_id", "release_id"),
        Index("ix_idempotency_keys_reservation_id", "reservation_id"),
        {"sqlite_with_rowid": False},
    )

    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"), primary_key=True)
    key: Mapped[str] = mapped_column(String(128), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(80))
    release_id: Mapped[str | None] = mapped_column(ForeignKey("releases.id", deferrable=True, initially="DEFERRED"))
    reservation_id: Mapped[str | None] = mapped_column(
        ForeignKey("reservations.id", deferrable=True, initially="DEFERRED")
    )
    population: Mapped[str | None] = mapped_column(String(63))
    sequence: Mapped[int | None] = mapped_column(BigInteger)
