"""Tables of the dashboard."""

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.kit.db import Base


class BrowserSessionRow(Base):
    """A session of a browser: the hash of its id, never the id.

    `token_id` is that of the token that it began with, and ends with; empty where somebody signed in elsewhere.
    """

    __tablename__ = "browser_sessions"

    id_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"))
    token_id: Mapped[str] = mapped_column(String(32))
    began_at: Mapped[str] = mapped_column(String(32))
    seen_at: Mapped[str] = mapped_column(String(32))
    confirmed_at: Mapped[str] = mapped_column(String(32))
    ends_at: Mapped[str] = mapped_column(String(32))
