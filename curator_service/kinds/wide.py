"""Kernels for so many rows that sums may not fit int64: by the declared row capacity alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from curator_service.datasets.engines.base import RowKernel
from curator_service.privacy.lattice import FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.sums import INT64_CAPACITY_MAX, split


def kernel_for(kernel: RowKernel, row_capacity: int) -> RowKernel:
    """Return a kernel whose sums over so many rows fit int64: itself, or in limbs."""
    return kernel if row_capacity <= INT64_CAPACITY_MAX else WideKernel(kernel)


@dataclass(frozen=True, slots=True)
class WideKernel:
    """A kernel whose sums have a leading axis of two limbs, which any engine adds as it adds sums: see `sums.split`."""

    kernel: RowKernel

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
        """Those of the kernel: cutting the sums of a tile takes nothing beside its rows."""
        return self.kernel.products

    @property
    def cached_terms(self) -> None:
        """None: the Gram that is kept may not fit int64, so every request passes over rows."""
        return

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Map rows as the kernel does."""
        self.kernel.map(stored, counted, out)

    def sum(self, rows: RowArray) -> IntArray:
        """Return the limbs of the kernel's sums; of a batch these fit int64."""
        return split(self.kernel.sum(rows))
