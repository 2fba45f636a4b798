"""Linear combinations of terms, with weights that are whole numbers over a power of two."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curator_service.privacy.lattice import RowArray

BITS_MAX = 30
WEIGHTS_MAX = 2**35
"""Most that the sizes of one combination's weights add up to: times q they stay below 2^52."""
LONGEST = 2**21
"""What a rounded combination is cut to, 16 q: the squares of a thousand of them add up to less than 2^52."""


@dataclass(frozen=True, slots=True)
class Combinations:
    """Combinations Σ_j w_jk z_j / 2^bits of D terms.

    Attributes
    ----------
    weights : tuple of tuple of int
        w, a tuple of k numbers for each of the D terms.
    bits : int
        Binary digits of a weight behind the point.
    """

    weights: tuple[tuple[int, ...], ...]
    bits: int

    @property
    def count(self) -> int:
        """K."""
        return len(self.weights[0])

    def sums(self, terms: RowArray) -> RowArray:
        """Return Σ_j w_jk z_j exactly: what a combination is, in units of 2^-bits.

        Parameters
        ----------
        terms : ndarray of float64, shape (n, D)
            Integers in ``[-q, q]``.

        Returns
        -------
        ndarray of float64, shape (n, k)
            Integers. Every partial sum is one below 2^52, which float64 holds: the same in any order and any batch.
        """
        return terms @ np.array(self.weights, dtype=np.float64)

    def round(self, terms: RowArray) -> RowArray:
        """Return clip(rint(Σ_j w_jk z_j / 2^bits), ±`LONGEST`), exactly: see `sums`, and a power of two divides."""
        rounded = self.sums(terms)
        rounded *= 2.0**-self.bits
        np.rint(rounded, out=rounded)
        return np.clip(rounded, -LONGEST, LONGEST, out=rounded)


def check_weights(weights: Sequence[Sequence[int]]) -> str | None:
    """Return the rule that the weights of combinations break, or None."""
    for k, column in enumerate(zip(*weights, strict=True), start=1):
        if (size := sum(map(abs, column))) > WEIGHTS_MAX:
            return (
                f"the weights of combination {k} add up to {size:.4g} in size; at most 2^35 are added exactly. "
                "State them with fewer bits"
            )
        if not size:
            return f"the weights of combination {k} are all 0"
    return None
