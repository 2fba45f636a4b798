"""Contingency tables with noise: tests of independence, trend and fit, proportions, and what 2 × 2 cells compare."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.analyses.cell_noise import CellNoise
from analyst_client.analyses.gram_cells import read_cells
from analyst_client.analyses.quadrics import (
    bilinear,
    chi2_tail,
    critical_square,
    fieller,
    invert,
    normal_square,
    ratio_set,
    score_statistic,
)
from analyst_client.analyses.table_results import Effect, Factor, TableTest
from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, join, number, quiet, table, untrusted
from analyst_client.errors import EstimationError
from analyst_client.inference.noise import LAPLACE_EXCESS_KURTOSIS
from analyst_client.kinds.arrays import frozen
from analyst_client.kinds.counts.consistency import SD_MIN
from analyst_client.kinds.counts.table import Estimate, Table
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level

P = ParamSpec("P")
T = TypeVar("T")
SINGULAR = 1e-12
CELLS_MAX = 3_000


def takes_table(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse what is no contingency table before anything else, and say how to have one."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        if args:
            _check(args[0], ContingencyTable, function.__name__, "a ContingencyTable")
        return function(*args, **kwargs)

    return checked


def _check(given: object, wanted: type, name: str, what: str) -> None:
    if not isinstance(given, wanted):
        raise ValueError(  # noqa: TRY004 -- one kind of error for arguments
            f"{name} takes {what}, not a {type(given).__name__}: ask for counts with client.release(dataset, "
            "CountsRequest([['time', 'event']], …)), and take ContingencyTable.from_counts(release.tables[0])"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ContingencyTable(Displayable):
    r"""Noisy counts of rows in cells, with the covariance of their noise.

    Rows are an independent sample of a population, which every test and interval here is about. Beside what the sample
    happened to be, each holds the noise: the covariance of the cells is :math:`\mathrm{diag}(m)+\Sigma`, m their means
    and Σ the noise's.

    Parameters
    ----------
    values : array-like
        Exact counts plus noise, one axis for each factor.
    covariance : array-like of shape (K, K), (K,) or ()
        Of the noise of all K cells in C order; or the variance of each, or of all, of independent draws. 0 for exact
        counts.
    factors : sequence of Factor, optional
        Default names and levels are numbers.
    draws : array-like of shape (K, M), optional
        Weights of M independent draws of variance 1 in each cell, in place of the covariance, which is their product.
        Default a root of the covariance.
    excess_kurtosis : float or array-like of shape (M,)
        Of the draws: 0 for Gaussian noise, 3 for Laplace noise. Tests correct their p-values by it.

    Raises
    ------
    ValueError
        When the shapes do not fit together, there are more than 3,000 cells, or the covariance is none.

    Examples
    --------
    >>> table = ContingencyTable([[30.2, 69.1], [14.8, 86.0]], 2.0)
    >>> round(table.independence_test().pvalue, 4)
    0.0102
    """

    values: FloatArray
    covariance: FloatArray
    factors: tuple[Factor, ...]
    draws: FloatArray
    excess_kurtosis: FloatArray

    def __init__(
        self,
        values: ArrayLike,
        covariance: ArrayLike = 0.0,
        factors: Sequence[Factor] | None = None,
        *,
        draws: ArrayLike | None = None,
        excess_kurtosis: ArrayLike = 0.0,
    ) -> None:
        cells = np.array(values, dtype=np.float64)
        if cells.size > CELLS_MAX:
            raise ValueError(f"a table has at most {CELLS_MAX} cells, for the sake of their covariance: take a margin")
        if factors is None:
            factors = [Factor(f"axis {j}", tuple(map(str, range(size)))) for j, size in enumerate(cells.shape)]
        if tuple(len(factor.levels) for factor in factors) != cells.shape:
            raise ValueError(f"factors have other cells than values of shape {cells.shape}")
        weights = root_of(covariance, cells.size) if draws is None else np.array(draws, dtype=np.float64)
        if weights.ndim != 2 or len(weights) != cells.size:
            raise ValueError(f"draws have a row of weights for each of {cells.size} cells")
        if not (np.isfinite(cells).all() and np.isfinite(weights).all()):
            raise ValueError("values and their noise must be finite")
        kurtosis = np.broadcast_to(np.asarray(excess_kurtosis, dtype=np.float64), weights.shape[1:]).copy()
        object.__setattr__(self, "values", frozen(cells))
        object.__setattr__(self, "covariance", frozen(weights @ weights.T))
        object.__setattr__(self, "factors", tuple(factors))
        object.__setattr__(self, "draws", frozen(weights))
        object.__setattr__(self, "excess_kurtosis", frozen(kurtosis))

    @classmethod
    def from_counts(cls, counts: Table, *columns: str) -> "ContingencyTable":
        """Take a table of a release of counts.

        Parameters
        ----------
        counts : Table
            One of a `CountsRelease`.
        *columns : str
            Axes to keep, in this order; the others' cells are added up, with their noise. Default all. Cells of
            missing values are left out of those that are kept.

        Returns
        -------
        ContingencyTable
            With the variance of each cell's noise.

        Raises
        ------
        ValueError
            When there is no such column.
        """
        _check(counts, Table, "ContingencyTable.from_counts", "a table of counts")
        kept = counts.margin(*columns) if columns else counts
        there = tuple(slice(axis.bins) for axis in kept.axes)
        factors = [Factor(axis.name, axis.labels[: axis.bins], axis.edges) for axis in kept.axes]
        kurtosis = LAPLACE_EXCESS_KURTOSIS / kept.draws[there].ravel() if kept.is_laplace else 0.0
        return cls(kept.values[there], kept.sd[there].ravel() ** 2, factors, excess_kurtosis=kurtosis)

    @classmethod
    def from_nested(cls, tables: Sequence[Table], *columns: str) -> "ContingencyTable":
        r"""Take the finest of some tables of a release, with what coarser ones tell of the same cells.

        Sums over many cells, such as numbers at risk over many intervals of time, hold the noise of few coarse cells in
        place of that of many fine ones.

        Parameters
        ----------
        tables : sequence of Table
            Of the same columns. Every edge of each is one of the finest's, which has the most cells.
        *columns : str
            As of `from_counts`.

        Returns
        -------
        ContingencyTable
            With the finest's cells.

        Raises
        ------
        ValueError
            When there is no table, or one does not fit the finest.

        Notes
        -----
        With cells :math:`y_t=M_tx+e_t`, where :math:`M_t` adds up the finest's cells x, the values are
        :math:`\hat x=(\sum_tM_t^\top\Sigma_t^{-1}M_t)^{-1}\sum_tM_t^\top\Sigma_t^{-1}y_t`: of all linear ones
        that are right on average these have the least noise (Gauss and Markov). For tables of 2, 4, 8, …
        intervals they are those of M. Hay, V. Rastogi, G. Miklau, D. Suciu ("Boosting the accuracy of differentially
        private histograms through consistency", VLDB 2010).
        """
        read = sorted((cls.from_counts(counts, *columns) for counts in tables), key=lambda one: -one.values.size)
        if not read:
            raise ValueError("there are no tables")
        finest = read[0]
        adding = np.vstack([_adding(finest.factors, other.factors) for other in read])
        weights = np.concatenate([1.0 / np.maximum(np.diagonal(one.covariance), SD_MIN**2) for one in read])
        y = np.concatenate([one.values.ravel() for one in read])
        weighed = adding.T * weights
        G = np.linalg.solve(weighed @ adding, weighed)
        kurtosis = np.concatenate([one.excess_kurtosis for one in read])
        deviations = np.sqrt(np.concatenate([np.diagonal(one.covariance) for one in read]))
        return cls(
            (G @ y).reshape(finest.values.shape), factors=finest.factors, draws=G * deviations, excess_kurtosis=kurtosis
        )

    @classmethod
    def from_gram(cls, release: Release, rows: str, columns: str) -> "ContingencyTable":
        r"""Read the table of two categorical or boolean columns off a released XᵀX, or off Xᵀy for a boolean target.

        Parameters
        ----------
        release : Release
            With XᵀX, and with Xᵀy for a target.
        rows, columns : str
            Features, or a target as either.

        Returns
        -------
        ContingencyTable
            Of the rows that are in the release, by least squares over all that it tells of these two columns: see
            `analyst_client.analyses.gram_cells.read_cells`.

        Raises
        ------
        ValueError
            When there is no such column, or it is numeric.
        EstimationError
            When the release weights rows, misses statistics, or does not tell all cells.
        """
        factors, values, draws = read_cells(release, rows, columns)
        kurtosis = LAPLACE_EXCESS_KURTOSIS if "laplace" in release.noise.distribution else 0.0
        return cls(values, factors=factors, draws=draws, excess_kurtosis=kurtosis)

    @property
    def noise(self) -> CellNoise:
        """Noise of the cells in C order."""
        return CellNoise(self.draws, self.excess_kurtosis)

    @property
    def total(self) -> float:
        """Noisy number of rows in cells."""
        return float(self.values.sum())

    def margin(self, *names: str) -> "ContingencyTable":
        """Return the table of some of the factors, in this order: the others' cells are added up, with their noise.

        Raises
        ------
        ValueError
            When there is no such factor, or one stands twice.
        """
        places = [self._place_of(name) for name in names]
        if len(set(places)) < len(places):
            raise ValueError("each factor stands once")
        summed = "".join(map(chr, range(97, 97 + self.values.ndim)))
        kept = "".join(summed[j] for j in places)
        to = [self.values.shape[j] for j in places]
        each = np.eye(self.values.size).reshape(-1, *self.values.shape)
        M = np.einsum(f"z{summed}->{kept}z", each).reshape(math.prod(to), -1)
        return self._mapped(M, [self.factors[j] for j in places])

    def keep(self, name: str, levels: Sequence[str]) -> "ContingencyTable":
        """Return the table of the rows with some levels of a factor, in this order.

        Parameters
        ----------
        name : str
            A factor.
        levels : sequence of str
            Some of its levels.

        Returns
        -------
        ContingencyTable
            Of these levels alone.

        Raises
        ------
        ValueError
            When there is no such factor or level.
        """
        place = self._place_of(name)
        factor = self.factors[place]
        if unknown := [level for level in levels if level not in factor.levels]:
            raise ValueError(f"{name!r} has no level {unknown[0]!r}; it has {', '.join(factor.levels)}")
        chosen = [factor.levels.index(level) for level in levels]
        cells = np.take(np.arange(self.values.size).reshape(self.values.shape), chosen, axis=place).ravel()
        factors = list(self.factors)
        factors[place] = Factor(name, tuple(levels))
        return self._mapped(np.eye(self.values.size)[cells], factors)

    def independence_test(self) -> TableTest:
        r"""Test that the two factors are independent.

        Returns
        -------
        TableTest
            That of χ² with (R − 1)(C − 1) degrees of freedom. Pearson's, where there is no noise.

        Raises
        ------
        EstimationError
            When the table has not two factors, or its noise hides all rows.

        Notes
        -----
        Wald's test of the residuals :math:`g=\hat c-N\hat p_r\hat p_c^\top=J\hat c`, with
        :math:`J=(I-\hat p_r1^\top)\otimes(I-\hat p_c1^\top)` and the covariance
        :math:`J(N\,\mathrm{diag}(\hat p)+\Sigma)J^\top` that they have under independence; last row and column are left
        out, as sums over either are 0. This is the test of M. Gaboardi, H. Lim, R. Rogers, S. Vadhan ("Differentially
        private chi-squared hypothesis testing", ICML 2016) with the noise in the covariance. Margins below 0 count as
        0. Nothing is subtracted for noise. Laplace noise has longer tails: the law of the statistic is taken as a
        multiple of χ² with fewer degrees of freedom and its mean and variance, or by Cornish and Fisher for one degree
        (`analyst_client.inference.score.p_value`).
        """
        J, V = self._independence()
        rows, columns = self.values.shape
        kept = np.arange(self.values.size).reshape(rows, columns)[:-1, :-1].ravel()
        return self._test(f"independence of {self.factors[0].name} and {self.factors[1].name}", J[kept], V)

    def trend_test(self, scores: Sequence[float] | None = None, row_scores: Sequence[float] | None = None) -> TableTest:
        r"""Test that the second factor has no trend over the first, or the first none over the second.

        Parameters
        ----------
        scores : sequence of float, optional
            Of the levels of the second factor. Default 0, 1, 2, ….
        row_scores : sequence of float, optional
            Of the levels of the first. Default 0, 1, 2, ….

        Returns
        -------
        TableTest
            That of χ² with 1 degree of freedom; of 2 × C cells Cochran's and Armitage's, where there is no noise.

        Raises
        ------
        ValueError
            When there are not as many scores as levels.
        EstimationError
            When the table has not two factors, or its noise hides all rows.

        Notes
        -----
        The square of :math:`u^\top g s` over its variance, for the residuals g and the covariance of
        `independence_test`: W. Cochran, "Some methods for strengthening the common χ² tests", Biometrics 10, 1954;
        P. Armitage, "Tests for linear trends in proportions and frequencies", Biometrics 11, 1955.
        """
        J, V = self._independence()
        rows, columns = self.values.shape
        u = np.arange(rows, dtype=np.float64) if row_scores is None else np.asarray(row_scores, dtype=np.float64)
        s = np.arange(columns, dtype=np.float64) if scores is None else np.asarray(scores, dtype=np.float64)
        if u.shape != (rows,) or s.shape != (columns,):
            raise ValueError(f"{rows} row scores and {columns} scores are needed")
        name = f"trend of {self.factors[0].name} over {self.factors[1].name}"
        return self._test(name, (np.kron(u - u.mean(), s - s.mean()) @ J)[None, :], V)

    def goodness_of_fit(self, proportions: ArrayLike | None = None) -> TableTest:
        r"""Test that cells have given proportions.

        Parameters
        ----------
        proportions : array-like, optional
            Positive, in the shape of the table; what they sum to is divided out. Default all equal.

        Returns
        -------
        TableTest
            That of χ² with K − 1 degrees of freedom. Pearson's, where there is no noise.

        Raises
        ------
        ValueError
            When they have another shape, or one is not positive.
        EstimationError
            When the noise hides all rows.

        Notes
        -----
        Wald's test of :math:`g=(I-p1^\top)\hat c` with the covariance
        :math:`(I-p1^\top)(N\,\mathrm{diag}(p)+\Sigma)(I-p1^\top)^\top`, the last cell left out.
        """
        p = np.ones(self.values.shape) if proportions is None else np.asarray(proportions, dtype=np.float64)
        if p.shape != self.values.shape or not np.all(p > 0.0):
            raise ValueError(f"positive proportions of shape {self.values.shape} are needed")
        p = p.ravel() / p.sum()
        V = np.diag(self._rows() * p) + self.covariance
        return self._test("goodness of fit", (np.eye(len(p)) - p[:, None])[:-1], V)

    @takes_level
    def proportions(self, within: str | None = None, level: float = 0.95) -> Estimate:
        r"""Return proportions of the population, with intervals, one cell at a time.

        Parameters
        ----------
        within : str, optional
            A factor, within each level of which proportions add up to 1. Default they do over the whole table.
        level : float
            Coverage of each interval, in [0.5, 1).

        Returns
        -------
        Estimate
            Of arrays in the shape of the table. A value is cut to [0, 1], and nan where there seems to be no row.

        Raises
        ------
        ValueError
            When there is no such factor, or `level` is not in [0.5, 1).

        Notes
        -----
        With cell x and its total n the interval is made of the p within [0, 1] with
        :math:`(x-pn)^2\le z^2[np(1-p)+\mathrm{Var}(e_x-pe_n)]`: Wilson's score interval ("Probable inference, the law
        of succession, and statistical inference", JASA 22, 1927) with the noise beside the binomial variance. The
        kurtosis that the noise gives :math:`x-pn` at the estimate moves z
        (`analyst_client.analyses.quadrics.critical_square`). Where the noise does not tell n from 0 it is all of
        [0, 1].
        """
        labels = np.zeros(self.values.shape, dtype=np.intp)
        if within is not None:
            place = self._place_of(within)
            labels += np.arange(self.values.shape[place]).reshape([-1 if j == place else 1 for j in range(labels.ndim)])
        same = (labels.ravel()[:, None] == labels.ravel()[None, :]).astype(np.float64)
        x, n = self.values.ravel(), same @ self.values.ravel()
        both = same @ self.covariance
        own, shared, whole = np.diag(self.covariance), np.diag(both), np.sum(both * same, axis=1)
        values, limits = np.full(x.size, np.nan), np.tile([0.0, 1.0], (x.size, 1))
        for k in np.flatnonzero(n > 0.0):
            p = values[k] = min(max(x[k] / n[k], 0.0), 1.0)
            variance = n[k] * p * (1.0 - p) + own[k] - 2.0 * p * shared[k] + p**2 * whole[k]
            one = np.eye(x.size)[k] - p * same[k]
            z2 = float(critical_square(level, self.noise.kurtosis_along(one, np.asarray(variance))))
            square = n[k] ** 2 + z2 * (n[k] - whole[k])
            if n[k] ** 2 <= z2 * whole[k]:
                continue  # n may be 0
            pieces = fieller(
                square, -2.0 * x[k] * n[k] - z2 * (n[k] - 2.0 * shared[k]), x[k] ** 2 - z2 * own[k], 0.0, 1.0
            )
            limits[k] = (pieces[0][0], pieces[-1][1]) if pieces else (values[k], values[k])
        low, high = (side.reshape(self.values.shape) for side in limits.T)
        return Estimate(frozen(values.reshape(self.values.shape)), frozen(low), frozen(high), level)

    @takes_level
    def odds_ratio(self, level: float = 0.95) -> Effect:
        """Return the odds of the second factor's last level, in the last level of the first over those in its first.

        Parameters
        ----------
        level : float
            Coverage, in [0.5, 1).

        Returns
        -------
        Effect
            The set is made of the ratios that the score test does not reject: see `risk_ratio`.

        Raises
        ------
        ValueError
            When `level` is not in [0.5, 1).
        EstimationError
            When the table has not 2 × 2 cells.
        """
        x, y = self._two_by_two()
        value = _ratio(x[1] * y[0], y[1] * x[0])
        return self._ratio(f"odds ratio of {self._compared}", value, bilinear(X1, Y0), bilinear(Y1, X0), level)

    @takes_level
    def risk_ratio(self, level: float = 0.95) -> Effect:
        r"""Return the risk of the second factor's last level, in the last level of the first over that in its first.

        Parameters
        ----------
        level : float
            Coverage, in [0.5, 1).

        Returns
        -------
        Effect
            The set has no upper end where the noise does not tell the lower risk from 0.

        Raises
        ------
        ValueError
            When `level` is not in [0.5, 1).
        EstimationError
            When the table has not 2 × 2 cells.

        Notes
        -----
        The set inverts the score test of a constraint on the means that is bilinear, as Fieller's is: :math:`x_1y_0 =
        \theta y_1x_0` for the odds ratio, :math:`x_1n_0=\theta x_0n_1` for the risk ratio and
        :math:`x_1n_0-x_0n_1=\delta n_1n_0` for the risk difference, with x the rows with the level, y those without and
        n both. Without noise it is the score interval of Miettinen and Nurminen without their factor N / (N − 1)
        (`analyst_client.analyses.quadrics.score_statistic`).
        """
        x, y = self._two_by_two()
        value = _ratio(x[1] * (x[0] + y[0]), x[0] * (x[1] + y[1]))
        above, below = bilinear(X1, X0 + Y0), bilinear(X0, X1 + Y1)
        return self._ratio(f"risk ratio of {self._compared}", value, above, below, level)

    @takes_level
    def risk_difference(self, level: float = 0.95) -> Effect:
        """Return the risk of the second factor's last level, in the last level of the first less that in its first.

        Parameters
        ----------
        level : float
            Coverage, in [0.5, 1).

        Returns
        -------
        Effect
            The set is made of the differences in [−1, 1] that the score test does not reject: see `risk_ratio`.

        Raises
        ------
        ValueError
            When `level` is not in [0.5, 1).
        EstimationError
            When the table has not 2 × 2 cells.
        """
        x, y = self._two_by_two()
        value = _ratio(x[1], x[1] + y[1]) - _ratio(x[0], x[0] + y[0])
        apart = bilinear(X1, X0 + Y0) - bilinear(X0, X1 + Y1)
        joint = bilinear(X1 + Y1, X0 + Y0)

        def statistic(differences: FloatArray) -> FloatArray:
            constraints = apart - differences[:, None, None] * joint
            return score_statistic(self.values.ravel(), self.noise, constraints, np.ones(4))

        known = [value] if abs(value) < 1.0 else []
        grid = np.unique(np.concatenate([np.linspace(-1.0, 1.0, 161), known]))
        return Effect(
            f"risk difference of {self._compared}", value, invert(statistic, normal_square(level), grid), level
        )

    @property
    def _compared(self) -> str:
        first, second = self.factors
        return f"{second.levels[1]}: {first.levels[1]} against {first.levels[0]}"

    def _ratio(self, name: str, value: float, above: FloatArray, below: FloatArray, level: float) -> Effect:
        critical = normal_square(level)
        pieces = ratio_set(self.values.ravel(), self.noise, above, below, np.ones(4), critical)
        return Effect(name, value, pieces, level)

    def _two_by_two(self) -> tuple[FloatArray, FloatArray]:
        """Return for each group the rows with the event and those without."""
        if self.values.shape != (2, 2):
            raise EstimationError("this compares 2 × 2 cells: `keep` two levels of each factor")
        return self.values[:, 1], self.values[:, 0]

    def _rows(self) -> float:
        if self.total <= 0.0:
            raise EstimationError("the noise hides all rows of the table")
        return self.total

    def _independence(self) -> tuple[FloatArray, FloatArray]:
        """Return J, and the covariance of the cells under independence."""
        if self.values.ndim != 2 or min(self.values.shape) < 2:
            raise EstimationError("this needs a table of two factors with two levels or more: take a `margin`")
        n = self._rows()
        rows, columns = (np.maximum(self.values.sum(axis=j), 0.0) for j in (1, 0))
        p, q = rows / rows.sum(), columns / columns.sum()
        J = np.kron(np.eye(len(p)) - p[:, None], np.eye(len(q)) - q[:, None])
        return J, np.diag(n * np.kron(p, q)) + self.covariance

    def _test(self, name: str, J: FloatArray, V: FloatArray) -> TableTest:
        residuals, covariance = J @ self.values.ravel(), J @ V @ J.T
        if not np.linalg.eigvalsh(covariance)[0] > SINGULAR * np.trace(covariance):
            raise EstimationError("a row or a column of the table is empty, and there is no noise")
        root = np.linalg.cholesky(covariance)
        statistic = float(np.sum(np.linalg.solve(root, residuals) ** 2))
        kurtosis, share = self.noise.joint_kurtosis(J, covariance)
        pvalue = chi2_tail(statistic, len(J), float(kurtosis))
        return TableTest(name, statistic, len(J), pvalue, float(share))

    def _mapped(self, M: FloatArray, factors: Sequence[Factor]) -> "ContingencyTable":
        values = (M @ self.values.ravel()).reshape([len(factor.levels) for factor in factors])
        return ContingencyTable(values, factors=factors, draws=M @ self.draws, excess_kurtosis=self.excess_kurtosis)

    def _place_of(self, name: str) -> int:
        names = [factor.name for factor in self.factors]
        if name not in names:
            raise ValueError(f"the table has no factor {name!r}; it has {', '.join(names) or 'none'}")
        return names.index(name)

    def __repr__(self) -> str:
        """Show what is counted."""
        return f"<ContingencyTable {' × '.join(f'{len(one.levels)}' for one in self.factors)} cells>"

    def _view(self) -> View:
        spread = np.sqrt(np.diag(self.covariance)).reshape(self.values.shape)
        rows: list[list[Inline]] = [
            [
                *(untrusted(factor.levels[i]) for factor, i in zip(self.factors, place, strict=True)),
                f"{self.values[place]:,.1f}",
                number(float(spread[place])),
            ]
            for place in np.ndindex(*self.values.shape)
        ]
        names: list[Inline] = [untrusted(factor.name) for factor in self.factors]
        caption = join("Contingency table", quiet(" (counts with noise)"))
        width = len(names)
        return (table(caption, [*names, "count", "sd of the noise"], rows, numeric=(width, width + 1)),)


Y0, X0, Y1, X1 = np.eye(4)
"""The cells of 2 × 2: with the event (x) and without, in the first group and in the last."""


def _adding(finest: Sequence[Factor], factors: Sequence[Factor]) -> FloatArray:
    """Return how the finest cells add up to those of a coarser table, of shape (cells, finest cells)."""
    adding: FloatArray = np.ones((1, 1))
    if [factor.name for factor in factors] != [factor.name for factor in finest]:
        raise ValueError("nested tables have the same columns, in the same order")
    for fine, factor in zip(finest, factors, strict=True):
        if fine.edges is None or factor.edges is None:
            part = np.eye(len(fine.levels))
            if factor.levels != fine.levels:
                raise ValueError(f"nested tables have the same levels of {fine.name!r}")
        else:
            edges = np.array(fine.edges)
            places = np.abs(edges[:, None] - np.array(factor.edges)).argmin(axis=0)
            near = 1e-9 * (edges[-1] - edges[0])
            if np.max(np.abs(edges[places] - factor.edges)) > near or places[0] != 0 or places[-1] != len(edges) - 1:
                raise ValueError(f"nested tables have edges of {fine.name!r} that the finest has too, from end to end")
            of = np.repeat(np.arange(len(factor.levels)), np.diff(places))
            part = np.eye(len(factor.levels))[:, of]
        adding = np.kron(adding, part).astype(np.float64)
    return adding


def root_of(covariance: ArrayLike, size: int) -> FloatArray:
    """Return R with RR' the covariance of `size` numbers, or of independent ones with these variances.

    Raises
    ------
    ValueError
        When it is no covariance.
    """
    matrix = np.asarray(covariance, dtype=np.float64)
    matrix = np.diag(np.broadcast_to(matrix, size)) if matrix.shape in {(), (size,)} else matrix
    if matrix.shape != (size, size) or not np.allclose(matrix, matrix.T):
        raise ValueError(f"the covariance of {size} cells is a symmetric matrix of that size, of finite numbers")
    if np.array_equal(matrix, np.diag(np.diag(matrix))):
        e, U = np.diag(matrix), np.eye(size)
    else:
        e, U = np.linalg.eigh(matrix)
    if float(np.min(e, initial=0.0)) < -1e-9 * float(np.sum(np.abs(e))):
        raise ValueError("a covariance has no negative eigenvalue")
    return np.asarray(U * np.sqrt(np.maximum(e, 0.0)))


def _ratio(above: float, below: float) -> float:
    """Divide noisy numbers; nan where they give no ratio of counts."""
    if below > 0.0:
        return float(above / below) if above >= 0.0 else math.nan
    return math.inf if below == 0.0 < above else math.nan
