"""Costs other than the quoted one, and the noise that they give. A plan in floats, not an accounting.

Every standard deviation of a quote falls with the cost in one proportion, the *strength*: by how much µ (or √ρ, or the
ε of Laplace noise) exceeds the quoted one. Integer scales are rounded up by the curator, by less than a thousandth.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from analyst_client.kinds.gram.quote import Noise
from analyst_client.schema.amounts import Cost
from analyst_client.schema.quotes import AnyQuote

EPSILON_MAX = 1000.0


def gdp_delta(epsilon: float, mu: float) -> float:
    r"""Return the δ of µ-GDP at ε.

    Notes
    -----
    Corollary 2.13 of Dong, Roth and Su, "Gaussian Differential Privacy", JRSS B 84 (2022),
    :math:`\delta(\varepsilon;\mu) = \Phi(\mu/2-\varepsilon/\mu) - e^\varepsilon\Phi(-\mu/2-\varepsilon/\mu)`, written
    as a product, so that nothing large cancels.

    Examples
    --------
    >>> f"{gdp_delta(1.0, 0.23670):.3g}"
    '1e-06'
    """
    from scipy import special  # noqa: PLC0415 -- the import of the client stays quick

    first, second = special.log_ndtr(mu / 2.0 - epsilon / mu), special.log_ndtr(-mu / 2.0 - epsilon / mu)
    return float(-math.exp(first) * math.expm1(min(epsilon + second - first, 0.0)))


def zcdp_delta(epsilon: float, rho: float) -> float:
    r"""Return the δ of ρ-zCDP at ε.

    Notes
    -----
    Corollary 13 of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020: over
    orders :math:`\alpha > 1` the least :math:`e^{(\alpha-1)(\alpha\rho-\varepsilon)}(1-1/\alpha)^\alpha/(\alpha-1)`.
    Its logarithm is convex in α; the bisection finds where the derivative is 0.
    """
    beyond = bisect(lambda x: (2.0 * x + 1.0) * rho - epsilon - math.log1p(1.0 / x) < 0.0, 1e-15, 1e15)
    log = beyond * ((beyond + 1.0) * rho - epsilon) - (beyond + 1.0) * math.log1p(1.0 / beyond) - math.log(beyond)
    return math.exp(min(log, 0.0))


def epsilon_of(curve: Callable[[float, float], float], number: float, delta: float) -> float:
    """Return the ε of an amount of µ or ρ at δ; infinite above 1000.

    Examples
    --------
    >>> round(epsilon_of(gdp_delta, 0.23670, 1e-6), 4)
    1.0
    """
    if curve(EPSILON_MAX, number) > delta:
        return math.inf
    return bisect(lambda epsilon: curve(epsilon, number) > delta, 1e-12, EPSILON_MAX)


def number_of(curve: Callable[[float, float], float], epsilon: float, delta: float) -> float:
    """Return the µ or ρ that (ε, δ) holds.

    Examples
    --------
    >>> [round(number_of(gdp_delta, epsilon, 1e-6), 5) for epsilon in (0.1, 1.0, 3.0)]
    [0.02754, 0.2367, 0.64773]
    """
    return bisect(lambda number: curve(epsilon, number) <= delta, 1e-12, 1e4)


def mu_of_pure(epsilon: float) -> float:
    r"""Return the µ of an ε-DP mechanism, :math:`-2\Phi^{-1}(1/(1+e^\varepsilon))`.

    Examples
    --------
    >>> round(mu_of_pure(1.0), 4)
    1.232
    """
    from scipy import special  # noqa: PLC0415 -- the import of the client stays quick

    return float(-2.0 * special.ndtri_exp(-(epsilon + math.log1p(math.exp(-epsilon)))))


def bisect(holds: Callable[[float], bool], low: float, high: float, tolerance: float = 1e-15) -> float:
    """Return where a predicate of positive numbers turns from true to false, to a relative tolerance."""
    a, b = math.log(low), math.log(high)
    for _ in range(60):
        middle = (a + b) / 2.0
        a, b = (middle, b) if holds(math.exp(middle)) else (a, middle)
        if b - a < tolerance:
            break
    return math.exp(a)


class PriceScale:
    """The costs of one request, by strength: 1 is the quoted one, and noise falls as one over it.

    Parameters
    ----------
    quote : Quote
        Of any kind. The account that it is charged to follows from its cost: ``zcdp`` states no µ, ``pure`` no δ.

    Raises
    ------
    ValueError
        When the quote's noise comes from a published formula, whose noise follows another rule than its cost.

    Attributes
    ----------
    is_laplace : bool
    delta : float
        That of the quote; 0 where the account counts pure ε.
    """

    def __init__(self, quote: AnyQuote) -> None:
        calibration = quote.request.get("calibration", "analytic")
        if calibration != "analytic":
            raise ValueError(
                f"costs are planned for the calibration 'analytic'; {calibration!r} reproduces published results. "
                "Ask for a quote without calibration"
            )
        self._cost = cost = quote.cost
        self._parts = quote.laplace_parts
        self.is_laplace = "laplace" in quote.noise.distribution
        self.delta = cost.delta
        self._account = "zcdp" if cost.mu is None else "pure" if cost.delta == 0.0 else "gdp"
        stated = cost.pure_epsilon if self.is_laplace else cost.mu if self._account == "gdp" else cost.rho
        if stated is None or not 0.0 < stated < math.inf:
            raise ValueError("the quote states no cost to plan from: ask the curator for a quote with a cost")
        self._stated = float(stated)

    def noise(self, noise: Noise, strength: float) -> Noise:
        """Return the noise at a strength."""
        names = ("xtx_diagonal", "xtx_offdiagonal", "xty", "yty", "lambda_min")
        deviations = {name: getattr(noise, name) for name in names}
        return replace(noise, **{name: sd / strength for name, sd in deviations.items() if sd is not None})

    def cost(self, strength: float, delta: float | None = None) -> Cost:
        """Return the cost at a strength; ε is stated at `delta`, default the quote's."""
        delta = self.delta if delta is None else delta
        pure = self._stated * strength if self.is_laplace else None
        # The cost in the account's own unit (µ², ρ, or ε where it is pure), over that of the quote.
        grown = strength if self._account == "pure" else strength**2
        if pure is not None and self._account == "gdp":
            grown = self._laplace_mu_squared(pure) / self._laplace_mu_squared(self._stated)
        share = self._cost.share_of_budget * grown
        if self._account == "pure":
            assert pure is not None  # a pure account offers no other noise
            return Cost(mu_of_pure(pure), pure**2 / 2.0, pure, 0.0, None, pure, share)
        if self._account == "zcdp":
            rho = self._of_quote(self._cost.rho) * grown
            return Cost(None, rho, epsilon_of(zcdp_delta, rho, delta), delta, None, pure, share)
        mu = self._of_quote(self._cost.mu) * math.sqrt(grown)
        return Cost(mu, mu**2 / 2.0, epsilon_of(gdp_delta, mu, delta), delta, None, pure, share)

    def strength(self, epsilon: float, delta: float | None = None) -> float:
        """Return the strength of a cost: ε at δ for Gaussian noise, the pure ε for Laplace noise.

        Raises
        ------
        ValueError
            When ε is not positive and at most 1000, or δ not within (0, 1).
        """
        if not 0.0 < epsilon <= EPSILON_MAX:
            raise ValueError(f"epsilon must be above 0 and at most {EPSILON_MAX:g}, not {epsilon!r}")
        if self.is_laplace:
            return epsilon / self._stated
        delta = self.check_delta(delta)
        if self._account == "zcdp":
            return math.sqrt(number_of(zcdp_delta, epsilon, delta) / self._stated)
        return number_of(gdp_delta, epsilon, delta) / self._stated

    def check_delta(self, delta: float | None) -> float:
        """Return δ, default the quote's. Raise `ValueError` when Gaussian noise cannot have it."""
        chosen = self.delta if delta is None else float(delta)
        if not (0.0 < chosen < 1.0 or self.is_laplace):
            raise ValueError(f"delta must be in (0, 1), such as 1e-6, not {chosen!r}")
        return chosen

    def _laplace_mu_squared(self, epsilon: float) -> float:
        """Return the sum of µ² over the parts of a Laplace release, as the account ``gdp`` has it."""
        return sum(mu_of_pure(epsilon * part) ** 2 for part in self._parts)

    @staticmethod
    def _of_quote(number: float | None) -> float:
        assert number is not None  # the account follows from what is stated
        return number
