"""Zero-concentrated DP against numbers from elsewhere: dp-accounting, OpenDP, and a search over all orders."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp.rdp_privacy_accountant import compute_delta, compute_epsilon
from opendp.mod import OpenDPException, PrivacyProfile
from scipy.optimize import minimize_scalar

from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import GDP, ZCDP, Price
from curator_service.privacy.conversions import UNITS_PER_ONE, zcdp_delta
from curator_service.privacy.parts import GaussianPart

EPSILONS = [1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0]
DELTAS = [1e-12, 1e-9, 1e-6, 1e-4, 1e-2]
ORDERS = 1 + np.logspace(-3, 6, 3000)
on_the_grid = pytest.mark.parametrize(("epsilon", "delta"), [(e, d) for e in EPSILONS for d in DELTAS])


def rho_of(epsilon: float, delta: float) -> float:
    return ZCDP.units_of(Price(epsilon=epsilon, delta=delta)) / UNITS_PER_ONE


@pytest.fixture(autouse=True)
def _opendp_s_features() -> None:
    dp.enable_features("contrib")


def gaussian(rho: float) -> dp.Measurement:
    """Return OpenDP's Gaussian mechanism that is ρ-zCDP at a distance of 1."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=math.sqrt(1 / (2 * rho)))


def profile_of(rho: float) -> PrivacyProfile:
    return dp.c.make_zCDP_to_approxDP(gaussian(rho)).map(1.0)


@on_the_grid
def test_epsilon_of_a_price_is_that_of_opendp(epsilon: float, delta: float) -> None:
    units = ZCDP.units_of(Price(epsilon=epsilon, delta=delta))
    # One unit is the grain of a price: that much of it the rounding may have cost.
    assert profile_of(units / UNITS_PER_ONE).epsilon(delta) == pytest.approx(epsilon, rel=1e-8 + 2 / units)
    assert profile_of((units + 1) / UNITS_PER_ONE).epsilon(delta) > epsilon * (1 - 1e-12)


@pytest.mark.parametrize("rho", [1e-7, 1e-4, 0.01, 0.3, 5.0, 60.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_of_an_amount_is_that_of_opendp(rho: float, delta: float) -> None:
    theirs = profile_of(rho).epsilon(delta)
    ours = ZCDP.spent(round(rho * UNITS_PER_ONE), delta).epsilon
    # Theirs ends where a δ needs no ε at all; there our bound says the same or more.
    assert theirs * (1 - 1e-9) <= ours
    assert ours == pytest.approx(theirs, rel=1e-7, abs=1e-9 if theirs > 0 else 1e-2)


@on_the_grid
def test_epsilon_of_a_price_is_at_most_that_of_dp_accounting_over_a_grid_of_orders(
    epsilon: float, delta: float
) -> None:
    theirs, _ = compute_epsilon(ORDERS, rho_of(epsilon, delta) * ORDERS, delta)
    grain = 2 / ZCDP.units_of(Price(epsilon=epsilon, delta=delta))
    # Fewer orders cannot do better; so many do hardly worse.
    assert epsilon * (1 - grain) <= theirs <= epsilon * (1 + 1e-3)


@pytest.mark.parametrize(("epsilon", "rho"), [(0.1, 1e-4), (1.0, 0.02), (1.0, 0.3), (10.0, 1.5), (50.0, 20.0)])
def test_delta_is_at_most_that_of_dp_accounting_over_a_grid_of_orders(epsilon: float, rho: float) -> None:
    theirs, _ = compute_delta(ORDERS, rho * ORDERS, epsilon)
    ours = float(zcdp_delta(Fraction(epsilon), Fraction(rho)))
    # Theirs is the lesser of this conversion and one by the Hellinger distance, which wins only near δ = 1.
    assert ours * (1 - 1e-9) <= theirs <= ours * 1.01


@pytest.mark.parametrize("rho", [1e-8, 1e-4, 0.02, 0.7, 30.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_delta_is_the_least_over_all_orders(epsilon: float, rho: float) -> None:
    def log_bound(log_beyond: float) -> float:
        x = math.exp(log_beyond)  # α − 1
        return x * ((x + 1) * rho - epsilon) - (x + 1) * math.log1p(1 / x) - log_beyond

    coarse = min(np.linspace(-40, 40, 4001), key=log_bound)
    found = minimize_scalar(log_bound, bounds=(coarse - 0.05, coarse + 0.05), method="bounded", options={"xatol": 1e-9})
    ours = zcdp_delta(Fraction(epsilon), Fraction(rho))
    log_of_ours = float(ours.context.log(ours))
    assert log_of_ours == pytest.approx(found.fun, rel=1e-9, abs=1e-9)
    assert log_of_ours <= found.fun + 1e-9 * abs(found.fun) + 1e-12


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-9), (1.0, 1e-6), (3.0, 1e-5), (10.0, 1e-8)])
def test_epsilon_is_below_that_of_the_textbook_conversion(epsilon: float, delta: float) -> None:
    rho = rho_of(epsilon, delta)
    textbook = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert epsilon < textbook < 1.4 * epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (3.0, 1e-5), (10.0, 1e-8)])
def test_the_gaussian_of_a_price_is_accounted_no_cheaper_than_its_privacy_loss(epsilon: float, delta: float) -> None:
    sigma = math.sqrt(1 / (2 * rho_of(epsilon, delta)))
    loss = privacy_loss_distribution.from_gaussian_mechanism(sigma, pessimistic_estimate=False)
    assert loss.get_epsilon_for_delta(delta) <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (3.0, 1e-5), (10.0, 1e-8)])
def test_of_the_two_curves_the_gaussian_one_buys_more_gaussian_noise(epsilon: float, delta: float) -> None:
    mu_squared = GDP.units_of(Price(epsilon=epsilon, delta=delta)) / UNITS_PER_ONE
    assert 1 < mu_squared / (2 * rho_of(epsilon, delta)) < 1.3


def test_a_gaussian_part_costs_what_opendp_says() -> None:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    for sigma in (1_024, 5_000, 2**31):
        for sensitivity in (1, 300, 70_000):
            theirs = dp.m.make_gaussian(*space, scale=float(sigma)).map(float(sensitivity))
            ours = ZCDP.gaussian(GaussianPart(Statistic.YTY, Fraction(sensitivity**2), sigma))
            assert float(ours) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("limit", [0.5, 0.3])
def test_the_filter_stops_where_opendp_s_does(limit: float) -> None:
    domain, metric = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    odometer = dp.c.make_fully_adaptive_composition(domain, metric, dp.zero_concentrated_divergence())
    theirs = dp.c.make_privacy_filter(odometer, d_in=1.0, d_out=limit)([0])
    units_limit, posted = ZCDP.units_of(Price(rho=limit)), 0
    for rho in (0.04, 0.11, 0.06, 0.08, 0.15, 0.05, 0.12):  # no prefix is within a rounding error of a limit
        cost = ZCDP.units_of(Price(rho=rho))
        fits = posted + cost <= units_limit
        try:
            theirs(gaussian(rho))
        except OpenDPException as refusal:
            assert "exceed privacy budget" in str(refusal)  # noqa: PT017 -- their first refusal ends the comparison
            assert not fits
            return
        assert fits
        posted += cost
    pytest.fail("the limit was never reached")
