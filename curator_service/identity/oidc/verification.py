"""The verification of one JSON Web Token: its signature, by pinned kinds of it, and what it says of itself."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeGuard

import jwt
from jwt.exceptions import (
    InvalidAudienceError,
    InvalidIssuerError,
    InvalidSignatureError,
    InvalidSubjectError,
    MissingRequiredClaimError,
    PyJWTError,
)

from curator_service.identity.oidc.faults import Fault, TokenFault
from curator_service.identity.oidc.keys import KeySet

TEXT_MAX = 16 * 1024
_REFUSED = {"crit", "b64", "enc", "zip"}
"""Members of a header that say that the text is not what it seems."""


def looks_like_jwt(text: str) -> bool:
    """Return whether a text is of the form of a signed token, and not too long to be looked at."""
    return len(text) <= TEXT_MAX and text.startswith("eyJ") and text.count(".") == 2 and text.isascii()


def check_form(text: str) -> None:
    """Refuse a text that is not of the form of a signed token.

    Raises
    ------
    TokenFault
    """
    if len(text) > TEXT_MAX:
        raise TokenFault(Fault.TOO_LONG)
    if not looks_like_jwt(text):
        is_encrypted = text.startswith("eyJ") and text.count(".") == 4
        raise TokenFault(Fault.ENCRYPTED if is_encrypted else Fault.FORM)


def read_claims(text: str) -> dict[str, Any]:
    """Return what a token says, before anything is verified; nothing where that cannot be read."""
    try:
        payload = text.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, IndexError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def read_issuer(text: str) -> str:
    """Return which issuer a token claims to be of, before anything is verified: it chooses whose keys are tried."""
    issuer = read_claims(text).get("iss")
    return issuer if isinstance(issuer, str) else ""


def verify(
    text: str,
    keys: KeySet,
    *,
    audience: str | None,
    types: frozenset[str],
    algorithms: Sequence[str],
    skew_s: int,
    lifetime_max_s: int | None,
    now: datetime,
) -> dict[str, Any]:
    """Return what a token says, if all of it holds.

    Parameters
    ----------
    keys : KeySet
        Those of its issuer.
    audience : str or None
        Whom it must be for; None for one that must be for nobody in particular.
    types : frozenset of str
        What its header may say that it is, in small letters; a header that says nothing is taken.
    algorithms : sequence of str
        Kinds of signature, as settings have them: what the token asks for decides nothing.
    skew_s : int
        How far clocks may differ, in seconds.
    lifetime_max_s : int or None
        For how long it may have been made, in seconds.

    Raises
    ------
    TokenFault
    Unavailable
        If the issuer's keys are not known.
    """
    check_form(text)
    try:
        header = jwt.get_unverified_header(text)
    except (PyJWTError, ValueError, TypeError, RecursionError):
        raise TokenFault(Fault.FORM) from None
    algorithm, key_id = str(header.get("alg")), header.get("kid")
    if _REFUSED & header.keys():
        raise TokenFault(Fault.HEADER)
    if not isinstance(key_id, str):
        raise TokenFault(Fault.KEY_ID)
    if algorithm not in algorithms:
        raise TokenFault(Fault.ALGORITHM)
    if str(header.get("typ", "jwt")).lower().removeprefix("application/") not in types:
        raise TokenFault(Fault.TYPE)
    key = keys.find(key_id, algorithm)
    if key is None:
        raise TokenFault(Fault.KEY)
    try:
        claims: dict[str, Any] = jwt.decode(
            text,
            key,
            algorithms=[algorithm],
            audience=audience,
            issuer=keys.issuer,
            # Times are held against the service's clock, below.
            options={"require": ["sub", "exp", "iat"], "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
        json.dumps(claims, ensure_ascii=False).encode()  # half of a pair of surrogates can be stored nowhere
    except (PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise _fault_of(error, text) from None
    _check_times(claims, now.timestamp(), skew_s, lifetime_max_s)
    return claims


def _fault_of(error: Exception, text: str) -> TokenFault:
    """Return what a library refused; it looks at claims only where the signature holds."""
    match error:
        case InvalidSignatureError():
            return TokenFault(Fault.SIGNATURE)
        case InvalidAudienceError() | MissingRequiredClaimError(claim="aud"):
            is_account = read_claims(text).get("aud") in ("account", ["account"])
            return TokenFault(Fault.AUDIENCE_ACCOUNT if is_account else Fault.AUDIENCE, is_signed=True)
        case MissingRequiredClaimError(claim="exp" | "iat"):
            return TokenFault(Fault.TIMES, is_signed=True)
        case MissingRequiredClaimError(claim="sub") | InvalidSubjectError():
            return TokenFault(Fault.SUBJECT, is_signed=True)
        case InvalidIssuerError() | MissingRequiredClaimError():
            return TokenFault(Fault.ISSUER, is_signed=True)
    return TokenFault(Fault.FORM)


def _check_times(claims: dict[str, Any], now: float, skew_s: int, lifetime_max_s: int | None) -> None:
    moments = claims.get("nbf", claims["iat"]), claims["iat"], claims["exp"]
    if not all(is_time(moment) for moment in moments):
        raise TokenFault(Fault.TIMES, is_signed=True)
    begins, made, ends = map(float, moments)
    if max(begins, made) > now + skew_s:
        raise TokenFault(Fault.NOT_YET, is_signed=True)
    if now >= ends + skew_s:
        raise TokenFault(Fault.EXPIRED, is_signed=True)
    if lifetime_max_s is not None and ends - made > lifetime_max_s:
        raise TokenFault(Fault.LIFETIME, is_signed=True)


def is_time(value: object) -> TypeGuard[float]:
    """Return whether a claim is a moment, in seconds since 1970."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11
