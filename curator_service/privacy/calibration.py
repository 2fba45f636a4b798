"""Conversions between (ε, δ), µ and the account's integers, in high precision, each with its rounding direction.

The account of a population under ``gdp`` counts µ² in integers of 10⁻¹². All conversions go through

    δ(ε; µ) = Φ(µ/2 − ε/µ) − e^ε Φ(−µ/2 − ε/µ)        (Dong, Roth and Su 2022, corollary 2.13)

evaluated with 60 digits. 2⁻⁶⁰ of every δ is kept back for the distance between the discrete Gaussian and the
continuous one that stands behind the accounting (docs/privacy.md).
"""

import math
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import mpmath
from scipy.special import erfcx

UNITS_PER_MU_SQUARED = 10**12
DELTA_RESERVE = Fraction(1, 2**60)
DELTA_MIN = Fraction(1, 10**15)
EPSILON_MAX = 1000
_EPSILON_SMALL = 1e-12

_context = mpmath.MPContext()
_context.dps = 60
_lock = threading.Lock()  # mpmath's functions change their context's precision while they run


def exact(number: float | str) -> Fraction:
    """Return the number that was written: 0.1 is one tenth, not the float nearest to it.

    Examples
    --------
    >>> exact(0.1)
    Fraction(1, 10)
    """
    return Fraction(float.__repr__(number) if isinstance(number, float) else number)


def units_of_mu(mu: Fraction) -> int:
    """Return the account's integer of a price or limit stated as µ, rounded down."""
    return math.floor(mu**2 * UNITS_PER_MU_SQUARED)


def units_of_rho(rho: Fraction) -> int:
    """Return the account's integer of a price or limit stated as ρ = µ²/2, rounded down."""
    return math.floor(2 * rho * UNITS_PER_MU_SQUARED)


@lru_cache(maxsize=4096)
def units_of_epsilon_delta(epsilon: Fraction, delta: Fraction) -> int:
    """Return the largest account integer m such that √(m 10⁻¹²)-GDP implies (ε, δ)-DP.

    Parameters
    ----------
    epsilon : Fraction
        Positive, at most `EPSILON_MAX`.
    delta : Fraction
        At least `DELTA_MIN`, below 1.

    Returns
    -------
    int
        µ² in units of 10⁻¹², rounded down, verified: m satisfies the bound and m + 1 does not.

    Raises
    ------
    ValueError
        If `epsilon` or `delta` is out of range.
    """
    if not 0 < epsilon <= EPSILON_MAX:
        raise ValueError(f"epsilon must be above 0 and at most {EPSILON_MAX}")
    if not DELTA_MIN <= delta < 1:
        raise ValueError("delta must be at least 1e-15 and below 1")
    budget = delta - DELTA_RESERVE
    guess = int(_float_mu(float(epsilon), float(budget)) ** 2 * UNITS_PER_MU_SQUARED)
    return _last_true(lambda units: units <= 0 or _delta_at_most(epsilon, units, budget), guess)


@lru_cache(maxsize=4096)
def epsilon_of_units(units: int, delta: Fraction) -> float:
    """Return the ε of an amount that was spent, at a given δ, rounded up in the ninth digit.

    Parameters
    ----------
    units : int
        µ² in units of 10⁻¹².
    delta : Fraction

    Returns
    -------
    float
        0.0 where the amount alone is within δ; ``inf`` above `EPSILON_MAX`.
    """
    if units <= 0:
        return 0.0
    if delta < DELTA_MIN:
        return math.inf
    budget = delta - DELTA_RESERVE
    estimate = _float_epsilon(units, float(budget))
    # At the ends of the range the answer may lie outside of it; the exact δ decides.
    if estimate < _EPSILON_SMALL and _delta_at_most(Fraction(0), units, budget):
        return 0.0
    if estimate > EPSILON_MAX / 2 and not _delta_at_most(Fraction(EPSILON_MAX), units, budget):
        return math.inf
    last_unsafe, step = _last_epsilon(estimate, units, budget)
    return float((last_unsafe + 1) * step)


@lru_cache(maxsize=4096)
def affordable_epsilon(units: int, delta: Fraction) -> float:
    """Return the largest ε, to nine digits, whose price at δ is at most `units`; 0.0 if there is none."""
    if units <= 0 or delta < DELTA_MIN:
        return 0.0
    budget = delta - DELTA_RESERVE
    # A price of ε is at most `units` exactly when `units + 1` already breaks (ε, δ).
    estimate = _float_epsilon(units + 1, float(budget))
    if estimate < _EPSILON_SMALL:
        return 0.0
    last, step = _last_epsilon(estimate, units + 1, budget)
    return min(float(last * step), float(EPSILON_MAX))


def _last_epsilon(estimate: float, units: int, budget: Fraction) -> tuple[int, Fraction]:
    """Return the last k for which ε = k·step is too small for `units`, and the step of nine significant digits."""
    step = Fraction(10) ** (math.floor(math.log10(estimate)) - 8)
    return _last_true(lambda k: k <= 0 or not _delta_at_most(k * step, units, budget), int(estimate / step)), step


def round_down(value: Fraction, digits: int = 12) -> float:
    """Round a number that is not negative down to so many significant digits, exactly."""
    if value <= 0:
        return 0.0
    exponent = math.floor(math.log10(value.numerator) - math.log10(value.denominator))
    step = Fraction(10) ** (exponent - digits + 1)
    return float(math.floor(value / step) * step)


def affordable_mu(units: int) -> float:
    """Return the largest µ of twelve digits or so whose price is at most `units`."""
    # The integer root keeps twelve decimals more than the account's integer, rounded down.
    finer = 10**12
    return round_down(Fraction(math.isqrt(units * finer**2), finer * math.isqrt(UNITS_PER_MU_SQUARED)))


def affordable_rho(units: int) -> float:
    """Return the largest ρ of twelve digits whose price is at most `units`."""
    return round_down(Fraction(units, 2 * UNITS_PER_MU_SQUARED))


def compute_delta(epsilon: Fraction, mu_squared: Fraction) -> mpmath.mpf:
    """Evaluate δ(ε; µ) with 60 digits."""
    with _lock:
        e = _context.mpf(epsilon.numerator) / epsilon.denominator
        mu = _context.sqrt(_context.mpf(mu_squared.numerator) / mu_squared.denominator)
        return _context.ncdf(mu / 2 - e / mu) - _context.exp(e) * _context.ncdf(-mu / 2 - e / mu)


def _delta_at_most(epsilon: Fraction, units: int, bound: Fraction) -> bool:
    delta = compute_delta(epsilon, Fraction(units, UNITS_PER_MU_SQUARED))
    with _lock:
        # The slack covers the 60-digit evaluation, so that a "yes" is a proof.
        return bool(delta + _context.mpf(10) ** -45 <= _context.mpf(bound.numerator) / bound.denominator)


def _float_delta(epsilon: float, mu: float) -> float:
    """Evaluate δ(ε; µ) in float64 without cancellation of large terms; only ever a first guess."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a < 0:
        return 0.5 * math.erfc(a / math.sqrt(2)) - 0.5 * float(erfcx(b / math.sqrt(2))) * math.exp(-(a**2) / 2)
    return 0.5 * math.exp(-(a**2) / 2) * float(erfcx(a / math.sqrt(2)) - erfcx(b / math.sqrt(2)))


def _float_mu(epsilon: float, delta: float) -> float:
    return _bisect(lambda mu: _float_delta(epsilon, mu) <= delta, 1e-12, 1e4)


def _float_epsilon(units: int, delta: float) -> float:
    mu = math.sqrt(units / UNITS_PER_MU_SQUARED)
    return _bisect(lambda epsilon: _float_delta(epsilon, mu) > delta, _EPSILON_SMALL / 2, float(EPSILON_MAX))


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
