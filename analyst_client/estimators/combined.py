"""A fit of the refinements of several hospitals: their own fits, and the coefficients that they have in common."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.refinement_fit import RefinementFit
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.agreement import HeterogeneityTest
from analyst_client.inference.base import Bound, Points, Results, Solved
from analyst_client.inference.caveats import DISAGREEMENT, hidden_text
from analyst_client.inference.combined import (
    CombinedResults,
    Estimate,
    at_params,
    combine,
    common_columns,
    common_terms,
)
from analyst_client.inference.heads import spent_text, stated
from analyst_client.inference.pooling import _widest
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.summary import number, p_text
from analyst_client.refinement.refinement import Refinement

COMBINED_NOTE = (
    "Each hospital's own estimates, weighted by their information: sampling and privacy noise. Intervals and p-values "
    "are Wald's, of coefficients that all hospitals have in common."
)


class CombinedFit(RefinementFit):
    """A model that is fitted on the refinement of one hospital, or on those of several.

    It stands before the class of a fit of one, whose tables it leaves to that.
    """

    _left_out: dict[str, str]
    """Reasons for which hospitals take no part, by name."""
    _people: list[Any]
    """Whose rows those refinements are of that take part; all, where none does."""

    def _fit_refinements(self, refinements: Mapping[str, Refinement]) -> None:
        listed = list(refinements.values())
        if len({one.releases[-1].text for one in listed}) < len(listed):
            raise ValueError("the same refinement is in the list twice: it tells nothing new the second time")
        if any(one.rules.cut for one in listed):
            raise ValueError(
                "refinements for predictions alone are of columns that were cut, at each hospital elsewhere: their "
                "coefficients are not the same. Refine with the default rules"
            )
        fits = {name: type(self)(**self.get_params()).fit(one) for name, one in refinements.items()}
        people = [one.people or name for name, one in refinements.items()]
        told = [fit for fit in fits.values() if fit.columns_] or list(fits.values())  # the rest bought a mean alone
        common = _common([fit.results_[0] for fit in told])
        columns = common_columns(fit.columns_ for fit in told)
        names = Points(common, "").names
        estimates, self._left_out = _estimate_each(fits, names)
        self._people = [own for name, own in zip(fits, people, strict=True) if name in estimates] or people
        shared = [one.shared(self._people.count(o)) for one, o in zip(estimates.values(), self._people, strict=False)]
        rows = [max(fit.refined_.rows, 1.0) for fit in told]
        untold = np.average([fit._points_of(names) for fit in told], axis=0, weights=rows)
        results: Results
        if estimates:
            results = combine(common, shared, untold)
        else:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self._left_out.items())
            results = Points(at_params(common, untold), f"no hospital tells an interval: {reasons}")
        self.hospitals_ = fits
        costs = zip(people, listed, strict=True)
        self.spent_ = spent_text((own, getattr(bought, "cost", None)) for own, one in costs for bought in one.releases)
        self._keep([results], columns, list(told[0].feature_names_in_))
        self.cut_columns_, self.row_map_ = {}, None
        for text in self._disagreement(results):
            warn_caller(text, EstimationWarning)

    def _points_of(self, names: Sequence[str]) -> FloatArray:
        """Return the parameters that predictions rest on, in an order of names."""
        results = self.results_[0]
        points = results.contrasts @ self._predicting_coef() + results.offsets
        return np.asarray(points[[results.names.index(name) for name in names]], dtype=np.float64)

    def heterogeneity_test(self, target: str | None = None) -> HeterogeneityTest:
        """Test that all hospitals of the fit have the same coefficients: of refinements by Cochran's Q.

        Parameters
        ----------
        target : str, optional
            The target: a refinement has one.

        Returns
        -------
        HeterogeneityTest
            Sampling error and privacy noise included.

        Raises
        ------
        EstimationError
            When the fit is of one hospital, or no coefficient is told by two.
        """
        results = self._results_of(target).told
        if not isinstance(results, CombinedResults):
            raise EstimationError("heterogeneity needs several hospitals: fit on a list of their refinements")
        return results.heterogeneity_test()

    def _disagreement(self, results: Results) -> list[str]:
        """Return what to say where hospitals do not tell of the same coefficients."""
        test = _find_test(results)
        if test is None or test.pvalue >= DISAGREEMENT:
            return []
        return [
            f"the hospitals do not tell of the same coefficients (p {p_text(test.pvalue, relation=True)}): what is "
            "fitted is an average of theirs, and the intervals do not hold their differences. hospitals_ has each by "
            "itself."
        ]

    def _test_notes(self, results: Any) -> tuple[str, ...]:
        return (COMBINED_NOTE,) if self._is_combined else super()._test_notes(results)  # type: ignore[safe-super]

    def _glance(self, results: Any, level: float) -> dict[str, float]:
        if not self._is_combined:
            return super()._glance(results, level)  # type: ignore[safe-super]
        return {"nobs": self._rows, "releases": len(self.hospitals_)}

    def _caveats(self, results: Any, level: float) -> Iterable[str]:
        if not self._is_combined:
            return super()._caveats(results, level)  # type: ignore[safe-super]
        if isinstance(results, Points):
            return []  # whose reason says it of each
        found = [f"{name} is left out: {reason}." for name, reason in self._left_out.items()]
        told = [name for name in self.hospitals_ if name not in self._left_out]
        for name, one in zip(told, results.estimates, strict=True):
            if hidden := [term for j, term in enumerate(results.names) if j not in one.told]:
                found.append(hidden_text(name, hidden))
        if self._are_shared:
            found.append("refinements of one population are of the same people: intervals are as long as that may ask.")
        return (
            found
            + self._disagreement(results)
            + [
                f"{name}: {text}"
                for name, fit in self.hospitals_.items()
                if name not in self._left_out
                for text in fit.caveats(level)
            ]
        )

    @property
    def _are_shared(self) -> bool:
        return len(set(self._people)) < len(self._people)

    @property
    def _rows(self) -> float:
        """Rows of hospitals that take part; of those of the same people their mean."""
        parts = [fit for name, fit in self.hospitals_.items() if name not in self._left_out]
        pairs = zip(parts or self.hospitals_.values(), self._people, strict=True)
        return float(sum(fit.refined_.rows / self._people.count(own) for fit, own in pairs))

    def _head(self, results: Any) -> list[tuple[str, str]]:
        if not self._is_combined:
            return super()._head(results)
        told = ", ".join(f"{name} (left out)" if name in self._left_out else name for name in self.hospitals_)
        head = stated(f"{self._rows:,.0f} rows, noisy", self.spent_, self.columns_, self.terms_)
        return [*head, ("hospitals", told)]

    def _facts(self, results: Any, level: float, bound: Bound | None) -> list[tuple[str, str]]:
        if not self._is_combined:
            return super()._facts(results, level, bound)
        if (test := _find_test(results)) is None:
            return []
        said = f"χ²({test.dof}) = {number(test.statistic)}, p {p_text(test.pvalue, relation=True)}"
        return [("differences of hospitals", said)]

    def _error_head(self, results: Any) -> str:
        return "std err" if self._is_combined else super()._error_head(results)

    def _beside(self, results: Any) -> dict[str, list[str]]:
        return {} if self._is_combined else super()._beside(results)

    def _privacy_share(self, results: Any) -> Any:
        return np.nan if self._is_combined else super()._privacy_share(results)

    def _notes(self, results: Any, sets: Sequence[ConfidenceSet]) -> list[str]:
        if not self._is_combined:
            return super()._notes(results, sets)  # type: ignore[safe-super]
        hidden = [name for name, one in zip(results.names, sets, strict=True) if not one.is_bounded]
        said = f"No hospital bounds {', '.join(hidden)}: what stands there is shrunk, and its interval has no end."
        return [COMBINED_NOTE, *[said] * bool(hidden)]

    def _own_notes(self) -> tuple[str, ...]:
        return () if self._is_combined else super()._own_notes()


def _find_test(results: Results) -> HeterogeneityTest | None:
    """Return the test that hospitals have the same coefficients; None where nothing tells."""
    if isinstance(results, CombinedResults):
        with suppress(EstimationError):
            return results.heterogeneity_test()
    return None


def _estimate_each(
    fits: Mapping[str, RefinementFit], names: Sequence[str]
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return the estimates of hospitals that bound a parameter, and reasons for which the others tell none."""
    estimates, left_out = {}, {}
    for name, fit in fits.items():
        try:
            found = Estimate.of(fit.results_[0], names)
        except EstimationError as error:
            left_out[name] = str(error)
            continue
        if len(found.told):
            estimates[name] = found
        else:
            left_out[name] = "the noise hides how its terms vary, so no interval has an end"
    return estimates, left_out


def _common(listed: Sequence[Results]) -> Solved:
    """Return the terms and the target of hospitals' results within the bounds of all; coefficients of offsets alone.

    Raises
    ------
    ValueError
        When they are not of the same terms, or of other targets.
    """
    first, *others = solved = [one.solved for one in listed]
    for other in others:
        if other.target.name != first.target.name:
            raise ValueError(f"a refinement has no target {first.target.name!r}; it has {other.target.name}")
    terms, free = common_terms([one.terms for one in solved]), len(listed[0].terms)
    if any({term.name for term in one.terms} != {term.name for term in listed[0].terms} for one in listed):
        raise ValueError(f"releases have different terms: {terms[-1].name} is an offset of some alone")
    theta = np.zeros(len(terms))
    for j, term in enumerate(terms[free:], free):
        theta[j] = term.scale  # of a coefficient of 1 in raw units
    return Solved(terms, _widest([one.target for one in solved]), theta, free=free)
