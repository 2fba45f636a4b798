"""Marginals: what a row adds for its value of each column, from declarations alone."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from curator_service.kinds.counting import count_cells
from curator_service.kinds.features import read_column, state_feature
from curator_service.privacy.bins import cut_points, equal_edges, find_bins
from curator_service.privacy.design import Column
from curator_service.privacy.lattice import MISSING, UNIT, IntArray, RowArray, StoredArray, to_request_lattice

HALF = (UNIT**2 - 1) // 2
"""h: the integer next to q²/2, from which z² differs by no more than h + 1."""


@dataclass(frozen=True)
class Marginal(ABC):
    """Some columns, each by itself: of each as many numbers, those of a column next to each other.

    Attributes
    ----------
    columns : tuple of Column
        Numeric, and different.
    """

    columns: tuple[Column, ...]

    type: ClassVar[str]

    @property
    @abstractmethod
    def column_size(self) -> int:
        """Numbers of each column."""

    @property
    def shape(self) -> tuple[int, int]:
        """Columns, and numbers of each."""
        return len(self.columns), self.column_size

    @property
    def size(self) -> int:
        """Numbers in all."""
        return len(self.columns) * self.column_size

    @property
    def request(self) -> dict[str, Any]:
        """The marginal as a canonical request states it."""
        return {"type": self.type, "columns": [state_feature(column) for column in self.columns], **self.options}

    @property
    def options(self) -> dict[str, int]:
        """Options of the request beside columns."""
        return {}

    @property
    def key(self) -> str:
        """Sorting key of marginals; of one dataset, equal for equal marginals alone."""
        return json.dumps(self.request)

    @abstractmethod
    def place(self, index: int, stored: StoredArray) -> npt.NDArray[Any]:
        """Return the numbers that stored values of a column become: above 0, and 0 for one that adds nothing."""

    @abstractmethod
    def sum(self, places: RowArray, weights: RowArray | None) -> IntArray:
        """Sum what rows add for one column, from their places; weights are integers of at most q², or all are that."""


@dataclass(frozen=True)
class Binned(Marginal):
    """Rows by equal bins of each column's declared bounds: a place is one more than the bin."""

    @property
    @abstractmethod
    def bin_count(self) -> int:
        """Bins of each column."""

    def cut(self) -> tuple[IntArray, ...]:
        """Return the stored integers at which bins of each column begin; `ValueError` where floats are too few."""
        bounds = [(column.lower, column.upper) for column in self.columns]
        return tuple(cut_points(equal_edges(self.bin_count, *each), *each) for each in bounds)

    @cached_property
    def _cuts(self) -> tuple[IntArray, ...]:
        return self.cut()

    def place(self, index: int, stored: StoredArray) -> npt.NDArray[Any]:
        """See `Marginal`."""
        return find_bins(stored, self._cuts[index]) + 1


@dataclass(frozen=True)
class Tree(Binned):
    """Rows by 2, 4, …, 2^levels bins: each bin is two of the next level."""

    levels: int

    type: ClassVar[str] = "tree"

    @property
    def column_size(self) -> int:
        """Numbers of each column."""
        return 2 * self.bin_count - 2

    @property
    def bin_count(self) -> int:
        """Bins of each column."""
        return 1 << self.levels

    @property
    def options(self) -> dict[str, int]:
        """Options of the request beside columns."""
        return {"levels": self.levels}

    def sum(self, places: RowArray, weights: RowArray | None) -> IntArray:
        """See `Marginal`."""
        counts = [count_cells(places, weights, self.bin_count)]
        while len(counts[0]) > 2:
            counts.insert(0, counts[0].reshape(-1, 2).sum(axis=1))
        return np.concatenate(counts)


@dataclass(frozen=True)
class Flat(Binned):
    """Rows by bins."""

    bins: int

    type: ClassVar[str] = "flat"

    @property
    def column_size(self) -> int:
        """Numbers of each column."""
        return self.bins

    @property
    def bin_count(self) -> int:
        """Bins of each column."""
        return self.bins

    @property
    def options(self) -> dict[str, int]:
        """Options of the request beside columns."""
        return {"bins": self.bins}

    def sum(self, places: RowArray, weights: RowArray | None) -> IntArray:
        """See `Marginal`."""
        return count_cells(places, weights, self.bins)


@dataclass(frozen=True)
class Moments(Marginal):
    """Σ (h, q z, z² − h − 1) of values z on the request lattice: a place is z + 2q."""

    type: ClassVar[str] = "moments"

    @property
    def column_size(self) -> int:
        """Numbers of each column."""
        return 3

    def place(self, index: int, stored: StoredArray) -> npt.NDArray[Any]:
        """See `Marginal`."""
        del index
        values = to_request_lattice(stored)
        values += 2 * UNIT
        values *= stored != MISSING
        return values

    def sum(self, places: RowArray, weights: RowArray | None) -> IntArray:
        """See `Marginal`."""
        # Integers of at most q² each, in so few rows that float64 holds every sum of them.
        return np.array([added.sum() for added in self.contribute(places, weights)]).astype(np.int64)

    def contribute(self, places: RowArray, weights: RowArray | None) -> tuple[RowArray, RowArray, RowArray]:
        """Return what each row adds to each of the three numbers."""
        present = (places > 0).astype(np.float64)
        values = places - 2 * UNIT * present
        moments = (HALF * present, UNIT * values, values * values - (HALF + 1) * present)
        first, second, third = (_weigh(moment, weights) for moment in moments)
        return first, second, third


def _weigh(values: RowArray, weights: RowArray | None) -> RowArray:
    """Return v w/q² truncated towards zero, exactly: by the digits of w to the base q no product exceeds 2⁵³."""
    if weights is None:
        return values
    high = np.floor(weights / UNIT)
    low = weights - high * UNIT
    # A quotient of integers below 2⁵² by q is no nearer than 1/q to a whole number that it is not: floats tell.
    weighed: RowArray = np.trunc((values * high + np.trunc(values * low / UNIT)) / UNIT)
    return weighed


def make_marginal(asked: Mapping[str, Any], columns: tuple[Column, ...]) -> Marginal:
    """Return what the members of a request mean that was checked."""
    match asked["type"]:
        case Tree.type:
            return Tree(columns, int(asked["levels"]))
        case Flat.type:
            return Flat(columns, int(asked["bins"]))
    return Moments(columns)


def read_marginals(request: Mapping[str, Any], declared: Mapping[str, Column]) -> tuple[Marginal, ...]:
    """Return the marginals of a canonical request, which was checked when it was made."""
    return tuple(
        make_marginal(asked, tuple(read_column(column, declared) for column in asked["columns"]))
        for asked in request["marginals"]
    )
