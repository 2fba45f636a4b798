"""Coefficients, their law and the summary of logistic and Poisson regressions on a refinement."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.estimators.margins import Effect, NormalTerms, normal_effects
from analyst_client.estimators.predicting import coded_rows
from analyst_client.estimators.refinement_fit import RefinementFit, count_rows
from analyst_client.inference.base import Points, Results, Solved, WaldResults
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.summary import number
from analyst_client.refinement.family import Family
from analyst_client.refinement.generalized import RefinedGeneralized
from analyst_client.refinement.information import Likelihood, likelihood
from analyst_client.refinement.refinement import Refinement
from analyst_client.refinement.rules import CUT_COLUMNS
from analyst_client.schema.columns import Term

CASES_PER_TERM = 10.0
SEPARATED = 3.0
CLIPPED = 0.01
"""Share of clipped rows that is worth a word."""
BLOCK = 256
"""Rows of which intervals are made at once: their covariance is a matrix."""
WALD_NOTE = (
    "Intervals and p-values are Wald's, of estimates that do not shrink. Standard errors hold sampling and privacy "
    "noise."
)


NORMAL_NOTE = (
    "Averages are over a normal law of the linear predictor, with the mean and the spread that the refinement tells, "
    "and intervals hold the noise in these. margins(frame) averages over rows of your own."
)


class _Robust:
    """The hyper-parameter `robust`: what it was stated to be, and a `TypeError` with what to do where it is called."""

    def __init__(self, value: bool | None, estimator: str) -> None:
        self.value, self.estimator = value, estimator

    def __call__(self) -> NoReturn:
        raise TypeError(
            f"robust is an option of the estimator: {self.estimator}(robust=True).fit(refinement) has robust standard "
            "errors, for which the price of the refinement must have bought Σ g gᵀ"
        )

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> bool:
        return self.value == other

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class LikelihoodResults(WaldResults):
    """Inference about coefficients that maximise a likelihood, as far as its scores were bought.

    Parameters
    ----------
    terms : tuple of Term
        An offset last, which is no parameter.
    target : Term
    matrix : ndarray of shape (D, d)
        From standard coordinates to scaled terms.
    law : Likelihood
        Of coefficients in standard coordinates.
    robust : bool or None
        See `Likelihood.is_robust`.
    """

    def __init__(
        self, terms: tuple[Term, ...], target: Term, matrix: FloatArray, law: Likelihood, robust: bool | None
    ) -> None:
        self._solved = Solved(terms, target, matrix @ law.theta, free=len(law.information))
        self._matrix, self.law, self.robust = matrix, law, robust

    @property
    def solved(self) -> Solved:
        """The coefficients in scaled units."""
        return self._solved

    def covariance_of(self, contrasts: FloatArray) -> FloatArray:
        """Return the covariance of linear functions of the scaled coefficients; see `Likelihood.covariance`."""
        return self.law.covariance(contrasts @ self._matrix, robust=self.robust)

    @property
    def privacy_share(self) -> FloatArray:
        """Share of each parameter's variance that is privacy noise, of shape (P,); see `Likelihood.privacy_share`."""
        return self.law.privacy_share(self.contrasts @ self._matrix, robust=self.robust)


class GeneralizedFit(RefinementFit):
    r"""A generalised linear model that is fitted on a refinement.

    Parameters
    ----------
    robust : bool, optional
        Standard errors, intervals and tests of a refinement: by Σ g gᵀ, which holds where the variance of the family is
        wrong, or by that variance. Default by Σ g gᵀ wherever it was bought, and always of counts.

    Attributes
    ----------
    coef_ : ndarray of shape (D',)
        For one raw unit of each term beside the constant, on the scale of the link.
    intercept_ : float
    refined_ : RefinedGeneralized
        Answers of the releases, in standard coordinates.

    Notes
    -----
    `coef_` is where the clipped scores of later steps add up to 0; standard errors, intervals and tests are of that.
    Predictions have coefficients of their own: the posterior mean of a normal prior on those of standardised columns,
    whose deviation is integrated out. Where there are no intervals, `coef_` is that too.

    The covariance is :math:`H^{-1}(J + S)H^{-1}`. S is the privacy noise of these scores, with what noise in H adds as
    the last coefficients are away from the solution. J is the sampling error of the score: by the variance of the
    family, or, robust, by Σ g gᵀ as it was bought, with one deviation of its noise added. Three things are
    approximated. H is the information of normal terms with the XᵀX that was bought, within 5 % for an index of
    deviation 1, corrected by the last Σ g gᵀ, which is the information where the model holds, and by scores at other
    coefficients. And rows that were clipped are taken for none beyond what the histogram of norms shows.
    """

    _no_values: ClassVar[str]
    """The reason that new values have no intervals."""

    refined_: RefinedGeneralized

    def __init__(self, robust: bool | None = None) -> None:
        self._robust = robust

    @property
    def robust(self) -> Any:
        """The hyper-parameter of this name."""
        return _Robust(self._robust, type(self).__name__)

    @robust.setter
    def robust(self, value: bool | None) -> None:
        self._robust = value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return super().get_params(deep) | {"robust": self._robust}

    def _fit_refinement(self, refinement: Refinement) -> None:
        terms, theta = self._take(refinement)
        found, target = self.refined_, Term(refinement.problem.target.name, "numeric", "index")  # on the link's scale
        if theta is None:
            theta = np.array([found.family.link(found.rate)])
        results: Results
        try:
            law = law_of(found, cut=refinement.rules.cut)
            assert found.frame is not None  # or there was no likelihood
            results = LikelihoodResults(terms, target, found.frame.matrix, law, self._robust)
        except EstimationError as error:  # without intervals, what predictions rest on
            free = None if found.moments is None else found.moments.free
            results = Points(Solved(terms, target, theta, free=free), str(error))
        self._keep_refined(refinement, results)

    def _predicting_coef(self) -> FloatArray:
        found = self.refined_
        told: FloatArray = self.results_[0].solved.theta
        return told if found.frame is None or found.theta is None else found.frame.to_terms(found.theta)

    def _index(self, X: Any, clip: bool | None) -> FloatArray:
        """Return the linear predictor of rows, of shape (n,)."""
        if not self.columns_:
            return np.full(count_rows(X), self.intercept_)
        theta: FloatArray = self.results_[0].solved.theta
        found = None if self._is_combined else self.refined_
        if found is not None and found.frame is not None and found.calibrated is not None:
            theta = found.frame.to_terms(found.calibrated)
        index: FloatArray = coded_rows(X, self.columns_, self.terms_, clip) @ theta
        return index

    def _intervals(self, X: Any, level: float, mean: bool, clip: bool | None) -> FloatArray:
        results = self.results_[0]
        if not mean:
            raise EstimationError(self._no_values)
        rows = coded_rows(X, self.columns_, self.terms_, clip)
        found, known = np.full((len(rows), 1, 2), np.nan), np.flatnonzero(~np.isnan(rows).any(axis=1))
        for some in np.array_split(known, len(known) // BLOCK + 1):
            sets = results.contrast_sets(rows[some], np.zeros(len(some)), level)
            found[some, 0] = self._mean(np.array([one.hull for one in sets]).reshape(-1, 2))
        return found

    def _mapped(self, matrix: FloatArray, first: Results) -> FloatArray:
        return matrix

    def _respond(self, results: Any, index: FloatArray) -> tuple[FloatArray, FloatArray]:
        family = self._counted
        return self._mean(index), family.unit * family.slope(index)

    def _average(self, results: Any) -> tuple[Iterable[Effect], str]:
        if self._is_combined:
            raise EstimationError("averages of several refinements are over rows of your own: margins(frame)")
        frame, moments = self.refined_.frame, self.refined_.moments
        assert frame is not None  # or there was no likelihood
        assert moments is not None
        coordinates = np.asarray(np.linalg.inv(frame.matrix), dtype=np.float64)
        terms = NormalTerms(moments.second, coordinates, moments.belief, moments.rows)
        return normal_effects(results, self.columns_, terms, partial(self._respond, results)), NORMAL_NOTE

    @property
    def _counted(self) -> Family:
        """The family, of counts with the largest bound of all hospitals."""
        parts = self.hospitals_.values() if self._is_combined else [self]
        found: Family = max((one.refined_.family for one in parts), key=lambda one: one.unit)
        return found

    def _mean(self, index: FloatArray) -> FloatArray:
        """Return expected targets, in raw units, of linear predictors."""
        family = self._counted
        expected: FloatArray = family.unit * family.mean(index)
        return expected

    def _test_notes(self, results: Any) -> tuple[str, ...]:
        return (WALD_NOTE,)

    def _glance(self, results: Any, level: float) -> dict[str, float]:
        return {"nobs": self.refined_.rows, "releases": 1}

    def _privacy_share(self, results: Any) -> Any:
        return results.told.privacy_share

    def _caveats(self, results: Any, level: float) -> Iterable[str]:
        """Return what to beware of: few cases, separated classes, rows that were clipped."""
        found, said = self.refined_, []
        rarer = min(found.rate, 1.0 - found.rate) if self._family == "binomial" else found.rate * found.family.unit
        if found.rows * rarer < CASES_PER_TERM * len(self.terms_):
            what = "rows of the rarer class" if self._family == "binomial" else "events"
            said.append(f"there are about {found.rows * rarer:,.0f} {what}: too few for {len(self.terms_)} terms.")
        if found.moments is None or found.theta is None:
            return said
        said += separation_warnings("the index has", found.moments.spread(found.theta))
        if found.clipped > CLIPPED:
            said.append(
                f"about {found.clipped:.0%} of the rows had a longer gradient than the last score's norm, and were "
                "clipped. That is made up for as of normal terms, and intervals are longer by what is unsure of it."
            )
        assert found.frame is not None  # or there was no likelihood
        back = np.linalg.inv(found.frame.matrix)
        D = len(back)  # an offset's column is behind the terms
        return said + self._reach_caveats(back.T @ found.moments.second[:D, :D] @ back)

    def _head(self, results: Any) -> list[tuple[str, str]]:
        found = self.refined_
        told = [("scores", str(len(found.measurements)))]
        told.append(("mean, as first told", number(found.rate * found.family.unit)))
        if found.moments is not None and found.theta is not None:
            told.append(("sd of the index", number(found.moments.spread(found.theta))))
        return [*super()._head(results), *told]

    def _error_head(self, results: Any) -> str:
        return "robust std err" if results.told.law.is_robust(self._robust) else "std err"

    def _notes(self, results: Any, sets: Sequence[ConfidenceSet]) -> list[str]:
        hidden = [name for name, one in zip(results.names, sets, strict=True) if not one.is_bounded]
        if not hidden:
            return [WALD_NOTE]
        return [
            WALD_NOTE,
            f"Noise could hide what rows tell of {', '.join(hidden)}, so these intervals have no end. A higher price, "
            "more rows, or a model without terms that nearly follow from each other would give them one.",
        ]

    def _own_notes(self) -> tuple[str, ...]:
        return (*self._shrunk_notes(), *super()._own_notes())


def law_of(found: RefinedGeneralized, *, cut: bool) -> Likelihood:
    """Return what scores tell of coefficients. Raise `EstimationError` where that is not of columns as declared."""
    if cut:
        raise EstimationError(CUT_COLUMNS)
    return likelihood(found)


def separation_warnings(index: str, spread: float) -> list[str]:
    """Return what to say where an index, which has so large a standard deviation, separates the classes."""
    if spread <= SEPARATED:
        return []
    return [
        f"{index} a standard deviation of {spread:.1f}: the classes are separated, or noise made it so, and "
        "coefficients could be of almost any size. The order of predictions holds."
    ]
