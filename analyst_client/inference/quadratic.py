"""Quadratics in one number, and where they are at most 0: what Fieller's method ends with."""

import math
from dataclasses import dataclass

from analyst_client.inference.score import ConfidenceSet


@dataclass(frozen=True)
class Quadratic:
    """The number ``constant + slope θ + square θ²``.

    Attributes
    ----------
    constant, slope, square : float
    """

    constant: float
    slope: float
    square: float

    def at(self, value: float) -> float:
        """Return its value."""
        return self.constant + value * (self.slope + value * self.square)


def solve_quadratic(form: Quadratic) -> ConfidenceSet:
    """Return the values at which a quadratic is at most 0.

    Examples
    --------
    >>> solve_quadratic(Quadratic(-1.0, 0.0, 1.0))
    ConfidenceSet(kind='interval', lower=-1.0, upper=1.0)
    """
    if form.square == 0.0:
        return ConfidenceSet("line", -math.inf, math.inf)
    middle = -form.slope / (2.0 * form.square)
    reach = middle**2 - form.constant / form.square
    if form.square > 0.0:
        half = math.sqrt(max(reach, 0.0))
        return ConfidenceSet("interval", middle - half, middle + half)
    if reach <= 0.0:
        return ConfidenceSet("line", -math.inf, math.inf)
    return ConfidenceSet("rays", middle - math.sqrt(reach), middle + math.sqrt(reach))
