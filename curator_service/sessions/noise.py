"""The noise of a session's threshold, encrypted under a secret that follows from a key of the keys folder."""

from curator_service.kit import sealing
from curator_service.ledger.chain.signing import KeyRing, SigningError
from curator_service.sessions.repository import SealedNoise

_PURPOSE = "sessions"
_BYTES = 16
"""Every noise takes as many."""


def seal(keys: KeyRing, noise: int, about: str) -> SealedNoise:
    """Encrypt a noise under the newest key, for the hash of the entry that opened its session."""
    key_id = keys.list_keys()[-1].key_id
    plain = noise.to_bytes(_BYTES, "big", signed=True)
    return SealedNoise(key_id, sealing.seal(keys.secret(key_id, _PURPOSE), plain, about))


def unseal(keys: KeyRing, found: SealedNoise, about: str) -> int | None:
    """Return a noise; None where it is not one that this curator sealed for this, or its key is not here."""
    try:
        plain = sealing.unseal(keys.secret(found.key_id, _PURPOSE), found.sealed, about)
    except (ValueError, SigningError):
        return None
    return int.from_bytes(plain, "big", signed=True)
