"""The box: each entry bounded by itself."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from curator_service.privacy.design import Design
from curator_service.privacy.lattice import UNIT, RowArray
from curator_service.privacy.row_maps.base import Rows


@dataclass(frozen=True, slots=True)
class Box:
    """No map: each entry is bounded by q, the row by the number of terms."""

    weighs_terms: ClassVar[bool] = False
    weighs_constant: ClassVar[bool] = False
    lengthens: ClassVar[bool] = False
    bounds_entries: ClassVar[bool] = True

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units."""
        return design.group_count * UNIT**2

    def apply(self, rows: RowArray, design: Design, out: RowArray | None = None) -> RowArray:
        """Return the rows unchanged."""
        del design
        if out is None or out is rows:
            return rows
        out[:] = rows
        return out


class BoxRows(Rows):
    """Rows as they are, bounded entry by entry."""

    map: Literal["box"]
    row_map: ClassVar = Box()
