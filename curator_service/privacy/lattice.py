"""Values to integers: the stored lattice, written once at ingest, and the coarser lattice of a request.

Sensitivity depends on three rules that live here alone: round *then* clip, so that the bound holds exactly; what a
value becomes depends on that value and public numbers only; every operation is one elementwise IEEE operation.
"""

import math
from decimal import Decimal
from functools import lru_cache

import numpy as np
import numpy.typing as npt

STORED_UNIT = 2**30
"""The stored integer that stands for the upper bound of a numeric column."""

UNIT = 2**17 - 1
"""q: the integer of the request lattice that stands for 1. Bounds every entry of a mapped row."""

MISSING = -(2**31)
"""The stored integer of a missing value; outside the lattice."""

_DECIMALS_MOST = 150
"""Powers of ten by which products of numbers of up to 1e100 stay finite."""

_LOWEST, _HIGHEST = np.int32(-STORED_UNIT), np.int32(STORED_UNIT)
IntArray = npt.NDArray[np.int64]
StoredArray = npt.NDArray[np.int32]
FlagArray = npt.NDArray[np.bool_]
RowArray = npt.NDArray[np.float64]
"""Values on the request lattice: integers in ``[-q, q]``, held in float64, in which `compute_gram` multiplies them."""


def center_and_scale(lower: float, upper: float) -> tuple[float, float]:
    """Return the centre and the half range that bring ``[lower, upper]`` to ``[-1, 1]``.

    Parameters
    ----------
    lower, upper : float
        Public bounds in the column's unit.

    Returns
    -------
    tuple of float
        Centre and half range, in the column's unit.

    Raises
    ------
    ValueError
        If the bounds are not finite, not in order, or too close for a float half range.

    Examples
    --------
    >>> center_and_scale(50.0, 100.0)
    (75.0, 25.0)
    """
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise ValueError("bounds must be finite numbers")
    if not lower < upper:
        raise ValueError("the lower bound must be below the upper bound")
    # Halve first: the sum or the difference of two large bounds would overflow.
    center, scale = lower / 2 + upper / 2, upper / 2 - lower / 2
    if scale < 1e-300:
        raise ValueError("the bounds are too close to each other for a float")
    return center, scale


@lru_cache(maxsize=4096)
def decimals_of(lower: float, upper: float) -> int | None:
    """Return to how many decimals the stored lattice tells numbers within bounds apart; negative for tens and more.

    None where floats of the size of the bounds are no finer than the lattice.

    Examples
    --------
    >>> decimals_of(50.0, 100.0), decimals_of(0.0, 1e12), decimals_of(1e16, 1e16 + 4.0)
    (7, -3, None)
    """
    step = center_and_scale(lower, upper)[1] / STORED_UNIT
    if max(abs(lower), abs(upper)) * 2.0**-45 > step:
        return None
    # A stored number is off by half a step, and by some roundings of floats.
    decimals = -(Decimal(1.1 * step).adjusted() + 1)
    return decimals if abs(decimals) <= _DECIMALS_MOST else None


def to_decimals(numbers: RowArray, decimals: int | None) -> RowArray:
    """Replace numbers by the nearest ones of so many decimals: what a file said, where it said no more of them.

    A pure function of each number: a product, a nearest integer and a quotient, each rounded once.
    """
    if decimals is None:
        return numbers
    power = float(f"1e{abs(decimals)}")
    to_units, back = (np.multiply, np.divide) if decimals >= 0 else (np.divide, np.multiply)
    to_units(numbers, power, out=numbers)
    np.rint(numbers, out=numbers)
    return np.asarray(back(numbers, power, out=numbers))


def to_stored(values: npt.NDArray[np.float64], lower: float, upper: float) -> StoredArray:
    """Map numeric values to the stored lattice: ``clip(rint(u * 2**30))`` with ``u = (x - center) / scale``.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Values in the column's unit. NaN is missing; infinities and values beyond the bounds become the bound.
    lower, upper : float
        Public bounds in the column's unit.

    Returns
    -------
    ndarray of int32, shape (n,)
        Integers in ``[-2**30, 2**30]``, or `MISSING`.
    """
    center, scale = center_and_scale(lower, upper)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.asarray(values, dtype=np.float64) - center
        scaled /= scale
        scaled *= STORED_UNIT
    np.rint(scaled, out=scaled)
    np.clip(scaled, -STORED_UNIT, STORED_UNIT, out=scaled)
    np.fmax(scaled, MISSING, out=scaled)  # in place of NaN alone, by the same work however many are missing
    return scaled.astype(np.int32)


def to_request_lattice(
    stored: StoredArray, out: RowArray | None = None, work: StoredArray | None = None, *, missing: bool = True
) -> RowArray:
    """Map stored integers to the request lattice: ``rint(z * q / 2**30)``, exact in float64.

    Parameters
    ----------
    stored : ndarray of int32, shape (n,)
        Integers in ``[-2**30, 2**30]``; `MISSING` becomes 0.
    out : ndarray of float64, shape (n,), optional
        Where the result is written.
    work : ndarray of int32, shape (n,), optional
        Overwritten; new memory costs more than arithmetic.
    missing : bool
        False lets `MISSING` become some integer of the lattice, where its row counts for nothing.

    Returns
    -------
    ndarray of float64, shape (n,)
        Integers in ``[-q, q]``.
    """
    # Every bound rests on |z| ≤ q: a damaged file must not break it.
    bounded = np.clip(stored, _LOWEST, _HIGHEST, out=work)
    if missing:  # by arithmetic, not by selection: the work must not tell how many are missing
        bounded *= (stored != MISSING).astype(np.int32)
    # q / 2**30 has 17 significant bits and z at most 31: their product is exact.
    values: RowArray = np.multiply(bounded, UNIT / STORED_UNIT, out=out)
    return np.rint(values, out=values)
