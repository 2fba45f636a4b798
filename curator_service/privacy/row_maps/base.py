"""A row map: the contribution of one row depends on that row and public numbers alone.

A map is one module: its bound, what it does to rows, and how a request names it. Entries are integers held in float64.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

from pydantic import BaseModel

from curator_service.kit.wire import STRICT
from curator_service.privacy.design import Design
from curator_service.privacy.lattice import RowArray


class RowMap(Protocol):
    """Bounds rows, and maps them.

    Attributes
    ----------
    weighs_terms : bool
        Whether the weight of a row follows from its terms: then requests with other terms weigh rows otherwise.
    weighs_constant : bool
        Whether the constant is one of the terms that the weight follows from.
    lengthens : bool
        Whether it may make entries of a row larger: then the sizes of a group no longer add up to q at most. A map
        leaves what is 0 at 0 in any case: L1 bounds count the terms of a group that may differ from it.
    bounds_entries : bool
        Whether a row is bounded by its entries' own bounds alone, as `norm_squared` then says; no map that lengthens.
    """

    weighs_terms: ClassVar[bool]
    weighs_constant: ClassVar[bool]
    lengthens: ClassVar[bool]
    bounds_entries: ClassVar[bool]

    def norm_squared(self, design: Design) -> int:
        """Bound ‖row‖² over the terms, in squared lattice units."""

    def apply(self, rows: RowArray, design: Design, out: RowArray | None = None) -> RowArray:
        """Return mapped rows, in `out` if it is given, which may be `rows`: integers in ``[-q, q]``."""


class RowsInvalidError(ValueError):
    """A member of a row map, as a request names it, means nothing."""

    def __init__(self, member: str, rule: str) -> None:
        super().__init__(rule)
        self.member = member


class Rows(BaseModel):
    """A row map as a request names it."""

    model_config = STRICT

    map: str  # declaring a class with a name here registers it
    row_map: ClassVar[RowMap]
    """What a request means, where it is the same map for each."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Register it."""
        (name,) = cls.model_fields["map"].annotation.__args__  # type: ignore[union-attr]
        if cls.__base__ is not Rows or ROW_MAPS.setdefault(name, cls) is not cls:
            raise TypeError(f"a row map {name!r} is declared already, or is no class of its own")

    @classmethod
    def make(cls, stated: Mapping[str, Any]) -> RowMap:
        """Return the map that a canonical request states."""
        del stated
        return cls.row_map

    def fill(self, design: Design) -> Self:
        """Return it with its defaults for a design.

        Raises
        ------
        RowsInvalidError
            Where it means nothing for the design.
        """
        del design
        return self


ROW_MAPS: dict[str, type[Rows]] = {}
"""Every row map that was declared, by its name."""
