"""Erasures that were asked for, in a file that no restore brings back: a backup of before has those persons' rows.

It lies beside the ledger's anchor, and like it is of one host: who restores elsewhere brings it along. A line names a
dataset and pseudonyms, which nobody can try identifiers against without the curator's private keys. Datasets that end,
and withdrawals, stand there too. Each line is signed: what somebody else wrote there is refused.
"""

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from curator_service.datasets.repository import Change
from curator_service.kit.files import sync
from curator_service.ledger.chain.entries import canonical
from curator_service.ledger.chain.signing import KeyRing, Signer

log = logging.getLogger("curator_service")
_DOMAIN = b"curator-change:1\n"


class ErasureError(RuntimeError):
    """The file of erasures cannot be read or written; the message says why, for the operator."""


def sign(change: Change, signer: Signer) -> Change:
    """Return a change with the curator's signature in its content: on all but its number and its version."""
    content = json.loads(change.content) | {"key_id": signer.key_id}
    signature = signer.sign_statement(_state(change, content))
    return replace(change, content=json.dumps(content | {"signature": signature}))


def is_signed(change: Change, keys: KeyRing) -> bool:
    """Return whether a change is one that this curator signed.

    Raises
    ------
    SigningError
        If the public keys do not follow from each other.
    """
    try:
        content = json.loads(change.content)
        key_id, signature = str(content["key_id"]), str(content.pop("signature"))
        statement = _state(change, content)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return keys.verifier(knowing=key_id).holds_statement(key_id, signature, statement)


def _state(change: Change, content: dict[str, Any]) -> bytes:
    said = {"id": change.id, "dataset_id": change.dataset_id, "act": change.act, "content": content}
    return _DOMAIN + canonical(said | {"actor": change.actor, "asked_at": change.asked_at}).encode()


class ErasureLog:
    """The erasures that were asked for on this host.

    Parameters
    ----------
    folder : Path
        Of the anchor.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "erasures"

    def add(self, change: Change) -> None:
        """Write an erasure down, durably.

        Raises
        ------
        ErasureError
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                # Behind what a killed process left of a line: an empty one is none.
                file.write(f"\n{json.dumps(asdict(change))}\n".encode())
                file.flush()
                os.fsync(descriptor)
            sync(self.path.parent)
        except OSError as error:
            raise ErasureError(f"the erasure cannot be written down in {self.path}: {error.strerror}") from None

    def read(self, keys: KeyRing) -> Iterator[Change]:
        """Yield every erasure that was written down; what a killed process left of one was never promised.

        Raises
        ------
        ErasureError
        SigningError
            If the public keys do not follow from each other.
        """
        try:
            text = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise ErasureError(f"the erasures in {self.path} cannot be read: {error.strerror}") from None
        for number, line in enumerate(text.splitlines(), 1):
            try:
                change = Change(**json.loads(line))
            except (ValueError, TypeError):
                continue
            if is_signed(change, keys):
                yield change
            else:
                log.error("%s, line %d: not signed by this curator, and refused", self.path, number)
