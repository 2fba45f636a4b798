"""The base of all fits: what a fit is made of, and what every fit tells, whatever it was fitted on."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from analyst_client.estimators.estimator import OF_CLASS
from analyst_client.estimators.fitted import Fitted
from analyst_client.estimators.inferring import Inferring
from analyst_client.estimators.predicting import Predicting
from analyst_client.estimators.saving import SavedFit, Source
from analyst_client.estimators.telling import Telling
from analyst_client.inference.pooling import as_releases
from analyst_client.kinds.gram.release import Release
from analyst_client.ledger.files import replace_file
from analyst_client.refinement.refinement import Refinement

Releases = Release | Sequence[Release]
Features = Sequence[str] | None
Rows = float | Sequence[float] | None
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


class Fit(Inferring, Telling, Predicting):
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Name the member that has what another library calls so, or that `fit` has yet to set."""
            there = dir(type(self)) + list(Fitted.__annotations__)
            found = f"{name}_" if f"{name}_" in there else ELSEWHERE.get(name, "")
            known = re.split(r"\W", found)[0] in there
            hint = f": see {found}" if known else ": call fit(…) first" if name in Fitted.__annotations__ else ""
            if name in OF_LIKELIHOOD:
                hint = ": a likelihood is of rows, which stay with the curator; test(…) compares nested models"
            elif name in OF_CLASS:
                hint = f": {OF_CLASS[name]}"
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)


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
