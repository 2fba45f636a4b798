"""The base of all estimators: hyper-parameters, coefficients in raw units, predictions."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import BoundsWarning, EstimationError, EstimationWarning
from analyst_client.estimators.mixins import InferenceMixin
from analyst_client.estimators.plausibility import check_plausible
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.agreement import SiteError, site_error
from analyst_client.inference.equations import Equations
from analyst_client.inference.multiplicity import note_model
from analyst_client.inference.pooling import own_equations, pool, without_site
from analyst_client.inference.posterior import CoefficientDraws
from analyst_client.inference.prediction import mean_intervals, value_intervals
from analyst_client.inference.results import Solution, TargetResults
from analyst_client.inference.summary import agreement_warnings, bias_warnings, posterior_warnings
from analyst_client.inference.units import raw_units
from analyst_client.kinds.gram.design import design_matrix, map_rows, values_beyond
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level
from analyst_client.schema.columns import Column, Term, stored_columns


class Estimator:
    """Hyper-parameters after the conventions of scikit-learn, which is not imported before it asks.

    Its `clone`, `is_regressor`, `is_classifier`, `check_is_fitted` and a `Pipeline` that ends in an estimator work.
    """

    _estimator_type: ClassVar[str] = "regressor"  # by which scikit-learn below 1.6 tells

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what kind of estimator this is, and that `fit` takes no y: a release holds it."""
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags  # noqa: PLC0415 -- its caller has it

        is_regressor = self._estimator_type == "regressor"
        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=False),
            regressor_tags=RegressorTags() if is_regressor else None,
            classifier_tags=None if is_regressor else ClassifierTags(multi_class=False),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether `fit` has run."""
        return hasattr(self, "feature_names_in_")

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
        """Show the hyper-parameters that are not the default."""
        defaults = {name: parameter.default for name, parameter in inspect.signature(type(self)).parameters.items()}
        changed = [
            f"{name}={value!r}" for name, value in self.get_params().items() if repr(value) != repr(defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


class LinearFit(Estimator, InferenceMixin, ABC):
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
        Row map of the curator. Under ``"unit"``, and under ``"unit_xy"`` with a constant, the model is linear in
        the scaled terms over their norm: `coef_` and `intercept_` then belong to those, and `predict` divides. Under
        ``"linear"`` they belong to combinations of scaled terms, see `CombinedRows`, and `predict` combines:
        `combined_terms` has the coefficients of the terms.
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
    combined_: tuple[Term, ...]
    combinations_: FloatArray | None
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
        features: Sequence[str] | None = None,
        rows: float | Sequence[float] | None = None,
    ) -> Self:
        """Fit on a release, or on several that tell of the same terms: each is weighted by its noise.

        Parameters
        ----------
        releases : Release or sequence of Release
            One for each hospital; bounds, scalings and noise may differ. See `analyst_client.inference.pooling.pool`.
        target : str, optional
            One of the targets, or of the features. Default all targets.
        features : sequence of str, optional
            Columns that explain, at no further cost. Default all but the target; see `Release.select`.
        rows : float or sequence of float, optional
            Number of rows of each release, for inference where it has no constant to tell.

        Returns
        -------
        Self
            The estimator, fitted.

        Raises
        ------
        EstimationError
            When the releases do not determine the fit, or one of them cannot be sums over rows.
        ValueError
            When a hyper-parameter is out of range, there is no such target, or releases do not fit together.

        Warns
        -----
        EstimationWarning
            When a posterior is mostly the prior's, or its chains have not mixed. When releases do not tell of the same
            coefficients, or the target took part in the weights of the rows. See also `caveats`.
        """
        pooled = pool(releases, target, rows, features)
        for equations in pooled:
            check_plausible(equations)
        self._fit_equations(pooled)
        return self

    def _fit_equations(self, pooled: Sequence[Equations]) -> None:
        """Solve the equations of each target, and set all attributes. Warn as `fit` does."""
        first = pooled[0]
        results, found = [], []
        for equations in pooled:
            names = [term.name for term in equations.terms]
            note_model((site.release for site in equations.sites), equations.target.name, names)
            results.append(TargetResults(equations, self._solve(equations)))
            found.append([getattr(self, name) for name in self._target_attributes])
        self.results_, self.fitted_params_ = tuple(results), self.get_params()
        if len(pooled) > 1:
            for name, values in zip(self._target_attributes, zip(*found, strict=True), strict=True):
                setattr(self, name, np.array(values))
        self.columns_, self.terms_ = first.columns, first.terms
        self.combined_, self.combinations_ = first.combined, first.combinations
        self.targets_ = tuple(equations.target for equations in pooled)
        self.feature_names_in_ = np.array([column.name for column in stored_columns(first.columns)], dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.target_names_ = np.array([term.name for term in self.targets_], dtype=object)
        self.term_names_ = np.array([term.name for term in first.terms[int(first.has_constant) :]], dtype=object)
        self.row_map_ = first.row_map
        scaled = np.array([results.solution.theta for results in self.results_])
        raw = np.array([self._in_raw_units(results) for results in self.results_])
        several = len(pooled) > 1
        self.scaled_coef_ = scaled if several else scaled[0]
        self.coef_ = raw[:, 1:] if several else raw[0, 1:]
        self.intercept_ = raw[:, 0] if several else float(raw[0, 0])
        for fitted in self.results_:
            hospitals = fitted.equations.hospitals or fitted.equations  # public rows may differ, and are anchored
            drawn = fitted.solution.posterior
            said = posterior_warnings(fitted, drawn) if isinstance(drawn, CoefficientDraws) else []
            for text in said + agreement_warnings(hospitals) + bias_warnings(fitted.equations):
                warn_caller(text, EstimationWarning)

    @staticmethod
    def _in_raw_units(results: TargetResults) -> FloatArray:
        equations = results.equations
        L, constant = raw_units(equations.terms, equations.target, equations.row_map)
        raw: FloatArray = L @ results.solution.theta + constant
        return raw

    def _design(self, X: Any, clip: bool | None) -> FloatArray:
        """Return the rows on which the fit is linear, of shape (n, D); see `predict`."""
        self._check_fitted()
        matrix = coded_rows(X, self.columns_, self.combined_ or self.terms_, clip)
        if self.combinations_ is not None:
            return matrix @ self.combinations_
        return map_rows(matrix, self.terms_, self.row_map_)

    def predict(self, X: Any, clip: bool | None = None) -> FloatArray:
        """Predict targets in their raw units.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            Raw units. Columns of a frame are found by name and others ignored; those of an array stand in the
            order of `feature_names_in_`.
        clip : bool, optional
            Clip numeric values to their public bounds, as the curator did; False extrapolates linearly. Default clip,
            and warn where that changes a value.

        Returns
        -------
        ndarray of shape (n,) or (n, T)
            NaN for a row that misses a column declared `omit` or `complete`.

        Raises
        ------
        ValueError
            When a column is absent, a level unknown or a value no number.

        Warns
        -----
        BoundsWarning
            When values were clipped and `clip` is not stated.
        """
        matrix = self._design(X, clip)
        center = np.array([term.center for term in self.targets_])
        scale = np.array([term.scale for term in self.targets_])
        predicted: FloatArray = center + scale * (matrix @ np.atleast_2d(self.scaled_coef_).T)
        return predicted if len(self.targets_) > 1 else predicted[:, 0]

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return R², averaged over targets; rows are clipped and left out as at the curator.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            As for `predict`.
        y : array-like of shape (n,) or (n, T)
            Raw units.

        Returns
        -------
        float
            At most 1; negative where the mean of `y` predicts better.

        Raises
        ------
        ValueError
            When `X` and `y` have other numbers of rows, or the known values of a target do not differ.
        """
        predicted = np.reshape(self.predict(X, clip=True), (-1, len(self.targets_)))
        observed = np.reshape(np.asarray(y, dtype=np.float64), (-1, len(self.targets_)))
        if len(observed) != len(predicted):
            raise ValueError(f"X has {len(predicted)} rows and y {len(observed)}")
        known = ~np.isnan(predicted + observed).any(axis=1)
        residual = np.sum((observed[known] - predicted[known]) ** 2, axis=0)
        total = np.sum((observed[known] - observed[known].mean(axis=0)) ** 2, axis=0)
        if not known.any() or not np.all(total > 0.0):
            raise ValueError("R² needs values of y that differ")
        return float(np.mean(1.0 - residual / total))

    @takes_level
    def predict_interval(
        self, X: Any, level: float = 0.95, *, mean: bool = False, clip: bool | None = None
    ) -> FloatArray:
        """Return intervals that hold new values of the target with the stated probability, privacy noise included.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            As for `predict`.
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        mean : bool
            Intervals for the mean at each row instead of a new value.
        clip : bool, optional
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
        matrix = self._design(X, clip)
        known = ~np.isnan(matrix).any(axis=1)
        found = np.full((len(matrix), len(self.results_), 2), np.nan)
        for t, (results, target) in enumerate(zip(self.results_, self.targets_, strict=True)):
            center, half = (mean_intervals if mean else value_intervals)(results, matrix[known], level)
            center = np.where(np.isfinite(half), center, 0.0)
            ends = np.column_stack([center - half, center + half])
            found[known, t] = target.center + target.scale * ends
        return found if len(self.targets_) > 1 else found[:, 0]

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


def coded_rows(X: Any, columns: Sequence[Column], terms: Sequence[Term], clip: bool | None) -> FloatArray:
    """Return rows as scaled terms, of shape (n, D), and warn where `clip` is not stated and changes a value."""
    if clip is None and (beyond := values_beyond(X, columns)):
        warn_caller(
            f"{'; '.join(beyond)}: they count as the bound, as they do at the curator. clip=True says that this is "
            "meant, and clip=False extrapolates",
            BoundsWarning,
        )
    return design_matrix(X, columns, terms, clip is not False)
