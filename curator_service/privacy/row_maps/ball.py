"""The ball: whole rows shrunk to a norm."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from curator_service.privacy.design import Design
from curator_service.privacy.lattice import UNIT, RowArray
from curator_service.privacy.row_maps.base import RowMap, Rows, RowsInvalidError
from curator_service.privacy.row_maps.integers import norms_squared, root, scale

_LENGTH_MAX = 2**26
"""Above the norm of any row: D terms of at most q have s ≤ D·2^34, below 2^52 for D < 2^18."""


class BallRows(Rows):
    """Rows shrunk into a ball; the norm is 1 + (terms beside the constant)/10, under a root, if not given."""

    map: Literal["ball"]
    norm: Annotated[float, Field(ge=0.1, le=100)] | None = None

    @classmethod
    def make(cls, stated: Mapping[str, Any]) -> RowMap:
        """Return the ball of the stated norm."""
        return Ball.of_norm(stated["norm"])

    def fill(self, design: Design) -> Self:
        """Choose the norm where none is given; one that no row reaches is refused."""
        if self.norm is None:
            return self.model_copy(update={"norm": small_norm(design)})
        if self.norm > (widest := math.sqrt(design.group_count)):
            rule = f"no row of these features is longer than {widest:.6g}: ask for less, or for the box map"
            raise RowsInvalidError("norm", rule)
        return self


def small_norm(design: Design) -> float:
    """Return the norm of the ball that a request means when it names none."""
    beside = len(design.terms) - int(design.has_constant)
    return math.sqrt(min(1 + beside / 10, design.group_count))


@dataclass(frozen=True, slots=True)
class Ball:
    """The whole row, targets included, shrunk until its terms lie in a ball.

    Attributes
    ----------
    radius : int
        Q = ⌊R q⌋, in lattice units.
    """

    radius: int

    weighs_terms: ClassVar[bool] = True
    weighs_constant: ClassVar[bool] = True
    lengthens: ClassVar[bool] = False
    bounds_entries: ClassVar[bool] = False

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

    def apply(self, rows: RowArray, design: Design, out: RowArray | None = None) -> RowArray:
        """Shrink each row whose terms are longer than the radius.

        A row with s = ‖terms‖² > Q² has each entry z replaced by sign(z)·⌊|z|·Q / (isqrt(s) + 1)⌋, so that its
        norm is at most Q exactly: isqrt(s) + 1 > √s, and rounding goes towards zero.

        Parameters
        ----------
        rows : ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        design : Design
            Only the terms decide the weight.
        out : ndarray of float64, optional
            Where the result is written; it may be `rows`.

        Returns
        -------
        ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        """
        squared = norms_squared(rows[:, : len(design.terms)])
        return shrink(rows, squared, min(self.radius, _LENGTH_MAX), out)


def shrink(rows: RowArray, squared: RowArray, radius: int, out: RowArray | None = None) -> RowArray:
    """Return rows with ‖·‖² = s > Q² times Q/(⌊√s⌋ + 1), towards zero, and others as they are: see `Ball.apply`.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, k)
        Integers, of 2^26 in size at most.
    squared : ndarray of float64, shape (n,)
        s of each row, below 2^52; of some of its columns.
    radius : int
        Q, at most 2^26.
    out : ndarray of float64, optional
        Where the result is written.
    """
    multiplier = (squared > float(radius) ** 2).astype(np.float64)
    divisor = root(squared)
    divisor *= multiplier
    multiplier *= radius - 1
    # A short row is multiplied and divided by 1: no time is saved, or shown, by how many rows are short.
    return scale(rows, np.add(multiplier, 1, out=multiplier), np.add(divisor, 1, out=divisor), out)
