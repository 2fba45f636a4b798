"""The base of linear regressions on releases: solving, residuals, predictions with intervals."""

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.base import Features, Fit, Releases, Rows
from analyst_client.estimators.margins import Effect, linear_effects
from analyst_client.estimators.plausibility import check_plausible
from analyst_client.estimators.predicting import coded_rows
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.agreement import HeterogeneityTest, SiteError, heterogeneity_test, site_error
from analyst_client.inference.base import Bound, IntervalMethod, Results
from analyst_client.inference.caveats import (
    ESTIMAND_NOTE,
    agreement_warnings,
    bias_warnings,
    hidden_warnings,
    identification_warnings,
    level_warnings,
    outside_warnings,
    posterior_warnings,
    warnings_of,
    weight_notes,
)
from analyst_client.inference.equations import Equations
from analyst_client.inference.heads import head_of
from analyst_client.inference.multiplicity import note_model
from analyst_client.inference.pooling import own_equations, pool, without_site
from analyst_client.inference.posterior import CoefficientDraws
from analyst_client.inference.prediction import mean_intervals, value_intervals
from analyst_client.inference.results import Identification, Solution, TargetResults
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.summary import number, p_text
from analyst_client.kinds.gram.design import map_rows
from analyst_client.level import takes_level
from analyst_client.schema.columns import stored_columns

TEST_NOTE = (
    "Intervals and p-values invert the score test (Fieller): sampling error with one residual variance, and the "
    "privacy noise. p is of the hypothesis."
)
SUMMARY_NOTE = (
    "Standard errors hold sampling and privacy noise; 'privacy' is the share of each variance that is privacy "
    "noise. Intervals and p-values invert the score test of the true coefficients (Fieller), whatever the "
    "estimator. All of them take rows for independent: several rows of one person count as persons."
)


class LinearFit(Fit):
    """A linear regression fitted on a release.

    Attributes
    ----------
    scaled_coef_ : ndarray of shape (D,) or (T, D)
        The solution itself, in scaled units, the constant included.
    penalty_ : float or ndarray of shape (T,)
        λ, in units of the scaled XᵀX.
    row_map_ : str or None
        Row map of the curator. Under ``"unit"``, and under ``"unit_xy"`` with a constant, the model is linear in
        the scaled terms over their norm: `coef_` and `intercept_` then belong to those, and `predict` divides. Under
        ``"linear"`` they belong to combinations of scaled terms, see `CombinedRows`, and `predict` combines:
        `combined_terms` has the coefficients of the terms.
    """

    _target_attributes: ClassVar[tuple[str, ...]] = ("penalty_",)  # one for each target where there are several

    scaled_coef_: FloatArray
    penalty_: "float | FloatArray"
    results_: tuple[TargetResults, ...]

    @abstractmethod
    def _solve(self, equations: Equations) -> Solution:
        """Solve the equations of one target, and set the attributes of the fit."""

    def _fit_releases(self, releases: Releases, target: str | None, features: Features, rows: Rows) -> None:
        pooled = pool(releases, target, rows, features)
        for equations in pooled:
            check_plausible(equations)
        self._fit_equations(pooled)

    def _fit_equations(self, pooled: Sequence[Equations]) -> None:
        """Solve the equations of each target, and set all attributes. Warn as `fit` does."""
        results, found = [], []
        for equations in pooled:
            names = [term.name for term in equations.terms]
            note_model((site.release for site in equations.sites), equations.target.name, names)
            results.append(TargetResults(equations, self._solve(equations)))
            found.append([getattr(self, name) for name in self._target_attributes])
        first, several = pooled[0], len(pooled) > 1
        if several:
            for name, values in zip(self._target_attributes, zip(*found, strict=True), strict=True):
                setattr(self, name, np.array(values))
        self._keep(results, first.columns, [column.name for column in stored_columns(first.columns)])
        scaled = np.array([one.solution.theta for one in results])
        self.scaled_coef_ = scaled if several else scaled[0]
        for one in results:
            hospitals = one.equations.hospitals or one.equations  # public rows may differ, and are anchored
            drawn = one.solution.posterior
            said = posterior_warnings(one, drawn) if isinstance(drawn, CoefficientDraws) else []
            apart = agreement_warnings(hospitals) + level_warnings(one.equations)
            for text in said + apart + bias_warnings(one.equations):
                warn_caller(text, EstimationWarning)

    def _design(self, X: Any, clip: bool | None) -> FloatArray:
        """Return the rows on which the fit is linear, of shape (n, D); see `predict`."""
        first: Results = self._all_results()[0]
        return self._mapped(coded_rows(X, self.columns_, first.combined or self.terms_, clip), first)

    def _mapped(self, matrix: FloatArray, first: Results) -> FloatArray:
        """Return the rows on which the fit is linear, of scaled terms."""
        if first.combinations is not None:
            return matrix @ first.combinations
        return map_rows(matrix, self.terms_, self.row_map_)

    def _respond(self, results: Any, index: FloatArray) -> tuple[FloatArray, FloatArray]:
        return results.target.center + results.target.scale * index, np.full(len(index), results.target.scale)

    def _average(self, results: Any) -> tuple[Iterable[Effect], str]:
        return linear_effects(results, self.columns_), "Effects are coefficients: of all rows, as the fit is linear."

    def _predict(self, X: Any, clip: bool | None) -> FloatArray:
        matrix = self._design(X, clip)
        center = np.array([term.center for term in self.targets_])
        scale = np.array([term.scale for term in self.targets_])
        predicted: FloatArray = center + scale * (matrix @ np.atleast_2d(self.scaled_coef_).T)
        return predicted if len(self.targets_) > 1 else predicted[:, 0]

    def _score(self, predicted: FloatArray, observed: FloatArray) -> float:
        residual = np.sum((observed - predicted) ** 2, axis=0)
        if not len(observed) or not np.all(total := np.sum((observed - observed.mean(axis=0)) ** 2, axis=0)):
            raise ValueError("R² needs values of y that differ")
        return float(np.mean(1.0 - residual / total))

    def _intervals(self, X: Any, level: float, mean: bool, clip: bool | None) -> FloatArray:
        matrix = self._design(X, clip)
        known = ~np.isnan(matrix).any(axis=1)
        found = np.full((len(matrix), len(self.results_), 2), np.nan)
        for t, (results, target) in enumerate(zip(self._all_results(), self.targets_, strict=True)):
            center, half = (mean_intervals if mean else value_intervals)(results.told, matrix[known], level)
            center = np.where(np.isfinite(half), center, 0.0)
            ends = np.column_stack([center - half, center + half])
            found[known, t] = target.center + target.scale * ends
        return found

    @property
    def privacy_share_(self) -> FloatArray:
        """Share of each parameter's variance that is privacy noise, 0 to 1, of shape (P,) or (T, P).

        NaN where its interval has no end: the noise hides the share, too.
        """
        return self._of_each_target(lambda results: results.told.privacy_share)

    @property
    def vif_(self) -> FloatArray:
        """Variance inflation factor of each term beside the constant, of shape (D',): NaN where the noise hides it."""
        vif: FloatArray = self._all_results()[0].told.vif
        return vif

    @property
    def rsquared_(self) -> float | FloatArray:
        """R² of the model, corrected for the privacy noise; NaN where `rsquared_interval` is all of [0, 1]."""
        return self._of_each_target(lambda results: results.told.rsquared)

    @property
    def rsquared_adj_(self) -> float | FloatArray:
        """R² adjusted for the number of coefficients, corrected for the privacy noise."""
        return self._of_each_target(lambda results: results.told.rsquared_adj)

    @takes_level
    def rsquared_interval(self, level: float = 0.95) -> FloatArray:
        """Return a confidence interval of R², of shape (2,) or (T, 2)."""
        found = self._of_each_target(lambda results: results.told.rsquared_interval(level))
        return np.asarray(found, dtype=np.float64)

    @property
    def scale_(self) -> float | FloatArray:
        """Residual variance, in squared units of the target, corrected for privacy noise; NaN where that hides it."""
        return self._of_each_target(lambda results: results.told.scale)

    def heterogeneity_test(self, target: str | None = None) -> HeterogeneityTest:
        """Test that all releases of the fit have the same coefficients. Raise `EstimationError` for one release."""
        return heterogeneity_test(self._results_of(target).told.equations)

    @takes_level
    def identification(self, level: float = 0.95, target: str | None = None) -> Identification:
        """Return how strongly the data outweigh the noise; below a ratio of 1 some intervals are unbounded.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        Identification
            For the direction in which the data outweigh the noise least.
        """
        found: Identification = self._results_of(target).told.identification(level)
        return found

    def leave_one_site_out(self, target: str | None = None) -> tuple[SiteError, ...]:
        """Fit on all releases but one, in turn, and return how well each fit predicts the one left out.

        No rows are needed: a release tells the squared error of any coefficients over its own rows, with noise of
        known size. Raise `EstimationError` for one release.
        """
        equations = self._results_of(target).told.equations
        if len(equations.sites) < 2:
            raise EstimationError("leaving one site out needs several releases: fit on a list of them")
        other = type(self)(**self.fitted_params_ | self._settled())
        return tuple(
            site_error(site, other._solve(without_site(equations, k)).theta, equations.target.scale)
            for k, site in enumerate(own_equations(equations).sites)
        )

    def _settled(self) -> dict[str, Any]:
        """Return hyper-parameters that were chosen by rule as they were chosen, where the rule needs all sites."""
        return {}

    def _doubts(self, results: TargetResults, level: float, method: IntervalMethod) -> Iterable[str]:
        if method in {"delta", "bootstrap"}:
            lead = f"{method!r} takes the noise in XᵀX as small, and it is not: use 'fieller'. By that, "
            return [lead + text for text in identification_warnings(results, level)]
        if method == "posterior" and not isinstance(results.solution.posterior, CoefficientDraws):  # as `fit` has
            return posterior_warnings(results, results.posterior)
        return ()

    def _test_notes(self, results: Any) -> tuple[str, ...]:
        return (TEST_NOTE, *weight_notes(results.told))

    def _glance(self, results: TargetResults, level: float) -> dict[str, float]:
        low, high = results.rsquared_interval(level)
        return {
            "r_squared": results.rsquared,
            "adj_r_squared": results.rsquared_adj,
            "r_squared_low": low,
            "r_squared_high": high,
            "sigma": math.sqrt(results.scale),
            "df_residual": results.dof,
            "nobs": math.nan if (people := results.equations.people) is None else people,
            "identification": results.identification(level).ratio,
            "releases": len(results.equations.sites),
        }

    def _privacy_share(self, results: TargetResults) -> FloatArray:
        return results.privacy_share

    def _caveats(self, results: Any, level: float) -> Iterable[str]:
        told: TargetResults = results.told
        own = [*posterior_warnings(told, told.solution.posterior), *self._own_caveats(told)]
        hidden = hidden_warnings(told, level, list(self.source_.named))
        return [*warnings_of(told, level), *hidden, *own, *outside_warnings(told, level)]

    def _own_caveats(self, results: TargetResults) -> list[str]:
        """Return what to say of this estimator alone."""
        return []

    def _head(self, results: TargetResults) -> list[tuple[str, str]]:
        return head_of(results.equations)

    def _facts(self, results: TargetResults, level: float, bound: Bound | None) -> list[tuple[str, str]]:
        equations, stated = results.equations, []
        if len(equations.sites) > 1:
            weights = ", ".join(f"{weight:.3g}" for weight in equations.weights)
            stated.append(("releases, weighted", f"{len(equations.sites)} ({weights})"))
        low, high = results.rsquared_interval(level)
        stated.append(("R²", f"{number(results.rsquared)}  [{number(low)}, {number(high)}]"))
        stated.append(("residual sd", number(math.sqrt(results.scale))))
        if len(results.slopes):
            test = results.f_test()
            said = f"{number(test.statistic)}, p {p_text(test.pvalue, relation=True)}"
            stated.append((f"F({test.constraints}, {test.dof:,.0f})", said))
        strength = results.identification(level)
        meter = number(strength.ratio) if strength.ratio < 100.0 else "above 100"
        return [*stated, ("identification", f"{meter} (intervals are bounded above 1)")]

    def _beside(self, results: TargetResults) -> dict[str, list[str]]:
        return {"privacy": ["–" if math.isnan(share) else f"{share:.0%}" for share in results.privacy_share]}

    def _notes(self, results: TargetResults, sets: Sequence[ConfidenceSet]) -> list[str]:
        rays = [name for name, one in zip(results.names, sets, strict=True) if one.kind == "rays"]
        gap = [f"The set of {', '.join(rays)} is all but the open gap between the two numbers."] if rays else []
        alike = [ESTIMAND_NOTE] if results.equations.counts_alike else []
        return [SUMMARY_NOTE, *weight_notes(results), *alike, *gap]
