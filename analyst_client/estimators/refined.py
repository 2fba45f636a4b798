"""Linear regression of a refinement: coefficients of all that was bought, intervals of what its last scores told."""

from collections.abc import Sized
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from analyst_client.errors import EstimationError
from analyst_client.estimators.base import LinearFit
from analyst_client.inference.equations import Equations
from analyst_client.inference.results import Solution, TargetResults
from analyst_client.inference.units import raw_units
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.inference import corrected_equations
from analyst_client.refinement.plan import Refined
from analyst_client.refinement.refinement import Refinement
from analyst_client.schema.columns import Column, Term, stored_columns

FloatArray = NDArray[np.float64]


class RefinedRegression(LinearFit):
    r"""Linear regression on a refinement: see `CuratorClient.refine`.

    Numbers are cut to the ranges that the refinement found for them, and so are predictions, to the target's.

    Attributes
    ----------
    refined_ : Refined
        Found by the refinement, in standard coordinates.

    Notes
    -----
    Coefficients are the posterior mean of a normal prior on those of standardised columns, whose deviation is
    integrated out, given every release of the refinement: XᵀX and Xᵀy, and at each step's θ the score
    :math:`P^\top(X^\top y - X^\top X\theta)`. Intervals and tests do not shrink. They invert the equations of XᵀX and
    of the later scores, see `analyst_client.refinement.inference.corrected_equations`: right for the coefficients at
    which the clipped score of all rows is 0, which are those of least squares up to the rows that are clipped.

    Examples
    --------
    >>> RefinedRegression()
    RefinedRegression()
    """

    refined_: Refined

    def fit(self, refinement: Refinement) -> Self:  # type: ignore[override]  # its releases belong together
        """Fit on a refinement.

        Parameters
        ----------
        refinement : Refinement
            Of `CuratorClient.refine`, or loaded.

        Returns
        -------
        Self
            The estimator, fitted.

        Raises
        ------
        ValueError
            When it is given anything else.
        ServiceError
            When its releases are not those that its plan asks for.
        """
        if not isinstance(refinement, Refinement):
            raise ValueError("a refined regression is fitted on what client.refine(…) returns")  # noqa: TRY004 -- one kind of error for arguments
        found, problem = refinement.found, refinement.problem
        if not isinstance(found, Refined):
            fits = {"binomial": "LogisticRegression", "poisson": "PoissonRegression"}[problem.family]
            raise ValueError(f"this refinement is of the {problem.family} family: fit it with {fits}")  # noqa: TRY004 -- one kind of error for arguments
        self.refined_ = found
        self.fitted_params_, self.row_map_, self.penalty_ = self.get_params(), None, 0.0
        self.combined_, self.combinations_ = (), None
        self.target_names_ = np.array([problem.target.name], dtype=object)
        names = feature_columns(refinement)
        self.columns_, self.terms_ = (), (Term("(constant)", "constant"),)
        self.targets_ = (Term(problem.target.name, "numeric", problem.target.name, *_middle(found)),)
        self.scaled_coef_ = np.array([(found.target.center - found.target.middle) / found.target.half_width])
        if found.frame is not None and found.theta is not None:
            self.columns_ = read_columns(refinement, found.frame)
            self.terms_, self.targets_ = found.frame.terms, (found.frame.target,)
            self.scaled_coef_ = found.frame.to_terms(found.theta)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.term_names_ = np.array([term.name for term in self.terms_[1:]], dtype=object)
        L, constant = raw_units(self.terms_, self.targets_[0], None)
        raw = L @ self.scaled_coef_ + constant
        self.coef_, self.intercept_ = raw[1:], float(raw[0])
        self.__dict__.pop("results_", None)
        return self

    @cached_property
    def results_(self) -> tuple[TargetResults, ...]:  # type: ignore[override]  # made when inference asks for it
        """Inference. Raise `EstimationError` where the price did not buy XᵀX."""
        self._check_fitted()
        equations = corrected_equations(self.refined_)
        inverse = np.asarray(np.linalg.inv(equations.xtx), dtype=np.float64)
        return (TargetResults(equations, Solution(self.scaled_coef_, inverse)),)

    def _solve(self, equations: Equations) -> NoReturn:
        raise EstimationError("a refined regression is solved with its refinement, and no part of it")

    def _check_fitted(self) -> None:
        if not hasattr(self, "refined_"):
            raise EstimationError("this RefinedRegression is not fitted yet: call fit(refinement) first")

    def predict(self, X: Any, clip: bool | None = None) -> FloatArray:
        """Predict the target in its raw unit, within the range that the refinement found for it.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            Raw units, as for other fits.
        clip : bool, optional
            As for other fits. Numbers are cut to the ranges that the refinement found for them either way.

        Returns
        -------
        ndarray of shape (n,)
            NaN for a row that misses a column declared `omit` or `complete`.

        Raises
        ------
        ValueError
            When a column is absent, a level unknown or a value no number.
        """
        self._check_fitted()
        if self.refined_.frame is None:
            return np.full(count_rows(X), self.intercept_)
        place = self.refined_.target
        return np.clip(super().predict(X, clip), place.low, place.high)


def _middle(found: Refined) -> tuple[float, float]:
    return found.target.middle, found.target.half_width


def feature_columns(refinement: Refinement) -> list[str]:
    """Return the stored columns that the features are made of, in the order that was asked."""
    return list(dict.fromkeys(name for field in refinement.problem.features for name in field.expression.columns))


def read_columns(refinement: Refinement, frame: Frame) -> tuple[Column, ...]:
    """Return the columns that a frame's terms are made of, those that are stored first, as they were asked."""
    last = refinement.releases[-1]
    assert isinstance(last, ScoreRelease)
    coded = {name for term in frame.terms for name in term.columns}
    columns = [column for column in last.columns if column.name in coded]
    declared = {column.name: column for column in stored_columns(columns)}
    # In the order that was asked, which is that of the columns of an array that is predicted from.
    return (*(declared[name] for name in feature_columns(refinement)), *columns)


def count_rows(X: Any) -> int:
    """Return how many rows a frame, an array or a mapping of columns has."""
    if isinstance(X, dict):
        X = next(iter(X.values()), ())
    return len(X) if isinstance(X, Sized) else len(np.asarray(X))
