"""Tables of the ledger."""

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, Integer, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.kit.db import Base

SEAL_ID = 1
"""The seal has one row."""


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
    highest_limit_units: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    posted_units: Mapped[int] = mapped_column(BigInteger, default=0)
    pending_units: Mapped[int] = mapped_column(BigInteger, default=0)
    head_sequence: Mapped[int] = mapped_column(BigInteger, default=0)
    head_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[str] = mapped_column(String(32))
    epoch: Mapped[int] = mapped_column(Integer, default=1, server_default="1")


class ShareRow(Base):
    """The share of one permit in an account, and its end; it is locked after the account.

    `expires_at` is empty for a permit without an end; a permit that was ended has the moment in which it was.
    """

    __tablename__ = "shares"
    __table_args__ = (
        CheckConstraint("posted_units >= 0 AND pending_units >= 0", name="amounts_not_negative"),
        CheckConstraint("limit_units IS NULL OR posted_units + pending_units <= limit_units", name="within_limit"),
    )

    population: Mapped[str] = mapped_column(ForeignKey("populations.name"), primary_key=True)
    permit_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    limit_units: Mapped[int | None] = mapped_column(BigInteger)
    expires_at: Mapped[str] = mapped_column(String(32), default="", server_default="")
    posted_units: Mapped[int] = mapped_column(BigInteger, default=0)
    pending_units: Mapped[int] = mapped_column(BigInteger, default=0)


class SpendingRow(Base):
    """The sum of the chain's charges of a month, by principal, permit, project, dataset and kind."""

    __tablename__ = "spending"

    population: Mapped[str] = mapped_column(ForeignKey("populations.name"), primary_key=True)
    month: Mapped[str] = mapped_column(String(7), primary_key=True)
    principal_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    permit_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    project: Mapped[str] = mapped_column(String(63), primary_key=True)
    dataset: Mapped[str] = mapped_column(String(63), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    charges: Mapped[int] = mapped_column(BigInteger)
    units: Mapped[int] = mapped_column(BigInteger)


FREQUENT_KINDS = ("charge", "reserve", "void", "derive")
"""Kinds of entries of which a chain has many: one or more for each release."""
IS_RARE = " AND ".join(f'payload NOT LIKE \'%"kind":"{kind}"%\'' for kind in FREQUENT_KINDS)
"""Of entries of other kinds, as SQL: an index leads to them, however many lie between."""
IS_ANSWER = 'payload LIKE \'%"kind":"answer"%\''
"""Of these, answers of threshold sessions."""


class LedgerEntryRow(Base):
    """One entry of a population's chain: everything it says is in `payload`, which `entry_hash` covers."""

    __tablename__ = "ledger_entries"
    __table_args__ = (
        Index(
            "ix_ledger_entries_rare",
            "population",
            "sequence",
            sqlite_where=text(IS_RARE),
            postgresql_where=text(IS_RARE),
        ),
    )

    population: Mapped[str] = mapped_column(ForeignKey("populations.name"), primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    payload: Mapped[str] = mapped_column(Text)
    entry_hash: Mapped[str] = mapped_column(String(64))
    signature: Mapped[str] = mapped_column(String(88), server_default="")


class SigningKeyRow(Base):
    """A public key of the curator, endorsed by the one before; there is one first, and one after each."""

    __tablename__ = "signing_keys"

    key_id: Mapped[str] = mapped_column(String(40), primary_key=True)
    public_key: Mapped[str] = mapped_column(String(44))
    created_at: Mapped[str] = mapped_column(String(32))
    previous: Mapped[str] = mapped_column(String(40), unique=True)
    endorsement: Mapped[str] = mapped_column(String(88))


class SealRow(Base):
    """The one row that says whether releases are refused, and why: an empty reason means that they are not."""

    __tablename__ = "seal"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    reason: Mapped[str] = mapped_column(Text)
    sealed_at: Mapped[str] = mapped_column(String(32))


class ReservationRow(Base):
    """An amount that is held: for a job until it posts, or for an analyst until its time is over.

    `study_id` is `Reservation.drawn_from`, in a column that keeps its first name.

    `state` is ``open`` or ``closed``; a closed one never opens again, so its id is the fence of whoever works on it.
    """

    __tablename__ = "reservations"
    __table_args__ = (
        CheckConstraint("drawn_units >= 0 AND drawn_units <= units", name="drawn_within"),
        Index("ix_reservations_study_id", "study_id"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    population: Mapped[str] = mapped_column(ForeignKey("populations.name"))
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"))
    permit_id: Mapped[str] = mapped_column(String(32), default="", server_default="")
    project: Mapped[str] = mapped_column(String(63))
    study_id: Mapped[str | None] = mapped_column(ForeignKey("reservations.id"))
    units: Mapped[int] = mapped_column(BigInteger)
    drawn_units: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(16), index=True)
    outcome: Mapped[str] = mapped_column(String(16))
    request_digest: Mapped[str] = mapped_column(String(64), index=True)
    details: Mapped[str] = mapped_column(Text)
    owner: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[str] = mapped_column(String(32))
    expires_at: Mapped[str] = mapped_column(String(32))
    sequence: Mapped[int] = mapped_column(BigInteger)


class WorkerRow(Base):
    """A process that works on jobs; its beat grows while it lives."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    beat: Mapped[int] = mapped_column(BigInteger)


class ProposalRow(Base):
    """A proposal for the approval of a second person: a raised limit, a permit, rows of other people.

    `content` is a permit's terms, as JSON; `decision` is why it was approved or rejected.
    """

    __tablename__ = "proposals"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    population: Mapped[str] = mapped_column(String(63))
    scope: Mapped[str] = mapped_column(String(16))
    label: Mapped[str] = mapped_column(String(63))
    limit_units: Mapped[int] = mapped_column(BigInteger)
    from_units: Mapped[int] = mapped_column(BigInteger)
    reason: Mapped[str] = mapped_column(Text)
    content: Mapped[str] = mapped_column(Text, default="", server_default="")
    decision: Mapped[str] = mapped_column(Text, default="", server_default="")
    proposed_by: Mapped[str] = mapped_column(ForeignKey("principals.id"))
    proposed_at: Mapped[str] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(16))
    decided_by: Mapped[str | None] = mapped_column(ForeignKey("principals.id"))
    decided_at: Mapped[str | None] = mapped_column(String(32))
