"""Conversions between ε, (ε, δ), µ, ρ and an account's integers, in high precision, each with its rounding direction.

An account counts its own number, µ², ρ or ε, in integers of 10⁻¹². What its integer says about (ε, δ) is a curve:

- under Gaussian DP, δ(ε; µ) = Φ(µ/2 − ε/µ) − e^ε Φ(−µ/2 − ε/µ) [1]_;
- under zero-concentrated DP, δ(ε; ρ) = inf over α > 1 of exp((α−1)(αρ−ε)) (1−1/α)^α / (α−1) [2]_.

Both are evaluated with 60 digits. Under Gaussian DP 2⁻⁶⁰ of every δ is kept back for the distance between the discrete
Gaussian and the continuous one that stands behind the accounting (docs/privacy.md).

References
----------
.. [1] J. Dong, A. Roth, W. J. Su, "Gaussian Differential Privacy", JRSS B 84 (2022), corollary 2.13.
.. [2] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, corollary 13.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np
from scipy.special import erfcx, ndtri_exp

UNITS_PER_ONE = 10**12
"""An account's integer counts 10⁻¹² of µ², ρ or ε."""

DELTA_MIN = Fraction(1, 10**15)
EPSILON_MAX = 1000
_EPSILON_SMALL = 1e-12

_context = mpmath.MPContext()
_context.dps = 60
_SLACK = _context.mpf(10) ** -45  # covers the 60-digit evaluation, so that a "yes" is a proof
_lock = threading.Lock()  # mpmath's functions change their context's precision while they run


@dataclass(frozen=True, slots=True)
class Curve:
    """Privacy curve (ε, δ) of an account's number v.

    Attributes
    ----------
    name : str
    delta : callable
        δ(ε; v), or a bound above it, with 60 digits.
    float_delta : callable
        The same in float64; only ever a first guess.
    number_max : float
        A number that is above that of every (ε, δ) in range.
    reserve : Fraction
        What is kept back of every δ.
    """

    name: str
    delta: Callable[[Fraction, Fraction], mpmath.mpf]
    float_delta: Callable[[float, float], float]
    number_max: float
    reserve: Fraction = Fraction(0)


def exact(number: float | str) -> Fraction:
    """Return the number that was written: 0.1 is one tenth, not the float nearest to it.

    Examples
    --------
    >>> exact(0.1)
    Fraction(1, 10)
    """
    return Fraction(float.__repr__(number) if isinstance(number, float) else number)


def units_down(number: Fraction) -> int:
    """Return an account's integer of its own number, rounded down: of a price or a limit."""
    return math.floor(number * UNITS_PER_ONE)


def units_up(number: Fraction) -> int:
    """Return an account's integer of its own number, rounded up: of a cost."""
    return math.ceil(number * UNITS_PER_ONE)


@lru_cache(maxsize=4096)
def units_of_epsilon_delta(curve: Curve, epsilon: Fraction, delta: Fraction) -> int:
    """Return the largest account integer that implies (ε, δ)-DP.

    Parameters
    ----------
    epsilon : Fraction
        Positive, at most `EPSILON_MAX`.
    delta : Fraction
        At least `DELTA_MIN`, below 1.

    Returns
    -------
    int
        Rounded down, verified: it satisfies the bound and the next integer does not.

    Raises
    ------
    ValueError
        If `epsilon` or `delta` is out of range.
    """
    if not 0 < epsilon <= EPSILON_MAX:
        raise ValueError(f"epsilon must be above 0 and at most {EPSILON_MAX}")
    if not DELTA_MIN <= delta < 1:
        raise ValueError("delta must be at least 1e-15 and below 1")
    budget = delta - curve.reserve
    guess = int(_float_number(curve, float(epsilon), float(budget)) * UNITS_PER_ONE)
    return _last_true(lambda units: units <= 0 or _delta_at_most(curve, epsilon, units, budget), guess)


@lru_cache(maxsize=4096)
def epsilon_of_units(curve: Curve, units: int, delta: Fraction) -> float:
    """Return the ε of an amount that was spent, at a given δ, rounded up in the ninth digit.

    Returns
    -------
    float
        0.0 where the amount alone is within δ; ``inf`` above `EPSILON_MAX`.
    """
    if units <= 0:
        return 0.0
    if delta < DELTA_MIN:
        return math.inf
    budget = delta - curve.reserve
    estimate = _float_epsilon(curve, units, float(budget))
    # At the ends of the range the answer may lie outside of it; the exact δ decides.
    if estimate < _EPSILON_SMALL and _delta_at_most(curve, Fraction(0), units, budget):
        return 0.0
    if estimate > EPSILON_MAX / 2 and not _delta_at_most(curve, Fraction(EPSILON_MAX), units, budget):
        return math.inf
    last_unsafe, step = _last_epsilon(curve, estimate, units, budget)
    return float((last_unsafe + 1) * step)


@lru_cache(maxsize=4096)
def affordable_epsilon(curve: Curve, units: int, delta: Fraction) -> float:
    """Return the largest ε, to nine digits, whose price at δ is at most `units`; 0.0 if there is none."""
    if units <= 0 or delta < DELTA_MIN:
        return 0.0
    budget = delta - curve.reserve
    # A price of ε is at most `units` exactly when `units + 1` already breaks (ε, δ).
    estimate = _float_epsilon(curve, units + 1, float(budget))
    if estimate < _EPSILON_SMALL:
        return 0.0
    last, step = _last_epsilon(curve, estimate, units + 1, budget)
    return min(float(last * step), float(EPSILON_MAX))


@lru_cache(maxsize=4096)
def mu_squared_of_pure(epsilon: Fraction) -> Fraction:
    """Return µ² such that every ε-DP mechanism is µ-GDP: µ = −2 Φ⁻¹(1/(1+e^ε)), rounded up to 10⁻¹⁸.

    Parameters
    ----------
    epsilon : Fraction
        Not negative, at most `EPSILON_MAX`.

    Notes
    -----
    Of all ε-DP mechanisms randomised response is the most revealing. Its trade-off curve consists of two lines, which
    meet where both errors are 1/(1+e^ε); a Gaussian curve lies below it as soon as it does at that corner, for it is
    convex and shares the ends (Dong, Roth and Su 2022, section 2.2; docs/privacy.md).
    """
    if not 0 <= epsilon <= EPSILON_MAX:
        raise ValueError(f"epsilon must not be negative, and at most {EPSILON_MAX}")
    finer = 10**18

    def too_small(k: int) -> bool:
        with _lock:
            error = _context.ncdf(-_context.sqrt(_context.mpf(k) / finer) / 2)
            return bool(error * (1 + _context.exp(_mpf(epsilon))) > 1 - _SLACK)

    if epsilon == 0:
        return Fraction(0)
    guess = int(float_mu_squared_of_pure(float(epsilon)) * finer)
    return Fraction(_last_true(too_small, guess) + 1, finer)


def float_mu_squared_of_pure(epsilon: float) -> float:
    """Estimate `mu_squared_of_pure` in float64."""
    return float(4 * ndtri_exp(-np.logaddexp(0, epsilon)) ** 2)


def largest_below(increasing: Callable[[float], float], bound: float) -> float:
    """Return, to float precision, the largest ε at which an increasing function is at most a bound."""
    return _bisect(lambda epsilon: increasing(epsilon) <= bound, _EPSILON_SMALL / 2, float(EPSILON_MAX))


def round_down(value: Fraction, digits: int = 12) -> float:
    """Round a number that is not negative down to so many significant digits, exactly."""
    if value <= 0:
        return 0.0
    exponent = math.floor(math.log10(value.numerator) - math.log10(value.denominator))
    step = Fraction(10) ** (exponent - digits + 1)
    return float(math.floor(value / step) * step)


def root_up(square: Fraction) -> int:
    """Return the root of a number that is not negative, rounded up to an integer, exactly."""
    ceiling = math.ceil(square)
    return math.isqrt(ceiling - 1) + 1 if ceiling else 0


def root_down(square: Fraction) -> float:
    """Return the root of a number, rounded down in the twelfth digit."""
    finer = 10**12
    return round_down(Fraction(math.isqrt(math.floor(square * finer**4)), finer**2))


def gdp_delta(epsilon: Fraction, mu_squared: Fraction) -> mpmath.mpf:
    """Evaluate δ(ε; µ) with 60 digits."""
    with _lock:
        e, mu = _mpf(epsilon), _context.sqrt(_mpf(mu_squared))
        return _context.ncdf(mu / 2 - e / mu) - _context.exp(e) * _context.ncdf(-mu / 2 - e / mu)


def _gdp_float_delta(epsilon: float, mu_squared: float) -> float:
    """Evaluate δ(ε; µ) in float64 without cancellation of large terms."""
    mu = math.sqrt(mu_squared)
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a < 0:
        return 0.5 * math.erfc(a / math.sqrt(2)) - 0.5 * float(erfcx(b / math.sqrt(2))) * math.exp(-(a**2) / 2)
    return 0.5 * math.exp(-(a**2) / 2) * (float(erfcx(a / math.sqrt(2))) - float(erfcx(b / math.sqrt(2))))


def zcdp_delta(epsilon: Fraction, rho: Fraction) -> mpmath.mpf:
    """Evaluate δ(ε; ρ) with 60 digits, at the order α where it is least.

    Every α gives a true bound. The logarithm of the expression is convex in α, with derivative
    (2α−1)ρ − ε + ln(1−1/α); its zero comes from a bisection in float64 and Newton steps in high precision.
    """
    beyond = _best_order(float(epsilon), float(rho))
    with _lock:
        e, r, x = _mpf(epsilon), _mpf(rho), _context.mpf(beyond)
        for _ in range(3):
            slope = (2 * x + 1) * r - e - _context.log1p(1 / x)
            step = slope / (2 * r + 1 / (x * (x + 1)))
            x = x - step if step < x else x / 2
        return _context.exp(x * ((x + 1) * r - e) - (x + 1) * _context.log1p(1 / x)) / x


def _zcdp_float_delta(epsilon: float, rho: float) -> float:
    x = _best_order(epsilon, rho)
    return math.exp(min(x * ((x + 1) * rho - epsilon) - (x + 1) * math.log1p(1 / x) - math.log(x), 0.0))


def _best_order(epsilon: float, rho: float) -> float:
    """Return α − 1 for the order α at which the zCDP bound is least."""
    return _bisect(lambda x: (2 * x + 1) * rho - epsilon - math.log1p(1 / x) < 0, 1e-30, 1e30)


def pure_delta(order: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """Evaluate the δ at an order of ε-DP with 60 digits: (e^ε − e^order)/(1 + e^ε), that of randomised response [1]_.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015, theorem 2.
    """
    with _lock:
        largest = _context.exp(_mpf(epsilon))
        return max(_context.zero, (largest - _context.exp(_mpf(order))) / (largest + 1))


def delta_up(delta: mpmath.mpf) -> Fraction:
    """Return a δ of 60 digits as a fraction, rounded up to 10⁻¹², and at most 1."""
    with _lock:
        return min(Fraction(1), Fraction(int(_context.ceil((delta + _SLACK) * UNITS_PER_ONE)), UNITS_PER_ONE))


GDP_CURVE = Curve("gdp", gdp_delta, _gdp_float_delta, 1e8, Fraction(1, 2**60))
ZCDP_CURVE = Curve("zcdp", zcdp_delta, _zcdp_float_delta, 1e8)


def _mpf(number: Fraction) -> mpmath.mpf:
    return _context.mpf(number.numerator) / number.denominator


def _delta_at_most(curve: Curve, epsilon: Fraction, units: int, bound: Fraction) -> bool:
    delta = curve.delta(epsilon, Fraction(units, UNITS_PER_ONE))
    with _lock:
        return bool(delta + _SLACK <= _mpf(bound))


def _last_epsilon(curve: Curve, estimate: float, units: int, budget: Fraction) -> tuple[int, Fraction]:
    """Return the last k for which ε = k·step is too small for `units`, and the step of nine significant digits."""
    step = Fraction(10) ** (math.floor(math.log10(estimate)) - 8)
    return (
        _last_true(lambda k: k <= 0 or not _delta_at_most(curve, k * step, units, budget), int(estimate / step)),
        step,
    )


def _float_number(curve: Curve, epsilon: float, delta: float) -> float:
    return _bisect(lambda number: curve.float_delta(epsilon, number) <= delta, 1e-24, curve.number_max)


def _float_epsilon(curve: Curve, units: int, delta: float) -> float:
    number = units / UNITS_PER_ONE
    return _bisect(lambda epsilon: curve.float_delta(epsilon, number) > delta, _EPSILON_SMALL / 2, float(EPSILON_MAX))


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return where a predicate (true, then false) turns, in logarithmic steps, to float precision."""
    a, b = math.log(low), math.log(high)
    for _ in range(56):
        middle = (a + b) / 2
        a, b = (middle, b) if holds(math.exp(middle)) else (a, middle)
    return math.exp(a)


def _last_true(predicate: Callable[[int], bool], guess: int) -> int:
    """Return the last integer k ≥ 0 for which a predicate (true, then false) holds, searching outwards from a guess."""
    low = max(guess, 0)
    width = 1
    while not predicate(low):
        low = max(low - width, 0)
        width *= 2
    high, width = low + 1, 1
    while predicate(high):
        low, high = high, high + width
        width *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if predicate(middle) else (low, middle)
    return low
