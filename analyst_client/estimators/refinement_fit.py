"""Columns, terms and coefficients in raw units, for every estimator on a refinement."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.estimators.base import Estimator
from analyst_client.inference.heads import spent_text
from analyst_client.inference.units import raw_units
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.refinement import Refinement
from analyst_client.schema.columns import CONSTANT, Column, Term, stored_columns

FITS = {"gaussian": "RefinedRegression", "binomial": "LogisticRegression", "poisson": "PoissonRegression"}
"""Estimators on a refinement, by family."""
CUT = r"(?:(?:minimum|maximum)\((?:[-+.\de]+, )?)+{}(?:(?:, [-+.\de]+)?\))+"
"""A column that was cut at numbers, by its name."""


class RefinementFit(Estimator, ABC):
    """A model that is fitted on a refinement.

    Attributes
    ----------
    refined_ : Refined or RefinedGeneralized
        Answers of the releases, in standard coordinates.
    spent_ : str
        Cost of all releases, as ε at δ; empty where nothing was charged.
    """

    _family: ClassVar[str]

    coef_: Any
    intercept_: Any
    refined_: Any
    spent_: str
    columns_: tuple[Column, ...]
    terms_: tuple[Term, ...]
    term_names_: NDArray[np.object_]
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int

    def fit(self, refinement: Refinement) -> Self:
        """Fit on a refinement.

        Parameters
        ----------
        refinement : Refinement
            Of `CuratorClient.refine` with the family of this model, or loaded.

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
        self._fit_refinement(refinement)
        return self

    @abstractmethod
    def _fit_refinement(self, refinement: Refinement) -> None:
        """Set all attributes. Raise `ValueError` for a refinement of another family, or for anything else."""

    def _take(self, refinement: Refinement) -> FloatArray | None:
        """Set what was found, and names; return the coefficients of scaled terms, None where none were bought."""
        if not isinstance(refinement, Refinement):
            raise ValueError(  # noqa: TRY004 -- one kind of error for arguments
                f"a {type(self).__name__} is fitted on what client.refine(…, family={self._family!r}) returns"
            )
        check_family(refinement, self._family)
        self.refined_ = found = refinement.found
        self.spent_ = spent_text(("refinement", getattr(answer, "cost", None)) for answer in refinement.releases)
        self.columns_, self.terms_, self._cut, theta = (), (Term(CONSTANT, "constant"),), dict[str, str](), None
        if found.frame is not None and found.theta is not None:
            self._cut = asked = asked_names(refinement)
            self.columns_ = read_columns(refinement, found.frame)
            self.terms_ = tuple(replace(term, name=asked.get(term.name, term.name)) for term in found.frame.terms)
            theta = found.frame.to_terms(found.theta)
        self.feature_names_in_ = np.array(feature_columns(refinement), dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.term_names_ = np.array([term.name for term in self.terms_[1:]], dtype=object)
        return theta

    def _set_coefficients(self, scaled: FloatArray, target: Term) -> None:
        """Set the coefficients in raw units by those of scaled terms."""
        L, constant = raw_units(self.terms_, target, None)
        raw = L @ scaled + constant
        self.coef_, self.intercept_ = raw[1:], float(raw[0])

    def _cut_notes(self) -> tuple[str, ...]:
        """Return what was done to columns, and that coefficients are of the columns so cut."""
        cut = [f"{asked} is {name}" for name, asked in getattr(self, "_cut", {}).items()]
        return (f"Columns were cut to what was found: {', '.join(cut)}. Coefficients are of these.",) if cut else ()

    def _check_fitted(self) -> None:
        if not hasattr(self, "refined_"):
            raise EstimationError(f"this {type(self).__name__} is not fitted yet: call fit(refinement) first")


def check_family(refinement: Refinement, family: str) -> None:
    """Raise `ValueError` for a refinement of another family."""
    own = refinement.problem.family
    if own != family:
        raise ValueError(
            f"this refinement is of the {own} family: fit it with {FITS[own]}, or ask for family={family!r}"
        )


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
