"""Exact numbers and draws: e^ε from below, values as fractions, and chances that are whole numbers over another.

Nothing here computes with floats. A float of a record is read as the fraction that it is.
"""

import re
import secrets
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import isfinite, isnan
from numbers import Integral, Rational, Real
from typing import TypeAlias

Below: TypeAlias = Callable[[int], int]
"""Source of randomness: of n it returns one of 0, …, n − 1, each as likely, whatever it returned before."""
Number: TypeAlias = Fraction | Decimal | int | float | str
SOURCE: Below = secrets.randbelow
BITS = 80
EPSILON_MIN, EPSILON_MAX, PARTS_MAX = Fraction(1, 1000), Fraction(20), 10**6
_TEXT = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?(e[+-]?[0-9]{1,2})?|-?[0-9]{1,18}/[1-9][0-9]{0,17}")


def read_number(value: Number) -> Fraction:
    """Return a public number as it is written, so that 0.1 is a tenth. Raise `ValueError` for any other text.

    Examples
    --------
    >>> read_number(0.1), read_number("1/3"), read_number(120)
    (Fraction(1, 10), Fraction(1, 3), Fraction(120, 1))
    """
    if isinstance(value, bool) or not _TEXT.fullmatch(str(value)):
        raise ValueError("a public number has at most 18 digits on each side, such as 120, 0.5, 1e-3 or 1/3")
    return Fraction(str(value))


def read_epsilon(value: Number) -> Fraction:
    """Return ε. Raise `ValueError` where it is not from 0.001 to 20, or has more than six decimals."""
    epsilon = read_number(value)
    if not (EPSILON_MIN <= epsilon <= EPSILON_MAX and epsilon.denominator <= PARTS_MAX):
        raise ValueError("epsilon is from 0.001 to 20, with at most six decimals, such as 0.5 or 1/3")
    return epsilon


def read_value(value: object, low: Fraction, high: Fraction) -> Fraction:
    """Return a number of a record, cut to its bounds; their middle where it is missing (None or NaN).

    Examples
    --------
    >>> read_value(7.5, Fraction(0), Fraction(5)), read_value(None, Fraction(0), Fraction(5))
    (Fraction(5, 1), Fraction(5, 2))
    """
    exact: Fraction | None = None
    if value is None or (isinstance(value, Decimal | Real) and isnan(value)):
        exact = (low + high) / 2
    elif isinstance(value, Integral):
        exact = Fraction(int(value))  # of numpy's integers, too, which would overflow later
    elif isinstance(value, Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
    elif isinstance(value, Decimal | Real):
        number = value if isinstance(value, Decimal) else float(value)
        exact = Fraction(number) if isfinite(number) else high if number > 0 else low
    if exact is None:
        raise ValueError("a value of a numeric column is a number, or None where it is missing")
    return min(max(exact, low), high)


def exp_below(x: Fraction) -> int:
    r"""Return a whole number at most :math:`2^{80}e^x`, for x ≥ 0, and near it.

    The terms are :math:`t_0=2^{80}` and :math:`t_i=\lfloor t_{i-1}x/i\rfloor`. By induction
    :math:`t_i\le2^{80}x^i/i!`, so that no partial sum exceeds :math:`2^{80}e^x`.
    """
    term = total = 1 << BITS
    i = 0
    while term:
        i += 1
        term = term * x.numerator // (x.denominator * i)
        total += term
    return total


@cache
def odds_within(epsilon: Fraction) -> Fraction:
    """Return the odds A/B of a mechanism: above 1, at most e^ε, and below it by less than one part in 2⁶⁰.

    Examples
    --------
    >>> float(odds_within(Fraction(1)))
    2.718281828459045
    """
    return Fraction(exp_below(epsilon), 1 << BITS)


def logistic(x: Fraction) -> Fraction:
    """Return 1/(1 + e⁻ˣ) to about 2⁻¹⁵, as a fraction within 0 and 1; beyond ±20 as there."""
    steps = round(min(abs(x), Fraction(20)) * 2**16)
    larger = Fraction(exp_below(Fraction(steps, 2**16)))
    share = larger / (larger + (1 << BITS))
    return share if x >= 0 else 1 - share


def happens(chance: Fraction, below: Below) -> bool:
    """Return True with exactly this chance."""
    return below(chance.denominator) < chance.numerator


def pick(weights: Iterable[int], total: int, below: Below) -> int:
    """Return a place with the chance of its weight over all weights, which add up to `total`."""
    left, place = below(total), 0
    for place, weight in enumerate(weights):
        if left < weight:
            return place
        left -= weight
    raise AssertionError("the weights add up to less than their total")


def pick_places(count: int, size: int, below: Below) -> list[int]:
    """Return `count` of `size` places; each set of places is as likely (Fisher and Yates)."""
    places = list(range(size))
    for i in range(size):  # all of them, so that the time does not tell how many were wanted
        j = i + below(size - i)
        places[i], places[j] = places[j], places[i]
    return places[:count]
