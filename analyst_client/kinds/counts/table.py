"""A noisy table: counts of rows in cells, with what can be said of the exact counts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Block, Inline, Note, View, join, number, quiet, table, untrusted
from analyst_client.display.terminal import plain
from analyst_client.kinds.arrays import frozen, read_numbers, read_packed
from analyst_client.kinds.counts.axes import TableAxis, TableShape
from analyst_client.kinds.counts.bins import check_part, quantile_of_bins
from analyst_client.kinds.counts.laws import contrast_quantile, noise_quantile, noise_quantiles
from analyst_client.level import takes_level
from analyst_client.schema.quotes import read_deviation, read_is_laplace
from analyst_client.schema.wire import Fields


class Estimate(NamedTuple):
    """An estimate and its interval.

    Attributes
    ----------
    value, low, high : float or ndarray
    level : float
        With at least this probability the interval holds what is estimated, where nothing else is said.
    """

    value: Any
    low: Any
    high: Any
    level: float


@dataclass(frozen=True, eq=False, repr=False)
class Table(TableShape, Displayable):
    """Noisy counts of the rows in each cell.

    A count is that of the rows in the curator's dataset, not of a population that they were drawn from. A row that
    misses the value of an axis without a cell for that, or lies outside of its edges, is in no cell. Arrays are
    read-only, in the order of the axes.

    Attributes
    ----------
    name : str
        Name in the answer.
    axes : tuple of TableAxis
        Each with its `column`, its `edges` if that is numeric, and the `labels` of its cells.
    values : ndarray
        Exact counts plus noise: nothing is rounded or clipped, so they may be negative.
    draws : ndarray of int
        Number of independent draws of noise in each value: 1, or more in what was added up.
    draw_sd : float
        Standard deviation of one draw.
    is_laplace : bool
        Whether the draws are Laplace or Gaussian.

    Examples
    --------
    >>> from analyst_client import Axis, CountsRequest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = CountsRequest([["sex", Axis("age", edges=[50, 60, 70, 100])]], epsilon=0.5, delta=1e-6)
    >>> table = client.release("flchain", request).tables[0]
    >>> table.shape, table.margin("sex").values.round().tolist()
    ((2, 3), [4326.0, 3516.0])
    """

    values: FloatArray
    draws: NDArray[np.int64]
    draw_sd: float
    is_laplace: bool

    @property
    def sd(self) -> FloatArray:
        """Standard deviation of the noise in each cell."""
        return frozen(self.draw_sd * np.sqrt(self.draws))

    def __repr__(self) -> str:
        """Show what is counted, and how much noise there is."""
        cells = " × ".join(map(str, self.shape)) or "1"
        return plain(f"<Table {self.title}: {cells} cells, sd {number(float(np.max(self.sd)))}>")

    def _view(self) -> View:
        return show_table(self)

    def margin(self, *columns: str) -> "Table":
        """Return the counts of some of the columns, in this order: the others' cells are added up, with their noise.

        Cells for missing values are added up too. Without columns it is one number: all rows in cells.

        Raises
        ------
        ValueError
            When there is no such column.
        """
        kept = [self._place_of(column) for column in columns]
        if len(set(kept)) < len(kept):
            raise ValueError("each column stands once")
        others = tuple(j for j in range(len(self.axes)) if j not in kept)
        order = [sorted(kept).index(j) for j in kept]
        values = np.asarray(self.values.sum(axis=others)).transpose(order)
        draws = np.asarray(self.draws.sum(axis=others)).transpose(order)
        return replace(self, axes=tuple(self.axes[j] for j in kept), values=frozen(values), draws=frozen(draws))

    @takes_level
    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> FloatArray:
        """Return intervals for the exact count of each cell.

        Parameters
        ----------
        level : float
            The probability that a cell's interval holds its count, over the noise; nothing else is uncertain.
        simultaneous : bool
            Whether with that probability all cells' intervals hold theirs at once.

        Returns
        -------
        ndarray of shape (*shape, 2)
            In rows.

        Raises
        ------
        ValueError
            When `level` is not in [0.5, 1).

        Notes
        -----
        By the exact law of a cell's noise: a sum of n Gaussian draws is Gaussian, and a sum of n Laplace draws has the
        law of n of them. A count is not below 0, so neither is an end, which can only raise the probability.
        """
        tail = -math.expm1(math.log(level) / self.size) / 2.0 if simultaneous else (1.0 - level) / 2.0
        half = self.draw_sd * noise_quantiles(tail, self.draws, laplace=self.is_laplace)
        return frozen(np.maximum(np.stack([self.values - half, self.values + half], axis=-1), 0.0))

    @takes_level
    def total(self, level: float = 0.95) -> Estimate:
        """Return how many rows are in cells, with the interval of `interval`."""
        whole = self.margin()
        low, high = whole.interval(level)
        return Estimate(float(whole.values), float(low), float(high), level)

    @takes_level
    def proportions(self, level: float = 0.95, *, of: str = "dataset") -> Estimate:
        r"""Return the proportion of each cell among all rows in cells, with intervals, one cell at a time.

        Parameters
        ----------
        level : float
            Coverage of each interval, in [0.5, 1).
        of : str
            ``"dataset"``: of these very rows; the noise alone is uncertain. ``"population"``: of the population of
            which the rows in cells are an independent sample; what the sample happened to be is uncertain too.

        Returns
        -------
        Estimate
            Of arrays. A value is nan where the total is not positive.

        Raises
        ------
        ValueError
            When `level` is not in [0.5, 1), or `of` is neither.

        Notes
        -----
        Gaussian noise, of the dataset: Fieller's interval ("Some problems in interval estimation", JRSS B 16, 1954),
        the p with :math:`(y_i-pY)^2\le z^2[(1-p)^2s_i^2+p^2s_{-i}^2]`; its level is exact. Of the population: Wilson's
        score interval ("Probable inference, the law of succession, and statistical inference", JASA 22, 1927) with the
        noise beside the binomial variance, :math:`Yp(1-p)` more in the brackets: approximate, as Wilson's is.

        Laplace noise: the extremes of c / (c + r) over intervals of the cell's count c and of the rest r, which hold
        both with probability `level`, as their noise is independent. Of the population: the extremes of Clopper and
        Pearson's limits ("The use of confidence or fiducial limits", Biometrika 26, 1934) over these, each with half of
        the error: the level is at least the stated one.

        Where the noise does not tell the total from 0 the interval is all of [0, 1].
        """
        check_of(of)
        whole = self.margin()
        limits = _laplace_limits if self.is_laplace else _gaussian_limits
        low, high = limits(self, float(whole.values), int(whole.draws), level, sampled=of == "population")
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(whole.values > 0.0, self.values / whole.values, np.nan)
        return Estimate(frozen(values), frozen(low), frozen(high), level)

    @takes_level
    def median(self, column: str, level: float = 0.95) -> Estimate:
        """Return the median of a numeric column, of the rows in its bins.

        Parameters
        ----------
        column : str
            Other axes are added up, and rows that miss its value are left out.
        level : float
            Coverage of the interval, in [0.5, 1).

        Returns
        -------
        Estimate
            As of `quantile`.
        """
        return self.quantile(column, 0.5, level)

    @takes_level
    def quantile(self, column: str, q: float, level: float = 0.95) -> Estimate:
        r"""Return a quantile of a numeric column, of the rows in its bins.

        Parameters
        ----------
        column : str
            Other axes are added up, and rows that miss its value are left out.
        q : float
            Within (0, 1): the quantile is the least value that a part q of the rows, or more, do not exceed.
        level : float
            Coverage of the interval, in [0.5, 1).

        Returns
        -------
        Estimate
            The value supposes that rows lie evenly within their bin. The interval does not: from edge to edge, it holds
            the exact quantile of the rows with probability `level` or more, wherever they lie within their bins. It is
            never shorter than a bin: finer bins are what makes it so. It is about the dataset, not about a population.

        Raises
        ------
        ValueError
            When the column is not a numeric one of this table, or `q` is not in (0, 1), or `level` not in [0.5, 1).

        Notes
        -----
        Let :math:`C_j` be the rows below edge j, N all. The quantile is in bin j exactly when
        :math:`D_{j-1} < 0 \le D_j` with :math:`D_j = C_j - qN`. A bin is left out when the noisy :math:`D_{j-1}`
        exceeds what noise exceeds with probability (1 − level) / 2, or :math:`D_j` is as far below 0: each test errs so
        seldom for the true bin, whatever the other bins are, so looking at all of them costs no level. The noise
        of :math:`D_j` is :math:`1-q` times that of the bins below and :math:`q` times that of the bins above. Its law
        is exact for Gaussian noise and for the median, and bounded for other quantiles under Laplace noise
        (`analyst_client.kinds.counts.laws.contrast_quantile`).
        """
        check_part(q)
        margin = self.margin(column)
        (axis,) = margin.axes
        if axis.edges is None:
            raise ValueError(f"{column!r} is {axis.column.type}: only a numeric column has quantiles")
        values, draws = margin.values[: axis.bins], margin.draws[: axis.bins]
        drawn, all_drawn = np.cumsum(draws), int(np.sum(draws))
        tail = (1.0 - level) / 2.0
        beyond = np.zeros(axis.bins + 1)
        for j in range(1, axis.bins):
            parts = [(1.0 - q, int(drawn[j - 1])), (q, all_drawn - int(drawn[j - 1]))]
            beyond[j] = self.draw_sd * contrast_quantile(tail, parts, laplace=self.is_laplace)
        return Estimate(*quantile_of_bins(axis.edges, values, q, beyond), level)

    @takes_level
    def plot(self, ax: Any = None, level: float = 0.95) -> Any:
        """Draw the counts with their intervals; needs the extra ``plots``, see `analyst_client.plots.histogram`.

        Parameters
        ----------
        ax : Axes, optional
            Default those of a new figure.
        level : float
            Coverage of the intervals, in [0.5, 1).

        Returns
        -------
        Axes
            With a bar for each cell.
        """
        from analyst_client.plots.histogram import histogram  # noqa: PLC0415 -- matplotlib is an extra

        return histogram(self, ax, level=level)

    def arranged(self, order: Sequence[int]) -> Self:
        """Return this table with its axes in another order, each by its place here."""
        values, draws = self.values.transpose(order), self.draws.transpose(order)
        return replace(super().arranged(order), values=frozen(values), draws=frozen(draws))

    def _place_of(self, column: str) -> int:
        names = [axis.name for axis in self.axes]
        if column not in names:
            raise ValueError(f"the table has no column {column!r}; it has {', '.join(names) or 'none'}")
        return names.index(column)


def read_table(shape: TableShape, statistics: Fields, noise: Fields) -> Table:
    """Read the values of a table. Raise `ServiceError` where something is wrong."""
    entry = statistics.object(shape.name)
    values = read_packed(entry, list(shape.shape), shape.size).reshape(shape.shape)
    draws = np.ones(shape.size, dtype=np.int64)
    if entry.has("draws"):
        counted = read_numbers(entry, "draws", shape.size)
        if not all(isinstance(n, int) and 0 < n < 2**31 for n in counted):
            raise entry.fault("draws", "made of positive integers")
        draws = np.array(counted, dtype=np.int64)
    largest = read_deviation(noise, shape.name)
    draw_sd = largest / math.sqrt(int(draws.max()))
    return Table(shape.name, shape.axes, values, frozen(draws.reshape(shape.shape)), draw_sd, read_is_laplace(noise))


def _gaussian_limits(
    counts: Table, total: float, draws: int, level: float, *, sampled: bool
) -> tuple[FloatArray, FloatArray]:
    """Solve the quadratic of Fieller's interval, or of Wilson's with noise; see `Table.proportions`."""
    y, own = counts.values, counts.draw_sd**2 * counts.draws
    rest = counts.draw_sd**2 * (draws - counts.draws)
    z2 = noise_quantile((1.0 - level) / 2.0, 1, laplace=False) ** 2
    binomial = max(total, 0.0) if sampled else 0.0
    a = total**2 + z2 * (binomial - own - rest)
    half_b = -y * total - z2 * (binomial / 2.0 - own)
    root = np.sqrt(np.maximum(half_b**2 - a * (y**2 - z2 * own), 0.0))
    told = (a > 0.0) & (total > 0.0)
    divisor = np.where(told, a, 1.0)
    low, high = (np.clip((-half_b + sign * root) / divisor, 0.0, 1.0) for sign in (-1.0, 1.0))
    return np.where(told, low, 0.0), np.where(told, high, 1.0)


def _laplace_limits(
    counts: Table, total: float, draws: int, level: float, *, sampled: bool
) -> tuple[FloatArray, FloatArray]:
    """Go through the corners of intervals of the cell and of the rest; see `Table.proportions`."""
    noise_level = (1.0 + level) / 2.0 if sampled else level  # half of the error is left for the sample
    tail = (1.0 - math.sqrt(noise_level)) / 2.0
    ends = []
    for values, drawn in ((counts.values, counts.draws), (total - counts.values, draws - counts.draws)):
        half = counts.draw_sd * noise_quantiles(tail, np.maximum(drawn, 1), laplace=True) * (drawn > 0)
        ends.append([np.maximum(values + sign * half, 0.0) for sign in (-1.0, 1.0)])
    (cell_low, cell_high), (rest_low, rest_high) = ends
    if sampled:
        from scipy import special  # noqa: PLC0415 -- the import of the client stays quick

        error = (1.0 - level) / 4.0
        low = special.betaincinv(np.maximum(cell_low, 1e-300), rest_high + 1.0, error)
        high = special.betainccinv(cell_high + 1.0, np.maximum(rest_low, 1e-300), error)
        return np.where(cell_low > 0.0, low, 0.0), np.where(rest_low > 0.0, high, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = cell_low / (cell_low + rest_high), cell_high / (cell_high + rest_low)
    return np.where(cell_low > 0.0, low, 0.0), np.where(rest_low > 0.0, high, 1.0)


def check_of(of: str) -> None:
    """Refuse whatever an estimate cannot be of. Raise `ValueError`."""
    if of not in {"dataset", "population"}:
        raise ValueError("of is 'dataset' or 'population'")


def show_table(counts: Table) -> View:
    """Show the counts of all cells, and their total, with intervals."""
    return (list_cells(counts), Note(NOTE))


NOTE = "An interval holds the exact count of its cell in the dataset with probability 95%, one cell at a time."


def list_cells(counts: Table) -> Block:
    """Return the table of the cells."""
    whole = counts.margin()
    values = [*counts.values.ravel(), float(whole.values)]
    limits = [*counts.interval().reshape(-1, 2), whole.interval()]
    labels = [axis.labels for axis in counts.axes]
    cells: list[list[Inline]] = [
        [untrusted(labels[j][i]) for j, i in enumerate(place)] for place in np.ndindex(*counts.shape)
    ]
    if not counts.axes:
        cells, values, limits = [], values[:1], limits[:1]
    law = "Laplace" if counts.is_laplace else "Gaussian"
    least, most = (number(float(edge(counts.sd))) for edge in (np.min, np.max))
    spread = most if least == most else f"{least} to {most}"
    caption = join(untrusted(counts.title), quiet(f" ({law} noise, sd {spread})"))
    names: list[Inline] = [untrusted(with_unit(axis)) for axis in counts.axes] or ["rows"]
    return table_of_cells(caption, names, cells, values, limits, counts.draw_sd)


def table_of_cells(
    caption: Inline,
    names: Sequence[Inline],
    cells: Sequence[Sequence[Inline]],
    values: Sequence[float],
    limits: Sequence[Sequence[float]],
    sd: float,
) -> Block:
    """Return a table of counts with intervals: of each cell, and last of all of them, whose label is made here."""
    decimals = max(0, -math.floor(math.log10(sd))) if 0.0 < sd < 1.0 else 0
    labels = [*cells, ["all", *[""] * (len(names) - 1)]]
    rows = [
        [*cell, f"{value:,.{decimals}f}", f"{low:,.{decimals}f} to {high:,.{decimals}f}"]
        for cell, value, (low, high) in zip(labels, values, limits, strict=True)
    ]
    width = len(names)
    total = len(rows) - 1 if cells else -1
    return table(caption, [*names, "count", "95% interval"], rows, numeric=(width, width + 1), total=total)


def with_unit(axis: TableAxis) -> str:
    """Return the name of an axis with its unit."""
    return f"{axis.name} ({axis.column.unit})" if axis.column.unit else axis.name
