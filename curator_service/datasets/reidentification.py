"""Identifiers behind pseudonyms, under a second key: optional, for an operator who must be able to reach people.

Rows carry pseudonyms, which nobody can turn back. Where a key file is named at registration, a table beside the rows
has the folded identifier of each pseudonym, encrypted with AES-SIV under that key [1]_, bound to the dataset and to the
pseudonym, and padded, so that its length tells nothing. Nothing else needs the key: it is kept elsewhere.

References
----------
.. [1] D. Harkins, "Synthetic Initialization Vector (SIV) Authenticated Encryption", RFC 5297.
"""

import base64
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from curator_service.datasets.pseudonyms import SIZE, PseudonymArray, Pseudonymiser
from curator_service.datasets.sources.base import IngestError
from curator_service.kit.files import open_regular, sync

IDENTIFIER_MAX = 127
"""Bytes of a folded identifier: its length takes one more."""
_HEADER = "curator-subject-key:1:"
_DOMAIN = b"curator-subject:1"
_BITS = 512
_KEY_FILE_MAX = 1024
_SUFFIX = ".identifiers"
_RECORD = SIZE + 16 + 1 + IDENTIFIER_MAX
"""Bytes: a pseudonym, the tag, a length and the identifier."""
_DATASET_ID = re.compile(r"ds_[0-9a-f]+")


class SubjectKeyError(ValueError):
    """A key of identifiers cannot be used, or is another one; the message says why, for the operator."""


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """A key that encrypts identifiers.

    Attributes
    ----------
    key_id : str
        The beginning of its SHA-256, by which its tables are named.
    secret : bytes
    """

    key_id: str
    secret: bytes = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> "SubjectKey":
        """Read a key's file.

        Raises
        ------
        SubjectKeyError
            If it is not there, others may read it, or it holds no such key.
        """
        try:
            with open_regular(path) as file:
                mode, content = os.fstat(file.fileno()).st_mode, file.read(_KEY_FILE_MAX)
        except OSError as error:
            raise SubjectKeyError(
                f"the key of identifiers {path} cannot be read: {error.strerror}. Without it nobody finds whose a row "
                "is; `curator subjects find`, `answer` and `export` do not need it"
            ) from None
        except ValueError as error:
            raise SubjectKeyError(f"the key of identifiers {path} is {error}") from None
        if stat.S_IMODE(mode) & 0o077:
            raise SubjectKeyError(f"the key of identifiers {path} may be read by others: chmod 600 {path}")
        try:
            secret = base64.b64decode(content.decode("ascii").strip().removeprefix(_HEADER), validate=True)
        except ValueError:
            secret = b""
        if not content.startswith(_HEADER.encode()) or len(secret) != _BITS // 8:
            raise SubjectKeyError(f"{path} holds no key of identifiers; `curator subjects make-key FILE` makes one")
        return cls(f"sub_{hashlib.sha256(secret).hexdigest()[:32]}", secret)

    @classmethod
    def make(cls, path: Path) -> "SubjectKey":
        """Make a key, in a new file that its owner alone reads.

        Raises
        ------
        SubjectKeyError
            If there is such a file, or it cannot be written.
        """
        text = f"{_HEADER}{base64.b64encode(AESSIV.generate_key(_BITS)).decode()}\n"
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            sync(path.parent)
        except FileExistsError:
            raise SubjectKeyError(f"{path} exists; a key is never written over another") from None
        except OSError as error:
            raise SubjectKeyError(f"{path} cannot be written: {error.strerror}") from None
        return cls.read(path)

    def seal(self, dataset_id: str, pseudonym: bytes, identifier: str) -> bytes:
        """Encrypt an identifier.

        Raises
        ------
        IngestError
            If it is too long.
        """
        text = identifier.encode()
        if len(text) > IDENTIFIER_MAX:
            raise IngestError(
                f"an identifier of a person has more than {IDENTIFIER_MAX} bytes, which is too long to be kept "
                "encrypted: use shorter ones, or register without CURATOR_SUBJECT_KEY_FILE"
            )
        padded = bytes([len(text)]) + text.ljust(IDENTIFIER_MAX, b"\0")
        return _cipher(self.secret).encrypt(padded, [_DOMAIN, dataset_id.encode(), pseudonym])

    def open(self, dataset_id: str, pseudonym: bytes, sealed: bytes) -> str:
        """Decrypt an identifier.

        Raises
        ------
        SubjectKeyError
            If it was changed, or is of another dataset, pseudonym or key.
        """
        try:
            padded = _cipher(self.secret).decrypt(sealed, [_DOMAIN, dataset_id.encode(), pseudonym])
        except InvalidTag:
            raise SubjectKeyError(
                f"the identifiers of {dataset_id} were changed or damaged: restore the dataset from a backup"
            ) from None
        return padded[1 : 1 + padded[0]].decode()


@dataclass(frozen=True, slots=True)
class ReversiblePseudonymiser(Pseudonymiser):
    """Makes pseudonyms, and keeps whose they are, encrypted.

    Attributes
    ----------
    key_file : Path
        Read when the first subject is met.
    """

    key_file: Path = field(kw_only=True)
    _tables: dict[Path, tuple[Path, set[bytes]]] = field(default_factory=dict, init=False, repr=False)

    @property
    def keeps_identifiers(self) -> bool:
        """True if `remember` keeps the identifiers of pseudonyms."""
        return True

    def check(self) -> None:
        """Check that the key can be read.

        Raises
        ------
        SubjectKeyError
        """
        SubjectKey.read(self.key_file)

    def remember(self, folder: Path, subjects: pa.Array, pseudonyms: PseudonymArray) -> None:
        """Add who is new to a table of this pseudonymiser's own, durably.

        Raises
        ------
        SubjectKeyError, IngestError
        """
        key = SubjectKey.read(self.key_file)
        if folder not in self._tables:
            self._tables[folder] = folder / f"{key.key_id}.{secrets.token_hex(6)}{_SUFFIX}", set()
        path, known = self._tables[folder]
        dataset_id, added = _dataset_id(folder), []
        for row, pseudonym in enumerate(map(bytes, pseudonyms.tolist())):
            if pseudonym not in known:
                known.add(pseudonym)
                added.append(pseudonym + key.seal(dataset_id, pseudonym, subjects[row].as_py()))
        _write(path, b"".join(added), os.O_APPEND)


def list_keys(folder: Path) -> list[str]:
    """Return the ids of the keys under which a dataset keeps identifiers."""
    return sorted({path.name.partition(".")[0] for path in _list_tables(folder)})


def identify(folder: Path, key: SubjectKey, pseudonyms: Collection[bytes]) -> Mapping[bytes, str]:
    """Return whose pseudonyms are, as far as the dataset keeps it.

    Raises
    ------
    SubjectKeyError
        If it keeps no identifiers, or keeps them under other keys, or they were changed.
    """
    held = list_keys(folder)
    if not held:
        raise SubjectKeyError("the dataset keeps no identifiers: no key was named when it was registered")
    if key.key_id not in held:
        raise SubjectKeyError(f"the identifiers are under {', '.join(held)}, and the file holds {key.key_id}")
    found = {}
    for path in _list_tables(folder, key.key_id):
        for pseudonym, sealed in _read(path):
            if pseudonym in pseudonyms:
                found[pseudonym] = key.open(_dataset_id(folder), pseudonym, sealed)
    return found


def change_key(folder: Path, old: SubjectKey, new: SubjectKey) -> int:
    """Encrypt a dataset's identifiers under another key; return how many. What was under the old one is gone then.

    Raises
    ------
    SubjectKeyError
        If they were changed. The old ones stay then.
    """
    if old == new:
        return 0
    dataset_id, count = _dataset_id(folder), 0
    for path in _list_tables(folder, old.key_id):
        records = [(who, old.open(dataset_id, who, sealed)) for who, sealed in _read(path)]
        changed = [(who, new.seal(dataset_id, who, identifier)) for who, identifier in records]
        _replace(path.with_name(path.name.replace(old.key_id, new.key_id)), changed)
        path.unlink()
        sync(folder)
        count += len(records)
    return count


def carry(folder: Path, target: Path, forgotten: Collection[bytes] = frozenset()) -> None:
    """Write the tables of a folder into that of the next version, without some pseudonyms; it takes no key."""
    for path in _list_tables(folder):
        records = [record for record in _read(path) if record[0] not in forgotten]
        _replace(target / path.name, records)


@lru_cache(maxsize=2)
def _cipher(secret: bytes) -> AESSIV:
    return AESSIV(secret)


def _dataset_id(folder: Path) -> str:
    """Return the dataset of a folder, whose name says more: that it waits, or is of a later version."""
    found = _DATASET_ID.search(folder.name)
    return folder.name if found is None else found[0]


def _list_tables(folder: Path, key_id: str = "sub_") -> list[Path]:
    return sorted(folder.glob(f"{key_id}*{_SUFFIX}"))


def _read(path: Path) -> list[tuple[bytes, bytes]]:
    """Return the pseudonyms of a table, and what is encrypted of each."""
    content = path.read_bytes()
    starts = range(0, len(content) - _RECORD + 1, _RECORD)  # one that was not written to its end is no record
    return [(content[start : start + SIZE], content[start + SIZE : start + _RECORD]) for start in starts]


def _replace(path: Path, records: Sequence[tuple[bytes, bytes]]) -> None:
    part = path.with_name(f".{path.name}")
    _write(part, b"".join(who + sealed for who, sealed in records), os.O_TRUNC)
    part.rename(path)
    sync(path.parent)


def _write(path: Path, content: bytes, flags: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
