"""AES-CMAC [1]_ of many texts at once: a keyed function of texts, of 128 bits, that is unpredictable without the key.

References
----------
.. [1] M. Dworkin, "Recommendation for Block Cipher Modes of Operation: the CMAC Mode for Authentication", NIST SP
   800-38B.
"""

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

_BLOCK, _TILE = 16, 2**12
Blocks = npt.NDArray[np.void]
"""16 bytes each."""
_Places = npt.NDArray[np.int64]
_Halves = npt.NDArray[np.uint64]


class Cmac:
    """AES-CMAC under one key.

    Parameters
    ----------
    key : bytes
        16 or 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(AES(key), ECB()).encryptor()  # noqa: S305 -- of single blocks, which CMAC chains
        full = _double(bytes(self._encrypt(np.zeros((1, 2), np.uint64))[0]))
        padded = _double(full)
        # By how many bytes of the text the last block has: which are kept of it, and what is added to them.
        kept = np.tri(_BLOCK + 1, _BLOCK, -1, dtype=np.uint8) * np.uint8(255)
        added = np.repeat(np.frombuffer(padded, np.uint8)[None], _BLOCK + 1, axis=0)
        added[np.arange(_BLOCK), np.arange(_BLOCK)] ^= np.uint8(128)
        added[_BLOCK] = np.frombuffer(full, np.uint8)
        self._kept, self._added = kept.view(np.uint64), added.view(np.uint64)

    def make(self, content: npt.NDArray[np.uint8], starts: _Places, ends: _Places) -> Blocks:
        """Return the code of each text.

        Parameters
        ----------
        starts, ends : ndarray of int64, shape (n,)
            Where each text begins and ends in the content.

        Returns
        -------
        ndarray of void, shape (n,)
        """
        held = np.concatenate([content, np.zeros(_BLOCK, np.uint8)])
        every = np.ndarray((len(content) + 1,), f"V{_BLOCK}", held.data, strides=(1,))
        lengths = ends - starts
        counts = np.maximum(-(-lengths // _BLOCK), 1)
        made = np.empty(len(starts), every.dtype)
        for count in np.flatnonzero(np.bincount(counts)):
            of_count = np.flatnonzero(counts == count)
            for rows in np.split(of_count, range(_TILE, len(of_count), _TILE)):
                places, state = starts[rows], np.zeros((len(rows), 2), np.uint64)
                for _ in range(count - 1):
                    state = self._encrypt(state ^ _halve(every[places]))
                    places = places + _BLOCK
                left = ends[rows] - places
                last = _halve(every[places]) & self._kept.take(left, axis=0)
                made[rows] = self._encrypt(state ^ last ^ self._added.take(left, axis=0)).view(every.dtype)[:, 0]
        return made

    def _encrypt(self, blocks: _Halves) -> _Halves:
        images = np.empty((len(blocks) + 1, 2), np.uint64)  # what is encrypted into asks for one block more
        self._cipher.update_into(blocks.data.cast("B"), images.data.cast("B"))
        return images[:-1]


def _halve(blocks: Blocks) -> _Halves:
    return blocks.view(np.uint64).reshape(-1, 2)


def _double(block: bytes) -> bytes:
    """Multiply by x in the field of 2¹²⁸ elements."""
    shifted = int.from_bytes(block) << 1
    return ((shifted ^ 0x87 if block[0] & 128 else shifted) % 2**128).to_bytes(_BLOCK)
