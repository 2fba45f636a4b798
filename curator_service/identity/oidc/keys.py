"""The public keys of one issuer: fetched, kept within bounds, and each good for one kind of signature."""

import threading
import time
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from curator_service.identity.oidc.fetching import Fetch, ProviderUnreachable, is_of_this_machine, is_secure, log
from curator_service.kit.problems import Unavailable

KEYS_MAX = 100
RSA_BITS_MIN = 2048
FRESH_S, LATEST_S = 3600.0, 24 * 3600.0
"""When keys are fetched again, and until when they are used where that fails."""
AGAIN_S = 60.0
"""Between two fetches, whatever callers send."""
_FOR_BROWSERS = "authorization_endpoint"
"""The address to which browsers go: they reach the issuer at its own address."""
ALGORITHMS_OF = {
    ("RSA", None): ("RS256", "PS256"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""Of each type of key the signatures that it may be used for: one taken for another type verifies nothing."""


class KeySet:
    """Keys of one issuer.

    Parameters
    ----------
    fetch : callable
    jwks_uri : str
        Where the keys are; found by the issuer's own description if empty.
    fetch_address : str
        Where the issuer is reached; at its own address if empty.
    clock : callable
        Seconds that only grow.
    """

    def __init__(
        self,
        issuer: str,
        fetch: Fetch,
        *,
        jwks_uri: str = "",
        fetch_address: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.issuer = issuer
        self.document: dict[str, Any] = {}
        self._base = (fetch_address or issuer).rstrip("/")
        self._fetch, self._jwks_uri, self._clock = fetch, jwks_uri, clock
        self._keys: dict[tuple[str, str], PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._lock = threading.Lock()

    def find(self, key_id: str, algorithm: str) -> PyJWK | None:
        """Return the key of an id, for one kind of signature; None if the issuer has none.

        Raises
        ------
        Unavailable
            If no keys are known, or the one that is asked for is not and a fetch was due, and the issuer does not
            say them.
        """
        now = self._clock()
        is_known, is_read = (key_id, algorithm) in self._keys, True
        if now - self._fetched_at > FRESH_S or not is_known:
            is_read = self._refresh(now)
        found = self._keys.get((key_id, algorithm))
        if self._clock() - self._fetched_at > LATEST_S or (found is None and not is_read):
            raise Unavailable("The identity provider does not say its keys now. Nothing was charged; send it again.")
        return found

    def describe(self) -> dict[str, Any]:
        """Return what the issuer says of itself, as it was read with its keys.

        Raises
        ------
        Unavailable
            If that is not known, and the issuer does not say it.
        """
        now = self._clock()
        if now - self._fetched_at > FRESH_S:
            self._refresh(now)
        if not self.document:
            raise Unavailable("The identity provider does not answer now. Try again in a minute.")
        return self.document

    def find_address(self, name: str) -> str:
        """Return an address that the issuer names of itself; empty where it names none that may be asked.

        A description from elsewhere does not point into this machine, past every wall around it.
        """
        return self._read_address(self.document, name)

    def _read_address(self, described: dict[str, Any], name: str) -> str:
        address = described.get(name)
        if not isinstance(address, str) or not is_secure(address):
            return ""
        base = self.issuer
        if name != _FOR_BROWSERS:
            base, own = self._base, f"{self.issuer.rstrip('/')}/"
            address = f"{base}/{address.removeprefix(own)}" if address.startswith(own) else address
        return address if is_of_this_machine(base) or not is_of_this_machine(address) else ""

    def _refresh(self, now: float) -> bool:
        """Fetch the keys, unless that was tried just now; False where it was due, and did not succeed.

        Whoever needs none of the new ones does not wait for somebody else who fetches them.
        """
        if now - self._tried_at < AGAIN_S:
            return not self._lock.locked()
        if not self._lock.acquire(blocking=not self._keys):
            return False
        try:
            if self._clock() - self._tried_at < AGAIN_S:  # somebody else has done it meanwhile
                return self._fetched_at >= self._tried_at
            self._tried_at = self._clock()
            self._keys = self._read()
            self._fetched_at = self._clock()
        except ProviderUnreachable as error:
            log.warning("keys of an identity provider cannot be fetched: %s", error)
            return False
        finally:
            self._lock.release()
        return True

    def _read(self) -> dict[tuple[str, str], PyJWK]:
        if not self._jwks_uri or not self.document:
            self._discover()
        listed = self._fetch(self._jwks_uri or self._read_address(self.document, "jwks_uri"), "").get("keys")
        found: dict[tuple[str, str], PyJWK] = {}
        for described in listed[:KEYS_MAX] if isinstance(listed, list) else ():
            for algorithm in _algorithms_of(described):
                key = _read_key(described, algorithm)
                if key is not None:
                    found.setdefault((described["kid"], algorithm), key)
        return found

    def _discover(self) -> None:
        """Read what the issuer says of itself, which must be of this very issuer."""
        if self._jwks_uri:
            return
        found = self._fetch(f"{self._base}/.well-known/openid-configuration", "")
        if found.get("issuer") != self.issuer:
            raise ProviderUnreachable("it describes another issuer than is set")
        if not self._read_address(found, "jwks_uri"):
            raise ProviderUnreachable("it names no address of https for its keys")
        self.document = found


def _algorithms_of(described: Any) -> tuple[str, ...]:
    """Return what a described key may be used for; nothing where it is not for signatures."""
    if not isinstance(described, dict) or not isinstance(described.get("kid"), str):
        return ()
    uses, kind, curve = described.get("key_ops", ["verify"]), described.get("kty"), described.get("crv")
    if described.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        return ()
    if kind == "RSA":
        curve = None
    elif not isinstance(kind, str) or not isinstance(curve, str):
        return ()
    fit = ALGORITHMS_OF.get((kind, curve), ())
    return tuple(one for one in fit if described.get("alg", one) == one)


def _read_key(described: dict[str, Any], algorithm: str) -> PyJWK | None:
    public = {name: value for name, value in described.items() if name != "d"}
    try:
        key = PyJWK(public, algorithm=algorithm)
    except (PyJWTError, ValueError, TypeError):
        return None
    weak = isinstance(key.key, RSAPublicKey) and key.key.key_size < RSA_BITS_MIN
    return None if weak else key
