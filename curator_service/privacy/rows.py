"""Row maps in exact integers: what one row contributes depends on that row and public numbers alone.

Entries are integers held in float64. Squared norms are sums of integers below 2^53, so exact in any order; every other
operation is one elementwise IEEE operation, and its result is proved to be the integer that is stated.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from curator_service.privacy.design import Design
from curator_service.privacy.lattice import UNIT, IntArray, RowArray

_LENGTH_MAX = 2**26
"""Above the norm of any row: D terms of at most q have s ≤ D·2^34, below 2^52 for D < 2^18."""

_ROOT_BITS = 8
"""Fractional bits of a norm that divides: without them a row of norm 1 would be divided by 2."""


@dataclass(frozen=True, slots=True)
class Box:
    """No map: each entry is bounded by q, the row by the number of terms."""

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units."""
        return design.group_count * UNIT**2

    def apply(self, rows: RowArray, design: Design) -> RowArray:
        """Return the rows unchanged."""
        del design
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

    def apply(self, rows: RowArray, design: Design) -> RowArray:
        """Shrink each row whose terms are longer than the radius.

        A row with s = ‖terms‖² > Q² has each entry z replaced by sign(z)·⌊|z|·Q / (isqrt(s) + 1)⌋, so that its
        norm is at most Q exactly: isqrt(s) + 1 > √s, and rounding goes towards zero.

        Parameters
        ----------
        rows : ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        design : Design
            Only the terms decide the weight.

        Returns
        -------
        ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        """
        squared = _norms_squared(rows[:, : len(design.terms)])
        radius = min(self.radius, _LENGTH_MAX)
        long = squared > radius**2
        # A short row is multiplied and divided by 1: no time is saved, or shown, by how many rows are short.
        return _scale(rows, np.where(long, radius, 1), np.where(long, _isqrt(squared) + 1, 1))


@dataclass(frozen=True, slots=True)
class Unit:
    """The terms of each row over their norm, the targets untouched: Wang's map [1]_, eq. 3.3 of [2]_.

    The constant, if any, stays outside the norm and is left as it is.

    References
    ----------
    .. [1] Y.-X. Wang, "Revisiting differentially private linear regression", arXiv:1803.02596.
    .. [2] E. Kalaja, "Adaptive algorithm in differential privacy: comparative analysis of pre-processing methods",
       master's thesis, University of Helsinki, 2020, section 3.3.1.
    """

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units: q², and q² more for a constant."""
        return (1 + design.has_constant) * UNIT**2

    def apply(self, rows: RowArray, design: Design) -> RowArray:
        """Divide the terms beside the constant by their norm.

        With s = ‖terms beside the constant‖², each of them becomes sign(z)·⌊|z|·q·2^8 / (isqrt(s·2^16) + 1)⌋. Their
        norm is at most q exactly: isqrt(s·2^16) + 1 > 2^8·√s, and rounding goes towards zero. A row with s = 0 keeps
        its zeros.

        Parameters
        ----------
        rows : ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        design : Design

        Returns
        -------
        ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        """
        mapped = _divide_by_norm(rows, design)
        targets = slice(len(design.terms), None)
        mapped[:, targets] = rows[:, targets]
        return mapped


@dataclass(frozen=True, slots=True)
class UnitXY:
    """The terms of each row over their norm, and its targets over the same norm: eq. 3.4 of [1]_.

    A target over a short norm has no bound, so it is clipped back to ±q; the thesis takes a bound from the data.

    References
    ----------
    .. [1] E. Kalaja, "Adaptive algorithm in differential privacy: comparative analysis of pre-processing methods",
       master's thesis, University of Helsinki, 2020, section 3.3.1.
    """

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units: q², and q² more for a constant."""
        return Unit().norm_squared(design)

    def apply(self, rows: RowArray, design: Design) -> RowArray:
        """Divide the terms beside the constant, and the targets, by the norm of those terms.

        Terms become what `Unit` makes of them, and a target y sign(y)·min(q, ⌊|y|·q·2^8 / (isqrt(s·2^16) + 1)⌋). A
        row with s = 0 has no direction, and y / 0 no value: its targets become 0, as its terms are.

        Parameters
        ----------
        rows : ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        design : Design

        Returns
        -------
        ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        """
        mapped = _divide_by_norm(rows, design)
        targets = mapped[:, len(design.terms) :]
        np.clip(targets, -UNIT, UNIT, out=targets)
        return mapped


RowMap = Box | Ball | Unit | UnitXY


def _divide_by_norm(rows: RowArray, design: Design) -> RowArray:
    """Divide whole rows, but not the constant, by the norm of the terms beside it; targets are not yet bounded.

    Nothing overflows: D ≤ 1000 terms and |z| ≤ q < 2^17 give s < 2^44, so s·2^16 < 2^60 fits int64, and
    |z|·q·2^8 < 2^42.
    """
    first = int(design.has_constant)
    squared = _norms_squared(rows[:, first : len(design.terms)])
    length = np.where(squared > 0, UNIT << _ROOT_BITS, 0)
    mapped = _scale(rows, length, _isqrt(squared << (2 * _ROOT_BITS)) + 1)
    mapped[:, :first] = rows[:, :first]
    return mapped


def _norms_squared(terms: RowArray) -> IntArray:
    """Return ‖row‖² exactly: every partial sum is an integer below 2^52."""
    squared: IntArray = np.einsum("ij,ij->i", terms, terms).astype(np.int64)
    return squared


def _scale(rows: RowArray, multiplier: IntArray, divisor: IntArray) -> RowArray:
    """Return sign(z)·⌊|z|·a / b⌋ for each entry z of a row with multiplier a and divisor b, exactly.

    Let p = |z|·a, an integer with p + b < 2^53 here. If p/b is not an integer, let k = ⌊p/b⌋ + 1: then
    p/b ≤ k − 1/b, and 1/b > k·2^-53 because k·b ≤ p + b < 2^53. A number is rounded up to k from at most k·2^-53
    below, so the quotient is rounded to less than k, and cut to ⌊p/b⌋.
    """
    scaled: RowArray = rows * multiplier.astype(np.float64)[:, None]
    scaled /= divisor.astype(np.float64)[:, None]
    return np.trunc(scaled, out=scaled)


def _isqrt(values: IntArray) -> IntArray:
    """Return ⌊√v⌋ exactly for 0 ≤ v < 2^62, where the float root is right to within one."""
    roots: IntArray = np.sqrt(values.astype(np.float64)).astype(np.int64)
    roots -= roots * roots > values
    roots += (roots + 1) * (roots + 1) <= values
    return roots
