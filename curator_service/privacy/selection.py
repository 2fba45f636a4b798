"""Rows that a request counts, and their weights: both follow from the rows themselves.

Both come after everything else that decides what a row contributes. A row that a condition leaves out is a null row.
A weight ω in [0, 1] multiplies a contribution: rows are multiplied by √ω towards zero, so that no entry and no norm
grows, and every sensitivity holds as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from curator_service.privacy.design import Column
from curator_service.privacy.lattice import MISSING, STORED_UNIT, FlagArray, RowArray, StoredArray, center_and_scale


@dataclass(frozen=True, slots=True)
class Selection:
    """A condition and a weight.

    Attributes
    ----------
    where : Column or None
        A boolean: rows in which it is true count. Where it is missing, neither it nor its opposite is true.
    weight : Column or None
        A number whose bounds lie in [0, 1]. A row without it does not count.
    """

    where: Column | None = None
    weight: Column | None = None

    def __post_init__(self) -> None:
        """Hold both against what they are for."""
        assert self.where is None or self.where.is_truth
        assert self.weight is None or 0 <= self.weight.lower < self.weight.upper <= 1

    def __bool__(self) -> bool:
        """Tell whether rows are treated unlike each other."""
        return self.where is not None or self.weight is not None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that it reads."""
        return tuple(column for column in (self.where, self.weight) if column is not None)

    @property
    def reads(self) -> tuple[str, ...]:
        """The stored columns that it reads, each once."""
        return tuple(dict.fromkeys(name for column in self.columns for name in column.reads))

    def select(self, stored: Mapping[str, StoredArray], counted: FlagArray) -> FlagArray:
        """Return which rows count, of those that do; all are looked at, whatever is found."""
        if self.where is not None:
            counted = counted & (self.where.read(stored, len(counted)) == 1)
        if self.weight is not None:
            counted = counted & (self.weight.read(stored, len(counted)) != MISSING)
        return counted

    def weigh(self, stored: Mapping[str, StoredArray], count: int) -> RowArray | None:
        """Return the weight of each row, in [0, 1], or None where all have the same."""
        if self.weight is None:
            return None
        center, scale = center_and_scale(self.weight.lower, self.weight.upper)
        parts = np.clip(self.weight.read(stored, count), -STORED_UNIT, STORED_UNIT) / STORED_UNIT
        return np.clip(center + scale * parts, 0.0, 1.0)


EVERY_ROW = Selection()
