"""Texts under a secret, encrypted and authenticated (AES-256-GCM), for the one thing that each belongs to."""

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12


def seal(secret: bytes, plain: bytes, about: str) -> str:
    """Encrypt under a fresh nonce; what is sealed twice looks unlike."""
    nonce = os.urandom(_NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(secret).encrypt(nonce, plain, about.encode())).decode()


def unseal(secret: bytes, sealed: str, about: str) -> bytes:
    """Decrypt a text. Raise `ValueError` where it was not sealed under this secret for this."""
    try:
        found = base64.b64decode(sealed, validate=True)
        return AESGCM(secret).decrypt(found[:_NONCE_BYTES], found[_NONCE_BYTES:], about.encode())
    except InvalidTag:
        raise ValueError("it was sealed under another secret, or for something else") from None
