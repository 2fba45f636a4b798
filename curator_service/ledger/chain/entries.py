"""Entries of the ledger: their canonical text, their hash, and the checkpoint that is signed of each."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from curator_service.entries.base import FORMAT

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_ENTRY_DOMAIN = f"curator-ledger-entry:{FORMAT}\n".encode()
_CHECKPOINT_DOMAIN = b"curator-checkpoint:1\n"


def canonical(payload: Mapping[str, Any]) -> str:
    """Return the canonical JSON (RFC 8785) of an object of strings and integers alone.

    Examples
    --------
    >>> canonical({"b": "x", "a": 1})
    '{"a":1,"b":"x"}'
    """
    return _ENCODER.encode(payload)


def entry_hash(payload_text: str) -> str:
    """Hash an entry's canonical text, in hexadecimal SHA-256."""
    return hashlib.sha256(_ENTRY_DOMAIN + payload_text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A row of the log: its place, its text, its hash and its signature."""

    sequence: int
    payload_text: str
    entry_hash: str
    signature: str

    def render(self) -> dict[str, Any]:
        """Return what it says, with its hash and signature; of a text that is no entry, that it is unreadable."""
        try:
            said = json.loads(self.payload_text)
        except (ValueError, RecursionError):
            said = None
        said = said if isinstance(said, dict) else {"kind": "unreadable"}
        return said | {"entry_hash": self.entry_hash, "signature": self.signature}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Signed part of an entry: the place in the chain, and the account at that place.

    Whoever keeps one can tell later whether the ledger still holds that entry, and what had been spent by then.
    """

    population: str
    sequence: int
    entry_hash: str
    epoch: int
    limit: int
    posted: int
    pending: int
    key_id: str

    @property
    def payload(self) -> dict[str, Any]:
        """The checkpoint as JSON; amounts as strings, for they may be beyond the integers of JSON's readers."""
        return {
            "entry_hash": self.entry_hash,
            "epoch": self.epoch,
            "key_id": self.key_id,
            "limit": str(self.limit),
            "pending": str(self.pending),
            "population": self.population,
            "posted": str(self.posted),
            "sequence": self.sequence,
        }

    @property
    def statement(self) -> bytes:
        """The bytes that the signature covers."""
        return _CHECKPOINT_DOMAIN + to_json(self.payload)  # canonical: its members stand in their order

    @property
    def order(self) -> tuple[int, int]:
        """Order in time: an epoch begins when a curator was restored from a backup."""
        return self.epoch, self.sequence

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> "Checkpoint":
        """Read a checkpoint off an object that has its members.

        Raises
        ------
        ValueError, KeyError, TypeError
            If it is not one, to the letter.
        """
        checkpoint = cls(
            population=_text(payload["population"]),
            sequence=_whole(payload["sequence"]),
            entry_hash=_text(payload["entry_hash"]),
            epoch=_whole(payload["epoch"]),
            limit=int(payload["limit"]),
            posted=int(payload["posted"]),
            pending=int(payload["pending"]),
            key_id=_text(payload["key_id"]),
        )
        for name, value in checkpoint.payload.items():
            if type(payload[name]) is not type(value) or payload[name] != value:
                raise ValueError("not a checkpoint, to the letter")
        return checkpoint


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint with the curator's signature on it."""

    checkpoint: Checkpoint
    signature: str

    @property
    def payload(self) -> dict[str, Any]:
        """The checkpoint as it is kept and sent."""
        return {**self.checkpoint.payload, "signature": self.signature}

    @classmethod
    def read(cls, payload: Any) -> "SignedCheckpoint":
        """Read one off an object that has its members.

        Raises
        ------
        ValueError, KeyError, TypeError
        """
        if not isinstance(payload["signature"], str):
            raise TypeError("a signature is text")
        return cls(Checkpoint.read(payload), payload["signature"])


@dataclass(frozen=True)
class Receipt:
    """An entry as the holder of a release keeps it: everything the entry says, its hash and its signature."""

    payload_text: str
    entry_hash: str
    signature: str

    @classmethod
    def of(cls, payload_text: str, signed: "SignedCheckpoint") -> "Receipt":
        """Return the receipt of an entry that was just written, and need not be read again."""
        receipt = cls(payload_text, signed.checkpoint.entry_hash, signed.signature)
        receipt.__dict__["signed"] = signed
        return receipt

    @cached_property
    def signed(self) -> "SignedCheckpoint":
        """The checkpoint of the entry, with its signature."""
        return _read_signed(self.payload_text, self.entry_hash, self.signature)

    @property
    def text(self) -> str:
        """The receipt as a JSON object."""
        return f'{self.payload_text[:-1]},"entry_hash":"{self.entry_hash}","signature":"{self.signature}"}}'


@lru_cache(maxsize=1024)
def _read_signed(payload_text: str, entry_hash: str, signature: str) -> SignedCheckpoint:
    return SignedCheckpoint(Checkpoint.read(from_json(payload_text) | {"entry_hash": entry_hash}), signature)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value
