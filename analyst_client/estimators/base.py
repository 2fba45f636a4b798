"""What all estimators share: hyper-parameters, coefficients in raw units, predictions."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst_client.columns import Column, Term
from analyst_client.design import design_matrix, map_rows
from analyst_client.errors import EstimationError
from analyst_client.inference.agreement import HeterogeneityTest, SiteError, heterogeneity_test, site_error
from analyst_client.inference.equations import Equations
from analyst_client.inference.pooling import own_equations, pool, without_site
from analyst_client.inference.prediction import mean_intervals, value_intervals
from analyst_client.inference.results import Identification, IntervalMethod, Solution, TargetResults, TestResult
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.summary import Summary, glance, summarise, tidy
from analyst_client.inference.units import raw_units
from analyst_client.release import Release

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]


class Estimator:
    """Hyper-parameters after the conventions of scikit-learn, whose `clone` works on them; it is not imported."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set hyper-parameters by name. Raise `ValueError` for an unknown one."""
        for name, value in params.items():
            if name not in self._parameter_names():
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def __repr__(self) -> str:
        """Show the hyper-parameters."""
        values = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({values})"


class LinearFit(Estimator, ABC):
    """A linear regression fitted on a release.

    Attributes
    ----------
    coef_ : ndarray of shape (D',) or (T, D')
        Raw units, one for each term beside the constant; one row per target when the fit has several.
    intercept_ : float or ndarray of shape (T,)
    scaled_coef_ : ndarray of shape (D,) or (T, D)
        The solution itself, in scaled units, the constant included.
    penalty_ : float or ndarray of shape (T,)
        λ, in units of the scaled XᵀX.
    feature_names_in_ : ndarray of str
        Raw columns, in the order in which `predict` takes those of an array.
    n_features_in_ : int
    term_names_ : ndarray of str, of shape (D',)
        Names of the coefficients.
    target_names_ : ndarray of str, of shape (T,)
    results_ : tuple of TargetResults
        Inference, target by target.
    row_map_ : str or None
        How the curator mapped rows. Under ``"unit"``, and under ``"unit_xy"`` with a constant, the model is linear in
        the scaled terms over their norm: `coef_` and `intercept_` then belong to those, and `predict` divides.
    """

    _target_attributes: ClassVar[tuple[str, ...]] = ("penalty_",)  # one for each target where there are several

    coef_: FloatArray
    intercept_: "float | FloatArray"
    scaled_coef_: FloatArray
    penalty_: "float | FloatArray"
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int
    term_names_: NDArray[np.object_]
    target_names_: NDArray[np.object_]
    columns_: tuple[Column, ...]
    terms_: tuple[Term, ...]
    targets_: tuple[Term, ...]
    row_map_: str | None
    results_: tuple[TargetResults, ...]
    fitted_params_: dict[str, Any]

    @abstractmethod
    def _solve(self, equations: Equations) -> Solution:
        """Solve the equations of one target, and set the attributes of the fit."""

    def fit(
        self,
        releases: Release | Sequence[Release],
        target: str | None = None,
        *,
        rows: float | Sequence[float] | None = None,
    ) -> Self:
        """Fit on a release, or on several that tell of the same terms: each is weighted by its noise.

        Parameters
        ----------
        releases : Release or sequence of Release
            One for each hospital; bounds, scalings and noise may differ. See `analyst_client.inference.pooling.pool`.
        target : str, optional
            One of the targets. Default all.
        rows : float or sequence of float, optional
            How many rows each release has, for inference where it has no constant to tell.

        Returns
        -------
        Self

        Raises
        ------
        EstimationError
            When the releases do not determine the fit.
        ValueError
            When a hyper-parameter is out of range, there is no such target, or releases do not fit together.
        """
        pooled = pool(releases, target, rows)
        first = pooled[0]
        results, found = [], []
        for equations in pooled:
            results.append(TargetResults(equations, self._solve(equations)))
            found.append([getattr(self, name) for name in self._target_attributes])
        self.results_, self.fitted_params_ = tuple(results), self.get_params()
        if len(pooled) > 1:
            for name, values in zip(self._target_attributes, zip(*found, strict=True), strict=True):
                setattr(self, name, np.array(values))
        self.columns_, self.terms_ = first.columns, first.terms
        self.targets_ = tuple(equations.target for equations in pooled)
        self.feature_names_in_ = np.array([column.name for column in first.columns], dtype=object)
        self.n_features_in_ = len(first.columns)
        self.target_names_ = np.array([term.name for term in self.targets_], dtype=object)
        self.term_names_ = np.array([term.name for term in first.terms[int(first.has_constant) :]], dtype=object)
        self.row_map_ = first.row_map
        scaled = np.array([results.solution.theta for results in self.results_])
        raw = np.array([self._in_raw_units(results) for results in self.results_])
        several = len(pooled) > 1
        self.scaled_coef_ = scaled if several else scaled[0]
        self.coef_ = raw[:, 1:] if several else raw[0, 1:]
        self.intercept_ = raw[:, 0] if several else float(raw[0, 0])
        return self

    @staticmethod
    def _in_raw_units(results: TargetResults) -> FloatArray:
        equations = results.equations
        L, constant = raw_units(equations.terms, equations.target, equations.row_map)
        raw: FloatArray = L @ results.solution.theta + constant
        return raw

    def predict(self, X: Any, clip: bool = True) -> FloatArray:
        """Predict targets in their raw units.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            Raw units. Columns of a frame are found by name and others ignored; those of an array stand in the
            order of `feature_names_in_`.
        clip : bool
            Clip numeric values to their public bounds, as the curator did; False extrapolates linearly.

        Returns
        -------
        ndarray of shape (n,) or (n, T)
            NaN for a row that misses a column declared `omit` or `complete`.

        Raises
        ------
        ValueError
            When a column is absent, a level unknown or a value no number.
        """
        self._check_fitted()
        matrix = map_rows(design_matrix(X, self.columns_, self.terms_, clip), self.terms_, self.row_map_)
        center = np.array([term.center for term in self.targets_])
        scale = np.array([term.scale for term in self.targets_])
        predicted: FloatArray = center + scale * (matrix @ np.atleast_2d(self.scaled_coef_).T)
        return predicted if len(self.targets_) > 1 else predicted[:, 0]

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return R², averaged over targets; rows without a prediction or without y are left out, as at the curator.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
        y : array-like of shape (n,) or (n, T)
            Raw units.
        """
        predicted = np.reshape(self.predict(X), (-1, len(self.targets_)))
        observed = np.reshape(np.asarray(y, dtype=np.float64), (-1, len(self.targets_)))
        if len(observed) != len(predicted):
            raise ValueError(f"X has {len(predicted)} rows and y {len(observed)}")
        known = ~np.isnan(predicted + observed).any(axis=1)
        residual = np.sum((observed[known] - predicted[known]) ** 2, axis=0)
        total = np.sum((observed[known] - observed[known].mean(axis=0)) ** 2, axis=0)
        if not known.any() or not np.all(total > 0.0):
            raise ValueError("R² needs values of y that differ")
        return float(np.mean(1.0 - residual / total))

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

    def conf_int(self, alpha: float = 0.05, method: IntervalMethod = "fieller") -> FloatArray:
        r"""Return confidence intervals of the true coefficients, privacy noise included.

        Parameters
        ----------
        alpha : float
            1 less the coverage, in (0, 1).
        method : str
            ``"fieller"`` inverts the score test: the stated coverage whatever the noise, unbounded where the data do
            not say more. ``"delta"`` takes the noise in XᵀX as small, and the estimator as unbiased. ``"bootstrap"``
            refits least squares under fresh noise. ``"posterior"`` are credible intervals: the estimator's own where
            it has a posterior, else those of `BayesianRegression` with its default prior and a fixed seed.

        Returns
        -------
        ndarray of shape (P, 2) or (T, P, 2)
            Raw units; infinite where an interval is unbounded.

        Raises
        ------
        EstimationError
            When the release lacks what this needs: yᵀy, the noise, or a constant.
        """
        found: FloatArray = self._of_each_target(lambda results: results.conf_int(alpha, method))
        return found

    def predict_interval(self, X: Any, alpha: float = 0.05, *, mean: bool = False, clip: bool = True) -> FloatArray:
        """Return intervals that hold new values of the target with the stated probability, privacy noise included.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            As for `predict`.
        alpha : float
            1 less the coverage, in (0, 1).
        mean : bool
            Intervals for the mean at each row instead of a new value.
        clip : bool
            As for `predict`.

        Returns
        -------
        ndarray of shape (n, 2) or (n, T, 2)
            Raw units; NaN for a row without a prediction, infinite where the data do not bound it.

        Raises
        ------
        EstimationError
            When the release lacks what this needs: yᵀy, the noise, or a constant.
        """
        self._check_fitted()
        matrix = map_rows(design_matrix(X, self.columns_, self.terms_, clip), self.terms_, self.row_map_)
        known = ~np.isnan(matrix).any(axis=1)
        found = np.full((len(matrix), len(self.results_), 2), np.nan)
        for t, (results, target) in enumerate(zip(self.results_, self.targets_, strict=True)):
            center, half = (mean_intervals if mean else value_intervals)(results, matrix[known], alpha)
            center = np.where(np.isfinite(half), center, 0.0)
            ends = np.column_stack([center - half, center + half])
            found[known, t] = target.center + target.scale * ends
        return found if len(self.targets_) > 1 else found[:, 0]

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

    @property
    def privacy_share(self) -> FloatArray:
        """Share of each parameter's variance that is privacy noise, 0 to 1, of shape (P,) or (T, P)."""
        found: FloatArray = self._of_each_target(lambda results: results.privacy_share)
        return found

    @property
    def vif(self) -> FloatArray:
        """Variance inflation factor of each term beside the constant, of shape (D',): NaN where the noise hides it."""
        self._check_fitted()
        return self.results_[0].vif

    @property
    def rsquared(self) -> float | FloatArray:
        """R² of the model, corrected for the privacy noise; see `rsquared_interval`."""
        found: float | FloatArray = self._of_each_target(lambda results: results.rsquared)
        return found

    def rsquared_interval(self, alpha: float = 0.05) -> FloatArray:
        """Return a confidence interval of R², of shape (2,) or (T, 2)."""
        found = self._of_each_target(lambda results: results.rsquared_interval(alpha))
        return np.asarray(found, dtype=np.float64)

    @property
    def scale(self) -> float | FloatArray:
        """Residual variance, in squared units of the target; corrected for the privacy noise."""
        found: float | FloatArray = self._of_each_target(lambda results: results.scale)
        return found

    def confidence_sets(self, alpha: float = 0.05, target: str | None = None) -> dict[str, ConfidenceSet]:
        """Return the confidence set of each parameter by name; unlike `conf_int`, with its gap where it has one."""
        results = self._results_of(target)
        return dict(zip(results.names, results.confidence_sets(alpha), strict=True))

    def f_test(self, target: str | None = None) -> TestResult:
        """Test that no term beside the constant matters, in score form."""
        return self._results_of(target).f_test()

    def heterogeneity_test(self, target: str | None = None) -> HeterogeneityTest:
        """Test that all releases of the fit have the same coefficients. Raise `EstimationError` for one release."""
        return heterogeneity_test(self._results_of(target).equations)

    def leave_one_site_out(self, target: str | None = None) -> tuple[SiteError, ...]:
        """Fit on all releases but one, in turn, and return how well each fit predicts the one left out.

        No rows are needed: a release tells the squared error of any coefficients over its own rows, with noise of
        known size. Raise `EstimationError` for one release.
        """
        equations = self._results_of(target).equations
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

    def identification(self, alpha: float = 0.05, target: str | None = None) -> Identification:
        """Say how far the data outweigh the noise, and what would bound the intervals."""
        return self._results_of(target).identification(alpha)

    def summary(self, alpha: float = 0.05, target: str | None = None) -> Summary:
        """Return a table of coefficients, what the fit is worth, and what to beware of; HTML in notebooks."""
        return summarise(repr(self), self._results_of(target), alpha)

    def tidy(self, alpha: float = 0.05) -> "pd.DataFrame":
        """Return a data frame with one row for each parameter and target. Needs pandas."""
        return tidy(type(self).__name__, self._all_results(), alpha)

    def glance(self, alpha: float = 0.05) -> "pd.DataFrame":
        """Return a data frame with one row for each target: what the fit as a whole is worth. Needs pandas."""
        return glance(type(self).__name__, self._all_results(), alpha)

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
