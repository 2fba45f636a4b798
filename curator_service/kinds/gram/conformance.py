"""Kernels of this kind whose sums are known: every row map, with each rule for missing values."""

from curator_service.datasets.engines.conformance import COLUMNS, read_known_sums
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kinds.gram.schema import KIND
from curator_service.privacy.design import make_design
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY


def _kernel(features: str, target: str, row_map: RowMap, *, intercept: bool = True) -> GramKernel:
    declared = tuple(COLUMNS[name] for name in features.split())
    return GramKernel(make_design(declared, (COLUMNS[target],), intercept=intercept), row_map)


KERNELS = {
    "box": _kernel("centred flagged decimals level", "ties", Box()),
    "box, omitting": _kernel("omitted level flag", "flagged", Box(), intercept=False),
    "ball": _kernel("centred flagged decimals level", "ties", Ball.of_norm(1.3)),
    "ball, omitting": _kernel("omitted flag ties", "decimals", Ball.of_norm(0.1), intercept=False),
    "unit": _kernel("centred flagged level", "ties", Unit()),
    "unit, omitting": _kernel("omitted ties", "flag", Unit(), intercept=False),
    "unit_xy": _kernel("ties", "centred", UnitXY()),
    "unit_xy, omitting": _kernel("decimals level flag", "omitted", UnitXY(), intercept=False),
}
CONFORMANCE = read_known_sums(__file__, KIND, KERNELS)
"""What every engine must give."""
