"""Logarithm and exponential of arrays, from elementwise IEEE operations alone.

Those of a vector library give other last digits for the same number in other batches, where its loop leaves a rest:
what a row becomes would then depend on the rows beside it. Here each step is one addition, multiplication, division or
exact change of an exponent, which IEEE 754 defines to the last bit.
"""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_LN2_HIGH = float.fromhex("0x1.62E42FEE00000p-1")
"""The leading 33 bits of log 2, so that its product with an exponent is exact."""
_LN2_LOW = float.fromhex("0x1.A39EF35793C76p-33")
_ATANH = tuple(1 / (2 * k + 1) for k in range(12))
_INVERSE_FACTORIALS = tuple(1 / math.factorial(k) for k in range(15))
TINY = 1e-100
"""Below which a number is 0: a processor takes many times as long for denormal ones, and time would tell of them."""
EXP_MAX = 300.0
"""Beyond which an exponential is refused: its bounds would be no scale of anything."""


def flush(values: Floats) -> Floats:
    """Put 0 for numbers below `TINY` in size, in place, by the same work for any of them."""
    return np.multiply(values, np.abs(values) >= TINY, out=values)


def log(values: Floats) -> Floats:
    """Return natural logarithms of positive finite numbers.

    Notes
    -----
    x = 2ᵉ m with √½ ≤ m < √2, and log m = 2 artanh f with f = (m − 1)/(m + 1), |f| < 0.1716: twelve terms of its series
    leave less than 10⁻¹⁹.
    """
    m, e = np.frexp(values)
    small = (m < math.sqrt(0.5)).astype(np.float64)
    m, exponent = m + m * small, e - small
    f = (m - 1.0) / (m + 1.0)
    return exponent * _LN2_HIGH + (2.0 * f * _horner(_ATANH, f * f) + exponent * _LN2_LOW)


def exp(values: Floats) -> Floats:
    """Return exponentials of numbers within ±`EXP_MAX`.

    Notes
    -----
    x = k log 2 + r with |r| ≤ ½ log 2, and fifteen terms of the series of exp r leave less than 10⁻¹⁸ of it.
    """
    k = np.rint(values / (_LN2_HIGH + _LN2_LOW))
    r = (values - k * _LN2_HIGH) - k * _LN2_LOW
    return np.ldexp(_horner(_INVERSE_FACTORIALS, r), k.astype(np.int32))


def _horner(coefficients: tuple[float, ...], x: Floats) -> Floats:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):  # in place: new memory costs more than arithmetic
        total *= x
        total += coefficient
    return total
