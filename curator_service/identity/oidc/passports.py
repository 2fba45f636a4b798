"""GA4GH Passports: visas that say that somebody was granted access to a dataset, each signed by who says so.

A visa is only ever asked for beside a permit, and gives nothing by itself.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from curator_service.identity.oidc.faults import TokenFault
from curator_service.identity.oidc.fetching import Fetch
from curator_service.identity.oidc.keys import KeySet
from curator_service.identity.oidc.verification import looks_like_jwt, read_issuer, verify
from curator_service.identity.repository import Visa
from curator_service.kit.problems import Unavailable
from curator_service.settings import VisaIssuer

CLAIM = "ga4gh_passport_v1"
VISAS_MAX = 100
_TYPES = frozenset({"jwt", "vnd.ga4gh.visa+jwt"})


class VisaReader:
    """Reads the visas of a passport that a trusted provider passed on.

    Parameters
    ----------
    issuers : sequence of VisaIssuer
        Whose visas count: their keys are at addresses of settings, never at one that a visa names (``jku``).
    fetch : callable
    """

    def __init__(self, issuers: tuple[VisaIssuer, ...], fetch: Fetch) -> None:
        self._issuers = {one.issuer: one for one in issuers}
        self._keys = {one.issuer: KeySet(one.issuer, fetch, jwks_uri=one.jwks_uri) for one in issuers}

    def read(self, passport: Mapping[str, Any], holder: tuple[str, str], now: datetime) -> tuple[Visa, ...]:
        """Return the visas that hold.

        Parameters
        ----------
        passport : mapping
            Claims of the provider, whose signature, or whose answer to the holder's token, binds visas to the holder.
        holder : tuple of (str, str)
            The provider and its name of the holder: a visa of the same issuer must be of that name.

        Returns
        -------
        tuple of Visa
        """
        listed = passport.get(CLAIM)
        texts = listed[:VISAS_MAX] if isinstance(listed, list) else []
        return tuple(visa for text in texts if isinstance(text, str) for visa in self._read(text, holder, now))

    def _read(self, text: str, holder: tuple[str, str], now: datetime) -> Iterator[Visa]:
        issuer = self._issuers.get(read_issuer(text)) if looks_like_jwt(text) else None
        if issuer is None:
            return
        try:
            claims = verify(
                text,
                self._keys[issuer.issuer],
                audience=None,
                types=_TYPES,
                algorithms=issuer.algorithms,
                skew_s=issuer.clock_skew_s,
                lifetime_max_s=None,
                now=now,
            )
        except (TokenFault, Unavailable):
            return
        if claims["iss"] == holder[0] and claims["sub"] != holder[1]:
            return
        said = claims.get("ga4gh_visa_v1")
        # One with conditions holds under these alone, which nobody here can look into.
        if isinstance(said, dict) and said.get("type") == "ControlledAccessGrants" and not said.get("conditions"):
            value, asserted = said.get("value"), said.get("asserted")
            is_made = isinstance(asserted, int) and asserted <= now.timestamp() + issuer.clock_skew_s
            if isinstance(value, str) and is_made:
                yield Visa(value, float(claims["exp"]))
