"""Ending a pass over rows before its public time: for jobs that were cancelled meanwhile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from curator_service.datasets.engines.base import KernelOf, RowKernel
from curator_service.privacy.lattice import FlagArray, RowArray, StoredArray


class Stopped(Exception):
    """The work was ended before its public time."""


@dataclass(frozen=True, slots=True)
class StoppableKernel(KernelOf):
    """A kernel that ends its pass before the next tile of rows once it is told to.

    In another process it is the kernel alone: there nobody can tell it.
    """

    is_stopped: Callable[[], bool]

    def __reduce__(self) -> tuple[Callable[[RowKernel], RowKernel], tuple[RowKernel]]:
        """Leave out what tells it."""
        return _itself, (self.kernel,)

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Map rows as the kernel does; raise `Stopped` where it was told to end."""
        if self.is_stopped():
            raise Stopped
        self.kernel.map(stored, counted, out)


def _itself(kernel: RowKernel) -> RowKernel:
    return kernel
