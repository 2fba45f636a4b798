"""Tables of the ledger."""

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.db import Base


class PopulationRow(Base):
    """A population and its account: one row, which every charge locks. Amounts are integers of 10⁻¹² µ²."""

    __tablename__ = "populations"
    __table_args__ = (
        CheckConstraint("posted_units >= 0 AND pending_units >= 0", name="amounts_not_negative"),
        CheckConstraint("posted_units + pending_units <= limit_units", name="within_limit"),
    )

    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    adjacency: Mapped[str] = mapped_column(String(16))
    accountant: Mapped[str] = mapped_column(String(16))
    delta: Mapped[str] = mapped_column(String(32))
    limit_units: Mapped[int] = mapped_column(BigInteger)
    posted_units: Mapped[int] = mapped_column(BigInteger, default=0)
    pending_units: Mapped[int] = mapped_column(BigInteger, default=0)
    head_sequence: Mapped[int] = mapped_column(BigInteger, default=0)
    head_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[str] = mapped_column(String(32))


class LedgerEntryRow(Base):
    """One entry of a population's chain: everything it says is in `payload`, which `entry_hash` covers."""

    __tablename__ = "ledger_entries"

    population: Mapped[str] = mapped_column(ForeignKey("populations.name"), primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    payload: Mapped[str] = mapped_column(Text)
    entry_hash: Mapped[str] = mapped_column(String(64))
