"""R² and the residual deviation of refined fits: of all rows, with the noise that is in them."""

from dataclasses import replace

import numpy as np
import pytest

from analyst_client import RefinedRegression
from analyst_client.inference.quantiles import chi2_quantile
from analyst_client.inference.results import TargetResults
from analyst_client.inference.sums import ResidualSums
from analyst_client.refinement import RefinementRules
from analyst_client.refinement.rules import FIRST_RULES
from bench.ideal import IdealCurator

RULES = RefinementRules()
MU = 0.237
"""ε = 1 at δ = 10⁻⁶."""


def fit_of(n: int, rules: RefinementRules = RULES, *, mu: float = MU, noiseless: bool = False, slope: float = 0.6):
    """Refine rows of which XᵀX weights many down: features have long tails; return the fit, R² and the deviation."""
    generator = np.random.default_rng([51, n])
    x = np.column_stack([np.exp(generator.standard_normal((n, 2))), generator.standard_normal((n, 2))])
    y = slope * x @ [0.5, -0.3, 1.0, 0.4] + generator.standard_normal(n)
    bounds = [(0.0, 100.0)] * 2 + [(-8.0, 8.0)] * 2 + [(-60.0, 60.0)]
    curator = IdealCurator.of_rows(np.column_stack([x, y]), bounds, generator, noiseless=noiseless)
    z = np.column_stack([np.ones(n), x])
    residual = y - z @ np.linalg.lstsq(z, y, rcond=None)[0]
    return RefinedRegression().fit(curator.refine(mu, rules)), 1.0 - residual.var() / y.var(), residual.std()


def test_without_noise_they_are_those_of_least_squares_on_all_rows() -> None:
    fit, rsquared, deviation = fit_of(20_000, mu=1.0, noiseless=True)
    assert fit.rsquared_ == pytest.approx(rsquared, abs=0.02)
    assert np.sqrt(fit.scale_) == pytest.approx(deviation, rel=0.02)


def test_with_noise_they_are_held_and_a_summary_prints_them() -> None:
    fit, rsquared, deviation = fit_of(5000)
    low, high = fit.rsquared_interval()
    assert 0.0 < low < rsquared < high < 1.0
    assert high - low < 0.6
    assert np.sqrt(fit.scale_) == pytest.approx(deviation, rel=0.3)
    assert f"{fit.rsquared_:.3g}"[:4] in str(fit.summary())


def test_one_that_bought_no_sums_says_that_nothing_is_known_of_it() -> None:
    fit, *_ = fit_of(5000, replace(RULES, **FIRST_RULES))
    assert np.isnan(fit.rsquared_)
    assert tuple(fit.rsquared_interval()) == (0.0, 1.0)


class TestAndTheFTest:
    """An interval of R² and the test that no term matters never contradict each other."""

    @staticmethod
    def results(slope: float, residual: float) -> TargetResults:
        fit, *_ = fit_of(5000, slope=slope)
        results = fit.results_[0]
        site = results.equations.sites[0]
        assert site.sums is not None
        sums = replace(site.sums, residual=residual * site.sums.total, excess_most=0.0, covariance=np.zeros((2, 2)))
        return replace(results, equations=replace(results.equations, sites=(replace(site, sums=sums),)))

    def test_where_it_rejects_the_interval_is_not_0_alone(self) -> None:
        results = self.results(0.6, 2.0)
        assert results.f_test().pvalue < 0.001
        assert results.rsquared_interval() == (0.0, 1.0)

    def test_where_it_does_not_the_interval_begins_at_0(self) -> None:
        results = self.results(0.0, 0.5)
        assert results.f_test().pvalue > 0.05
        low, high = results.rsquared_interval()
        assert low == 0.0
        assert high > 0.4


class TestResidualSums:
    COVARIANCE = np.array([[9.0, 6.0], [6.0, 16.0]])

    @pytest.mark.parametrize("ratio", [0.2, 0.9])
    def test_their_interval_holds_what_it_says(self, ratio: float) -> None:
        generator, critical = np.random.default_rng(52), chi2_quantile(0.95, 1)
        drawn = generator.multivariate_normal([100.0 * ratio, 100.0], self.COVARIANCE, 4000)
        held = []
        for residual, total in drawn:
            low, high = ResidualSums(residual, total, self.COVARIANCE, 1e9).rsquared_interval(critical)
            held.append(low <= 1.0 - ratio <= high)
        assert np.mean(held) == pytest.approx(0.95, abs=0.015)

    def test_sampling_tails_and_an_excess_lengthen_it(self) -> None:
        plain = ResidualSums(50.0, 100.0, self.COVARIANCE, 1e9)
        low, high = plain.rsquared_interval(4.0)
        for lengthened in (replace(plain, rows=100.0), replace(plain, tail=0.2)):
            lower, higher = lengthened.rsquared_interval(4.0)
            assert lower < low - 0.02
            assert higher > high + 0.02
        lower, higher = replace(plain, excess=3.0, excess_most=5.0).rsquared_interval(4.0)
        assert (lower, higher) == (pytest.approx(low), pytest.approx(high + 0.05))
        assert replace(plain, excess=3.0).rsquared == pytest.approx(0.53)

    def test_a_total_that_noise_hides_says_nothing(self) -> None:
        assert ResidualSums(3.0, 5.0, self.COVARIANCE, 1e9).rsquared_interval(4.0) == (0.0, 1.0)
