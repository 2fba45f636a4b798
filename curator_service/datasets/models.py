"""Tables of datasets."""

from sqlalchemy import BigInteger, ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.kit.db import Base


class DatasetRow(Base):
    """A registered dataset: its manifest, and the version that it has now.

    `folder` holds the rows of this version, and the nonce of `snapshot_commitment`; `sequence` is that of the entry
    which the version has in the ledger, 0 of a first one; `cut_at` is when it began, empty after a restore.
    """

    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(63), unique=True)
    population: Mapped[str] = mapped_column(ForeignKey("populations.name"))
    manifest: Mapped[str] = mapped_column(Text)
    snapshot_commitment: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[str] = mapped_column(String(32))
    folder: Mapped[str] = mapped_column(String(64))
    version: Mapped[int]
    sequence: Mapped[int] = mapped_column(BigInteger)
    cut_at: Mapped[str] = mapped_column(String(32))
    retired_at: Mapped[str] = mapped_column(String(32))
    successor: Mapped[str] = mapped_column(String(63))


class ChangeRow(Base):
    """A change of a dataset's rows: it waits for the next cut, or says which version it made."""

    __tablename__ = "changes"
    __table_args__ = (UniqueConstraint("dataset_id", "number"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    number: Mapped[int]
    act: Mapped[str] = mapped_column(String(16))
    content: Mapped[str] = mapped_column(Text)
    actor: Mapped[str] = mapped_column(String(100))
    asked_at: Mapped[str] = mapped_column(String(32))
    version: Mapped[int | None]


class SnapshotRow(Base):
    """The population of a file or a lattice: its keyed digest decides between two registrations.

    Each dataset that has it notes it, and forgets its own.
    """

    __tablename__ = "snapshots"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    population: Mapped[str] = mapped_column(ForeignKey("populations.name"))
    key_id: Mapped[str] = mapped_column(String(40))
    dataset_id: Mapped[str] = mapped_column(String(32), primary_key=True)


class SketchRow(Base):
    """The encrypted sketch of a dataset's people, to recognise them; its size follows from the manifest.

    Rows that were replaced keep theirs: of `version` is the first one that it is about.
    """

    __tablename__ = "sketches"

    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    key_id: Mapped[str] = mapped_column(String(40))
    sealed: Mapped[str] = mapped_column(Text)
