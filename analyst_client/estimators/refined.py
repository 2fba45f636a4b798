"""Linear regression of a refinement: coefficients of all that was bought, intervals of what its last scores told."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.estimators.combined import CombinedFit
from analyst_client.estimators.linear import LinearFit
from analyst_client.estimators.refinement_fit import count_rows
from analyst_client.inference.base import IntervalMethod, Points, Results, Solved
from analyst_client.inference.caveats import variance_warnings
from analyst_client.inference.equations import Equations
from analyst_client.inference.results import Solution, TargetResults
from analyst_client.refinement.inference import corrected_equations
from analyst_client.refinement.plan import Refined
from analyst_client.refinement.refinement import Refinement
from analyst_client.schema.columns import Term


class RefinedRegression(CombinedFit, LinearFit):
    r"""Linear regression on a refinement, or on those of several hospitals: see `CuratorClient.refine`.

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
    >>> from analyst_client import RefinedRegression
    >>> from analyst_client.tutorial import recorded_client
    >>> client, features = recorded_client("one_call"), ["age", "sex", "creatinine"]
    >>> refinement = client.refine("flchain", features, target="kappa", epsilon=1.0, delta=1e-6)
    >>> RefinedRegression().fit(refinement).coef_.round(3).tolist()
    [0.018, -0.073, 1.052]
    """

    _family: ClassVar[str] = "gaussian"

    refined_: Refined

    def _fit_refinement(self, refinement: Refinement) -> None:
        terms, theta = self._take(refinement)
        found, name = self.refined_, refinement.problem.target.name
        place = found.target
        target = Term(name, "numeric", name, place.middle, place.half_width)
        scaled = np.array([(place.center - place.middle) / place.half_width])
        if found.frame is not None and theta is not None:
            target, scaled = replace(found.frame.target, name=name), theta
        self.penalty_, self.scaled_coef_ = 0.0, scaled
        results: Results
        try:
            equations = replace(corrected_equations(found), terms=terms, target=target)
            inverse = np.asarray(np.linalg.inv(equations.xtx), dtype=np.float64)
            results = TargetResults(equations, Solution(inverse @ equations.xty, inverse))
        except EstimationError as error:  # no intervals: then the coefficients are those of predictions
            results = Points(Solved(terms, target, scaled), str(error))
        self._keep_refined(refinement, results)

    def _fit_refinements(self, refinements: Mapping[str, Refinement]) -> None:
        super()._fit_refinements(refinements)
        self.penalty_, self.scaled_coef_ = 0.0, self.results_[0].solved.theta

    def _predicting_coef(self) -> FloatArray:
        return self.scaled_coef_

    def _doubts(self, results: TargetResults, level: float, method: IntervalMethod) -> Iterable[str]:
        if self._is_combined:
            return ()
        return [*variance_warnings(results), *super()._doubts(results, level, method)]  # a summary says so by itself

    def _own_caveats(self, results: TargetResults) -> list[str]:
        return [] if self._is_combined else self._reach_caveats(results.equations.xtx)

    def _own_notes(self) -> tuple[str, ...]:
        return super()._own_notes() if self._is_combined else (*self._shrunk_notes(), *super()._own_notes())

    def _solve(self, equations: Equations) -> NoReturn:
        raise EstimationError("a refined regression is solved with its refinement, and no part of it")

    def _predict(self, X: Any, clip: bool | None) -> FloatArray:
        if not self.columns_:
            return np.full(count_rows(X), self.intercept_)
        predicted = super()._predict(X, clip)
        if not self._is_combined:
            return self.refined_.target.cut(predicted)
        (target,) = self.targets_
        return np.clip(predicted, target.center - target.scale, target.center + target.scale)
