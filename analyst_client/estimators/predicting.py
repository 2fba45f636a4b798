"""Predictions of a fit, their intervals, and how well they do."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.arrays import FloatArray
from analyst_client.errors import BoundsWarning
from analyst_client.estimators.fitted import Fitted
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.summary import (
    load_pandas,
)
from analyst_client.kinds.gram.design import design_matrix, values_beyond
from analyst_client.level import takes_level
from analyst_client.schema.columns import Column, Term


class Predicting(Fitted):
    """The part of a fit that predicts."""

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
