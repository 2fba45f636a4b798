"""Logistic regression from XᵀX and Xᵀy: against scikit-learn on normal features, and by its defining equations."""

import warnings
from typing import Any

import numpy as np
import pytest
from client_examples import release_of_rows
from sklearn.linear_model import LogisticRegression as ScikitLogistic

from analyst_client import OLS, Column, EstimationError, EstimationWarning, LogisticRegression, Release
from analyst_client.estimators.logistic import (
    PRIOR_VARIANCES,
    SPREAD_MAX,
    base_rate,
    calibrate,
    index_moments,
    shrunk_inverse,
    solve_link,
)
from analyst_client.inference.normal_index import NODE_WEIGHTS, NODES, sigmoid

pytestmark = pytest.mark.filterwarnings("ignore::analyst_client.EstimationWarning")  # many releases here are odd
ILL = [Column.boolean("ill", ("well", "ill"))]
SLOPES = np.array([5.0, -3.0, 1.0])  # of features with a deviation of 0.25: the index deviates by 1.5


def normal_rows(n: int, intercept: float = -1.0, seed: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 1))
    features = 0.25 * (0.6 * common + 0.8 * rng.standard_normal((n, 3)))
    ill = rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-intercept - features @ SLOPES))
    return features, ill.astype(float)


def released(rows: Any, ill: Any, **options: Any) -> Release:
    return release_of_rows(rows, ill, targets=ILL, **options)


def with_noise(release: Release, sd: float, seed: int) -> Release:
    rng = np.random.default_rng(seed)
    assert release.xty is not None
    noise = np.triu(rng.normal(0.0, sd, release.xtx.shape))
    noise += np.triu(noise, 1).T
    xty = release.xty[:, 0] + rng.normal(0.0, sd, len(noise))
    return Release.from_arrays(release.xtx + noise, xty, features=release.features, targets=ILL, noise=sd)


FEATURES, TRUTH = normal_rows(4000)
EXACT = released(FEATURES, TRUTH)


@pytest.mark.parametrize("intercept", [0.0, -1.0, -3.0])
def test_normal_features_without_noise_give_the_coefficients_of_logistic_regression(intercept: float) -> None:
    features, ill = normal_rows(400_000, intercept)
    reference = ScikitLogistic(C=np.inf, tol=1e-6).fit(features, ill)
    fit = LogisticRegression().fit(released(features, ill))
    # Standard errors of the reference are 0.02 to 0.04; both use the same rows.
    assert fit.coef_ == pytest.approx(reference.coef_[0], abs=0.06)
    assert fit.intercept_ == pytest.approx(reference.intercept_[0], abs=0.03)


def test_normal_features_give_the_probabilities_of_logistic_regression() -> None:
    reference = ScikitLogistic(C=np.inf, tol=1e-6).fit(FEATURES, TRUTH)
    fit = LogisticRegression().fit(EXACT)
    assert fit.predict_proba(FEATURES) == pytest.approx(reference.predict_proba(FEATURES), abs=0.03)
    assert fit.score(FEATURES, TRUTH) == pytest.approx(reference.score(FEATURES, TRUTH), abs=0.003)


@pytest.mark.parametrize("intercept", [-3.0, -1.0, 0.0, 2.0])
def test_mean_probability_is_the_base_rate_under_the_normal_law(intercept: float) -> None:
    features, ill = normal_rows(4000, intercept)
    release = released(features, ill)
    fit = LogisticRegression().fit(release)
    mean = fit.intercept_ + fit.coef_ @ features.mean(axis=0)
    spread = np.sqrt(fit.coef_ @ np.cov(features.T, bias=True) @ fit.coef_)
    assert fit.base_rate_ == pytest.approx(ill.mean(), abs=1e-12)
    assert NODE_WEIGHTS @ sigmoid(mean + spread * NODES) == pytest.approx(ill.mean(), abs=1e-9)


def test_scale_solves_the_equation_of_stein() -> None:
    fit = LogisticRegression().fit(EXACT)
    mean = fit.intercept_ + fit.coef_ @ FEATURES.mean(axis=0)
    spread = np.sqrt(fit.coef_ @ np.cov(FEATURES.T, bias=True) @ fit.coef_)
    probability = sigmoid(mean + spread * NODES)
    assert fit.scale_ * (NODE_WEIGHTS @ (probability * (1.0 - probability))) == pytest.approx(1.0, abs=1e-9)


def test_without_noise_coefficients_are_a_multiple_of_least_squares() -> None:
    fit = LogisticRegression().fit(EXACT)
    assert fit.coef_ == pytest.approx(fit.scale_ * OLS().fit(EXACT).coef_, abs=1e-9)


def test_coefficients_are_in_raw_units() -> None:
    columns = [Column.numeric("age", 50, 100), Column.numeric("dose", 0, 10), Column.numeric("x")]
    raw = FEATURES * [25.0, 5.0, 1.0] + [75.0, 5.0, 0.0]
    scaled = LogisticRegression().fit(EXACT)
    fit = LogisticRegression().fit(released(FEATURES, TRUTH, features=columns))
    assert fit.coef_ == pytest.approx(scaled.coef_ / [25.0, 5.0, 1.0], rel=1e-9)
    assert fit.decision_function(raw, clip=False) == pytest.approx(scaled.decision_function(FEATURES), abs=1e-9)
    assert fit.decision_function(raw, clip=False) == pytest.approx(fit.intercept_ + raw @ fit.coef_, abs=1e-9)


@pytest.mark.parametrize("sd", [0.0, 8.0])
def test_order_of_columns_is_of_no_consequence(sd: float) -> None:
    release = with_noise(EXACT, sd, 1) if sd else EXACT
    order = [0, 3, 1, 2]
    columns = [Column.numeric(f"x{j}") for j in order[1:]]
    swapped = Release.from_arrays(
        release.xtx[np.ix_(order, order)], release.xty[order], features=columns, targets=ILL, noise=sd
    )
    fit, other = LogisticRegression().fit(release), LogisticRegression().fit(swapped)
    assert other.coef_ == pytest.approx(fit.coef_[[2, 0, 1]], rel=1e-6)
    assert other.intercept_ == pytest.approx(fit.intercept_, rel=1e-6)


def test_swapped_labels_change_the_sign() -> None:
    fit, other = LogisticRegression().fit(EXACT), LogisticRegression().fit(released(FEATURES, 1.0 - TRUTH))
    assert other.coef_ == pytest.approx(-fit.coef_, rel=1e-9)
    assert other.intercept_ == pytest.approx(-fit.intercept_, rel=1e-9)


def test_halves_of_the_rows_fit_as_the_whole_where_there_is_no_noise() -> None:
    weighted = [released(FEATURES[part], TRUTH[part]) for part in (slice(None, 2000), slice(2000, None))]
    whole = LogisticRegression().fit(EXACT)
    assert LogisticRegression().fit(weighted).coef_ == pytest.approx(whole.coef_, rel=0.02)


def test_releases_under_different_bounds_are_brought_to_common_units() -> None:
    wide = [Column.numeric(f"x{j}", -4, 4) for j in (1, 2, 3)]
    narrow = [Column.numeric(f"x{j}", -1, 1) for j in (1, 2, 3)]
    first = released(FEATURES / 4.0, TRUTH, features=wide)
    second = released(FEATURES, TRUTH, features=narrow)
    fit = LogisticRegression().fit([first, second])
    assert fit.coef_ == pytest.approx(LogisticRegression().fit(EXACT).coef_, rel=1e-6)


def test_rows_mapped_to_a_ball_are_fitted_by_weighted_moments() -> None:
    w = np.minimum(1.0, 1.1 / np.linalg.norm(np.column_stack([np.ones(4000), FEATURES]), axis=1))
    reference = ScikitLogistic(C=np.inf, tol=1e-6).fit(FEATURES, TRUTH, sample_weight=w**2)
    fit = LogisticRegression().fit(released(FEATURES, TRUTH, weights=w))
    assert fit.base_rate_ == pytest.approx(np.average(TRUTH, weights=w**2))
    assert fit.coef_ == pytest.approx(reference.coef_[0], abs=0.25)


def test_predictions_agree_with_each_other() -> None:
    fit = LogisticRegression().fit(EXACT)
    probability = fit.predict_proba(FEATURES)
    assert probability.shape == (4000, 2)
    assert probability.sum(axis=1) == pytest.approx(1.0)
    assert np.array_equal(fit.predict(FEATURES), probability[:, 1] > 0.5)
    assert np.array_equal(fit.classes_[np.argmax(probability, axis=1)], fit.predict(FEATURES))
    assert np.log(probability[:, 1] / probability[:, 0]) == pytest.approx(fit.decision_function(FEATURES))
    assert fit.score(FEATURES, TRUTH) == np.mean(fit.predict(FEATURES) == (TRUTH == 1.0))


def test_row_that_misses_a_value_has_no_prediction() -> None:
    fit = LogisticRegression().fit(EXACT)
    rows = np.array([[0.1, np.nan, 0.0], [0.1, 0.2, 0.0]])
    assert np.isnan(fit.predict_proba(rows)).tolist() == [[True, True], [False, False]]
    with pytest.raises(ValueError, match="misses a value"):
        fit.predict(rows)
    assert fit.score(rows, [True, fit.predict(rows[1:])[0]]) == 1.0


def test_score_refuses_what_it_cannot_count() -> None:
    fit = LogisticRegression().fit(EXACT)
    with pytest.raises(ValueError, match="X has 4000 rows and y 2"):
        fit.score(FEATURES, [0, 1])
    with pytest.raises(ValueError, match="no row has both"):
        fit.score(FEATURES[:2], [None, None])
    with pytest.raises(ValueError, match="no level 2"):
        fit.score(FEATURES[:2], [0, 2])


def test_fitted_attributes_describe_the_fit() -> None:
    fit = LogisticRegression().fit(EXACT, target="ill")
    assert fit.classes_.tolist() == [False, True]
    assert fit.feature_names_in_.tolist() == fit.term_names_.tolist() == ["x1", "x2", "x3"]
    assert (fit.n_features_in_, fit.coef_.shape, type(fit.intercept_)) == (3, (3,), float)


@pytest.mark.parametrize("sd", [1.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_any_noise_gives_finite_coefficients_and_a_bounded_index(sd: float, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", EstimationWarning)  # which says that the noise is large
        fit = LogisticRegression().fit(with_noise(EXACT, sd, seed))
    assert np.isfinite(fit.coef_).all()
    _, variance = index_moments(fit.linear_.gram_, np.asarray(fit.linear_.scaled_coef_))
    assert fit.scale_ * np.sqrt(variance) <= SPREAD_MAX * (1.0 + 1e-9)
    probability = fit.predict_proba(FEATURES)
    assert np.all((probability >= 0.0) & (probability <= 1.0))


@pytest.mark.parametrize(
    ("xtx", "xty"),
    [
        ([[2.0, 3.0], [3.0, 2.0]], [1.0, 0.0]),
        ([[-5.0, 1.0], [1.0, -7.0]], [-3.0, 2.0]),
        ([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0]),
        ([[10.0, 0.0], [0.0, 10.0]], [25.0, 50.0]),
        ([[10.0, 10.0], [10.0, 10.0]], [10.0, 10.0]),
    ],
)
@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_no_release_is_too_odd_to_be_fitted(xtx: Any, xty: Any, noise: float) -> None:
    fit = LogisticRegression().fit(Release.from_arrays(xtx, xty, targets=ILL, noise=noise))
    assert np.isfinite([fit.intercept_, *fit.coef_]).all()
    assert 0.0 < fit.base_rate_ < 1.0


def test_noise_shrinks_what_it_hides_and_spares_what_stands_out() -> None:
    lengths = []
    for sd in (1.0, 300.0):
        fits = [LogisticRegression().fit(with_noise(EXACT, sd, seed)) for seed in range(20)]
        lengths.append(np.median([np.linalg.norm(fit.coef_) for fit in fits]))
    plain = np.linalg.norm(LogisticRegression().fit(EXACT).coef_)
    assert lengths[0] == pytest.approx(plain, rel=0.03)
    assert lengths[1] < 0.9 * plain


def test_shrinkage_is_nearer_the_truth_than_the_plain_equations() -> None:
    truth = OLS().fit(EXACT).coef_
    errors = np.zeros(2)
    for seed in range(50):
        noisy = with_noise(EXACT, 40.0, seed)
        plain = np.linalg.lstsq(np.asarray(noisy.xtx), np.asarray(noisy.xty)[:, 0], rcond=None)[0][1:]
        shrunk = LogisticRegression().fit(noisy).linear_.coef_
        errors += [np.sum((shrunk - truth) ** 2), np.sum((plain - truth) ** 2)]
    assert errors[0] < 0.7 * errors[1]


def test_separated_classes_are_fitted_with_a_bounded_index() -> None:
    x = np.repeat([-1.0, 1.0], 50)[:, np.newaxis]
    fit = LogisticRegression().fit(released(x, (x[:, 0] > 0.0).astype(float)))
    assert fit.scale_ * np.std(fit.linear_.predict(x)) == pytest.approx(SPREAD_MAX)
    assert fit.score(x, x[:, 0] > 0.0) == 1.0


def test_target_without_variation_has_flat_probabilities() -> None:
    fit = LogisticRegression().fit(released(FEATURES, np.zeros(4000)))
    assert fit.coef_ == pytest.approx(0.0, abs=1e-3)
    assert fit.predict_proba(FEATURES)[:, 1] == pytest.approx(1.0 / 4002.0, rel=0.01)


def test_numeric_target_is_refused_with_the_rule() -> None:
    with pytest.raises(EstimationError, match="declared boolean, and 'y' is numeric"):
        LogisticRegression().fit(release_of_rows(FEATURES, TRUTH))


def test_release_without_constant_is_refused() -> None:
    with pytest.raises(EstimationError, match="intercept=True"):
        LogisticRegression().fit(released(FEATURES, TRUTH, constant=False))


def test_divided_targets_are_refused() -> None:
    divided = Release.from_text(EXACT.text.replace('"request":{', '"request":{"rows":{"map":"unit_xy"},', 1))
    with pytest.raises(EstimationError, match="unit_xy"):
        LogisticRegression().fit(divided)


def test_one_of_several_targets_must_be_named() -> None:
    release = release_of_rows(
        FEATURES, np.column_stack([TRUTH, FEATURES[:, 0]]), targets=[*ILL, Column.numeric("dose", -1, 1)]
    )
    with pytest.raises(ValueError, match="say which of ill, dose"):
        LogisticRegression().fit(release)
    assert LogisticRegression().fit(release, "ill").coef_ == pytest.approx(
        LogisticRegression().fit(EXACT).coef_, rel=1e-9
    )
    with pytest.raises(EstimationError, match="'dose' is numeric"):
        LogisticRegression().fit(release, "dose")
    with pytest.raises(ValueError, match="no target 'weight'"):
        LogisticRegression().fit(release, "weight")


@pytest.mark.parametrize("rate", [1e-4, 0.03, 0.5, 0.9])
@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 5.0])
def test_calibration_agrees_with_quadrature_of_scipy(rate: float, spread: float) -> None:
    from scipy import integrate, stats

    a = calibrate(rate, spread)
    value, _ = integrate.quad(
        lambda z: stats.norm.pdf(z) / (1.0 + np.exp(-a - spread * z)), -12.0, 12.0, epsabs=1e-13, limit=200
    )
    assert value == pytest.approx(rate, rel=1e-7)


@pytest.mark.parametrize("variance", [0.0, 1e-14, 1e-9, 1e-3, 0.05, 0.2, 0.4, 1e6])
@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.5, 1.0 - 1e-6])
def test_link_has_a_solution_for_any_variance(variance: float, rate: float) -> None:
    a, c = solve_link(rate, variance)
    assert np.isfinite([a, c]).all()
    assert c > 0.0
    assert c * np.sqrt(variance) <= SPREAD_MAX * (1.0 + 1e-9)


def test_link_is_continuous_where_the_index_hardly_varies() -> None:
    assert solve_link(0.2, 0.99e-12) == pytest.approx(solve_link(0.2, 1.01e-8), rel=1e-3)


def test_base_rate_stays_off_the_ends() -> None:
    assert base_rate(98.0, -7.0) == 0.01
    assert base_rate(98.0, 300.0) == 0.99
    assert base_rate(-5.0, 2.0) == pytest.approx(2.0 / 3.0)


def test_shrinkage_without_noise_is_the_inverse() -> None:
    A = np.array([[4.0, 1.0], [1.0, 3.0]])
    assert shrunk_inverse(A, np.zeros((2, 2)), np.ones(2)) == pytest.approx(np.linalg.inv(A))
    assert shrunk_inverse(A, 1e-12 * np.eye(2), np.ones(2)) == pytest.approx(np.linalg.inv(A), rel=1e-6)


def test_linear_projection_brings_its_inference() -> None:
    fit = LogisticRegression().fit(EXACT)
    assert fit.linear_.pvalues_ == pytest.approx(OLS().fit(EXACT).pvalues_)


def test_shrinkage_is_the_posterior_mean_averaged_over_prior_variances() -> None:
    from scipy import stats

    A = np.array([[9.0, 2.0, -1.0], [2.0, 4.0, 0.5], [-1.0, 0.5, 1.0]])
    noise = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]])
    score = np.array([3.0, -2.0, 1.0])
    precision = np.linalg.inv(noise)
    means = [np.linalg.solve(A @ precision @ A + np.eye(3) / t, A @ precision @ score) for t in PRIOR_VARIANCES]
    likelihoods = [stats.multivariate_normal(np.zeros(3), noise + t * A @ A).pdf(score) for t in PRIOR_VARIANCES]
    expected = np.average(means, axis=0, weights=likelihoods)
    assert shrunk_inverse(A, noise, score) @ score == pytest.approx(expected, rel=1e-6)


def test_projection_takes_the_noise_at_the_centre_of_the_prior() -> None:
    fit = LogisticRegression().fit(with_noise(EXACT, 40.0, 0)).linear_
    equations, centre = fit.results_[0].equations, np.array([fit.base_rate_, 0.0, 0.0, 0.0])
    score = equations.xty - fit.gram_ @ centre
    noise = 40.0**2 * ((1.0 + fit.base_rate_**2) * np.eye(4))  # of e − Eθ, where θ is the constant's alone
    expected = centre + shrunk_inverse(fit.gram_, noise, score) @ score
    assert fit.scaled_coef_ == pytest.approx(expected, rel=1e-6)


def test_projection_takes_the_nearest_semidefinite_gram() -> None:
    fit = LogisticRegression().fit(Release.from_arrays([[2.0, 3.0], [3.0, 2.0]], [1.0, 0.0], targets=ILL, noise=1.0))
    assert fit.linear_.gram_ == pytest.approx(np.full((2, 2), 2.5))


def test_projection_falls_back_to_the_base_rate() -> None:
    fit = LogisticRegression().fit(Release.from_arrays(np.eye(2) * 10.0, [2.5, 0.0], targets=ILL, noise=1000.0))
    assert fit.linear_.scaled_coef_ == pytest.approx([0.25, 0.0], abs=1e-12)
    assert fit.predict_proba([[0.7]])[0, 1] == pytest.approx(0.25, abs=1e-9)


class TestWhatItSays:
    """Odds ratios that mislead are said to, as far as the moments show it."""

    @staticmethod
    def release(seed: int, X: np.ndarray, chances: np.ndarray, sd: float = 3.0, *, boolean: bool = False) -> Release:
        generator = np.random.default_rng(seed)
        y = (generator.uniform(size=len(X)) < chances).astype(float)
        X = np.column_stack([np.ones(len(X)), X])
        E = np.triu(generator.normal(0.0, sd, (X.shape[1], X.shape[1])))
        gram = X.T @ X + E + np.triu(E, 1).T
        kinds = [Column.boolean(f"x{j}") if boolean else Column.numeric(f"x{j}", -1, 1) for j in range(1, X.shape[1])]
        cross = X.T @ y + generator.normal(0.0, sd, X.shape[1])
        return Release.from_arrays(
            (gram + gram.T) / 2.0, cross, y @ y, features=kinds, targets=[Column.boolean("ill")], noise=sd
        )

    normal = np.clip(np.random.default_rng(0).normal(0.0, 0.3, (3000, 2)), -1.0, 1.0)

    def test_nothing_of_a_fit_that_is_what_it_seems(self) -> None:
        chances = 1.0 / (1.0 + np.exp(-0.2 - self.normal @ [2.0, -1.0]))
        fit = LogisticRegression().fit(self.release(1, self.normal, chances))
        assert fit.caveats() == ()
        assert "odds ratio" in str(fit.summary())

    def test_a_rare_class_is_too_small_for_its_terms(self) -> None:
        with pytest.warns(EstimationWarning, match="the rarer class counts for about"):
            fit = LogisticRegression().fit(self.release(3, self.normal, np.full(3000, 0.005)))
        assert "does not tell the coefficients of x1, x2 from 0" in " ".join(fit.caveats())
        assert "Warning: the rarer class" in str(fit.summary())

    def test_separated_classes_have_no_coefficients(self) -> None:
        with pytest.warns(EstimationWarning, match="the classes are separated"):
            LogisticRegression().fit(self.release(1, self.normal, (self.normal[:, 0] > 0.0).astype(float)))

    def test_a_feature_far_from_normal_biases_odds_ratios(self) -> None:
        x = np.minimum(np.random.default_rng(2).exponential(0.15, (3000, 1)) - 1.0, 1.0)
        chances = 1.0 / (1.0 + np.exp(1.0 - 9.0 * (x[:, 0] + 0.85)))
        with pytest.warns(EstimationWarning, match="most of the log odds comes from x1, far from normal"):
            LogisticRegression().fit(self.release(1, x, chances))
        flag = (np.random.default_rng(3).uniform(size=(3000, 1)) < 0.5).astype(float)
        with pytest.warns(EstimationWarning, match="far from normal"):
            LogisticRegression().fit(self.release(1, flag, np.where(flag[:, 0] > 0.0, 0.8, 0.2), boolean=True))

    def test_without_the_square_of_the_target_there_is_no_p(self) -> None:
        chances = 1.0 / (1.0 + np.exp(-0.2 - self.normal @ [2.0, -1.0]))
        whole = self.release(1, self.normal, chances)
        assert whole.xtx is not None
        assert whole.xty is not None
        part = Release.from_arrays(
            whole.xtx, whole.xty, features=list(whole.features), targets=[Column.boolean("ill")], noise=3.0
        )
        fit = LogisticRegression().fit(part)
        with pytest.raises(EstimationError, match="ask for the statistic 'yty'"):
            _ = fit.pvalues_
        assert "ask for the statistic 'yty'" in " ".join(str(fit.summary()).split())
