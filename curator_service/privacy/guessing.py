"""Chance to guess from answers which of two neighbours they were made of: a view of the limits of accounts.

Two stories about one person are told, "in the data" and "not in them" or one set of values and another. Whoever knows
everything else holds the first for true with probability p ≤ 1/2 before any answer, and is then right, with the best
test of all answers, in at most (1 − p) + p·δ(ln((1 − p)/p)) of cases. For the most that P(S) − eᵉ Q(S) can be, over
every set S of answers, is δ(ε), and a test that says "in" on S is right with p P(S) + (1 − p)(1 − Q(S)).

δ is that of an amount which no answer has decided: a limit, or the price of one release. A sum of charges so far is no
such amount, because an analyst may stop when the answers say enough: he is then right more often than the sums that he
stopped at would allow on average (docs/privacy.md, "What an amount spent says").

With p = 1/2 that is Φ(µ/2) under Gaussian DP, where both errors of the best test of N(0, 1) against N(µ, 1) are
Φ(−µ/2) [1]_, and e^ε/(1 + e^ε) under pure DP, where randomised response is the most that there is [2]_.

References
----------
.. [1] J. Dong, A. Roth, W. J. Su, "Gaussian Differential Privacy", JRSS B 84 (2022), section 2 and corollary 2.13.
.. [2] P. Kairouz, S. Oh, P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015, theorem 2.
"""

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

from curator_service.privacy.accountant import PURE, ZCDP, Accountant
from curator_service.privacy.conversions import (
    EPSILON_MAX,
    GDP_CURVE,
    UNITS_PER_ONE,
    ZCDP_CURVE,
    Curve,
    delta_up,
    mu_squared_of_pure,
    pure_delta,
)

EVEN = Fraction(1, 2)
Limits = Sequence[tuple[Accountant, int]]
"""The most that each of several accounts may charge, in its units: of populations whose answers are read together."""
_ONE = Fraction(1)


def best_guess(limits: Limits, prior: Fraction = EVEN) -> Fraction:
    """Bound how often the best guess between two stories about a person is right.

    Parameters
    ----------
    limits : sequence of (Accountant, int)
        Amounts that were fixed before the first answer; never a sum of charges so far.
    prior : Fraction
        The probability of one of the stories before any answer; above 0, at most 1/2.

    Returns
    -------
    Fraction
        From 1 − `prior` to 1; never below the bound.

    Raises
    ------
    ValueError
        If `prior` is out of range.

    Examples
    --------
    >>> from curator_service.privacy.accountant import GDP
    >>> percent_up(best_guess([(GDP, 10**12)]), 2), percent_up(best_guess([]))
    ('69.15', '50')
    """
    if not 0 < prior <= EVEN:
        raise ValueError("a prior is above 0, and at most 1/2")
    # δ falls with ε: rounding ε down keeps the bound.
    order = Fraction(0) if prior == EVEN else Fraction(math.floor(math.log((1 - prior) / prior) * 2**40) - 1, 2**40)
    return 1 - prior + prior * min(bound(order) for bound in _find_bounds(limits))


def _find_bounds(limits: Limits) -> list[Callable[[Fraction], Fraction]]:
    """Return bounds on δ(ε) of all accounts together: each that holds for them, so that the least one does."""
    amounts = [(accountant, Fraction(units, UNITS_PER_ONE)) for accountant, units in limits if units > 0]
    if not amounts:
        return [lambda _order: Fraction(0)]
    if any(accountant is ZCDP for accountant, _ in amounts):
        return [_read(ZCDP_CURVE, sum((_rho(*amount) for amount in amounts), Fraction(0)))]
    bounds: list[Callable[[Fraction], Fraction]] = [lambda _order: _ONE]
    if all(accountant is not PURE or number <= EPSILON_MAX for accountant, number in amounts):
        bounds.append(_read(GDP_CURVE, sum((_mu_squared(*amount) for amount in amounts), Fraction(0))))
    if all(accountant is PURE for accountant, _ in amounts):
        epsilon = sum((number for _, number in amounts), Fraction(0))
        bounds.append(lambda order: delta_up(pure_delta(order, epsilon)))
    return bounds


def _mu_squared(accountant: Accountant, number: Fraction) -> Fraction:
    return mu_squared_of_pure(number) if accountant is PURE else number


def _rho(accountant: Accountant, number: Fraction) -> Fraction:
    """Return the ρ that an account's number implies: µ²/2, or ε²/2."""
    if accountant is ZCDP:
        return number
    return (number**2 if accountant is PURE else number) / 2


def _read(curve: Curve, number: Fraction) -> Callable[[Fraction], Fraction]:
    return lambda order: min(_ONE, delta_up(curve.delta(order, number)) + curve.reserve)


def percent_up(share: Fraction, places: int = 0) -> str:
    """Write a share in percent, rounded up: of a bound, whatever is written must be one too.

    Examples
    --------
    >>> percent_up(Fraction(2, 3)), percent_up(Fraction(689, 1000), 1), percent_up(Fraction(1, 1000))
    ('67', '68.9', '1')
    """
    scaled = math.ceil(share * 100 * 10**places)
    whole, rest = divmod(scaled, 10**places)
    return f"{whole}.{rest:0{places}}" if places else str(whole)


def number_up(value: float, digits: int = 4) -> str:
    """Write a number that is not negative in so many significant digits, rounded up.

    Examples
    --------
    >>> number_up(0.64801), number_up(3.0), number_up(1e-6), number_up(math.inf)
    ('0.6481', '3', '0.000001', 'inf')
    """
    if value in {0.0, math.inf}:
        return f"{value:g}"
    written = Decimal(repr(value))
    return f"{written.quantize(Decimal(1).scaleb(written.adjusted() - digits + 1), ROUND_CEILING).normalize():g}"
