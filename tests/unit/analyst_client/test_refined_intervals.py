"""Intervals of refined fits, of rows in memory: on what they rest, and what is said where that may not hold."""

import math
import warnings

import numpy as np
import pytest

from analyst_client import EstimationWarning, RefinedRegression, RefinementRules, Release
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


class TestDefaultRules:
    def test_many_rows_have_standard_errors_for_residuals_of_any_variance(self) -> None:
        fit = fit_of(50_000, RefinementRules())
        with warnings.catch_warnings():
            warnings.simplefilter("error", EstimationWarning)
            low, high = fit.conf_int().T
        assert not any("one residual variance" in text for text in fit.caveats())
        lengths = (high - low)[1:]
        assert lengths[0] > 1.1 * lengths[2]  # of one variance they would be alike

    def test_few_rows_have_a_warning_that_names_the_rules_for_intervals(self) -> None:
        fit = fit_of(400, RefinementRules())
        with pytest.warns(EstimationWarning, match=r"RefinementRules\.for_intervals"):
            fit.conf_int()
        assert "RefinementRules.for_intervals" in str(fit.summary())

    def test_rules_for_intervals_never_have_it(self) -> None:
        fit = fit_of(400, RefinementRules.for_intervals())
        with warnings.catch_warnings():
            warnings.simplefilter("error", EstimationWarning)
            fit.conf_int()


class TestWhitening:
    """XᵀX is bought again, of rows that are whitened by what is known, until each direction is told."""

    @pytest.mark.parametrize(("apart", "grams"), [(1.0, 2), (0.1, 4)], ids=["told at once", "two columns alike"])
    def test_it_ends_as_soon_as_every_direction_is_told(self, apart: float, grams: int) -> None:
        generator = np.random.default_rng(17)
        x = generator.standard_normal((20_000, 3))
        x[:, 1] = x[:, 0] + apart * x[:, 1]
        y = x @ [0.6, -0.4, 0.3] + generator.standard_normal(len(x))
        curator = IdealCurator.of_rows(np.column_stack([x, y]), [(-8.0, 8.0)] * 4, generator)
        refinement = curator.refine(MU, RefinementRules.for_intervals())
        assert sum(isinstance(one, Release) for one in refinement.releases) == grams
        fit = RefinedRegression().fit(refinement)
        errors = np.array([1.0, 1.0 / apart, 1.0 / apart, 1.0])[1:] / math.sqrt(len(x))
        low, high = fit.conf_int()[1:].T
        assert (high - low) / 2.0 / (1.96 * errors * math.hypot(1.0, apart)) == pytest.approx(1.4, abs=0.5)
