"""Tables of the dashboard."""

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from curator_service.kit.db import Base


class BrowserSessionRow(Base):
    """A session of a browser: the hash of its id, never the id.

    `token_id` is that of the token that it began with, and ends with; empty where somebody signed in elsewhere, at
    `issuer`.
    `kept` is a form, as JSON, that waits until somebody has signed in there again. `proof` authenticates all of it but
    `seen_at` under a secret of the private keys, so that no session begins with a row.
    """

    __tablename__ = "browser_sessions"

    id_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    principal_id: Mapped[str] = mapped_column(ForeignKey("principals.id"))
    token_id: Mapped[str] = mapped_column(String(32))
    began_at: Mapped[str] = mapped_column(String(32))
    seen_at: Mapped[str] = mapped_column(String(32))
    confirmed_at: Mapped[str] = mapped_column(String(32))
    ends_at: Mapped[str] = mapped_column(String(32))
    issuer: Mapped[str] = mapped_column(String(255), default="", server_default="")
    kept: Mapped[str] = mapped_column(Text, default="", server_default="")
    proof: Mapped[str] = mapped_column(String(64), default="", server_default="")


class SignInRow(Base):
    """A sign-in at an identity provider that an answer came for: the hash of its secret, never the secret."""

    __tablename__ = "sign_ins"

    id_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    began_at: Mapped[str] = mapped_column(String(32), index=True)
