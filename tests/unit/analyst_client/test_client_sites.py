"""Several releases in one fit: common units, weights by noise, anchored public rows, agreement."""

import functools
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from client_examples import noised, release_of_rows
from sklearn.linear_model import Ridge as ScikitRidge

from analyst_client import (
    OLS,
    AdaSSP,
    Column,
    EmpiricalBayes,
    EstimationError,
    EstimationWarning,
    Release,
    Ridge,
    load_fit,
)
from analyst_client.estimators import ridge_path
from analyst_client.inference.noise import NoiseLaw
from analyst_client.inference.pooling import pool
from analyst_client.kinds import Noise

BETA = np.array([0.3, -0.4, 0.1])
QUIET = Noise(6.0, 4.0, 3.0, 2.0, distribution="discrete_gaussian")
LOUD = Noise(120.0, 85.0, 60.0, 40.0, distribution="discrete_gaussian")
EXACT = {"abs": 1e-9, "rel": 1e-9}


def columns(bound: float = 1.0) -> list[str | Column]:
    return [Column.numeric(f"x{j}", -bound, bound) for j in range(3)]


def target(bound: float = 2.0) -> list[str | Column]:
    return [Column.numeric("y", -bound, bound)]


def rows_of(seed: int, n: int = 1000, beta: Any = BETA, sd: float = 0.2) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1.0, 1.0, (n, 3))
    return X, 0.2 + X @ beta + generator.normal(0.0, sd, n)


def hospital(
    seed: int,
    n: int = 1000,
    noise: Noise | None = None,
    *,
    bound: float = 1.0,
    y_bound: float = 2.0,
    beta: Any = BETA,
    sd: float = 0.2,
) -> Release:
    """Return a release in the hospital's own scaling."""
    X, y = rows_of(seed, n, beta, sd)
    exact = release_of_rows(X / bound, y / y_bound, features=columns(bound), targets=target(y_bound))
    if noise is None:
        return exact
    return noised(exact, noise, np.random.default_rng(seed + 10_000), targets=target(y_bound))


def test_a_hospital_that_tells_nothing_of_a_term_is_named_with_it(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    X = generator.uniform(-1.0, 1.0, (1000, 3)) * np.array([1.0, 0.1, 1.0])
    y = 0.2 + X @ BETA + generator.normal(0.0, 0.2, 1000)
    exact = release_of_rows(X, y / 2.0, features=columns(), targets=target())
    little = noised(exact, QUIET, generator, targets=target())
    fit, alone = (
        EmpiricalBayes().fit({"north": hospital(1, noise=QUIET), "south": little}),
        EmpiricalBayes().fit(little),
    )
    hidden = [name for name, own in alone.confidence_sets().items() if not own.is_bounded]
    assert 0 < len(hidden) < 4
    said = f"south tells nothing of {', '.join(hidden)} by itself: there its intervals have no end."
    assert [text for text in fit.caveats() if "tells nothing" in text] == [said]
    assert said in " ".join(str(fit.summary()).split())
    fit.save(tmp_path / "fit.json")
    assert said in load_fit(tmp_path / "fit.json").caveats()
    listed = EmpiricalBayes().fit([hospital(1, noise=QUIET), little])
    assert said.replace("south", "release 2") in listed.caveats()
    assert not any("tells nothing" in text for text in alone.caveats())


@pytest.mark.parametrize("estimator", [OLS(), AdaSSP(), Ridge(2.0), EmpiricalBayes()], ids=repr)
def test_one_site_in_a_list_is_the_site(estimator: Any) -> None:
    release = hospital(1, noise=QUIET)
    alone, listed = type(estimator)(**estimator.get_params()).fit(release), estimator.fit([release])
    assert np.array_equal(alone.params_, listed.params_)
    assert np.array_equal(alone.conf_int(), listed.conf_int())


def test_exact_sites_are_their_rows_together_whatever_their_bounds() -> None:
    sites = [hospital(1), hospital(2, 500, bound=3.0, y_bound=5.0), hospital(3, 2000, bound=1.5)]
    rows = [rows_of(1), rows_of(2, 500), rows_of(3, 2000)]
    X, y = np.concatenate([x for x, _ in rows]), np.concatenate([v for _, v in rows])
    reference = sm.OLS(y, sm.add_constant(X)).fit()
    fit = OLS().fit(sites)
    assert fit.params_ == pytest.approx(reference.params, **EXACT)
    assert fit.std_errors_ == pytest.approx(reference.bse, rel=2e-3)  # each hospital has a residual variance of its own
    assert fit.conf_int() == pytest.approx(reference.conf_int(), abs=1e-4)
    assert fit.rsquared_ == pytest.approx(reference.rsquared, rel=1e-4)


def test_asymmetric_bounds_and_a_shifted_target_are_brought_to_common_units() -> None:
    X, y = rows_of(5)
    uneven: list[str | Column] = [Column.numeric("x0", -2, 5), Column.numeric("x1", -1, 3), Column.numeric("x2", -4, 1)]
    centers, scales = np.array([1.5, 1.0, -1.5]), np.array([3.5, 2.0, 2.5])
    other = release_of_rows(
        (X - centers) / scales, (y - 1.0) / 4.0, features=uneven, targets=[Column.numeric("y", -3, 5)]
    )
    fit = OLS().fit([hospital(5), other])
    assert fit.params_ == pytest.approx(OLS().fit(hospital(5)).params_, **EXACT)
    assert (fit.columns_[0].lower, fit.columns_[0].upper) == (-2.0, 5.0)


def test_noise_in_other_units_is_brought_to_common_units_too() -> None:
    """Scores of a shifted and scaled site have the stated covariance: found again by drawing."""
    noise = Noise(3.0, 2.0, 1.5, 1.0, distribution="discrete_gaussian")
    X, y = rows_of(6, 200)
    own: list[str | Column] = [
        Column.numeric("x0", -0.5, 0.9),
        Column.numeric("x1", 0, 1),
        Column.numeric("x2", -1, 0.2),
    ]
    centers, scales = np.array([0.2, 0.5, -0.4]), np.array([0.7, 0.5, 0.6])
    kappa: list[str | Column] = [Column.numeric("y", -1, 2)]
    exact = release_of_rows((X - centers) / scales, (y - 0.5) / 1.5, features=own, targets=kappa)
    assert exact.xtx is not None
    assert exact.xty is not None
    assert exact.yty is not None
    generator = np.random.default_rng(7)
    draws = zip(*NoiseLaw.of(noise, 4).draw(generator, 600), strict=True)
    theta, scores, sums = np.array([0.1, 0.2, -0.3, 0.05]), [], []
    for xtx, xty in draws:
        f = generator.normal(0.0, 1.0)
        noisy = Release.from_arrays(
            exact.xtx + xtx, exact.xty[:, 0] + xty, exact.yty + f, features=own, targets=kappa, noise=noise
        )
        (equations,) = pool([hospital(5, noise=QUIET), noisy])
        site = equations.sites[1]
        scores.append(site.xty - site.xtx @ theta)
        sums.append(site.residual_sum(theta))
    assert (site.target_scale, site.target_shift) == (0.75, 0.25)
    expected = site.noise_covariance(theta)
    drawn = np.cov(np.array(scores).T)
    deviation = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / 600)
    assert np.all(np.abs(drawn - expected) < 5.0 * deviation)
    variance = site.residual_sum_covariance(theta, theta)
    assert np.var(sums) == pytest.approx(variance, rel=5.0 * math.sqrt(2.0 / 600))
    Z = np.diag([1.0, 2.0, 3.0, 4.0]) + 0.3
    N, linear = site.noise_form(Z)
    other = np.array([0.5, -0.1, 0.2, 0.4])
    change = theta @ N @ theta + 2 * linear @ theta - other @ N @ other - 2 * linear @ other
    assert change == pytest.approx(np.trace(Z @ (expected - site.noise_covariance(other))), rel=1e-9)


def test_the_order_of_sites_and_of_their_columns_does_not_matter() -> None:
    first, second = hospital(1, noise=QUIET), hospital(2, 4000, noise=LOUD, bound=2.0)
    order = [0, 2, 3, 1]
    turned = Release.from_arrays(
        second.xtx[np.ix_(order, order)],
        second.xty[order],
        second.yty,
        features=[second.features[j - 1] for j in order[1:]],
        targets=target(),
        noise=LOUD,
    )
    fit = OLS().fit([first, second])
    assert OLS().fit([second, first]).conf_int() == pytest.approx(fit.conf_int(), rel=1e-9)
    assert OLS().fit([first, turned]).conf_int() == pytest.approx(fit.conf_int(), rel=1e-9)


def test_a_noisy_site_weighs_little_and_never_makes_a_fit_much_worse() -> None:
    quiet, loud = hospital(1, 5000, noise=QUIET), hospital(2, 5000, noise=LOUD)
    both, alone = OLS().fit([quiet, loud]), OLS().fit(quiet)
    weights = both.results_[0].equations.weights
    assert weights[0] == 1.0
    assert weights[1] < 0.1
    assert np.all(both.std_errors_ < 1.02 * alone.std_errors_)
    summed = both.results_[0].equations.reweighted(np.ones(2))
    assert summed.region.covariance()[1, 1] > 4.0 * both.results_[0].equations.region.covariance()[1, 1]


def test_equal_sites_have_equal_weights_and_halve_the_variance() -> None:
    sites = [hospital(seed, 5000, noise=QUIET) for seed in range(4)]
    fit = OLS().fit(sites)
    assert fit.results_[0].equations.weights == pytest.approx(np.ones(4), abs=0.02)
    assert fit.std_errors_ == pytest.approx(OLS().fit(sites[0]).std_errors_ / 2.0, rel=0.1)


class TestPublicRows:
    """Rows of the analyst's own help as far as their coefficients may be the hospitals'."""

    hospitals = tuple(hospital(seed, 3000, noise=QUIET) for seed in range(2))

    @staticmethod
    def public(beta: Any = BETA, n: int = 20000) -> Release:
        X, y = rows_of(99, n, beta)
        return Release.from_public({f"x{j}": X[:, j] for j in range(3)} | {"y": y}, TestPublicRows.hospitals[0])

    def test_it_is_the_exact_statistics_of_its_rows(self) -> None:
        X, y = rows_of(99, 20000)
        expected = release_of_rows(X, y / 2.0, features=columns(), targets=target())
        made = self.public()
        assert made.is_public
        assert made.xtx == pytest.approx(expected.xtx, rel=1e-12)
        assert made.xty == pytest.approx(expected.xty, rel=1e-12)
        assert made.yty == pytest.approx(expected.yty, rel=1e-12)
        assert OLS().fit(made).params_ == pytest.approx(sm.OLS(y, sm.add_constant(X)).fit().params, **EXACT)

    def test_agreeing_rows_shorten_intervals(self) -> None:
        without, with_public = OLS().fit(self.hospitals), OLS().fit([*self.hospitals, self.public()])
        assert np.all(with_public.std_errors_ <= without.std_errors_)

    def test_other_coefficients_do_not_move_the_fit_away(self) -> None:
        without = OLS().fit(self.hospitals)
        shifted = OLS().fit([*self.hospitals, self.public(BETA + np.array([1.0, -1.0, 0.5]))])
        assert np.all(np.abs(shifted.params_ - without.params_) < without.std_errors_)
        assert shifted.heterogeneity_test().pvalue < 1e-6
        assert "do not tell of the same coefficients" in str(shifted.summary())

    def test_public_rows_keep_a_residual_variance_of_their_own(self) -> None:
        X, _ = rows_of(99, 20000)
        noisy = 0.2 + X @ BETA + np.random.default_rng(5).normal(0.0, 0.6, 20000)
        public = Release.from_public({f"x{j}": X[:, j] for j in range(3)} | {"y": noisy}, self.hospitals[0])
        scale = OLS().fit([*self.hospitals, public]).results_[0].equations.scale
        assert math.sqrt(scale.variances[2]) * 2.0 == pytest.approx(0.6, rel=0.03)
        assert math.sqrt(scale.variances[0]) * 2.0 == pytest.approx(0.2, rel=0.2)

    def test_public_rows_alone_are_an_ordinary_fit(self) -> None:
        X, y = rows_of(99, 20000)
        other, z = rows_of(98, 20000)
        more = Release.from_public({f"x{j}": other[:, j] for j in range(3)} | {"y": z}, self.hospitals[0])
        fit = OLS().fit([self.public(), more])
        both = sm.OLS(np.concatenate([y, z]), sm.add_constant(np.concatenate([X, other]))).fit()
        assert fit.params_ == pytest.approx(both.params, rel=2e-3)

    def test_too_few_public_rows_are_refused(self) -> None:
        with pytest.raises(EstimationError, match="more rows than terms"):
            OLS().fit([*self.hospitals, self.public(n=3)])

    def test_columns_may_be_declared_in_place_of_a_release(self) -> None:
        X, y = rows_of(99, 50)
        frame = {f"x{j}": X[:, j] for j in range(3)} | {"y": y}
        declared = [Column.numeric(f"x{j}", -1, 1) for j in range(3)]
        made = Release.from_public(frame, declared, Column.numeric("y", -2, 2))
        assert made.xtx == pytest.approx(self.public(n=50).xtx, rel=1e-12)
        with pytest.raises(ValueError, match="must be a Column"):
            Release.from_public(frame, declared, "y")

    def test_rows_with_missing_values_are_left_out_and_levels_checked(self) -> None:
        sex = Column.categorical("sex", ["F", "M"])
        frame = {"sex": ["F", "M", None, "M"], "y": [1.0, 2.0, 3.0, math.nan]}
        made = Release.from_public(frame, [sex], Column.numeric("y", 0, 4))
        assert made.xtx[0, 0] == 2.0
        with pytest.raises(ValueError, match="no level 'X'"):
            Release.from_public(frame | {"sex": ["X"] * 4}, [sex], Column.numeric("y", 0, 4))
        with pytest.raises(ValueError, match="no row is complete"):
            Release.from_public(frame | {"y": [math.nan] * 4}, [sex], Column.numeric("y", 0, 4))


def test_heterogeneity_is_found_where_it_is_and_p_is_uniform_where_it_is_not() -> None:
    same = [
        OLS().fit([hospital(3 * s + k, 2000, noise=QUIET) for k in range(3)]).heterogeneity_test() for s in range(60)
    ]
    assert {test.dof for test in same} == {8}
    below = np.mean([test.pvalue < 0.1 for test in same])
    assert below <= 0.1 + 3.5 * math.sqrt(0.09 / 60)
    assert np.mean([test.pvalue > 0.5 for test in same]) > 0.25
    with pytest.warns(EstimationWarning, match="do not tell of the same coefficients"):
        other = OLS().fit([hospital(1, 2000, noise=QUIET), hospital(2, 2000, noise=QUIET, beta=BETA + 0.2)])
    assert other.heterogeneity_test().pvalue < 1e-3
    with pytest.raises(EstimationError, match="several releases"):
        OLS().fit(hospital(1, noise=QUIET)).heterogeneity_test()


@functools.cache
def unlike_fits() -> list[OLS]:
    """Fit pairs of hospitals whose residuals differ fivefold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)  # a hundredth of them seem to disagree
        return [
            OLS().fit([hospital(2 * s, 2000, noise=QUIET, sd=0.1), hospital(2 * s + 1, 500, noise=QUIET, sd=0.5)])
            for s in range(100)
        ]


class TestResidualsOfEachHospital:
    """Each has a variance of its own."""

    def test_intervals_of_what_they_share_hold(self) -> None:
        truth = np.append(0.2, BETA)
        held = np.array([(low <= truth) & (truth <= high) for low, high in (fit.conf_int().T for fit in unlike_fits())])
        assert held.mean() == pytest.approx(0.95, abs=0.035)
        assert held.mean(axis=0).min() > 0.88

    def test_they_are_as_short_as_weights_by_variance_make_them(self) -> None:
        fit = OLS().fit([hospital(1, 2000, sd=0.1), hospital(2, 2000, sd=0.5)])
        length = np.ptp(fit.conf_int(), axis=1)[1:]
        assert length == pytest.approx(2.0 * 1.96 * np.sqrt(3.0 / (2000 / 0.1**2 + 2000 / 0.5**2)), rel=0.1)

    def test_the_test_that_they_are_alike_has_its_size(self) -> None:
        assert np.mean([fit.heterogeneity_test().pvalue < 0.05 for fit in unlike_fits()]) <= 0.05 + 3.0 * math.sqrt(
            0.0475 / 100
        )

    def test_the_deviation_that_is_printed_is_that_of_all_rows(self) -> None:
        variance = (2000 * 0.1**2 + 500 * 0.5**2) / 2500
        assert np.mean([fit.scale_ for fit in unlike_fits()]) == pytest.approx(variance, rel=0.1)
        square = variance + BETA @ BETA / 3.0
        weights = unlike_fits()[0].results_[0].equations.weights
        total = weights @ [2000.0 * (square - variance + 0.1**2), 500.0 * (square - variance + 0.5**2)]
        residual = weights @ [2000.0 * 0.1**2, 500.0 * 0.5**2]
        assert np.mean([fit.rsquared_ for fit in unlike_fits()]) == pytest.approx(1.0 - residual / total, abs=0.03)


def test_the_error_at_a_site_left_out_is_that_of_its_rows() -> None:
    sites = [hospital(seed) for seed in range(3)]
    errors = OLS().fit(sites).leave_one_site_out()
    for k, found in enumerate(errors):
        others = [rows_of(seed) for seed in range(3) if seed != k]
        X, y = rows_of(k)
        reference = sm.OLS(
            np.concatenate([v for _, v in others]), sm.add_constant(np.concatenate([x for x, _ in others]))
        ).fit()
        assert found.error == pytest.approx(np.mean((y - reference.predict(sm.add_constant(X))) ** 2), rel=1e-8)
        assert found.sd == 0.0
        assert found.rows == pytest.approx(1000.0)


class TestPenalties:
    """Choice of a penalty costs nothing: it is post-processing."""

    sites = tuple(hospital(seed, 500, noise=LOUD) for seed in range(4))

    def test_leave_one_site_out_is_the_best_of_the_path(self) -> None:
        fit = Ridge("leave-one-site-out").fit(self.sites)
        path = ridge_path(self.sites)
        assert fit.penalty_ == path.penalties[int(np.argmin(path.errors))]
        k = int(np.argmin(path.errors))
        assert path.coef[k] == pytest.approx(fit.coef_)
        assert path.intercept[k] == pytest.approx(fit.intercept_)

    def test_one_site_has_no_other_to_be_left_out_for(self) -> None:
        with pytest.raises(EstimationError, match="several releases"):
            Ridge("leave-one-site-out").fit(self.sites[0])
        assert np.isnan(ridge_path(self.sites[0]).errors).all()

    def test_empirical_bayes_is_ridge_without_noise(self) -> None:
        """The penalty is s²/τ² at stated precisions, and at the likeliest ones nearly so."""
        X, y = rows_of(3, 60)
        averaged = EmpiricalBayes().fit(hospital(3, 60))
        penalty = averaged.residual_variance_ / averaged.prior_variance_
        assert averaged.coef_ == pytest.approx(ScikitRidge(alpha=penalty).fit(X, y).coef_, rel=0.02)
        stated = EmpiricalBayes(residual_precision=20.0, coefficient_precision=8.0).fit(hospital(3, 60))
        assert stated.scaled_coef_[1:] == pytest.approx(ScikitRidge(alpha=0.4).fit(X, y / 2.0).coef_, rel=1e-8)

    def test_an_unknown_rule_is_refused(self) -> None:
        with pytest.raises(ValueError, match="leave-one-site-out"):
            Ridge("guess").fit(self.sites[0])  # type: ignore[arg-type]

    def test_empirical_bayes_is_better_than_least_squares_where_noise_is_large(self) -> None:
        truth = np.concatenate([[0.2], BETA])
        bayes, plain = [], []
        for seed in range(40):
            release = hospital(seed, 500, noise=LOUD)
            bayes.append(np.sum((EmpiricalBayes().fit(release).params_ - truth) ** 2))
            plain.append(np.sum((pool(release)[0].solution * 2.0 - truth) ** 2))
        assert np.median(bayes) < 0.7 * np.median(plain)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (release_of_rows(*rows_of(1), features=["x0", "x1", "z"], targets=["y"]), "different terms: x2, z"),
        (release_of_rows(*rows_of(1), features=columns(), targets=["weight"]), "no target 'y'"),
        (release_of_rows(*rows_of(1), features=columns(), targets=target(), constant=False), "different terms"),
    ],
)
def test_releases_that_do_not_fit_together_are_refused(other: Release, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OLS().fit([hospital(1), other])


def test_levels_without_one_in_common_are_refused() -> None:
    level = np.random.default_rng(1).integers(0, 2, 100)
    y = np.random.default_rng(2).normal(size=100)
    both = [
        release_of_rows(level[:, None].astype(float), y, features=[Column.categorical("sex", levels)], targets=["y"])
        for levels in (["F", "M"], ["female", "male"])
    ]
    with pytest.raises(ValueError, match=r"different levels of 'sex'.*rename\(levels="):
        OLS().fit(both)


def test_no_release_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one release"):
        OLS().fit([])
    with pytest.raises(ValueError, match="one number for each of the 1"):
        OLS().fit(release_of_rows(*rows_of(1), constant=False), rows=[1.0, 2.0])


@pytest.mark.simulations
class TestTheSamePeople:
    """Two releases of one population: their noise averages out, what rows were drawn does not."""

    @staticmethod
    def bought(seed: int, noise: Noise, *, population: str = "town", rows: int = 1) -> Release:
        noisy = noised(hospital(rows, 2000), noise, np.random.default_rng(seed), targets=target())
        body = json.loads(noisy.text) | {"id": f"rel_{seed}", "receipt": {"population": population, "key_id": "k"}}
        return Release.from_text(json.dumps(body))

    def test_the_same_rows_twice_are_no_more_rows(self) -> None:
        tiny = Noise(0.02, 0.014, 0.01, 0.01, distribution="discrete_gaussian")
        one, both = OLS().fit(self.bought(1, tiny)), OLS().fit([self.bought(1, tiny), self.bought(2, tiny)])
        assert both.std_errors_ == pytest.approx(one.std_errors_, rel=1e-3)
        assert both.results_[0].dof == pytest.approx(one.results_[0].dof, rel=1e-3)
        apart = OLS().fit([self.bought(1, tiny), self.bought(2, tiny, population="village")])
        assert apart.std_errors_ == pytest.approx(one.std_errors_ / math.sqrt(2.0), rel=1e-2)

    def test_noise_drawn_afresh_averages_out(self) -> None:
        one = OLS().fit(self.bought(1, QUIET))
        both = OLS().fit([self.bought(1, QUIET), self.bought(2, QUIET)])
        noise = [fit.results_[0].privacy_share * fit.std_errors_**2 for fit in (one, both)]
        assert noise[1] == pytest.approx(noise[0] / 2.0, rel=0.05)

    def test_intervals_cover(self) -> None:
        found = []
        for seed in range(200):
            pair = [self.bought(10 * seed + k, QUIET, rows=seed) for k in range(2)]
            low, high = OLS().fit(pair).conf_int().T
            truth = np.concatenate([[0.2], BETA])
            found.append(np.mean((low <= truth) & (high >= truth)))
        assert 0.93 <= np.mean(found) <= 0.98

    def test_one_release_twice_is_refused(self) -> None:
        with pytest.raises(ValueError, match="twice"):
            OLS().fit([self.bought(1, QUIET), self.bought(1, QUIET)])
