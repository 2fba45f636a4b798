"""An issuer of tokens for tests: keys, documents, and whatever an attacker would have it say."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from curator_service.identity.oidc.fetching import ProviderUnreachable
from curator_service.identity.oidc.providers import IdentityProviders
from curator_service.settings import IdentityProvider, VisaIssuer

ISSUER, VISAS = "https://login.example/realm", "https://dac.example"
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
T = int(NOW.timestamp())
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WEAK = rsa.generate_private_key(public_exponent=65537, key_size=1024)
EC, EC384, ED = (
    ec.generate_private_key(ec.SECP256R1()),
    ec.generate_private_key(ec.SECP384R1()),
    ed25519.Ed25519PrivateKey.generate(),
)
_ALGORITHMS = {"rsa": "RS256", "other": "RS256", "weak": "RS256", "ec": "ES256", "ec384": "ES384", "ed": "EdDSA"}
_KEYS = {"rsa": RSA, "other": OTHER, "weak": WEAK, "ec": EC, "ec384": EC384, "ed": ED}


def public_jwk(name: str, **changes: Any) -> dict[str, Any]:
    """Return a public key as an issuer shows it."""
    algorithm = jwt.get_algorithm_by_name(_ALGORITHMS[name])
    shown: dict[str, Any] = algorithm.to_jwk(_KEYS[name].public_key(), as_dict=True)  # type: ignore[attr-defined]
    return {**shown, "kid": name, **changes}


def claims(**changes: Any) -> dict[str, Any]:
    """Return what a good token says, changed; `...` leaves a member out."""
    said: dict[str, Any] = {
        "iss": ISSUER, "sub": "248289761001", "aud": "curator", "iat": T - 10, "nbf": T - 10, "exp": T + 600,
        "groups": ["researchers"], "name": "Ada Lovelace", **changes,
    }  # fmt: skip
    return {name: value for name, value in said.items() if value is not ...}


def sign(said: dict[str, Any], key: str = "rsa", *, header: dict[str, Any] | None = None, algorithm: str = "") -> str:
    """Return a signed token."""
    head = {"kid": key, "typ": "at+jwt", **(header or {})}
    return jwt.encode(said, _KEYS[key], algorithm=algorithm or _ALGORITHMS[key], headers=head)


def visa(value: str = "https://ega.example/D1", **changes: Any) -> str:
    """Return a visa of the data access committee, changed."""
    grant = {"type": "ControlledAccessGrants", "asserted": T - 1000, "value": value, "source": VISAS, "by": "dac"}
    said = {"iss": VISAS, "sub": "ada", "iat": T - 10, "exp": T + 300, "ga4gh_visa_v1": grant, **changes}
    key, typ = said.pop("key", "ed"), said.pop("typ", "vnd.ga4gh.visa+jwt")
    return sign({name: told for name, told in said.items() if told is not ...}, key, header={"typ": typ})


def provider(**changes: Any) -> IdentityProvider:
    """Return the settings of the issuer."""
    told: dict[str, Any] = {
        "issuer": ISSUER, "name": "hospital", "audience": "curator", "client_id": "notebooks",
        "roles": {"researchers": ["analyst"], "dpo": ["privacy_officer", "auditor"], "it": ["operator"]}, **changes,
    }  # fmt: skip
    return IdentityProvider.model_validate(told)


@dataclass
class Documents:
    """Documents of issuers, with a count of requests; an unknown address cannot be reached."""

    keys: list[dict[str, Any]] = field(default_factory=lambda: [public_jwk("rsa"), public_jwk("ec"), public_jwk("ed")])
    visa_keys: list[dict[str, Any]] = field(default_factory=lambda: [public_jwk("ed")])
    told: dict[str, Any] = field(default_factory=dict)
    described: dict[str, Any] = field(default_factory=dict)
    down: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, url: str, authorization: str = "", form: Mapping[str, str] | None = None) -> Any:
        self.asked.append(url)
        if self.down:
            raise ProviderUnreachable("down")
        described = {"jwks_uri": f"{ISSUER}/keys", "userinfo_endpoint": f"{ISSUER}/me", "issuer": ISSUER}
        shown = {
            f"{ISSUER}/.well-known/openid-configuration": described | self.described,
            f"{ISSUER}/keys": {"keys": self.keys},
            f"{ISSUER}/me": self.told,
            f"{VISAS}/keys": {"keys": self.visa_keys},
        }
        if url not in shown:
            raise ProviderUnreachable("nothing is there")
        return shown[url]


class SignInPages(Documents):
    """An issuer at which people sign in with browsers: it gives codes, and tokens for those that are redeemed well.

    Attributes
    ----------
    now : callable
        Its clock.
    issued : callable
        Makes the text of a token of what it says; an attack says how.
    redeemed : list
        What was sent for tokens: the ``Authorization`` header, and the form.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: NOW, issuer: str = ISSUER) -> None:
        super().__init__()
        self.now, self.issuer = now, issuer
        self.issued: Callable[[dict[str, Any]], Any] = lambda said: sign(said, header={"typ": "JWT"})
        self.redeemed: list[tuple[str, Mapping[str, str]]] = []
        self._codes: dict[str, tuple[dict[str, str], dict[str, Any]]] = {}
        self.described = {"authorization_endpoint": f"{issuer}/auth?tenant=a", "token_endpoint": f"{issuer}/token"}
        self.described |= {"authorization_response_iss_parameter_supported": True}

    def sign_in(self, address: str, **changes: Any) -> str:
        """Sign somebody in at an address that the curator sent a browser to; return where they are sent back to."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert address.startswith(f"{self.issuer}/auth?tenant=a&")
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        moment = int(self.now().timestamp())
        said = {"iss": self.issuer, "aud": asked["client_id"], "nonce": asked["nonce"], "iat": moment, "nbf": moment}
        said |= {"exp": moment + 300, "auth_time": moment}
        code = f"code {len(self._codes)}"
        self._codes[code] = asked, claims(**said | changes)
        answer = {"code": code, "state": asked["state"], "iss": self.issuer}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def __call__(self, url: str, authorization: str = "", form: Mapping[str, str] | None = None) -> Any:
        if url != f"{self.issuer}/token":
            return super().__call__(url, authorization, form)
        assert form is not None
        self.redeemed.append((authorization, form))
        asked, said = self._codes.pop(form["code"], ({}, {}))
        challenge = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if challenge != asked.get("code_challenge") or form["redirect_uri"] != asked["redirect_uri"]:
            raise ProviderUnreachable("400")
        return {"id_token": self.issued(said), "access_token": "x", "token_type": "Bearer"}


def providers(documents: Documents, *, now: Callable[[], datetime] = lambda: NOW, **changes: Any) -> IdentityProviders:
    """Return what the curator makes of its settings."""
    visas = VisaIssuer(issuer=VISAS, jwks_uri=f"{VISAS}/keys")
    return IdentityProviders((provider(**changes),), (visas,), now, documents)
