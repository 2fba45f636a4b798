"""Estimators against scikit-learn where there is no noise, and against their formulas where there is."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from client_examples import RELEASE_TEXT, compact, release_body, release_of_rows
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as ScikitRidge
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from analyst_client import (
    OLS,
    SSP,
    AdaSSP,
    Column,
    EmpiricalBayes,
    EstimationError,
    EstimationWarning,
    LogisticRegression,
    Release,
    Ridge,
)
from analyst_client.kinds import Noise

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")  # tests draw few
RNG = np.random.default_rng(20)
U = RNG.uniform(-1.0, 1.0, (200, 3))
Y = 0.2 + U @ [0.3, -0.4, 0.1] + RNG.normal(0.0, 0.1, 200)
ESTIMATORS = [OLS(), SSP(), AdaSSP(), Ridge(penalty=0.0)]
INDEFINITE = Release.from_arrays([[2.0, 3.0], [3.0, 2.0]], [1.0, 0.0], noise=1.0)


@pytest.fixture
def exact() -> Release:
    return release_of_rows(U, Y)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_fit_without_noise_equals_least_squares(estimator: Any, exact: Release) -> None:
    reference = LinearRegression().fit(U, Y)
    fit = estimator.fit(exact)
    assert fit.coef_ == pytest.approx(reference.coef_, abs=1e-12)
    assert fit.intercept_ == pytest.approx(reference.intercept_, abs=1e-12)
    assert fit.score(U, Y) == pytest.approx(reference.score(U, Y), abs=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_fit_without_constant_equals_least_squares_through_the_origin(estimator: Any) -> None:
    fit = estimator.fit(release_of_rows(U, Y, constant=False))
    reference = LinearRegression(fit_intercept=False).fit(U, Y)
    assert fit.coef_ == pytest.approx(reference.coef_, abs=1e-12)
    assert fit.intercept_ == 0.0


@pytest.mark.parametrize("penalty", [0.5, 10.0, 1e4])
def test_ridge_leaves_the_constant_without_a_penalty(penalty: float, exact: Release) -> None:
    reference = ScikitRidge(alpha=penalty).fit(U, Y)
    fit = Ridge(penalty=penalty).fit(exact)
    assert fit.coef_ == pytest.approx(reference.coef_, abs=1e-12)
    assert fit.intercept_ == pytest.approx(reference.intercept_, abs=1e-12)
    assert fit.penalty_ == penalty


def test_rows_mapped_to_a_ball_give_weighted_least_squares() -> None:
    w = np.minimum(1.0, 1.2 / np.linalg.norm(np.column_stack([np.ones(200), U]), axis=1))
    assert w.min() < 0.9
    reference = LinearRegression().fit(U, Y, sample_weight=w**2)
    fit = OLS().fit(release_of_rows(U, Y, weights=w))
    assert fit.coef_ == pytest.approx(reference.coef_, abs=1e-12)
    assert fit.intercept_ == pytest.approx(reference.intercept_, abs=1e-12)


def test_coefficients_are_in_raw_units() -> None:
    age, dose, kappa = 75.0 + 25.0 * U[:, 0], 5.0 + 5.0 * U[:, 1], 3.0 + 3.0 * Y
    columns = [Column.numeric("age", 50, 100), Column.numeric("dose", 0, 10)]
    fit = OLS().fit(release_of_rows(U[:, :2], Y, features=columns, targets=[Column.numeric("kappa", 0, 6)]))
    reference = LinearRegression().fit(np.column_stack([age, dose]), kappa)
    assert fit.coef_ == pytest.approx(reference.coef_, abs=1e-12)
    assert fit.intercept_ == pytest.approx(reference.intercept_, abs=1e-12)
    assert fit.predict(np.column_stack([age, dose])) == pytest.approx(
        reference.predict(np.column_stack([age, dose])), abs=1e-12
    )


def test_units_move_the_intercept_even_without_a_constant() -> None:
    columns = [Column.numeric("age", 50, 100)]
    release = release_of_rows(U[:, :1], Y, features=columns, targets=[Column.numeric("kappa", 0, 6)], constant=False)
    fit = OLS().fit(release)
    assert fit.intercept_ + fit.coef_[0] * 90.0 == pytest.approx(fit.predict([[90.0]])[0])


def test_categories_become_one_coefficient_for_each_level_but_the_first() -> None:
    level = RNG.integers(0, 3, 200)
    coded = np.column_stack([level == 1, level == 2, U[:, 0]]).astype(float)
    columns = [Column.categorical("site", ["a", "b", "c"]), "x"]
    fit = OLS().fit(release_of_rows(coded, Y, features=columns))
    assert fit.term_names_.tolist() == ["site[b]", "site[c]", "x"]
    assert fit.coef_ == pytest.approx(LinearRegression().fit(coded, Y).coef_, abs=1e-12)


def test_several_targets_are_fitted_at_once() -> None:
    both = np.column_stack([Y, 1.0 - 2.0 * Y])
    release = release_of_rows(U, both, targets=["a", "b"])
    fit = OLS().fit(release)
    reference = LinearRegression().fit(U, both)
    assert fit.coef_ == pytest.approx(reference.coef_, abs=1e-12)
    assert fit.intercept_ == pytest.approx(reference.intercept_, abs=1e-12)
    assert fit.predict(U).shape == (200, 2)
    assert fit.score(U, both) == pytest.approx(reference.score(U, both))


def test_one_of_several_targets_is_fitted_by_its_name() -> None:
    release = release_of_rows(U, np.column_stack([Y, -Y]), targets=["a", "b"])
    fit = OLS().fit(release, target="b")
    assert fit.coef_ == pytest.approx(-LinearRegression().fit(U, Y).coef_, abs=1e-12)
    assert fit.target_names_.tolist() == ["b"]


def test_target_that_was_not_released_is_refused(exact: Release) -> None:
    with pytest.raises(ValueError, match="no target 'weight'; it has y"):
        OLS().fit(exact, target="weight")


@pytest.mark.parametrize("missing", ["xtx", "xty"])
def test_release_without_the_equations_is_refused(missing: str) -> None:
    body = release_body()
    del body["statistics"][missing]
    with pytest.raises(EstimationError, match="ask for the statistics"):
        OLS().fit(Release.from_text(compact(body)))


def test_fitted_attributes_describe_the_fit() -> None:
    fit = AdaSSP().fit(Release.from_text(RELEASE_TEXT))
    assert fit.feature_names_in_.tolist() == ["age", "sex"]
    assert fit.n_features_in_ == 2
    assert fit.term_names_.tolist() == ["age", "sex[M]"]
    assert (fit.coef_.shape, fit.scaled_coef_.shape, type(fit.intercept_)) == ((2,), (3,), float)


@pytest.mark.parametrize("estimator", [OLS(), Ridge(penalty=0.5)], ids=repr)
def test_indefinite_equations_are_refused_with_ways_out(estimator: Any) -> None:
    with pytest.raises(EstimationError, match=r"smallest eigenvalue -(1|0\.7).*AdaSSP.*larger epsilon"):
        estimator.fit(INDEFINITE)


def test_ssp_solves_indefinite_equations_and_warns() -> None:
    with pytest.warns(EstimationWarning, match="not positive definite"):
        fit = SSP().fit(INDEFINITE)
    assert fit.scaled_coef_ == pytest.approx(np.linalg.solve([[2.0, 3.0], [3.0, 2.0]], [1.0, 0.0]))


def test_ssp_gives_nothing_to_directions_without_information() -> None:
    with pytest.warns(EstimationWarning):
        fit = SSP().fit(Release.from_arrays([[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0]))
    assert fit.scaled_coef_ == pytest.approx([0.5, 0.5])


def test_ssp_is_silent_where_equations_are_definite(exact: Release) -> None:
    SSP().fit(exact)


def expected_threshold(sigma: float, d: int, probability: float) -> float:
    return sigma * math.sqrt(d * math.log(2 * d * d / probability))


def test_adassp_penalty_follows_wang_where_lambda_min_was_released() -> None:
    body = release_body()
    body["statistics"]["lambda_min"]["values"] = [150.0]
    fit = AdaSSP(failure_probability=0.1).fit(Release.from_text(compact(body)))
    lower_bound = 150.0 - 30.5 * math.sqrt(math.log(6 / 1e-6))
    assert fit.lambda_min_ == pytest.approx(lower_bound)
    assert fit.threshold_ == pytest.approx(expected_threshold(12.7, 3, 0.1))
    assert fit.penalty_ == pytest.approx(fit.threshold_ - lower_bound)


def test_adassp_bound_on_lambda_min_is_never_negative() -> None:
    body = release_body()
    body["statistics"]["lambda_min"]["values"] = [-500.0]
    fit = AdaSSP().fit(Release.from_text(compact(body)))
    assert (fit.lambda_min_, fit.penalty_) == (0.0, fit.threshold_)


def test_adassp_reads_the_spectrum_where_lambda_min_was_not_released() -> None:
    release = Release.from_arrays(np.diag([100.0, 50.0]), [1.0, 1.0], noise=2.0)
    fit = AdaSSP().fit(release)
    assert fit.lambda_min_ == pytest.approx(50.0 - 4.0 * (math.sqrt(2) + math.sqrt(math.log(20))))
    assert fit.penalty_ == 0.0


def test_adassp_solves_the_penalised_equations() -> None:
    release = release_of_rows(U, Y, noise=20.0)
    fit = AdaSSP().fit(release)
    penalties = np.diag([fit.constant_penalty_, *[fit.penalty_] * 3])
    assert fit.scaled_coef_ == pytest.approx(np.linalg.solve(release.xtx + penalties, release.xty[:, 0]))


def test_adassp_penalises_the_constant_by_how_far_it_stands_out_of_the_noise() -> None:
    many = AdaSSP().fit(Release.from_arrays(np.diag([1e6, 1.0]), [1.0, 1.0], noise=2.0))
    assert many.constant_penalty_ == pytest.approx(many.penalty_ * 2.0 * many.threshold_ / 1e6)
    few = AdaSSP().fit(Release.from_arrays(np.diag([1.0, 1.0]), [1.0, 1.0], noise=2.0))
    assert few.constant_penalty_ == few.penalty_


def test_adassp_takes_the_offdiagonal_deviation_of_goe_noise() -> None:
    noise = Noise(xtx_diagonal=math.sqrt(2.0), xtx_offdiagonal=1.0)
    fit = AdaSSP().fit(Release.from_arrays(np.eye(2), [1.0, 1.0], noise=noise))
    assert fit.threshold_ == pytest.approx(expected_threshold(1.0, 2, 0.05))


def test_adassp_answers_whatever_the_noise_did() -> None:
    fit = AdaSSP().fit(Release.from_arrays(np.diag([-50.0, 3.0]), [1.0, 1.0], noise=5.0))
    assert np.isfinite(fit.scaled_coef_).all()
    assert np.linalg.eigvalsh(np.diag([-50.0 + fit.constant_penalty_, 3.0 + fit.penalty_]))[0] >= 5.0 - 1e-9


def test_adassp_without_noise_accepts_a_singular_matrix() -> None:
    fit = AdaSSP().fit(Release.from_arrays([[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0]))
    assert fit.scaled_coef_ == pytest.approx([0.5, 0.5])


def test_adassp_needs_to_know_the_noise() -> None:
    with pytest.raises(EstimationError, match="does not state"):
        AdaSSP().fit(Release.from_arrays(np.eye(2), [1.0, 1.0], noise=Noise()))


@pytest.mark.parametrize(
    "estimator", [AdaSSP(0.0), AdaSSP(1.0), Ridge(-1.0), Ridge(math.nan), Ridge(math.inf)], ids=repr
)
def test_hyper_parameter_out_of_range_is_refused_by_fit(estimator: Any, exact: Release) -> None:
    with pytest.raises(ValueError, match="must be"):
        estimator.fit(exact)


def test_repr_shows_the_parameters() -> None:
    assert [repr(OLS()), repr(Ridge(2.0))] == ["OLS()", "Ridge(penalty=2.0)"]
    assert repr(Ridge(1.0)) == "Ridge()"


def test_noisy_adassp_is_closer_than_ssp_where_the_noise_outweighs_the_data() -> None:
    rng = np.random.default_rng(7)
    errors = {"AdaSSP": 0.0, "SSP": 0.0}
    exact = release_of_rows(U, Y)
    assert exact.xtx is not None
    assert exact.xty is not None
    truth = LinearRegression().fit(U, Y).coef_
    for _ in range(50):
        noise = np.triu(rng.normal(0.0, 30.0, (4, 4)))
        noisy = Release.from_arrays(
            exact.xtx + noise + np.triu(noise, 1).T, exact.xty[:, 0] + rng.normal(0.0, 10.0, 4), noise=30.0
        )
        errors["AdaSSP"] += float(np.sum((AdaSSP().fit(noisy).coef_ - truth) ** 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EstimationWarning)
            errors["SSP"] += float(np.sum((SSP().fit(noisy).coef_ - truth) ** 2))
    assert errors["AdaSSP"] < errors["SSP"] / 2


# Beside scikit-learn


@pytest.mark.parametrize("estimator", [OLS(), AdaSSP(), EmpiricalBayes(), Ridge()], ids=repr)
def test_scikit_learn_knows_a_regressor_and_whether_it_is_fitted(estimator: Any) -> None:
    assert is_regressor(estimator)
    assert not is_classifier(estimator)
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)
    fitted = clone(estimator).fit(Release.from_arrays(np.diag([9.0, 4.0]), [3.0, 1.0], 5.0))
    check_is_fitted(fitted)
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(fitted))


def test_scikit_learn_knows_a_classifier() -> None:
    assert is_classifier(LogisticRegression())
    assert not is_regressor(LogisticRegression())
    with pytest.raises(NotFittedError):
        check_is_fitted(LogisticRegression())


def test_a_pipeline_that_ends_in_an_estimator_fits_and_predicts() -> None:
    release = Release.from_arrays(np.diag([9.0, 4.0]), [3.0, 1.0], 5.0)
    pipeline = make_pipeline("passthrough", AdaSSP()).fit(release)
    assert pipeline.predict([[0.5], [1.0]]).tolist() == AdaSSP().fit(release).predict([[0.5], [1.0]]).tolist()
    assert pipeline.score([[0.5], [1.0]], [0.4, 0.6]) == AdaSSP().fit(release).score([[0.5], [1.0]], [0.4, 0.6])
    assert is_regressor(pipeline)
    assert pipeline[-1].coef_.shape == (1,)
    assert "AdaSSP" in estimator_html_repr(pipeline)
