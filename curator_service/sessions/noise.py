"""The noise of a session's threshold, encrypted under a secret that follows from a key of the keys folder."""

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from curator_service.ledger.chain.signing import KeyRing, SigningError
from curator_service.sessions.repository import SealedNoise

_NONCE_BYTES = 12
_PURPOSE = "sessions"
_BYTES = 16


def seal(keys: KeyRing, noise: int, about: str) -> SealedNoise:
    """Encrypt a noise for what it belongs to, as long whatever it is."""
    key_id = keys.list_keys()[-1].key_id
    nonce = os.urandom(_NONCE_BYTES)
    plain = noise.to_bytes(_BYTES, "big", signed=True)
    sealed = nonce + AESGCM(keys.secret(key_id, _PURPOSE)).encrypt(nonce, plain, about.encode())
    return SealedNoise(key_id, base64.b64encode(sealed).decode())


def unseal(keys: KeyRing, found: SealedNoise, about: str) -> int | None:
    """Return a noise; None where it is not one that this curator sealed for this, or its key is not here."""
    try:
        sealed = base64.b64decode(found.sealed, validate=True)
        cipher = AESGCM(keys.secret(found.key_id, _PURPOSE))
        return int.from_bytes(
            cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about.encode()), "big", signed=True
        )
    except (InvalidTag, ValueError, SigningError):
        return None
