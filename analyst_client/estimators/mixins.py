"""Inference of a fit on its coefficients: intervals, tests, tables."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.agreement import HeterogeneityTest, heterogeneity_test
from analyst_client.inference.contrasts import (
    AnovaTable,
    Hypothesis,
    adjusted_rsquared,
    anova_table,
    estimate_combined,
    estimate_contrasts,
    estimate_powers,
    joint_test,
    read_constraints,
)
from analyst_client.inference.estimates import EstimateTable
from analyst_client.inference.multiplicity import Family
from analyst_client.inference.posterior import CoefficientDraws
from analyst_client.inference.results import Bound, Identification, IntervalMethod, TargetResults, TestResult
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.summary import (
    Summary,
    bound_warnings,
    glance,
    identification_warnings,
    posterior_warnings,
    summarise,
    tidy,
    warnings_of,
)
from analyst_client.level import takes_level

if TYPE_CHECKING:
    import pandas as pd


class InferenceMixin:
    """Inference by any linear fit, from its results target by target.

    Attributes
    ----------
    results_ : tuple of TargetResults
    target_names_ : ndarray of str, of shape (T,)
    """

    results_: tuple[TargetResults, ...]
    target_names_: NDArray[np.object_]

    def _check_fitted(self) -> None:
        if not hasattr(self, "results_"):
            raise EstimationError(f"this {type(self).__name__} is not fitted yet: call fit(release) first")

    def _of_each_target(self, read: Callable[[TargetResults], Any]) -> Any:
        """Return what is read of the one target, or an array with one row for each of several."""
        self._check_fitted()
        found = [read(results) for results in self.results_]
        return found[0] if len(found) == 1 else np.array(found)

    @property
    def param_names_(self) -> NDArray[np.object_]:
        """Names of the P parameters that inference is about: the constant, if there is one, and the terms."""
        self._check_fitted()
        return np.array(self.results_[0].names, dtype=object)

    @property
    def params_(self) -> FloatArray:
        """The parameters in raw units, of shape (P,) or (T, P): the intercept, if there is one, and `coef_`."""
        found: FloatArray = self._of_each_target(lambda results: results.params)
        return found

    @takes_level
    def conf_int(
        self,
        level: float = 0.95,
        method: IntervalMethod = "fieller",
        bound: Bound | None = None,
        *,
        simultaneous: bool | Family = False,
    ) -> FloatArray:
        r"""Return confidence intervals of the true coefficients, privacy noise included.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        method : str
            ``"fieller"`` inverts the score test: the stated coverage whatever the noise, unbounded where the data do
            not say more. ``"delta"`` takes the noise in XᵀX as small, and the estimator as unbiased. ``"bootstrap"``
            refits least squares under fresh noise. ``"posterior"`` are credible intervals: the estimator's own where
            it has a posterior, else those of `BayesianRegression` with its default prior and a fixed seed.
            ``"random-effects"`` are of the mean over hospitals that differ: of a meta-analysis of their own fits.
        bound : float or mapping of str to float, optional
            Prior knowledge, with ``"fieller"``. By name: the largest absolute value of a coefficient, in raw
            units. A number: the root of the sum of squares of all effects, in units of the target, where the effect of
            a term is what it adds from the middle of its declared bounds to an end. It makes intervals finite that the
            release alone leaves unbounded. They hold if the bound is true, and rest on it.
        simultaneous : bool or str
            Whether the intervals of a family of slopes hold all together with the stated coverage. True or ``"fit"``:
            the slopes of this fit, of each target apart. ``"release"``: those of every fit that the columns of the
            release allow, so that a model may be chosen after others were seen. The constant is in no family. With
            ``"bootstrap"`` and ``"posterior"`` there is none.

        Returns
        -------
        ndarray of shape (P, 2) or (T, P, 2)
            Raw units; infinite where an interval is unbounded.

        Raises
        ------
        EstimationError
            When the release lacks what this needs: yᵀy, the noise, or a constant. When no coefficients within the bound
            agree with the release.

        Warns
        -----
        EstimationWarning
            When ``"delta"`` or ``"bootstrap"`` is asked for and the noise is too large for it, or ``"posterior"`` and
            that is mostly the prior's or its chains have not mixed. When no value of a parameter agrees with both the
            `bound` and the release: its interval is then NaN.

        Notes
        -----
        Simultaneous intervals of m slopes are those of coverage :math:`1-\alpha/m` (Bonferroni). That holds however
        the slopes depend on each other, and for unbounded sets, and is shorter than projections of the joint region
        (Scheffé) for as many slopes as terms: 2.81 against 4.28 standard errors for ten.
        """
        return self._intervals(level, method, bound, simultaneous)

    def _intervals(
        self, level: float, method: IntervalMethod, bound: Bound | None, simultaneous: bool | Family
    ) -> FloatArray:
        """Return what `conf_int` does, with its warnings, which are of the line that called it."""
        found: FloatArray = self._of_each_target(lambda results: results.conf_int(level, method, bound, simultaneous))
        said: list[str] = []
        for results, intervals in zip(self.results_, found.reshape(len(self.results_), -1, 2), strict=True):
            said += bound_warnings(results, intervals)
            if method in {"delta", "bootstrap"}:
                lead = f"{method!r} takes the noise in XᵀX as small, and it is not: use 'fieller'. By that, "
                said += [lead + text for text in identification_warnings(results, level)]
            elif method == "posterior" and not isinstance(results.solution.posterior, CoefficientDraws):  # as `fit` has
                said += posterior_warnings(results, results.posterior)
        for text in said:
            warn_caller(text, EstimationWarning)
        return found

    def cov_params(self) -> FloatArray:
        """Return the covariance of `params_`, of shape (P, P) or (T, P, P): sampling and privacy noise."""
        found: FloatArray = self._of_each_target(lambda results: results.cov_params())
        return found

    @property
    def bse(self) -> FloatArray:
        """Standard errors of `params_`, of shape (P,) or (T, P)."""
        found: FloatArray = self._of_each_target(lambda results: results.bse)
        return found

    @property
    def pvalues(self) -> FloatArray:
        """P-values of each parameter being 0, of shape (P,) or (T, P), from the statistic that intervals invert."""
        found: FloatArray = self._of_each_target(lambda results: results.pvalues)
        return found

    def adjusted_pvalues(self, family: Family = "fit") -> FloatArray:
        """Return p-values that allow for a family of slopes: any true hypothesis has one below α with probability ≤ α.

        Parameters
        ----------
        family : str
            ``"fit"``: the slopes of this fit, of each target apart, by Holm's method. ``"release"``: those of every
            fit that the columns of the release allow, m times the p-value (Bonferroni), so that a model may be chosen
            after others were seen.

        Returns
        -------
        ndarray of shape (P,) or (T, P)
            The constant is in no family, and keeps its own.

        Raises
        ------
        ValueError
            When there is no such family.
        """
        found: FloatArray = self._of_each_target(lambda results: results.adjusted_pvalues(family))
        return found

    @property
    def privacy_share(self) -> FloatArray:
        """Share of each parameter's variance that is privacy noise, 0 to 1, of shape (P,) or (T, P).

        NaN where its interval has no end: the noise hides the share, too.
        """
        found: FloatArray = self._of_each_target(lambda results: results.privacy_share)
        return found

    @property
    def vif(self) -> FloatArray:
        """Variance inflation factor of each term beside the constant, of shape (D',): NaN where the noise hides it."""
        self._check_fitted()
        return self.results_[0].vif

    @property
    def rsquared(self) -> float | FloatArray:
        """R² of the model, corrected for the privacy noise; NaN where `rsquared_interval` is all of [0, 1]."""
        found: float | FloatArray = self._of_each_target(lambda results: results.rsquared)
        return found

    @property
    def rsquared_adj(self) -> float | FloatArray:
        """R² adjusted for the number of coefficients, corrected for the privacy noise."""
        found: float | FloatArray = self._of_each_target(
            lambda results: adjusted_rsquared(
                results.rsquared,
                results.dof + len(results.names),
                results.dof,
                constant=results.equations.constant_form is not None,
            )
        )
        return found

    @takes_level
    def rsquared_interval(self, level: float = 0.95) -> FloatArray:
        """Return a confidence interval of R², of shape (2,) or (T, 2)."""
        found = self._of_each_target(lambda results: results.rsquared_interval(level))
        return np.asarray(found, dtype=np.float64)

    @property
    def scale(self) -> float | FloatArray:
        """Residual variance, in squared units of the target, corrected for privacy noise; NaN where that hides it."""
        found: float | FloatArray = self._of_each_target(lambda results: results.scale)
        return found

    @takes_level
    def confidence_sets(self, level: float = 0.95, target: str | None = None) -> dict[str, ConfidenceSet]:
        """Return the confidence set of each parameter by name; unlike `conf_int`, with its gap where it has one.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        dict of str to ConfidenceSet
            Raw units: an interval, two rays with a gap between them, or the whole line.
        """
        results = self._results_of(target)
        return dict(zip(results.names, results.confidence_sets(level), strict=True))

    def f_test(self, hypothesis: Hypothesis | None = None, *, target: str | None = None) -> TestResult:
        """Test linear constraints on the coefficients together, in score form: F without noise.

        Parameters
        ----------
        hypothesis : str, sequence of str, or array-like of shape (q, P), optional
            Such as ``"age = dose, sex[M] = 0.1"``; without ``=`` what is written is 0, and the name of a column stands
            for all its terms, so that ``["sex", "site"]`` compares with the model without these columns. Rows of an
            array are contrasts of `params_` that are 0. Default that no term beside the constant matters.
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        TestResult
            Sampling error and privacy noise included.

        Raises
        ------
        ValueError
            When a hypothesis is no linear constraint, or constraints repeat or contradict one another.
        """
        results = self._results_of(target)
        return results.f_test() if hypothesis is None else joint_test(results, read_constraints(hypothesis, results))

    @takes_level
    def t_test(self, hypothesis: Hypothesis, level: float = 0.95, *, target: str | None = None) -> EstimateTable:
        """Estimate contrasts of the coefficients, and test each by itself.

        Parameters
        ----------
        hypothesis : str, sequence of str, or array-like of shape (q, P)
            As for `f_test`, such as ``"site[B] - site[C] = 0"``.
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        EstimateTable
            One row for each constraint: the contrast, its interval, and the p-value of its hypothesis.

        Raises
        ------
        ValueError
            When a hypothesis is no linear constraint, or constraints repeat or contradict one another.
        """
        results = self._results_of(target)
        return estimate_contrasts(results, read_constraints(hypothesis, results), level)

    @takes_level
    def raw_powers(self, level: float = 0.95, *, target: str | None = None) -> EstimateTable:
        """Estimate the coefficients of raw powers, and of their products, that the terms of the fit amount to.

        Legendre polynomials and products are multiplied out: an exact linear map of the same fit.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        EstimateTable
            One row for each power, such as ``age^2`` or ``age^2:sex[M]``; levels and splines stand as they are.
        """
        return estimate_powers(self._results_of(target), level)

    @takes_level
    def combined_terms(self, level: float = 0.95, *, target: str | None = None) -> EstimateTable:
        """Estimate the coefficients of the terms that a release's combinations are made of.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        EstimateTable
            In raw units, with the release's noise as it was. With fewer combinations than terms they are those of the
            best linear prediction that these combinations can make.

        Raises
        ------
        EstimationError
            When the fit is of no combinations; see `CombinedRows`.
        """
        return estimate_combined(self._results_of(target), level)

    def anova(self, target: str | None = None) -> AnovaTable:
        """Test each column given all others: analysis of variance, or of covariance, of type III.

        Parameters
        ----------
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        AnovaTable
            One row for each column: F, its degrees of freedom and its p-value, privacy noise included.
        """
        return anova_table(self._results_of(target))

    def heterogeneity_test(self, target: str | None = None) -> HeterogeneityTest:
        """Test that all releases of the fit have the same coefficients. Raise `EstimationError` for one release."""
        return heterogeneity_test(self._results_of(target).equations)

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
        return self._results_of(target).identification(level)

    @takes_level
    def summary(self, level: float = 0.95, target: str | None = None, bound: Bound | None = None) -> Summary:
        """Return a table of coefficients with the quality of the fit and warnings; HTML in notebooks.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.
        bound : float or mapping of str to float, optional
            As for `conf_int`, whose intervals under it are shown. Default none.

        Returns
        -------
        Summary
            Printed, it is text.
        """
        found = summarise(repr(self), self._results_of(target), level, bound, self._spent())
        return replace(found, notes=(*found.notes, *self._own_notes()))

    def _own_notes(self) -> tuple[str, ...]:
        """Return what a summary says of this estimator alone."""
        return ()

    def _spent(self) -> str | None:
        """Return the privacy that was spent, where the fit rests on more than its releases."""
        return None

    @takes_level
    def caveats(self, level: float = 0.95, target: str | None = None) -> tuple[str, ...]:
        """Return what makes the fit less sure than its numbers look, as `summary` says it; empty where nothing does.

        Weak identification, releases that disagree, a target that seems to have been clipped to its bounds, standard
        errors that assume one residual variance, a posterior that is mostly the prior's.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        tuple of str
            A sentence for each.
        """
        results = self._results_of(target)
        posterior = posterior_warnings(results, results.solution.posterior)
        return (*warnings_of(results, level), *posterior, *self._own_caveats(results))

    def _own_caveats(self, results: TargetResults) -> list[str]:
        """Return what to say of this estimator alone."""
        return []

    @takes_level
    def tidy(self, level: float = 0.95) -> "pd.DataFrame":
        """Return a data frame with one row for each parameter and target. Needs pandas."""
        return tidy(type(self).__name__, self._all_results(), level)

    @takes_level
    def glance(self, level: float = 0.95) -> "pd.DataFrame":
        """Return a data frame with one row for each target: what the fit as a whole is worth. Needs pandas."""
        return glance(type(self).__name__, self._all_results(), level)

    def _all_results(self) -> tuple[TargetResults, ...]:
        self._check_fitted()
        return self.results_

    def _results_of(self, target: str | None) -> TargetResults:
        """Return the results of one target. Raise `ValueError` when it is not said which."""
        names = list(self.target_names_) if self._all_results() else []
        if target is None and len(names) > 1:
            raise ValueError(f"the fit has several targets: say which of {', '.join(names)}")
        if target is not None and target not in names:
            raise ValueError(f"the fit has no target {target!r}; it has {', '.join(names)}")
        return self.results_[0 if target is None else names.index(target)]
