"""Poisson regression of a refinement: the logarithm of an expected count, linear in terms."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.arrays import FloatArray
from analyst_client.estimators.generalized import GeneralizedFit


class PoissonRegression(GeneralizedFit):
    """Poisson regression on a refinement: see `CuratorClient.refine` with ``family="poisson"``.

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

    @property
    def dispersion_(self) -> float:
        """Variance of counts around their expectation, over that of Poisson's law, as gradients tell it.

        Rows whose terms are far from their means count for more. Where noise is large it is roughly told.

        Raises
        ------
        EstimationError
            Where the price did not buy Σ g gᵀ.
        """
        self._check_refined()
        self._likelihood.is_robust()
        assert self._likelihood.dispersion is not None
        return self._likelihood.dispersion

    def predict(self, X: Any, clip: bool | None = None) -> FloatArray:
        """Return expected counts, of shape (n,).

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            Raw units. Columns of a frame are found by name and others ignored; those of an array stand in the order of
            `feature_names_in_`.
        clip : bool, optional
            As for `LinearFit.predict`.

        Returns
        -------
        ndarray of shape (n,)
            NaN for a row that misses a column declared `omit` or `complete`.

        Raises
        ------
        EstimationError
            Before `fit`.
        ValueError
            When a column is absent, a level unknown or a value no number.
        """
        self._check_fitted()
        family = self.refined_.family
        expected: FloatArray = family.unit * family.mean(self._index(X, clip))
        return expected

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return D², the share of the deviance that is explained; rows without a prediction or without y are left out.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            As for `predict`.
        y : array-like of shape (n,)
            Counts.

        Returns
        -------
        float
            At most 1; negative where the mean of `y` predicts better.

        Raises
        ------
        ValueError
            When `X` and `y` have other numbers of rows, or the known counts do not differ.
        """
        predicted, observed = self.predict(X, clip=True), np.asarray(y, dtype=np.float64)
        if len(observed) != len(predicted):
            raise ValueError(f"X has {len(predicted)} rows and y {len(observed)}")
        known = ~np.isnan(predicted + observed)
        if not known.any() or np.ptp(observed[known]) <= 0.0:
            raise ValueError("D² needs counts that differ")
        counts = observed[known]
        least = _deviance(counts, np.full(len(counts), counts.mean()))
        return 1.0 - _deviance(counts, predicted[known]) / least


def _deviance(counts: FloatArray, means: FloatArray) -> float:
    logs = counts * np.log(np.where(counts > 0.0, counts, 1.0) / np.maximum(means, 1e-300))
    return float(2.0 * np.sum(np.where(counts > 0.0, logs, 0.0) - counts + means))
