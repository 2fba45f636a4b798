"""Where a column is, and the range to which it is cut."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Centre and unit of a column, and the range to which it is cut, in the column's own unit.

    Attributes
    ----------
    center, scale, low, high : float
    """

    center: float
    scale: float
    low: float
    high: float

    @property
    def middle(self) -> float:
        """The middle of the range: 0 on the curator's lattice."""
        return (self.low + self.high) / 2.0

    @property
    def half_width(self) -> float:
        """Half of the range: 1 on the curator's lattice."""
        return (self.high - self.low) / 2.0
