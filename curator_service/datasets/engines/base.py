"""Engines, and the kernels that they run: every kind of release is a sum over rows of bounded integer contributions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from curator_service.datasets.parts import StoredRows
from curator_service.privacy.design import Term
from curator_service.privacy.lattice import FlagArray, IntArray, RowArray, StoredArray


class RowKernel(Protocol):
    """Contribution of one row, and the sum of contributions. It knows no engine and no source.

    What a row becomes depends on that row and public numbers alone, and is the same in every batch; a row of zeros
    contributes nothing, and no entry of a contribution is above q² in size. `sum` is exact, so sums are equal in any
    order and under any cut into batches.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that rows are made of."""

    @property
    def width(self) -> int:
        """Numbers that a row becomes."""

    @property
    def products(self) -> int:
        """Products of two numbers that adding one row takes, or as much of something else; public times follow."""

    @property
    def cached_terms(self) -> tuple[Term, ...] | None:
        """Terms whose Gram is the sum, where snapshots keep it: then no row is read. From declarations alone."""

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Write what rows become: float64, shape (rows, width), column after column; zeros for one not counted."""

    def sum(self, rows: RowArray) -> IntArray:
        """Return the sum of the contributions of mapped rows: int64, of one shape for any rows."""


@dataclass(frozen=True, slots=True)
class KernelOf:
    """A kernel that does what another one does; kernels that differ from it in part begin here."""

    kernel: RowKernel

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the kernel."""
        return self.kernel.columns

    @property
    def width(self) -> int:
        """Width of the kernel."""
        return self.kernel.width

    @property
    def products(self) -> int:
        """Products of the kernel."""
        return self.kernel.products

    @property
    def cached_terms(self) -> tuple[Term, ...] | None:
        """Cached terms of the kernel."""
        return self.kernel.cached_terms

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Map rows as the kernel does."""
        self.kernel.map(stored, counted, out)

    def sum(self, rows: RowArray) -> IntArray:
        """Return the kernel's sums."""
        return self.kernel.sum(rows)


class Engine(Protocol):
    """Sums what rows contribute. Sums are exact, so all engines give the same integers.

    Attributes
    ----------
    name : str
        In settings, and in what is said of it.
    is_here : bool
        Whether kernels run in this process, where they can be told to stop.
    """

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def is_here(self) -> bool:
        """True if kernels run in this process, where they can be told to stop."""

    def sum(self, kernel: RowKernel, rows: StoredRows) -> IntArray:
        """Sum the contributions of rows, in work that follows from public numbers alone.

        Parameters
        ----------
        rows : StoredRows
            Filled up to their capacity: the work is that of so many rows, however many there are.

        Returns
        -------
        ndarray of int64
            In the kernel's shape.

        Raises
        ------
        RowsUnreadable
            Also where what runs the pass has failed: there is no sum then, never a wrong one.
        """

    def close(self) -> None:
        """End what was started for passes."""


def cut_rows(capacity: int, count: int) -> list[tuple[int, int]]:
    """Cut rows into at most so many ranges, next to each other and as long as each other but for the last."""
    step = -(-capacity // count)
    return [(start, min(start + step, capacity)) for start in range(0, capacity, step)]
