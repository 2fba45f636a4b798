"""Attacks that broke inference once: each test failed before it was mended."""

import json
import math
from typing import Any

import numpy as np
import pytest
from client_examples import noisy_release, release_of_rows

from analyst_client import OLS, AdaSSP, Column, EmpiricalBayes, EstimationError, Release, Ridge
from analyst_client.inference.pooling import pool
from analyst_client.kinds import Noise


def even(sd: float, sd_xty: float | None = None, sd_yty: float | None = None, *, laplace: bool = False) -> Noise:
    """Return noise of one size, with other sizes for Xᵀy and yᵀy where they are given."""
    law = "discrete_laplace" if laplace else "discrete_gaussian"
    return Noise(math.sqrt(2.0) * sd, sd, sd_xty or sd, sd_yty or sd, distribution=law)


def draw(
    seed: int,
    n: int,
    theta: Any,
    noise: Noise,
    *,
    residual: float = 0.3,
    constant: bool = True,
    X: Any = None,
    **declared: Any,
) -> Release:
    """Return a noisy release of uniform rows, or of those that are given."""
    generator = np.random.default_rng(seed)
    theta = np.asarray(theta)
    if X is None:
        X = generator.uniform(-1.0, 1.0, (n, len(theta) - constant))
        X = np.column_stack([np.ones(n), X]) if constant else X
    y = X @ theta + residual * generator.standard_normal(n)
    gram = X.T @ X
    sums = (gram + gram.T) / 2.0, (X.T @ y)[:, np.newaxis], y @ y
    return noisy_release(*sums, noise, generator, constant=constant, **declared)


@pytest.mark.parametrize("apart", [0.0, 4.0])
@pytest.mark.simulations
def test_many_small_sites_do_not_bias_the_intercept(apart: float) -> None:
    """A noisy count raises its own weight; over 60 sites that moved the intercept by two standard errors.

    Where half of them declare the target's bounds elsewhere, it did so by way of Xᵀy as well.
    """
    theta, found = np.array([0.8, 0.1, -0.1]), []
    for seed in range(60):
        centers = [apart * (k % 2) for k in range(60)]
        (equations,) = pool(
            [
                draw(
                    1000 * seed + k,
                    100,
                    theta - [center, 0.0, 0.0],
                    even(30.0),
                    targets=[Column.numeric("y", center - 1.0, center + 1.0)],
                )
                for k, center in enumerate(centers)
            ]
        )
        sd = np.sqrt(np.diag(equations.region.covariance()))
        common = (theta - [apart / 2.0, 0.0, 0.0]) / (1.0 + apart / 2.0)
        found.append(((equations.solution - common) / sd)[0])
    assert abs(np.median(found)) < 0.8


@pytest.mark.parametrize("noise", [even(1.0, 1.0, 1000.0), even(1.0, 1.0, 100.0), even(5.0, 0.5, 100.0)])
def test_a_residual_variance_that_noise_hides_is_not_taken_for_known(noise: Noise) -> None:
    theta = np.array([0.2, 0.5, -0.4, 0.3])
    covered = []
    for seed in range(120):
        low, high = AdaSSP().fit(draw(seed, 2000, theta, noise, residual=0.2)).conf_int().T
        covered.append(np.mean((low <= theta) & (high >= theta)))
    assert np.mean(covered) >= 0.93


def test_zero_one_terms_that_light_rows_alone_tell_of_are_on_the_safe_side() -> None:
    """Persons without any of ten conditions weigh 1, all others far less: the intercept is theirs alone."""
    theta, norm = np.full(11, 0.05), math.sqrt(2.0)
    covered = []
    for seed in range(150):
        generator = np.random.default_rng(seed)
        flags = (generator.uniform(size=(2000, 10)) < 0.7) & (generator.uniform(size=(2000, 1)) > 0.3)
        X = np.column_stack([np.ones(2000), flags])
        y = X @ theta + 0.2 * generator.standard_normal(2000)
        w = np.minimum(1.0, norm / np.linalg.norm(X, axis=1))[:, None]
        columns = [Column.boolean(f"c{j}") for j in range(10)]
        gram = (X * w).T @ (X * w)
        release = Release.from_arrays(
            (gram + gram.T) / 2.0, (X * w).T @ (y * w[:, 0]), np.sum((y * w[:, 0]) ** 2), features=columns, norm=norm
        )
        low, high = OLS().fit(release).conf_int().T
        covered.append((low[0] <= theta[0]) & (high[0] >= theta[0]))
    assert np.mean(covered) >= 0.92


@pytest.mark.filterwarnings("ignore:the releases do not tell")  # by chance, in one of a hundred
def test_a_site_of_pure_noise_does_not_void_the_fit() -> None:
    theta = np.array([0.2, 0.5, -0.4])
    for seed in range(60):
        sites = [draw(2 * seed, 1000, theta, even(10.0)), draw(2 * seed + 1, 1000, theta, even(3000.0))]
        fit = OLS().fit(sites)
        assert np.isfinite(fit.conf_int()).all()
        assert fit.results_[0].dof < 3000.0


def test_public_rows_lend_no_degrees_of_freedom() -> None:
    theta = np.array([0.2, 0.5, -0.4])
    generator = np.random.default_rng(1)
    X = generator.uniform(-1.0, 1.0, (5000, 2))
    frame = {"x1": X[:, 0], "x2": X[:, 1], "y": 5.0 + X @ theta[1:] + 0.3 * generator.standard_normal(5000)}
    hospital = draw(3, 10, theta, even(1e-3))
    fit = OLS().fit([hospital, Release.from_public(frame, hospital)])
    assert fit.results_[0].dof == pytest.approx(7.0, abs=0.1)


def test_public_rows_lend_r_squared_no_rows() -> None:
    """With other coefficients nothing is borrowed, so the interval is the hospital's own."""
    theta = np.array([0.2, 0.5, -0.4])
    generator = np.random.default_rng(1)
    X = generator.uniform(-1.0, 1.0, (50_000, 2))
    frame = {"x1": X[:, 0], "x2": X[:, 1], "y": 5.0 - X @ theta[1:] + 0.3 * generator.standard_normal(50_000)}
    hospital = draw(3, 200, theta, even(0.01))
    alone, beside = OLS().fit(hospital), OLS().fit([hospital, Release.from_public(frame, hospital)])
    assert beside.rsquared_interval() == pytest.approx(alone.rsquared_interval(), rel=0.02)


def test_a_count_below_zero_is_too_few_rows() -> None:
    lost = Release.from_arrays([[-3.0, 0.0], [0.0, 50.0]], [1.0, 10.0], 20.0, noise=even(5.0))
    fit = AdaSSP().fit(lost)
    for ask in (lambda: fit.rsquared_, fit.rsquared_interval, fit.conf_int, fit.table, fit.glance):
        with pytest.raises(EstimationError, match="too few"):
            ask()
    assert "too few" in str(fit.summary())


@pytest.mark.simulations
def test_shifts_that_add_up_in_a_contrast_do_not_cost_its_coverage() -> None:
    """Thirty coefficients each off by half a standard error: seen in none, and in their sum at once."""
    d = 30
    theta = np.concatenate([[0.1], np.full(d, 0.05)])
    contrast = np.ones((1, d + 1))
    covered = []
    for seed in range(60):
        hospitals = [draw(10 * seed + k, 3000, theta, even(10.0)) for k in range(2)]
        (own,) = pool(hospitals)
        shift = 0.7 * float(np.median(np.sqrt(np.diag(own.region.covariance()))[1:]))
        generator = np.random.default_rng(seed + 10**6)
        X = generator.uniform(-1.0, 1.0, (20000, d))
        y = theta[0] + X @ (theta[1:] + shift) + 0.3 * generator.standard_normal(20000)
        frame = {f"x{j + 1}": X[:, j] for j in range(d)} | {"y": y}
        fit = OLS().fit([*hospitals, Release.from_public(frame, hospitals[0])])
        (found,) = fit.results_[0].contrast_sets(contrast, np.zeros(1), 0.95)
        covered.append(float(theta.sum()) in found)
    assert np.mean(covered) >= 0.88


def test_tests_of_several_constraints_know_laplace_tails() -> None:
    theta = np.array([0.2, *np.full(7, 0.1)])
    eye = np.eye(8)[1:]
    p = [
        AdaSSP().fit(draw(s, 2000, theta, even(30.0, laplace=True))).results_[0].test(eye, theta[1:])
        for s in range(400)
    ]
    assert np.mean([found.pvalue < 0.05 for found in p]) < 0.05 + 3.0 * math.sqrt(0.05 * 0.95 / 400)
    assert np.mean([found.pvalue < 0.01 for found in p]) < 0.01 + 3.0 * math.sqrt(0.01 * 0.99 / 400)


RELEASE = draw(0, 400, [0.2, 0.5, -0.4], even(10.0))
BARE = draw(1, 400, [0.5, -0.4], even(3.0), constant=False)


def test_a_mean_at_the_center_without_a_constant_is_known_exactly() -> None:
    fit = OLS().fit(BARE, rows=400)
    assert np.array_equal(fit.predict_interval(np.zeros((1, 2)), mean=True), [[0.0, 0.0]])
    assert np.isfinite(fit.predict_interval(np.zeros((1, 2)))).all()


def test_weighted_rows_without_a_constant_do_not_tell_their_scale() -> None:
    body = json.loads(BARE.text)
    body["request"]["rows"] = {"map": "ball", "norm": 1.1}
    fit = OLS().fit(Release.from_text(json.dumps(body)), rows=400)
    assert np.isfinite(fit.conf_int()).all()
    for ask in (lambda: fit.scale_, lambda: fit.predict_interval(np.zeros((1, 2)))):
        with pytest.raises(EstimationError, match="by how much"):
            ask()


@pytest.mark.parametrize("norm", [0.0, -1.0, math.nan])
def test_a_norm_must_be_positive(norm: float) -> None:
    with pytest.raises(ValueError, match="norm must be finite and positive"):
        Release.from_arrays(np.eye(2), [1.0, 1.0], norm=norm)


def test_public_targets_are_clipped_between_minus_one_and_one_too() -> None:
    made = Release.from_public(
        {"a": [1.0, 2.0], "k": [5.0, -7.0]}, [Column.numeric("a", 0, 4)], Column.numeric("k", -1, 1)
    )
    assert made.yty[0] == 2.0


def test_a_column_is_a_feature_or_a_target() -> None:
    with pytest.raises(ValueError, match="among the features and the targets"):
        Release.from_public({"a": [1.0]}, [Column.numeric("a", 0, 4)], Column.numeric("a", 0, 4))


def test_public_rows_take_over_how_a_unit_release_was_mapped() -> None:
    body = json.loads(RELEASE.text)
    body["request"]["rows"] = {"map": "unit"}
    unit = Release.from_text(json.dumps(body))
    generator = np.random.default_rng(2)
    frame = {name: generator.uniform(-1.0, 1.0, 100) for name in ("x1", "x2", "y")}
    assert Release.from_public(frame, unit).row_map == "unit"
    assert OLS().fit([unit, Release.from_public(frame, unit)]).row_map_ == "unit"


def test_settings_after_a_fit_do_not_change_its_errors() -> None:
    fit = Ridge(1.0).fit([RELEASE, draw(5, 400, [0.2, 0.5, -0.4], even(10.0))])
    before = fit.leave_one_site_out()
    fit.set_params(penalty=1e6)
    assert fit.leave_one_site_out() == before


def test_a_penalty_chosen_by_sites_is_kept_where_one_of_two_is_left_out() -> None:
    fit = Ridge("leave-one-site-out").fit([RELEASE, draw(5, 400, [0.2, 0.5, -0.4], even(10.0))])
    assert len(fit.leave_one_site_out()) == 2


def test_each_target_has_a_penalty_of_its_own() -> None:
    both = np.column_stack([RELEASE.xty[:, 0], -0.2 * RELEASE.xty[:, 0]])
    two = Release.from_arrays(RELEASE.xtx, both, [RELEASE.yty[0]] * 2, noise=even(10.0))  # type: ignore[arg-type]
    assert np.shape(EmpiricalBayes().fit(two).prior_variance_) == (2,)


@pytest.mark.parametrize("rows", [0, -5, math.nan, True, "many"])
def test_rows_must_be_a_positive_number(rows: Any) -> None:
    with pytest.raises(ValueError, match="rows must"):
        OLS().fit(BARE, rows=rows)
    assert OLS().fit(BARE, rows=np.int64(400)).results_[0].dof == 398.0
    with pytest.raises(ValueError, match="tells of its rows itself"):
        OLS().fit(RELEASE, rows=400)


def test_a_singular_matrix_is_said_in_words() -> None:
    assert RELEASE.xtx is not None
    xtx, xty = np.array(RELEASE.xtx), np.array(RELEASE.xty[:, 0])
    xtx[2], xty[2] = xtx[1], xty[1]
    xtx[:, 2], xtx[2, 2] = xtx[:, 1], xtx[1, 1]
    fit = AdaSSP().fit(Release.from_arrays(xtx, xty, RELEASE.yty, noise=even(10.0)))
    for ask in (fit.conf_int, lambda: fit.pvalues_, fit.tidy, lambda: fit.predict_interval(np.zeros((1, 2)))):
        with pytest.raises(EstimationError, match="singular"):
            ask()


def test_a_perfect_site_cannot_be_compared_and_says_so() -> None:
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (100, 2))
    perfect = release_of_rows(X, X @ [0.5, -0.4] + 0.2)
    fits = [perfect, release_of_rows(X[:50], X[:50] @ [0.5, -0.4] + 0.2)]
    with pytest.raises(EstimationError, match="leaves no residual"):
        OLS().fit(fits).heterogeneity_test()


def test_a_plan_of_purchases_is_fitted_as_it_comes() -> None:
    other = draw(5, 400, [0.2, 0.5, -0.4], even(10.0))
    assert np.array_equal(OLS().fit({"north": RELEASE, "south": other}).coef_, OLS().fit([RELEASE, other]).coef_)
