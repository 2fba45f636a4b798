"""Sessions of browsers: who has signed in, for how long, and when that was proved last.

The browser has the id of its session, 32 random bytes, in a cookie; the database has the id's hash. A session began
with something that says who somebody is (`Entrance`), ends when that ends, and holds nothing of it.
"""

import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus

from curator_service.dashboard import repository
from curator_service.dashboard.repository import SessionRecord
from curator_service.identity.repository import Principal
from curator_service.identity.service import AuthenticationRequired, IdentityService
from curator_service.identity.tokens import parse_token
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import DATABASE_ERRORS, Database
from curator_service.kit.problems import Problem

IDLE, LIFETIME, FRESH = timedelta(minutes=30), timedelta(hours=8), timedelta(minutes=5)
SEEN_EVERY = timedelta(minutes=1)
"""A page is no reason to write: a session that was seen so lately is not noted again."""
_ID_CHARACTERS = 43
"""Of 32 bytes in base64."""


class SignInRefused(Problem):
    """What was entered is not a valid token, or not one of whoever has the session."""

    slug = "authentication-required"
    status = HTTPStatus.FORBIDDEN
    title = "This token does not let you in"


@dataclass(frozen=True, slots=True)
class Entrance:
    """Who somebody is, and how that is known.

    An identity provider's word makes one, too: with an empty `token_id`, and its own end.

    Attributes
    ----------
    principal : Principal
    token_id : str
    expires_at : str
    """

    principal: Principal
    token_id: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A session that holds now.

    Attributes
    ----------
    id : str
        What the cookie says.
    principal : Principal
        As it is now: with the roles of this moment.
    is_fresh : bool
        Whether the token was entered within the last minutes.
    ends_at : str
    """

    id: str
    principal: Principal
    is_fresh: bool
    ends_at: str

    def __repr__(self) -> str:
        """Hide the id."""
        return f"BrowserSession({self.principal.name})"

    @property
    def form_token(self) -> str:
        """What each of its forms holds, and no other page can know."""
        return form_token(self.id)


def form_token(secret: str) -> str:
    """Return what the forms of whoever has a secret cookie hold: it tells nothing of the cookie."""
    return hmac.new(secret.encode(), b"curator-form:1", hashlib.sha256).hexdigest()


def matches(secret: str, sent: str) -> bool:
    """Compare what a form holds, in constant time."""
    return hmac.compare_digest(form_token(secret).encode(), sent.encode())


class BrowserSessions:
    """Begins sessions, finds them, and ends them.

    Parameters
    ----------
    database : Database
    identity : IdentityService
    now : callable
        The clock.
    """

    def __init__(self, database: Database, identity: IdentityService, now: Clock) -> None:
        self.database = database
        self.identity = identity
        self.now = now

    def enter(self, text: str) -> Entrance:
        """Return whom a token that was entered is of.

        Raises
        ------
        SignInRefused
        """
        try:
            self.identity.authenticate(f"Bearer {text}")
        except AuthenticationRequired:
            record = None
        else:
            token = parse_token(text)
            record = None if token is None else self.identity.find_valid(token.id)
        if record is None:
            raise SignInRefused("The token is not one of this curator's, or has expired or was revoked.")
        return Entrance(record.principal, record.id, record.expires_at)

    def begin(self, entrance: Entrance) -> BrowserSession:
        """Begin a session, under an id that nobody has had before."""
        session_id, moment = secrets.token_urlsafe(32), self.now()
        now, ends_at = timestamp(moment), min(timestamp(moment + LIFETIME), entrance.expires_at)
        record = SessionRecord(_hash(session_id), entrance.principal.id, entrance.token_id, now, now, now, ends_at)
        with self.database.begin() as connection:
            repository.sweep_sessions(connection, now, timestamp(moment - IDLE))
            repository.insert_session(connection, record)
        return BrowserSession(session_id, entrance.principal, True, ends_at)

    def find(self, session_id: str) -> BrowserSession | None:
        """Return a session that holds now, and note that it is in use; None for any other text."""
        if len(session_id) != _ID_CHARACTERS:
            return None
        with self.database.read() as connection:
            record = repository.find_session(connection, _hash(session_id))
        moment = self.now()
        if record is None or timestamp(moment) >= record.ends_at or _since(record.seen_at, moment) >= IDLE:
            return None
        token = self.identity.find_valid(record.token_id)
        if token is None or token.principal.id != record.principal_id:
            return None
        if _since(record.seen_at, moment) >= SEEN_EVERY:
            # A database that cannot be written can be looked at: why it cannot may stand on the page.
            with suppress(*DATABASE_ERRORS), self.database.begin() as connection:
                repository.see_session(connection, record.id_hash, timestamp(moment))
        is_fresh = _since(record.confirmed_at, moment) < FRESH
        return BrowserSession(session_id, token.principal, is_fresh, record.ends_at)

    def confirm(self, session: BrowserSession, text: str) -> None:
        """Note that whoever has a session has entered a token of theirs again.

        Raises
        ------
        SignInRefused
        """
        if self.enter(text).principal.id != session.principal.id:
            raise SignInRefused("The token is somebody else's.")
        with self.database.begin() as connection:
            repository.confirm_session(connection, _hash(session.id), timestamp(self.now()))

    def end(self, session_id: str) -> None:
        """End a session: its id is good for nothing any more."""
        with self.database.begin() as connection:
            repository.end_session(connection, _hash(session_id))


def _hash(session_id: str) -> str:
    """Return what is stored: SHA-256 suffices for an id that nobody can guess."""
    return hashlib.sha256(session_id.encode()).hexdigest()


def _since(stated: str, moment: datetime) -> timedelta:
    return moment - datetime.fromisoformat(stated)
