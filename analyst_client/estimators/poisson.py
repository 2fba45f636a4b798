"""Poisson regression of a refinement: the logarithm of an expected count, linear in terms."""

from typing import Any, ClassVar

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.estimators.combined import CombinedFit
from analyst_client.estimators.generalized import GeneralizedFit
from analyst_client.inference.base import Bound
from analyst_client.inference.summary import number
from analyst_client.refinement.information import Likelihood


class PoissonRegression(CombinedFit, GeneralizedFit):
    """Poisson regression on refinements: see `CuratorClient.refine` with ``family="poisson"``.

    Counts have public bounds, and the expected count is at most the upper one. The mean model is what is estimated:
    counts may vary more than their mean, and standard errors are robust. An offset has the coefficient 1: predictions
    need its columns, and `coef_` leaves it out.

    Attributes
    ----------
    coef_ : ndarray of shape (D',)
        Logarithms of rate ratios for one raw unit of each term beside the constant.
    intercept_ : float
        Logarithm of the expected count where all terms are 0.
    refined_ : RefinedGeneralized
        Answers of the releases, in standard coordinates.

    Notes
    -----
    See `analyst_client.estimators.generalized.GeneralizedFit` for what is approximated.

    Examples
    --------
    >>> PoissonRegression()
    PoissonRegression()
    """

    _family: ClassVar[str] = "poisson"
    _ratio: ClassVar[str] = "rate ratio"
    _link: ClassVar[str] = "the logarithm of "
    _no_values: ClassVar[str] = (
        "an interval of a new count needs the law of counts around their mean, and a refinement tells the mean alone: "
        "predict(X, interval='mean') has intervals of expected counts"
    )

    @property
    def dispersion_(self) -> float:
        """Variance of counts around their expectation, over that of Poisson's law, as gradients tell it.

        Rows whose terms are far from their means count for more. Where noise is large it is roughly told.

        Raises
        ------
        EstimationError
            Where the price did not buy Σ g gᵀ.
        """
        law: Likelihood = self._results_of(None).told.law
        law.is_robust()
        assert law.dispersion is not None
        return law.dispersion

    def _facts(self, results: Any, level: float, bound: Bound | None) -> list[tuple[str, str]]:
        if self._is_combined:
            return super()._facts(results, level, bound)
        told = results.law.dispersion
        return [] if told is None else [("dispersion, about", number(told))]

    def _predict(self, X: Any, clip: bool | None) -> FloatArray:
        return self._mean(self._index(X, clip))

    def _score(self, predicted: FloatArray, observed: FloatArray) -> float:
        if not len(observed) or np.ptp(observed) <= 0.0:
            raise ValueError("D² needs counts that differ")
        return 1.0 - _deviance(observed, predicted) / _deviance(observed, np.full_like(observed, observed.mean()))


def _deviance(counts: FloatArray, means: FloatArray) -> float:
    logs = counts * np.log(np.where(counts > 0.0, counts, 1.0) / np.maximum(means, 1e-300))
    return float(2.0 * np.sum(np.where(counts > 0.0, logs, 0.0) - counts + means))
