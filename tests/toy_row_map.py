"""A row map from outside of the packages: rows shrunk until the sizes of their terms add up to one at most.

The first class is of the server, the second of the client.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.schema import row_maps as known
from curator_service.privacy.design import Design
from curator_service.privacy.lattice import UNIT, RowArray
from curator_service.privacy.row_maps.base import Rows
from curator_service.privacy.row_maps.integers import scale


@dataclass(frozen=True)
class Diamond:
    """With s = Σ|z| over the terms, a row with s > q becomes sign(z)·⌊|z|·q / s⌋; then ‖z‖₂ ≤ ‖z‖₁ ≤ q."""

    weighs_terms: ClassVar[bool] = True
    weighs_constant: ClassVar[bool] = True
    lengthens: ClassVar[bool] = False
    bounds_entries: ClassVar[bool] = False

    def norm_squared(self, design: Design) -> int:
        return UNIT**2

    def apply(self, rows: RowArray, design: Design, out: RowArray | None = None) -> RowArray:
        size = np.abs(rows[:, : len(design.terms)]).sum(axis=1)
        return scale(rows, np.full(len(rows), float(UNIT)), np.maximum(size, UNIT), out)


class DiamondRows(Rows):
    map: Literal["diamond"]
    row_map: ClassVar = Diamond()


class KnownDiamond(known.RowMap):
    name = "diamond"
    is_planned = True

    def shrinks(self, rows: Mapping[str, Any], longest_squared: float) -> bool:
        return longest_squared > 1

    def clause(self, rows: Mapping[str, Any]) -> str:
        return "rows whose terms add up to more than 1 count for less"

    def weigh(self, X: FloatArray, rows: Mapping[str, Any]) -> FloatArray:
        weights: FloatArray = 1.0 / np.maximum(np.abs(X).sum(axis=1), 1.0)
        return weights
