"""The keys of a curator, each endorsed by the one before: which of them are trusted. Pure functions."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KEY_PREFIX = b"curator-key:1\n"


PUBLIC_KEY_SIZE, SIGNATURE_SIZE = 32, 64


KEY_ID_PATTERN = re.compile(r"key_[0-9a-f]{32}")


HASH_PATTERN = re.compile(r"[0-9a-f]{64}")


TrustedKeys: TypeAlias = Mapping[str, bytes]
"""Public keys by their ids."""


def canonical(value: Any) -> bytes:
    """Write canonical JSON. A lone surrogate, which UTF-8 cannot say, becomes bytes that match no digest.

    Examples
    --------
    >>> canonical({"b": "x", "a": 1})
    b'{"a":1,"b":"x"}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", errors="surrogatepass")


def decode_base64(text: Any, size: int) -> bytes:
    """Return the bytes of standard base64. Raise `ValueError` unless it is the one way to write `size` bytes."""
    try:
        decoded = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (ValueError, binascii.Error):
        decoded = b""
    if len(decoded) != size or base64.b64encode(decoded).decode() != text:
        raise ValueError(f"not {size} bytes in base64")
    return decoded


def key_id_of(public_key: bytes) -> str:
    """Return the id of a public key.

    Examples
    --------
    >>> key_id_of(bytes(32))
    'key_66687aadf862bd776c8fc18b8e9f8e20'
    """
    return "key_" + hashlib.sha256(public_key).hexdigest()[:32]


def parse_key(text: str) -> tuple[str, bytes | None]:
    """Read a public key in base64, or a key id; return the id, and the key where it was given.

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> parse_key("key_66687aadf862bd776c8fc18b8e9f8e20")
    ('key_66687aadf862bd776c8fc18b8e9f8e20', None)
    """
    if KEY_ID_PATTERN.fullmatch(text):
        return text, None
    try:
        public_key = decode_base64(text, PUBLIC_KEY_SIZE)
    except ValueError:
        raise ValueError("neither a public key (32 bytes in base64) nor a key id (key_ and 32 hex digits)") from None
    return key_id_of(public_key), public_key


def is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Return True if an Ed25519 signature of the message is valid under the public key."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True)
class CuratorKey:
    """A public key as the curator lists it.

    Attributes
    ----------
    key_id : str
        Made of the key itself.
    public_key : bytes
        32 bytes.
    created_at : str
    previous : str or None
        Id of the key before; None for the first.
    endorsement : bytes or None
        Signature of the key before on this listing.
    """

    key_id: str
    public_key: bytes
    created_at: str
    previous: str | None
    endorsement: bytes | None

    @classmethod
    def read(cls, members: Any) -> "CuratorKey":
        """Read one key of a listing. Raise `ValueError` when it is none, or when its id is another key's."""
        if not isinstance(members, Mapping):
            raise ValueError("a key is not an object")  # noqa: TRY004 -- one kind of error for what is read
        public_key = decode_base64(members.get("public_key"), PUBLIC_KEY_SIZE)
        key_id, created_at, previous = (members.get(name) for name in ("key_id", "created_at", "previous"))
        endorsement = members.get("endorsement")
        if key_id != key_id_of(public_key):
            raise ValueError(f"{key_id!r} is not the id of its public key")
        if not isinstance(created_at, str) or not (previous is None or isinstance(previous, str)):
            raise ValueError(f"{key_id} lacks its time or the key before")
        signature = None if endorsement is None else decode_base64(endorsement, SIGNATURE_SIZE)
        return cls(key_id, public_key, created_at, previous, signature)

    def is_endorsed_by(self, public_key: bytes) -> bool:
        """Return whether a key signed this listing."""
        listing = {
            "created_at": self.created_at,
            "key_id": self.key_id,
            "previous": self.previous,
            "public_key": base64.b64encode(self.public_key).decode(),
        }
        return self.endorsement is not None and is_signed(public_key, self.endorsement, KEY_PREFIX + canonical(listing))


def read_listing(body: Any) -> tuple[CuratorKey, ...]:
    """Read the body of ``GET /v1/keys``. Raise `ValueError` when it is none."""
    listed = body.get("keys") if isinstance(body, Mapping) else None
    if not isinstance(listed, list) or not listed:
        raise ValueError("no listing of keys")
    return tuple(map(CuratorKey.read, listed))


def extend_trust(roots: TrustedKeys, listed: Iterable[CuratorKey]) -> dict[str, bytes]:
    """Return the trusted keys, and those that follow from them by an unbroken chain of endorsements."""
    trusted, waiting = dict(roots), list(listed)
    while ready := [(key, trusted[key.previous]) for key in waiting if key.previous in trusted]:
        waiting = [key for key in waiting if key.previous not in trusted]
        trusted = {key.key_id: key.public_key for key, before in ready if key.is_endorsed_by(before)} | trusted
    return trusted


def trust_on_first_use(key_id: str, listed: Sequence[CuratorKey]) -> dict[str, bytes]:
    """Return a listed key with all that are linked to it by endorsements, those before it included; or nothing.

    Nothing is known yet, so nothing is lost by taking the older keys too: they signed the older releases.
    """
    by_id = {key.key_id: key for key in listed}
    first = by_id.get(key_id)
    if first is None:
        return {}
    for _ in listed:  # as many steps as there are keys: a chain may be made to bite its tail
        before = by_id.get(first.previous or "")
        if before is None or not first.is_endorsed_by(before.public_key):
            break
        first = before
    return {key_id: by_id[key_id].public_key} | extend_trust({first.key_id: first.public_key}, listed)
