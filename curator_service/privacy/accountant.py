"""What a release costs under Gaussian differential privacy, and whether it fits.

µ² adds over releases, also when the analyst chooses each request after seeing earlier answers [1]_, so a sum of
integers against a limit is a valid filter.

References
----------
.. [1] J. Dong, A. Roth, W. J. Su, "Gaussian Differential Privacy", JRSS B 84 (2022), theorem 3.2 and corollary 3.3;
   A. Smith, A. Thakurta, "Fully Adaptive Composition for Gaussian Differential Privacy", arXiv:2210.17520.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from curator_service.privacy.calibration import (
    UNITS_PER_MU_SQUARED,
    affordable_epsilon,
    affordable_mu,
    affordable_rho,
    epsilon_of_units,
    exact,
    units_of_epsilon_delta,
    units_of_mu,
    units_of_rho,
)

VARIANCE_LOSS = 9
"""The discrete Gaussian of scale σ > 3 on an integer centre is, to within a factor e^±1e-70 per entry, a
post-processing of a continuous Gaussian of variance σ² − 9: that variance is what an entry costs."""


@dataclass(frozen=True, slots=True)
class Price:
    """What an analyst offers or an admin opens: exactly one of (ε, δ), µ, ρ."""

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None

    @property
    def units(self) -> int:
        """The account's integer, rounded down: the same function for a price and for a limit.

        Raises
        ------
        ValueError
            If a number is out of range.
        """
        given = {name for name in ("epsilon", "delta", "mu", "rho") if getattr(self, name) is not None}
        if given not in ({"epsilon", "delta"}, {"mu"}, {"rho"}):
            raise ValueError("a price is epsilon with delta, or mu, or rho")
        if not all(0 < getattr(self, name) < math.inf for name in given):
            raise ValueError("a price must be made of finite, positive numbers")
        if self.mu is not None:
            return units_of_mu(exact(self.mu))
        if self.rho is not None:
            return units_of_rho(exact(self.rho))
        assert self.epsilon is not None
        assert self.delta is not None
        return units_of_epsilon_delta(exact(self.epsilon), exact(self.delta))


@dataclass(frozen=True, slots=True)
class GaussianPart:
    """One statistic's share of a release: its exact squared sensitivity and its integer scales.

    Attributes
    ----------
    statistic : str
    sensitivity_squared : Fraction
        Δ², lattice units.
    sigma : int
        Scale of the noise; of the diagonal, where the off-diagonal has its own.
    sigma_offdiagonal : int or None
        GOE noise: scale of the off-diagonal, whose entries weigh √2 in Δ.
    copies : int
        Number of targets: each has a draw of its own at this scale.
    """

    statistic: str
    sensitivity_squared: Fraction
    sigma: int
    sigma_offdiagonal: int | None = None
    copies: int = 1

    @property
    def mu_squared(self) -> Fraction:
        """µ² = copies · Δ²/(σ² − 9), with min(σ_d² − 9, 2σ_o² − 18) where there are two scales."""
        variance = self.sigma**2 - VARIANCE_LOSS
        if self.sigma_offdiagonal is not None:
            variance = min(variance, 2 * (self.sigma_offdiagonal**2 - VARIANCE_LOSS))
        return self.copies * self.sensitivity_squared / variance


def compute_cost(parts: Iterable[GaussianPart]) -> int:
    """Return what a release costs, from the integers that were used: µ² in units of 10⁻¹², rounded up."""
    return math.ceil(sum((part.mu_squared for part in parts), Fraction(0)) * UNITS_PER_MU_SQUARED)


def fits_within(cost: int, *, posted: int, pending: int, limit: int) -> bool:
    """Tell whether a cost fits: the filter, on integers.

    Examples
    --------
    >>> fits_within(1, posted=9, pending=0, limit=10), fits_within(2, posted=9, pending=0, limit=10)
    (True, False)
    """
    return cost > 0 and posted + pending + cost <= limit


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of the account, with its views in µ, ρ and (ε, δ)."""

    units: int
    mu: float
    rho: float
    epsilon: float
    delta: float


def spent(units: int, delta: float) -> Amount:
    """View an amount that was or would be spent; ε is rounded up."""
    mu_squared = units / UNITS_PER_MU_SQUARED
    return Amount(units, math.sqrt(mu_squared), mu_squared / 2, epsilon_of_units(units, exact(delta)), delta)


def affordable(units: int, delta: float) -> Amount:
    """View an amount that may be spent: each view, used as a price, costs at most `units`."""
    return Amount(units, affordable_mu(units), affordable_rho(units), affordable_epsilon(units, exact(delta)), delta)
