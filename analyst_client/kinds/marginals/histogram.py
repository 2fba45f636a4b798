"""A numeric column in equal bins of its bounds, by a tree or by a flat item."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Note, View, join, number, quiet, untrusted
from analyst_client.display.terminal import plain
from analyst_client.kinds.arrays import frozen
from analyst_client.kinds.counts.axes import TableAxis
from analyst_client.kinds.counts.bins import check_part, quantile_of_bins
from analyst_client.kinds.counts.laws import combined_quantile
from analyst_client.kinds.counts.table import NOTE, Estimate, check_of, table_of_cells, with_unit
from analyst_client.kinds.marginals.items import Marginal, bounds_of, center_and_scale
from analyst_client.kinds.marginals.tree import apply_inverse, cumulative_variances, fit_tree
from analyst_client.level import LEVEL, takes_level


@dataclass(frozen=True, eq=False, repr=False)
class Histogram(Displayable):
    """Noisy counts of the rows in equal bins of a column's bounds.

    Of a tree they are those of its finest level, made to agree with all others by least squares; their noise is not
    independent. Rows that miss the value are in no bin.

    Attributes
    ----------
    axis : TableAxis
        With its `column`, its `edges` and the `labels` of its bins.
    values : ndarray of shape (bins,)
        Right on average: nothing is rounded or clipped, so they may be negative.
    draw_sd : float
        Standard deviation of a draw of noise; see `sd` for that of a bin.
    is_tree, is_laplace : bool
        Whether it was made of a tree, and whether draws are Laplace or Gaussian.

    Examples
    --------
    >>> from analyst_client import Flat, MarginalsRequest, Moments, Tree
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = MarginalsRequest([Tree(["age"]), Flat(["kappa"]), Moments(["age"])], epsilon=0.5, delta=1e-6)
    >>> histogram = client.release("flchain", request).histogram("kappa")
    >>> histogram.edges[:3], histogram.values[:3].round().tolist()
    ((0.0, 0.375, 0.75), [199.0, 773.0, 2033.0])
    """

    axis: TableAxis
    values: FloatArray
    draw_sd: float
    is_tree: bool
    is_laplace: bool

    @classmethod
    def of(cls, marginal: Marginal, place: int) -> "Histogram":
        """Return the histogram of one column.

        Parameters
        ----------
        marginal : Marginal
            A tree or a flat item.
        place : int
            Place of the column in it, from 0.

        Returns
        -------
        Histogram
            With the finest bins.
        """
        column, values = marginal.columns[place], marginal.values[place]
        is_tree = marginal.type == "tree"
        values = frozen(fit_tree(values) if is_tree else values)
        bins, (low, high), (center, scale) = len(values), bounds_of(column), center_and_scale(column)
        edges = (low, *(center + scale * (2 * i / bins - 1) for i in range(1, bins)), high)
        return cls(TableAxis(column, edges, missing=False), values, marginal.sd, is_tree, marginal.is_laplace)

    def __repr__(self) -> str:
        """Show what is counted, and how much noise there is."""
        return plain(f"<Histogram of {self.axis.name}: {len(self.values)} bins, sd {number(self.sd)}>")

    @property
    def edges(self) -> tuple[float, ...]:
        """Edges of the bins, one more than there are."""
        assert self.axis.edges is not None
        return self.axis.edges

    @property
    def sd(self) -> float:
        """Standard deviation of the noise in a bin, the same in all."""
        one = np.eye(1, len(self.values))[0]
        return math.sqrt(float(self.covariance(one)[0, 0]))

    def covariance(self, *forms: FloatArray) -> FloatArray:
        """Return the covariance of the noise in weighted sums of bins, of shape (forms, forms).

        Parameters
        ----------
        *forms : ndarray of shape (bins,)
            Weights.
        """
        A = np.stack(forms)
        return self.draw_sd**2 * A @ (apply_inverse(A) if self.is_tree else A).T

    @takes_level
    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> FloatArray:
        """Return intervals for the exact count of each bin.

        Parameters
        ----------
        level : float
            The probability that a bin's interval holds its count, over the noise; nothing else is uncertain.
        simultaneous : bool
            Whether with at least that probability all bins' intervals hold theirs at once.

        Returns
        -------
        ndarray of shape (bins, 2)
            In rows.

        Raises
        ------
        ValueError
            When `level` is not in [0.5, 1).
        """
        tail = (1.0 - level) / 2.0 / (len(self.values) if simultaneous else 1)
        half = self.sd * combined_quantile(tail, laplace=self.is_laplace)
        return frozen(np.maximum(np.stack([self.values - half, self.values + half], axis=-1), 0.0))

    @takes_level
    def quantiles(self, q: float | Sequence[float], level: float = 0.95, *, of: str = "dataset") -> Estimate:
        r"""Return quantiles of the rows in bins.

        Parameters
        ----------
        q : float or sequence of float
            Within (0, 1): a quantile is the least value that a part q of the rows, or more, do not exceed.
        level : float
            Coverage of each interval, in [0.5, 1).
        of : str
            ``"dataset"``: of these very rows; the noise alone is uncertain. ``"population"``: of the population of
            which they are an independent sample; what the sample happened to be is uncertain too.

        Returns
        -------
        Estimate
            As of `Table.quantile`: intervals go from edge to edge. Of arrays, where `q` is a sequence.

        Raises
        ------
        ValueError
            When a q is not in (0, 1), `level` not in [0.5, 1), or `of` is neither.

        Notes
        -----
        See `Table.quantile`: with :math:`D_j = C_j - qN`, a bin is left out when :math:`D_j` at one of its ends is
        farther on the wrong side of 0 than what noise exceeds with probability (1 − level) / 2. The variance of
        :math:`D_j` is that of least squares. Of a population the binomial :math:`Nq(1-q)` is beside it.
        """
        check_of(of)
        if isinstance(q, Sequence | np.ndarray):
            found = np.array([self.quantiles(float(one), level, of=of)[:3] for one in q]).reshape(-1, 3)
            values, lows, highs = map(frozen, found.T)
            return Estimate(values, lows, highs, level)
        check_part(q)
        sampled = max(float(self.values.sum()), 0.0) * q * (1.0 - q) if of == "population" else 0.0
        z = combined_quantile((1.0 - level) / 2.0, laplace=self.is_laplace)
        beyond = z * np.sqrt(self.cumulative_sds(q) ** 2 + sampled)
        return Estimate(*quantile_of_bins(self.edges, self.values, q, beyond), level)

    def cumulative_sds(self, q: float) -> FloatArray:
        """Return the standard deviation of the noise in the rows below each edge less a part q of all rows."""
        n = len(self.values)
        below = np.arange(n + 1, dtype=np.float64)
        variances = (1.0 - q) ** 2 * below + q**2 * (n - below)
        sds: FloatArray = self.draw_sd * np.sqrt(cumulative_variances(n, q) if self.is_tree else variances)
        return sds

    def _view(self) -> View:
        ones = np.ones(len(self.values))
        half = combined_quantile((1.0 - LEVEL) / 2.0, laplace=self.is_laplace) * math.sqrt(
            float(self.covariance(ones)[0, 0])
        )
        total = float(self.values.sum())
        law = "Laplace" if self.is_laplace else "Gaussian"
        kind = "a tree's finest" if self.is_tree else "equal"
        caption = join(untrusted(self.axis.name), quiet(f" ({kind} bins, {law} noise, sd {number(self.sd)})"))
        cells = [[untrusted(label)] for label in self.axis.labels]
        limits = [*self.interval(), np.maximum([total - half, total + half], 0.0)]
        block = table_of_cells(
            caption, [untrusted(with_unit(self.axis))], cells, [*self.values, total], limits, self.sd
        )
        return block, Note(NOTE)
