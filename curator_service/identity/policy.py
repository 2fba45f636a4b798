"""Who may do what: one table of role × action × objects. What is not in it is denied."""

from enum import StrEnum


class Role(StrEnum):
    """What a principal is. `ADMIN` is a bundle of duties that will be divided."""

    ADMIN = "admin"
    AUDITOR = "auditor"
    ANALYST = "analyst"


class Action(StrEnum):
    """What can be done through the service."""

    READ_DATASET = "read dataset"
    READ_BUDGET = "read budget"
    READ_RELEASE = "read release"
    QUOTE = "quote"
    REQUEST_RELEASE = "request release"
    READ_JOB = "read job"
    RESERVE = "reserve"
    END_RESERVATION = "end reservation"
    READ_KEYS = "read keys"
    READ_LEDGER = "read ledger"
    SET_LIMIT = "set limit"


class Objects(StrEnum):
    """On which objects an action is allowed."""

    ALL = "all"
    GRANTED = "granted"


POLICY: dict[tuple[Role, Action], Objects] = {
    (Role.ANALYST, Action.READ_DATASET): Objects.GRANTED,
    (Role.ANALYST, Action.READ_BUDGET): Objects.GRANTED,
    (Role.ANALYST, Action.READ_RELEASE): Objects.GRANTED,
    (Role.ANALYST, Action.QUOTE): Objects.GRANTED,
    (Role.ANALYST, Action.REQUEST_RELEASE): Objects.GRANTED,
    (Role.ANALYST, Action.READ_JOB): Objects.GRANTED,
    (Role.ANALYST, Action.RESERVE): Objects.GRANTED,
    (Role.ANALYST, Action.END_RESERVATION): Objects.GRANTED,
    (Role.ANALYST, Action.READ_KEYS): Objects.ALL,
    (Role.AUDITOR, Action.READ_KEYS): Objects.ALL,
    (Role.AUDITOR, Action.READ_DATASET): Objects.ALL,
    (Role.AUDITOR, Action.READ_BUDGET): Objects.ALL,
    (Role.AUDITOR, Action.READ_LEDGER): Objects.ALL,
    (Role.ADMIN, Action.READ_DATASET): Objects.ALL,
    (Role.ADMIN, Action.READ_BUDGET): Objects.ALL,
    (Role.ADMIN, Action.READ_RELEASE): Objects.ALL,
    (Role.ADMIN, Action.QUOTE): Objects.ALL,
    (Role.ADMIN, Action.READ_JOB): Objects.ALL,
    (Role.ADMIN, Action.END_RESERVATION): Objects.ALL,
    (Role.ADMIN, Action.READ_KEYS): Objects.ALL,
    (Role.ADMIN, Action.READ_LEDGER): Objects.ALL,
    (Role.ADMIN, Action.SET_LIMIT): Objects.ALL,
}


def allowed_objects(role: Role, action: Action) -> Objects | None:
    """Return the objects on which a role may act, or None: default deny."""
    return POLICY.get((role, action))


def roles_for(action: Action) -> list[Role]:
    """Return the roles that may take an action, for the text of a refusal."""
    return [role for role in Role if (role, action) in POLICY]
