"""Cost of an ε-DP mechanism, against randomised response, exact laws, quadrature, dp-accounting and OpenDP."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom, norm

from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import ACCOUNTANTS, GDP, PURE, ZCDP, Accountant
from curator_service.privacy.conversions import exact, gdp_delta, mu_squared_of_pure
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part

EPSILONS = [1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0]
every_accountant = pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=lambda a: a.name)
on_epsilons = pytest.mark.parametrize("epsilon", EPSILONS)


def mu_of(epsilon: float) -> float:
    return math.sqrt(mu_squared_of_pure(exact(epsilon)))


# --- µ of pure ε ------------------------------------------------------------------------------------------------------


@on_epsilons
def test_the_gaussian_curve_lies_below_that_of_every_epsilon_dp_mechanism(epsilon: float) -> None:
    alpha = np.concatenate([np.logspace(-300, -1, 3000), np.linspace(0.1, 1 - 1e-9, 3000)])
    weakest = np.maximum(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha))
    gaussian = norm.cdf(norm.isf(alpha) - mu_of(epsilon))
    assert (gaussian <= weakest + 1e-14).all()


@on_epsilons
def test_the_two_curves_touch_where_both_errors_are_equal(epsilon: float) -> None:
    corner = 1 / (1 + math.exp(epsilon))
    assert norm.cdf(norm.isf(corner) - mu_of(epsilon)) == pytest.approx(corner, rel=1e-9)
    # A little less µ, and the Gaussian curve would pass above it.
    assert norm.cdf(norm.isf(corner) - mu_of(epsilon) * (1 - 1e-6)) > corner


@on_epsilons
def test_the_gaussian_error_is_that_of_randomised_response_by_quadrature(epsilon: float) -> None:
    start = mu_of(epsilon) / 2
    error, _ = quad(lambda x: math.exp(-((start + x) ** 2) / 2) / math.sqrt(2 * math.pi), 0, 40, epsabs=0, epsrel=1e-12)
    assert error == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-9)


@on_epsilons
def test_every_delta_of_randomised_response_is_within_the_gaussian_curve(epsilon: float) -> None:
    mu_squared = mu_squared_of_pure(exact(epsilon))
    for at in np.linspace(0, epsilon * 0.999, 30):
        delta = (math.exp(epsilon) - math.exp(at)) / (1 + math.exp(epsilon))
        assert delta <= float(gdp_delta(Fraction(at), mu_squared)) * (1 + 1e-12)
    total_variation = math.tanh(epsilon / 2)
    assert float(gdp_delta(Fraction(0), mu_squared)) == pytest.approx(total_variation, rel=1e-9)


# --- the law of discrete Laplace noise --------------------------------------------------------------------------------

LAWS = [(1, 1), (3, 1), (10, 1), (10, 7), (4, 9), (50, 3)]  # t and Δ


@cache
def laws(scale: int, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of P[X = k] and P[X + Δ = k]."""
    k = np.arange(-60 * scale - shift, 60 * scale + shift + 1)
    constant = math.log(math.tanh(1 / (2 * scale)))
    return constant - np.abs(k) / scale, constant - np.abs(k - shift) / scale


@pytest.mark.parametrize(("scale", "shift"), LAWS)
def test_pure_epsilon_is_the_largest_log_ratio_of_the_law(scale: int, shift: int) -> None:
    p, q = laws(scale, shift)
    part = LaplacePart(Statistic.YTY, Fraction(shift), scale)
    assert np.exp(p).sum() == pytest.approx(1, rel=1e-12)
    assert float(part.epsilon) == pytest.approx(np.abs(p - q).max(), rel=1e-12)
    assert PURE.laplace(part.epsilon) == Fraction(shift, scale)


@pytest.mark.parametrize(("scale", "shift"), LAWS)
def test_every_delta_of_the_law_is_within_the_gaussian_curve(scale: int, shift: int) -> None:
    p, q = laws(scale, shift)
    mu_squared = GDP.laplace(Fraction(shift, scale))
    for epsilon in np.linspace(0, shift / scale, 25):
        divergence = np.maximum(np.exp(p) - np.exp(q + epsilon), 0).sum()
        assert divergence <= float(gdp_delta(Fraction(epsilon), mu_squared)) + 1e-14


@pytest.mark.parametrize(("scale", "shift"), LAWS)
@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 5.0, 30.0, 1000.0])
def test_every_renyi_divergence_of_the_law_is_within_rho(scale: int, shift: int, order: float) -> None:
    p, q = laws(scale, shift)
    divergence = np.logaddexp.reduce(order * p + (1 - order) * q) / (order - 1)
    assert divergence <= order * float(ZCDP.laplace(Fraction(shift, scale))) + 1e-9


@pytest.mark.parametrize("epsilon", [1e-3, 0.01, 0.1, 1.0, 3.0])
def test_rho_covers_randomised_response_and_no_less_would(epsilon: float) -> None:
    likely = 1 / (1 + math.exp(-epsilon))
    p, q = np.log([likely, 1 - likely]), np.log([1 - likely, likely])
    rho = float(ZCDP.laplace(exact(epsilon)))
    orders = np.array([1.0001, 1.1, 1.5, 2.0, 3.0, 10.0, 100.0])
    divergences = np.array([np.logaddexp.reduce(a * p + (1 - a) * q) / (a - 1) for a in orders])
    needed = (divergences / orders).max()
    assert needed <= rho * (1 + 1e-6)
    assert needed > rho * (0.9 if epsilon <= 1 else 0.6)


def test_costs_are_those_of_opendp() -> None:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    for scale, sensitivity in ((1_024, 3), (10_000, 700), (2**20, 2**17)):
        theirs = dp.m.make_laplace(*space, scale=float(scale))
        part = LaplacePart(Statistic.XTY, Fraction(sensitivity), scale, copies=3)
        three = dp.c.make_composition([theirs] * 3)
        assert float(PURE.laplace(part.epsilon)) == pytest.approx(theirs.map(sensitivity), rel=1e-12)
        assert PURE.cost([part]) / 1e12 == pytest.approx(three.map(sensitivity), rel=1e-9)
        in_rho = dp.c.make_pureDP_to_zCDP(theirs).map(sensitivity)
        assert float(ZCDP.laplace(part.epsilon)) == pytest.approx(in_rho, rel=1e-12)


# --- compositions -----------------------------------------------------------------------------------------------------

COMPOSITIONS = [(0.01, 1000), (0.1, 1), (0.1, 100), (0.5, 20), (1.0, 10), (3.0, 2)]


def compose(kind: str, epsilon: float, count: int) -> PrivacyLossDistribution:
    """Compose by convolution of privacy losses, each rounded down, so that ε is below the true one."""
    options = {"pessimistic_estimate": False, "value_discretization_interval": epsilon / 200}
    if kind == "discrete laplace":
        loss = privacy_loss_distribution.from_discrete_laplace_mechanism(epsilon, **options)
    elif kind == "laplace":
        loss = privacy_loss_distribution.from_laplace_mechanism(1 / epsilon, **options)
    else:
        noise = 2 / (1 + math.exp(epsilon))  # their chance of a uniform answer
        loss = privacy_loss_distribution.from_randomized_response(noise, 2, **options)
    return loss.self_compose(count)


@pytest.mark.parametrize("kind", ["discrete laplace", "laplace", "randomised response"])
@pytest.mark.parametrize(("epsilon", "count"), COMPOSITIONS)
def test_a_composition_is_never_accounted_cheaper_than_its_privacy_loss(kind: str, epsilon: float, count: int) -> None:
    composed = compose(kind, epsilon, count)
    scale = 10**6
    part = LaplacePart(Statistic.YTY, exact(epsilon) * scale, scale)
    for accountant in ACCOUNTANTS.values():
        total = count * accountant.cost([part])
        if accountant is PURE:
            assert composed.get_epsilon_for_delta(1e-15) <= accountant.spent(total, 0.0).epsilon * (1 + 1e-9)
            continue
        for delta in (1e-9, 1e-6, 1e-3):
            assert composed.get_epsilon_for_delta(delta) <= accountant.spent(total, delta).epsilon


def delta_of_randomised_responses(at: float, epsilon: float, count: int) -> float:
    """Sum over how many of `count` answers are true: no grid of losses."""
    true = np.arange(count + 1)
    loss = epsilon * (2 * true - count)
    chances = binom.pmf(true, count, 1 / (1 + math.exp(-epsilon)))
    return float((chances * -np.expm1(np.minimum(at - loss, 0))).sum())


@pytest.mark.parametrize(("accountant", "looseness"), [(GDP, 1.3), (ZCDP, 1.1)])
def test_many_small_parts_are_accounted_a_little_dearer_than_they_are(accountant: Accountant, looseness: float) -> None:
    total = 1000 * accountant.cost([LaplacePart(Statistic.YTY, Fraction(10**4), 10**6)])
    exactly = brentq(lambda e: delta_of_randomised_responses(e, 0.01, 1000) - 1e-6, 0.1, 5)
    # µ² is π/2 times ε² there, and ρ is ε²/2, as a Gaussian of µ = ε has it.
    assert exactly <= accountant.spent(total, 1e-6).epsilon <= exactly * looseness


@pytest.mark.parametrize("accountant", [GDP, ZCDP], ids=lambda a: a.name)
@pytest.mark.parametrize(("sigma", "epsilon"), [(5_000, 0.2), (2_000, 1.0), (20_000, 0.02)])
def test_gaussian_and_laplace_noise_together_are_never_accounted_cheaper(
    accountant: Accountant, sigma: int, epsilon: float
) -> None:
    parts: list[Part] = [
        GaussianPart(Statistic.XTX, Fraction(10**6), sigma, copies=3),
        LaplacePart(Statistic.YTY, exact(epsilon) * 10**6, 10**6, copies=5),
    ]
    options = {"pessimistic_estimate": False, "value_discretization_interval": epsilon / 200}
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(sigma / 1000, **options).self_compose(3)
    composed = gaussian.compose(compose("discrete laplace", epsilon, 5))
    ours = accountant.spent(accountant.cost(parts), 1e-6).epsilon
    assert composed.get_epsilon_for_delta(1e-6) <= ours <= 2.5 * composed.get_epsilon_for_delta(1e-6)
