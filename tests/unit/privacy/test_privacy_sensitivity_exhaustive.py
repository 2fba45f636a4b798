"""Sensitivities against every pair of neighbours on small lattices, where 1 is an integer of 1 to 4."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from neighbours import ADD_REMOVE, REPLACE_ONE, FloatArray, label
from scipy.spatial.distance import cdist

from curator_service.kinds.gram import sensitivity
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import Column, ColumnType, Design, make_design
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.row_maps import Ball

Shape = tuple[int, tuple[int, ...]]
"""The number of single terms, and the sizes of the wide groups."""

BOXES: list[Shape] = [
    *((singles, ()) for singles in (1, 2, 3, 4)),
    *((0, groups) for groups in ((2,), (4,), (2, 2), (2, 3), (2, 3, 2), (3, 3, 3))),
    *((1, groups) for groups in ((2,), (3, 2), (2, 2, 2))),
    *((2, groups) for groups in ((2,), (4,), (2, 2), (2, 3))),
    (3, (2,)),
]
BALLS: list[Shape] = [
    (1, ()),
    (2, ()),
    (3, ()),
    (0, (2,)),
    (0, (2, 2)),
    (0, (2, 2, 2)),
    (1, (2,)),
    (2, (2,)),
    (1, (2, 2)),
]
BOTH = pytest.mark.parametrize("adjacency", list(Adjacency), ids=str)


@cache
def every_row(shape: Shape, half: int = 1, *, signed_groups: bool = False) -> FloatArray:
    """Every row whose single terms lie on {−2h, …, 2h}, and whose groups are null or have one entry of h or 2h."""
    singles, groups = shape
    values = range(-2 * half, 2 * half + 1)
    entries = [v for v in values if v and (signed_groups or v > 0)]
    blocks = [[[v] for v in values]] * singles
    for size in groups:
        one_hot = [[v * (i == place) for i in range(size)] for place in range(size) for v in entries]
        blocks.append([[0] * size, *one_hot])
    return np.array([[v for block in choice for v in block] for choice in product(*blocks)], dtype=np.float64)


@cache
def counted(shape: Shape) -> tuple[int, int]:
    """G and h."""
    singles, groups = shape
    return singles + len(groups), len(groups)


def supported(shape: Shape) -> tuple[tuple[int, int], ...]:
    """The size of each group, of which one place may be in use."""
    singles, groups = shape
    return (*[(1, 1)] * singles, *((size, 1) for size in groups))


Mixed = tuple[int, tuple[tuple[int, int], ...]]
"""The number of single terms; of wide groups, whose sizes add up to 1 at most, how many terms, and how many in use."""
MIXED: list[Mixed] = [
    (0, ((2, 2),)),
    (0, ((3, 2),)),
    (0, ((4, 3),)),
    (0, ((2, 2), (2, 1))),
    (0, ((3, 2), (2, 2))),
    (1, ((2, 2),)),
    (1, ((3, 2),)),
    (2, ((2, 2),)),
]


@cache
def mixed_rows(shape: Mixed, steps: int = 4) -> FloatArray:
    """Every row on a lattice where 1 is so many steps; entries of a group have signs, as those of products do."""
    singles, groups = shape
    values = range(-steps, steps + 1)
    blocks: list[list[tuple[int, ...]]] = [[(v,) for v in values if v % 2 == 0 or abs(v) == steps]] * singles
    for size, support in groups:
        inside = product(values, repeat=size)
        blocks.append([v for v in inside if sum(map(abs, v)) <= steps and sum(map(bool, v)) <= support])
    return np.array([[v for block in choice for v in block] for choice in product(*blocks)], dtype=np.float64)


def supports_of(shape: Mixed) -> tuple[tuple[int, int], ...]:
    return (*[(1, 1)] * shape[0], *shape[1])


@BOTH
@pytest.mark.parametrize("shape", MIXED, ids=str)
def test_no_pair_of_rows_with_mixed_groups_beats_a_bound(shape: Mixed, adjacency: Adjacency) -> None:
    rows, groups, wide = mixed_rows(shape), shape[0] + len(shape[1]), len(shape[1])
    unit = Fraction(4, UNIT)
    squared = furthest(triangle(rows), adjacency, "sqeuclidean")
    assert squared <= sensitivity.xtx_box_l2_squared(groups, wide, adjacency) * unit**4
    moved = furthest(triangle(rows), adjacency, "cityblock")
    assert moved <= sensitivity.xtx_box_l1(groups, wide, adjacency) * unit**2
    assert (rows**2).sum(axis=1).max() <= 16 * groups
    products = np.concatenate([rows, -rows])
    by_target = furthest(products, adjacency, "cityblock")
    assert by_target <= sensitivity.xty_l1(groups * UNIT**2, supports_of(shape), adjacency) * unit**2 / 4


@BOTH
@pytest.mark.parametrize("radius", [2, 4, 6])
@pytest.mark.parametrize("shape", MIXED, ids=str)
def test_no_pair_of_mixed_groups_beats_a_bound_of_a_ball(shape: Mixed, radius: int, adjacency: Adjacency) -> None:
    rows = mixed_rows(shape)
    mapped = Ball(radius).apply(rows.copy(), ball_design(rows.shape[1]))
    moved = furthest(triangle(mapped), adjacency, "cityblock")
    assert moved <= sensitivity.xtx_norm_l1(radius**2, supports_of(shape), adjacency)
    by_target = furthest(np.concatenate([mapped, -mapped]), adjacency, "cityblock")
    assert by_target <= sensitivity.xty_l1(radius**2, supports_of(shape), adjacency) / UNIT * (1 + 1e-9)


@cache
def ball_design(terms: int) -> Design:
    columns = tuple(Column(f"x{i}", ColumnType.NUMERIC, lower=-1.0, upper=1.0) for i in range(terms))
    return make_design(columns, (), intercept=False)


def triangle(rows: FloatArray, off_diagonal: float = 1.0) -> FloatArray:
    """The upper triangle of xxᵀ for each row."""
    first, second = np.triu_indices(rows.shape[1])
    return rows[:, first] * rows[:, second] * np.where(first == second, 1.0, off_diagonal)


def furthest(vectors: FloatArray, adjacency: Adjacency, metric: str) -> float:
    """The largest move over every row, or every pair of rows."""
    vectors = np.unique(vectors, axis=0)
    others = vectors if adjacency is REPLACE_ONE else np.zeros((1, vectors.shape[1]))
    return float(
        max(cdist(vectors[start : start + 500], others, metric).max() for start in range(0, len(vectors), 500))
    )


@BOTH
@pytest.mark.parametrize("shape", BOXES, ids=str)
def test_no_pair_beats_the_l2_bound_of_a_box(shape: Shape, adjacency: Adjacency) -> None:
    bound = sensitivity.xtx_box_l2_squared(*counted(shape), adjacency) * Fraction(2, UNIT) ** 4
    found = furthest(triangle(every_row(shape)), adjacency, "sqeuclidean")
    assert found <= bound
    if adjacency is ADD_REMOVE or not shape[0] or (not shape[1] and shape[0] % 2 == 0):
        assert found == bound


@BOTH
@pytest.mark.parametrize("shape", BOXES, ids=str)
def test_no_pair_beats_the_l1_bound_of_a_box(shape: Shape, adjacency: Adjacency) -> None:
    bound = sensitivity.xtx_box_l1(*counted(shape), adjacency) * Fraction(2, UNIT) ** 2
    found = furthest(triangle(every_row(shape)), adjacency, "cityblock")
    assert found <= bound
    # Replaced, single terms beside wide groups want to be 0 for their own sake, and ±1 for the groups'.
    if adjacency is ADD_REMOVE or not shape[0] or not shape[1]:
        assert found == bound
    else:
        assert found >= Fraction(7, 10) * bound


@pytest.mark.parametrize("radius", [1, 2, 3, 5, 7])
@BOTH
@pytest.mark.parametrize("shape", BALLS, ids=str)
def test_no_pair_beats_a_bound_of_a_ball(shape: Shape, radius: int, adjacency: Adjacency) -> None:
    rows = every_row(shape, 2 if shape[0] + len(shape[1]) < 3 else 1, signed_groups=True)
    mapped = Ball(radius).apply(rows, ball_design(rows.shape[1]))
    squared = furthest(triangle(mapped, np.sqrt(2)), adjacency, "sqeuclidean")
    assert squared <= sensitivity.xtx_norm_l2_squared(radius**2, adjacency) * (1 + 1e-12)
    moved = furthest(triangle(mapped), adjacency, "cityblock")
    assert moved <= sensitivity.xtx_norm_l1(radius**2, supported(shape), adjacency)


def unit_directions(shape: Shape, count: int = 1500) -> FloatArray:
    """A null row, and rows of norm 1 on every support that the groups allow: of equal sizes, and random ones."""
    rng = np.random.default_rng(11)
    supports = np.unique(np.sign(every_row(shape, signed_groups=True)), axis=0)
    supports = supports[np.abs(supports).sum(axis=1) > 0]
    sizes = rng.normal(size=(count, supports.shape[1])) ** 2 * supports[rng.integers(0, len(supports), size=count)]
    rows = np.concatenate([supports, sizes])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.concatenate([np.zeros_like(rows[:1]), rows])


@pytest.mark.parametrize(
    ("shape", "share"),
    [((1, ()), 0.7), ((2, ()), 0.99), ((3, ()), 0.94), ((4, ()), 0.9), ((0, (2,)), 0.99), ((0, (2, 2)), 0.99),
     ((0, (2, 2, 2)), 0.99), ((1, (2,)), 0.8), ((2, (2,)), 0.75), ((1, (2, 2)), 0.85)],
)  # fmt: skip
def test_no_pair_of_unit_rows_beats_the_l1_bound_of_a_ball(shape: Shape, share: float) -> None:
    rows = unit_directions(shape)
    added = float(sensitivity.xtx_norm_l1(UNIT**2, supported(shape), ADD_REMOVE)) / UNIT**2
    replaced = float(sensitivity.xtx_norm_l1(UNIT**2, supported(shape), REPLACE_ONE)) / UNIT**2
    assert furthest(triangle(rows), ADD_REMOVE, "cityblock") == pytest.approx(added, rel=1e-9)
    found = furthest(triangle(rows), REPLACE_ONE, "cityblock")
    assert share * replaced <= found <= replaced * (1 + 1e-9)


@BOTH
@pytest.mark.parametrize("shape", [s for s in BOXES if len(every_row(s)) <= 130], ids=str)
def test_no_pair_beats_a_bound_of_xty(shape: Shape, adjacency: Adjacency) -> None:
    rows = every_row(shape)
    products = np.concatenate([rows * y for y in range(-2, 3)])
    scale = Fraction(2, UNIT) ** 2
    groups, _ = counted(shape)
    squared = sensitivity.xty_l2_squared(groups * UNIT**2, adjacency) * scale**2
    assert furthest(products, adjacency, "sqeuclidean") == squared
    bound = sensitivity.xty_l1(groups * UNIT**2, supported(shape), adjacency)
    assert furthest(products, adjacency, "cityblock") == bound * scale


@BOTH
def test_no_pair_beats_the_bound_of_yty(adjacency: Adjacency) -> None:
    squares = np.arange(-4, 5, dtype=np.float64)[:, None] ** 2
    assert furthest(squares, adjacency, "cityblock") == sensitivity.yty() * Fraction(4, UNIT) ** 2


@pytest.mark.parametrize("rows_per_person", [1, 2])
def test_no_rows_move_lambda_min_further_than_its_bound(rows_per_person: int) -> None:
    # Every dataset of up to two other rows, and every person of up to m rows, on {−2, …, 2}².
    rows = every_row((2, ()))
    outer = np.einsum("ni,nj->nij", rows, rows)

    def sums(count: int) -> FloatArray:
        chosen = np.array(list(combinations_with_replacement(range(len(rows)), count)))
        return np.unique(outer[chosen].sum(axis=1), axis=0)

    persons, others = sums(rows_per_person), np.concatenate([sums(2), 50 * sums(2)])
    grams = others[:, None] + persons[None]
    half_trace, half_difference = (grams[..., 0, 0] + grams[..., 1, 1]) / 2, (grams[..., 0, 0] - grams[..., 1, 1]) / 2
    smallest = half_trace - np.hypot(half_difference, grams[..., 0, 1])
    # The null row is a person: the spread covers both adjacencies.
    moved = (smallest.max(axis=1) - smallest.min(axis=1)).max()
    bound = float(sensitivity.lambda_min(8, 0, rows_per_person))
    assert 0.99 * bound <= moved <= bound * (1 + 1e-12)


# --- the joint bound ----------------------------------------------------------------------------------------------


def joint_move(rows: FloatArray, costs: tuple[float, ...], shape: Shape, *, ball: bool) -> float:
    """The largest cost of all three statistics, each weighted so that its own bound costs what is said."""
    groups, wide = counted(shape)
    targets = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
    x, y = np.repeat(rows, len(targets), axis=0), np.tile(targets, (len(rows), 1))
    norm_squared = 4 if ball else 4 * groups
    largest = 2 * norm_squared**2 if ball else 16 * (groups**2 + wide)
    parts = [
        triangle(x, np.sqrt(2) if ball else 1.0) * np.sqrt(costs[0] / largest),
        x * y * np.sqrt(costs[1] / (16 * norm_squared)),
        y**2 * np.sqrt(costs[2] / 16),
    ]
    return furthest(np.concatenate(parts, axis=1), REPLACE_ONE, "sqeuclidean")


COSTS = [
    (0.5, 0.415, 0.085),
    (0.05, 0.9, 0.05),
    (0.05, 0.05, 0.9),
    (0.25, 0.75, 0.0),
    (0.001, 0.6, 0.399),
    (0.6, 0.2, 0.2),
]


@pytest.mark.parametrize("costs", COSTS, ids=str)
@pytest.mark.parametrize("shape", [(1, ()), (2, ()), (3, ()), (0, (2,)), (0, (2, 2)), (1, (2,)), (2, (2,))], ids=str)
def test_no_pair_of_a_box_beats_the_joint_bound(shape: Shape, costs: tuple[float, ...]) -> None:
    joint_constant = sensitivity.xtx_box_joint_constant(*counted(shape))
    bound = float(sensitivity.joint_cost(*(Fraction(c) for c in costs), joint_constant))
    assert joint_move(every_row(shape), costs, shape, ball=False) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("costs", COSTS, ids=str)
@pytest.mark.parametrize("shape", [(1, ()), (2, ()), (3, ()), (0, (2, 2)), (1, (2,))], ids=str)
def test_no_pair_of_a_ball_beats_the_joint_bound(shape: Shape, costs: tuple[float, ...]) -> None:
    rows = every_row(shape, 4 if shape == (2, ()) else 1)
    rows = np.unique(Ball(2).apply(rows, ball_design(rows.shape[1])), axis=0)
    fine = unit_directions(shape, 150) * 2
    bound = float(sensitivity.joint_cost(*(Fraction(c) for c in costs), Fraction(1)))
    assert joint_move(np.concatenate([rows, fine]), costs, shape, ball=True) <= bound * (1 + 1e-9)


# --- the searches would see a wrong constant ------------------------------------------------------------------------

WRONG: list[tuple[str, Shape, Adjacency, str, Callable[[int, int], float]]] = [
    ("pairs of groups counted once", (0, (2, 2)), REPLACE_ONE, "cityblock", lambda g, h: g * (g + 1) / 2 + h),
    ("diagonals of groups counted once", (0, (2, 3)), REPLACE_ONE, "cityblock", lambda g, h: h**2),
    ("groups beside single terms counted once", (1, (3, 2)), REPLACE_ONE, "cityblock",
     lambda g, h: (g - h) * (g - h + 1) / 2 + h * (g - h) + h**2 + h),
    ("the diagonal forgotten", (3, ()), ADD_REMOVE, "cityblock", lambda g, h: g * (g - 1) / 2),
    ("half of the diagonal forgotten", (3, ()), REPLACE_ONE, "cityblock", lambda g, h: g**2 / 2),
    ("h forgotten", (0, (3, 3, 3)), REPLACE_ONE, "sqeuclidean", lambda g, h: g**2),
    ("h forgotten", (1, (3, 2)), REPLACE_ONE, "sqeuclidean", lambda g, h: g**2),
    ("G forgotten", (2, ()), ADD_REMOVE, "sqeuclidean", lambda g, h: g**2 / 2),
]  # fmt: skip


@pytest.mark.parametrize(("what", "shape", "adjacency", "metric", "wrong"), WRONG, ids=label)
def test_the_exhaustive_search_detects_a_wrong_constant(
    what: str, shape: Shape, adjacency: Adjacency, metric: str, wrong: Callable[[int, int], float]
) -> None:
    power = 16 if metric == "sqeuclidean" else 4
    assert furthest(triangle(every_row(shape)), adjacency, metric) > power * wrong(*counted(shape)), what
