"""A row map: the contribution of one row depends on that row and public numbers alone.

A map is one module: its bound, what it does to rows, and how a request names it. Entries are integers held in float64.
"""

from typing import ClassVar, Protocol

from curator_service.privacy.design import Design
from curator_service.privacy.lattice import RowArray


class RowMap(Protocol):
    """Bounds rows, and maps them.

    Attributes
    ----------
    weighs_terms : bool
        Whether the weight of a row follows from its terms: then requests with other terms weigh rows otherwise.
    lengthens : bool
        Whether it may make entries of a row larger: then the sizes of a group no longer add up to q at most.
    """

    weighs_terms: ClassVar[bool]
    lengthens: ClassVar[bool]

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units."""

    def apply(self, rows: RowArray, design: Design, out: RowArray | None = None) -> RowArray:
        """Return mapped rows, in `out` if it is given, which may be `rows`: integers in ``[-q, q]``."""
