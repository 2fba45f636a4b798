"""Erasures that were asked for, in a file that no restore brings back: a backup of before has those persons' rows.

It lies beside the ledger's anchor, and like it is of one host: who restores elsewhere brings it along. A line names a
dataset and pseudonyms, which nobody can try identifiers against without the curator's private keys.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from curator_service.datasets.repository import Change
from curator_service.kit.files import sync


class ErasureError(RuntimeError):
    """The file of erasures cannot be read or written; the message says why, for the operator."""


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

    def read(self) -> Iterator[Change]:
        """Yield every erasure that was written down; what a killed process left of one was never promised.

        Raises
        ------
        ErasureError
        """
        try:
            text = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise ErasureError(f"the erasures in {self.path} cannot be read: {error.strerror}") from None
        for line in text.splitlines():
            try:
                yield Change(**json.loads(line))
            except (ValueError, TypeError):
                continue
