"""The base of all estimators: hyper-parameters, and what every fit tells, whatever it was fitted on."""

import inspect
import os
import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst_client.arrays import FloatArray
from analyst_client.display.figures import draw
from analyst_client.display.latex import as_latex
from analyst_client.display.model import Note, View, table
from analyst_client.errors import BoundsWarning, EstimationError, EstimationWarning
from analyst_client.estimators.margins import Effect, effects_on_rows, estimate_margins, rows_of
from analyst_client.estimators.saving import SavedFit, Source
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.base import Bound, IntervalMethod, Results, TestResult
from analyst_client.inference.caveats import bound_text, bound_warnings
from analyst_client.inference.contrasts import (
    AnovaTable,
    Hypothesis,
    anova_table,
    coefficient_table,
    estimate_combined,
    estimate_contrasts,
    estimate_powers,
    joint_test,
    read_constraints,
)
from analyst_client.inference.estimates import EstimateTable, exponentials, exponentiated, warned
from analyst_client.inference.multiplicity import Family
from analyst_client.inference.named import NamedNumbers
from analyst_client.inference.pooling import as_releases
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.summary import (
    FAMILY_NOTE,
    Summary,
    bounds,
    load_pandas,
    numbers,
    p_columns,
    p_text,
    percent_of,
)
from analyst_client.kinds.gram.design import design_matrix, matrix_of, values_beyond
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import suggests_arguments
from analyst_client.ledger.files import replace_file
from analyst_client.level import takes_level
from analyst_client.refinement.refinement import Refinement
from analyst_client.schema.columns import Column, Term

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")
Releases = Release | Sequence[Release]
Features = Sequence[str] | None
Rows = float | Sequence[float] | None
Columns = list[tuple[str, Sequence[str]]]
"""Columns of a summary with their heads."""
GLANCE = (
    *("r_squared", "adj_r_squared", "r_squared_low", "r_squared_high", "sigma"),
    *("statistic", "p_value", "df", "df_residual", "nobs", "identification"),
)
"""Columns of `Fit.glance` that are numbers: broom's, with the interval of R² and the strength of the data."""
ELSEWHERE = {
    "stderr": "std_errors_", "mse_resid": "scale_", "tvalues": "tidy()['statistic']",
    "as_latex": "to_latex()", "summary2": "summary()",
    "nobs": "glance()['nobs']", "df_resid": "glance()['df_residual']", "fvalue": "f_test()",
    "f_pvalue": "f_test()", "get_prediction": "predict(X, interval='mean')",
    "resid": "predict(X) of your own rows: those of the release stay with the curator",
    "fittedvalues": "predict(X) of your own rows: those of the release stay with the curator",
    "get_margeff": "margins()", "marginal_effects": "margins()", "odds_ratios": "tidy(exponentiate=True)",
    "wald_test": "test()", "compare_f_test": "test()", "to_frame": "tidy()", "summary_frame": "tidy()",
    "get_robustcov_results": "std_errors_: those of a refinement are robust wherever Σ g gᵀ was bought",
    "robust": "std_errors_: client.release(…, robust=True) and client.refine(…) buy robust ones of one model",
}  # fmt: skip
"""Members of statsmodels' results, and what is here in their place."""
OF_LIKELIHOOD = {"llf", "loglike", "llnull", "llr", "llr_pvalue", "aic", "bic", "prsquared", "compare_lr_test"}
"""Members of statsmodels' results that need the rows."""
OF_CLASS = {"load": "load_fit(path) reads a fit", "from_formula": 'client.fit("…", data=…, epsilon=1) takes a formula'}
"""Members of statsmodels' classes, and what is here in their place."""


class EstimatorType(ABCMeta):
    """The type of estimators: a class names what is in the place of a member of other libraries' classes."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            """Raise `AttributeError`."""
            hint = f": {OF_CLASS[name]}" if name in OF_CLASS else ""
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{hint}", name=name, obj=cls)


def refuses_data(init: Callable[P, None]) -> Callable[P, None]:
    """Answer a formula or data in the place of hyper-parameters with what takes them."""

    @wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        if "data" in kwargs or "formula" in kwargs or any(map(_is_data, args[1:])):
            own = type(args[0]).__name__
            raise TypeError(
                f"{own}() takes no data: an estimator is fitted on a release, as {own}().fit(release); "
                'client.fit("…", data=…, epsilon=1) is the one call'
            )
        init(*args, **kwargs)

    return checked


def _is_data(value: object) -> bool:
    return isinstance(value, Sized | Release | Refinement) and not (isinstance(value, str) and "~" not in value)


class Estimator(metaclass=EstimatorType):
    """Hyper-parameters after the conventions of scikit-learn, which is not imported before it asks.

    Its `clone`, `is_regressor`, `is_classifier`, `check_is_fitted` and a `Pipeline` that ends in an estimator work.
    """

    _estimator_type: ClassVar[str] = "regressor"  # by which scikit-learn below 1.6 tells

    @refuses_data
    @suggests_arguments
    def __init__(self) -> None:
        """Take no hyper-parameters."""

    def __init_subclass__(cls) -> None:
        """Answer data, and an argument of another name with its own."""
        for name in ("__init__", "predict"):
            if name in vars(cls):
                setattr(cls, name, suggests_arguments(vars(cls)[name]))
        if "__init__" in vars(cls):
            cls.__init__ = refuses_data(cls.__init__)  # type: ignore[method-assign]

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
        """Return the hyper-parameters by name.

        Examples
        --------
        >>> from analyst_client import Ridge
        >>> Ridge(penalty=10.0).get_params()
        {'penalty': 10.0}
        """
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set hyper-parameters by name. Raise `ValueError` for an unknown one.

        Examples
        --------
        >>> from analyst_client import Ridge
        >>> Ridge().set_params(penalty=10.0)
        Ridge(penalty=10.0)
        """
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


class Fit(Estimator):
    """A model of one target or several, fitted on releases or on a refinement. All fits have the same members.

    A member that a fit cannot give raises `EstimationError` with the reason, and says what would have given it; a
    `summary` leaves it out, with the reason as a note. What is of residuals of a linear model, such as R², is a member
    of linear fits alone, what is of draws one of Bayesian fits, and classes have probabilities beside.

    Attributes
    ----------
    coef_ : ndarray of shape (D',) or (T, D')
        Raw units, one for each term beside the constant; one row per target when the fit has several. Of a generalised
        model on the scale of its link.
    intercept_ : float or ndarray of shape (T,)
    term_names_ : ndarray of str, of shape (D',)
        Names of the coefficients.
    target_names_ : ndarray of str, of shape (T,)
    feature_names_in_ : ndarray of str
        Raw columns, in the order in which `predict` takes those of an array.
    n_features_in_ : int
    columns_ : tuple of Column
    terms_, targets_ : tuple of Term
    results_ : tuple of Results
        Inference, target by target.
    choice_ : Choice
        Of `CuratorClient.fit` alone: the ways that there were, and the call that does the same.
    source_ : Source
        Releases or refinements, target, features and rows, as `fit` was given them.
    """

    _link: ClassVar[str] = ""
    """Words before the name of a target, on the scale of the coefficients."""
    _ratio: ClassVar[str] = ""
    """Of the exponential of a coefficient, where that has a meaning."""

    coef_: FloatArray
    intercept_: Any  # a float, or an array of several targets
    term_names_: NDArray[np.object_]
    target_names_: NDArray[np.object_]
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int
    columns_: tuple[Column, ...]
    terms_: tuple[Term, ...]
    targets_: tuple[Term, ...]
    row_map_: str | None
    results_: "tuple[Results, ...]"
    fitted_params_: dict[str, Any]
    choice_: Any
    source_: Source

    def fit(
        self,
        releases: Refinement | Releases | Sequence[Refinement] | Mapping[str, Release] | Mapping[str, Refinement],
        target: str | None = None,
        *,
        features: Features = None,
        rows: Rows = None,
    ) -> Self:
        """Fit on releases that tell of the same terms, each weighted by its noise; or on refinements.

        Parameters
        ----------
        releases : Release or Refinement, or sequence or mapping by name of either
            One for each hospital; bounds, scalings and noise may differ. Of releases see
            `analyst_client.inference.pooling.pool`. A refinement is of `CuratorClient.refine` or `Curators.refine` with
            the family of this model, or loaded; it has its target and features. Of several see
            `analyst_client.inference.combined.combine`.
        target : str, optional
            One of the targets, or of the features. Default all targets; `LogisticRegression` has one.
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
            When the releases do not determine the fit, one of them cannot be sums over rows, or they do not tell what
            the model needs. When the price of a refinement did not buy what the estimator cannot do without.
        ValueError
            When a hyper-parameter is out of range, there is no such target, or releases do not fit together. When the
            estimator is not for releases, or not for refinements, or not for one of this family; when a refinement is
            given with a target, features or rows.
        ServiceError
            When a refinement's releases are not those that its plan asks for.

        Warns
        -----
        EstimationWarning
            When a posterior is mostly the prior's, or its chains have not mixed. When releases do not tell of the same
            coefficients, or the target took part in the weights of the rows. When moments show that an approximation
            fails. See also `caveats`.

        Examples
        --------
        >>> from analyst_client import AdaSSP
        >>> from analyst_client.tutorial import REQUEST, recorded_client
        >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
        >>> AdaSSP().fit(release, features=["age", "lambda"]).coef_.round(3).tolist()
        [0.007, 0.706]
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # of a fit before
        if isinstance(releases, Iterator):
            releases = list(releases)
        if features is not None and not isinstance(features, str):
            features = list(features)
        refinements = as_refinements(releases)
        if not refinements:
            self._fit_releases(cast("Releases", releases), target, features, rows)
        elif any(one is not None for one in (target, features, rows)):
            raise ValueError("a refinement is of one target and its features: fit(refinement) takes nothing else")
        elif len(refinements) == 1:
            self._fit_refinement(*refinements.values())
        else:
            self._fit_refinements(refinements)
        whole: Any = refinements or (dict(releases) if isinstance(releases, Mapping) else as_releases(releases))
        if len(refinements) == 1:
            (whole,) = refinements.values()
        self.source_ = Source(whole, target, features, rows)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file, with the exact texts of its releases, for `load_fit`: whole or not at all.

        Parameters
        ----------
        path : path-like
            Replaced if it exists.

        Raises
        ------
        EstimationError
            Before `fit`.
        OSError
            When the file cannot be written.
        ValueError
            When a hyper-parameter is no value that a file has, such as a random generator.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> import tempfile
        >>> from pathlib import Path
        >>> from analyst_client import load_fit
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(Path(folder) / "kappa.json")
        ...     again = load_fit(Path(folder) / "kappa.json")
        >>> again.coef_.tolist() == fit.coef_.tolist()
        True
        """
        self._check_fitted()
        saved = SavedFit(type(self).__name__, self.fitted_params_, self._chosen(), self.source_)
        replace_file(Path(path), saved.write().encode("utf-8"))

    def _chosen(self) -> dict[str, Any]:
        """Return hyper-parameters that the fit chose by chance, as a later fit needs them to be equal."""
        return {}

    def _fit_releases(self, releases: Releases, target: str | None, features: Features, rows: Rows) -> None:
        """Set all attributes. Raise `ValueError` where the model is for refinements alone."""
        raise NotImplementedError

    def _fit_refinement(self, refinement: Refinement) -> None:
        """Set all attributes. Raise `ValueError` where the model is for releases, or for another family."""
        raise ValueError(
            f"{type(self).__name__} is fitted on releases; RefinedRegression and BayesianRegression are fitted on a "
            "linear refinement"
        )

    def _fit_refinements(self, refinements: Mapping[str, Refinement]) -> None:
        """Set all attributes by the refinements of several hospitals. Raise `ValueError` where there are none."""
        raise ValueError(
            f"{type(self).__name__} is not fitted on several refinements: RefinedRegression, LogisticRegression and "
            "PoissonRegression are"
        )

    def _keep(self, results: Sequence[Results], columns: Iterable[Column], features: Sequence[str]) -> None:
        """Set what all fits have."""
        self.results_, self.fitted_params_ = tuple(results), self.get_params()
        self.columns_, self.targets_ = tuple(columns), tuple(one.target for one in results)
        self.terms_, _, _, self.row_map_, _ = results[0].solved
        self.feature_names_in_ = np.array(features, dtype=object)
        self.n_features_in_ = len(features)
        self.target_names_ = np.array([target.name for target in self.targets_], dtype=object)
        self.term_names_ = np.array(results[0].names[results[0].first :], dtype=object)
        raw = np.array([one.raw for one in results])
        several = len(results) > 1
        self.coef_ = raw[:, 1:] if several else raw[0, 1:]
        self.intercept_ = raw[:, 0] if several else float(raw[0, 0])

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Name the member that has what another library calls so, or that `fit` has yet to set."""
            there = dir(type(self)) + list(Fit.__annotations__)
            found = f"{name}_" if f"{name}_" in there else ELSEWHERE.get(name, "")
            known = re.split(r"\W", found)[0] in there
            hint = f": see {found}" if known else ": call fit(…) first" if name in Fit.__annotations__ else ""
            if name in OF_LIKELIHOOD:
                hint = ": a likelihood is of rows, which stay with the curator; test(…) compares nested models"
            elif name in OF_CLASS:
                hint = f": {OF_CLASS[name]}"
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    def _check_fitted(self) -> None:
        if not hasattr(self, "results_"):
            raise EstimationError(f"this {type(self).__name__} is not fitted yet: call fit(…) first")

    def _of_each_target(self, read: Callable[[Any], Any]) -> FloatArray:
        """Return what is read of the one target, or an array with one row for each of several."""
        found = [read(results) for results in self._all_results()]
        whole: FloatArray = found[0] if len(found) == 1 else np.array(found)
        return whole

    def _all_results(self) -> tuple[Any, ...]:
        self._check_fitted()
        return self.results_

    def _results_of(self, target: str | None) -> Any:
        """Return the results of one target. Raise `ValueError` when it is not said which."""
        results = self._all_results()
        names = list(self.target_names_)
        if isinstance(target, Fit):
            said = "a fit is no target: compare(fit, other) puts fits side by side, and test(…) compares nested models"
            raise ValueError(said)  # noqa: TRY004 -- one kind of error for arguments
        if target is None and len(names) > 1:
            raise ValueError(f"the fit has several targets: say which of {', '.join(names)}")
        if target is not None and target not in names:
            raise ValueError(f"the fit has no target {target!r}; it has {', '.join(names)}")
        return results[0 if target is None else names.index(target)]

    def _only_results(self) -> Any:
        """Return the results of the one target. Raise `ValueError` where there are several."""
        if len(self._all_results()) > 1:
            names = ", ".join(self.target_names_)
            raise ValueError(
                f"this needs a fit of one target, and this one has several, {names}: fit(release, "
                f"target={self.target_names_[0]!r}) has one, and table(target=…) has the numbers of each"
            )
        return self.results_[0]

    # Coefficients, and how sure they are.

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
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

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
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

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

    @abstractmethod
    def _test_notes(self, results: Any) -> tuple[str, ...]:
        """Return what intervals and tests of contrasts rest on."""

    @takes_level
    def margins(self, X: Any = None, level: float = 0.95, *, target: str | None = None) -> EstimateTable:
        r"""Estimate average marginal effects: the change of the expected target by a unit, or by another level.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_), optional
            Rows of your own to average over, as for `predict`. Default what the releases tell of all their rows: for a
            fit without products and functions of columns.
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

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

    # Tables.

    @takes_level
    def table(self, level: float = 0.95, target: str | None = None, *, exponentiate: bool = False) -> EstimateTable:
        """Return the parameters by name, each with its standard error, interval and p-value.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.
        exponentiate : bool
            Of logistic and Poisson fits odds or rate ratios, and their intervals. Standard errors stay those of
            coefficients.

        Returns
        -------
        EstimateTable
            Of `params_`, `std_errors_`, `conf_int` and `pvalues_`: ``fit.table()["age"].std_error``.

        Raises
        ------
        ValueError
            When the exponential of a coefficient is no ratio: of a linear fit.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> age = fit.table()["age"]
        >>> round(age.value, 4), age.interval
        (0.0175, '[0.01416, 0.02089]')
        """
        self._check_ratios(exponentiate)
        results = self._results_of(target)
        notes = (*self._test_notes(results), *warned(self.caveats(level, target)))
        return self._coefficients(results, level, notes, exponentiate)

    def _check_ratios(self, exponentiate: bool) -> None:
        if exponentiate and not self._ratio:
            raise ValueError(
                "exponentiate=True is of logistic and Poisson fits, which have odds and rate ratios: coefficients of "
                f"{type(self).__name__} are in units of the target"
            )

    def _coefficients(self, results: Any, level: float, notes: Sequence[str], exponentiate: bool) -> EstimateTable:
        found = coefficient_table(results, level, notes)
        return exponentiated(found, self._ratio) if exponentiate else found

    @takes_level
    def tidy(self, level: float = 0.95, *, exponentiate: bool = False) -> "pd.DataFrame":
        """Return a data frame with one row for each parameter and target. Needs pandas.

        Its columns are broom's (``term``, ``estimate``, ``std_error``, ``statistic``, ``p_value``, ``conf_low``,
        ``conf_high``) beside ``target``, ``p_holm``, ``conf_set``, ``privacy_share`` and ``estimator``. The statistic
        is the signed root of the one that p-values are of: Student's without noise. NaN is what a model has not.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        exponentiate : bool
            As for `table`, and in broom.

        Returns
        -------
        DataFrame
            With an index of its own.

        Raises
        ------
        ValueError
            When the exponential of a coefficient is no ratio: of a linear fit.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.tidy()[["term", "estimate", "conf_low", "conf_high"]].round(3)
                 term  estimate  conf_low  conf_high
        0  (constant)    -0.819    -1.074     -0.565
        1         age     0.018     0.014      0.021
        2      sex[M]    -0.073    -0.153      0.006
        3  creatinine     1.052     0.869      1.236
        """
        self._check_ratios(exponentiate)
        frames = []
        for results in self._all_results():
            frame = self._coefficients(results, level, (), exponentiate).tidy()
            frame["p_holm"] = results.adjusted_pvalues()
            frame.insert(0, "target", results.target.name)
            frame.insert(4, "statistic", results.statistics)
            frame["conf_set"] = [found.kind for found in results.confidence_sets(level)]
            frames.append(frame.assign(privacy_share=self._privacy_share(results), estimator=type(self).__name__))
        return load_pandas().concat(frames, ignore_index=True)

    @takes_level
    def glance(self, level: float = 0.95) -> "pd.DataFrame":
        """Return a data frame with one row for each target: what the fit as a whole is worth. Needs pandas.

        Its columns are broom's (``r_squared``, ``adj_r_squared``, ``sigma``, ``statistic``, ``p_value``, ``df``,
        ``df_residual``, ``nobs``) beside ``target``, ``estimator``, ``r_squared_low``, ``r_squared_high``,
        ``identification`` and ``releases``. NaN is what a model has not, or the noise hides.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.glance()["r_squared"].round(2).tolist()
        [0.26]
        """
        rows = []
        for results in self._all_results():
            told = self._glance(results.told, level)
            if len(results.slopes):
                test = results.f_test()
                told |= {"statistic": test.statistic, "p_value": test.pvalue, "df": test.constraints}
            head = {"target": results.target.name, "estimator": type(self).__name__}
            rows.append(head | dict.fromkeys(GLANCE, np.nan) | told)
        return load_pandas().DataFrame(rows)

    @abstractmethod
    def _glance(self, results: Any, level: float) -> dict[str, float]:
        """Return the columns of `glance` that this kind of fit knows, and the number of releases."""

    def _privacy_share(self, results: Any) -> Any:
        """Return the share of each parameter's variance that is privacy noise; NaN where it is not told."""
        return np.nan

    @takes_level
    def caveats(self, level: float = 0.95, target: str | None = None) -> tuple[str, ...]:
        """Return what makes the fit less sure than its numbers look, as `summary` says it; empty where nothing does.

        Weak identification, releases that disagree, a target that seems to have been clipped to its bounds, standard
        errors that assume one residual variance, a posterior that is mostly the prior's, too few cases, separated
        classes, rows that were clipped, bounds that let a few rows lie far out.

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

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.caveats()
        ()
        """
        return tuple(self._caveats(self._results_of(target), level))

    @abstractmethod
    def _caveats(self, results: Any, level: float) -> Iterable[str]:
        """Return what to beware of."""

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
            As for `conf_int`, whose intervals under it are shown; of a Bayesian fit those of the score test, which have
            no prior. Default none.

        Returns
        -------
        Summary
            Printed, it is text. Of points alone where nothing else can be told; a note says why.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> print(fit.summary())  # doctest: +ELLIPSIS
        kappa (mg/dL) by RefinedRegression()
        ────────────────────────────────────────────────────────────────────────────────
        n                6,460 rows, noisy
        ...
        age          0.01752  0.001716  < 0.001  < 0.001      67%   0.01416   0.02089
        ...
        """
        shown = self._summarise(level, target, bound)
        if "choice_" not in vars(self):
            return shown
        return replace(shown, facts=(*shown.facts, ("the same as", self.choice_.call)))

    def _summarise(self, level: float, target: str | None, bound: Bound | None = None) -> Summary:
        """Return the summary without the call that does the same, which is too long for a document."""
        results = self._results_of(target)
        stated = [*self._head(results), ("coefficients", str(len(results.names)))]
        columns = self._points(results)
        try:
            columns, notes = self._figures(results, level, bound)
            stated += self._facts(results, level, bound)
        except EstimationError as error:
            if bound is not None:
                raise
            notes = [f"Warning: {error}."]
        notes += self._own_notes()
        with suppress(EstimationError):  # which is the reason that there are points alone
            notes += warned(self._caveats(results, level))
        unit = f" ({results.target.unit})" if results.target.unit else ""
        heads, cells = zip(*columns, strict=True)
        title = f"{results.target.name}{unit} by {self!r}"
        return Summary(
            title, tuple(stated), ("term", *heads), tuple(zip(results.names, *cells, strict=True)), tuple(notes)
        )

    @takes_level
    def plot(
        self,
        terms: Sequence[str] | None = None,
        level: float = 0.95,
        ax: Any = None,
        *,
        target: str | None = None,
        scaled: bool = False,
    ) -> Any:
        """Draw the coefficients with their intervals; needs the extra ``plots``.

        Parameters
        ----------
        terms : sequence of str, optional
            Terms to draw, from top to bottom. Default all but the constant.
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        ax : Axes, optional
            Default those of a new figure.
        target : str, optional
            One of the targets; needed where the fit has several.
        scaled : bool
            Multiply each coefficient with half the range of its term, so that they compare.

        Returns
        -------
        Axes
            With a row for each term: see `analyst_client.plots.coefficient_forest`, which draws several fits too.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> [label.get_text() for label in fit.plot().get_yticklabels()]
        ['age (years)', 'sex[M]', 'creatinine (mg/dL)']
        """
        self._check_fitted()
        return draw("coefficient_forest", self, terms, level, ax=ax, target=target, scaled=scaled)

    @takes_level
    def to_html(self, level: float = 0.95, target: str | None = None) -> str:
        """Return the `summary` as HTML.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        str
            An element with a style of its own.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> "<table" in fit.to_html()
        True
        """
        return self._summarise(level, target).to_html()

    @takes_level
    def to_latex(
        self,
        level: float = 0.95,
        target: str | None = None,
        *,
        caption: str | None = None,
        label: str | None = None,
    ) -> str:
        r"""Return the coefficients as a table of LaTeX for a paper, with n and the privacy charged below.

        It has estimates, standard errors, intervals and p-values; of logistic and Poisson fits odds or rate ratios and
        their intervals, too. Quality and warnings stand in `summary`.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.
        caption : str, optional
            Text. Default says what coefficients are of.
        label : str, optional
            Such as ``"tab:kappa"``, for ``\ref``. Default none.

        Returns
        -------
        str
            A float, for a document with ``\usepackage{booktabs}``.

        Raises
        ------
        ValueError
            When LaTeX could not read the label.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.to_latex().splitlines()[2]
        '\\caption{Coefficients for kappa (mg/dL)}'
        """
        return as_latex(self._paper(self._results_of(target), level), caption, label)

    def _paper(self, results: Any, level: float) -> View:
        """Return the coefficients with intervals, n, and what was charged."""
        (_, values), *ratios = self._points(results)
        columns: Columns = [("estimate", values), *ratios]
        with suppress(EstimationError):  # points are all there is
            found, interval = coefficient_table(results, level, ()), f"{percent_of(level)} interval"
            errors = numbers(one.std_error for one in found)
            columns[1:1] = [
                (self._error_head(results), errors),
                (interval, [one.interval for one in found]),
                ("p", [p_text(one.pvalue) for one in found]),
            ]
            if ratios:
                columns.append((interval, [one.interval for one in exponentiated(found, self._ratio)]))
        heads, cells = zip(*columns, strict=True)
        unit = f" ({results.target.unit})" if results.target.unit else ""
        caption = f"Coefficients for {self._link}{results.target.name}{unit}"
        rows = zip(results.names, *cells, strict=True)
        told = [Note(f"{name}: {value}") for name, value in self._head(results) if name in {"n", "privacy charged"}]
        return (table(caption, ("term", *heads), rows, numeric=range(1, 1 + len(heads))), *told)

    @takes_level
    def to_markdown(self, level: float = 0.95, target: str | None = None) -> str:
        """Return the `summary` in Markdown.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.

        Returns
        -------
        str
            Tables and paragraphs.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.to_markdown().splitlines()[0]
        '**kappa (mg/dL) by RefinedRegression()**'
        """
        return self._summarise(level, target).to_markdown()

    def _figures(self, results: Any, level: float, bound: Bound | None) -> tuple[Columns, list[str]]:
        """Return the columns of a summary, and notes on them."""
        points, *ratios = self._points(results)
        errors, tested = numbers(results.std_errors.tolist()), p_columns(results.pvalues, results.first)
        columns = [points, (self._error_head(results), errors), *tested.items(), *self._beside(results).items()]
        if bound is None:
            sets = results.confidence_sets(level)
        else:
            sets = [ConfidenceSet("interval", *ends) for ends in results.conf_int(level, "fieller", bound).tolist()]
        low, high = zip(*map(bounds, sets), strict=True)
        columns += [(f"{percent_of(level)} from", low), ("to", high)]
        if ratios:
            lower, upper = np.array([one.hull for one in sets]).T
            columns += [*ratios, ("from", numbers(exponentials(lower))), ("to", numbers(exponentials(upper)))]
        notes = self._notes(results, sets)
        if "p Holm" in tested:
            notes.insert(1, FAMILY_NOTE)
        if bound is not None:
            said = f"Intervals rest on a bound that was stated, {bound_text(bound)}, and hold only if it is true."
            notes.insert(1, said)
            notes += warned(bound_warnings(results.names, np.array([one.hull for one in sets])))
        return columns, notes

    def _points(self, results: Results) -> Columns:
        """Return the coefficients as columns of a summary, and their exponentials where these are ratios."""
        values = results.params.tolist()
        return [("coef", numbers(values)), *[(self._ratio, numbers(exponentials(values)))] * bool(self._ratio)]

    @abstractmethod
    def _head(self, results: Any) -> list[tuple[str, str]]:
        """Return the facts of a summary that points have: n, what was charged, the baseline levels."""

    def _facts(self, results: Any, level: float, bound: Bound | None) -> list[tuple[str, str]]:
        """Return the other facts of a summary."""
        return []

    def _error_head(self, results: Any) -> str:
        """Return the head of the standard errors."""
        return "std err"

    def _beside(self, results: Any) -> dict[str, list[str]]:
        """Return columns of a summary that stand before intervals."""
        return {}

    @abstractmethod
    def _notes(self, results: Any, sets: Sequence[ConfidenceSet]) -> list[str]:
        """Return what the figures of a summary are, and on what they rest."""

    def _own_notes(self) -> tuple[str, ...]:
        """Return what a summary says of this estimator, also of points."""
        return ()

    # Predictions.

    @takes_level
    def predict(
        self,
        X: Any,
        clip: bool | None = None,
        *,
        interval: Literal["mean", "value"] | None = None,
        level: float = 0.95,
    ) -> Any:
        """Predict targets in their raw units: counts are expected ones, and a class is the likelier one.

        Of one refinement predictions rest on coefficients of their own, which shrink and so are not `params`: of few
        rows, or at a low price, they miss new rows by much less. Its `summary` says so.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            Raw units. Columns of a frame are found by name and others ignored; those of an array stand in the
            order of `feature_names_in_`.
        clip : bool, optional
            Clip numeric values to their public bounds, as the curator did; False extrapolates. Default clip, and warn
            where that changes a value. A refinement clips to what it found of each column either way.
        interval : str, optional
            ``"mean"`` for the interval of the mean of rows like each one, of a class that of its probability;
            ``"value"`` for the interval of a new value of the target. Needs pandas, and a fit of one target.
        level : float
            Probability that an interval holds the truth, in [0.5, 1).

        Returns
        -------
        ndarray of shape (n,) or (n, T), or data frame
            NaN for a row that misses a column declared `omit` or `complete`. With `interval` a data frame of ``fit``,
            ``lower`` and ``upper``, with the index of `X` if that is a frame of pandas: the prediction, of a class the
            probability of true, and `predict_interval`. An interval is of the true model and holds privacy noise; a
            prediction that shrinks need not be in its middle.

        Raises
        ------
        EstimationError
            Before `fit`. Where the fit has no such interval, with the reason; where pandas is not installed.
        ValueError
            When a column is absent, a level unknown or a value no number; when a row that misses a value has no class.
            When there is no such interval, or the fit has several targets.

        Warns
        -----
        BoundsWarning
            When values were clipped and `clip` is not stated.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.predict({"age": [60, 70], "sex": ["M", "F"], "creatinine": [1.1, 0.8]}).round(2).tolist()
        [1.29, 1.23]
        """
        self._check_fitted()
        if interval is None:
            return self._answer(X, clip)
        if interval not in {"mean", "value"}:
            raise ValueError(
                f"interval is 'mean', of the mean of rows like these ('confidence' in R), or 'value', of a new value "
                f"('prediction' in R), not {interval!r}"
            )
        pandas, _ = load_pandas(), self._only_results()
        low, high = self.predict_interval(X, level, mean=interval == "mean", clip=clip).T
        index = X.index if isinstance(X, pandas.DataFrame) else None
        columns = {"fit": self._expect(X, clip is not False), "lower": low, "upper": high}  # and warns no second time
        return pandas.DataFrame(columns, index=index)

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
            Intervals for the mean at each row instead of a new value: of a class for its probability. A generalised fit
            has no other.
        clip : bool, optional
            As for `predict`.

        Returns
        -------
        ndarray of shape (n, 2) or (n, T, 2)
            Raw units; NaN for a row without a prediction, infinite where the data do not bound it.

        Raises
        ------
        EstimationError
            When the release lacks what this needs: yᵀy, the noise, or a constant. When the fit has no such intervals.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.predict_interval([[60, "M", 1.1]]).round(2).tolist()
        [[0.01, 2.63]]
        """
        for results in self._all_results():
            _ = results.told  # says so where points are all there is
        found = self._intervals(X, level, mean, clip)
        return found if len(self.targets_) > 1 else found[:, 0]

    @abstractmethod
    def _intervals(self, X: Any, level: float, mean: bool, clip: bool | None) -> FloatArray:
        """Return the intervals of `predict_interval`, of shape (n, T, 2)."""

    def _answer(self, X: Any, clip: bool | None) -> Any:
        """Return what `predict` does without intervals."""
        return self._predict(X, clip)

    def _expect(self, X: Any, clip: bool | None) -> FloatArray:
        """Return expected values of the target, of shape (n,): of a class the probability of true."""
        return self._predict(X, clip)

    @abstractmethod
    def _predict(self, X: Any, clip: bool | None) -> FloatArray:
        """Return predictions, of classes log odds; NaN for a row without."""

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return how well predictions fit; rows are clipped and left out as at the curator.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            As for `predict`.
        y : array-like of shape (n,) or (n, T)
            Raw units. A row without it is left out.

        Returns
        -------
        float
            Of a number R², averaged over targets, of a count D², the share of the deviance that is explained: at most
            1, negative where the mean of `y` predicts better. Of a class the share that is predicted rightly.

        Raises
        ------
        ValueError
            When `X` and `y` have other numbers of rows, or there is no row to judge by, or the known values of a target
            do not differ.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> from analyst_client.tutorial import held_out
        >>> people = held_out()
        >>> round(fit.score(people, people["kappa"]), 2)
        0.22
        """
        self._check_fitted()
        predicted = np.reshape(self._predict(X, clip=True), (-1, len(self.target_names_)))
        observed = np.reshape(self._observed(y), (-1, len(self.target_names_)))
        if len(observed) != len(predicted):
            raise ValueError(f"X has {len(predicted)} rows and y {len(observed)}")
        known = ~np.isnan(predicted + observed).any(axis=1)
        return self._score(predicted[known], observed[known])

    def _observed(self, y: ArrayLike) -> FloatArray:
        """Return targets as numbers."""
        return np.asarray(y, dtype=np.float64)

    @abstractmethod
    def _score(self, predicted: FloatArray, observed: FloatArray) -> float:
        """Return the score of rows that have both, of shape (n, T). Raise `ValueError` where there is none."""


def as_refinements(given: Any) -> dict[str, Refinement]:
    """Return refinements by name; none where releases, or something else, are given. Raise `ValueError` for both."""
    if isinstance(given, Refinement):
        return {"": given}
    if isinstance(given, str) or not isinstance(given, Collection):
        return {}
    named = given.items() if isinstance(given, Mapping) else ((f"refinement {k}", v) for k, v in enumerate(given, 1))
    found = {str(name): one for name, one in named if isinstance(one, Refinement)}
    if found and len(found) < len(given):
        raise ValueError("a fit takes refinements alone, or releases alone")
    return found


def coded_rows(X: Any, columns: Sequence[Column], terms: Sequence[Term], clip: bool | None) -> FloatArray:
    """Return rows as scaled terms, of shape (n, D), and warn where `clip` is not stated and changes a value."""
    if clip is None:
        warn_beyond(X, columns, ". clip=True says that this is meant, and clip=False extrapolates")
    return design_matrix(X, columns, terms, clip is not False)


def warn_beyond(X: Any, columns: Sequence[Column], hint: str = "") -> None:
    """Warn where values lie outside of the public bounds of their columns."""
    if beyond := values_beyond(X, columns):
        said = f"{'; '.join(beyond)}: they count as the bound, as they do at the curator{hint}"
        warn_caller(said, BoundsWarning)
