"""Kernels of this kind whose sums are known: every loss, saturated and shrunk contributions, conditions and weights."""

from collections.abc import Sequence
from typing import Any

from curator_service.datasets.engines.conformance import COLUMNS, read_known_sums
from curator_service.kinds.features import read_column, read_feature, read_selection
from curator_service.kinds.score.kernel import ScoreKernel
from curator_service.kinds.score.schema import KIND
from curator_service.kinds.score.statistics import Statistic
from curator_service.privacy.combinations import Combinations
from curator_service.privacy.design import make_design
from curator_service.privacy.losses import Loss


def _kernel(
    loss: Loss,
    features: Sequence[object],
    target: object,
    coefficients: Combinations,
    directions: Combinations,
    *,
    intercept: bool = True,
    **selection: Any,
) -> ScoreKernel:
    read = tuple(read_feature(feature, COLUMNS) for feature in features)
    design = make_design(read, (read_column(target, COLUMNS),), intercept=intercept)
    selected = read_selection(selection.get("where"), selection.get("weight"), COLUMNS)
    return ScoreKernel(design, loss, coefficients, directions, tuple(Statistic), selected)


def _column(*weights: int, bits: int) -> Combinations:
    return Combinations(tuple((weight,) for weight in weights), bits)


KERNELS = {
    "linear": _kernel(
        Loss.LINEAR,
        ["centred", "omitted"],
        "ties",
        _column(3, -40, 1000, bits=10),
        Combinations(((2**20, 1), (-7, 2**19), (999, 2**21)), 20),
    ),
    "logistic": _kernel(
        Loss.LOGISTIC,
        ["centred", "level"],
        {"less": ["ties", "decimals"]},
        _column(300, -9000, 20, 1, -300, bits=8),
        Combinations(((100, 0, 3), (0, 2**12, -5), (7, 7, 7), (1, -1, 0), (0, 1, 2**9)), 9),
    ),
    "poisson": _kernel(
        Loss.POISSON,
        ["flagged"],
        "decimals",
        _column(-900, 5000, 1, bits=9),
        Combinations(((2000,), (300,), (-1,)), 9),
        where={"not": [{"in": ["level", ["b"]]}]},
    ),
    "weighted": _kernel(
        Loss.LINEAR,
        ["centred", {"multiply": ["ties", "ties"]}],
        "flagged",
        _column(2**30, -(2**29), bits=30),
        Combinations(((2**34, 0), (5, -(2**33))), 10),
        intercept=False,
        weight={"absolute": ["centred"]},
    ),
}
CONFORMANCE = read_known_sums(__file__, KIND, KERNELS)
"""What every engine must give."""
