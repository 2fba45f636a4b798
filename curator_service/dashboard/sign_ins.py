"""Signing in at an identity provider: a sign-in that a browser begins here, and the answer with which it comes back.

A sign-in that has begun is a cookie of its browser, which the curator has authenticated: whoever begins many makes
nothing grow, and writes nothing. The database gets the hash of its secret when an answer comes, so that it is good
once, in whatever process.
"""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta

from curator_service.dashboard import repository
from curator_service.dashboard.sessions import (
    SKEW,
    BrowserSession,
    BrowserSessions,
    Entrance,
    SignInRefused,
    hash_of,
    is_within,
    new_secret,
)
from curator_service.identity.oidc.code_flow import Transaction
from curator_service.identity.oidc.faults import WORDS, Fault, TokenFault, log_fault
from curator_service.identity.service import IdentityError, IdentityService, SignedIn
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import Database

LIFE = timedelta(minutes=10)
USED_MAX = 10_000
"""Sign-ins of the last minutes that an answer came for: each is a row. The oldest gives way to one that began later."""
NEXT_MAX = 2048
"""Characters of an address to go on to, as JSON: browsers keep no cookie of more than 4096."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Members of a provider's answer, not yet checked; empty where a member is not there once.

    Attributes
    ----------
    state, code, issuer, error : str
    """

    state: str
    code: str
    issuer: str
    error: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that has begun, as the browser keeps it.

    Attributes
    ----------
    secret : str
        From which everything that is asked of the provider is derived.
    provider : str
    began_at : str
    session_hash : str
        Of the session whose holder signs in again; empty for somebody who has none.
    next_address : str
    """

    secret: str = field(repr=False)
    provider: str
    began_at: str
    session_hash: str
    next_address: str


class ProviderSignIns:
    """Begins sign-ins at providers, and makes sessions of their answers.

    Parameters
    ----------
    now : callable
        The clock.
    public_url : str
        Where browsers reach this curator; nothing else says where a provider sends them back to.
    """

    def __init__(
        self,
        database: Database,
        identity: IdentityService,
        sessions: BrowserSessions,
        now: Clock,
        public_url: str,
    ) -> None:
        self.database, self.identity, self.sessions = database, identity, sessions
        self.now, self.public_url = now, public_url

    def list_names(self) -> list[str]:
        """Return the providers at which somebody can sign in with a browser."""
        providers = self.identity.providers
        return [] if providers is None else list(providers.browser_clients().values())

    def name_of(self, issuer: str) -> str:
        """Return the name of a provider at which somebody can sign in; empty if there is none."""
        providers = self.identity.providers
        return "" if providers is None else providers.browser_clients().get(issuer, "")

    def find_fault(self, name: str) -> str:
        """Say why nobody can sign in at a provider, as far as it describes itself; empty where it can be tried."""
        providers = self.identity.providers
        return "" if providers is None else providers.find_fault(name)

    def redirect_uri(self, name: str) -> str:
        """Return where a provider sends browsers back to: each to its own, so that none answers for another."""
        return f"{self.public_url}/admin/sign-in/{name}/callback"

    def begin(self, name: str, next_address: str, session: BrowserSession | None = None) -> tuple[str, str]:
        """Begin a sign-in, of which nothing is kept here.

        Parameters
        ----------
        name : str
            Of the provider.
        next_address : str
            Where to go on to afterwards, within the dashboard.
        session : BrowserSession, optional
            Of somebody who proves anew who that is.

        Returns
        -------
        str
            Where the browser signs in.
        str
            What it keeps in a cookie meanwhile.

        Raises
        ------
        SignInRefused
            If nobody can sign in there with a browser.
        Unavailable
            If the provider does not answer.
        """
        if name not in self.list_names():
            raise SignInRefused("There is no identity provider of this name at which to sign in.")
        assert self.identity.providers is not None
        session_hash = "" if session is None else hash_of(session.id)
        next_address = next_address if len(json.dumps(next_address)) <= NEXT_MAX else "/admin"
        begun = Begun(new_secret(), name, timestamp(self.now()), session_hash, next_address)
        transaction = Transaction(begun.secret, self.redirect_uri(name))
        address = self.identity.providers.begin(name, transaction, anew=session is not None)
        return address, self._write(begun)

    def find_session(self, cookie: str) -> str:
        """Return the hash of the session whose holder signs in again; empty where nobody does."""
        begun = self._read(cookie)
        return "" if begun is None else begun.session_hash

    def complete(self, name: str, cookie: str, answer: Answer) -> tuple[BrowserSession | None, str]:
        """Begin a session after a provider's answer, or confirm the one that there is.

        Parameters
        ----------
        name : str
            Of the provider whose answer it seems to be.
        cookie : str
            What the browser kept.

        Returns
        -------
        BrowserSession or None
            A new one; None where there was one before.
        str
            Where to go on to.

        Raises
        ------
        SignInRefused
        Unavailable
            If the provider does not answer.
        LedgerUnverified
            If somebody new comes under a seal.
        """
        begun = self._read(cookie)
        if begun is None or not self._is_answer(begun, name, answer.state):
            raise SignInRefused(_NOT_BEGUN)
        if answer.error:
            raise SignInRefused(f"You were not signed in at {name}: it says so, or you turned back.")
        self._use(begun)
        assert self.identity.providers is not None
        began, transaction = datetime.fromisoformat(begun.began_at), Transaction(begun.secret, self.redirect_uri(name))
        try:
            found = self.identity.providers.complete(name, transaction, answer.code, answer.issuer, began)
        except TokenFault as error:
            error.provider = name
            log_fault(error)
            words = WORDS[error.fault] if error.is_signed else "Begin again; the log may say more."
            raise SignInRefused(f"What {name} answered does not hold. {words}") from None
        if begun.session_hash:
            self._confirm(begun, found)
            return None, begun.next_address
        entrance = self._admit(name, found)
        return self.sessions.begin(entrance), begun.next_address

    def _write(self, begun: Begun) -> str:
        """Return a sign-in as a cookie: whoever changes it has none."""
        text = urlsafe_b64encode(json.dumps(astuple(begun)).encode()).decode()
        return f"{text}.{self.sessions.proofs.prove(_COOKIE, [text])}"

    def _read(self, cookie: str) -> Begun | None:
        """Return the sign-in of a cookie that was made here, however long ago; None for any other text.

        The text is authenticated before it is read: one of somebody else's could be a burden to read.
        """
        text, _, proof = cookie.partition(".")
        if not self.sessions.proofs.holds(_COOKIE, [text], proof):
            return None
        return Begun(*json.loads(urlsafe_b64decode(text)))

    def _is_answer(self, begun: Begun, name: str, state: str) -> bool:
        """Tell whether an answer with a state, at the address of a provider, is one to this sign-in, and in time."""
        transaction = Transaction(begun.secret, self.redirect_uri(name))
        return (
            begun.provider == name
            and is_within(begun.began_at, self.now(), LIFE)
            and name in self.list_names()
            and hmac.compare_digest(state.encode(), transaction.state.encode())
        )

    def _use(self, begun: Begun) -> None:
        """Note that an answer came: no other one is taken.

        Raises
        ------
        SignInRefused
            If one came before.
        """
        with self.database.begin() as connection:
            is_full = repository.sweep_sign_ins(connection, timestamp(self.now() - LIFE - SKEW)) >= USED_MAX
            # One that began no later than those that are left may be among those that gave way.
            if is_full and not repository.drop_sign_in_before(connection, begun.began_at):
                raise SignInRefused(_NOT_BEGUN)
            if not repository.use_sign_in(connection, hash_of(begun.secret), begun.began_at):
                raise SignInRefused(_NOT_BEGUN)

    def _admit(self, name: str, found: SignedIn) -> Entrance:
        if not found.principal.roles:
            fault = found.fault or Fault.GROUPS_UNMAPPED
            log_fault(TokenFault(fault, name))
            raise SignInRefused(
                f"You signed in at {name}, and no group of yours there has a role here. Nothing was kept of you. "
                f"{WORDS[fault]}"
            )
        try:
            principal = self.identity.admit(found.principal, found.told_at, found.recognition, found.stated)
        except IdentityError as error:
            log_fault(TokenFault(Fault.NAME, name))
            raise SignInRefused(WORDS[Fault.NAME]) from error
        known = self.identity.find_vouched(principal.id)
        # A session has the roles of the register, which is not written under a seal.
        if known is None or not known.roles <= found.principal.roles:
            raise SignInRefused("Your groups have changed, and that cannot be noted now. Try again later.")
        return Entrance(principal, "", found.expires_at, found.is_anew)

    def _confirm(self, begun: Begun, found: SignedIn) -> None:
        """Note that the holder of a session proved anew who that is, unless it was somebody else, or not anew."""
        holder = self.sessions.find_holder(begun.session_hash)
        if holder is None:
            raise SignInRefused("Your session here has ended meanwhile. Sign in, and fill in the form again.")
        if not self.identity.is_of(found.principal.id, holder.id):
            raise SignInRefused("Somebody else signed in than whose session it is. Nothing was done.")
        if not found.principal.roles:
            self.sessions.end_by_hash(begun.session_hash)
        self._admit(begun.provider, found)
        if not found.is_anew:
            raise SignInRefused(
                f"{begun.provider} did not ask you anew who you are, or does not say when it did. Nothing was done."
            )
        self.sessions.confirm_by_hash(begun.session_hash)


_COOKIE = "sign-in"
"""Proves no row of a table."""
_NOT_BEGUN = (
    "This is not the answer to a sign-in that this browser has begun here within "
    f"{LIFE // timedelta(minutes=1)} minutes, or it was used before. Begin again."
)
