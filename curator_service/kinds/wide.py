"""Kernels for so many rows that sums may not fit int64: by the declared row capacity alone."""

from curator_service.datasets.engines.base import KernelOf, RowKernel
from curator_service.privacy.lattice import IntArray, RowArray
from curator_service.privacy.sums import INT64_CAPACITY_MAX, split


def kernel_for(kernel: RowKernel, row_capacity: int) -> RowKernel:
    """Return a kernel whose sums over so many rows fit int64: itself, or in limbs."""
    return kernel if row_capacity <= INT64_CAPACITY_MAX else WideKernel(kernel)


class WideKernel(KernelOf):
    """A kernel whose sums have a leading axis of two limbs, which any engine adds as it adds sums: see `sums.split`.

    Cutting the sums of a tile takes nothing beside its rows.
    """

    __slots__ = ()

    @property
    def cached_terms(self) -> None:
        """No cached terms: the Gram that is kept may not fit int64, so every request passes over rows."""
        return

    def sum(self, rows: RowArray) -> IntArray:
        """Return the limbs of the kernel's sums; of a batch these fit int64."""
        return split(self.kernel.sum(rows))
