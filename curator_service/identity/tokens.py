"""Bearer tokens: ``cur_<id>_<secret>``. The id is public; the secret is 256 random bits and stored as its hash."""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from curator_service.kit.idempotency import id_of_request

_PATTERN = re.compile(r"cur_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Token:
    """A token as its holder knows it."""

    id: str
    secret: str

    def __repr__(self) -> str:
        """Hide the secret."""
        return f"Token({self.id})"

    @property
    def text(self) -> str:
        """The text that the holder sends."""
        return f"cur_{self.id}_{self.secret}"

    @property
    def secret_hash(self) -> str:
        """The stored hash: SHA-256 suffices for a secret that nobody can guess."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def matches(self, secret_hash: str) -> bool:
        """Compare with a stored hash, in constant time."""
        return hmac.compare_digest(self.secret_hash, secret_hash)


def make_token() -> Token:
    """Make a new token from the operating system's randomness."""
    return Token(secrets.token_hex(8), secrets.token_urlsafe(32))


def derive_token(principal_id: str, key: str, secret: bytes) -> Token:
    """Make the token of a request: for each retry of it the same one.

    The id is public, and follows from the request alone; what is sent follows from all of the key, so that whoever has
    the curator's secret, too, still has to guess the key.

    Parameters
    ----------
    principal_id, key : str
        Who asks, and the key of the request.
    secret : bytes
        What nobody else knows.
    """
    digest = hmac.new(secret, f"token:2\n{principal_id}\n{key}".encode(), hashlib.sha256).digest()
    return Token(id_of_derived(principal_id, key), base64.urlsafe_b64encode(digest).rstrip(b"=").decode())


def id_of_derived(principal_id: str, key: str) -> str:
    """Return the public id of the token that somebody's request under a key makes."""
    return id_of_request("", principal_id, key)[:16]


def parse_token(text: str) -> Token | None:
    """Read a token; None if it is not one."""
    match = _PATTERN.fullmatch(text)
    return None if match is None else Token(match[1], match[2])
