"""Quotes of counts: the noise of each table, and how large it gets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from analyst_client.display.model import Block, Note, aligned, join, number, quiet, table, untrusted
from analyst_client.kinds.counts import laws
from analyst_client.kinds.counts.axes import Axis, TableShape, match_tables, read_is_laplace, read_shapes
from analyst_client.level import takes_level
from analyst_client.schema.quotes import AnyQuote, StatisticNoise, parts_of_shares, read_quote
from analyst_client.schema.wire import Fields


@dataclass(frozen=True, repr=False)
class CountsQuote(AnyQuote):
    """Cost and noise of a request of counts. Free: no row was read.

    Cost, duration, space and stored releases are stated as by `Quote`.

    Attributes
    ----------
    tables : tuple of TableShape
        In the order that was asked, each with its `axes`, its `shape` and its `name` in `noise`.
    noise : StatisticNoise
        Its `distribution`, and `sd` by the table's name.
    is_laplace : bool
        Whether the noise is Laplace, or Gaussian.
    request : dict
        The request with every default filled in, in the curator's own order.
    affordable : bool
        Whether the budget would suffice now.
    """

    noise: StatisticNoise
    tables: tuple[TableShape, ...]
    is_laplace: bool

    @property
    def laplace_parts(self) -> tuple[float, ...]:
        """Parts of ε of each table."""
        return parts_of_shares(self.request, len(self.tables))

    @property
    def sums(self) -> dict[str, float]:
        """Standard deviation of a cell of each table."""
        return {shape.title: self.noise.sd[shape.name] for shape in self.tables}

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

    @classmethod
    def read(cls, fields: Fields) -> "CountsQuote":
        """Read from an answer."""
        tables = read_shapes(fields)
        stated = fields.object("noise")
        noise = StatisticNoise.read(stated, [shape.name for shape in tables])
        return cls(**read_quote(fields, noise), tables=tables, is_laplace=read_is_laplace(stated))

    def arranged_as(self, asked: Sequence[Sequence[Axis]]) -> "CountsQuote":
        """Return this quote with tables and axes as they were asked. Raise `ServiceError` when it has others."""
        places = match_tables(asked, self.tables)
        return replace(
            self,
            tables=tuple(
                TableShape(self.tables[i].name, tuple(self.tables[i].axes[j] for j in order)) for i, order in places
            ),
        )

    def _asked(self) -> str:
        return f"counts of {', '.join(shape.title for shape in self.tables)}"

    def _noise_view(self) -> tuple[Block, ...]:
        sds = [self.noise.sd[shape.name] for shape in self.tables]
        rows = [
            (untrusted(shape.title), f"{shape.size:,}", sd) for shape, sd in zip(self.tables, aligned(sds), strict=True)
        ]
        caption = join("Noise ", quiet("(", untrusted(self.noise.distribution), ", in rows)"))
        cells = sum(shape.size for shape in self.tables)
        within = f"within ±{number(self.largest_error())} of its exact count"
        every = f"every one of the {cells:,} cells is" if cells > 1 else "the cell is"
        return (
            table(caption, ("table", "cells", "standard deviation"), rows, numeric=(1, 2)),
            Note(f"With probability 95% {every} {within}."),
        )
