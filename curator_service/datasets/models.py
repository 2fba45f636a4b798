"""Tables of datasets."""

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.kit.db import Base


class DatasetRow(Base):
    """A registered dataset: its manifest, and a commitment to its snapshot, whose nonce lies beside the rows."""

    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(63), unique=True)
    population: Mapped[str] = mapped_column(ForeignKey("populations.name"))
    manifest: Mapped[str] = mapped_column(Text)
    snapshot_commitment: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[str] = mapped_column(String(32))


class SnapshotRow(Base):
    """Which population a file or a lattice belongs to, for good: its keyed digest decides between two registrations."""

    __tablename__ = "snapshots"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    population: Mapped[str] = mapped_column(ForeignKey("populations.name"))
    key_id: Mapped[str] = mapped_column(String(40))


class SketchRow(Base):
    """What a dataset's people are recognised by, encrypted; its size follows from the manifest."""

    __tablename__ = "sketches"

    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), primary_key=True)
    key_id: Mapped[str] = mapped_column(String(40))
    sealed: Mapped[str] = mapped_column(Text)


class UnkeyedRow(Base):
    """What an earlier version left of a dataset or a digest, until the curator starts with its keys and its rows."""

    __tablename__ = "unkeyed"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    content: Mapped[str] = mapped_column(Text)
