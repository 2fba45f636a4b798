"""Identity of a caller, and the rights of that principal."""

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, ClassVar, Literal, Protocol

from curator_service.identity import repository
from curator_service.identity.attestation import PROVIDER, Acts, ActsUnit, Attestation, Known, commitment
from curator_service.identity.entries import PrincipalNamed, TokenIssued, TokenRevoked
from curator_service.identity.oidc.code_flow import Transaction
from curator_service.identity.oidc.faults import WORDS, Explanation, Fault, TokenFault, log_fault
from curator_service.identity.people import People
from curator_service.identity.policy import PRIVILEGED, READING, Action, Objects, Role, allowed_objects, roles_for
from curator_service.identity.repository import (
    BY_SUBJECT,
    NAMELESS,
    PersonName,
    Principal,
    Recognition,
    Scopes,
    TokenRecord,
    sort_roles,
)
from curator_service.identity.response_models import SignInIssuer
from curator_service.identity.tokens import Token, derive_token, id_of_derived, make_token, parse_token
from curator_service.kit.clock import Clock, timestamp, utc_now
from curator_service.kit.db import Database
from curator_service.kit.idempotency import key_reused
from curator_service.kit.logs import log_without_data
from curator_service.kit.names import NAME, NAME_RULE
from curator_service.kit.problems import Problem, RequestInvalid

DAYS_MAX = 3650
TOKEN_KEY_MIN = 22
"""Characters of an idempotency key that makes a token: 128 random bits in base64url."""
GRACE_S_MAX = 7 * 24 * 3600
ROTATIONS_PER_DAY_MAX = 50
"""How often somebody may rotate tokens of their own within 24 hours: each is an entry of the register, for ever."""
APPLICATIONS_MAX = 16
"""How many applications are noted of one person: each is an entry of the register, for ever."""
USE_NOTED_EVERY = timedelta(hours=1)


class AuthenticationRequired(Problem):
    """No token, or none that is valid: which of these is not said."""

    slug = "authentication-required"
    status = HTTPStatus.UNAUTHORIZED
    title = "Authentication is required"
    default_headers: ClassVar = {"WWW-Authenticate": "Bearer"}


class PermissionDenied(Problem):
    """No role of the caller's may do this."""

    slug = "permission-denied"
    status = HTTPStatus.FORBIDDEN
    title = "Your role does not allow this"


class TokenNotShown(Problem):
    """The token was made before, and what its holder sends cannot be told again."""

    slug = "token-not-shown"
    status = HTTPStatus.CONFLICT
    title = "The token cannot be shown again"


class IdentityError(ValueError):
    """A principal or a token cannot be changed as asked; the message says why, for the operator."""


class _MadeBefore(IdentityError):
    """Another request, perhaps the same one once more, was faster."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Identity of a caller, and its proof.

    Attributes
    ----------
    principal : Principal
        With the roles that this call has.
    method : str
        ``token``, or ``provider`` where somebody signed in at an identity provider.
    expires_at : str
        When that ends.
    token_id : str
        Of a token of the curator's own; else empty.
    """

    principal: Principal
    method: Literal["token", "provider", ""]
    expires_at: str = ""
    token_id: str = ""


ANONYMOUS = Caller(Principal("", "", frozenset()), "")
"""Whoever calls a public address."""


class SignedIn(Protocol):
    """Somebody whom an identity provider vouches for."""

    @property
    def principal(self) -> Principal:
        """Principal, with the roles that the provider's groups give."""

    @property
    def told_at(self) -> str:
        """Moment of the provider's statement."""

    @property
    def expires_at(self) -> str:
        """Until when it says so."""

    @property
    def fault(self) -> Fault | None:
        """Why no group gives a role; None where one does."""

    @property
    def recognition(self) -> Recognition:
        """Claim by which the provider tells the person from others."""

    @property
    def stated(self) -> PersonName:
        """Name and e-mail that the provider states."""

    @property
    def is_anew(self) -> bool:
        """True if the person proved the identity for this very sign-in."""


class Providers(Protocol):
    """The identity providers that the curator trusts."""

    def browser_clients(self) -> Mapping[str, str]:
        """Return the names of those at which people sign in with a browser, by issuer."""

    def begin(self, name: str, transaction: Transaction, /, *, anew: bool) -> str:
        """Return where a browser signs in."""

    def complete(self, name: str, transaction: Transaction, code: str, issuer: str, began: datetime, /) -> SignedIn:
        """Return who signed in with a browser."""

    def find_fault(self, name: str, /) -> str:
        """Say why nobody can sign in with a browser."""

    def find_rule(self, issuer: str, /) -> tuple[str, bool] | None:
        """Return the claim by which an issuer tells people apart, and if two values are two persons."""

    def describe(self) -> list[SignInIssuer]:
        """Return what somebody needs to know to sign in."""

    def owns(self, name: str, /) -> bool:
        """Tell whether a name is one that people of theirs have, so that nobody else may have it."""

    def recognises(self, text: str, /) -> bool:
        """Tell whether a bearer text looks like one of theirs."""

    def sign_in(self, text: str, /) -> SignedIn:
        """Return whom a token is of."""

    def explain(self, text: str, /) -> Explanation:
        """Say why a token does not hold, for an operator."""


class IdentityService:
    """Principals and tokens.

    Parameters
    ----------
    acts : Acts
        The register, where every change is written.
    now : callable
        The clock.
    providers : Providers, optional
        Identity providers; without them tokens are the curator's own.
    token_secrets : callable, optional
        Returns the secrets of which tokens of retried requests are derived, the newest first.
    judge : callable, optional
        The clock that the ends of tokens are held against; `now` if not given.

    Attributes
    ----------
    people : People
        How people are displayed.
    has_approved_for : callable
        Tells of two ids of principals whether the second approved what the first may spend.
    """

    def __init__(
        self,
        database: Database,
        acts: Acts,
        now: Clock = utc_now,
        providers: Providers | None = None,
        token_secrets: Callable[[], list[bytes]] = list,
        judge: Clock | None = None,
    ) -> None:
        self.database = database
        self.acts = acts
        self.attestation = Attestation(acts)
        self.people = People(database, acts, self.attestation, now)
        self.now = now
        self.judge = now if judge is None else judge
        self.providers = providers
        self.token_secrets = token_secrets
        self.has_approved_for: Callable[[str, str], bool] = lambda *_: False
        self._used: dict[str, str] = {}
        self._noting = threading.Lock()

    # --- Who calls

    def identify(self, authorization: str | None) -> Caller:
        """Return who sent an ``Authorization`` header.

        Raises
        ------
        AuthenticationRequired
            If the header is absent, or its token unknown, expired, revoked, or not in the register.
        """
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() == "bearer":
            caller = self._identify_token(text) or self._identify_at_provider(text)
            if caller is not None:
                return caller
        raise AuthenticationRequired(
            "Send a valid token as `Authorization: Bearer …`. An operator makes one with `curator tokens create`; "
            "`GET /v1/sign-in` says where else to sign in, if anywhere."
        )

    def authenticate(self, authorization: str | None) -> Principal:
        """Return the principal of an ``Authorization`` header; see `identify`."""
        return self.identify(authorization).principal

    def find_valid(self, token_id: str) -> TokenRecord | None:
        """Return a token that holds now, by its public id, with the roles that it acts with; or None.

        Sessions of browsers begin with one, and end with it.
        """
        moment = timestamp(self.judge())
        with self.database.read() as connection:
            stored = repository.find_token(connection, token_id)
        if stored is None or stored.revoked_at is not None or moment >= stored.expires_at:
            return None
        record = self.attestation.restrict(stored, moment)
        if record is None:
            return None
        principal = replace(
            record.principal,
            roles=record.scopes.restrict(record.principal.roles),
            read_only=record.principal.read_only or record.scopes.read_only,
        )
        return replace(record, principal=principal)

    def find_vouched(self, principal_id: str) -> Principal | None:
        """Return somebody who signed in at a provider with a browser, with the roles of now; None if none is left.

        Sessions of browsers that began there end with the last role, and with the provider's client here.
        """
        with self.database.read() as connection:
            stored = repository.find_principal_by_id(connection, principal_id)
        if stored is None or self.providers is None or stored.issuer not in self.providers.browser_clients():
            return None
        roles = self.attestation.restrict_roles(stored)
        if not self._is_current(principal_id):  # another process may have linked the person just now
            self.attestation.refresh()
        return replace(stored, roles=roles) if roles and self._is_current(principal_id) else None

    def _identify_token(self, text: str) -> Caller | None:
        token = parse_token(text)
        record = None if token is None else self.find_valid(token.id)
        if token is None or record is None or not token.matches(record.secret_hash):
            return None
        self._used[record.id] = timestamp(self.now())
        return Caller(record.principal, "token", record.expires_at, record.id)

    def _identify_at_provider(self, text: str) -> Caller | None:
        if self.providers is None or not self.providers.recognises(text):
            return None
        try:
            found = self.providers.sign_in(text)
            admitted = self.admit(found.principal, found.told_at, found.recognition, found.stated)
        except (TokenFault, IdentityError) as error:
            fault = error if isinstance(error, TokenFault) else TokenFault(Fault.NAME, is_signed=True)
            log_fault(fault)
            if not fault.is_signed:  # a stranger hears nothing
                return None
            raise AuthenticationRequired(f"You are not let in. {WORDS[fault.fault]}") from None
        return Caller(admitted, "provider", found.expires_at)

    @staticmethod
    def authorize(principal: Principal, action: Action) -> Objects:
        """Return the objects on which a principal may take an action.

        Raises
        ------
        PermissionDenied
            If its roles, or its token, may not take it at all.
        """
        objects = allowed_objects(principal.roles, action)
        if objects is None:
            raise permission_denied(principal, action)
        if principal.read_only and action not in READING:
            raise PermissionDenied(
                f"This token may only look, and not {action.value}.",
                needed_role=[role.value for role in roles_for(action)],
            )
        return objects

    # --- Tokens

    def create_token(
        self,
        name: str,
        *roles: Role,
        days: int = 90,
        read_only: bool = False,
        actor: str = "operator",
        token: Token | None = None,
        by: Principal | None = None,
    ) -> Token:
        """Make a token for a principal, who is created when the name is new.

        Parameters
        ----------
        *roles : Role
            Those of a new principal; of one that there is, those with which the token may act.
        read_only : bool
            Whether the token may only look.
        actor : str
            Who does it, for the register.
        token : Token, optional
            A new random one if none is given.
        by : Principal, optional
            Who asks over HTTP: for analysts and auditors alone, and for none for whom this one approved a permit.

        Raises
        ------
        IdentityError
            If the principal holds other roles or signs in elsewhere, the register gives the name to somebody else, or
            the lifetime is not from 1 to 3650 days.
        LedgerUnverified
            Under a seal.
        """
        if not NAME.fullmatch(name):
            raise IdentityError(f"the name must be {NAME_RULE}")
        if not 1 <= days <= DAYS_MAX:
            raise IdentityError(f"a token lives from 1 to {DAYS_MAX} days")
        if not roles:
            raise IdentityError("name at least one role")
        if self.providers is not None and self.providers.owns(name):
            raise IdentityError(
                f"{name!r} is a name of somebody who signs in at an identity provider, and of nobody else"
            )
        token, moment, asked = token or make_token(), self.now(), frozenset(roles)
        new = Principal(_new_principal_id(), name, asked)
        with self.acts.unit() as unit:
            if repository.insert_principal(unit.connection, new, timestamp(moment)):
                _record_principal(unit, new, actor, timestamp(moment))
            principal = repository.find_principal(unit.connection, name)
            assert principal is not None
            if principal.id != new.id:
                self._check_name(principal)
            if issuer := self._issuer_of(principal):
                raise IdentityError(f"{name!r} signs in at {issuer}, which says what roles that is good for")
            if not asked <= principal.roles:
                held = ", ".join(sort_roles(principal.roles))
                raise IdentityError(f"{name!r} holds the roles {held}, and a token changes none of them")
            ends = timestamp(moment + timedelta(days=days))
            self._issue(
                unit,
                token,
                TokenRecord(
                    token.id, principal, token.secret_hash, timestamp(moment), ends, scopes=Scopes(asked, read_only)
                ),
                actor,
            )
            if by is not None:
                self._check_made_for(unit, principal, asked, by)
        return token

    def _check_made_for(self, unit: ActsUnit, holder: Principal, asked: frozenset[Role], by: Principal) -> None:
        """Refuse a token that an operator makes over HTTP for somebody appointed at the machine, or as one's own gain.

        The register is locked now: whoever appoints somebody writes there, and comes before or after this.

        Raises
        ------
        IdentityError
        """
        holder = repository.find_principal_by_id(unit.connection, holder.id) or holder
        if PRIVILEGED & (asked | holder.roles | self.attestation.roles_of(holder.id)):
            raise IdentityError(
                "over HTTP tokens are made for analysts and auditors alone; stewards, privacy officers and "
                "operators are appointed at the machine"
            )
        if self.has_approved_for(holder.id, by.id):
            raise IdentityError(
                f"you approved what {holder.name!r} may spend, and could spend it with a token: let another operator "
                "make the token"
            )

    def create_token_once(
        self, name: str, *roles: Role, days: int, read_only: bool, by: Principal, form: str
    ) -> tuple[Token, TokenRecord]:
        """Make a token as `create_token_over_http` does, for a form that is good once.

        Nothing that is kept leads to the token again: its id alone follows from the form.

        Parameters
        ----------
        form : str
            What the form was given at random.

        Raises
        ------
        IdentityError, RequestInvalid, TokenNotShown, LedgerUnverified
        """
        if len(form) < TOKEN_KEY_MIN:
            raise RequestInvalid.at("", "open the form anew: it is good for one token")
        token = Token(id_of_derived(by.id, form), make_token().secret)
        try:
            self.create_token(name, *roles, days=days, read_only=read_only, actor=by.id, token=token, by=by)
        except _MadeBefore:
            raise TokenNotShown(
                f"This form has made the token {token.id}, which cannot be shown again: revoke it and make another."
            ) from None
        return token, self.get_token(token.id)

    def create_token_over_http(
        self, name: str, *roles: Role, days: int, read_only: bool, by: Principal, key: str | None = None
    ) -> tuple[Token, TokenRecord]:
        """Make a token for an analyst or an auditor, as an operator does from elsewhere than the machine.

        With a key, a retry of the same request gets the same token.

        Raises
        ------
        IdentityError
            If the principal holds, or would hold, a privileged role; else as `create_token`.
        IdempotencyKeyReused, TokenNotShown, LedgerUnverified
        """

        def find_same() -> tuple[Token, TokenRecord] | None:
            known = self._find_made(by.id, key)
            if known is not None:
                said = known[1].principal.name, known[1].scopes, _lifetime(known[1])
                if said != (name, Scopes(frozenset(roles), read_only), timedelta(days=days)):
                    raise key_reused()
            return known

        known = find_same()
        if known is not None:
            return known
        asked: dict[str, Any] = {"days": days, "read_only": read_only, "actor": by.id, "by": by}
        try:
            token = self.create_token(name, *roles, **asked, token=self._derive(by.id, key))
        except _MadeBefore:
            known = find_same()
            if known is None:
                raise
            return known
        return token, self.get_token(token.id)

    def _check_name(self, principal: Principal) -> None:
        """Hold whose a name is against the register: rows could let somebody else have what is meant for its holder.

        Raises
        ------
        IdentityError
        """
        if self.attestation.name_of(principal.id) != principal.name:
            self.attestation.refresh()
        if self.attestation.name_of(principal.id) != principal.name:
            raise IdentityError(f"the register does not give the name {principal.name!r} to whom the table gives it")

    def _issuer_of(self, principal: Principal) -> str:
        """Return where a principal signs in, as its row or the register says; empty of one that has tokens."""
        known = self.attestation.find(principal.id)
        return principal.issuer or ("" if known is None else known.issuer)

    def _derive(self, principal_id: str, key: str | None) -> Token | None:
        """Return the token of a request with a key; None without one.

        Raises
        ------
        RequestInvalid
            If the key is short: whoever has a private key of the curator, and guesses it, would have the token.
        """
        if key is None:
            return None
        if len(key) < TOKEN_KEY_MIN:
            raise RequestInvalid.at(
                "", f"an Idempotency-Key of a token has {TOKEN_KEY_MIN} characters or more, at random"
            )
        secrets_here = self.token_secrets()
        if not secrets_here:
            raise IdentityError("no private key of the curator is here, of which a token could be made")
        return derive_token(principal_id, key, secrets_here[0])

    def _find_made(self, principal_id: str, key: str | None) -> tuple[Token, TokenRecord] | None:
        """Return the token that the same request made before, or None.

        Raises
        ------
        TokenNotShown
            If it was made under a private key that is not here any more.
        """
        if key is None:
            return None
        with self.database.read() as connection:
            record = repository.find_token(connection, id_of_derived(principal_id, key))
        if record is None:
            return None
        for secret in self.token_secrets():
            token = derive_token(principal_id, key, secret)
            if token.matches(record.secret_hash):
                return token, record
        raise TokenNotShown(
            f"The token {record.id} was made by this request, and cannot be shown again: revoke it and make another."
        )

    def rotate_token(
        self,
        token_id: str,
        *,
        grace_s: int = 0,
        actor: str,
        of: Principal | None = None,
        by: Principal | None = None,
        key: str | None = None,
    ) -> tuple[Token, TokenRecord]:
        """Make a new token of the same principal, scopes and lifetime; the old one ends, now or after a grace.

        Parameters
        ----------
        grace_s : int
            For how long the old one goes on, in seconds.
        of : Principal, optional
            Whose token it must be.
        by : Principal, optional
            Who asks over HTTP for a token of somebody else; see `create_token`.
        key : str, optional
            Of the request: a retry, while the old token goes on, gets the same new one.

        Raises
        ------
        IdentityError
            If it is not there, has ended, or was rotated before; or if its holder, who asks, rotates too often.
        IdempotencyKeyReused, TokenNotShown, LedgerUnverified
        """
        if not 0 <= grace_s <= GRACE_S_MAX:
            raise IdentityError(f"the grace is from 0 to {GRACE_S_MAX} seconds")
        old, moment = self.get_token(token_id), self.now()
        if of is not None and old.principal.id != of.id:
            raise IdentityError(f"there is no token {token_id!r} of yours")
        known = self._find_rotated(old, key)
        if known is not None:
            return known
        token = self._derive(old.principal.id, key) or make_token()
        try:
            issued = self._as_issued(old)
            ends = min(old.expires_at, issued.expires_at, timestamp(moment + timedelta(seconds=grace_s)))
            record = replace(
                issued,
                id=token.id,
                secret_hash=token.secret_hash,
                created_at=timestamp(moment),
                expires_at=timestamp(moment + _lifetime(issued)),
                last_used_at=None,
            )
            self._replace(old, token, record, ends, actor, is_bounded=of is not None, by=by)
        except _MadeBefore:
            known = self._find_rotated(self.get_token(token_id), key)
            if known is None:
                raise
            return known
        return token, record

    def _as_issued(self, old: TokenRecord) -> TokenRecord:
        """Return a token that is rotated as the register has it: what its row says could be more, or somebody else's.

        Raises
        ------
        IdentityError
        """
        self.attestation.refresh()
        issued = self.attestation.as_issued(old)
        if issued is None:
            raise IdentityError(f"the token {old.id!r} has ended, or is not the one that the register has")
        if self.attestation.successors_of(old.id) or timestamp(self.now()) >= issued.expires_at:
            raise _rotated_before(old)
        return issued

    def _replace(
        self,
        old: TokenRecord,
        token: Token,
        record: TokenRecord,
        ends: str,
        actor: str,
        *,
        is_bounded: bool,
        by: Principal | None,
    ) -> None:
        """Write a token in the place of another, which ends then."""
        since = timestamp(self.now() - timedelta(days=1))
        with self.acts.unit() as unit:
            has_ended = record.created_at >= old.expires_at
            if has_ended or not repository.replace_token(unit.connection, old.id, token.id, ends):
                raise _rotated_before(old)
            self._issue(unit, token, record, actor, replaces=old.id, replaced_ends_at=ends)
            if by is not None:
                self._check_made_for(unit, record.principal, record.scopes.roles, by)
            made = repository.count_rotations(unit.connection, old.principal.id, since)
            if is_bounded and made > ROTATIONS_PER_DAY_MAX:
                raise IdentityError(
                    f"tokens of yours were rotated {ROTATIONS_PER_DAY_MAX} times within 24 hours: rotate this one later"
                )

    def _find_rotated(self, old: TokenRecord, key: str | None) -> tuple[Token, TokenRecord] | None:
        """Return what the same request made of a token before, or None.

        Raises
        ------
        IdempotencyKeyReused, TokenNotShown
        """
        known = self._find_made(old.principal.id, key)
        # Read again: the same request, sent twice at once, may have replaced it since `old` was read.
        if known is not None and self.get_token(old.id).replaced_by != known[1].id:
            raise key_reused()
        return known

    def revoke_token(self, token_id: str, *, actor: str = "operator") -> None:
        """Revoke a token by its public id, and what rotations made of it, from the next request on; under a seal, too.

        Whoever has somebody's token may have rotated it: what came of it is what the table or the register says. The
        table says so at once. The register follows, when it can be written. One that was revoked before stays so:
        whoever repeats it after a lost answer has what he wants.

        Raises
        ------
        IdentityError
            If there is no such token, as far as rows say: one that the register knows is revoked there all the same.
        """
        self.attestation.refresh()
        seen, missing, waiting = set(), set(), [token_id]
        with self.database.begin() as connection:
            while waiting:
                following = waiting.pop()
                seen.add(following)
                repository.revoke_token(connection, following, timestamp(self.now()), actor)
                found = repository.find_token(connection, following)
                if found is None:
                    missing.add(following)
                named = [] if found is None or not found.replaced_by else [found.replaced_by]
                waiting += {*named, *self.attestation.successors_of(following)} - seen
        try:
            self._revoke_without_rows(missing, actor)
            self.settle()
        except Problem as error:  # what matters is done
            log_without_data("the register", error)
        if token_id in missing:
            raise IdentityError(f"there is no token {token_id!r} that could be revoked")

    def revoke_token_over_http(self, token_id: str, by: Principal) -> None:
        """Revoke a token as `revoke_token` does; an operator alone revokes none of those who decide.

        Raises
        ------
        IdentityError
            If there is no such token.
        PermissionDenied
            If its holder holds a privileged role, and whoever asks is neither that one nor a privacy officer.
        """
        self.attestation.refresh()
        with self.database.read() as connection:
            found = repository.find_token(connection, token_id)
        holder = self.attestation.id_of_holder(token_id) or ("" if found is None else found.principal.id)
        if not holder:
            raise IdentityError(f"there is no token {token_id!r}")
        roles = self.attestation.roles_of(holder) | (frozenset() if found is None else found.principal.roles)
        if roles & PRIVILEGED and holder != by.id and Role.PRIVACY_OFFICER not in by.roles:
            raise PermissionDenied(
                "An operator revokes tokens of analysts and auditors here. Those of stewards, privacy officers and "
                "operators are revoked by a privacy officer, or at the machine with `curator tokens revoke`.",
                needed_role=[Role.PRIVACY_OFFICER.value],
            )
        self.revoke_token(token_id, actor=by.id)

    def _revoke_without_rows(self, tokens: Iterable[str], actor: str) -> None:
        """Write the revocation of tokens whose rows are gone: whoever deleted one could put it back."""
        due = sorted(token for token in tokens if self.attestation.is_live(token))
        if due and self.acts.is_open():
            with self.acts.unit() as unit:
                for token in due:
                    holder = self.attestation.holder_of(token)
                    unit.act(TokenRevoked(actor=actor, time=timestamp(self.now()), token=token, holder=holder))

    def get_token(self, token_id: str) -> TokenRecord:
        """Return a token.

        Raises
        ------
        IdentityError
            If there is none.
        """
        with self.database.read() as connection:
            found = repository.find_token(connection, token_id)
        if found is None:
            raise IdentityError(f"there is no token {token_id!r}")
        return found

    def list_tokens(self) -> list[TokenRecord]:
        """Return every token, without secrets."""
        with self.database.read() as connection:
            return repository.list_tokens(connection)

    def write_uses(self) -> None:
        """Write when tokens were used last, at most once an hour of each: away from the requests that used them."""
        with self._noting:
            used, self._used = self._used, {}
        if not used:
            return
        before = timestamp(self.now() - USE_NOTED_EVERY)
        with self.database.read() as connection:
            known = {token.id: token.last_used_at for token in repository.list_tokens(connection)}
        due = {one: moment for one, moment in used.items() if one in known and (known[one] or "") <= before}
        if due:
            with self.database.begin() as connection:
                for token_id, moment in due.items():
                    repository.note_use(connection, token_id, moment, before)

    # --- Principals

    def sign_in_at(self) -> list[SignInIssuer]:
        """Return where somebody may sign in; nothing where tokens are the curator's own alone."""
        return [] if self.providers is None else self.providers.describe()

    def list_principals(self) -> list[Principal]:
        """Return every principal, by name."""
        with self.database.read() as connection:
            return repository.list_principals(connection)

    def get_principal(self, name: str) -> Principal:
        """Return a principal by name.

        Raises
        ------
        IdentityError
            If there is none, or the register gives the name to somebody else.
        """
        principal = None
        if NAME.fullmatch(name):
            with self.database.read() as connection:
                principal = repository.find_principal(connection, name)
        if principal is None:
            raise IdentityError(f"there is no principal {name!r}")
        self._check_name(principal)
        return principal

    def find_name(self, principal_id: str) -> str:
        """Return the name that the register gives to a principal, whatever its row says; empty if none."""
        if not self.attestation.name_of(principal_id):
            self.attestation.refresh()
        return self.attestation.name_of(principal_id)

    def set_roles(self, name: str, *roles: Role, actor: str) -> Principal:
        """Give a principal other roles, at the machine; its tokens act with no more than they were made for.

        Raises
        ------
        IdentityError
            If there is no such principal, or it signs in at an identity provider, which says its roles.
        LedgerUnverified
        """
        if not roles:
            raise IdentityError("name at least one role; to end what somebody may do, revoke the tokens")
        moment = timestamp(self.now())
        with self.acts.unit() as unit:
            principal = repository.find_principal(unit.connection, name)
            if principal is None:
                raise IdentityError(f"there is no principal {name!r}")
            self._check_name(principal)
            if issuer := self._issuer_of(principal):
                raise IdentityError(f"{name!r} signs in at {issuer}, whose groups say the roles")
            changed = replace(principal, roles=frozenset(roles))
            repository.update_principal(unit.connection, changed)
            _record_principal(unit, changed, actor, moment)
        return changed

    def admit(
        self,
        principal: Principal,
        told_at: str,
        recognition: Recognition = BY_SUBJECT,
        stated: PersonName = NAMELESS,
    ) -> Principal:
        """Write whom an identity provider vouches for, where that is new or has changed; return who may act.

        What was said earlier than what is known may only restrict: of several tokens the newest decides, and each is
        written once at most. Under a seal nothing is written, so nobody may do more than before.

        Where another claim says who somebody is than before, this links who the person was to who that is now, in one
        entry: the person goes on as the principal that has the permits.

        Parameters
        ----------
        principal : Principal
            Its id is the identity that the provider states.
        told_at : str
            When the provider said so.
        stated : PersonName
            How the provider displays the person.

        Raises
        ------
        IdentityError
            If the name is somebody else's.
        LedgerUnverified
            If somebody new comes under a seal, or somebody who must be linked.
        """
        admitted = self._admit(principal, told_at, recognition)
        self.people.state(admitted.id, stated, told_at)
        return admitted

    def _admit(self, principal: Principal, told_at: str, recognition: Recognition) -> Principal:
        identity = principal.id
        holder, links = self._find_holder(principal, recognition)
        with self.database.read() as connection:
            stored = repository.find_principal_by_id(connection, holder)
        known = self.attestation.find(holder) or Known()
        is_linked = bool(known.name) and known.claim == recognition.claim and not links
        # The register keeps the name that it has: who moved one between rows does not get it signed.
        name = known.name or (principal.name if stored is None else stored.name)
        principal = replace(principal, id=holder, name=name)
        roles = principal.roles
        if stored is not None:
            is_newer = told_at > known.told_at
            is_seen = _is_seen(known, recognition)
            if is_linked and is_seen and stored.roles == roles == known.roles:
                return principal
            restricted = replace(principal, roles=roles & stored.roles & known.roles)
            if is_linked and (not self.acts.is_open() or (is_seen and not is_newer)):
                return restricted
            if not is_newer:
                roles, told_at, principal = known.roles, known.told_at, restricted
        with self.acts.unit() as unit:
            if stored is None and not repository.insert_principal(unit.connection, principal, timestamp(self.now())):
                raise IdentityError(f"the name {principal.name!r} is somebody else's, or was taken just now")
            written = replace(principal, roles=roles)
            repository.update_principal(unit.connection, written)
            for linked in (repository.find_principal_by_id(unit.connection, one) for one in links):
                if linked is not None:
                    repository.update_principal(unit.connection, replace(linked, roles=frozenset()))
            _record_principal(
                unit,
                written,
                PROVIDER,
                timestamp(self.now()),
                issuer=principal.issuer,
                told_at=told_at,
                claim=recognition.claim,
                identity=None if identity == holder else identity,
                links=links or None,
                applications=[recognition.application] if recognition.application else None,
            )
        return principal

    def _find_holder(self, principal: Principal, recognition: Recognition) -> tuple[str, list[str]]:
        """Return the principal that acts for a provider's identity, and those that must be linked to it."""
        holder, links = self._choose_holder(principal, recognition)
        known = self.attestation.find(holder)
        is_said = known is not None and known.claim == recognition.claim and _is_seen(known, recognition)
        if known is None or not is_said or links or known.roles != principal.roles:
            self.attestation.refresh()
            holder, links = self._choose_holder(principal, recognition)
        return holder, links

    def _choose_holder(self, principal: Principal, recognition: Recognition) -> tuple[str, list[str]]:
        holder = self.attestation.holder_of_identity(principal.id)
        before = self.attestation.holder_of_identity(recognition.identity_before)
        was = self.attestation.find(before)
        # Whoever is known by the claim of now is somebody else, whose value of before this person has got.
        if was is None or was.issuer != principal.issuer or was.claim == recognition.claim or before == holder:
            return holder or principal.id, []
        if not holder:
            return before, []
        with self.database.read() as connection:
            keeps = repository.has_permits(connection, holder) or not repository.has_permits(connection, before)
        return (holder, [before]) if keeps else (before, [holder])

    def is_of(self, identity: str, principal_id: str) -> bool:
        """Return whether a provider's identity belongs to a principal."""
        if self.attestation.holder_of_identity(identity) != principal_id:
            self.attestation.refresh()
        return self.attestation.holder_of_identity(identity) == principal_id

    def find_doubt(self, one: str, other: str) -> str:
        """Say why two principals may be one person; empty where they are two.

        Parameters
        ----------
        one, other : str
            Ids of principals.
        """
        self.attestation.refresh()
        one, other = self.attestation.person_of(one), self.attestation.person_of(other)
        if one == other:
            return "That is you: ask another privacy officer."
        if not (self._is_current(one) and self._is_current(other)):
            return (
                "You may be one person: one of you is known by a claim that the identity provider's settings name no "
                "more. Whoever was known by it signs in once, and is linked."
            )
        first, second = self.attestation.find(one), self.attestation.find(other)
        if first is None or second is None or not first.issuer or first.issuer != second.issuer:
            return ""
        rule = self._rule_of(first.issuer)
        if (rule is not None and rule[1]) or first.applications & second.applications:
            return ""
        return (
            "You may be one person: you signed in through two applications of one identity provider, which may state "
            "another subject of one person to each. Approve through the application through which the other came, or "
            "let an operator set `subject_claim` or `subjects` of the provider."
        )

    def _rule_of(self, issuer: str) -> tuple[str, bool] | None:
        return None if self.providers is None else self.providers.find_rule(issuer)

    def _is_current(self, principal_id: str) -> bool:
        """Return whether somebody may act: known by the claim of now, and not linked to another principal."""
        known = self.attestation.find(principal_id)
        if known is None:
            return True
        rule = self._rule_of(known.issuer) if known.issuer else None
        return not known.linked_to and (rule is None or rule[0] == known.claim)

    # --- The register

    def start(self) -> None:
        """Write into the register what was revoked under a seal."""
        self.settle()

    def settle(self) -> None:
        """Write the revocations that are in the table alone, if the register is open."""
        if not self.acts.is_open():
            return
        self.attestation.refresh()
        due = [token for token in self.list_tokens() if token.revoked_at and self.attestation.is_live(token.id)]
        if due:
            with self.acts.unit() as unit:
                for token in due:
                    moment, holder = timestamp(self.now()), token.principal.name
                    unit.act(TokenRevoked(actor=token.revoked_by, time=moment, token=token.id, holder=holder))
            self.attestation.refresh()

    def _issue(self, unit: ActsUnit, token: Token, record: TokenRecord, actor: str, **replaced: str) -> None:
        assert token.id == record.id
        issued = TokenIssued(
            actor=actor,
            time=record.created_at,
            token=record.id,
            principal=record.principal.id,
            holder=record.principal.name,
            scopes=[str(name) for name in record.scopes.names],
            expires_at=record.expires_at,
            commitment=commitment(record.id, record.secret_hash),
            **replaced,
        )
        unit.act(issued)  # it locks the register
        if repository.find_token(unit.connection, record.id) is not None:
            raise _MadeBefore(f"the token {record.id!r} was made before")
        repository.insert_token(unit.connection, record)


def permission_denied(principal: Principal, action: Action) -> PermissionDenied:
    """Build the refusal of what no role of a caller may do."""
    needed, held = [role.value for role in roles_for(action)], ", ".join(sort_roles(principal.roles)) or "none"
    return PermissionDenied(
        f"Your roles, {held}, may not {action.value}; needed: {' or '.join(needed)}.", needed_role=needed
    )


def _rotated_before(old: TokenRecord) -> _MadeBefore:
    return _MadeBefore(f"the token {old.id!r} has ended, or was rotated before")


def _is_seen(known: Known, recognition: Recognition) -> bool:
    """Return whether nothing is to be noted of the application through which somebody came."""
    return recognition.application in {"", *known.applications} or len(known.applications) >= APPLICATIONS_MAX


def _new_principal_id() -> str:
    return f"prn_{secrets.token_hex(12)}"


def _record_principal(unit: ActsUnit, principal: Principal, actor: str, moment: str, **told: Any) -> None:
    roles = sort_roles(principal.roles)
    named = PrincipalNamed(actor=actor, time=moment, principal=principal.id, name=principal.name, roles=roles, **told)
    unit.act(named)


def _lifetime(record: TokenRecord) -> timedelta:
    """Return how long a token was made for, so that its successor is made for as long."""
    return datetime.fromisoformat(record.expires_at) - datetime.fromisoformat(record.created_at)
