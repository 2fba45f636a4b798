"""Ending a pass over rows before its public time: for jobs that were cancelled meanwhile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from curator_service.datasets.engines.base import RowKernel
from curator_service.privacy.design import Term
from curator_service.privacy.lattice import FlagArray, IntArray, RowArray, StoredArray


class Stopped(Exception):
    """The work was ended before its public time."""


@dataclass(frozen=True, slots=True)
class StoppableKernel:
    """A kernel that ends its pass before the next tile of rows once it is told to.

    In another process it is the kernel alone: there nobody can tell it.
    """

    kernel: RowKernel
    is_stopped: Callable[[], bool]

    def __reduce__(self) -> tuple[Callable[[RowKernel], RowKernel], tuple[RowKernel]]:
        """Leave out what tells it."""
        return _itself, (self.kernel,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the kernel."""
        return self.kernel.columns

    @property
    def width(self) -> int:
        """That of the kernel."""
        return self.kernel.width

    @property
    def products(self) -> int:
        """Those of the kernel."""
        return self.kernel.products

    @property
    def cached_terms(self) -> tuple[Term, ...] | None:
        """Those of the kernel."""
        return self.kernel.cached_terms

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Map rows as the kernel does; raise `Stopped` where it was told to end."""
        if self.is_stopped():
            raise Stopped
        self.kernel.map(stored, counted, out)

    def sum(self, rows: RowArray) -> IntArray:
        """Return the kernel's sums."""
        return self.kernel.sum(rows)


def _itself(kernel: RowKernel) -> RowKernel:
    return kernel
