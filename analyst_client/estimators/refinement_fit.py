"""Columns, terms and coefficients in raw units, for every estimator on a refinement."""

import re
from collections.abc import Mapping, Sized
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.estimators.base import Features, Fit, Releases, Rows
from analyst_client.inference.base import Results
from analyst_client.inference.heads import spent_text, stated
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.refinement import Refinement
from analyst_client.schema.columns import CONSTANT, Column, Term, stored_columns

FITS = {"gaussian": "RefinedRegression", "binomial": "LogisticRegression", "poisson": "PoissonRegression"}
"""Estimators on a refinement, by family."""
CUT = r"(?:(?:minimum|maximum)\((?:[-+.\de]+, )?)+{}(?:(?:, [-+.\de]+)?\))+"
"""A column that was cut at numbers, by its name."""


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
        self.cut_columns_ = asked = asked_names(refinement)
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

    def _head(self, results: Any) -> list[tuple[str, str]]:
        if not hasattr(self, "refined_"):
            return super()._head(results)  # type: ignore[safe-super]  # of a fit that is for releases, too
        return stated(f"{self.refined_.rows:,.0f} rows, noisy", self.spent_, self.columns_, self.terms_)

    def _own_notes(self) -> tuple[str, ...]:
        """Return what was done to columns, and that coefficients are of the columns so cut."""
        cut = [f"{asked} is {name}" for name, asked in getattr(self, "cut_columns_", {}).items()]
        return (f"Columns were cut to what was found: {', '.join(cut)}. Coefficients are of these.",) if cut else ()


def feature_columns(refinement: Refinement) -> list[str]:
    """Return the stored columns that the features are made of, in the order that was asked."""
    return list(dict.fromkeys(name for field in refinement.problem.regressors for name in field.expression.columns))


def asked_names(refinement: Refinement) -> dict[str, str]:
    """Return the names under which columns were asked for, by those of the same columns as they were cut."""
    last, fields = refinement.releases[-1], (*refinement.problem.numbers, refinement.problem.target)
    assert isinstance(last, ScoreRelease)
    asked = {field.name: re.compile(CUT.format(re.escape(field.name))) for field in fields}
    return {
        name: known
        for name in last.expressions
        for known, cut in asked.items()
        if name not in asked and cut.fullmatch(name)
    }


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
