"""Contribution of a row to a score: its gradient through the directions, shrunk to a norm, and a bin of that norm."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from curator_service.datasets.engines.numpy import tile_rows
from curator_service.kinds.counting import AXIS_PRODUCTS, CELL_PRODUCTS, count_cells
from curator_service.kinds.gram.kernel import work_of
from curator_service.kinds.score.statistics import NORM_STEPS, Statistic, norm_edges
from curator_service.privacy.combinations import LONGEST, Combinations
from curator_service.privacy.design import (
    CONSTANT,
    Column,
    Design,
    Term,
    code_rows,
    make_design,
)
from curator_service.privacy.expressions.work import work_in_tiles
from curator_service.privacy.lattice import UNIT, FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.losses import Loss, residuals
from curator_service.privacy.mechanism import upper_triangle
from curator_service.privacy.row_maps.ball import shrink
from curator_service.privacy.row_maps.integers import norms_squared
from curator_service.privacy.selection import EVERY_ROW, Selection
from curator_service.privacy.sums import EXACT_BLOCK_ROWS, compute_gram

_RESIDUAL_PRODUCTS, _CONTRIBUTION_PRODUCTS = 200, 60
"""What a row takes for its residual, and for each number of its contribution, in products of two numbers."""
_EDGES = norm_edges()
_RESIDUAL_MAX = 2.0**53
"""Above every residual: what is none, an infinity or no number at all, is held to it."""


@dataclass(frozen=True)
class ScoreKernel:
    """Σ of contributions, of rows by their norms, and of products of contributions: see `RowKernel`.

    A mapped row has its contribution of k numbers, its place among the norms, 0 where it does not count, and what it
    weighs.

    Attributes
    ----------
    design : Design
        Of one target.
    loss : Loss
    coefficients : Combinations
        θ: one combination of the terms.
    directions : Combinations
        P: k combinations of the terms.
    statistics : tuple of Statistic
        In their order.
    selection : Selection
    """

    design: Design
    loss: Loss
    coefficients: Combinations
    directions: Combinations
    statistics: tuple[Statistic, ...]
    selection: Selection = EVERY_ROW

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that rows are made of."""
        return tuple(dict.fromkeys((*self.design.columns, *self.selection.reads)))

    @cached_property
    def _coded(self) -> Design:
        """The design with a constant, which is 1 in rows that count: the last term where requests have none."""
        design = self.design
        return design if design.has_constant else replace(design, terms=(*design.terms, CONSTANT))

    @property
    def width(self) -> int:
        """A contribution, its place and its weight, or terms and target where these are more."""
        return max(self.directions.count + 2, self._coded.width)

    @property
    def products(self) -> int:
        """Multiplications for one row, and what its terms take to compute in products of two numbers."""
        terms, count = len(self.design.terms), self.directions.count
        computed = sum(column.work for column in {*self.design.sources, *self.selection.columns})
        coded = sum(map(work_of, (*self.design.terms, *self.design.targets)))
        own = _RESIDUAL_PRODUCTS + _CONTRIBUTION_PRODUCTS * count
        if Statistic.NORMS in self.statistics:
            own += CELL_PRODUCTS + AXIS_PRODUCTS
        meat = count**2 if Statistic.MEAT in self.statistics else 0
        return terms * (count + 1) + meat + work_in_tiles(computed + coded + own, tile_rows(self.width))

    @property
    def cached_terms(self) -> tuple[Term, ...] | None:
        """No cached terms: a gradient is no product that snapshots keep."""
        return None

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Find each row's contribution, and the place of its norm before it is shrunk.

        With η = Σ_j θ_j z_j exactly and the residual r of the loss, a contribution is P's combinations of the terms
        times r, rounded to the lattice and cut to ±`LONGEST`; then it is shrunk to a norm of q at most, and weighed.
        """
        design, count = self._coded, self.directions.count
        coded = code_rows(stored, design, len(out), self.selection.select(stored, counted), out[:, : design.width])
        terms = coded[:, : len(self.design.terms)]
        counts = (coded[:, 0 if self.design.has_constant else len(self.design.terms)] != 0).astype(np.float64)
        (target,) = self.design.targets
        eta = self.coefficients.sums(terms)[:, 0]
        eta *= 2.0**-self.coefficients.bits
        found = residuals(self.loss, eta, coded[:, -1], center=target.center, scale=target.scale)
        # Not `clip`, through which NaN passes: it would be a contribution without a bound. Finite times the zeros of a
        # row that does not count is 0.
        np.fmin(found, _RESIDUAL_MAX, out=found)
        np.fmax(found, -_RESIDUAL_MAX, out=found)
        contributions = self.directions.sums(terms)
        contributions *= 2.0**-self.directions.bits
        contributions *= (found / UNIT)[:, None]
        np.rint(contributions, out=contributions)
        np.clip(contributions, -LONGEST, LONGEST, out=contributions)
        squared = norms_squared(contributions)
        places = np.ones_like(squared)
        for edge in _EDGES:  # every row is compared with every edge
            places += squared >= edge
        shrink(contributions, squared, UNIT, out[:, :count])
        out[:, count] = places * counts
        weights = self.selection.weigh(stored, len(out))
        if weights is not None:
            out[:, :count] *= weights[:, None]
            np.trunc(out[:, :count], out=out[:, :count])
            np.trunc(weights * UNIT**2, out=out[:, count + 1])
            out[:, count + 1] *= counts

    def sum(self, rows: RowArray) -> IntArray:
        """Return the sums of what is asked, flat, in the order of `Statistic`."""
        assert len(rows) <= EXACT_BLOCK_ROWS
        count = self.directions.count
        contributions = rows[:, :count]
        parts: list[IntArray] = []
        for statistic in self.statistics:
            match statistic:
                case Statistic.SCORE:
                    parts.append(contributions.sum(axis=0).astype(np.int64) * UNIT)
                case Statistic.NORMS:
                    weights = None if self.selection.weight is None else rows[:, count + 1]
                    parts.append(count_cells(rows[:, count], weights, len(NORM_STEPS) + 1))
                case Statistic.MEAT:
                    parts.append(compute_gram([contributions], count).ravel()[upper_triangle(count)])
        return np.concatenate(parts)


def typical_kernel(width: int) -> ScoreKernel:
    """Return the kernel of a request of so many terms, and as many directions."""
    columns = [Column.number(f"x{i}", -1.0, 1.0) for i in range(width)]
    design = make_design(tuple(columns[:-1]), (columns[-1],), intercept=True)
    weights = tuple(tuple(int(i == j) for j in range(width)) for i in range(width))
    coefficients = Combinations(((1,),) * width, 4)
    return ScoreKernel(design, Loss.LINEAR, coefficients, Combinations(weights, 0), tuple(Statistic))
