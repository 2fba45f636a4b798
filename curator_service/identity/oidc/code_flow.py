"""Signing in with a browser: the authorization code flow of OpenID Connect, with PKCE (RFC 7636).

What one sign-in keeps secret is in a cookie of its browser, and nowhere else: state, nonce and PKCE verifier are
derived from it. So an answer is good in the browser alone that asked, and who reads the database completes nothing.
"""

import hashlib
import hmac
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote_plus

import httpx

from curator_service.identity.oidc.faults import Fault, TokenFault
from curator_service.identity.oidc.fetching import Fetch, ProviderUnreachable, log
from curator_service.identity.oidc.keys import KeySet
from curator_service.identity.oidc.verification import is_time, verify
from curator_service.kit.problems import Unavailable
from curator_service.settings import BrowserClient, IdentityProvider

_TYPES = frozenset({"jwt"})
"""An access token (``at+jwt``) is no word on who signs in."""
_CODE_MAX = 4096


@dataclass(frozen=True, slots=True)
class Transaction:
    """One sign-in.

    Attributes
    ----------
    secret : str
        What the browser alone has: 32 random bytes.
    redirect_uri : str
        Where the provider sends the browser back to; a provider has one of its own.
    """

    secret: str
    redirect_uri: str

    def __repr__(self) -> str:
        """Hide the secret."""
        return f"Transaction({self.redirect_uri})"

    @property
    def state(self) -> str:
        """A value that the provider's answer repeats: it ties the answer to this transaction."""
        return self._derive("state")

    @property
    def nonce(self) -> str:
        """A value that the ID token repeats: it ties the token to this sign-in."""
        return self._derive("nonce")

    @property
    def verifier(self) -> str:
        """A secret that redeems the code: the code alone is of no use to others."""
        return self._derive("verifier")

    @property
    def challenge(self) -> str:
        """The hash of the verifier, which the provider gets before."""
        return _encode(hashlib.sha256(self.verifier.encode()).digest())

    def _derive(self, what: str) -> str:
        return _encode(hmac.new(self.secret.encode(), f"curator-sign-in:1\n{what}".encode(), hashlib.sha256).digest())


class CodeFlow:
    """The curator as a client of one provider.

    Parameters
    ----------
    client : BrowserClient
        What the curator is there.
    keys : KeySet
        Those of the provider.
    """

    def __init__(self, provider: IdentityProvider, client: BrowserClient, keys: KeySet, fetch: Fetch) -> None:
        self.provider, self.client = provider, client
        self._keys, self._fetch = keys, fetch

    def authorization_url(self, transaction: Transaction, *, anew: bool) -> str:
        """Return where the browser signs in.

        Parameters
        ----------
        anew : bool
            Whether the person must prove anew who that is, though the provider knows them.

        Raises
        ------
        Unavailable
            If the provider does not say where that is.
        """
        asked = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": transaction.redirect_uri,
            "scope": self.client.scope,
            "state": transaction.state,
            "nonce": transaction.nonce,
            "code_challenge": transaction.challenge,
            "code_challenge_method": "S256",
            **({"prompt": "login", "max_age": "0"} if anew else {}),
        }
        return str(httpx.URL(self._address("authorization_endpoint")).copy_merge_params(asked))

    def redeem(self, transaction: Transaction, code: str, issuer: str, now: datetime) -> dict[str, Any]:
        """Return the claims of the provider on the person who signed in, if all of them hold.

        Parameters
        ----------
        code, issuer : str
            As the answer states them; an issuer need not be stated (RFC 9207) unless the provider says that it is.

        Raises
        ------
        TokenFault
        Unavailable
            If the provider's description or keys are not known.
        """
        is_stated = self._keys.describe().get("authorization_response_iss_parameter_supported") is True
        if (issuer or is_stated) and issuer != self.provider.issuer:
            raise TokenFault(Fault.ANSWER)
        if not 0 < len(code) <= _CODE_MAX:
            raise TokenFault(Fault.CODE)
        try:
            told = self._fetch(self._address("token_endpoint"), *self._ask(transaction, code))
        except ProviderUnreachable as error:
            log.warning("a sign-in of a browser cannot be completed: %s", error)
            raise TokenFault(Fault.CODE) from None
        text = told.get("id_token")
        claims = verify(
            text if isinstance(text, str) else "",
            self._keys,
            audience=self.client.client_id,
            types=_TYPES,
            algorithms=self.provider.algorithms,
            skew_s=self.provider.clock_skew_s,
            # It is looked at once: how long a session lasts is bounded where that begins.
            lifetime_max_s=None,
            now=now,
        )
        if not self._is_answer_to(transaction, claims):
            raise TokenFault(Fault.ANSWER)
        return claims

    def find_fault(self) -> str:
        """Say why nobody can sign in, as far as the provider's description tells; empty where it can be tried."""
        try:
            for name in ("authorization_endpoint", "token_endpoint"):
                self._address(name)
        except Unavailable:
            return "does not describe itself, or names no address of https to sign in at"
        methods = self._keys.document.get("code_challenge_methods_supported", ["S256"])
        return "" if isinstance(methods, list) and "S256" in methods else "does not support PKCE with S256"

    def _address(self, name: str) -> str:
        self._keys.describe()
        address = self._keys.find_address(name)
        if not address:
            raise Unavailable("The identity provider does not say where to sign in. Try again in a minute.")
        return address

    def _ask(self, transaction: Transaction, code: str) -> tuple[str, Mapping[str, str]]:
        """Return the header and the form that redeem a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": transaction.redirect_uri,
            "code_verifier": transaction.verifier,
        }
        name = self.client.client_id
        try:
            secret = self.client.read_secret()
        except (OSError, ValueError) as error:
            log.warning("the secret of a provider's browser client cannot be read: %s", type(error).__name__)
            raise Unavailable("The curator cannot read its secret for this provider. Tell an operator.") from None
        if secret and self.client.auth_method == "client_secret_basic":
            # Each is encoded as a form has it before they are joined (RFC 6749, section 2.3.1).
            pair = f"{quote_plus(name)}:{quote_plus(secret)}"
            return f"Basic {b64encode(pair.encode()).decode()}", form
        return "", form | {"client_id": name} | ({"client_secret": secret} if secret else {})

    def _is_answer_to(self, transaction: Transaction, claims: dict[str, Any]) -> bool:
        """Return whether a token that holds was made for this sign-in, and for this client alone."""
        nonce, audience, party = claims.get("nonce"), claims["aud"], claims.get("azp")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), transaction.nonce.encode()):
            return False
        is_shared = isinstance(audience, list) and len(audience) > 1
        return party == self.client.client_id or (party is None and not is_shared)


def is_between(auth_time: object, began: datetime, now: datetime, skew_s: int) -> bool:
    """Return True if a person signed in between two moments, up to the difference of clocks.

    Parameters
    ----------
    auth_time : object
        What the provider's token states.
    skew_s : int
        How far clocks may differ, in seconds.
    """
    return is_time(auth_time) and began.timestamp() - skew_s <= auth_time <= now.timestamp() + skew_s


def _encode(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
