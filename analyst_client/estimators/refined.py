"""Linear regression of a refinement: coefficients of all that was bought, intervals of what its last scores told."""

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.model import number
from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.base import LinearFit
from analyst_client.estimators.refinement_fit import RefinementFit, count_rows
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.equations import Equations
from analyst_client.inference.multiplicity import Family
from analyst_client.inference.results import Bound, IntervalMethod, Solution, TargetResults
from analyst_client.inference.summary import Summary, variance_warnings
from analyst_client.level import takes_level
from analyst_client.refinement.inference import corrected_equations
from analyst_client.refinement.plan import Refined
from analyst_client.refinement.refinement import Refinement
from analyst_client.schema.columns import CONSTANT, Term


class RefinedRegression(RefinementFit, LinearFit):  # type: ignore[misc]  # `fit` takes no releases by themselves
    r"""Linear regression on a refinement: see `CuratorClient.refine`.

    Numbers are cut to the ranges that the refinement found for them, and so are predictions, to the target's.

    Attributes
    ----------
    refined_ : Refined
        All that the releases told, in standard coordinates.

    Notes
    -----
    `coef_`, intervals and tests are of the columns as they are declared, and do not shrink. They solve and invert the
    equations of XᵀX and of the later scores: see `analyst_client.refinement.inference.corrected_equations`. `predict`
    has coefficients of its own, `scaled_coef_`: the posterior mean of a normal prior on those of standardised columns,
    given every release of the refinement. They predict better and are biased. Where there are no intervals, `coef_`
    are these.

    Examples
    --------
    >>> RefinedRegression()
    RefinedRegression()
    """

    _family: ClassVar[str] = "gaussian"

    refined_: Refined

    def _fit_refinement(self, refinement: Refinement) -> None:
        theta = self._take(refinement)
        found, name = self.refined_, refinement.problem.target.name
        self.fitted_params_, self.row_map_, self.penalty_ = self.get_params(), None, 0.0
        self.combined_, self.combinations_ = (), None
        self.target_names_ = np.array([name], dtype=object)
        place = found.target
        self.targets_ = (Term(name, "numeric", name, place.middle, place.half_width),)
        self.scaled_coef_ = np.array([(place.center - place.middle) / place.half_width])
        if found.frame is not None and theta is not None:
            self.targets_, self.scaled_coef_ = (replace(found.frame.target, name=name),), theta
        self.__dict__.pop("results_", None)
        told = self.scaled_coef_
        with suppress(EstimationError):  # no intervals: then the coefficients are those of predictions
            told = self.results_[0].solution.theta
        self._set_coefficients(told, self.targets_[0])

    @cached_property
    def results_(self) -> tuple[TargetResults, ...]:  # type: ignore[override]  # made when inference asks for it
        """Inference. Raise `EstimationError` where the price did not buy XᵀX."""
        self._check_fitted()
        equations = replace(corrected_equations(self.refined_), terms=self.terms_, target=self.targets_[0])
        inverse = np.asarray(np.linalg.inv(equations.xtx), dtype=np.float64)
        return (TargetResults(equations, Solution(inverse @ equations.xty, inverse)),)

    @takes_level
    def summary(self, level: float = 0.95, target: str | None = None, bound: Bound | None = None) -> Summary:
        """Return a table of coefficients with the quality of the fit and warnings; HTML in notebooks.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            The target.
        bound : float or mapping of str to float, optional
            As for `conf_int`.

        Returns
        -------
        Summary
            Of points alone where no interval can be told; a note says why.
        """
        try:
            return super().summary(level, target, bound)
        except EstimationError as error:
            self._check_fitted()
            facts = (("n", f"{self.refined_.rows:,.0f} rows, noisy"), ("privacy charged", self.spent_))
            values = map(number, [self.intercept_, *np.ravel(self.coef_)])
            rows = tuple(zip((CONSTANT, *self.term_names_), values, strict=True))
            notes = (f"Warning: {error}.", *self._own_notes())
            return Summary(f"{self.target_names_[0]} by {self!r}", facts, ("term", "coef"), rows, notes)

    def _spent(self) -> str | None:
        return self.spent_

    def _own_notes(self) -> tuple[str, ...]:
        return self._cut_notes()

    def _intervals(
        self, level: float, method: IntervalMethod, bound: Bound | None, simultaneous: bool | Family
    ) -> FloatArray:
        for text in variance_warnings(self.results_[0]):  # a summary says so by itself
            warn_caller(text, EstimationWarning)
        return super()._intervals(level, method, bound, simultaneous)

    def _solve(self, equations: Equations) -> NoReturn:
        raise EstimationError("a refined regression is solved with its refinement, and no part of it")

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
        return self.refined_.target.cut(super().predict(X, clip))
