"""Coefficients of a fit, how sure they are, and tests of terms and contrasts."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationWarning
from analyst_client.estimators.fitted import Fitted
from analyst_client.estimators.margins import Effect, effects_on_rows, estimate_margins, rows_of
from analyst_client.estimators.predicting import warn_beyond
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.base import Bound, IntervalMethod, Results, TestResult
from analyst_client.inference.caveats import bound_warnings
from analyst_client.inference.contrasts import (
    AnovaTable,
    Hypothesis,
    anova_table,
    estimate_combined,
    estimate_contrasts,
    estimate_powers,
    joint_test,
    read_constraints,
)
from analyst_client.inference.estimates import EstimateTable
from analyst_client.inference.multiplicity import Family
from analyst_client.inference.named import NamedNumbers
from analyst_client.inference.score import ConfidenceSet
from analyst_client.kinds.gram.design import matrix_of
from analyst_client.level import takes_level


class Inferring(Fitted):
    """The part of a fit that tells how sure coefficients are."""

    @property
    def param_names_(self) -> NDArray[np.object_]:
        """Names of the P parameters that inference is about: the constant, if there is one, and the terms.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.param_names_.tolist()
        ['(constant)', 'age', 'sex[M]', 'creatinine']
        """
        self._check_fitted()
        return np.array(self.results_[0].names, dtype=object)

    @property
    def params_(self) -> FloatArray:
        """The parameters in raw units, of shape (P,) or (T, P): the intercept, if there is one, and `coef_`.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.params_.round(3).tolist()
        [-0.819, 0.018, -0.073, 1.052]
        """
        return self._of_each_target(lambda results: results.params)

    @property
    def std_errors_(self) -> FloatArray:
        """Standard errors of `params_`, of shape (P,) or (T, P): sampling and privacy noise.

        Of a generalised fit they are robust wherever Σ g gᵀ was bought, unless its `robust` says otherwise. Infinite
        where noise could hide the information on a parameter.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.std_errors_.round(3).tolist()
        [0.13, 0.002, 0.041, 0.094]
        """
        return self._of_each_target(lambda results: results.std_errors)

    @property
    def params(self) -> NamedNumbers:
        """`params_` of the one target by name: ``fit.params["age"]``. Raise `ValueError` where there are several.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> round(fit.params["age"], 4)
        0.0175
        """
        return self._named("coef", lambda results: results.params)

    @property
    def bse(self) -> NamedNumbers:
        """`std_errors_` of the one target by name. Raise `ValueError` where there are several.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> round(fit.bse["age"], 4)
        0.0017
        """
        return self._named("std err", lambda results: results.std_errors)

    @property
    def pvalues(self) -> NamedNumbers:
        """`pvalues_` of the one target by name. Raise `ValueError` where there are several.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> round(fit.pvalues["sex[M]"], 2)
        0.07
        """
        return self._named("p", lambda results: results.pvalues)

    def _named(self, meaning: str, read: Callable[[Any], Any]) -> NamedNumbers:
        results = self._only_results()
        return NamedNumbers(meaning, results.target.name, results.names, read(results))

    def cov_params(self) -> FloatArray:
        """Return the covariance of `params_`, of shape (P, P) or (T, P, P): sampling and privacy noise.

        Infinite on its diagonal, and 0 beside it, where a standard error is infinite.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.cov_params().shape
        (4, 4)
        """
        return self._of_each_target(lambda results: results.cov_params())

    @property
    def pvalues_(self) -> FloatArray:
        """P-values of each parameter being 0, of shape (P,) or (T, P).

        Of linear fits from the statistic that intervals invert, of generalised ones from Wald's. NaN where there is no
        test: an interval of a generalised fit has no end, or the fit has no test of its constant.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.pvalues_.round(3).tolist()
        [0.0, 0.0, 0.07, 0.0]
        """
        return self._of_each_target(lambda results: results.pvalues)

    @takes_level
    def conf_int(
        self,
        level: float = 0.95,
        method: IntervalMethod | None = None,
        bound: Bound | None = None,
        *,
        simultaneous: bool | Family = False,
    ) -> FloatArray:
        r"""Return confidence intervals of the true coefficients, privacy noise included.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        method : str, optional
            Default ``"posterior"`` of Bayesian fits, ``"delta"`` of generalised ones, which have no other, and
            ``"fieller"`` of the rest. ``"fieller"`` inverts the score test: the stated coverage whatever the noise,
            unbounded where the data do not say more. ``"delta"`` is a quantile of the standard error to each side of
            the estimate: of a linear fit it takes the noise in XᵀX as small, and the estimator as unbiased; of a
            generalised one an interval has no end where the standard error is infinite. ``"bootstrap"`` refits least
            squares under fresh noise. ``"posterior"`` are credible intervals: the estimator's own where it has a
            posterior, else those of `BayesianRegression` with its default prior and a fixed seed. ``"random-effects"``
            are of the mean over hospitals that differ: of a meta-analysis of their own fits.
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
            When the release lacks what this needs: yᵀy, the noise, or a constant. When the fit has no such intervals,
            or no coefficients within the bound agree with the release.
        ValueError
            When there is no such method or family, or a bound goes with another method.

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

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.conf_int().round(3).tolist()
        [[-1.074, -0.565], [0.014, 0.021], [-0.153, 0.006], [0.869, 1.236]]
        """
        found = self._of_each_target(lambda results: results.conf_int(level, method, bound, simultaneous))
        for results, intervals in zip(self.results_, found.reshape(len(self.results_), -1, 2), strict=True):
            doubts = self._doubts(results, level, results.method_of(method, bound))
            for text in [*bound_warnings(results.names, intervals), *doubts]:
                warn_caller(text, EstimationWarning)
        return found

    def _doubts(self, results: Any, level: float, method: IntervalMethod) -> Iterable[str]:
        """Return what to warn of where intervals of a method are asked for."""
        return ()

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

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.adjusted_pvalues().round(3).tolist()
        [0.0, 0.0, 0.07, 0.0]
        """
        return self._of_each_target(lambda results: results.adjusted_pvalues(family))

    # Tests of terms and contrasts.

    @takes_level
    def confidence_sets(self, level: float = 0.95, target: str | None = None) -> dict[str, ConfidenceSet]:
        """Return the confidence set of each parameter by name; unlike `conf_int`, with its gap where it has one.

        Parameters
        ----------
        level, target : optional
            As for `table`.

        Returns
        -------
        dict of str to ConfidenceSet
            Raw units: an interval, two rays with a gap between them, or the whole line.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> found = fit.confidence_sets()["age"]
        >>> found.kind, round(found.lower, 4), round(found.upper, 4)
        ('interval', 0.0142, 0.0209)
        """
        results = self._results_of(target)
        return dict(zip(results.names, results.confidence_sets(level), strict=True))

    def test(self, hypothesis: Hypothesis | None = None, *, target: str | None = None) -> TestResult:
        """Test linear constraints on the coefficients together: in score form, or by Wald of generalised fits.

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

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> print(fit.test("age = 0, sex[M] = 0"))
        age = 0, sex[M] = 0
        ────────────────────
        F(2, 6,456)  59.17
        p            < 0.001
        """
        results = self._results_of(target)
        return results.f_test() if hypothesis is None else joint_test(results, read_constraints(hypothesis, results))

    def f_test(self, hypothesis: Hypothesis | None = None, *, target: str | None = None) -> TestResult:
        """Return the same as `test`, by the name that it has in statsmodels.

        Parameters
        ----------
        hypothesis : str, sequence of str, or array-like of shape (q, P), optional
            As for `test`.
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        TestResult
            Sampling error and privacy noise included.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> print(fit.f_test("age = 0"))
        age = 0
        ────────────────────
        F(1, 6,456)  100.4
        p            < 0.001
        """
        return self.test(hypothesis, target=target)

    @takes_level
    def t_test(self, hypothesis: Hypothesis, level: float = 0.95, *, target: str | None = None) -> EstimateTable:
        """Estimate contrasts of the coefficients, and test each by itself.

        Parameters
        ----------
        hypothesis : str, sequence of str, or array-like of shape (q, P)
            As for `test`, such as ``"site[B] - site[C] = 0"``.
        level, target : optional
            As for `table`.

        Returns
        -------
        EstimateTable
            One row for each constraint: the contrast, its interval, and the p-value of its hypothesis.

        Raises
        ------
        ValueError
            When a hypothesis is no linear constraint, or constraints repeat or contradict one another.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> ten_years = fit.t_test("10 * age")["10 * age"]
        >>> round(ten_years.value, 3), ten_years.interval
        (0.175, '[0.1416, 0.2089]')
        """
        results = self._results_of(target)
        return estimate_contrasts(results, read_constraints(hypothesis, results), level, self._test_notes(results))

    @takes_level
    def raw_powers(self, level: float = 0.95, *, target: str | None = None) -> EstimateTable:
        """Estimate the coefficients of raw powers, and of their products, that the terms of the fit amount to.

        Legendre polynomials and products are multiplied out: an exact linear map of the same fit.

        Parameters
        ----------
        level, target : optional
            As for `table`.

        Returns
        -------
        EstimateTable
            One row for each power, such as ``age^2`` or ``age^2:sex[M]``; levels and splines stand as they are.

        Examples
        --------
        >>> from analyst_client import OLS
        >>> from analyst_client.terms import poly
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("methods")
        >>> options = {"target": "kappa", "rows": "box", "epsilon": 0.5, "delta": 1e-6}
        >>> release = client.release("flchain", [poly("age", 2), "sex"], **options)
        >>> [estimate.label for estimate in OLS().fit(release).raw_powers()]
        [('(constant)',), ('age',), ('age^2',), ('sex[M]',)]
        """
        results = self._results_of(target)
        return estimate_powers(results, level, self._test_notes(results))

    @takes_level
    def combined_terms(self, level: float = 0.95, *, target: str | None = None) -> EstimateTable:
        """Estimate the coefficients of the terms that a release's combinations are made of.

        Parameters
        ----------
        level, target : optional
            As for `table`.

        Returns
        -------
        EstimateTable
            In raw units, with the release's noise as it was. With fewer combinations than terms they are those of the
            best linear prediction that these combinations can make.

        Raises
        ------
        EstimationError
            When the fit is of no combinations; see `CombinedRows`.

        Examples
        --------
        >>> from analyst_client import OLS
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> refinement = client.refine("flchain", ["age", "sex", "creatinine"], target="kappa", epsilon=1.0, delta=1e-6)
        >>> release = refinement.releases[7]  # of combinations that earlier steps suggested
        >>> [estimate.label for estimate in OLS().fit(release).combined_terms()]
        [('(constant)',), ('age',), ('sex[M]',), ('creatinine',)]
        """
        results = self._results_of(target)
        return estimate_combined(results, level, self._test_notes(results))

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

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> table = fit.anova()
        >>> [(row.source, round(row.test.pvalue, 2)) for row in table.rows]
        [('age', 0.0), ('sex', 0.07), ('creatinine', 0.0)]
        """
        results = self._results_of(target)
        return anova_table(results, self._test_notes(results))

    @takes_level
    def margins(self, X: Any = None, level: float = 0.95, *, target: str | None = None) -> EstimateTable:
        r"""Estimate average marginal effects: the change of the expected target by a unit, or by another level.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_), optional
            Rows of your own to average over, as for `predict`. Default what the releases tell of all their rows: for a
            fit without products and functions of columns.
        level, target : optional
            As for `table`.

        Returns
        -------
        EstimateTable
            One row for each column and contrast, with sampling error and privacy noise: ``fit.margins()["age", "per
            unit"]`` and ``fit.margins()["sex", "M - F"]``. In units of the target: of a class in probability, of
            counts in expected ones.

        Raises
        ------
        EstimationError
            When the fit has no intervals, or no averages without rows.
        ValueError
            As `predict` does of `X`.

        Warns
        -----
        BoundsWarning
            When a value of `X` is beyond the public bounds of its column: it counts as the bound.

        Notes
        -----
        A number's effect is the mean over rows of the derivative; a level's is the mean change where every row has that
        level in place of the first. In a linear fit these are linear in the coefficients, and have intervals as in
        `t_test`. In a generalised fit intervals are by the delta method. Rows are taken as they are: intervals do not
        hold that other rows might have come.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> effect = fit.margins()["sex", "M - F"]
        >>> round(effect.value, 3)
        -0.073
        """
        results = self._results_of(target).told
        if X is None:
            effects, said = self._average(results)
        else:
            warn_beyond(X, self.columns_)
            rows = rows_of(X, self.columns_)

            def design(coded: Any) -> FloatArray:
                terms = results.combined or self.terms_
                return self._mapped(matrix_of(coded, self.columns_, terms), results)

            effects = effects_on_rows(results, self.columns_, rows, design, partial(self._respond, results))
            said = "Averages are over the rows that were given."
        return estimate_margins(results, tuple(effects), level, (*self._test_notes(results), said))

    @abstractmethod
    def _mapped(self, matrix: FloatArray, first: Results) -> FloatArray:
        """Return the rows on which the fit is linear, of scaled terms."""

    @abstractmethod
    def _respond(self, results: Any, index: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the expected targets of linear predictors in raw units, and how fast they grow."""

    @abstractmethod
    def _average(self, results: Any) -> tuple[Iterable[Effect], str]:
        """Return average marginal effects over the rows of the releases, and a note on the average."""
