"""Row maps in exact integers: what one row contributes depends on that row and public numbers alone."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from curator_service.privacy.design import Design
from curator_service.privacy.lattice import UNIT, IntArray


@dataclass(frozen=True, slots=True)
class Box:
    """No map: each entry is bounded by q, the row by the number of terms."""

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units."""
        return design.group_count * UNIT**2

    def apply(self, rows: IntArray, term_count: int) -> IntArray:
        """Return the rows unchanged."""
        del term_count
        return rows


@dataclass(frozen=True, slots=True)
class Ball:
    """The whole row, targets included, shrunk until its terms lie in a ball.

    Attributes
    ----------
    radius : int
        Q = ⌊R q⌋, in lattice units.
    """

    radius: int

    @classmethod
    def of_norm(cls, norm: float) -> "Ball":
        """Return the ball of a norm R in scaled units; the float is taken at its exact value.

        Raises
        ------
        ValueError
            If `norm` is not finite and positive.
        """
        if not (math.isfinite(norm) and norm > 0):
            raise ValueError("the norm must be finite and positive")
        return cls(math.floor(Fraction(norm) * UNIT))

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units."""
        del design
        return self.radius**2

    def apply(self, rows: IntArray, term_count: int) -> IntArray:
        """Shrink each row whose terms are longer than the radius.

        A row with s = ‖terms‖² > Q² has each entry z replaced by sign(z)·⌊|z|·Q / (isqrt(s) + 1)⌋, so that its
        norm is at most Q exactly: isqrt(s) + 1 > √s, and rounding goes towards zero.

        Parameters
        ----------
        rows : ndarray of int64, shape (n, terms + targets)
            Entries in ``[-q, q]``.
        term_count : int
            How many leading columns are terms; only they decide the weight.

        Returns
        -------
        ndarray of int64, shape (n, terms + targets)
        """
        terms = rows[:, :term_count]
        squared = np.einsum("ij,ij->i", terms, terms)  # int64: exact for any order of summation
        long = squared > self.radius**2
        if not long.any():
            return rows
        mapped = rows.copy()
        divisor = (_isqrt(squared[long]) + 1)[:, None]
        mapped[long] = np.sign(rows[long]) * (np.abs(rows[long]) * self.radius // divisor)
        return mapped


RowMap = Box | Ball


def _isqrt(values: IntArray) -> IntArray:
    """Return ⌊√v⌋ exactly for 0 ≤ v < 2^52, where the float root is right to within one."""
    roots = np.sqrt(values.astype(np.float64)).astype(np.int64)
    roots -= roots * roots > values
    roots += (roots + 1) * (roots + 1) <= values
    return roots
