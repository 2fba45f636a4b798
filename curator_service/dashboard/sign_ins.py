"""Signing in at an identity provider: a sign-in that a browser begins here, and the answer with which it comes back.

The browser has the secret of its sign-in in a cookie. The database has the secret's hash, at which provider it began,
and when, so that it ends after minutes and is good once, in whatever process.
"""

import hmac
from dataclasses import astuple, dataclass, replace
from datetime import datetime, timedelta

from curator_service.dashboard import repository
from curator_service.dashboard.repository import SignInRecord
from curator_service.dashboard.sessions import (
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
from curator_service.kit.limiter import RateLimiter

LIFE = timedelta(minutes=10)
OPEN_MAX = 10_000
"""Sign-ins that wait for an answer: strangers begin them, and each is a row. The oldest gives way.

So whoever would keep the others out must begin that many in the minute in which somebody signs in, and not in ten.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider's answer says, of which each member may be anything; empty where it is not there once.

    Attributes
    ----------
    state, code, issuer, error : str
    """

    state: str
    code: str
    issuer: str
    error: str


class ProviderSignIns:
    """Begins sign-ins at providers, and makes sessions of their answers.

    Parameters
    ----------
    database : Database
    identity : IdentityService
    sessions : BrowserSessions
    now : callable
        The clock.
    rate : RateLimiter
        By address.
    public_url : str
        Where browsers reach this curator; nothing else says where a provider sends them back to.
    """

    def __init__(
        self,
        database: Database,
        identity: IdentityService,
        sessions: BrowserSessions,
        now: Clock,
        rate: RateLimiter,
        public_url: str,
    ) -> None:
        self.database, self.identity, self.sessions = database, identity, sessions
        self.now, self.rate, self.public_url = now, rate, public_url

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

    def begin(self, name: str, peer: str, next_address: str, session: BrowserSession | None = None) -> tuple[str, str]:
        """Begin a sign-in.

        Parameters
        ----------
        name : str
            Of the provider.
        peer : str
            The address from which it is asked for.
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
        TooManyRequests
            If too many were begun from there, or by whoever has the session.
        Unavailable
            If the provider does not answer.
        """
        if name not in self.list_names():
            raise SignInRefused("There is no identity provider of this name at which to sign in.")
        # Strangers behind the same address keep nobody waiting who is signed in.
        self.rate.take(peer if session is None else session.principal.id)
        assert self.identity.providers is not None
        secret, moment = new_secret(), self.now()
        transaction = Transaction(secret, self.redirect_uri(name))
        address = self.identity.providers.begin(name, transaction, anew=session is not None)
        session_hash = "" if session is None else hash_of(session.id)
        record = SignInRecord(hash_of(secret), name, timestamp(moment), session_hash, next_address)
        record = replace(record, proof=self.sessions.proofs.prove(_TABLE, _said(record)))
        with self.database.begin() as connection:
            if repository.sweep_sign_ins(connection, timestamp(moment - LIFE)) >= OPEN_MAX:
                repository.drop_oldest_sign_in(connection)
            repository.insert_sign_in(connection, record)
        return address, secret

    def complete(self, name: str, secret: str, answer: Answer) -> tuple[BrowserSession | None, str]:
        """Make of a provider's answer a session, or one that is fresh again.

        Parameters
        ----------
        name : str
            Of the provider whose answer it seems to be.
        secret : str
            What the browser kept.
        answer : Answer

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
        record, transaction = self._take(name, secret, answer.state)
        if answer.error:
            raise SignInRefused(f"You were not signed in at {name}: it says so, or you turned back.")
        assert self.identity.providers is not None
        began = datetime.fromisoformat(record.began_at)
        try:
            found = self.identity.providers.complete(name, transaction, answer.code, answer.issuer, began)
        except TokenFault as error:
            error.provider = name
            log_fault(error)
            words = WORDS[error.fault] if error.is_signed else "Begin again; the log may say more."
            raise SignInRefused(f"What {name} answered does not hold. {words}") from None
        if record.session_hash:
            self._confirm(record, found)
            return None, record.next_address
        entrance = self._admit(name, found)
        return self.sessions.begin(entrance), record.next_address

    def _take(self, name: str, secret: str, state: str) -> tuple[SignInRecord, Transaction]:
        """Return a sign-in that this browser has begun, for the first and last time.

        Raises
        ------
        SignInRefused
        """
        transaction = Transaction(secret, self.redirect_uri(name))
        with self.database.read() as connection:
            record = repository.find_sign_in(connection, hash_of(secret))
        is_ours = (
            record is not None
            and self.sessions.proofs.holds(_TABLE, _said(record), record.proof)
            and record.provider == name
            and is_within(record.began_at, self.now(), LIFE)
            and name in self.list_names()
            and hmac.compare_digest(state.encode(), transaction.state.encode())
        )
        if not is_ours or record is None:
            raise SignInRefused(_NOT_BEGUN)
        with self.database.begin() as connection:
            if not repository.take_sign_in(connection, record.id_hash):
                raise SignInRefused(_NOT_BEGUN)
        return record, transaction

    def _admit(self, name: str, found: SignedIn) -> Entrance:
        if not found.principal.roles:
            fault = found.fault or Fault.GROUPS_UNMAPPED
            log_fault(TokenFault(fault, name))
            raise SignInRefused(
                f"You signed in at {name}, and no group of yours there has a role here. Nothing was kept of you. "
                f"{WORDS[fault]}"
            )
        try:
            principal = self.identity.admit(found.principal, found.told_at, found.recognition)
        except IdentityError as error:
            log_fault(TokenFault(Fault.NAME, name))
            raise SignInRefused(WORDS[Fault.NAME]) from error
        known = self.identity.find_vouched(principal.id)
        # A session has the roles of the register, which is not written under a seal.
        if known is None or not known.roles <= found.principal.roles:
            raise SignInRefused("Your groups have changed, and that cannot be noted now. Try again later.")
        return Entrance(principal, "", found.expires_at, found.is_anew)

    def _confirm(self, record: SignInRecord, found: SignedIn) -> None:
        """Note that the holder of a session proved anew who that is, unless it was somebody else, or not anew."""
        holder = self.sessions.find_holder(record.session_hash)
        if holder is None:
            raise SignInRefused("Your session here has ended meanwhile. Sign in, and fill in the form again.")
        if not self.identity.is_of(found.principal.id, holder.id):
            raise SignInRefused("Somebody else signed in than whose session it is. Nothing was done.")
        if not found.principal.roles:
            self.sessions.end_by_hash(record.session_hash)
        self._admit(record.provider, found)
        if not found.is_anew:
            raise SignInRefused(
                f"{record.provider} did not ask you anew who you are, or does not say when it did. Nothing was done."
            )
        self.sessions.confirm_by_hash(record.session_hash)


def _said(record: SignInRecord) -> tuple[str, ...]:
    return astuple(replace(record, proof=""))


_TABLE = "sign_ins"
_NOT_BEGUN = (
    "This is not the answer to a sign-in that this browser has begun here within "
    f"{LIFE // timedelta(minutes=1)} minutes, or it was used before. Begin again."
)
