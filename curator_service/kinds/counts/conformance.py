"""Kernels of this kind whose sums are known: bins, levels, cells of missing values, computed axes, and weights."""

from curator_service.datasets.engines.conformance import COLUMNS, read_known_sums
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.schema import KIND
from curator_service.kinds.counts.tables import Axis, Table
from curator_service.kinds.features import read_column, read_selection


def _axis(column: object, edges: tuple[float, ...] | None = None, *, missing: bool = False) -> Axis:
    return Axis(read_column(column, COLUMNS), edges, missing)


_STEPS = tuple(step / 2**30 for step in (-2, -1, 0, 1, 2, 3, 2**29, 2**29 + 1, 2**29 + 2))
_DECIMAL_STEPS = tuple(place + step * 2.0**-32 for place in (0.25, 0.3, 0.4) for step in (-3, -1, 1, 3))
"""Edges as near to each other as the lattice allows, around raw values of the table."""
KERNELS = {
    "one axis": CountsKernel((Table((_axis("decimals", (0.1, 0.25, 0.4, 0.7)),)), Table((_axis("level"),)))),
    "single steps": CountsKernel((Table((_axis("ties", _STEPS),)), Table((_axis("decimals", _DECIMAL_STEPS),)))),
    "missing": CountsKernel((Table((_axis("ties", (-0.5, 0.0, 0.5), missing=True), _axis("level", missing=True))),)),
    "three axes": CountsKernel(
        (
            Table((_axis("flag", missing=True), _axis("omitted", (-1.0, -0.5, 0.5)), _axis("flagged", (0.0, 1.0)))),
            Table((_axis("centred", (-0.25, 0.25), missing=True),)),
        )
    ),
    "selected": CountsKernel(
        (Table((_axis({"cut": ["centred", [-0.5, 0.0, 0.5]]}, missing=True), _axis("level"))),),
        read_selection({"not": [{"less": ["ties", "centred"]}]}, None, COLUMNS),
    ),
    "weighted": CountsKernel(
        (
            Table((_axis({"log": ["decimals"]}, (-2.0, -1.0, -0.5), missing=True), _axis("flag"))),
            Table((_axis("level"),)),
        ),
        read_selection({"missing": ["omitted"]}, {"absolute": ["centred"]}, COLUMNS),
    ),
}
CONFORMANCE = read_known_sums(__file__, KIND, KERNELS)
"""What every engine must give."""
