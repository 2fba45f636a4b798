"""Checkpoints: signed statements of a curator on its ledger. Pure functions.

Everything that is hashed or signed is canonical JSON (RFC 8785) of strings and integers, behind a prefix that says what
it is, so that no signature can be taken for one of another kind.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from analyst_client.ledger.keys import HASH_PATTERN, KEY_ID_PATTERN, SIGNATURE_SIZE, canonical, decode_base64, is_signed

CHECKPOINT_PREFIX = b"curator-checkpoint:1\n"


AMOUNT_PATTERN = re.compile(r"0|[1-9][0-9]{0,99}")


@dataclass(frozen=True)
class LedgerPosition:
    """A place in the ledger of one population, and the hash of the entry that stands there.

    Attributes
    ----------
    population : str
    epoch : int
        Grows when the curator was restored from a backup; from 1.
    sequence : int
        Place of the entry, from 1.
    entry_hash : str
        64 hexadecimal digits.

    Examples
    --------
    >>> from analyst_client.ledger import LedgerPosition
    >>> print(LedgerPosition("olmsted", 1, 3, 64 * "a"))
    olmsted, epoch 1, sequence 3, hash aaaaaaaaaaaa…
    """

    population: str
    epoch: int
    sequence: int
    entry_hash: str

    @property
    def order(self) -> tuple[int, int]:
        """Order in time: the epoch first, then the sequence."""
        return self.epoch, self.sequence

    def __str__(self) -> str:
        """Show the place and the beginning of the hash."""
        return f"{self.population}, epoch {self.epoch}, sequence {self.sequence}, hash {self.entry_hash[:12]}…"


@dataclass(frozen=True)
class Checkpoint(LedgerPosition):
    """Signed statement on a ledger entry: where the chain stood, and the account there.

    Attributes
    ----------
    limit, posted, pending : int
        The account after the entry, in the ledger's own integers.
    key_id : str
        The key that signed.
    signature : str
        Base64.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> checkpoint = client.budget("flchain").checkpoint
    >>> checkpoint.population, checkpoint.sequence, checkpoint.posted
    ('olmsted', 3, 0)
    """

    limit: int
    posted: int
    pending: int
    key_id: str
    signature: str

    __str__ = LedgerPosition.__str__

    @classmethod
    def read(cls, members: Any) -> "Checkpoint":
        """Read a checkpoint, or the checkpoint of a receipt, to the letter. Raise `ValueError` otherwise."""
        if not isinstance(members, Mapping):
            raise ValueError("a checkpoint is not an object")  # noqa: TRY004 -- one kind of error for what is read
        for name, pattern in MEMBER_PATTERNS.items():
            if not isinstance(members.get(name), str) or not pattern.fullmatch(members[name]):
                raise ValueError(f"{name} is missing or malformed")
        for name in ("epoch", "sequence"):
            if type(members.get(name)) is not int or members[name] < 1:
                raise ValueError(f"{name} is missing or not a positive integer")
        try:
            decode_base64(members.get("signature"), SIGNATURE_SIZE)
        except ValueError as error:
            raise ValueError(f"signature: {error}") from None
        amounts = {name: int(members[name]) for name in ("limit", "posted", "pending")}
        return cls(**{member.name: members[member.name] for member in fields(cls)} | amounts)

    @property
    def statement(self) -> dict[str, str | int]:
        """Members that the signature covers."""
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
    def members(self) -> dict[str, str | int]:
        """The checkpoint as on the wire."""
        return self.statement | {"signature": self.signature}

    @property
    def header(self) -> str:
        """The checkpoint as a value of the header ``Curator-Checkpoint``."""
        return base64.urlsafe_b64encode(canonical(self.members)).rstrip(b"=").decode()

    def is_signed_by(self, public_key: bytes) -> bool:
        """Return True if the holder of a public key made the signature."""
        signature = decode_base64(self.signature, SIGNATURE_SIZE)
        return is_signed(public_key, signature, CHECKPOINT_PREFIX + canonical(self.statement))


MEMBER_PATTERNS = {
    "population": re.compile(r"(?s).+"),
    "entry_hash": HASH_PATTERN,
    "key_id": KEY_ID_PATTERN,
    "limit": AMOUNT_PATTERN,
    "posted": AMOUNT_PATTERN,
    "pending": AMOUNT_PATTERN,
}
