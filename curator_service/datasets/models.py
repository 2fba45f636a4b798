"""Tables of datasets."""

from sqlalchemy import BigInteger, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.db import Base


class DatasetRow(Base):
    """A registered dataset: its manifest, and its snapshot's digests, which never leave the curator."""

    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(63), unique=True)
    population: Mapped[str] = mapped_column(ForeignKey("populations.name"))
    manifest: Mapped[str] = mapped_column(Text)
    row_count: Mapped[int] = mapped_column(BigInteger)
    lattice_digest: Mapped[str] = mapped_column(String(64))
    snapshot_nonce: Mapped[str] = mapped_column(String(64))
    snapshot_commitment: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[str] = mapped_column(String(32))


class SnapshotRow(Base):
    """Which population a file or a lattice belongs to, for good: its key decides between two registrations."""

    __tablename__ = "snapshots"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    population: Mapped[str] = mapped_column(ForeignKey("populations.name"))
