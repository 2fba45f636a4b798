"""Operators, their arguments, the bounds of their results, and their computation: one place for each.

Bounds are those of interval arithmetic. A computed value may leave them by its last digits; where that would matter,
before a logarithm, a root or a division, arguments are held within theirs, so no row can make an operation fail. No
result of two numbers is denormal, as neither is below `elementary.TINY` or above `LARGEST` in size.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np

from curator_service.privacy.expressions.elementary import EXP_MAX, Floats, exp, flush, log
from curator_service.privacy.expressions.errors import ExpressionError
from curator_service.privacy.expressions.tree import Type

LARGEST = 1e100
"""What any value may be in size: products and powers of such numbers are still floats."""
POWER_MAX = 9

Interval = tuple[float, float]
Parameters = tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator.

    Attributes
    ----------
    takes : Type
        What every argument is; a truth is a number too.
    arguments : range
        How many it may have.
    bounds : callable
        Of the bounds of its arguments and its parameters; raises `ExpressionError`.
    compute : callable
        Of its arguments, their bounds and its parameters.
    gives : Type
    commutes : bool
        Whether the order of arguments means nothing.
    """

    takes: Type
    arguments: range
    bounds: Callable[[Sequence[Interval], Parameters], Interval]
    compute: Callable[[Sequence[Floats], Sequence[Interval], Parameters], Floats]
    gives: Type = Type.NUMBER
    commutes: bool = False


_ONE, _TWO, _MANY = range(1, 2), range(2, 3), range(2, 51)
TRUTH_BOUNDS: Interval = (0.0, 1.0)


def _truth(_bounds: Sequence[Interval], _parameters: Parameters) -> Interval:
    return TRUTH_BOUNDS


def _as_floats(truths: object) -> Floats:
    return np.asarray(truths, dtype=np.float64)


def _corners(bounds: Sequence[Interval], values: Callable[..., float]) -> Interval:
    found = [values(*corner) for corner in product(*bounds)]
    return min(found), max(found)


def _bounds_of_sum(bounds: Sequence[Interval], _parameters: Parameters) -> Interval:
    # In the order of the values, so that no rounding brings one beyond; `sum` rounds otherwise from Python 3.12 on.
    return reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]), bounds)


def _bounds_of_product(bounds: Sequence[Interval], _parameters: Parameters) -> Interval:
    product_of = bounds[0]
    for other in bounds[1:]:
        product_of = _corners([product_of, other], lambda a, b: a * b)
        if max(-product_of[0], product_of[1]) > LARGEST:  # at once: infinity times 0 has no bounds
            break
    return product_of


def _bounds_of_quotient(bounds: Sequence[Interval], _parameters: Parameters) -> Interval:
    lower, upper = bounds[1]
    if lower <= 0 <= upper:
        raise ExpressionError(
            f"the divisor may be 0: its bounds are {lower:g} and {upper:g}. Add a number that keeps it on one side of 0"
        )
    return _corners(bounds, lambda a, b: a / b)


def _bounds_of_power(bounds: Sequence[Interval], parameters: Parameters) -> Interval:
    (lower, upper), exponent = bounds[0], int(parameters[0])
    ends = math.prod([lower] * exponent), math.prod([upper] * exponent)  # infinite where ** would raise an error
    return (0.0 if exponent % 2 == 0 and lower <= 0 <= upper else min(ends)), max(ends)


def _power(arguments: Sequence[Floats], _bounds: Sequence[Interval], parameters: Parameters) -> Floats:
    return _multiply([arguments[0]] * int(parameters[0]), (), ())


def _multiply(arguments: Sequence[Floats], _bounds: Sequence[Interval], _parameters: Parameters) -> Floats:
    return reduce(lambda done, factor: flush(done * factor), arguments)


def _bounds_of_absolute(bounds: Sequence[Interval], _parameters: Parameters) -> Interval:
    lower, upper = bounds[0]
    return (0.0 if lower <= 0 <= upper else min(abs(lower), abs(upper))), max(abs(lower), abs(upper))


def _increasing(function: Callable[[Floats], Floats]) -> Callable[[Sequence[Interval], Parameters], Interval]:
    def bounds_of(bounds: Sequence[Interval], _parameters: Parameters) -> Interval:
        lower, upper = function(np.array(bounds[0]))
        return float(lower), float(upper)

    return bounds_of


def _bounds_of_log(bounds: Sequence[Interval], parameters: Parameters) -> Interval:
    lower, upper = bounds[0]
    if lower <= 0:
        raise ExpressionError(
            f"a logarithm needs a number above 0, and the bounds are {lower:g} and {upper:g}: add a number, as in "
            "{'log': [{'add': [x, 1]}]}"
        )
    return _increasing(log)(bounds, parameters)


def _bounds_of_sqrt(bounds: Sequence[Interval], parameters: Parameters) -> Interval:
    lower, upper = bounds[0]
    if lower < 0:
        raise ExpressionError(f"a root needs a number that is not below 0; the bounds are {lower:g} and {upper:g}")
    return _increasing(np.sqrt)(bounds, parameters)


def _bounds_of_exp(bounds: Sequence[Interval], parameters: Parameters) -> Interval:
    lower, upper = bounds[0]
    if upper > EXP_MAX or lower < -EXP_MAX:
        raise ExpressionError(
            f"an exponential needs a number within {-EXP_MAX:g} and {EXP_MAX:g}; the bounds are {lower:g} and "
            f"{upper:g}. Divide it first"
        )
    return _increasing(exp)(bounds, parameters)


def _within(function: Callable[[Floats], Floats]) -> Callable[..., Floats]:
    """Hold the argument within its bounds first."""

    def compute(arguments: Sequence[Floats], bounds: Sequence[Interval], _parameters: Parameters) -> Floats:
        return function(np.clip(arguments[0], *bounds[0]))

    return compute


OPERATORS: Mapping[str, Operator] = {
    "add": Operator(
        Type.NUMBER,
        _MANY,
        _bounds_of_sum,
        lambda arguments, _bounds, _: reduce(np.add, arguments),
        commutes=True,
    ),
    "multiply": Operator(
        Type.NUMBER,
        _MANY,
        _bounds_of_product,
        _multiply,
        commutes=True,
    ),
    "divide": Operator(
        Type.NUMBER,
        _TWO,
        _bounds_of_quotient,
        lambda arguments, bounds, _: arguments[0] / np.clip(arguments[1], *bounds[1]),
    ),
    "power": Operator(Type.NUMBER, _ONE, _bounds_of_power, _power),
    "absolute": Operator(Type.NUMBER, _ONE, _bounds_of_absolute, lambda arguments, _bounds, _: np.abs(arguments[0])),
    "minimum": Operator(
        Type.NUMBER,
        _MANY,
        lambda bounds, _: (min(lower for lower, _ in bounds), min(upper for _, upper in bounds)),
        lambda arguments, _bounds, _: reduce(np.minimum, arguments),
        commutes=True,
    ),
    "maximum": Operator(
        Type.NUMBER,
        _MANY,
        lambda bounds, _: (max(lower for lower, _ in bounds), max(upper for _, upper in bounds)),
        lambda arguments, _bounds, _: reduce(np.maximum, arguments),
        commutes=True,
    ),
    "log": Operator(Type.NUMBER, _ONE, _bounds_of_log, _within(log)),
    "exp": Operator(Type.NUMBER, _ONE, _bounds_of_exp, _within(exp)),
    "sqrt": Operator(Type.NUMBER, _ONE, _bounds_of_sqrt, _within(np.sqrt)),
    "less": Operator(
        Type.NUMBER, _TWO, _truth, lambda arguments, _bounds, _: _as_floats(arguments[0] < arguments[1]), Type.TRUTH
    ),
    "less_equal": Operator(
        Type.NUMBER, _TWO, _truth, lambda arguments, _bounds, _: _as_floats(arguments[0] <= arguments[1]), Type.TRUTH
    ),
    "equal": Operator(
        Type.NUMBER,
        _TWO,
        _truth,
        lambda arguments, _bounds, _: _as_floats(arguments[0] == arguments[1]),
        Type.TRUTH,
        commutes=True,
    ),
    "and": Operator(
        Type.TRUTH,
        _MANY,
        _truth,
        lambda arguments, _bounds, _: reduce(np.minimum, arguments),
        Type.TRUTH,
        commutes=True,
    ),
    "or": Operator(
        Type.TRUTH,
        _MANY,
        _truth,
        lambda arguments, _bounds, _: reduce(np.maximum, arguments),
        Type.TRUTH,
        commutes=True,
    ),
    "not": Operator(Type.TRUTH, _ONE, _truth, lambda arguments, _bounds, _: 1.0 - arguments[0], Type.TRUTH),
}
