"""The moments of a release, the noise in linear forms of them, and what is left of variables given others."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.estimates import warned
from analyst_client.inference.noise import NoiseLaw
from analyst_client.kinds.gram.release import Release
from analyst_client.schema.columns import Column, Term

BINARY = {"level", "boolean", "missing"}
MISSING = "(missing)"
PEOPLE_HINT = (
    "client.release(…, rows='box'), without weight=, tells those. For less, CountsRequest([…]) tells counts and "
    "shares, and MarginalsRequest([Moments([…])]) means."
)


class Group(NamedTuple):
    """Rows of one level of a column.

    Attributes
    ----------
    level : str
    indicator : ndarray of shape (P,)
        Weights of the variables that add up to 1 for a row of the group, and to 0 for any other.
    """

    level: str
    indicator: FloatArray


@dataclass(frozen=True, eq=False)
class Moments:
    r"""Noisy moments :math:`M = Z^\top Z` of P variables, the terms and then the targets, in scaled units.

    A *form* is an upper triangular matrix of weights of the unordered pairs of variables: its value is the weighted sum
    of entries of M, and as these have independent noise of known variance v, the noise in two forms f and g has the
    covariance :math:`\sum_{i\le j} f_{ij}g_{ij}v_{ij}`.

    Attributes
    ----------
    release : Release
    variables : tuple of Term
    matrix : ndarray of shape (P, P)
        NaN where the release does not hold a product: of two targets.
    variances : ndarray of shape (P, P)
        Of the noise.
    excess_kurtosis : float
        Of the noise in an entry.
    """

    release: Release
    variables: tuple[Term, ...]
    matrix: FloatArray
    variances: FloatArray
    excess_kurtosis: float

    @classmethod
    def of(cls, release: Release) -> "Moments":
        """Read from a release.

        Raises
        ------
        EstimationError
            When it lacks XᵀX, a constant or its noise, or its rows were divided by their norm.
        """
        release = release.as_released
        if release.xtx is None:
            raise EstimationError("this needs XᵀX: ask for the statistic 'xtx'")
        if release.combined:
            raise EstimationError("the release is of combinations of terms: ask for the terms themselves")
        if not release.has_constant:
            raise EstimationError("without a constant the release does not tell how many rows there are")
        if release.mapped_by.divides_terms:
            raise EstimationError(f"{release.mapped_by.division}: sums of them say nothing of the columns")
        d, targets = len(release.terms), () if release.xty is None else release.targets
        law = NoiseLaw.of(release.noise if targets else replace(release.noise, xty=0.0), d)
        size = d + len(targets)
        matrix, variances = np.full((size, size), math.nan), np.full((size, size), math.nan)
        matrix[:d, :d], variances[:d, :d] = release.xtx, law.xtx
        if release.xty is not None:
            matrix[:d, d:], matrix[d:, :d] = release.xty, release.xty.T
            variances[:d, d:], variances[d:, :d] = law.xty[:, np.newaxis], law.xty
        if release.yty is not None and targets and law.yty is not None:
            own = np.arange(d, size)
            matrix[own, own], variances[own, own] = release.yty, law.yty
        return cls(release, (*release.terms, *targets), matrix, variances, law.excess_kurtosis)

    @classmethod
    def of_people(cls, release: Release) -> "Moments":
        """Read from a release in which every row counts for 1.

        Raises
        ------
        EstimationError
            When rows are weighted, and as for `of`.
        """
        check_people(release)
        return cls.of(release)

    @cached_property
    def rows(self) -> float:
        """Noisy number of rows, Σw² where they were weighted. Raise `EstimationError` where the noise hides it."""
        rows, sd = float(self.matrix[0, 0]), math.sqrt(self.variances[0, 0])
        if rows < 2.0 or rows < 3.0 * sd:
            raise EstimationError(f"the release tells of {rows:.1f} rows, with noise of deviation {sd:.3g}: too few")
        return rows

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats of whatever is computed from these moments."""
        found, weighting = warned(self.release.caveats), self.release.weighting
        if weighting is None:
            return found
        return (
            *found,
            f"Warning: {weighting}: all figures are of rows so weighted, and may be far from those of people. Sampling "
            f"errors are upper bounds. {PEOPLE_HINT}",
        )

    def index(self, name: str) -> int:
        """Return the position of a variable. Raise `ValueError` for an unknown one."""
        for j, variable in enumerate(self.variables):
            if variable.name == name:
                return j
        raise ValueError(f"the release has no {name!r}; it has {', '.join(v.name for v in self.variables[1:])}")

    def indices(self, names: "tuple[str, ...] | list[str]") -> list[int]:
        """Return the positions of all terms of columns, or of single variables."""
        found: list[int] = []
        for name in names:
            of_column = [j for j, v in enumerate(self.variables) if name == v.column and j < len(self.release.terms)]
            found += of_column or [self.index(name)]
        return found

    def unit(self, j: int) -> FloatArray:
        """Return the vector that picks one variable, of shape (P,)."""
        picked = np.zeros(len(self.variables))
        picked[j] = 1.0
        return picked

    def value(self, form: FloatArray) -> float:
        """Return the value of a form. Raise `EstimationError` where the release does not hold an entry of it."""
        used = form != 0.0
        value = float(np.sum(form[used] * self.matrix[used]))
        if math.isnan(value):
            i, j = next((i, j) for i, j in np.argwhere(used) if math.isnan(self.matrix[i, j]))
            a, b = self.variables[i].name, self.variables[j].name
            what = f"the squares of {a}: ask for 'yty'" if i == j else f"the products of the targets {a} and {b}"
            raise EstimationError(f"the release does not hold {what}")
        return value

    def covariance(self, form: FloatArray, other: FloatArray) -> float:
        """Return the covariance of the noise in two forms."""
        used = (form != 0.0) & (other != 0.0)
        return float(np.sum(form[used] * other[used] * self.variances[used]))

    def kurtosis(self, form: FloatArray, variance: float) -> float:
        """Return the excess kurtosis of a number that has a variance and, as one part, the noise of a form."""
        if self.excess_kurtosis == 0.0 or variance <= 0.0:
            return 0.0
        used = form != 0.0
        return float(self.excess_kurtosis * np.sum(form[used] ** 4 * self.variances[used] ** 2)) / variance**2

    def count(self, j: int) -> FloatArray:
        r"""Return the form of Σz of a variable: of one that is 0 or 1 the best of two.

        Notes
        -----
        There Σz and Σz² are the same number, released twice, with independent noise of variances v and v′: weights
        proportional to :math:`1/v` and :math:`1/v'` have the least noise.
        """
        once = make_form(self.unit(0), self.unit(j))
        if self.variables[j].kind not in BINARY or math.isnan(self.matrix[j, j]):
            return once
        v, other = self.variances[0, j], self.variances[j, j]
        share = v / (v + other) if v + other > 0.0 else 0.5
        combined: FloatArray = (1.0 - share) * once + share * make_form(self.unit(j), self.unit(j))
        return combined

    def size(self, indicator: FloatArray) -> FloatArray:
        """Return the form of the number of rows of a group."""
        size: FloatArray = indicator[0] * make_form(self.unit(0), self.unit(0))
        for j in np.flatnonzero(indicator[1:]) + 1:
            size = size + indicator[j] * self.count(int(j))
        return size

    def total(self, indicator: FloatArray, j: int) -> FloatArray:
        """Return the form of Σz of a variable over the rows of a group."""
        beside = indicator.copy()
        beside[0] = 0.0
        total: FloatArray = indicator[0] * self.count(j)
        return total + make_form(beside, self.unit(j)) if beside.any() else total

    def missing(self, column: str | None) -> int | None:
        """Return the position of the indicator of a column's missing values, if it has one."""
        return next((j for j, v in enumerate(self.variables) if v.kind == "missing" and v.column == column), None)

    def observed(self, indicator: FloatArray, column: str | None) -> FloatArray:
        """Return the form of the number of a group's rows that have a value of a column."""
        lost = self.missing(column)
        size = self.size(indicator)
        return size if lost is None else size - self.total(indicator, lost)

    @property
    def all_rows(self) -> Group:
        """All rows as one group."""
        return Group("all", self.unit(0))

    def groups(self, name: str) -> list[Group]:
        """Return the rows by the levels of a categorical or boolean column, those that miss it last.

        Raises
        ------
        ValueError
            When it is neither a categorical nor a boolean feature.
        """
        column = next((column for column in self.release.features if column.name == name), None)
        if column is None or column.type == "numeric":
            apart = [column.name for column in self.release.features if column.type != "numeric"]
            raise ValueError(f"{name!r} is no categorical or boolean feature; there are {', '.join(apart) or 'none'}")
        lost = self.missing(name)
        found = {self._level(column, j): self.unit(j) for j, v in enumerate(self.variables) if v.column == name}
        rest = self.unit(0) - sum(found.values(), np.zeros(len(self.variables)))
        named = {level: found.get(level, rest) for level in column.levels}
        if lost is not None:
            named[MISSING] = self.unit(lost)
        return [Group(level, indicator) for level, indicator in named.items()]

    def _level(self, column: Column, j: int) -> str:
        variable = self.variables[j]
        if variable.kind == "missing":
            return MISSING
        return column.levels[1] if variable.kind == "boolean" else str(variable.level)

    def regress(self, on: list[int], of: list[int]) -> tuple[FloatArray, FloatArray]:
        r"""Return the inverse of the moments of some variables, and what is left of others given these.

        Returns
        -------
        inverse : ndarray of shape (len(on), len(on))
        residuals : ndarray of shape (len(of), P)
            b with the residual :math:`b^\top z` of each variable.

        Raises
        ------
        EstimationError
            When the moments are singular, or the noise hides how some variable varies given the others.
        """
        A = self.matrix[np.ix_(on, on)]
        if np.isnan(A).any() or np.isnan(self.matrix[np.ix_(on, of)]).any():
            raise EstimationError("the release does not hold the products of two targets")
        eigenvalues = np.linalg.eigvalsh(A)
        if eigenvalues[0] <= np.finfo(np.float64).eps * 10.0 * eigenvalues[-1]:
            names = ", ".join(self.variables[j].name for j in on if j)
            raise EstimationError(f"the moments of {names} are not positive definite: terms are collinear, or noise")
        inverse = np.asarray(np.linalg.inv(A), dtype=np.float64)
        residuals = np.zeros((len(of), len(self.variables)))
        residuals[np.arange(len(of)), of] = 1.0
        residuals[:, on] -= self.matrix[np.ix_(of, on)] @ inverse
        return inverse, residuals

    def noise_of_products(self, a: FloatArray, b: FloatArray, on: list[int]) -> FloatArray:
        r"""Return :math:`\mathrm{Cov}((Ea)_i, (Eb)_j)` for i, j in `on`, E being the noise in M.

        :math:`\sum_k v_{ik}a_kb_k` for i = j, else :math:`v_{ij}a_jb_i`: both hold the one draw :math:`E_{ij}`.
        """
        v = np.nan_to_num(self.variances)
        shared = v[np.ix_(on, on)] * np.outer(b[on], a[on])
        np.fill_diagonal(shared, v[on] @ (a * b))
        return shared

    def residual_products(self, on: list[int], of: list[int]) -> "ResidualProducts":
        r"""Return the products of what is left of variables given others.

        Notes
        -----
        With :math:`b_x` the residual of x, the product is :math:`b_x^\top Mb_y`, and :math:`b_x^\top Eb_y` its noise to
        first order. Minimising over noisy moments makes it too small, in the mean by
        :math:`\mathrm{tr}(M_{CC}^{-1}\mathrm{Cov}((Eb_x)_C, (Eb_y)_C))`, which is added back.
        """
        inverse, residuals = self.regress(on, of)
        forms = [[make_form(a, b) for b in residuals] for a in residuals]
        products = np.array(
            [
                [
                    self.value(forms[i][j]) + float(np.sum(inverse * self.noise_of_products(a, b, on)))
                    for j, b in enumerate(residuals)
                ]
                for i, a in enumerate(residuals)
            ]
        )
        return ResidualProducts(products, forms)

    def sampling_covariance(self, forms: list[FloatArray]) -> FloatArray:
        r"""Return the sampling covariance of forms that are gradients of functions of M/n, of shape (q, q).

        Notes
        -----
        A row adds :math:`z^\top Gz`, of mean 0. Rows are taken as jointly normal with the mean m and the covariance Σ
        of the moments, as a Gram has no fourth moments: n times
        :math:`2\,\mathrm{tr}(G\Sigma G'\Sigma) + 4m^\top G\Sigma G'm` [1]_.

        References
        ----------
        .. [1] J. Magnus, H. Neudecker, "The commutation matrix: some properties and applications", Annals of Statistics
           7, 1979, theorem 4.3.
        """
        used = np.flatnonzero(np.any([np.any(form != 0.0, axis=k) for form in forms for k in (0, 1)], axis=0))
        kept = np.union1d([0], used)
        full = [((form + form.T) / 2.0)[np.ix_(kept, kept)] for form in forms]
        M = self.matrix[np.ix_(kept, kept)] / self.rows
        m = M[0]
        spread = M - np.outer(m, m)
        products = [G @ spread for G in full]
        covariance = [
            [2.0 * np.sum(P * Q.T) + 4.0 * m @ P @ H @ m for Q, H in zip(products, full, strict=True)] for P in products
        ]
        return self.rows * np.array(covariance)


def check_people(release: Release) -> None:
    """Raise `EstimationError` where rows do not count for 1 each: a figure of weighted rows is not one of people."""
    if release.weighting is not None:
        raise EstimationError(
            f"{release.weighting}, so counts, means and shares in this release are not those of people. {PEOPLE_HINT}"
        )


class ResidualProducts(NamedTuple):
    """Products of residuals.

    Attributes
    ----------
    values : ndarray of shape (q, q)
        Corrected for the mean of the noise.
    forms : list of list of ndarray
        The forms whose noise is theirs, to first order.
    """

    values: FloatArray
    forms: list[list[FloatArray]]


def make_form(a: FloatArray, b: FloatArray) -> FloatArray:
    r"""Return the form of :math:`a^\top Mb`, of shape (P, P).

    Examples
    --------
    >>> make_form(np.array([1.0, 0.0]), np.array([2.0, 3.0])).tolist()
    [[2.0, 3.0], [0.0, 0.0]]
    """
    weights = np.outer(a, b)
    form: FloatArray = np.triu(weights + weights.T) - np.diag(np.diag(weights))
    return form
