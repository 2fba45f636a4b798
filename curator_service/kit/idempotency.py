"""Idempotency keys: what a caller sends with each retry of one request, so that it happens once."""

import hashlib
import re
from http import HTTPStatus

from curator_service.kit.problems import Problem

_KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,128}")


class IdempotencyKeyMissing(Problem):
    """A request that charges needs a key, so that a retry cannot charge twice."""

    slug = "idempotency-key-missing"
    status = HTTPStatus.BAD_REQUEST
    title = "An Idempotency-Key header is needed"


class IdempotencyKeyReused(Problem):
    """The key was used for another request."""

    slug = "idempotency-key-reused"
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    title = "This Idempotency-Key was used for another request"


def check_key(key: str | None) -> str:
    """Return a well-formed idempotency key.

    Raises
    ------
    IdempotencyKeyMissing
    """
    if key is None or not _KEY_PATTERN.fullmatch(key):
        raise IdempotencyKeyMissing(
            "Send an `Idempotency-Key` header: 1 to 128 letters, digits, - or _, new for each request and the same for "
            "each retry of it."
        )
    return key


def id_of_request(prefix: str, principal_id: str, key: str) -> str:
    """Return the id of what somebody's request under a key makes: the same for each retry, and nobody else's.

    Parameters
    ----------
    prefix : str
        Of the id, such as ``prp_``.
    principal_id, key : str
        Who asks, and the key.

    Returns
    -------
    str
        The prefix and 24 hexadecimal digits.
    """
    return prefix + hashlib.sha256(f"curator-request:1\n{prefix}\n{principal_id}\n{key}".encode()).hexdigest()[:24]


def key_reused() -> IdempotencyKeyReused:
    """Build the refusal of another request under a key that was used."""
    return IdempotencyKeyReused("This key belongs to another request. Use a new key for a new request.")
