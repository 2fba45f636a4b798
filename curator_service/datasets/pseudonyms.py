"""Pseudonyms: who a stored row is of, for whoever has the curator's private key and the person's identifier.

A pseudonym is HMAC-SHA256 of the folded identifier, cut to 16 bytes, under a secret of a private key of this curator:
without the key nobody can try identifiers. Identifiers are not stored, or encrypted under a second key that is kept
elsewhere, where the operator names one: see `reidentification`.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SIZE = 16
"""Bytes of a pseudonym: two of 10⁹ persons have the same one with a probability below 10⁻²⁰."""

PseudonymArray = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Pseudonymiser:
    """Makes pseudonyms.

    Attributes
    ----------
    key_id : str
        The private key whose secret it uses.
    secret : bytes
    """

    key_id: str
    secret: bytes = field(repr=False)

    def make(self, subjects: Sequence[str]) -> PseudonymArray:
        """Return the pseudonym of each folded identifier.

        Returns
        -------
        ndarray of void, shape (n,)
            16 bytes each.
        """
        encoded = pa.array(subjects, pa.string()).dictionary_encode()
        digests = [hmac.digest(self.secret, who.encode(), "sha256")[:SIZE] for who in encoded.dictionary.to_pylist()]
        made: PseudonymArray = np.frombuffer(b"".join(digests), dtype=f"V{SIZE}")
        pseudonyms: PseudonymArray = made.take(encoded.indices.to_numpy(zero_copy_only=False))
        return pseudonyms

    def check(self) -> None:
        """Check that what `remember` takes is there, before rows are read."""

    def remember(self, folder: Path, subjects: Sequence[str], pseudonyms: PseudonymArray) -> None:
        """Keep whose pseudonyms these are, in a dataset's folder: without a key to turn them back, nothing is kept."""
