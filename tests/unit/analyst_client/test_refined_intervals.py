"""Intervals of refined fits, of rows in memory: on what they rest, and what is said where that may not hold."""

import math
import re
import warnings
from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest

from analyst_client import EstimationError, EstimationWarning, PoissonRegression, RefinedRegression, Release
from analyst_client.kinds.score.release import NORM_EDGES
from analyst_client.refinement import RefinementRules
from analyst_client.refinement.inference import corrected_equations
from analyst_client.refinement.tails import ALIGNED, Tails, allowance
from bench.ideal import IdealCurator

MU = 0.237
"""ε = 1 at δ = 10⁻⁶."""


def fit_of(n: int, rules: RefinementRules) -> RefinedRegression:
    """Refine made-up rows of which the residuals are the wider the larger the first column is."""
    generator = np.random.default_rng([7, n])
    x = generator.standard_normal((n, 3))
    y = x @ [0.6, -0.4, 0.3] + 0.7 * np.exp(0.6 * x[:, 0] - 0.36) * generator.standard_normal(n)
    curator = IdealCurator.of_rows(np.column_stack([x, y]), [(-8.0, 6.0)] * 3 + [(-30.0, 40.0)], generator)
    return RefinedRegression().fit(curator.refine(MU, rules))


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_bounds_of_which_a_few_rows_may_use_all_are_told(family: str) -> None:
    """A score of clipped rows does not hold what few rows tell that lie far out, and noise hides them."""
    said = []
    for far in (4.5, 100.0):
        generator = np.random.default_rng([11, 5])
        x = generator.standard_normal((20_000, 2))
        y = x @ [0.3, -0.3] + generator.standard_normal(20_000)
        target = (-20.0, 20.0)
        if family == "poisson":
            y, target = generator.poisson(np.exp(x @ [0.3, -0.3])).astype(float), (0.0, 30.0)
        rows, bounds = np.column_stack([x, y]), [(-5.0, 5.0), (-far, far), target]
        curator = IdealCurator.of_rows(rows, bounds, generator)
        refinement = curator.refine(4.0 * MU, family=family)
        fit = PoissonRegression().fit(refinement) if family == "poisson" else RefinedRegression().fit(refinement)
        said.append([text for text in fit.caveats() if "bounds reach" in text])
    near, wide = said
    assert near == []
    (text,) = wide
    reach = re.search(r"of (\w+) \(([\d,]+)\)", text)
    assert reach is not None
    assert reach[1] == refinement.problem.numbers[1].name
    assert float(reach[2].replace(",", "")) == pytest.approx(100.0, rel=0.1)


class TestDefaultRules:
    def test_many_rows_have_standard_errors_for_residuals_of_any_variance(self) -> None:
        fit = fit_of(50_000, RefinementRules())
        with warnings.catch_warnings():
            warnings.simplefilter("error", EstimationWarning)
            low, high = fit.conf_int().T
        assert not any("one residual variance" in text for text in fit.caveats())
        lengths = (high - low)[1:]
        assert lengths[0] > 1.05 * lengths[2]  # of one variance they would be alike

    def test_few_rows_have_a_warning_where_noise_does_not_hide_their_sampling_error(self) -> None:
        fit = fit_of(800, RefinementRules(meat=0.0))
        with pytest.warns(EstimationWarning, match="assume one residual variance"):
            fit.conf_int()

    def test_long_rows_are_counted_as_others_are(self) -> None:
        """Looks clip them; histograms of norms do not."""
        found = []
        for seed in range(4):
            generator, n = np.random.default_rng([23, seed]), 8_000
            common, own = generator.standard_normal((n, 1)), generator.standard_normal((n, 3))
            x = np.exp(1.5 * common + 0.5 * own)
            y = x.sum(axis=1) * (1.0 + 0.5 * generator.standard_normal(n))
            curator = IdealCurator.of_rows(np.column_stack([x, y]), [(0.0, 300.0)] * 3 + [(-200.0, 900.0)], generator)
            rules = RefinementRules(bins_dear=0.0), RefinementRules()
            found.append([curator.refine(MU, each).found.rows / n for each in rules])
        looked, counted = np.mean(found, axis=0)
        assert looked < 0.97
        assert counted == pytest.approx(1.0, abs=0.02)

    def test_a_price_too_low_for_ends_is_spent_on_predictions(self) -> None:
        fit = fit_of(800, RefinementRules(enough=100.0))
        with pytest.raises(EstimationError, match="too low, or rows too few"):
            fit.conf_int()
        assert np.all(np.isfinite(fit.coef_))
        assert "times the rows" in str(fit.summary())

    def test_columns_that_were_cut_tell_no_interval(self) -> None:
        fit = fit_of(5_000, RefinementRules.for_predictions())
        with pytest.raises(EstimationError, match="columns were cut"):
            fit.conf_int()
        assert "columns were cut" in str(fit.summary())

    def test_a_coefficient_is_within_its_interval(self) -> None:
        """It is the solution of the equations; predictions have coefficients of their own, which shrink."""
        fit = fit_of(5_000, RefinementRules())
        low, high = fit.conf_int().T
        told = np.append(fit.intercept_, fit.coef_)
        assert np.all((low < told) & (told < high))
        assert fit.predict(np.zeros((1, 3)))[0] != fit.intercept_


class TestTails:
    """Tails cut off by norms are told by histograms, and lengthen intervals."""

    @staticmethod
    def seen(df: float, n: float = 20_000.0, noise: float = 20.0) -> Tails:
        generator = np.random.default_rng(11)
        v, r = generator.standard_normal((int(n), 5)), 0.6 * generator.standard_t(df, int(n))
        norms, norm = np.linalg.norm(v, axis=1) * np.abs(r), 3.0
        counts = np.bincount(np.searchsorted(NORM_EDGES, norms / norm, side="right"), minlength=len(NORM_EDGES) + 1)
        tails = Tails(5, n, 0.6**2 * df / (df - 2.0))
        tails.see(
            SimpleNamespace(
                norms=counts + noise * generator.standard_normal(len(counts)),
                norm_edges=np.array(NORM_EDGES),
                noise=SimpleNamespace(norms=noise),
            ),
            norm,
        )
        return tails

    @pytest.mark.parametrize("df", [3.2, 10.0])
    def test_they_tell_what_is_cut_off(self, df: float) -> None:
        generator = np.random.default_rng(12)
        norms = np.linalg.norm(generator.standard_normal((400_000, 5)), axis=1)
        norms *= np.abs(0.6 * generator.standard_t(df, 400_000))
        for norm in (3.0, 5.0):
            cut = ALIGNED * 20_000.0 * np.mean(np.maximum(norms - norm, 0.0))
            assert self.seen(df).shift(np.array([norm]))[0] == pytest.approx(cut, rel=0.5, abs=20.0)

    def test_outliers_make_norms_and_intervals_longer(self) -> None:
        light, heavy = (self.seen(df) for df in (50.0, 2.6))
        assert heavy.norm(0.01) > 1.5 * light.norm(0.01)
        assert heavy.shift(np.array([6.0]))[0] > 5.0 * light.shift(np.array([6.0]))[0]

    def test_what_may_have_moved_is_in_the_law_of_the_equations(self) -> None:
        found = fit_of(20_000, RefinementRules()).refined_
        more = replace(found, measurements=tuple(replace(one, shift=30.0 * one.shift) for one in found.measurements))
        assert all(one.shift > 0.0 for one in found.measurements)
        plain, longer = (np.diag(corrected_equations(one).covariance) for one in (found, more))
        assert np.all(longer > 1.5 * plain)

    def test_a_share_that_is_clipped_moves_no_more(self) -> None:
        assert self.seen(10.0).kept(100.0) == pytest.approx(1.0, abs=1e-3)
        assert self.seen(10.0).kept(1.0) < 0.6

    def test_an_interval_allows_for_a_shift_at_its_level(self) -> None:
        shift, sd = 2.0, 1.5
        half = 1.96 * math.sqrt(sd**2 + float(allowance(np.array(shift), np.array(sd**2))))
        assert NormalDist().cdf((half - shift) / sd) == pytest.approx(0.95, abs=1e-3)
        assert allowance(np.array(0.1), np.array(1.0)) == 0.0


class TestWhitening:
    """XᵀX is bought again, of rows that are whitened by what is known, until each direction is told."""

    def test_a_boolean_that_is_rarely_true_is_held(self) -> None:
        held = []
        for seed in range(12):
            generator = np.random.default_rng([19, seed])
            n = 20_000
            rare = (generator.random(n) < 0.012).astype(float)
            x = generator.standard_normal((n, 3))
            y = x @ [0.3, -0.2, 0.1] + 4.0 * rare + (1.0 + 2.0 * rare) * (generator.standard_exponential(n) - 1.0)
            bounds = [None, *[(-8.0, 8.0)] * 3, (-20.0, 60.0)]
            curator = IdealCurator.of_rows(np.column_stack([rare, x, y]), bounds, generator)
            low, high = RefinedRegression().fit(curator.refine(MU)).conf_int()[1]
            held.append(low < 4.0 < high)
        assert sum(held) >= 9

    @pytest.mark.parametrize(("apart", "grams"), [(1.0, 2), (0.1, 4)], ids=["told at once", "two columns alike"])
    def test_it_ends_as_soon_as_every_direction_is_told(self, apart: float, grams: int) -> None:
        generator = np.random.default_rng(17)
        x = generator.standard_normal((20_000, 3))
        x[:, 1] = x[:, 0] + apart * x[:, 1]
        y = x @ [0.6, -0.4, 0.3] + generator.standard_normal(len(x))
        curator = IdealCurator.of_rows(np.column_stack([x, y]), [(-8.0, 8.0)] * 4, generator)
        refinement = curator.refine(MU, RefinementRules())
        assert sum(isinstance(one, Release) for one in refinement.releases) == grams
        fit = RefinedRegression().fit(refinement)
        errors = np.array([1.0, 1.0 / apart, 1.0 / apart, 1.0])[1:] / math.sqrt(len(x))
        low, high = fit.conf_int()[1:].T
        assert (high - low) / 2.0 / (1.96 * errors * math.hypot(1.0, apart)) == pytest.approx(0.95, abs=0.35)
