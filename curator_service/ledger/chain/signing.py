"""The curator's signature: Ed25519 keys, each endorsed by the one before, and checkpoints, which they sign.

A private key is a file that only the curator reads; the public keys and their endorsements are rows of the database,
so that every worker and host verifies with the same ones. What the database holds of rows is under secrets that are
derived from private keys: whoever has the database alone cannot test a guess of a row.
"""

import base64
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from curator_service.kit.db import Connection, Database
from curator_service.kit.files import sync
from curator_service.ledger.chain.entries import Checkpoint, canonical
from curator_service.ledger.chain.keys import PublicKey, insert_key, list_keys

_KEY_DOMAIN = b"curator-key:1\n"
_SECRET_DOMAIN = b"curator-secret:1\n"


class SigningError(ValueError):
    """The curator cannot sign, or must not; the message says why, for the admin."""


class KeyUnreadable(SigningError):
    """The private key cannot be read now."""


def key_id_of(public_key: bytes) -> str:
    """Name a public key by the beginning of its SHA-256."""
    return f"key_{hashlib.sha256(public_key).hexdigest()[:32]}"


def _endorsed_text(key: PublicKey) -> bytes:
    payload = {
        "created_at": key.created_at,
        "key_id": key.key_id,
        "previous": key.previous,
        "public_key": key.public_key,
    }
    return _KEY_DOMAIN + canonical(payload).encode()


def verifies(public_key: str, signature: str, message: bytes) -> bool:
    """Tell whether a base64 signature on a message is by a base64 public key."""
    try:
        _verify(public_key, signature, message)
    except (ValueError, InvalidSignature):
        return False
    return True


@lru_cache(maxsize=1024)
def _verify(public_key: str, signature: str, message: bytes) -> None:
    """Raise where a signature does not hold: so it is not remembered, and nobody fills the memory with their texts."""
    _read_public_key(public_key).verify(base64.b64decode(signature, validate=True), message)


@lru_cache(maxsize=64)
def _read_public_key(text: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))


def check_keys(keys: list[PublicKey]) -> str:
    """Check that each key has its name and is endorsed by the one before; return what is wrong, or nothing."""
    before: PublicKey | None = None
    for key in keys:
        try:
            named = key_id_of(base64.b64decode(key.public_key, validate=True)) == key.key_id
        except ValueError:
            named = False
        if not named:
            return f"the key {key.key_id} does not have the name of its public key"
        if key.previous != ("" if before is None else before.key_id):
            return f"the key {key.key_id} does not follow the one before"
        if before is not None and not verifies(before.public_key, key.endorsement, _endorsed_text(key)):
            return f"the key {key.key_id} is not endorsed by the one before"
        before = key
    return ""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Every public key that ever signed: what verifying takes, and no secret.

    Attributes
    ----------
    public_keys : dict of str to str
        Base64, by key id.
    """

    public_keys: dict[str, str]

    def holds(self, checkpoint: Checkpoint, signature: str) -> bool:
        """Tell whether a signature on a checkpoint is one of this curator's."""
        return self.holds_statement(checkpoint.key_id, signature, checkpoint.statement)

    def holds_statement(self, key_id: str, signature: str, statement: bytes) -> bool:
        """Tell whether this curator signed a statement; a statement begins with its purpose."""
        public_key = self.public_keys.get(key_id)
        return public_key is not None and verifies(public_key, signature, statement)


@dataclass(frozen=True, slots=True)
class Signer(Verifier):
    """The key that signs now, beside every public key.

    Attributes
    ----------
    key_id : str
    """

    key_id: str
    _private: Ed25519PrivateKey = field(repr=False)

    def sign(self, checkpoint: Checkpoint) -> str:
        """Sign a checkpoint; return the signature in base64."""
        return self.sign_statement(checkpoint.statement)

    def sign_statement(self, statement: bytes) -> str:
        """Sign a statement, which begins with what it is for; return the signature in base64."""
        return base64.b64encode(self._private.sign(statement)).decode()


class KeyRing:
    """The curator's keys: private ones in a folder, public ones in the database.

    Parameters
    ----------
    folder : Path
        Holds a file for each private key, readable by its owner alone.
    announce : callable
        Writes into the chains that a key signs from now on, in the unit of work that makes it.
    subject_key_file : Path, optional
        The file of another key, kept elsewhere, that pseudonyms of rows can be turned back with.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        announce: Callable[[Connection, Signer, str], None],
        subject_key_file: Path | None = None,
    ) -> None:
        self.database = database
        self.folder = folder
        self.subject_key_file = subject_key_file
        self._announce = announce
        self._signer: Signer | None = None
        self._verifier: Verifier | None = None

    def signer(self, moment: str) -> Signer:
        """Return what signs now; the first call of a new curator makes its first key.

        Call it before a unit of work begins.

        Raises
        ------
        SigningError
            If the private key is not here, or the public keys do not follow from each other.
        """
        if self._signer is None:
            keys = self.list_keys()
            if not keys:
                self._add(moment, None)
                keys = self.list_keys()
            self._signer = self._load(keys)
        return self._signer

    def verifier(self, *, knowing: str | None = None) -> Verifier:
        """Return what verifies signatures; it needs no private key.

        Raises
        ------
        SigningError
            If the public keys do not follow from each other.
        """
        if self._verifier is None or (knowing is not None and knowing not in self._verifier.public_keys):
            keys = self.list_keys()
            self._check(keys)
            self._verifier = Verifier({key.key_id: key.public_key for key in keys})
            self._signer = None  # a newer key may sign by now
        return self._verifier

    def verifier_of_those_that_follow(self) -> Verifier:
        """Return a verifier with the keys that follow from the first; later keys that do not are ignored.

        Raises
        ------
        KeyUnreadable
            If the file that names the first one cannot be read.
        """
        keys = self.list_keys()
        while keys:
            try:
                self._check(keys)
                break
            except KeyUnreadable:
                raise
            except SigningError:
                keys.pop()
        return Verifier({key.key_id: key.public_key for key in keys})

    def forget(self) -> None:
        """Read the keys again when they are asked for: another process may have made one."""
        self._signer = self._verifier = None

    def list_keys(self) -> list[PublicKey]:
        """Return every public key, the oldest first."""
        with self.database.read() as connection:
            return list_keys(connection)

    def rotate(self, moment: str) -> Signer:
        """Make a new key, endorsed by the one that signed until now, and sign with it from now on.

        A worker that runs goes on with the key that it knows until it meets the new one, or is started again.
        """
        keys = self.list_keys()
        self._load(keys)
        self._add(moment, keys[-1])
        self._signer = self._verifier = None
        return self.signer(moment)

    def secret(self, key_id: str, purpose: str) -> bytes:
        """Derive a secret of 32 bytes from a private key (HKDF): it is made, rotated and kept as that key is.

        Raises
        ------
        SigningError
            If the private key is not here.
        """
        seed = self._read(key_id).private_bytes_raw()
        return HKDF(SHA256(), 32, salt=None, info=_SECRET_DOMAIN + purpose.encode()).derive(seed)

    def list_secrets(self, purpose: str) -> list[bytes]:
        """Derive a secret from each private key that is here, the newest first; see `secret`."""
        found = []
        for key in reversed(self.list_keys()):
            try:
                found.append(self.secret(key.key_id, purpose))
            except SigningError:
                continue
        return found

    def recover(self, moment: str) -> list[str]:
        """Take back keys with files here and with rows lost from the database; return their ids.

        Each is endorsed again by the last one that the database knows. No chain is written: a restored one must not
        grow before it is reconciled.
        """
        known = {key.key_id for key in self.list_keys()}
        if not known:
            return []  # the first key is made, or restored with the database: no file alone says which it was
        found: list[str] = []
        for path in sorted(self.folder.glob("key_*.pem"), key=lambda file: file.stat().st_mtime_ns):
            if path.stem not in known:
                self._insert(self._read(path.stem), moment, self.list_keys()[-1], announce=False)
                found.append(path.stem)
        self._signer = self._verifier = None
        return found

    def _check(self, keys: list[PublicKey]) -> None:
        """Check that the keys follow from each other, and from the first one that this curator ever had.

        A file beside the private keys names it: whoever may write to the database cannot put another one before it.
        """
        problem = check_keys(keys)
        if problem:
            raise SigningError(problem)
        path = self.folder / "first_key"
        try:
            first = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            first = ""
        except OSError as error:
            raise KeyUnreadable(f"{path} cannot be read: {error.strerror}") from None
        if first and keys and keys[0].key_id != first:
            raise SigningError(f"the first key is {keys[0].key_id}, and {path} says {first}")
        if not first and keys and self._path(keys[0].key_id).exists():
            path.write_text(f"{keys[0].key_id}\n", encoding="ascii")

    def _load(self, keys: list[PublicKey]) -> Signer:
        self._check(keys)
        active = keys[-1]
        private = self._read(active.key_id)
        if _public_text(private) != active.public_key:
            raise SigningError(f"the private key in {self._path(active.key_id)} is not the one of {active.key_id}")
        return Signer({key.key_id: key.public_key for key in keys}, active.key_id, private)

    def _add(self, moment: str, before: PublicKey | None) -> None:
        private = Ed25519PrivateKey.generate()
        # First the file: a public key without its private one could not sign.
        self._write(key_id_of(private.public_key().public_bytes_raw()), private)
        if not self._insert(private, moment, before):  # another process was first: its key is the one
            self._path(key_id_of(private.public_key().public_bytes_raw())).unlink()

    def _insert(
        self, private: Ed25519PrivateKey, moment: str, before: PublicKey | None, *, announce: bool = True
    ) -> bool:
        public = _public_text(private)
        previous = "" if before is None else before.key_id
        key = PublicKey(key_id_of(base64.b64decode(public)), public, moment, previous, "")
        if before is not None:
            endorsement = self._read(before.key_id).sign(_endorsed_text(key))
            key = PublicKey(key.key_id, public, moment, previous, base64.b64encode(endorsement).decode())
        with self.database.begin() as connection:
            inserted = insert_key(connection, key)
            if inserted and announce:
                self._announce(connection, Signer({key.key_id: public}, key.key_id, private), moment)
        return inserted

    def _path(self, key_id: str) -> Path:
        return self.folder / f"{key_id}.pem"

    def _read(self, key_id: str) -> Ed25519PrivateKey:
        path = self._path(key_id)
        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
        except OSError:
            raise KeyUnreadable(
                f"the private key {path} cannot be read: copy it from where the curator was set up; without it nothing "
                "can be signed"
            ) from None
        except (ValueError, TypeError):
            raise SigningError(f"{path} holds no private key that can be used") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise SigningError(f"{path} holds a key of another kind than Ed25519")
        return key

    def _write(self, key_id: str, private: Ed25519PrivateKey) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        descriptor = os.open(self._path(key_id), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        sync(self.folder)


def _public_text(private: Ed25519PrivateKey) -> str:
    return base64.b64encode(private.public_key().public_bytes_raw()).decode()
