"""Quotes of counts: the noise of each table, and how large it gets."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from analyst_client.display.model import Block, Note, number
from analyst_client.kinds.counts import laws
from analyst_client.kinds.counts.axes import TableShape, read_shape
from analyst_client.kinds.parts import Parts, PartsQuote
from analyst_client.level import takes_level


class Tables(Parts):
    """Tables of a release or a quote."""

    member = "tables"
    asked = "counts of {}"
    _read_part = staticmethod(read_shape)


@dataclass(frozen=True, repr=False)
class CountsQuote(Tables, PartsQuote):
    """Cost and noise of a request of counts. Free: no row was read.

    Cost, time and stored releases that would do: see `AnyQuote`.

    Attributes
    ----------
    tables : tuple of TableShape
        In the order that was asked, each with its `axes`, its `shape` and its `name` in `noise`.
    noise : StatisticNoise
        Its `distribution`, and `sd` by the table's name.

    Examples
    --------
    >>> from analyst_client import Axis, CountsRequest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = CountsRequest([["sex", Axis("age", edges=[50, 60, 70, 100])]], epsilon=0.5, delta=1e-6)
    >>> quote = client.quote("flchain", request)
    >>> round(quote.largest_error(0.95), 1)  # rows by which no cell is off, with probability 95 %
    21.2
    """

    heads = ("table", "cells")
    unit = ", in rows"
    tables: tuple[TableShape, ...]

    @takes_level
    def largest_error(self, level: float = 0.95, *, simple: bool = False) -> float:
        r"""Return α such that with probability `level` every cell of every table is within α of its exact count.

        Parameters
        ----------
        level : float
            The probability 1 − β that all cells are, in [0.5, 1).
        simple : bool
            The textbook's union bound over the k cells, :math:`b\ln(k/\beta)` for Laplace noise of scale b and
            :math:`\sigma\sqrt{2\ln(2k/\beta)}` for Gaussian noise, in place of the exact α, which is smaller.

        Returns
        -------
        float
            The error α, in rows.
        """
        sizes = [(shape.size, self.noise.sd[shape.name]) for shape in self.tables]
        chosen = laws.largest_error_bound if simple else laws.largest_error
        return chosen(level, sizes, laplace=self.is_laplace)

    @takes_level
    def query_error(self, weights: ArrayLike, level: float = 0.95, *, table: int = 0) -> float:
        """Return α such that with probability `level` a weighted sum of a table's cells is within α of the exact one.

        Parameters
        ----------
        weights : array-like
            One for each cell, of the table's shape.
        level : float
            The probability 1 − β that the sum is no further off, in [0.5, 1).
        table : int
            Place of the table, from 0, in the order that was asked.

        Returns
        -------
        float
            The error α, in rows times the weights.

        Raises
        ------
        ValueError
            When there are not as many weights as cells.
        """
        import numpy as np  # noqa: PLC0415 -- a quote is read without arithmetic

        shape = self.tables[table]
        if np.size(weights) != shape.size:
            raise ValueError(f"the table has {shape.size} cells, and there are {np.size(weights)} weights")
        return laws.query_error(level, weights, self.noise.sd[shape.name], laplace=self.is_laplace)

    def _noise_view(self) -> tuple[Block, ...]:
        cells = sum(shape.size for shape in self.tables)
        within = f"within ±{number(self.largest_error())} of its exact count"
        every = f"every one of the {cells:,} cells is" if cells > 1 else "the cell is"
        return self._list_noise(), Note(f"With probability 95% {every} {within}.")
