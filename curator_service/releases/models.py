"""Tables of releases."""

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.db import Base


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
        Index("ix_releases_dataset_request", "dataset_id", "request_digest"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    population: Mapped[str] = mapped_column(String(63))
    sequence: Mapped[int] = mapped_column(BigInteger)
    request_digest: Mapped[str] = mapped_column(String(64))
    answer: Mapped[str] = mapped_column(Text)


class IdempotencyKeyRow(Base):
    """A key that a principal used, the digest of what it asked, and the answer that it got or waits for. Never pruned.

    A key with an answer never changes; one whose reservation was voided is open to the same request.
    """

    __tablename__ = "idempotency_keys"
    __table_args__ = (
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
