"""Why a token of an identity provider does not hold: a closed set, for the log, for operators and for persons."""

import logging
from dataclasses import dataclass
from enum import StrEnum

log = logging.getLogger("curator_service")


class Fault(StrEnum):
    """One reason. Its value is what the log says; it holds nothing of the token."""

    TOO_LONG = "too-long"
    FORM = "form"
    ENCRYPTED = "encrypted"
    ISSUER = "issuer"
    HEADER = "header"
    KEY_ID = "key-id"
    ALGORITHM = "algorithm"
    TYPE = "type"
    KEY = "key"
    SIGNATURE = "signature"
    AUDIENCE = "audience"
    AUDIENCE_ACCOUNT = "audience-account"
    TIMES = "times"
    NOT_YET = "not-yet"
    EXPIRED = "expired"
    LIFETIME = "lifetime"
    SUBJECT = "subject"
    GROUPS_ABSENT = "groups-absent"
    GROUPS_OVERAGE = "groups-overage"
    GROUPS_PATHS = "groups-paths"
    GROUPS_TEXT = "groups-text"
    GROUPS_UNMAPPED = "groups-unmapped"
    NAME = "name"
    ANSWER = "answer"
    CODE = "code"


WORDS: dict[Fault, str] = {
    Fault.TOO_LONG: "The token is longer than 16 KiB. Let the provider state fewer groups in it.",
    Fault.FORM: "This is no signed JSON Web Token. Let the provider issue access tokens of that form.",
    Fault.ENCRYPTED: "The token is encrypted. Let the provider sign it only.",
    Fault.ISSUER: "No provider of the settings has this issuer. `issuer` must equal the claim `iss`, letter by letter.",
    Fault.HEADER: "The token's header has a member (`crit`, `b64`, `enc` or `zip`) that is not supported.",
    Fault.KEY_ID: "The token's header names no key (`kid`).",
    Fault.ALGORITHM: "The token is signed with an algorithm that `algorithms` of the settings does not list.",
    Fault.TYPE: "The token's header says that it is no access token (`typ`).",
    Fault.KEY: "The provider's keys have none of this id and type. A new key is fetched within a minute.",
    Fault.SIGNATURE: "The signature does not fit the provider's key.",
    Fault.AUDIENCE: "The token is for another application: `aud` does not hold the `audience` of the settings.",
    Fault.AUDIENCE_ACCOUNT: (
        "The token is for `account`, the provider's own pages: add a mapper of the audience to the client there."
    ),
    Fault.TIMES: "The token does not state `iat` and `exp`, or `nbf`, as times.",
    Fault.NOT_YET: "The token holds only later: the clocks of the provider and of the curator differ.",
    Fault.EXPIRED: "The token has expired, or the clocks of the provider and of the curator differ: sign in again.",
    Fault.LIFETIME: "The token was made for longer than `lifetime_max_s` of the settings.",
    Fault.SUBJECT: "The token does not say who you are: it lacks `sub`, or the `subject_claim` of the settings.",
    Fault.GROUPS_ABSENT: "The token states no groups: let the provider state them in the claim `groups_claim`.",
    Fault.GROUPS_OVERAGE: "You are in too many groups for a token: let the provider state this application's alone.",
    Fault.GROUPS_PATHS: (
        "None of your groups has a role here. The token states paths, such as `/name`: map these, or state names."
    ),
    Fault.GROUPS_TEXT: "The token states groups as one text with separators: let the provider state a list.",
    Fault.GROUPS_UNMAPPED: "None of your groups has a role here: an operator maps groups in `roles` of the settings.",
    Fault.NAME: "Your name here is somebody else's: an operator must look.",
    Fault.ANSWER: "The provider's answer is not one to this sign-in.",
    Fault.CODE: "The provider does not redeem the code of this sign-in.",
}
"""What each means and what to do, for whoever may know: an operator, and a person whose token is signed."""


class TokenFault(Exception):
    """A token does not hold.

    Parameters
    ----------
    provider : str
        The provider's name in the settings; empty before it is known.
    is_signed : bool
        Whether the signature holds, so that whoever sent the token may be told why it does not.
    """

    def __init__(self, fault: Fault, provider: str = "", *, is_signed: bool = False) -> None:
        super().__init__(fault.value)
        self.fault, self.provider, self.is_signed = fault, provider, is_signed


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a token does not hold, for an operator.

    Attributes
    ----------
    fault : Fault or None
        None for one that holds.
    is_signed : bool
        Whether its signature holds, so that what it states is its issuer's word.
    stated : list of (str, object, str)
        Claims, what the token states, and what settings want.
    """

    fault: Fault | None
    is_signed: bool
    stated: list[tuple[str, object, str]]


def log_fault(error: TokenFault) -> None:
    """Write into the log that a sign-in fails, where, and why; nothing of the token."""
    log.warning("a sign-in%s fails: %s", f" at {error.provider}" if error.provider else "", error.fault.value)
