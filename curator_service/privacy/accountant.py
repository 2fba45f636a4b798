"""Cost of a release against a limit: three accountants, each a sum of integers.

========  ==============  =====================================  =========================================
account   counts          discrete Gaussian of σ costs           discrete Laplace of pure ε costs
========  ==============  =====================================  =========================================
``gdp``   µ²              Δ₂²/(σ² − 9) [1]_                      (2 Φ⁻¹(1/(1+e^ε)))² [1]_
``zcdp``  ρ               Δ₂²/(2σ²) [2]_                         ε²/2 [3]_
``pure``  ε               none                                   ε
========  ==============  =====================================  =========================================

Each of the numbers adds over releases, also when the analyst chooses mechanism and scale of each after seeing earlier
answers [4]_, [5]_; so a sum against a limit is a valid filter.

References
----------
.. [1] J. Dong, A. Roth, W. J. Su, "Gaussian Differential Privacy", JRSS B 84 (2022).
.. [2] C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, theorem 14.
.. [3] M. Bun, T. Steinke, "Concentrated Differential Privacy", TCC 2016, proposition 3.3.
.. [4] A. Smith, A. Thakurta, "Fully Adaptive Composition for Gaussian Differential Privacy", arXiv:2210.17520.
.. [5] J. Whitehouse, A. Ramdas, R. Rogers, Z. Wu, "Fully-Adaptive Composition in Differential Privacy", ICML 2023.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Protocol

from curator_service.privacy.conversions import (
    EPSILON_MAX,
    GDP_CURVE,
    UNITS_PER_ONE,
    ZCDP_CURVE,
    Curve,
    affordable_epsilon,
    epsilon_of_units,
    exact,
    float_mu_squared_of_pure,
    mu_squared_of_pure,
    root_down,
    round_down,
    units_down,
    units_of_epsilon_delta,
    units_up,
)
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part

VARIANCE_LOSS = 9
"""The discrete Gaussian of scale σ > 3 on an integer centre is, to within a factor e^±1e-70 per entry, a
post-processing of a continuous Gaussian of variance σ² − 9: under Gaussian DP that variance is what an entry costs."""


@dataclass(frozen=True, slots=True)
class Price:
    """Price that an analyst offers or an admin opens: one of (ε, δ), pure ε, µ, ρ.

    Raises
    ------
    ValueError
        If it is none of these, or a number is not finite and positive.
    """

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        """Check that it states one notion."""
        given = {name for name in ("epsilon", "delta", "mu", "rho") if getattr(self, name) is not None}
        if given not in ({"epsilon", "delta"}, {"epsilon"}, {"mu"}, {"rho"}):
            raise ValueError("a price is epsilon with delta, or epsilon alone where noise is Laplace, or mu, or rho")
        if not all(0 < getattr(self, name) < math.inf for name in given):
            raise ValueError("a price must be made of finite, positive numbers")

    @property
    def is_pure(self) -> bool:
        """True if it states ε alone."""
        return self.epsilon is not None and self.delta is None


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of an account, with its views; None where the account says nothing of a notion."""

    units: int
    mu: float | None
    rho: float | None
    epsilon: float
    delta: float


class JointBound(Protocol):
    """Joint cost of statistics with Gaussian noise, if no pair of rows moves all of them as far as it can."""

    def __hash__(self) -> int:
        """Hash what decides it."""

    def cost(self, costs: Mapping[str, Fraction]) -> Fraction:
        """Bound the cost of all, from what each costs alone, by name; at most their sum."""


AccountantName = Literal["gdp", "zcdp", "pure"]


class Accountant(ABC):
    """Accountant of a population's account.

    Attributes
    ----------
    name : str
    symbol : str
        The number that is counted, in integers of 10⁻¹².
    notion : str
        The member of a price that states it: µ itself, not µ².
    """

    name: AccountantName
    symbol: str
    notion: str

    @abstractmethod
    def units_of(self, price: Price) -> int:
        """Return the account's integer of a price or a limit, rounded down: one function for both.

        Raises
        ------
        ValueError
            If the account does not know the notion, or a number is out of range; the message says what would do.
        """

    @abstractmethod
    def gaussian(self, part: GaussianPart) -> Fraction:
        """Return what a Gaussian part costs, all copies together. Raise `ValueError` where it is not counted."""

    @abstractmethod
    def sigma_squared(self, sensitivity_squared: Fraction, number: Fraction) -> Fraction:
        """Return the least σ² at which a Gaussian part of one copy costs at most `number`."""

    @abstractmethod
    def laplace(self, epsilon: Fraction) -> Fraction:
        """Return what an ε-DP mechanism costs, or a bound above it."""

    @abstractmethod
    def float_laplace(self, epsilon: float) -> float:
        """Estimate `laplace` in float64; only ever a first guess."""

    @abstractmethod
    def spent(self, units: int, delta: float) -> Amount:
        """View an amount that was or would be spent: what it implies; ε by a curve is rounded up."""

    @abstractmethod
    def affordable(self, units: int, delta: float) -> Amount:
        """View an amount that may be spent: each view, used as a price, costs at most `units`."""

    def cost(self, parts: Sequence[Part], joint: JointBound | None = None) -> int:
        """Return what a release costs, from the integers that were used, rounded up.

        Parameters
        ----------
        joint : JointBound or None
            Of the parts with Gaussian noise, where they cost less together than one by one.
        """
        total = Fraction(0)
        gaussian: dict[str, Fraction] = {}
        for part in parts:
            if isinstance(part, LaplacePart):
                total += part.copies * self.laplace(part.epsilon)
            else:
                gaussian[part.statistic] = gaussian.get(part.statistic, Fraction(0)) + self.gaussian(part)
        return units_up(total + (sum(gaussian.values(), Fraction(0)) if joint is None else joint.cost(gaussian)))


class _CurveAccountant(Accountant):
    """An account whose integer implies (ε, δ) by a curve."""

    curve: Curve

    def units_of(self, price: Price) -> int:
        """Read ε alone as the cost of an ε-DP mechanism, (ε, δ) by the curve, the rest as the account's own number."""
        if price.is_pure:
            assert price.epsilon is not None
            if price.epsilon > EPSILON_MAX:
                raise ValueError(f"epsilon must be at most {EPSILON_MAX}")
            return units_down(self.laplace(exact(price.epsilon)))
        if price.epsilon is None:
            return self._units_of_own(price)
        assert price.delta is not None
        return units_of_epsilon_delta(self.curve, exact(price.epsilon), exact(price.delta))

    @abstractmethod
    def _units_of_own(self, price: Price) -> int: ...

    def _epsilon_of(self, units: int, delta: float) -> float:
        return epsilon_of_units(self.curve, units, exact(delta))

    def _affordable_epsilon(self, units: int, delta: float) -> float:
        return affordable_epsilon(self.curve, units, exact(delta))


class GdpAccountant(_CurveAccountant):
    """µ² of Gaussian differential privacy."""

    name = "gdp"
    symbol = "µ²"
    notion = "mu"
    curve = GDP_CURVE

    def _units_of_own(self, price: Price) -> int:
        if price.mu is not None:
            return units_down(exact(price.mu) ** 2)
        assert price.rho is not None
        return units_down(2 * exact(price.rho))

    def gaussian(self, part: GaussianPart) -> Fraction:
        """Return Δ₂²/(σ² − 9)."""
        return part.relative_cost(VARIANCE_LOSS)

    def sigma_squared(self, sensitivity_squared: Fraction, number: Fraction) -> Fraction:
        """Return Δ₂²/µ² + 9."""
        return sensitivity_squared / number + VARIANCE_LOSS

    def laplace(self, epsilon: Fraction) -> Fraction:
        """Return the µ² of an ε-DP mechanism, rounded up."""
        return mu_squared_of_pure(epsilon)

    def float_laplace(self, epsilon: float) -> float:
        """Estimate the same."""
        return float_mu_squared_of_pure(epsilon)

    def spent(self, units: int, delta: float) -> Amount:
        """View µ²: it implies ρ = µ²/2, and (ε, δ) by the curve."""
        mu_squared = units / UNITS_PER_ONE
        return Amount(units, math.sqrt(mu_squared), mu_squared / 2, self._epsilon_of(units, delta), delta)

    def affordable(self, units: int, delta: float) -> Amount:
        """View µ² as prices, each rounded down."""
        number = Fraction(units, UNITS_PER_ONE)
        return Amount(units, root_down(number), round_down(number / 2), self._affordable_epsilon(units, delta), delta)


class ZcdpAccountant(_CurveAccountant):
    """ρ of zero-concentrated differential privacy. It says nothing of µ."""

    name = "zcdp"
    symbol = "ρ"
    notion = "rho"
    curve = ZCDP_CURVE

    def _units_of_own(self, price: Price) -> int:
        if price.rho is None:
            raise ValueError("the account counts rho: state rho, or epsilon with delta")
        return units_down(exact(price.rho))

    def gaussian(self, part: GaussianPart) -> Fraction:
        """Return Δ₂²/2σ²."""
        return part.relative_cost(0) / 2

    def sigma_squared(self, sensitivity_squared: Fraction, number: Fraction) -> Fraction:
        """Return Δ₂²/2ρ."""
        return sensitivity_squared / (2 * number)

    def laplace(self, epsilon: Fraction) -> Fraction:
        """Return ε²/2."""
        return epsilon**2 / 2

    def float_laplace(self, epsilon: float) -> float:
        """Return ε²/2."""
        return epsilon**2 / 2

    def spent(self, units: int, delta: float) -> Amount:
        """View ρ: it implies (ε, δ) by the curve."""
        return Amount(units, None, units / UNITS_PER_ONE, self._epsilon_of(units, delta), delta)

    def affordable(self, units: int, delta: float) -> Amount:
        """View ρ as prices, each rounded down."""
        rho = round_down(Fraction(units, UNITS_PER_ONE))
        return Amount(units, None, rho, self._affordable_epsilon(units, delta), delta)


class PureAccountant(Accountant):
    """ε of pure differential privacy; δ is 0."""

    name = "pure"
    symbol = "ε"
    notion = "epsilon"

    def units_of(self, price: Price) -> int:
        """Read ε alone; nothing else is a price here."""
        if not price.is_pure:
            raise ValueError("the account counts pure epsilon: state epsilon alone")
        assert price.epsilon is not None
        if price.epsilon > EPSILON_MAX:
            raise ValueError(f"epsilon must be at most {EPSILON_MAX}")
        return units_down(exact(price.epsilon))

    def gaussian(self, part: GaussianPart) -> Fraction:
        """Refuse: Gaussian noise has no pure ε."""
        raise ValueError("the account counts pure epsilon, which Gaussian noise has not")

    def sigma_squared(self, sensitivity_squared: Fraction, number: Fraction) -> Fraction:
        """Refuse: Gaussian noise has no pure ε."""
        raise ValueError("the account counts pure epsilon, which Gaussian noise has not")

    def laplace(self, epsilon: Fraction) -> Fraction:
        """Return ε."""
        return epsilon

    def float_laplace(self, epsilon: float) -> float:
        """Return ε."""
        return epsilon

    def spent(self, units: int, delta: float) -> Amount:
        """View ε: it implies ρ = ε²/2, and µ as the most revealing ε-DP mechanism has it."""
        epsilon = Fraction(units, UNITS_PER_ONE)
        mu = math.sqrt(mu_squared_of_pure(epsilon)) if epsilon <= EPSILON_MAX else math.inf
        return Amount(units, mu, float(epsilon**2 / 2), float(epsilon), 0.0)

    def affordable(self, units: int, delta: float) -> Amount:
        """View ε, the one price here."""
        return Amount(units, None, None, round_down(Fraction(units, UNITS_PER_ONE)), 0.0)


GDP, ZCDP, PURE = GdpAccountant(), ZcdpAccountant(), PureAccountant()
ACCOUNTANTS: dict[str, Accountant] = {accountant.name: accountant for accountant in (GDP, ZCDP, PURE)}


@lru_cache(maxsize=1024)
def own_price(accountant: Accountant, units: int) -> float | None:
    """Return the price in the account's own notion that is exactly so many units, in as few digits as state it.

    Parameters
    ----------
    units : int
        Positive.

    Returns
    -------
    float or None
        None where no float64 is exactly so many: far beyond any sensible price.

    Examples
    --------
    >>> own_price(GDP, 2_500_000_000), own_price(ZCDP, 1_953_125_000)
    (0.05, 0.001953125)
    """
    number = units / UNITS_PER_ONE
    if accountant.notion == "mu":
        number = math.sqrt(number)
    for digits in range(1, 18):
        shorter = float(f"{number:.{digits}g}")
        # The nearest one may lie a hair below, and be a unit less.
        for price in (shorter, math.nextafter(shorter, math.inf)):
            if accountant.units_of(Price(**{accountant.notion: price})) == units:
                return price
    return None
