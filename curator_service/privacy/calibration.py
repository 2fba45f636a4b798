"""From a share of a price to an integer scale, by the account's own arithmetic or by a published formula.

Whatever the calibration, the ledger charges what the integers used really cost (`accountant`).

References
----------
.. [1] E. Kalaja, "Adaptive algorithm in differential privacy", MSc thesis, University of Helsinki 2020, algorithm 3:
   C. Dwork, A. Roth, "The Algorithmic Foundations of Differential Privacy", theorem A.1, for each part.
.. [2] Y.-X. Wang, "Revisiting differentially private linear regression", UAI 2018, algorithm 2.
"""

import math
from enum import StrEnum
from fractions import Fraction

import mpmath

from curator_service.privacy.accountant import Accountant
from curator_service.privacy.conversions import root_up
from curator_service.privacy.samplers import SCALE_MAX, SCALE_MIN


class Mechanism(StrEnum):
    """The kind of noise."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


class Calibration(StrEnum):
    """How a price becomes scales."""

    ANALYTIC = "analytic"
    CLASSICAL = "classical"
    WANG2018 = "wang2018"
    NIEMINEN2017 = "nieminen2017"


CALIBRATIONS = {
    Mechanism.GAUSSIAN: (Calibration.ANALYTIC, Calibration.CLASSICAL, Calibration.WANG2018),
    Mechanism.LAPLACE: (Calibration.ANALYTIC, Calibration.NIEMINEN2017),
}


class PlanError(ValueError):
    """A request that cannot be planned; the message names the rule and what would work.

    Attributes
    ----------
    field : str
        The part of the request that breaks the rule.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def sigma_for(accountant: Accountant, sensitivity_squared: Fraction, number: Fraction) -> int:
    """Return the least integer σ at which a Gaussian part costs at most `number`, in exact arithmetic.

    Parameters
    ----------
    sensitivity_squared : Fraction
        Of all copies together, lattice units.
    number : Fraction
        Of the account: µ² or ρ.

    Raises
    ------
    PlanError
        If σ would leave [2^10, 2^53].
    """
    if number <= 0:
        raise PlanError("price", "the price is below the account's smallest unit")
    return _in_range(root_up(accountant.sigma_squared(sensitivity_squared, number)))


def sigma_of_formula(
    calibration: Calibration, sensitivity_squared: Fraction, epsilon: Fraction, delta: Fraction
) -> int:
    """Return σ of a published formula for one part of (ε, δ), rounded up.

    ``classical``: σ = Δ √(2 ln(1.25/δ))/ε, for ε < 1 [1]_. ``wang2018``: σ = Δ √(ln(2/δ))/ε, which is Wang's
    √(ln(6/δ))/(ε/3) for three equal parts [2]_.

    Raises
    ------
    PlanError
        If σ would leave [2^10, 2^53].
    """
    factor = 2 * _log_up(Fraction(5, 4) / delta) if calibration is Calibration.CLASSICAL else _log_up(2 / delta)
    return _in_range(root_up(sensitivity_squared * factor / epsilon**2))


def scale_for(sensitivity: Fraction, epsilon: Fraction) -> int:
    """Return the least integer t at which discrete Laplace noise has pure ε: ⌈Δ₁/ε⌉.

    Raises
    ------
    PlanError
        If t would leave [2^10, 2^53].
    """
    return _in_range(math.ceil(sensitivity / epsilon))


def _in_range(scale: int) -> int:
    if scale > SCALE_MAX:
        raise PlanError("price", "the price is too small: the noise would be larger than the lattice can hold")
    if scale < SCALE_MIN:
        raise PlanError("price", "the price is too large: the noise would be finer than the lattice")
    return scale


def _log_up(value: Fraction) -> Fraction:
    """Return the natural logarithm of a number above 1, rounded up by at most 1e-30."""
    context = mpmath.MPContext()
    context.dps = 50
    logarithm = context.log(context.mpf(value.numerator) / value.denominator)
    return Fraction(int(context.ceil(logarithm * context.mpf(10) ** 30)) + 1, 10**30)
