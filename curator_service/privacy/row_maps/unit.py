"""Rows over their norm, with the targets left alone or divided alike."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from curator_service.privacy.design import Design
from curator_service.privacy.lattice import UNIT, RowArray
from curator_service.privacy.row_maps.base import Rows
from curator_service.privacy.row_maps.integers import isqrt, norms_squared, scale

_ROOT_BITS = 8
"""Fractional bits of a norm that divides: without them a row of norm 1 would be divided by 2."""


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

    weighs_terms: ClassVar[bool] = True
    weighs_constant: ClassVar[bool] = False
    lengthens: ClassVar[bool] = True
    bounds_entries: ClassVar[bool] = False

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units: q², and q² more for a constant."""
        return (1 + design.has_constant) * UNIT**2

    def apply(self, rows: RowArray, design: Design, out: RowArray | None = None) -> RowArray:
        """Divide the terms beside the constant by their norm.

        With s = ‖terms beside the constant‖², each of them becomes sign(z)·⌊|z|·q·2^8 / (isqrt(s·2^16) + 1)⌋. Their
        norm is at most q exactly: isqrt(s·2^16) + 1 > 2^8·√s, and rounding goes towards zero. A row with s = 0 keeps
        its zeros.

        Parameters
        ----------
        rows : ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        out : ndarray of float64, optional
            Where the result is written; it may be `rows`.

        Returns
        -------
        ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        """
        return _divide_by_norm(rows, design, len(design.terms), out)


class UnitRows(Rows):
    """Terms beside the constant divided by their norm, and targets left alone."""

    map: Literal["unit"]
    row_map: ClassVar = Unit()


@dataclass(frozen=True, slots=True)
class UnitXY:
    """The terms of each row over their norm, and its targets over the same norm: eq. 3.4 of [1]_.

    A target over a short norm has no bound, so it is clipped back to ±q; the thesis takes a bound from the data.

    References
    ----------
    .. [1] E. Kalaja, "Adaptive algorithm in differential privacy: comparative analysis of pre-processing methods",
       master's thesis, University of Helsinki, 2020, section 3.3.1.
    """

    weighs_terms: ClassVar[bool] = True
    weighs_constant: ClassVar[bool] = False
    lengthens: ClassVar[bool] = True
    bounds_entries: ClassVar[bool] = False

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units: q², and q² more for a constant."""
        return Unit().norm_squared(design)

    def apply(self, rows: RowArray, design: Design, out: RowArray | None = None) -> RowArray:
        """Divide the terms beside the constant, and the targets, by the norm of those terms.

        Terms become what `Unit` makes of them, and a target y sign(y)·min(q, ⌊|y|·q·2^8 / (isqrt(s·2^16) + 1)⌋). A
        row with s = 0 has no direction, and y / 0 no value: its targets become 0, as its terms are.

        Parameters
        ----------
        rows : ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        out : ndarray of float64, optional
            Where the result is written; it may be `rows`.

        Returns
        -------
        ndarray of float64, shape (n, terms + targets)
            Integers in ``[-q, q]``.
        """
        mapped = _divide_by_norm(rows, design, rows.shape[1], out)
        targets = mapped[:, len(design.terms) :]
        np.clip(targets, -UNIT, UNIT, out=targets)
        return mapped


class UnitXYRows(Rows):
    """Terms beside the constant, and targets, divided by the norm of those terms."""

    map: Literal["unit_xy"]
    row_map: ClassVar = UnitXY()


def _divide_by_norm(rows: RowArray, design: Design, end: int, out: RowArray | None) -> RowArray:
    """Divide columns up to `end`, but not the constant, by the norm of the terms beside it; targets are not bounded.

    Nothing overflows: D ≤ 1000 terms and |z| ≤ q < 2^17 give s < 2^44, so s·2^16 < 2^60 fits int64, and
    |z|·q·2^8 < 2^42.
    """
    divided = slice(int(design.has_constant), end)
    squared = norms_squared(rows[:, divided.start : len(design.terms)]).astype(np.int64)
    length: RowArray = (squared > 0) * np.float64(UNIT << _ROOT_BITS)
    root = isqrt(squared << (2 * _ROOT_BITS)) + 1
    mapped = rows.copy(order="K") if out is None else out
    if mapped is not rows:
        mapped[:] = rows
    scale(rows[:, divided], length, root.astype(np.float64), mapped[:, divided])
    return mapped
