"""The centre, the unit and the clipping range of a column."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


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

    def rounded(self, least: float, most: float) -> "Place":
        """Return it with few digits: numbers for people, which do not move with the last digits of what was told.

        The range is rounded outward, within `least` and `most`.
        """
        digits = 3 - math.floor(math.log10(self.high - self.low))
        half = 0.5 * 10.0**-digits
        low, high = max(round(self.low - half, digits), least), min(round(self.high + half, digits), most)
        return Place(round(self.center, digits), round(self.scale, digits + 2), low, high)

    def cut(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return values cut to the range."""
        return np.clip(values, self.low, self.high)

    @property
    def middle(self) -> float:
        """The middle of the range: 0 on the curator's lattice."""
        return (self.low + self.high) / 2.0

    @property
    def half_width(self) -> float:
        """Half of the range: 1 on the curator's lattice."""
        return (self.high - self.low) / 2.0
