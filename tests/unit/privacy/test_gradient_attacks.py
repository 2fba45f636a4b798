"""Attacks on rows of scores and of combinations: hostile declarations, requests and values, in any layout of memory.

Whatever is posted and stored, a row that counts contributes integers of norm q at most, a row that does not contributes
nothing, and each contributes alone what it does in any batch, to the last bit.
"""

import random
import sys
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rows_on_disk import map_rows as map_marked

from curator_service.datasets.engines.numpy import check_null_rows
from curator_service.datasets.manifest import Manifest
from curator_service.kinds.features import order_features, read_column, read_feature
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kinds.registry import KINDS
from curator_service.kinds.score import kernel as module
from curator_service.kinds.score.kernel import ScoreKernel
from curator_service.kinds.score.statistics import Statistic
from curator_service.kinds.wide import WideKernel
from curator_service.privacy.accountant import GDP
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.combinations import BITS_MAX, LONGEST, WEIGHTS_MAX, Combinations, check_weights
from curator_service.privacy.design import Column, ColumnType, MissingRule, combine_terms, make_design
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT, FlagArray, RowArray, StoredArray
from curator_service.privacy.losses import Loss
from curator_service.privacy.row_maps import make_row_map
from curator_service.privacy.selection import Selection
from curator_service.privacy.sums import LIMB_BITS

NUMERIC, CATEGORICAL, BOOLEAN = ColumnType
OMIT, MIDPOINT, INDICATOR, COMPLETE = MissingRule
DECLARED = {
    column.name: column
    for column in (
        Column("a", NUMERIC, OMIT, 0.0, 10.0),
        Column("b", NUMERIC, INDICATOR, -3.0, 5.0),
        Column("m", NUMERIC, MIDPOINT, 1e-3, 1e5),
        Column("h", NUMERIC, COMPLETE, -1.7e308, 1.7e308),
        Column("c", CATEGORICAL, INDICATOR, levels=("x", "y", "z")),
        Column("d", CATEGORICAL, OMIT, levels=("p", "q")),
        Column("t", BOOLEAN, INDICATOR, levels=("no", "yes")),
        Column("s", BOOLEAN, MIDPOINT, levels=("no", "yes")),
        Column("w", NUMERIC, OMIT, 0.0, 1.0),
        Column("v", NUMERIC, MIDPOINT, 0.2, 0.9999999),
    )
}
FEATURES: list[Any] = [
    "a", "b", "m", "h", "c", "d", "t", {"polynomial": ["a", 5]}, {"spline": ["b", [0, 1, 2]]},
    {"natural_spline": ["a", [2, 5, 7]]}, {"interaction": ["c", "d"]}, {"interaction": ["a", "c"]},
    {"interaction": ["c", {"spline": ["a", [3, 5]]}]}, {"log": [{"add": ["m", 1]}]}, {"cut": ["a", [0, 2, 5, 10]]},
]  # fmt: skip
TARGETS: dict[Loss, list[Any]] = {
    Loss.LINEAR: ["w", "v", "s", {"multiply": ["w", 3]}, {"less": ["w", 0.5]}],
    Loss.LOGISTIC: ["s", {"less": ["w", 0.5]}, {"missing": ["w"]}],
    Loss.POISSON: ["w", "v", {"multiply": ["w", 1e99]}, {"multiply": ["w", 1e-99]}, {"exp": ["w"]}],
}
NUMBERS = [STORED_UNIT, -STORED_UNIT, 0, 1, -1, MISSING, 2**31 - 1, -(2**31) + 1, STORED_UNIT - 1, 2**29, 8192, 4095]
CODES = [0, 1, 2, 0, 1, 3, -1, MISSING, 2**31 - 1]
ROWS = 120


def draw_weights(draw: random.Random, terms: int, count: int) -> Combinations:
    """Return weights as large as are accepted, or small, or of one term alone, over any power of two."""
    most = WEIGHTS_MAX // terms
    choices = draw.choice([range(-3, 4), range(-most, most + 1), (0, most, -most), (1 - most, 2**17 % most, 1)])
    matrix = [[draw.choice(choices) for _ in range(count)] for _ in range(terms)]
    for k in range(count):
        if draw.random() < 0.3 or not any(row[k] for row in matrix):
            for row in matrix:
                row[k] = 0
            matrix[draw.randrange(terms)][k] = draw.choice([1, -1, WEIGHTS_MAX, -WEIGHTS_MAX, 2**17])
    combinations = Combinations(tuple(map(tuple, matrix)), draw.choice([0, 1, 10, BITS_MAX]))
    assert check_weights(combinations.weights) is None
    return combinations


def draw_kernel(draw: random.Random) -> ScoreKernel | GramKernel:
    loss, count = draw.choice(list(Loss)), draw.choice([1, 2, 5])
    features = [read_feature(feature, DECLARED) for feature in draw.sample(FEATURES, draw.randint(1, 4))]
    target = read_column(draw.choice(TARGETS[loss]), DECLARED)
    design = make_design(order_features(features, DECLARED), (target,), intercept=draw.random() < 0.6)
    selection = Selection(
        draw.choice([None, read_column({"less": ["a", 5]}, DECLARED), DECLARED["s"]]),
        draw.choice([None, DECLARED["w"], DECLARED["v"], read_column({"divide": ["a", 10]}, DECLARED)]),
    )
    directions = draw_weights(draw, len(design.terms), count)
    if draw.random() < 0.3:
        return GramKernel(combine_terms(design, directions), make_row_map({"map": "linear"}), selection)
    return ScoreKernel(design, loss, draw_weights(draw, len(design.terms), 1), directions, tuple(Statistic), selection)


def draw_rows(kernel: ScoreKernel | GramKernel, generator: np.random.Generator) -> dict[str, StoredArray]:
    def values(column: Column) -> Any:
        if column.type is not NUMERIC:
            return generator.choice(CODES, ROWS)
        anywhere = generator.integers(-STORED_UNIT, STORED_UNIT, ROWS)
        return np.where(generator.random(ROWS) < 0.6, generator.choice(NUMBERS, ROWS), anywhere)

    return {name: values(DECLARED[name]).astype(np.int32) for name in kernel.columns}


def count_of(kernel: ScoreKernel | GramKernel) -> int:
    return kernel.directions.count if isinstance(kernel, ScoreKernel) else len(kernel.design.terms)


def map_rows(
    kernel: ScoreKernel | GramKernel, stored: dict[str, StoredArray], counted: FlagArray, order: Any, fill: float
) -> RowArray:
    """Return what `kernel.sum` reads of each row, mapped into memory that held something else."""
    rows = np.full((len(counted), kernel.width), fill, order=order)
    kernel.map(stored, counted, rows)
    return rows[:, : count_of(kernel) + (2 if kernel.selection.weight and isinstance(kernel, ScoreKernel) else 1)]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_posted_rows_are_short_and_alone(seed: int) -> None:
    draw, generator = random.Random(seed), np.random.default_rng(seed)
    for _ in range(12):
        kernel = draw_kernel(draw)
        stored, counted = draw_rows(kernel, generator), generator.random(ROWS) < 0.9
        check_null_rows(kernel)
        with np.errstate(all="raise", under="ignore"):
            whole = map_rows(kernel, stored, counted, "F", np.nan)
        assert np.array_equal(whole, np.trunc(whole))  # integers: neither infinite nor no number
        assert not whole[~counted].any()
        lengths = [sum(int(entry) ** 2 for entry in row) for row in whole[:, : count_of(kernel)].tolist()]
        assert max(lengths) <= UNIT**2
        places = generator.permutation(ROWS)
        for order, fill in (("C", np.inf), ("F", -7.0)):
            shuffled = {name: values[places] for name, values in stored.items()}
            assert np.array_equal(map_rows(kernel, shuffled, counted[places], order, fill), whole[places])
        for i in generator.choice(ROWS, 3):
            one = {name: values[i : i + 1] for name, values in stored.items()}
            assert np.array_equal(map_rows(kernel, one, counted[i : i + 1], "F", 3.0), whole[i : i + 1])


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_any_cut_into_batches_and_limbs_are_the_same(seed: int) -> None:
    draw, generator = random.Random(seed), np.random.default_rng(seed)
    for _ in range(6):
        kernel = draw_kernel(draw)
        stored = draw_rows(kernel, generator)
        rows = np.empty((ROWS, kernel.width), order="F")
        kernel.map(stored, np.ones(ROWS, dtype=np.bool_), rows)
        whole = kernel.sum(rows)
        size = draw.choice([1, 7, 64])
        pieces = [rows[start : start + size] for start in range(0, ROWS, size)]
        assert np.array_equal(sum(map(kernel.sum, pieces)), whole)
        low, high = sum(map(WideKernel(kernel).sum, pieces))
        assert np.array_equal(low + high * 2**LIMB_BITS, whole)


@pytest.mark.parametrize("residual", [np.nan, np.inf, -np.inf, sys.float_info.max, -1e300, 5e-324, -0.0])
def test_a_residual_of_any_size_or_none_leaves_the_bound_and_null_rows(
    monkeypatch: pytest.MonkeyPatch, residual: float
) -> None:
    """The bound of a contribution rests on the cut and the shrinking alone, whatever a loss makes of a row."""
    monkeypatch.setattr(module, "residuals", lambda *_, **__: np.full(4, residual))
    design = make_design((DECLARED["m"],), (DECLARED["v"],), intercept=True)
    directions = Combinations(((WEIGHTS_MAX, 1, 0), (0, -1, 3)), 0)
    kernel = ScoreKernel(design, Loss.LINEAR, Combinations(((0,), (0,)), 0), directions, tuple(Statistic))
    rows = np.full((4, kernel.width), np.nan, order="F")
    stored = {name: np.array([STORED_UNIT, 5, STORED_UNIT, 0], dtype=np.int32) for name in kernel.columns}
    with np.errstate(all="raise", under="ignore"):
        kernel.map(stored, np.array([True, True, False, True]), rows)
    assert not rows[2, :4].any()
    for row in rows[:, :3].tolist():
        assert sum(int(entry) ** 2 for entry in row) <= UNIT**2
    assert (np.abs(kernel.sum(rows)) <= 3 * UNIT**2).all()


@pytest.mark.parametrize("lower", [4.8 * 2.0**970, 3.5 * 2.0**970, 0.0, 1e-300, 1e300])
def test_counts_that_overflow_as_they_are_scaled_leave_the_bound(lower: float) -> None:
    """Centre and half range of the widest bounds, each rounded once, add up to more than a float holds."""
    target = Column("y", NUMERIC, MIDPOINT, lower, sys.float_info.max)
    design = make_design((DECLARED["v"],), (target,), intercept=True)
    matrix = Combinations(((1, 0), (0, 1)), 0)
    kernel = ScoreKernel(design, Loss.POISSON, Combinations(((1,), (5,)), 0), matrix, tuple(Statistic))
    values = np.array(NUMBERS, dtype=np.int32)
    rows = np.empty((len(values), kernel.width), order="F")
    with np.errstate(all="ignore"):
        kernel.map({"v": values, "y": values}, np.ones(len(values), dtype=np.bool_), rows)
    for row in rows[:, :2].tolist():
        assert sum(int(entry) ** 2 for entry in row) <= UNIT**2


def test_the_longest_rows_of_most_directions_stay_exact() -> None:
    """A thousand saturated numbers: their squares add up to less than 2^52, and the shrunk row is within q."""
    count = 1000
    design = make_design((DECLARED["v"],), (DECLARED["w"],), intercept=True)
    signs = tuple((-1) ** k * WEIGHTS_MAX for k in range(count))
    combined = combine_terms(design, Combinations((signs, (0,) * count), 0))
    stored = {name: np.array([STORED_UNIT, -STORED_UNIT, 0], dtype=np.int32) for name in ("v", "w")}
    far = Combinations(((-WEIGHTS_MAX,), (0,)), 0)
    score = ScoreKernel(design, Loss.LINEAR, far, Combinations((signs, (0,) * count), 0), (Statistic.SCORE,))
    for kernel in (GramKernel(combined, make_row_map({"map": "linear"})), score):
        rows = np.empty((3, kernel.width), order="F")
        kernel.map(stored, np.ones(3, dtype=np.bool_), rows)
        lengths = [sum(int(entry) ** 2 for entry in row) for row in rows[:, :count].tolist()]
        assert max(lengths) <= UNIT**2
        assert min(lengths) > 0.99 * UNIT**2
    assert count * LONGEST**2 < 2**52


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("m", [1, 3])
def test_no_person_moves_a_planned_score_further_than_it_is_charged_and_one_moves_it_so_far(
    mechanism: str, adjacency: Adjacency, m: int
) -> None:
    """The bounds that are compared are those from which the noise of a charge is found, and those of `verify`."""
    bounds = {"type": "numeric", "missing": "midpoint", "lower": -1.0, "upper": 1.0}
    persons = {"subject": "person", "rows_per_subject": m}
    manifest = Manifest.model_validate(
        {"name": "cohort", "population": "town", "row_capacity": 1000, **persons}
        | {"columns": [{"name": name, **bounds} for name in ("x", "y")]}
    )
    dataset: Any = SimpleNamespace(manifest=manifest, adjacency=adjacency, accountant=GDP)
    kind = KINDS["score"]
    request = kind.request_model.model_validate(
        {"kind": "score", "features": ["x"], "target": "y", "loss": "linear", "mechanism": mechanism}
        | {"coefficients": {"bits": 0, "weights": {}}, "statistics": ["score", "norms", "meat"]}
        | {"directions": {"bits": 0, "matrix": {"x": [2**20, 0], "(constant)": [0, 2**20]}}}
        | {"price": {"mu": 0.5} if mechanism == "gaussian" else {"epsilon": 0.5}}
    )
    plan: Any = kind.plan(dataset, request).plan
    stated = [p.sensitivity_squared if mechanism == "gaussian" else p.sensitivity for p in plan.parts]
    assert stated == [bound.sensitivity for bound in kind.bounds(dataset, request)[0]]
    kernel: Any = kind.kernel(plan)
    sizes = np.cumsum([output.size for output in plan.outputs])[:-1]

    def added(rows: list[tuple[int, int]]) -> list[list[int]]:
        stored = dict(zip(("x", "y"), np.array(rows, dtype=np.int32).reshape(-1, 2).T, strict=True))
        return [part.tolist() for part in np.split(kernel.sum(map_marked(kernel, stored, len(rows))), sizes)]

    nothing = [[0] * output.size for output in plan.outputs]
    corners = [(x, y) for x in (STORED_UNIT, -STORED_UNIT, 0, 5, 2**29) for y in (STORED_UNIT, -STORED_UNIT, 0, 9)]
    reached = [Fraction(0)] * 3
    for person in corners:
        for other in corners if adjacency is Adjacency.REPLACE_ONE else [None]:
            instead = nothing if other is None else added([other] * m)
            for i, (here, there) in enumerate(zip(added([person] * m), instead, strict=True)):
                weights = (1, 2, 1) if i == 2 else (1,) * len(here)  # what stands off the diagonal has less noise
                apart = [a - b for a, b in zip(here, there, strict=True)]
                moved = (
                    sum(w * d * d for w, d in zip(weights, apart, strict=True))
                    if mechanism == "gaussian"
                    else sum(map(abs, apart))
                )
                assert moved <= stated[i]
                reached[i] = max(reached[i], moved / Fraction(stated[i]))
    assert all(share > Fraction(99, 100) for share in reached[: 3 if mechanism == "gaussian" else 2])
