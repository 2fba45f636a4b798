"""Columns, terms and coefficients in raw units, for every estimator on a refinement."""

from collections.abc import Mapping, Sized
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.estimators.base import Features, Fit, Releases, Rows
from analyst_client.inference.base import Points, Results
from analyst_client.inference.heads import spent_text, stated
from analyst_client.kinds.gram.design import design_matrix
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.refinement import Refinement
from analyst_client.schema.columns import CONSTANT, Column, Term, stored_columns

FITS = {"gaussian": "RefinedRegression", "binomial": "LogisticRegression", "poisson": "PoissonRegression"}
"""Estimators on a refinement, by family."""
FAR = 20.0
"""Deviations of a column's terms that its bounds may reach without a caveat (``bench/fits.py``)."""
_PLACES = 65
"""Values of a column at which its reach is looked for."""
_LEAST_VARIANCE = 1e-5
"""Least told variance of scaled terms in any direction."""


class RefinementFit(Fit):
    """A model that is fitted on a refinement.

    Attributes
    ----------
    refined_ : Refined or RefinedGeneralized
        Answers of the releases, in standard coordinates; only of one refinement.
    spent_ : str
        Cost of all releases, as ε at δ; empty where nothing was charged.
    cut_columns_ : dict of str to str
        Names of columns that were cut to what was found, with those that were asked for.
    hospitals_ : dict of str to Fit
        The fit of each hospital by itself; only of several refinements.
    """

    _family: ClassVar[str]

    refined_: Any
    spent_: str
    cut_columns_: dict[str, str]
    hospitals_: "Mapping[str, RefinementFit]"

    @property
    def _is_combined(self) -> bool:
        return hasattr(self, "hospitals_")

    def _fit_releases(self, releases: Releases, target: str | None, features: Features, rows: Rows) -> None:
        raise ValueError(f"a {type(self).__name__} is fitted on what client.refine(…, family={self._family!r}) returns")

    def _take(self, refinement: Refinement) -> tuple[tuple[Term, ...], FloatArray | None]:
        """Set what was found; return terms as they were asked, and their coefficients, None where none were bought."""
        own = refinement.problem.family
        if own != self._family:
            raise ValueError(
                f"this refinement is of the {own} family: fit it with {FITS[own]}, or ask for family={self._family!r}"
            )
        self.refined_ = found = refinement.found
        self.spent_ = spent_text(("refinement", getattr(answer, "cost", None)) for answer in refinement.releases)
        self.cut_columns_ = {}
        if found.frame is None or found.theta is None:
            return (Term(CONSTANT, "constant"),), None
        self.cut_columns_ = asked = refinement.asked_names
        terms = (replace(term, name=asked.get(term.name, term.name)) for term in found.frame.terms)
        return tuple(terms), found.frame.to_terms(found.theta)

    def _predicting_coef(self) -> FloatArray:
        """Return the scaled coefficients of predictions, which shrink."""
        raise NotImplementedError

    def _keep_refined(self, refinement: Refinement, results: Results) -> None:
        """Set what all fits have."""
        told = self.refined_.frame is not None and self.refined_.theta is not None
        columns = read_columns(refinement, self.refined_.frame) if told else ()
        self._keep([results], columns, feature_columns(refinement))
        self.row_map_ = None  # scores are of all rows alike

    def _reach_caveats(self, second: FloatArray) -> list[str]:
        r"""Return what to say of columns whose bounds let a few rows lie far out, where clipping would hide them.

        Parameters
        ----------
        second : ndarray of shape (D, D)
            :math:`E[zz^\top]` of scaled terms, as it was told.

        Notes
        -----
        The reach of a column is the largest :math:`\sqrt{(z-\bar z)^\top\Sigma^{-1}(z-\bar z)}` of its own terms
        within its bounds. With a reach of r, one row in r² may tell all of a direction, by a gradient that is r times
        as long as others.
        """
        mean = second[0] / second[0, 0]
        covariance = second / second[0, 0] - np.outer(mean, mean)
        stored = stored_columns(self.columns_)
        middle: dict[str, list[Any]] = {
            one.name: [one.levels[0] if one.levels else (one.lower + one.upper) / 2.0] * _PLACES  # type: ignore[operator]
            for one in stored
            if one.levels or one.upper is not None
        }
        far = []
        for column in stored:
            if column.levels or column.lower is None or column.upper is None:
                continue
            places = middle | {column.name: np.linspace(column.lower, column.upper, _PLACES).tolist()}
            z = design_matrix(places, self.columns_, self.terms_, clip=True)
            own = [j for j, term in enumerate(self.terms_) if np.ptp(z[:, j]) > 0.0 and term.kind != "product"]
            if own:
                variances, Q = np.linalg.eigh(covariance[np.ix_(own, own)])
                turned = (z[:, own] - mean[own]) @ Q / np.sqrt(np.maximum(variances, _LEAST_VARIANCE))
                reach = float(np.sqrt(np.sum(turned**2, axis=1)).max())
                far += [f"{column.name} ({reach:,.0f})"] if reach > FAR else []
        if not far:
            return []
        return [
            f"declared bounds reach many deviations of the terms from their mean: of {', '.join(far)}. If a few rows "
            "lie that far out, clipping hides what they tell, and intervals need not hold the truth. Narrower bounds "
            "or a logarithm would help; client.release(rows='box') clips no row."
        ]

    def _head(self, results: Any) -> list[tuple[str, str]]:
        if not hasattr(self, "refined_"):
            return super()._head(results)  # type: ignore[safe-super]  # of a fit that is for releases, too
        return stated(f"{self.refined_.rows:,.0f} rows, noisy", self.spent_, self.columns_, self.terms_)

    def _shrunk_notes(self) -> tuple[str, ...]:
        """Return which coefficients shrink: those of predictions, or, without intervals, all."""
        alike = isinstance(self.results_[0], Points)
        said = "Coefficients are shrunk" if alike else "Predictions rest on coefficients of their own, shrunk"
        return (f"{said} as far as the noise asks for.",) if self.columns_ else ()

    def _own_notes(self) -> tuple[str, ...]:
        """Return what was done to columns, and that coefficients are of the columns so cut."""
        cut = [f"{asked} is {name}" for name, asked in getattr(self, "cut_columns_", {}).items()]
        return (f"Columns were cut to what was found: {', '.join(cut)}. Coefficients are of these.",) if cut else ()


def feature_columns(refinement: Refinement) -> list[str]:
    """Return the stored columns that the features are made of, in the order that was asked."""
    return list(dict.fromkeys(name for field in refinement.problem.asked for name in field.expression.columns))


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
    """Return the number of rows of a data frame, a mapping of columns, or an array."""
    if isinstance(X, dict):
        X = next(iter(X.values()), ())
    return len(X) if isinstance(X, Sized) else len(np.asarray(X))
