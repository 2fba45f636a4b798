"""Sessions of browsers: who has signed in, for how long, and when that was proved last.

The browser has the id of its session, 32 random bytes, in a cookie; the database has the id's hash. A session began
with something that says who somebody is (`Entrance`), ends when that ends, and holds nothing of it. Its row is
proved by a secret that is not in the database: whoever may write there, and has no key, makes and changes no session.
"""

import hashlib
import hmac
import json
import secrets
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import ClassVar

from curator_service.dashboard import repository
from curator_service.dashboard.proofs import RowProofs
from curator_service.dashboard.repository import SessionRecord
from curator_service.identity.repository import Principal
from curator_service.identity.service import AuthenticationRequired, IdentityService
from curator_service.identity.tokens import parse_token
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import DATABASE_ERRORS, Database

IDLE, LIFETIME, FRESH = timedelta(minutes=30), timedelta(hours=8), timedelta(minutes=5)
NEVER = "1970-01-01T00:00:00Z"
SKEW = timedelta(minutes=1)
"""How far clocks of several machines may differ: what a row says of later is not believed."""
SESSIONS_MAX = 20
"""Of one principal; the oldest ends where another one begins."""
SEEN_EVERY = timedelta(minutes=1)
"""A page is no reason to write: a session that was seen so lately is not noted again."""
_TABLE = "browser_sessions"
_SECRET_BYTES, _ID_CHARACTERS = 32, 43
"""Of a cookie's secret; base64 writes so many bytes with so many characters."""


class SignInRefused(AuthenticationRequired):
    """Refusal of a sign-in: no valid identity, or not the identity of the session."""

    status = HTTPStatus.FORBIDDEN
    title = "This does not let you in"
    default_headers: ClassVar = {}


@dataclass(frozen=True, slots=True)
class Entrance:
    """Identity of a caller, and its proof.

    An identity provider's word makes one, too: with an empty `token_id`, and its own end.

    Attributes
    ----------
    principal : Principal
    token_id : str
    expires_at : str
    is_fresh : bool
        Whether it was proved just now: a provider may know somebody since the morning.
    """

    principal: Principal
    token_id: str
    expires_at: str
    is_fresh: bool = True


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
        Whether the token was entered, or the provider's sign-in done anew, within the last minutes.
    ends_at : str
    by_token : bool
        Whether it began with a token, and not at a provider.
    """

    id: str
    principal: Principal
    is_fresh: bool
    ends_at: str
    by_token: bool = True

    def __repr__(self) -> str:
        """Hide the id."""
        return f"BrowserSession({self.principal.name})"

    @property
    def form_token(self) -> str:
        """Token that each of its forms holds, and no other page can know."""
        return form_token(self.id)


@dataclass(frozen=True, slots=True)
class KeptForm:
    """A form that is sent once whoever filled it in has signed in again, and has seen it again.

    Attributes
    ----------
    address : str
        Where it is sent to.
    act : str
        What it does, in words.
    about : list of (str, str)
        What it does that to, where the form does not say it: names and texts.
    fields : list of (str, str)
    """

    address: str
    act: str
    about: list[tuple[str, str]]
    fields: list[tuple[str, str]]


def form_token(secret: str) -> str:
    """Return the token for the forms of a secret cookie: it tells nothing of the cookie."""
    return hmac.new(secret.encode(), b"curator-form:1", hashlib.sha256).hexdigest()


def matches(secret: str, sent: str) -> bool:
    """Compare what a form holds, in constant time."""
    return hmac.compare_digest(form_token(secret).encode(), sent.encode())


class BrowserSessions:
    """Begins sessions, finds them, and ends them.

    Parameters
    ----------
    now : callable
        The clock.
    """

    def __init__(self, database: Database, identity: IdentityService, now: Clock, proofs: RowProofs) -> None:
        self.database = database
        self.identity = identity
        self.now = now
        self.proofs = proofs

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
        session_id, moment, principal = new_secret(), self.now(), entrance.principal
        now, ends_at = timestamp(moment), min(timestamp(moment + LIFETIME), entrance.expires_at)
        proved = now if entrance.is_fresh else NEVER
        issuer = "" if entrance.token_id else principal.issuer
        record = SessionRecord(hash_of(session_id), principal.id, entrance.token_id, now, now, proved, ends_at, issuer)
        record = self._prove(record)
        with self.database.begin() as connection:
            repository.sweep_sessions(connection, now, timestamp(moment - IDLE))
            repository.keep_newest_sessions(connection, principal.id, SESSIONS_MAX - 1)
            repository.insert_session(connection, record)
        return BrowserSession(session_id, principal, entrance.is_fresh, ends_at, bool(entrance.token_id))

    def find(self, session_id: str) -> BrowserSession | None:
        """Return a session that holds now, and note that it is in use; None for any other text."""
        if len(session_id) != _ID_CHARACTERS:
            return None
        moment = self.now()
        found = self._find(hash_of(session_id), moment)
        if found is None:
            return None
        record, principal = found
        if not is_within(record.seen_at, moment, SEEN_EVERY):
            # A database that cannot be written can be looked at: why it cannot may stand on the page.
            with suppress(*DATABASE_ERRORS), self.database.begin() as connection:
                repository.see_session(connection, record.id_hash, timestamp(moment))
        is_fresh = is_within(record.confirmed_at, moment, FRESH)
        return BrowserSession(session_id, principal, is_fresh, record.ends_at, bool(record.token_id))

    def confirm(self, session: BrowserSession, text: str) -> None:
        """Note that whoever has a session has entered a token of theirs again, which may do no less.

        Raises
        ------
        SignInRefused
        """
        entered, holder = self.enter(text).principal, session.principal
        if entered.id != holder.id:
            raise SignInRefused("The token is somebody else's.")
        if not entered.roles >= holder.roles or (entered.read_only and not holder.read_only):
            raise SignInRefused("The token may do less than the one with which the session began.")
        self.confirm_by_hash(hash_of(session.id))

    def end(self, session_id: str) -> None:
        """End a session, even one that does not hold now; an id that anybody made up writes nothing."""
        id_hash = hash_of(session_id)
        with self.database.read() as connection:
            is_there = repository.find_session(connection, id_hash) is not None
        if is_there:
            self.end_by_hash(id_hash)

    # --- Of a provider's answer, with which a browser does not send the session's cookie: its hash was noted before

    def find_holder(self, id_hash: str) -> Principal | None:
        """Return who has a session that holds now, by the hash of its id."""
        found = self._find(id_hash, self.now())
        return None if found is None else found[1]

    def confirm_by_hash(self, id_hash: str) -> None:
        """Note that the holder of a session has proved the identity anew."""
        self._change(id_hash, confirmed_at=timestamp(self.now()))

    def end_by_hash(self, id_hash: str) -> None:
        """End a session."""
        with self.database.begin() as connection:
            repository.end_session(connection, id_hash)

    # --- A form that waits

    def keep(self, session: BrowserSession, form: KeptForm) -> None:
        """Keep a form until whoever has the session has signed in again; one that was kept before is forgotten."""
        self._change(hash_of(session.id), kept=json.dumps(asdict(form)))

    def forget_kept(self, session: BrowserSession) -> None:
        """Forget the form that waits: it was done."""
        self._change(hash_of(session.id), kept="")

    def find_kept(self, session: BrowserSession) -> KeptForm | None:
        """Return the form that waits, or None."""
        with self.database.read() as connection:
            record = repository.find_session(connection, hash_of(session.id))
        # The row is read anew, so it is held against its proof anew.
        if record is None or not record.kept or not self._is_proved(record):
            return None
        return KeptForm(**json.loads(record.kept))

    def _change(self, id_hash: str, **changes: str) -> None:
        with self.database.begin() as connection:
            record = repository.find_session(connection, id_hash)
            if record is not None and self._is_proved(record):
                repository.change_session(connection, self._prove(replace(record, **changes)))

    def _prove(self, record: SessionRecord) -> SessionRecord:
        """Return a row with what proves it.

        Raises
        ------
        Unavailable
            If the private keys are not here.
        """
        return replace(record, proof=self.proofs.prove(_TABLE, _said(record)))

    def _is_proved(self, record: SessionRecord) -> bool:
        return self.proofs.holds(_TABLE, _said(record), record.proof)

    def _find(self, id_hash: str, moment: datetime) -> tuple[SessionRecord, Principal] | None:
        with self.database.read() as connection:
            record = repository.find_session(connection, id_hash)
        if record is None or not self._is_proved(record):
            return None
        is_now = is_within(record.began_at, moment, LIFETIME) and is_within(record.seen_at, moment, IDLE)
        if not is_now or timestamp(moment) >= record.ends_at:
            return None
        if not record.token_id:
            principal = self.identity.find_vouched(record.principal_id)
            # Not at another one, whatever the row of the person says by now.
            return None if principal is None or principal.issuer != record.issuer else (record, principal)
        token = self.identity.find_valid(record.token_id)
        if token is None or token.principal.id != record.principal_id:
            return None
        return record, token.principal


def new_secret() -> str:
    """Return what nobody can guess, as a cookie takes it."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def hash_of(session_id: str) -> str:
    """Return what is stored: SHA-256 suffices for an id that nobody can guess."""
    return hashlib.sha256(session_id.encode()).hexdigest()


def is_within(stated: str, moment: datetime, span: timedelta) -> bool:
    """Tell whether a moment is at most so long after one that a row states; what is no moment is none."""
    try:
        return -SKEW <= moment - datetime.fromisoformat(stated) < span
    except (ValueError, TypeError):
        return False


def _said(record: SessionRecord) -> tuple[str, ...]:
    # When it was seen last is written often, and gives nobody anything.
    return astuple(replace(record, seen_at="", proof=""))
