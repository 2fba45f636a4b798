"""The posterior of several hospitals: its law by finite differences and simulation, and what each of them adds."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from client_examples import noised, release_of_rows
from numpy.typing import NDArray

from analyst_client import OLS, BayesianRegression, Column, EstimationError, Release, RobustPrivateRegression
from analyst_client.inference.evidence import Evidence, NoisyMoments
from analyst_client.inference.noise_model import NoiseModel
from analyst_client.inference.pooling import pool
from analyst_client.inference.prior import Prior
from analyst_client.kinds import Noise

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")  # tests draw few
FloatArray = NDArray[np.float64]
BETA, SD = np.array([0.1, 0.5, -0.3]), 0.2
PLACES = (
    np.eye(4),
    np.array([[1.0, 0.0, 0.0, 0.0], [0.2, 0.5, 0.0, 0.0], [0.0, 0.0, 0.8, 0.0], [-0.3, 0.0, 0.0, 0.7]]),
    np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [-0.4, 0.0, 0.5, 0.0], [0.1, 0.0, 0.0, 1.0]]),
)
"""What the fit's terms and target are of each release's own."""


def draw_site(
    rng: np.random.Generator, place: FloatArray, rows: int, noise_sd: float, weight: float = 1.0
) -> NoisyMoments:
    """Draw rows in own units, so that in the fit's units the coefficients are BETA, and noise beside them."""
    X = np.column_stack([np.ones(rows), rng.uniform(-1.0, 1.0, (rows, 2))])
    common = X @ place[:3, :3].T @ BETA + SD * rng.normal(size=rows)
    y = (common - place[3, 0]) / place[3, 3]
    data = np.column_stack([X, y])
    variance = noise_sd**2 * (0.5 + 0.5 * np.eye(4))
    variance[3, 3] *= 4.0
    noise = np.triu(np.sqrt(variance) * rng.normal(size=(4, 4)))
    noisy = data.T @ data + noise + np.triu(noise, 1).T
    return NoisyMoments(
        noisy[:3, :3],
        noisy[:3, 3],
        float(noisy[3, 3]),
        variance[:3, :3],
        variance[:3, 3],
        float(variance[3, 3]),
        weight=weight,
        to_common=place,
    )


def draw_one(rng: np.random.Generator) -> tuple[NoisyMoments, ...]:
    return (draw_site(rng, np.eye(4), 500, 10.0),)


def draw_sites(rng: np.random.Generator) -> tuple[NoisyMoments, ...]:
    return tuple(
        draw_site(rng, place, rows, noise, weight)
        for place, rows, noise, weight in zip(PLACES, (500, 300, 200), (10.0, 4.0, 12.0), (0.7, 1.0, 0.3), strict=True)
    )


def test_the_gradient_is_that_of_the_density_of_several_sites_and_public_rows() -> None:
    rng = np.random.default_rng(1)
    public = np.diag([300.0, 100.0, 100.0]), np.array([30.0, 40.0, -30.0])
    first, *others = draw_sites(rng)
    evidence = Evidence((replace(first, overlap=2, weight_slope=1e-3), *others), public)
    model = NoiseModel(evidence, Prior())
    position = np.append(BETA, 3.0) + 0.1 * rng.normal(size=(5, 4))
    _, gradient = model.log_density(position)
    for j, step in enumerate(1e-5 * np.eye(4)):
        difference = (model.log_density(position + step)[0] - model.log_density(position - step)[0]) / 2e-5
        assert difference == pytest.approx(gradient[:, j], rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("draw", [draw_one, draw_sites])
@pytest.mark.simulations
def test_residuals_have_the_stated_mean_and_covariance(draw: Callable[..., tuple[NoisyMoments, ...]]) -> None:
    rng, count, tau = np.random.default_rng(2), 4000, np.array([SD**-2])
    models = [NoiseModel(Evidence(draw(rng)), Prior()) for _ in range(count)]
    z = np.concatenate([model.residual(BETA[np.newaxis], tau) for model in models])
    omega = np.mean([model.covariance(BETA[np.newaxis], tau)[0] for model in models], axis=0)
    whitened = np.linalg.solve(np.linalg.cholesky(omega), z.T)
    assert np.abs(whitened.mean(axis=1)).max() * math.sqrt(count) < 4.0
    assert np.cov(whitened) == pytest.approx(np.eye(4), abs=4.5 * math.sqrt(2.0 / count))


@pytest.mark.simulations
def test_drawn_exact_sums_leave_noise_of_the_stated_law() -> None:
    rng, count, upper = np.random.default_rng(3), 1500, np.triu_indices(4)
    left, expected = [], np.zeros((10, 10))
    for _ in range(count):
        sites = draw_sites(rng)
        (xtx,), (xty,), (yty,), _ = NoiseModel(Evidence(sites), Prior()).sample_exact(
            BETA[np.newaxis], np.array([SD**-2]), rng
        )
        noisy = sum(site.place @ site.noisy @ site.place.T for site in sites)
        exact = np.block([[xtx, xty[:, np.newaxis]], [xty, yty]])
        left.append((noisy - exact)[upper])
    for place, variance in ((site.place, site.variance) for site in sites):
        for i, j in zip(*upper, strict=True):
            unit = np.zeros((4, 4))
            unit[i, j] = unit[j, i] = 1.0
            moved = (place @ unit @ place.T)[upper]
            expected += variance[i, j] * np.outer(moved, moved)
    whitened = np.linalg.solve(np.linalg.cholesky(expected), np.array(left).T)
    assert np.cov(whitened) == pytest.approx(np.eye(10), abs=4.5 * math.sqrt(2.0 / count))


def make(seed: int, rows: int = 2000, noise: float = 8.0, **changes: Any) -> Release:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (rows, 2))
    exact = release_of_rows(X, 0.2 + X @ [0.4, -0.2] + rng.normal(0.0, 0.2, rows))
    law = Noise(noise, noise, noise, noise, distribution="discrete_gaussian")
    columns = [Column.numeric("age", 50, 100), Column.numeric("dose", 0, 10)]
    noisy = noised(exact, law, rng, **{"features": columns, "targets": [Column.numeric("y", 0, 6)]} | changes)
    return replace(noisy, yty=exact.yty)


def fitted(*releases: Release) -> BayesianRegression:
    """Fit with 1,200 draws: a standard error of them is off by 4 % or so, which is within what tests allow."""
    return BayesianRegression(seed=1, draws=300).fit(list(releases))


@cache
def fitted_alone() -> BayesianRegression:
    return fitted(make(1))


@pytest.mark.parametrize("kind", [BayesianRegression, RobustPrivateRegression])
@pytest.mark.simulations
def test_two_hospitals_say_more_than_one(kind: Any) -> None:
    one = fitted_alone() if kind is BayesianRegression else kind(seed=1, draws=300).fit(make(1))
    alone = np.ptp(one.conf_int(), axis=1)
    together = np.ptp(kind(seed=1, draws=300).fit([make(1), make(2)]).conf_int(), axis=1)
    assert together / alone == pytest.approx(np.full(3, math.sqrt(0.5)), rel=0.12)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.simulations
def test_credible_intervals_of_several_are_near_their_score_intervals() -> None:
    releases = [make(1), make(2, rows=500, noise=20.0), make(3, noise=3.0)]
    credible, score = fitted(*releases).conf_int(), OLS().fit(releases).conf_int()
    width = np.ptp(score, axis=1)
    assert np.abs(credible - score).max(axis=1) / width == pytest.approx(np.zeros(3), abs=0.12)
    assert OLS().fit(releases).conf_int(method="posterior") == pytest.approx(credible, abs=0.1 * float(np.max(width)))


def test_the_same_rows_twice_are_no_more_rows() -> None:
    """Two releases of the same people without noise to speak of say what one says."""
    site = Evidence.of(pool(make(1, noise=0.01))[0]).moments[0]
    once = NoiseModel(Evidence((site,)), Prior())
    twice = NoiseModel(Evidence((replace(site, overlap=2), replace(site, overlap=2))), Prior())
    position = np.append(BETA, 3.0)[np.newaxis] + 0.02 * np.random.default_rng(4).normal(size=(4, 4))
    apart = once.log_likelihood(position)[0] - twice.log_likelihood(position)[0]
    assert apart == pytest.approx(np.full(4, apart[0]), abs=2e-3)
    rng, tau = np.random.default_rng(5), np.array([SD**-2])
    exact, doubled = (model.sample_exact(BETA[np.newaxis], tau, rng)[0] for model in (once, twice))
    assert doubled == pytest.approx(exact, abs=0.1)


@pytest.mark.simulations
def test_agreeing_public_rows_narrow_the_posterior_and_others_do_not_move_it() -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, (20_000, 2))
    frame = {"age": 75.0 + 25.0 * X[:, 0], "dose": 5.0 + 5.0 * X[:, 1]}
    noise = rng.normal(0.0, 0.2, len(X))
    agreeing = {**frame, "y": 3.0 + 3.0 * (0.2 + X @ [0.4, -0.2] + noise)}
    others = {**frame, "y": 3.0 + 3.0 * (0.2 + X @ [-0.4, 0.2] + noise)}
    private = make(1, noise=40.0)
    alone = fitted(private)
    helped, unhelped = (fitted(private, Release.from_public(frame, private)) for frame in (agreeing, others))
    assert np.all(helped.std_errors_[1:] < 0.95 * alone.std_errors_[1:])
    assert np.all(np.abs(unhelped.coef_ - alone.coef_) < 0.5 * alone.std_errors_[1:])


def test_public_rows_say_the_same_in_the_units_of_the_hospital_that_tells_most() -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(-1.0, 1.0, (5000, 2))
    frame = {"age": 75.0 + 25.0 * X[:, 0], "dose": 5.0 + 5.0 * X[:, 1], "y": 3.0 + 0.6 * rng.normal(size=5000)}
    private = make(1)
    wide = make(2, rows=50, features=[Column.numeric("age", 40, 130), Column.numeric("dose", -5, 20)],
                targets=[Column.numeric("y", -3, 30)])  # fmt: skip
    (equations,) = pool([private, wide, Release.from_public(frame, private)])
    evidence = Evidence.of(equations)
    assert evidence.units is not None
    assert evidence.public is not None
    (site,) = (site for site in equations.sites if site.variance is not None)
    assert site.variance is not None
    own = rng.normal(size=(5, 3))
    common = own * evidence.units[-1, -1]
    common[:, 0] += evidence.units[-1, 0]
    common = common @ np.linalg.inv(evidence.units[:-1, :-1])
    said = [
        -0.5 * np.sum(theta @ information * theta, axis=1) + theta @ vector
        for theta, information, vector in (
            (own, *evidence.public),
            (common, site.xtx / site.variance, site.xty / site.variance),
        )
    ]
    apart = said[0] - said[1]
    assert apart == pytest.approx(np.full(5, apart[0]), rel=1e-9)


def test_what_is_drawn_from_are_the_weighted_sums_of_the_estimators() -> None:
    """The correction for weights that grow with their own noisy counts included, in Xᵀy too."""
    wide = make(2, rows=300, noise=30.0, targets=[Column.numeric("y", -3, 30)])
    (equations,) = pool([make(1, rows=400, noise=30.0), wide])
    assert equations.slopes.all()
    evidence = Evidence.of(equations)
    sums = evidence.units @ NoiseModel(evidence, Prior()).noisy @ evidence.units.T
    assert sums[:3, :3] == pytest.approx(equations.xtx, rel=1e-9)
    assert sums[:3, 3] == pytest.approx(equations.xty, rel=1e-9)


def test_draws_change_units_as_the_statistics_do() -> None:
    """The same hospital beside one with other bounds and no weight to speak of: the same draws, in the fit's units."""
    alone = fitted_alone()
    wide = make(2, rows=20, noise=2e4, features=[Column.numeric("age", 40, 130), Column.numeric("dose", -5, 20)],
                targets=[Column.numeric("y", -3, 30)])  # fmt: skip
    beside = fitted(make(1), wide)
    assert np.all(np.abs(beside.params_ - alone.params_) < 0.15 * alone.std_errors_)
    assert beside.std_errors_ == pytest.approx(alone.std_errors_, rel=0.1)
    sds = [fit.targets_[0].scale * np.median(fit.posteriors_[0].residual_precision) ** -0.5 for fit in (alone, beside)]
    assert sds[1] == pytest.approx(sds[0], rel=0.02)
    (drawn,) = beside.posteriors_
    weighted = beside.results_[0].equations
    solution = np.linalg.solve(weighted.xtx, weighted.xty)
    assert drawn.beta.mean(axis=(0, 1)) == pytest.approx(solution, abs=0.05)


def test_a_release_without_yty_does_not_go_with_one_that_has_it() -> None:
    lacking = replace(make(2), yty=None)
    with pytest.raises(EstimationError, match="yᵀy"):
        BayesianRegression(seed=1).fit([make(1), lacking])
