"""Linear discriminants of a Gram: points, without intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_client.analyses.moments import Moments
from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Note, View, table
from analyst_client.errors import EstimationError
from analyst_client.inference.summary import number
from analyst_client.kinds.gram.design import design_matrix
from analyst_client.kinds.gram.release import Release
from analyst_client.schema.columns import Column, Term

NOTE = "Points, without intervals. Classes are taken to share one covariance within them."


@dataclass(frozen=True, eq=False)
class LinearDiscriminants(Displayable):
    """Linear discriminant functions of the levels of a column.

    Attributes
    ----------
    by : str
    classes : tuple of str
        K levels.
    priors : ndarray of shape (K,)
        Shares of the levels.
    coef : ndarray of shape (K, D')
        Raw units.
    intercept : ndarray of shape (K,)
    means : ndarray of shape (K, D')
        Raw units.
    columns : tuple of Column
        Those that `predict` takes.
    terms : tuple of Term
        D' of them.

    Examples
    --------
    >>> from analyst_client.analyses import linear_discriminants
    >>> from analyst_client.tutorial import exact_release
    >>> found = linear_discriminants(exact_release(), "sex")
    >>> found.predict({"age": [60, 70], "creatinine": [1.4, 0.8], "lambda": [1.5, 1.5]}).tolist()
    ['M', 'F']
    """

    by: str
    classes: tuple[str, ...]
    priors: FloatArray
    coef: FloatArray
    intercept: FloatArray
    means: FloatArray
    columns: tuple[Column, ...]
    terms: tuple[Term, ...]

    def decision_function(self, X: Any) -> FloatArray:
        """Return the discriminant of each class.

        Parameters
        ----------
        X : data frame, mapping, or array-like of shape (n, number of columns)
            Raw units, in the order of `columns`; numeric values are clipped to their bounds, as at the curator.

        Returns
        -------
        ndarray of shape (n, K)
            Log posterior probabilities up to a constant of each row.

        Raises
        ------
        ValueError
            When a column is absent, a level unknown or a value no number.
        """
        scaled = design_matrix(X, self.columns, self.terms, clip=True)
        center, scale = _units(self.terms)
        values: FloatArray = self.intercept + (scaled * scale + center) @ self.coef.T
        return values

    def predict(self, X: Any) -> NDArray[np.object_]:
        """Return the likeliest class of each row.

        Parameters
        ----------
        X : data frame, mapping, or array-like of shape (n, number of columns)
            As for `decision_function`.

        Returns
        -------
        ndarray of str, of shape (n,)
            Levels.
        """
        found: NDArray[np.object_] = np.array(self.classes, dtype=object)[np.argmax(self.decision_function(X), axis=1)]
        return found

    def _view(self) -> View:
        heads = (self.by, "share", "intercept", *(term.name for term in self.terms))
        rows = [
            (level, *(number(float(value)) for value in (prior, intercept, *coef)))
            for level, prior, intercept, coef in zip(self.classes, self.priors, self.intercept, self.coef, strict=True)
        ]
        return (table(f"Linear discriminants of {self.by}", heads, rows, numeric=range(1, len(heads))), Note(NOTE))

    __repr__ = Displayable.__str__


def linear_discriminants(release: Release, by: str, columns: Sequence[str] | None = None) -> LinearDiscriminants:
    r"""Find the linear functions of features that tell the levels of a column apart.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant.
    by : str
        A categorical or boolean feature.
    columns : sequence of str, optional
        Features that tell. Default all others.

    Returns
    -------
    LinearDiscriminants
        Points.

    Raises
    ------
    EstimationError
        When rows are weighted, the release lacks what this needs, or the noise hides the levels or the covariance
        within them.
    ValueError
        When there is no such feature.

    Notes
    -----
    With means :math:`m_k`, shares :math:`\pi_k` and the covariance W within levels, the discriminant is
    :math:`x^\top W^{-1}m_k - m_k^\top W^{-1}m_k/2 + \ln\pi_k` [1]_. All are ratios of entries of XᵀX:
    :math:`W = (X^\top X - \sum_k n_km_km_k^\top)/n`.

    References
    ----------
    .. [1] T. Hastie, R. Tibshirani, J. Friedman, "The elements of statistical learning", 2009, section 4.3.

    Examples
    --------
    >>> X = np.column_stack([np.ones(4), [0.0, 0.0, 1.0, 1.0], [1.0, 2.0, 4.0, 5.0]])
    >>> columns = [Column.boolean("ill"), Column.numeric("dose", 0, 2)]
    >>> X[:, 2] = (X[:, 2] - 1.0) / 1.0
    >>> found = linear_discriminants(Release.from_arrays(X.T @ X, features=columns), "ill")
    >>> found.classes, found.coef.round(3).tolist()
    (('false', 'true'), [[6.0], [18.0]])
    """
    moments = Moments.of_people(release)
    groups = moments.groups(by)
    features = {column.name: column for column in release.features}
    names = [name for name in features if name != by] if columns is None else list(columns)
    if by in names or not names or not set(names) <= set(features):
        raise ValueError(f"features that tell {by!r} apart must be others of {', '.join(features)}")
    places = moments.indices(names)
    terms = tuple(moments.variables[j] for j in places)
    sizes = np.array([moments.value(moments.size(group.indicator)) for group in groups])
    if np.any(sizes < 1.0):
        few = ", ".join(group.level for group, size in zip(groups, sizes, strict=True) if size < 1.0)
        raise EstimationError(f"the release tells of no row of {few}")
    means = np.array(
        [
            [moments.value(moments.total(group.indicator, j)) / size for j in places]
            for group, size in zip(groups, sizes, strict=True)
        ]
    )
    rows = float(np.sum(sizes))
    within = (moments.matrix[np.ix_(places, places)] - means.T @ (sizes[:, np.newaxis] * means)) / rows
    if np.linalg.eigvalsh(within)[0] <= 0.0:
        raise EstimationError("the covariance within levels is not positive definite: terms are collinear, or noise")
    center, scale = _units(terms)
    means = means * scale + center
    coef = np.linalg.solve(within * np.outer(scale, scale), means.T).T
    intercept = np.log(sizes / rows) - np.sum(means * coef, axis=1) / 2.0
    return LinearDiscriminants(
        by,
        tuple(group.level for group in groups),
        sizes / rows,
        coef,
        intercept,
        means,
        tuple(features[name] for name in names),
        terms,
    )


def _units(terms: Sequence[Term]) -> tuple[FloatArray, FloatArray]:
    return np.array([term.center for term in terms]), np.array([term.scale for term in terms])
