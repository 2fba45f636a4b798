"""Tables of threshold sessions."""

from sqlalchemy import BigInteger, ForeignKey, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.kit.db import Base


class SessionRow(Base):
    """A session and the place of its opening entry, which says all else of it."""

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    population: Mapped[str] = mapped_column(ForeignKey("populations.name"))
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"), index=True)
    sequence: Mapped[int] = mapped_column(BigInteger)


class SessionNoiseRow(Base):
    """The noise of a session's threshold, encrypted. It is in no backup: a session does not outlive its database."""

    __tablename__ = "session_noise"

    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"), primary_key=True)
    key_id: Mapped[str] = mapped_column(String(40))
    sealed: Mapped[str] = mapped_column(Text)


class SessionQuestionRow(Base):
    """A question as it was asked; the entry of its answer has its digest."""

    __tablename__ = "session_questions"

    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    sequence: Mapped[int] = mapped_column(BigInteger)
    question: Mapped[str] = mapped_column(Text)
