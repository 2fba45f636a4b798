"""The verification of one JSON Web Token: its signature, by pinned kinds of it, and what it says of itself."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeGuard

import jwt
from jwt.exceptions import PyJWTError

from curator_service.identity.oidc.keys import KeySet

TEXT_MAX = 16 * 1024
_REFUSED = {"crit", "b64", "enc", "zip"}
"""Members of a header that say that the text is not what it seems."""


def looks_like_jwt(text: str) -> bool:
    """Tell whether a text is of the form of a signed token, and not too long to be looked at."""
    return len(text) <= TEXT_MAX and text.startswith("eyJ") and text.count(".") == 2 and text.isascii()


def read_issuer(text: str) -> str:
    """Return which issuer a token claims to be of, before anything is verified: it chooses whose keys are tried."""
    try:
        payload = text.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        issuer = claims["iss"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return ""
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
) -> dict[str, Any] | None:
    """Return what a token says, if all of it holds; else None: which part does not is nobody's business.

    Parameters
    ----------
    text : str
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
    now : datetime

    Raises
    ------
    Unavailable
        If the issuer's keys are not known.
    """
    if not looks_like_jwt(text):
        return None
    try:
        header = jwt.get_unverified_header(text)
        algorithm, key_id = str(header.get("alg")), header.get("kid")
        named = isinstance(key_id, str) and not _REFUSED & header.keys()
        typ = str(header.get("typ", "jwt")).lower().removeprefix("application/")
        if not named or algorithm not in algorithms or typ not in types:
            return None
        key = keys.find(str(key_id), algorithm)
        if key is None:
            return None
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
    except (PyJWTError, ValueError, TypeError, RecursionError):
        return None
    return claims if _is_of_now(claims, now.timestamp(), skew_s, lifetime_max_s) else None


def _is_of_now(claims: dict[str, Any], now: float, skew_s: int, lifetime_max_s: int | None) -> bool:
    moments = claims.get("nbf", claims["iat"]), claims["iat"], claims["exp"]
    if not all(is_time(moment) for moment in moments):
        return False
    begins, made, ends = map(float, moments)
    lasts = lifetime_max_s is None or ends - made <= lifetime_max_s
    return lasts and begins <= now + skew_s and made <= now + skew_s and now < ends + skew_s


def is_time(value: object) -> TypeGuard[float]:
    """Tell whether a claim is a moment, in seconds since 1970."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11
