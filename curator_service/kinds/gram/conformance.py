"""Kernels of this kind whose sums are known: every row map, with each rule for missing values, and what is computed."""

from collections.abc import Sequence

from curator_service.datasets.engines.conformance import COLUMNS, read_known_sums
from curator_service.kinds.features import read_column, read_feature, read_selection
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kinds.gram.schema import KIND
from curator_service.privacy.combinations import Combinations
from curator_service.privacy.design import combine_terms, make_design
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY, make_row_map


def _kernel(
    features: Sequence[object],
    target: object,
    row_map: RowMap,
    *,
    intercept: bool = True,
    combined: Combinations | None = None,
    where: object = None,
    weight: object = None,
) -> GramKernel:
    read = tuple(read_feature(feature, COLUMNS) for feature in features)
    design = make_design(read, (read_column(target, COLUMNS),), intercept=intercept)
    if combined is not None:
        design = combine_terms(design, combined)
    return GramKernel(design, row_map, read_selection(where, weight, COLUMNS))


_SHARE = {"divide": [{"add": ["ties", 1]}, 2]}
"""A weight that is nothing for some rows, and all there is for others."""
KERNELS = {
    "box": _kernel(["centred", "flagged", "decimals", "level"], "ties", Box()),
    "box, omitting": _kernel(["omitted", "level", "flag"], "flagged", Box(), intercept=False),
    "ball": _kernel(["centred", "flagged", "decimals", "level"], "ties", Ball.of_norm(1.3)),
    "ball, omitting": _kernel(["omitted", "flag", "ties"], "decimals", Ball.of_norm(0.1), intercept=False),
    "unit": _kernel(["centred", "flagged", "level"], "ties", Unit()),
    "unit, omitting": _kernel(["omitted", "ties"], "flag", Unit(), intercept=False),
    "unit_xy": _kernel(["ties"], "centred", UnitXY()),
    "unit_xy, omitting": _kernel(["decimals", "level", "flag"], "omitted", UnitXY(), intercept=False),
    "combined": _kernel(
        ["centred", "decimals", "omitted"],
        "ties",
        make_row_map({"map": "linear"}),
        combined=Combinations(((300, -7, 0), (1000, 3, 1), (-5, 900, 2**30), (0, 17, 5), (3, 0, -2000)), 10),
    ),
    "expressions": _kernel(
        [
            {"log": ["decimals"]},
            {"exp": [{"multiply": ["centred", 3]}]},
            {"power": ["flagged", 3]},
            {"cut": ["ties", [-0.5, 0, 2**-30]]},
            {"and": ["flag", {"less_equal": ["centred", 0.25]}]},
            {"missing": ["omitted"]},
        ],
        {"divide": ["centred", "decimals"]},
        Ball.of_norm(1.4),
    ),
    "bases": _kernel(
        [
            {"polynomial": ["centred", 4]},
            {"spline": ["decimals", [0.25, 0.4]]},
            {"natural_spline": ["flagged", [0.0]]},
            {"interaction": ["level", {"spline": ["ties", [0.5], 1]}]},
        ],
        {"sqrt": [{"add": ["ties", 1]}]},
        Box(),
        intercept=False,
    ),
    "selected": _kernel(
        [{"interaction": ["centred", "flagged", "level"]}, "decimals"],
        "ties",
        Ball.of_norm(1.1),
        where={"or": [{"greater": ["centred", -0.25]}, {"in": ["level", ["b"]]}]},
    ),
    "weighted": _kernel(
        [{"interaction": ["flag", "centred"]}, "level"], "omitted", Ball.of_norm(1.1), where="flag", weight=_SHARE
    ),
    "weighted, unit_xy": _kernel(
        [{"absolute": ["flagged"]}, "centred"], "decimals", UnitXY(), weight={"multiply": ["decimals", "decimals"]}
    ),
}
CONFORMANCE = read_known_sums(__file__, KIND, KERNELS)
"""What every engine must give."""
