"""Tables of surveys. None leads from a report to who gave it."""

from sqlalchemy import BigInteger, ForeignKey, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.kit.db import Base

_BY_KEY = {"sqlite_with_rowid": False}
"""Rows lie by their keys, and not in the order in which they came."""


class SurveyRow(Base):
    """A survey: the place of its entry in the register, which says all but the question's text."""

    __tablename__ = "surveys"

    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger)
    question: Mapped[str] = mapped_column(Text)
    reports: Mapped[int] = mapped_column(Integer)
    closed_at: Mapped[str] = mapped_column(String(32))


class SurveyReportRow(Base):
    """A report, as it was given: nothing of its time or origin."""

    __tablename__ = "survey_reports"
    __table_args__ = (_BY_KEY,)

    survey: Mapped[str] = mapped_column(ForeignKey("surveys.name"), primary_key=True)
    token: Mapped[str] = mapped_column(String(32), primary_key=True)
    answer: Mapped[str] = mapped_column(Text)


class UsedInvitationRow(Base):
    """An invitation that came with a report, by a code: only who has the curator's keys knows of which it is."""

    __tablename__ = "used_invitations"
    __table_args__ = (_BY_KEY,)

    survey: Mapped[str] = mapped_column(ForeignKey("surveys.name"), primary_key=True)
    code: Mapped[str] = mapped_column(String(32), primary_key=True)
