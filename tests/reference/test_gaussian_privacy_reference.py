"""Gaussian DP against numbers from elsewhere: dp-accounting, quadrature, and published figures."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from scipy.stats import norm

from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import GDP, VARIANCE_LOSS, Price
from curator_service.privacy.conversions import UNITS_PER_ONE, exact, gdp_delta
from curator_service.privacy.parts import GaussianPart

FloatArray = npt.NDArray[np.float64]
EPSILONS = [1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0]
DELTAS = [1e-12, 1e-9, 1e-6, 1e-4, 1e-2]


def mu_of(epsilon: float, delta: float) -> float:
    return math.sqrt(GDP.units_of(Price(epsilon=epsilon, delta=delta)) / UNITS_PER_ONE)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.02754), (0.3, 0.07697), (1.0, 0.23670), (3.0, 0.64773)])
def test_mu_at_a_millionth_is_the_published_one(epsilon: float, mu: float) -> None:
    assert mu_of(epsilon, 1e-6) == pytest.approx(mu, abs=6e-6)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_delta_of_a_price_is_that_of_dp_accounting(epsilon: float, delta: float) -> None:
    sigma = 1 / mu_of(epsilon, delta)
    assert GaussianPrivacyLoss(sigma).get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-9), (3.0, 1e-5), (10.0, 1e-8)])
def test_mu_is_that_of_dp_accounting(epsilon: float, delta: float) -> None:
    guarantee = common.DifferentialPrivacyParameters(epsilon, delta)
    sigma = GaussianPrivacyLoss.from_privacy_guarantee(guarantee).standard_deviation
    assert mu_of(epsilon, delta) == pytest.approx(1 / sigma, rel=1e-5)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_epsilon_of_a_price_is_that_of_dp_accounting(epsilon: float, delta: float) -> None:
    units = GDP.units_of(Price(epsilon=epsilon, delta=delta))
    # Theirs is an evaluation of the curve in floats; it knows nothing of what is kept back of δ.
    theirs = GaussianPrivacyLoss(1 / mu_of(epsilon, delta)).get_delta_for_epsilon(GDP.spent(units, delta).epsilon)
    assert theirs <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.0, 0.3), (0.01, 0.02), (0.1, 0.1), (1.0, 0.2367), (3.0, 2.0), (20.0, 4.0)]
)
def test_delta_is_the_hockey_stick_by_quadrature(epsilon: float, mu: float) -> None:
    context = mpmath.MPContext()
    context.dps = 40
    e, m = context.mpf(epsilon), context.mpf(mu)
    start = e / m + m / 2  # where N(µ, 1) outweighs e^ε N(0, 1)

    def excess(x: mpmath.mpf) -> mpmath.mpf:
        return context.npdf(x - m) - context.exp(e) * context.npdf(x)

    expected = context.quad(excess, [start, start + 1, start + 3, start + 8, start + 30])
    computed = gdp_delta(Fraction(epsilon), Fraction(mu) ** 2)
    assert float(computed) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("mu", [0.02754, 0.2367, 1.0])
def test_composition_is_that_of_dp_accounting(mu: float) -> None:
    # Three releases, composed there by convolving privacy losses, here by adding integers.
    composed = privacy_loss_distribution.from_gaussian_mechanism(1 / mu).self_compose(3)
    units = 3 * round(mu**2 * UNITS_PER_ONE)
    assert GDP.spent(units, 1e-6).epsilon == pytest.approx(composed.get_epsilon_for_delta(1e-6), rel=2e-3)


@pytest.mark.parametrize("sigmas", [(5_000, 7_000, 20_000), (2_000, 100_000)])
def test_a_release_of_unequal_parts_costs_what_dp_accounting_composes(sigmas: tuple[int, ...]) -> None:
    sensitivity = 1_000
    parts = [GaussianPart(s, Fraction(sensitivity**2), sigma) for s, sigma in zip(Statistic, sigmas, strict=False)]
    losses = [privacy_loss_distribution.from_gaussian_mechanism(sigma / sensitivity) for sigma in sigmas]
    composed = losses[0]
    for loss in losses[1:]:
        composed = composed.compose(loss)
    ours = GDP.spent(GDP.cost(parts), 1e-6).epsilon
    assert ours == pytest.approx(composed.get_epsilon_for_delta(1e-6), rel=2e-3)


def test_the_curve_of_a_price_is_touched_by_quadrature() -> None:
    context = mpmath.MPContext()
    context.dps = 40
    epsilon, delta = 1.0, 1e-6
    units = GDP.units_of(Price(epsilon=epsilon, delta=delta))
    for more, within in ((0, True), (1, False)):
        mu = context.sqrt(context.mpf(units + more) / UNITS_PER_ONE)
        start = epsilon / mu + mu / 2

        def excess(x: mpmath.mpf, mu: mpmath.mpf = mu) -> mpmath.mpf:
            return context.npdf(x - mu) - context.exp(epsilon) * context.npdf(x)

        found = context.quad(excess, [start, start + 1, start + 3, start + 8, start + 30])
        allowed = exact(delta) - Fraction(1, 2**60)
        assert (found <= context.mpf(allowed.numerator) / allowed.denominator) is within


# --- the variance of nine that a discrete Gaussian loses ------------------------------------------------------------


def tails(sigma: int) -> tuple[FloatArray, FloatArray]:
    """Return P[X ≤ t] and P[X > t] for integers t, each summed from its own end so that small ones are accurate."""
    t = np.arange(-30 * sigma, 30 * sigma + 1)
    weights = np.exp(-(t.astype(np.float64) ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    return np.cumsum(weights), np.concatenate([np.cumsum(weights[:0:-1])[::-1], [0.0]])


def worst_mu(sigma: int, shift: int) -> float:
    """Return the least µ whose Gaussian trade-off curve lies below that of N_Z(0, σ²) against its shift.

    Likelihood ratios are monotone, so the tests {X > t} are the vertices of a convex, piecewise linear trade-off
    curve: it lies above a convex curve as soon as its vertices do. With z(t) = Φ⁻¹(P[X ≤ t]), a vertex lies on the
    curve of µ = z(t) − z(t − shift).
    """
    at_most, above = tails(sigma)
    middle = slice(10 * sigma, -10 * sigma)  # out to 20 σ, where probabilities are still normal floats
    z = np.where(at_most < above, norm.ppf(np.minimum(at_most, 0.5)), norm.isf(np.minimum(above, 0.5)))[middle]
    return float((z[shift:] - z[:-shift]).max())


SHIFTS = [1, 2, 3, 5, 8, 20, 60]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("sigma", range(5, 21))
def test_the_discrete_gaussian_is_within_the_curve_of_nine_less_variance(sigma: int, shift: int) -> None:
    assert worst_mu(sigma, shift) <= shift / math.sqrt(sigma**2 - VARIANCE_LOSS)


@pytest.mark.parametrize("sigma", range(5, 21))
def test_the_discrete_gaussian_exceeds_the_curve_of_its_own_variance(sigma: int) -> None:
    assert worst_mu(sigma, 1) > 1 / sigma * (1 + 1e-6)


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("sigma", [5, 8, 12, 20])
def test_hockey_stick_divergences_are_within_the_curve(sigma: int, shift: int) -> None:
    _, above = tails(sigma)
    mu = shift / math.sqrt(sigma**2 - VARIANCE_LOSS)
    for epsilon in np.linspace(0.0, 6 * mu, 60):
        # P[X + Δ > s] − e^ε P[X > s], at every integer s: the largest is the divergence.
        divergence = (above[:-shift] - math.exp(epsilon) * above[shift:]).max()
        allowed = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert divergence <= allowed + 1e-13


def test_hockey_stick_divergences_exceed_the_curve_without_the_loss() -> None:
    sigma, shift = 5, 1
    _, above = tails(sigma)
    mu = shift / sigma
    excess = []
    for epsilon in np.linspace(0.0, 6 * mu, 600):
        divergence = (above[:-shift] - math.exp(epsilon) * above[shift:]).max()
        allowed = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        excess.append(divergence - allowed)
    assert max(excess) > 1e-5
