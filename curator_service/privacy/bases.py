"""Bases: functions of one number, as public tables over the integers of the request lattice.

A table has one integer for each of the 2q + 1 that a number may become, so what a basis gives is exact, the same on
every engine, and its largest values are found by looking at all of them.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from curator_service.kit.caches import SizedCache
from curator_service.privacy.lattice import UNIT, StoredArray, center_and_scale

DEGREE_MAX = 10
KNOTS_MAX = 50
FUNCTIONS_MAX, CACHED_BYTES_MAX = 128, 2**29
"""Functions of a request's bases, whose tables have a mebibyte each, and bytes of the tables that are kept."""
TABLE_S = 0.02
"""What a table of a function is made to take: six times what one of 50 knots takes; nothing of it depends on rows."""
KNOT_DISTANCE = 2e-9
"""Least distance of knots where the bounds are −1 and 1: nearer ones may be one float, which divides 0 by 0."""
SPLINE_DEGREES = range(1, 6)
_POINTS = np.arange(-UNIT, UNIT + 1, dtype=np.float64) / UNIT
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """Legendre polynomials P₁ to P_d of a number that is scaled by its bounds: within ±1, and orthogonal over them.

    Attributes
    ----------
    degree : int
        d, at least 2.
    """

    degree: int

    @property
    def size(self) -> int:
        """Functions."""
        return self.degree

    @property
    def support(self) -> int:
        """Number of functions of one group that differ from 0 for a number: each is a group of its own."""
        return 1

    def name_of(self, column: str) -> str:
        """Return what people read."""
        return f"polynomial({column}, {self.degree})"

    def tabulate(self, center: float, scale: float) -> StoredArray:
        """Return the functions over the lattice, by the recurrence (k + 1) P_{k+1} = (2k + 1) u P_k − k P_{k−1}."""
        del center, scale
        before, now = np.ones_like(_POINTS), _POINTS
        found = [now]
        for k in range(1, self.degree):
            before, now = now, ((2 * k + 1) * _POINTS * now - k * before) / (k + 1)
            found.append(now)
        return np.clip(np.rint(np.stack(found) * UNIT), -UNIT, UNIT).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Spline:
    """B-splines at public knots: not negative, and together at most 1 for every number.

    Attributes
    ----------
    knots : tuple of float
        Within the bounds, increasing, in the number's unit.
    degree : int
    natural : bool
        Cubic, and straight at both bounds. A function that has a bound's second derivative is shared among its
        neighbours in the weights that cancel it, which are positive, so what is left is not negative and sums to 1 too.
    """

    knots: tuple[float, ...]
    degree: int = 3
    natural: bool = False

    @property
    def size(self) -> int:
        """Functions."""
        return len(self.knots) + self.degree + 1 - 2 * self.natural

    @property
    def support(self) -> int:
        """Number of functions that differ from 0 for a number."""
        return self.degree + 1

    def scale_knots(self, center: float, scale: float) -> list[float]:
        """Return the knots where the bounds are −1 and 1."""
        return [(knot - center) / scale for knot in self.knots]

    def name_of(self, column: str) -> str:
        """Return what people read."""
        knots = ", ".join(repr(knot).removesuffix(".0") for knot in self.knots)
        return f"{'natural_spline' if self.natural else 'spline'}({column}, [{knots}], {self.degree})"

    def tabulate(self, center: float, scale: float) -> StoredArray:
        """Return the functions over the lattice, rounded down, by the recurrence of Cox and de Boor.

        Rounded down they stay together at most q: rounded to the nearest, they would be up to 2 above it.
        """
        inner = self.scale_knots(center, scale)
        knots = np.array([-1.0] * (self.degree + 1) + inner + [1.0] * (self.degree + 1))
        found = _b_splines(knots, self.degree)
        if self.natural:
            found = _natural(found, knots)
        table = np.zeros((len(found), len(_POINTS)), dtype=np.int32)
        for row, values in zip(table, found, strict=True):
            places = np.flatnonzero(values)  # what is never written takes no memory
            span = slice(places[0], places[-1] + 1) if len(places) else slice(0)
            # What rounding left of a sum of 1 may be above it by parts of 10¹⁶, and the floor of q times that above q.
            floored = np.floor(values[span] * (UNIT * (1 - 2.0**-40)))
            row[span] = np.clip(floored, 0, UNIT)
        return table


Basis = Polynomial | Spline


def _b_splines(knots: _Floats, degree: int) -> list[_Floats]:
    """Return B-splines, each computed where it is not 0 alone."""
    starts = np.searchsorted(_POINTS, knots)
    starts[knots == 1.0] = len(_POINTS)  # the interval that ends at the upper bound holds it
    found = [np.ones(stop - start) for start, stop in pairwise(starts)]
    for k in range(1, degree + 1):
        higher = []
        for i in range(len(found) - 1):
            first, end = starts[i], starts[i + k + 1]
            values = np.zeros(end - first)
            up, down = slice(first, starts[i + k]), slice(starts[i + 1], end)
            values[: len(found[i])] = _ramp(_POINTS[up] - knots[i], knots[i + k] - knots[i]) * found[i]
            falling = _ramp(knots[i + k + 1] - _POINTS[down], knots[i + k + 1] - knots[i + 1]) * found[i + 1]
            values[starts[i + 1] - first :] += falling
            higher.append(values)
        found = higher
    whole = [np.zeros(len(_POINTS)) for _ in found]
    for i, values in enumerate(found):
        whole[i][starts[i] : starts[i + degree + 1]] = values
    return whole


def _ramp(distance: _Floats, width: float) -> _Floats:
    return distance / width if width > 0 else np.zeros_like(distance)


def _natural(found: list[_Floats], knots: _Floats) -> list[_Floats]:
    """Bring cubic B-splines to those whose second derivative is 0 at both bounds.

    Notes
    -----
    Σ c_i B_i has none at the lower bound where (c₂ − c₁)/h₁ = (c₁ − c₀)/h₀, with h₀ = t₄ − t₁ and h₁ = t₅ − t₂: c₁ is
    (h₁ c₀ + h₀ c₂)/(h₀ + h₁). So B₁ is shared between B₀ and B₂ in these weights, and so it is at the upper bound.
    """
    for _ in range(2):
        near, far = knots[4] - knots[1], knots[5] - knots[2]
        share = far / (near + far)
        first, second = found[0] + share * found[1], found[2] + (1 - share) * found[1]
        found = [first, second, *found[3:]][::-1]
        knots = -knots[::-1]
    return found


_TABLES: SizedCache[StoredArray] = SizedCache(CACHED_BYTES_MAX)


def tabulate(basis: Basis, center: float, scale: float) -> StoredArray:
    """Return the functions of a basis over the lattice of a number.

    Parameters
    ----------
    center, scale : float
        Those of the number, as its term has them.

    Returns
    -------
    ndarray of int32, shape (functions, 2q + 1)
        Integers in ``[-q, q]``, whose sizes add up to at most q where they are one group; read only.
    """
    # Polynomials are the same for every number.
    key = (basis, 0.0, 1.0) if isinstance(basis, Polynomial) else (basis, center, scale)
    return _TABLES.get(key, lambda: _make_table(*key), lambda table: table.nbytes)


def _make_table(basis: Basis, center: float, scale: float) -> StoredArray:
    table = basis.tabulate(center, scale)
    sizes = np.abs(table)
    # Every sensitivity rests on it, whatever the recurrences do with the last digits of odd knots.
    if (sizes if isinstance(basis, Polynomial) else sizes.sum(axis=0)).max() > UNIT or table.min() < -UNIT:
        raise AssertionError("a basis exceeds its bound")
    table.flags.writeable = False
    return table


def check_basis(basis: Basis, lower: float, upper: float) -> None:
    """Hold a basis against the bounds of its number.

    Raises
    ------
    ValueError
    """
    if isinstance(basis, Polynomial):
        if not 2 <= basis.degree <= DEGREE_MAX:
            raise ValueError(f"a polynomial has a degree of 2 to {DEGREE_MAX}")
        return
    whole, scaling = (lower, *basis.knots, upper), center_and_scale(lower, upper)
    if not all(one < other for one, other in pairwise(whole)):
        raise ValueError(f"knots increase, and are between the bounds, {lower:g} and {upper:g}")
    if any(other - one < KNOT_DISTANCE for one, other in pairwise([-1.0, *basis.scale_knots(*scaling), 1.0])):
        raise ValueError("knots are a billionth of the range apart at least, from each other and from the bounds")
    if len(basis.knots) > KNOTS_MAX or basis.degree not in SPLINE_DEGREES:
        raise ValueError(f"a spline has at most {KNOTS_MAX} knots, and a degree of 1 to {SPLINE_DEGREES.stop - 1}")
    if basis.natural and (basis.degree != 3 or not basis.knots):
        raise ValueError("a natural spline is cubic, and has a knot at least")
