"""A release of marginals: one published answer, and what it says of each column."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from analyst_client.display.model import Block, Inline, Note, number, table, untrusted
from analyst_client.kinds.counts.table import Estimate
from analyst_client.kinds.marginals import KIND
from analyst_client.kinds.marginals.histogram import Histogram
from analyst_client.kinds.marginals.items import ColumnAsked, Marginal, center_and_scale, read_marginal
from analyst_client.kinds.marginals.quote import Marginals
from analyst_client.kinds.marginals.recentring import Recentring, propose
from analyst_client.kinds.marginals.sums import Sums
from analyst_client.kinds.parts import PartsRelease
from analyst_client.level import LEVEL, takes_level
from analyst_client.schema.columns import Column
from analyst_client.terms.expression import Expression, as_expression
from analyst_client.terms.matching import names_column

SHOWN_NOTE = (
    "An interval holds the exact number of the dataset with probability 95%, one at a time. A column's rows are those "
    "that have a value."
)


class Support(NamedTuple):
    """A range that holds nearly all values of a column.

    Attributes
    ----------
    low, high : float
        Edges of bins.
    level : float
        With at least this probability no more than the asked part of the rows is below `low`, and no more above `high`.
    """

    low: float
    high: float
    level: float


@dataclass(frozen=True, eq=False, repr=False)
class MarginalsRelease(Marginals, PartsRelease):
    """Noisy marginals of a dataset: where single numeric columns are, and how spread.

    Made by `CuratorClient.release` with a `MarginalsRequest`, in the order that was asked; by `load` or
    `CuratorClient.fetch_release` in that of the curator. Two releases are equal when their texts are. Text, cost
    and receipt: see `PublishedAnswer`.

    Attributes
    ----------
    marginals : tuple of Marginal
        The items, each with its `type`, its `columns`, and its `values` as they were released.

    Examples
    --------
    >>> from analyst_client import Flat, MarginalsRequest, Moments, Tree
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = MarginalsRequest([Tree(["age"]), Flat(["kappa"]), Moments(["age"])], epsilon=0.5, delta=1e-6)
    >>> release = client.release("flchain", request)
    >>> round(release.mean("age").value, 1), round(release.std("age").value, 1)
    (64.3, 10.6)
    """

    kind = KIND
    _read_numbers = staticmethod(read_marginal)
    marginals: tuple[Marginal, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of all items, each once."""
        listed = [column for marginal in self.marginals for column in marginal.columns]
        return tuple({column.name: column for column in listed}.values())

    @takes_level
    def count(self, column: ColumnAsked, level: float = 0.95) -> Estimate:
        """Return how many rows have a value of a column; all that was released of them counts.

        Parameters
        ----------
        column : str or Expression
            One that was asked.
        level : float
            The probability that the interval holds the exact number, over the noise.

        Returns
        -------
        Estimate
            In rows, or in their weight where one was asked.

        Raises
        ------
        ValueError
            When the release has no such column, or `level` is not in [0.5, 1).
        """
        return self._sums(self._find(column)).count(level)

    @takes_level
    def missing(self, column: ColumnAsked, level: float = 0.95) -> Estimate:
        """Return how many rows miss the value of a column: fewer than a complete one has in this release.

        Parameters
        ----------
        column : str or Expression
            One that was asked.
        level : float
            The probability that the interval holds the exact number, over the noise.

        Returns
        -------
        Estimate
            In rows, or in their weight where one was asked.

        Raises
        ------
        ValueError
            When the release has no such column, none that is declared complete, or `level` is not in [0.5, 1).
        """
        asked = self._find(column)
        if asked.missing == "complete":
            return Estimate(0.0, 0.0, 0.0, level)
        whole = [self._sums(other) for other in self.columns if other.missing == "complete"]
        if not whole:
            raise ValueError(
                f"no column here is complete, so nothing tells how many rows there are: "
                f"CountsRequest([Axis({asked.name!r}, bins=1, missing=True)], …) counts those that miss {asked.name!r}"
            )
        rows = reduce(Sums.seeing_count, whole)
        return rows.less(self._sums(asked)).count(level)

    @takes_level
    def mean(self, column: ColumnAsked, level: float = 0.95, *, of: str = "dataset") -> Estimate:
        """Return the mean of a column, of the rows that have a value.

        Parameters
        ----------
        column : str or Expression
            One that was asked. Moments are used if there are any, or else bins.
        level : float
            Coverage of the interval, in [0.5, 1).
        of : str
            ``"dataset"``: of these very rows; the noise alone is uncertain. ``"population"``: of the population of
            which they are an independent sample; what the sample happened to be is uncertain too.

        Returns
        -------
        Estimate
            In the column's unit; values beyond its bounds count as the bound. By bins it supposes that rows lie in
            their middle; the interval does not, and is a bin longer. The value is nan where the noise leaves no rows.

        Raises
        ------
        ValueError
            When the release has no such column, `level` is not in [0.5, 1), or `of` is neither.

        Notes
        -----
        Fieller's interval of a ratio of two noisy sums; see `analyst_client.kinds.marginals.sums.Sums.mean`. It is all
        of the bounds where the noise does not tell the number of rows from 0.
        """
        found = self._find(column)
        return _scaled(self._sums(found).mean(level, of), *center_and_scale(found))

    @takes_level
    def std(self, column: ColumnAsked, level: float = 0.95, *, of: str = "dataset") -> Estimate:
        """Return the standard deviation of a column, of the rows that have a value.

        Parameters
        ----------
        column : str or Expression
            One that was asked. Moments are used if there are any, or else bins.
        level : float
            Coverage of the interval, in [0.5, 1).
        of : str
            ``"dataset"``: of these very rows; the noise alone is uncertain. ``"population"``: of the population of
            which they are an independent sample, with values taken as normal.

        Returns
        -------
        Estimate
            In the column's unit, as of `mean`. It is 0 where noise makes a variance negative; the interval then begins
            at 0.

        Raises
        ------
        ValueError
            When the release has no such column, `level` is not in [0.5, 1), or `of` is neither.
        """
        found = self._find(column)
        return _scaled(self._sums(found).std(level, of), 0.0, center_and_scale(found)[1])

    def histogram(self, column: ColumnAsked) -> Histogram:
        """Return the counts of a column in equal bins of its bounds.

        Parameters
        ----------
        column : str or Expression
            One that was asked in a tree or a flat item. A tree goes first, then what has more bins, or less noise.

        Returns
        -------
        Histogram
            Of a tree its finest bins, by least squares over all levels.

        Raises
        ------
        ValueError
            When the release has no such column, or only its moments.
        """
        found = self._find(column)
        histograms = self._histograms(found)
        if not histograms:
            raise ValueError(f"the release has only moments of {found.name!r}: ask for Tree([{found.name!r}]) too")
        return histograms[0]

    @takes_level
    def quantiles(
        self, column: ColumnAsked, q: float | Sequence[float], level: float = 0.95, *, of: str = "dataset"
    ) -> Estimate:
        """Return quantiles of a column, of the rows that have a value.

        Parameters
        ----------
        column : str or Expression
            As of `histogram`.
        q : float or sequence of float
            Within (0, 1).
        level : float
            Coverage of each interval, in [0.5, 1).
        of : str
            ``"dataset"`` or ``"population"``, as of `mean`.

        Returns
        -------
        Estimate
            As of `Histogram.quantiles`: intervals go from edge to edge.

        Raises
        ------
        ValueError
            When the release has no bins of such a column, a q, `level` or `of` is not in its range.
        """
        return self.histogram(column).quantiles(q, level, of=of)

    @takes_level
    def support(self, column: ColumnAsked, tail: float = 0.01, level: float = 0.95) -> Support:
        """Return a range that holds nearly all values of a column.

        Parameters
        ----------
        column : str or Expression
            As of `histogram`.
        tail : float
            Part of the rows that may be below the range, and that may be above; within (0, 0.5).
        level : float
            The probability that at most so many are, in [0.5, 1).

        Returns
        -------
        Support
            From edge to edge; the bounds where the noise hides a part so small.

        Raises
        ------
        ValueError
            When the release has no bins of such a column, or `tail` or `level` is not in its range.

        Notes
        -----
        It begins where the interval of the quantile `tail` does, and ends where that of 1 − `tail` ends; each of these
        ends is wrong with probability (1 − level) / 2 at most.
        """
        if not 0.0 < tail < 0.5:
            raise ValueError(f"tail must be in (0, 0.5), not {tail!r}")
        histogram = self.histogram(column)
        low, high = histogram.quantiles(tail, level).low, histogram.quantiles(1.0 - tail, level).high
        return Support(low, high, level)

    def recentring(self, columns: Iterable[ColumnAsked] | None = None) -> dict[str, Recentring]:
        """Propose where to center, scale and cut columns, for a next request.

        Parameters
        ----------
        columns : iterable of str or Expression, optional
            Default all columns of the release.

        Returns
        -------
        dict of str to Recentring
            By the column's name. It is made of what was released and costs nothing.

        Raises
        ------
        ValueError
            When the release has no such column, or `columns` is no list.

        Notes
        -----
        By a tree or a flat item: the range of the quantiles that rise above the noise, 0.5 % to 99.5 % where there is
        little of it, and the mean and standard deviation of the bins within. By moments: mean and standard deviation,
        and 2.5 of these on either side. Where the noise hides all of that: the declared bounds. Which item is used
        depends on the noise and the number of rows that were released.
        """
        if isinstance(columns, str | Expression):
            raise ValueError(f"columns is a list: one column is recentring([{columns!r}])")  # noqa: TRY004 -- one kind of error for arguments
        found = self.columns if columns is None else [self._find(column) for column in columns]
        return {column.name: propose(column, self._histograms(column), self._moments(column)) for column in found}

    def _find(self, asked: ColumnAsked) -> Column:
        expression, columns = as_expression(asked), self.columns
        for column in columns:
            if (isinstance(asked, str) and asked == column.name) or names_column(expression, column):
                return column
        names = ", ".join(column.name for column in columns)
        raise ValueError(f"the release has no column {asked!r}; it has {names}")

    def _items(self, column: Column, *types: str) -> list[tuple[Marginal, int]]:
        """Return the items of some types that tell of a column, and its place in each."""
        return [
            (marginal, place)
            for marginal in self.marginals
            for place, other in enumerate(marginal.columns)
            if other.name == column.name and marginal.type in types
        ]

    def _histograms(self, column: Column) -> list[Histogram]:
        found = [Histogram.of(marginal, place) for marginal, place in self._items(column, "tree", "flat")]
        return sorted(found, key=lambda one: (not one.is_tree, -len(one.values), one.draw_sd))  # public numbers alone

    def _moments(self, column: Column) -> Sums | None:
        found = [Sums.of_moments(marginal, place) for marginal, place in self._items(column, "moments")]
        return reduce(Sums.seeing, found) if found else None

    def _sums(self, column: Column) -> Sums:
        """Return the sums of a column's powers: by moments if there are any, and the count of all items."""
        histograms = [Sums.of_bins(histogram) for histogram in self._histograms(column)]
        moments = self._moments(column)
        return reduce(Sums.seeing, histograms if moments is None else [moments, *histograms])

    def _blocks(self) -> list[Block]:
        return [self._list_columns(), Note(SHOWN_NOTE)]

    def _list_columns(self) -> Block:
        rows: list[list[Inline]] = []
        for column in self.columns:
            sums, (center, scale) = self._sums(column), center_and_scale(column)
            mean, std = sums.mean(LEVEL, "dataset"), sums.std(LEVEL, "dataset")
            named = untrusted(f"{column.name} ({column.unit})" if column.unit else column.name)
            rows.append([named, "rows", *_write(sums.count(LEVEL))])
            rows.append(["", "mean", *_write(_scaled(mean, center, scale))])
            rows.append(["", "sd", *_write(_scaled(std, 0.0, scale))])
        law = "Laplace" if self.marginals[0].is_laplace else "Gaussian"
        return table(f"Columns ({law} noise)", ("column", "", "estimate", "95% interval"), rows, numeric=(2, 3))


def _scaled(estimate: Estimate, center: float, scale: float) -> Estimate:
    value, low, high = (center + scale * one for one in estimate[:3])
    return Estimate(value, low, high, estimate.level)


def _write(estimate: Estimate) -> tuple[str, str]:
    value = "–" if math.isnan(estimate.value) else number(estimate.value)
    return value, f"{number(estimate.low)} to {number(estimate.high)}"
