"""The kinds of release that a curator knows. A new one is a folder, and a line here."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.conformance import KnownSums
from curator_service.kinds.base import NAME_MAX, ReleaseKind
from curator_service.kinds.counts.kind import Counts
from curator_service.kinds.gram.kind import Gram
from curator_service.kinds.marginals.kind import Marginals
from curator_service.kinds.score.kind import Score
from curator_service.privacy.selftest import Check

AnyKind: TypeAlias = ReleaseKind[Any, Any, Any]


class KindRegistry:
    """Kinds by their names.

    Parameters
    ----------
    *kinds : ReleaseKind
        The first is the kind of requests that name none.

    Raises
    ------
    ValueError
        If two have one name, or a name is too long for the catalogue.
    """

    def __init__(self, *kinds: AnyKind) -> None:
        self.first = kinds[0]
        self._kinds = {kind.name: kind for kind in kinds}
        if len(self._kinds) != len(kinds) or any(len(name) > NAME_MAX for name in self._kinds):
            raise ValueError(f"kinds have different names, of at most {NAME_MAX} characters")

    def __getitem__(self, name: str) -> AnyKind:
        """Return a kind by its name. Raise `KeyError` where it is not known."""
        return self._kinds[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a kind of this name."""
        return name in self._kinds

    def __iter__(self) -> Iterator[AnyKind]:
        """Yield the kinds, the first one first."""
        return iter(self._kinds.values())

    @property
    def names(self) -> list[str]:
        """Their names."""
        return list(self._kinds)

    @property
    def self_tests(self) -> list[Check]:
        """Self-tests of the kinds' assumptions about a machine."""
        return [check for kind in self for check in kind.self_tests]

    @property
    def conformance(self) -> list[KnownSums]:
        """Sums known to the kinds that every engine must give."""
        return [known for kind in self for known in kind.conformance]

    @property
    def typical(self) -> list[RowKernel]:
        """Kernels by which the pace of a machine is measured."""
        return [kernel for kind in self for kernel in kind.typical]


KINDS = KindRegistry(Gram(), Counts(), Marginals(), Score())
"""The kinds of this package."""
