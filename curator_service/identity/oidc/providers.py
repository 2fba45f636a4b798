"""The identity providers that settings name: tokens that callers send, held against them."""

import hashlib
import json
import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from curator_service.identity.names import EMAIL_MAX, NAME_MAX, make_plain
from curator_service.identity.oidc.code_flow import CodeFlow, Transaction, is_between
from curator_service.identity.oidc.faults import Explanation, Fault, TokenFault
from curator_service.identity.oidc.fetching import Fetch, ProviderUnreachable, fetch, log
from curator_service.identity.oidc.keys import KeySet
from curator_service.identity.oidc.passports import VisaReader
from curator_service.identity.oidc.verification import check_form, read_claims, read_issuer, verify
from curator_service.identity.policy import Role
from curator_service.identity.repository import PersonName, Principal, Recognition, Visa
from curator_service.identity.response_models import SignInIssuer
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.names import NAME
from curator_service.settings import IdentityProvider, VisaIssuer

KEPT_MAX = 4096
KEPT_S = 300.0
"""After how many seconds a token is verified again: for so long a key counts that its issuer has withdrawn."""
_SUBJECT_MAX = 255
_TENANT_OF = {"oid": ("tid",)}
"""Of claims that hold within a tenant alone, the claim that names the tenant."""
_TYPES = frozenset({"jwt", "at+jwt"})


@dataclass(frozen=True, slots=True)
class SignIn:
    """Whom a provider vouches for.

    Attributes
    ----------
    principal : Principal
        With the roles that the provider's groups give.
    told_at, expires_at : str
        When the provider said so, and until when.
    ends : float
        The same, in seconds since 1970, with what clocks may differ.
    recognition : Recognition
    stated : PersonName
        How the provider displays the person.
    is_anew : bool
        Whether the person is known to have proved who that is for this very sign-in, and not for an earlier one.
    fault : Fault or None
        Why no group gives a role; None where one does.
    """

    principal: Principal
    told_at: str
    expires_at: str
    ends: float
    recognition: Recognition
    stated: PersonName
    is_anew: bool = False
    fault: Fault | None = None


class IdentityProviders:
    """Whom to believe of callers that send a token of somebody else's.

    Parameters
    ----------
    now : callable
        The clock that the ends of tokens are held against.
    fetch : callable
        Gets documents; tests give their own.
    """

    def __init__(
        self,
        providers: tuple[IdentityProvider, ...],
        visa_issuers: tuple[VisaIssuer, ...],
        now: Clock,
        fetch: Fetch = fetch,
    ) -> None:
        self._providers = {one.issuer: one for one in providers}
        self._keys = {one.issuer: KeySet(one.issuer, fetch, fetch_address=one.fetch_address) for one in providers}
        self._flows = {
            one.name: CodeFlow(one, one.browser, self._keys[one.issuer], fetch) for one in providers if one.browser
        }
        self._visas = VisaReader(visa_issuers, fetch)
        self._now, self._fetch = now, fetch
        self._kept: OrderedDict[bytes, tuple[SignIn, float]] = OrderedDict()
        self._lock = threading.Lock()

    def find_rule(self, issuer: str) -> tuple[str, bool] | None:
        """Return the claim by which an issuer tells people apart, and True if two values are always two persons."""
        one = self._providers.get(issuer)
        return None if one is None else (one.subject_claim, one.tells_people_apart)

    def describe(self) -> list[SignInIssuer]:
        """Return what somebody needs to know to sign in."""
        return [
            SignInIssuer.model_construct(
                name=one.name, issuer=one.issuer, client_id=one.client_id, scope=one.scope, parameters=one.parameters
            )
            for one in self._providers.values()
            if one.client_id
        ]

    # --- Sign-ins of browsers

    def browser_clients(self) -> dict[str, str]:
        """Return the names of the providers at which people sign in with a browser, by issuer."""
        return {flow.provider.issuer: name for name, flow in self._flows.items()}

    def begin(self, name: str, transaction: Transaction, *, anew: bool) -> str:
        """Return where a browser signs in; see `CodeFlow.authorization_url`."""
        return self._flows[name].authorization_url(transaction, anew=anew)

    def complete(self, name: str, transaction: Transaction, code: str, issuer: str, began: datetime) -> SignIn:
        """Return who signed in with a browser, without roles where no group has one.

        Parameters
        ----------
        name : str
            Of the provider at which the sign-in began.
        code, issuer : str
            As the answer states them.
        began : datetime
            When the sign-in did.

        Raises
        ------
        TokenFault
        Unavailable
        """
        flow = self._flows[name]
        now = self._now()
        claims = flow.redeem(transaction, code, issuer, now)
        principal = _read_principal(flow.provider, claims)
        made, provider = float(claims["iat"]), flow.provider
        ends = made + provider.lifetime_max_s
        is_anew = is_between(claims.get("auth_time"), began, now, provider.clock_skew_s)
        recognition = _recognise(provider, claims, f"browser:{flow.client.client_id}")
        fault = None if principal.roles else find_fault_of_groups(provider, claims)
        stated = _read_name(provider, claims)
        return SignIn(principal, _moment(made), _moment(ends), ends, recognition, stated, is_anew, fault)

    def find_fault(self, name: str) -> str:
        """Say why nobody can sign in at a provider with a browser; empty where it can be tried."""
        return self._flows[name].find_fault()

    # --- Tokens

    def owns(self, name: str) -> bool:
        """Return whether a name is one that people of theirs have."""
        return any(name.startswith((f"{one.name}.", f"{one.name}-")) for one in self._providers.values())

    def recognises(self, text: str) -> bool:
        """Return True if a text looks like a token of theirs, valid or not."""
        return bool(self._providers) and text.startswith("eyJ")

    def sign_in(self, text: str) -> SignIn:
        """Return whom a token is of.

        Raises
        ------
        TokenFault
            If it does not hold, or no group of theirs has a role here.
        Unavailable
            If the provider's keys are not known.
        """
        key, now = hashlib.sha256(text.encode()).digest(), self._now()
        with self._lock:
            known, until = self._kept.get(key, (None, 0.0))
        if known is None or time.monotonic() > until:
            known = self._verify(text, now)
            with self._lock:
                self._kept[key] = known, time.monotonic() + KEPT_S
                while len(self._kept) > KEPT_MAX:
                    self._kept.popitem(last=False)
        if now.timestamp() >= known.ends:
            raise TokenFault(Fault.EXPIRED, self._providers[known.principal.issuer].name, is_signed=True)
        visas = tuple(visa for visa in known.principal.visas if now.timestamp() < visa.expires)
        return replace(known, principal=replace(known.principal, visas=visas))

    def explain(self, text: str) -> Explanation:
        """Explain to an operator why a token does not hold: its claims beside the settings."""
        said = read_claims(text)
        provider = self._providers.get(str(said.get("iss")))
        known = ", ".join(self._providers) or "none"
        stated = [("iss", said.get("iss"), known)]
        if provider is not None:
            found = _find_groups(provider, said)
            stated += [
                ("aud", said.get("aud"), provider.audience),
                (provider.subject_claim, said.get(provider.subject_claim), "text"),
                *((name, said.get(name), f"now is {self._now().timestamp():.0f}") for name in ("iat", "nbf", "exp")),
                (provider.groups_claim, found, ", ".join(provider.roles)),
            ]
        try:
            self.sign_in(text)
        except TokenFault as error:
            return Explanation(error.fault, error.is_signed, stated)
        return Explanation(None, True, stated)

    def _verify(self, text: str, now: datetime) -> SignIn:
        check_form(text)
        provider = self._providers.get(read_issuer(text))
        if provider is None:
            raise TokenFault(Fault.ISSUER)
        try:
            return self._verify_for(provider, text, now)
        except TokenFault as error:
            error.provider = provider.name
            raise

    def _verify_for(self, provider: IdentityProvider, text: str, now: datetime) -> SignIn:
        claims = verify(
            text,
            self._keys[provider.issuer],
            audience=provider.audience,
            types=_TYPES,
            algorithms=provider.algorithms,
            skew_s=provider.clock_skew_s,
            lifetime_max_s=provider.lifetime_max_s,
            now=now,
        )
        principal = _read_principal(provider, claims)
        if not principal.roles:
            raise TokenFault(find_fault_of_groups(provider, claims), is_signed=True)
        principal = replace(principal, visas=self._read_visas(provider, claims, text, now))
        ends, client = float(claims["exp"]), _read_client(claims)
        recognition = _recognise(provider, claims, f"token:{client}" if client else "")
        told_at, ends_at, late = _moment(claims["iat"]), _moment(ends), ends + provider.clock_skew_s
        return SignIn(principal, told_at, ends_at, late, recognition, _read_name(provider, claims))

    def _read_visas(
        self, provider: IdentityProvider, claims: dict[str, Any], text: str, now: datetime
    ) -> tuple[Visa, ...]:
        """Read the visas that the token holds, and those that the provider tells its holder."""
        holder = provider.issuer, claims["sub"]
        found = self._visas.read(claims, holder, now)
        if provider.passports:
            address = self._keys[provider.issuer].find_address("userinfo_endpoint")
            try:
                told = self._fetch(address, f"Bearer {text}")
            except ProviderUnreachable as error:
                log.warning("visas cannot be fetched: %s", error)
                return found
            if told.get("sub") == claims["sub"]:
                found += self._visas.read(told, holder, now)
        return found


def _find_groups(provider: IdentityProvider, claims: dict[str, Any]) -> Any:
    found: Any = claims.get(provider.groups_claim)
    if found is None:  # a member of a member, as Keycloak has realm_access.roles
        found = claims
        for name in provider.groups_claim.split("."):
            found = found.get(name) if isinstance(found, dict) else None
    return found


def read_roles(provider: IdentityProvider, claims: dict[str, Any]) -> frozenset[Role]:
    """Return the roles that the groups of a token give, as settings map them."""
    found = _find_groups(provider, claims)
    groups = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return frozenset(Role(role) for group in groups if isinstance(group, str) for role in provider.roles.get(group, ()))


def find_fault_of_groups(provider: IdentityProvider, claims: dict[str, Any]) -> Fault:
    """Return why the groups of a token give no role."""
    found, elsewhere = _find_groups(provider, claims), claims.get("_claim_names")
    if found is None:
        # Entra ID states an address in place of more than 200 groups.
        is_over = "hasgroups" in claims or (isinstance(elsewhere, dict) and provider.groups_claim in elsewhere)
        return Fault.GROUPS_OVERAGE if is_over else Fault.GROUPS_ABSENT
    if isinstance(found, str) and re.search(r"[,; ]", found):
        return Fault.GROUPS_TEXT
    paths = [found] if isinstance(found, str) else found
    if isinstance(paths, list) and any(isinstance(one, str) and one.startswith("/") for one in paths):
        return Fault.GROUPS_PATHS
    return Fault.GROUPS_UNMAPPED


def _read_principal(provider: IdentityProvider, claims: dict[str, Any]) -> Principal:
    """Return who a token is of, with the roles of the groups that it states.

    Raises
    ------
    TokenFault
    """
    subject = read_subject(claims, provider.subject_claim)
    if subject is None:
        raise TokenFault(Fault.SUBJECT, is_signed=True)
    identity = identity_of(provider.issuer, provider.subject_claim, subject)
    return Principal(
        identity,
        principal_name(provider.name, subject[0], identity),
        read_roles(provider, claims),
        issuer=provider.issuer,
    )


def _recognise(provider: IdentityProvider, claims: dict[str, Any], application: str) -> Recognition:
    """Return how a token's issuer tells its person from others."""
    claim, before = provider.subject_claim, provider.subject_claim_before
    subject = read_subject(claims, before) if before and before != claim else None
    identity_before = "" if subject is None else identity_of(provider.issuer, before, subject)
    # Where two subjects are two persons anyway, nothing is noted of applications.
    return Recognition(claim, "" if provider.tells_people_apart else application, identity_before)


def _read_client(claims: dict[str, Any]) -> str:
    """Return the application that a token was issued to; empty if it does not say."""
    stated = (claims.get(name) for name in ("azp", "client_id", "appid", "cid"))
    found = next((one for one in stated if isinstance(one, str)), "")
    return found if len(found) <= _SUBJECT_MAX and found.isprintable() else ""


def read_subject(claims: dict[str, Any], claim: str) -> tuple[str, ...] | None:
    """Return the subject claim of a token, with the tenant where it holds within that; None if there is none."""
    said = tuple(claims.get(name) for name in (claim, *_TENANT_OF.get(claim, ())))
    texts = tuple(one for one in said if isinstance(one, str) and 0 < len(one) <= _SUBJECT_MAX)
    return texts if len(texts) == len(said) else None


def identity_of(issuer: str, claim: str, subject: tuple[str, ...]) -> str:
    """Return who somebody is by a claim: a function of issuer, claim and subject, so that no row says who is whom."""
    said = f"1\n{issuer}\n{subject[0]}" if claim == "sub" else f"2\n{json.dumps([issuer, claim, *subject])}"
    return "prn_" + hashlib.sha256(f"curator-principal:{said}".encode()).hexdigest()[:24]


def principal_name(provider: str, subject: str, identity: str) -> str:
    """Return what somebody is called here: the provider's name and the subject, or a digest where that is no name.

    A dot stands before a subject and a hyphen before a digest, so that no subject is taken for a digest.
    """
    name = f"{provider}.{subject}"
    return name if NAME.fullmatch(name) else f"{provider}-{identity[4:]}"


def _read_name(provider: IdentityProvider, claims: dict[str, Any]) -> PersonName:
    """Return how a provider displays somebody, with escapes for what a name may not have.

    An e-mail that the provider calls unverified is what its user typed in: it may be somebody else's.
    """
    name, email = claims.get(provider.shown_name_claim), claims.get(provider.email_claim)
    is_own = claims.get("email_verified") is not False
    return PersonName(
        make_plain(name, NAME_MAX) if isinstance(name, str) else "",
        make_plain(email, EMAIL_MAX) if isinstance(email, str) and is_own else "",
    )


def _moment(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))
