"""Policy of access: one table of action × role × objects. Everything else is denied."""

from collections.abc import Iterable
from enum import StrEnum


class Role(StrEnum):
    """What a principal does in the hospital, or with it; one may hold several."""

    ANALYST = "analyst"
    STEWARD = "steward"
    PRIVACY_OFFICER = "privacy_officer"
    AUDITOR = "auditor"
    OPERATOR = "operator"


class Action(StrEnum):
    """Action through the service."""

    READ_DATASET = "read dataset"
    READ_BUDGET = "read budget"
    READ_POPULATIONS = "read populations"
    READ_RELEASE = "read release"
    READ_EVIDENCE = "read evidence"
    READ_PERMIT_EVIDENCE = "read the evidence of a permit"
    QUOTE = "quote"
    REQUEST_RELEASE = "request release"
    READ_JOB = "read job"
    RESERVE = "reserve"
    READ_RESERVATION = "read reservation"
    END_RESERVATION = "end reservation"
    READ_KEYS = "read keys"
    READ_LEDGER = "read ledger"
    SET_LIMIT = "set limit"
    READ_PROPOSALS = "read proposals"
    READ_OWN_PROPOSALS = "read one's own proposals"
    WITHDRAW = "take one's own proposal back"
    DISCUSS = "write about one's own proposal"
    ASK_PERMIT = "ask for a permit"
    READ_PERMIT = "read permit"
    END_PERMIT = "end permit"
    READ_SPENDING = "read spending"
    READ_SELF = "read what the curator knows of oneself"
    ROTATE = "rotate one's own token"
    NAME = "set a displayed name"
    ERASE_NAME = "erase a displayed name"
    READ_PRINCIPALS = "read principals and tokens"
    ISSUE = "create token"
    REVOKE = "revoke token"
    REGISTER = "register rows of the inbox"
    READ_REGISTER = "read the register"
    READ_HEALTH = "read the health of the service"
    SIGN_IN = "learn where to sign in"
    COLLECT = "open a survey, invite, and close it"
    READ_REPORTS = "read surveys and their reports"
    READ_SURVEY = "read a survey's question"
    ANSWER = "give a report"


class Objects(StrEnum):
    """On which objects an action is allowed."""

    ALL = "all"
    GRANTED = "granted"


ASKING = (Role.ANALYST, Role.STEWARD, Role.PRIVACY_OFFICER)
INSPECTING = (Role.STEWARD, Role.PRIVACY_OFFICER, Role.AUDITOR, Role.OPERATOR)
POLICY: dict[Action, dict[Role, Objects]] = {
    Action.READ_DATASET: {
        Role.ANALYST: Objects.GRANTED,
        Role.STEWARD: Objects.ALL,
        Role.PRIVACY_OFFICER: Objects.ALL,
        Role.AUDITOR: Objects.ALL,
    },
    Action.READ_BUDGET: {
        Role.ANALYST: Objects.GRANTED,
        Role.STEWARD: Objects.ALL,
        Role.PRIVACY_OFFICER: Objects.ALL,
        Role.AUDITOR: Objects.ALL,
    },
    Action.READ_POPULATIONS: dict.fromkeys((Role.STEWARD, Role.PRIVACY_OFFICER, Role.AUDITOR), Objects.ALL),
    Action.READ_RELEASE: {Role.ANALYST: Objects.GRANTED, Role.PRIVACY_OFFICER: Objects.ALL},
    Action.READ_EVIDENCE: {
        Role.ANALYST: Objects.GRANTED,
        Role.PRIVACY_OFFICER: Objects.ALL,
        Role.AUDITOR: Objects.ALL,
    },
    Action.READ_PERMIT_EVIDENCE: {Role.PRIVACY_OFFICER: Objects.ALL, Role.AUDITOR: Objects.ALL},
    Action.QUOTE: {Role.ANALYST: Objects.GRANTED, Role.STEWARD: Objects.ALL, Role.PRIVACY_OFFICER: Objects.ALL},
    Action.REQUEST_RELEASE: {Role.ANALYST: Objects.GRANTED},
    Action.READ_JOB: {Role.ANALYST: Objects.GRANTED, Role.PRIVACY_OFFICER: Objects.ALL, Role.OPERATOR: Objects.ALL},
    Action.RESERVE: {Role.ANALYST: Objects.GRANTED},
    Action.READ_RESERVATION: {
        Role.ANALYST: Objects.GRANTED,
        Role.PRIVACY_OFFICER: Objects.ALL,
        Role.OPERATOR: Objects.ALL,
    },
    Action.END_RESERVATION: {
        Role.ANALYST: Objects.GRANTED,
        Role.PRIVACY_OFFICER: Objects.ALL,
        Role.OPERATOR: Objects.ALL,
    },
    Action.READ_KEYS: dict.fromkeys(Role, Objects.ALL),
    Action.READ_LEDGER: {Role.PRIVACY_OFFICER: Objects.ALL, Role.AUDITOR: Objects.ALL},
    Action.SET_LIMIT: {Role.PRIVACY_OFFICER: Objects.ALL},
    Action.READ_PROPOSALS: {Role.PRIVACY_OFFICER: Objects.ALL, Role.AUDITOR: Objects.ALL},
    Action.READ_OWN_PROPOSALS: dict.fromkeys(ASKING, Objects.GRANTED),
    Action.WITHDRAW: dict.fromkeys(ASKING, Objects.GRANTED),
    Action.DISCUSS: dict.fromkeys(ASKING, Objects.GRANTED),
    Action.ASK_PERMIT: {Role.ANALYST: Objects.GRANTED, Role.STEWARD: Objects.ALL, Role.PRIVACY_OFFICER: Objects.ALL},
    Action.READ_PERMIT: {Role.ANALYST: Objects.GRANTED} | dict.fromkeys(INSPECTING, Objects.ALL),
    Action.END_PERMIT: {Role.PRIVACY_OFFICER: Objects.ALL},
    Action.READ_SPENDING: {Role.PRIVACY_OFFICER: Objects.ALL, Role.AUDITOR: Objects.ALL},
    Action.READ_SELF: dict.fromkeys(Role, Objects.ALL) | {Role.ANALYST: Objects.GRANTED},
    Action.ROTATE: dict.fromkeys(Role, Objects.ALL) | {Role.ANALYST: Objects.GRANTED},
    Action.NAME: dict.fromkeys(ASKING, Objects.GRANTED) | {Role.OPERATOR: Objects.ALL},
    Action.ERASE_NAME: dict.fromkeys(ASKING, Objects.GRANTED)
    | dict.fromkeys((Role.PRIVACY_OFFICER, Role.OPERATOR), Objects.ALL),
    Action.READ_PRINCIPALS: {
        Role.PRIVACY_OFFICER: Objects.ALL,
        Role.AUDITOR: Objects.ALL,
        Role.OPERATOR: Objects.ALL,
    },
    Action.ISSUE: {Role.OPERATOR: Objects.ALL},
    Action.REVOKE: {Role.PRIVACY_OFFICER: Objects.ALL, Role.OPERATOR: Objects.ALL},
    Action.REGISTER: {Role.STEWARD: Objects.ALL},
    Action.READ_REGISTER: {Role.PRIVACY_OFFICER: Objects.ALL, Role.AUDITOR: Objects.ALL},
    Action.READ_HEALTH: {
        Role.PRIVACY_OFFICER: Objects.ALL,
        Role.AUDITOR: Objects.ALL,
        Role.OPERATOR: Objects.ALL,
    },
    Action.SIGN_IN: dict.fromkeys(Role, Objects.ALL),
    Action.COLLECT: {Role.STEWARD: Objects.ALL, Role.PRIVACY_OFFICER: Objects.ALL},
    Action.READ_REPORTS: dict.fromkeys(Role, Objects.ALL),
    Action.READ_SURVEY: dict.fromkeys(Role, Objects.ALL),
    Action.ANSWER: dict.fromkeys(Role, Objects.ALL),
}
PUBLIC = frozenset({Action.SIGN_IN, Action.READ_SURVEY, Action.ANSWER})
"""What anybody may do without authentication: whoever signs in has none yet, and who answers a survey is not known."""
READING = frozenset(
    {
        Action.READ_DATASET,
        Action.READ_BUDGET,
        Action.READ_POPULATIONS,
        Action.READ_RELEASE,
        Action.READ_EVIDENCE,
        Action.READ_PERMIT_EVIDENCE,
        Action.QUOTE,
        Action.READ_JOB,
        Action.READ_RESERVATION,
        Action.READ_KEYS,
        Action.READ_LEDGER,
        Action.READ_PROPOSALS,
        Action.READ_OWN_PROPOSALS,
        Action.READ_PERMIT,
        Action.READ_SPENDING,
        Action.READ_SELF,
        Action.ROTATE,  # of itself: what comes of it may only look, too
        Action.READ_PRINCIPALS,
        Action.READ_REGISTER,
        Action.READ_HEALTH,
        Action.SIGN_IN,
        Action.READ_REPORTS,
        Action.READ_SURVEY,
    }
)
"""What a token that may only look can do, where its roles allow it."""
PRIVILEGED = frozenset({Role.STEWARD, Role.PRIVACY_OFFICER, Role.OPERATOR})
"""Roles to which nobody is appointed over HTTP: at the machine, or by the groups of an identity provider."""


def allowed_objects(roles: Iterable[Role], action: Action) -> Objects | None:
    """Return the objects on which whoever holds roles may act: of several the widest; None is default deny."""
    found = {POLICY[action].get(role) for role in roles}
    return next((objects for objects in Objects if objects in found), None)


def roles_for(action: Action) -> list[Role]:
    """Return the roles that may take an action, for the text of a refusal."""
    return [role for role in Role if role in POLICY[action]]
