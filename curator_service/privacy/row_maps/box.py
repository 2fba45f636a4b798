"""The box: each entry bounded by itself."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel

from curator_service.kit.wire import STRICT
from curator_service.privacy.design import Design
from curator_service.privacy.lattice import UNIT, RowArray


class BoxRows(BaseModel):
    """Rows as they are, bounded entry by entry."""

    model_config = STRICT

    map: Literal["box"]


@dataclass(frozen=True, slots=True)
class Box:
    """No map: each entry is bounded by q, the row by the number of terms."""

    weighs_terms: ClassVar[bool] = False
    lengthens: ClassVar[bool] = False

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
