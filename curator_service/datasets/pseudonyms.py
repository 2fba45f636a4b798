"""Pseudonyms: who a stored row is of, for whoever has the curator's private key and the person's identifier.

A pseudonym is AES-256-CMAC of the folded identifier under a secret of a private key of this curator: without the key
nobody can try identifiers.
Identifiers are not stored, or encrypted under a second key that is kept elsewhere, where the operator names one: see
`reidentification`.
"""

import secrets
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curator_service.kit.cmac import Cmac

SIZE = 16
"""Bytes of a pseudonym: two of 10⁹ persons have the same one with a probability below 10⁻¹⁹."""

PseudonymArray = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Pseudonymiser:
    """Makes pseudonyms.

    Attributes
    ----------
    key_id : str
        The private key whose secret it uses; empty for one that is forgotten.
    secret : bytes
        32 bytes.
    """

    key_id: str
    secret: bytes = field(repr=False)

    @classmethod
    def for_once(cls) -> "Pseudonymiser":
        """Return one whose pseudonyms tell persons apart within one reading of rows."""
        return Pseudonymiser("", secrets.token_bytes(32))

    def make(self, subjects: pa.Array) -> PseudonymArray:
        """Return the pseudonym of each folded identifier.

        Returns
        -------
        ndarray of void, shape (n,)
            16 bytes each.
        """
        return Cmac(self.secret).make(*find_texts(subjects))

    @property
    def keeps_identifiers(self) -> bool:
        """True if `remember` keeps the identifiers of pseudonyms."""
        return False

    def check(self) -> None:
        """Check that what `remember` takes is there, before rows are read."""

    def remember(self, folder: Path, subjects: pa.Array, pseudonyms: PseudonymArray) -> None:
        """Keep whose pseudonyms these are, in a dataset's folder: without a key to turn them back, nothing is kept."""


def number_persons(pseudonyms: PseudonymArray) -> npt.NDArray[np.uint64]:
    """Return a number of each row's person: half of the pseudonym."""
    return np.ascontiguousarray(pseudonyms.view("<u8").reshape(-1, 2)[:, 0], np.uint64)


def find_texts(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the bytes that texts lie in, and where each begins and ends."""
    _, places, content = texts.buffers()
    if not len(texts) or content is None:
        return np.empty(0, np.uint8), *(np.zeros(len(texts), np.int64),) * 2
    bounds = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    held = np.frombuffer(content, np.uint8)[bounds[0] : bounds[-1]]
    bounds -= bounds[0]
    return held, bounds[:-1], bounds[1:]
