"""No pair of persons moves a score further than it is charged, through the code that a release runs."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.kinds.score.kernel import ScoreKernel
from curator_service.kinds.score.sensitivity import score_l1, score_l2_squared
from curator_service.kinds.score.statistics import Statistic, norm_edges
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.combinations import WEIGHTS_MAX, Combinations
from curator_service.privacy.design import Column, ColumnType, MissingRule, make_design
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT
from curator_service.privacy.losses import DIGESTS, REACH, STEPS, Loss, digest_of, link_table, residuals
from curator_service.privacy.selection import Selection

NUMBERS = [
    Column(f"x{i}", ColumnType.NUMERIC, rule, -1.0, 1.0)
    for i, rule in enumerate((MissingRule.MIDPOINT, MissingRule.OMIT, MissingRule.MIDPOINT))
]
TARGETS = {
    Loss.LINEAR: Column("y", ColumnType.NUMERIC, MissingRule.OMIT, -3.0, 9.0),
    Loss.LOGISTIC: Column("y", ColumnType.BOOLEAN, MissingRule.OMIT, levels=("no", "yes")),
    Loss.POISSON: Column("y", ColumnType.NUMERIC, MissingRule.OMIT, 0.0, 40.0),
}
WEIGHT = Column("w", ColumnType.NUMERIC, MissingRule.OMIT, 0.0, 1.0)
HOSTILE = [STORED_UNIT, -STORED_UNIT, 0, 1, -1, STORED_UNIT // 3, MISSING, 2**31 - 1, -(2**31) + 1, 12345]
FLAGS = [0, 1, MISSING, 2, -1]
COUNT = 3
MATRICES = [
    Combinations(((2**20, 0, 0), (0, 2**20, 0), (0, 0, 2**20), (5, -3, 1)), 14),
    Combinations(((1, 0, 2), (0, -1, 1), (3, 0, 0), (0, 0, 1)), 0),
    Combinations(((2**33, 7, -1), (-5, 2**34, 1), (1, -(2**34), 2**33), (0, 9, 2**34)), 0),
    Combinations(((1, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 1)), 30),
]
THETAS = [
    Combinations(((0,), (0,), (0,), (0,)), 0),
    Combinations(((100,), (-3000,), (77,), (9,)), 10),
    Combinations(((WEIGHTS_MAX - 3,), (1,), (1,), (1,)), 0),
]


def make_kernel(loss: Loss, theta: Combinations, directions: Combinations, *, weighted: bool = False) -> ScoreKernel:
    design = make_design(tuple(NUMBERS), (TARGETS[loss],), intercept=True)
    selection = Selection(weight=WEIGHT) if weighted else Selection()
    return ScoreKernel(design, loss, theta, directions, tuple(Statistic), selection)


def contributions(kernel: ScoreKernel, generator: np.random.Generator, count: int) -> dict[Statistic, list[list[int]]]:
    """Return what each of some hostile persons adds to each statistic; off-diagonals of the meat twice."""
    boolean = kernel.loss is Loss.LOGISTIC
    stored = {
        name: np.where(
            generator.random(count) < 0.7,
            generator.choice(FLAGS if name == "y" and boolean else HOSTILE, count),
            generator.integers(0, 2, count)
            if name == "y" and boolean
            else generator.integers(-STORED_UNIT, STORED_UNIT, count),
        ).astype(np.int32)
        for name in kernel.columns
    }
    rows = np.empty((count, kernel.width), dtype=np.float64, order="F")
    kernel.map(stored, np.ones(count, dtype=np.bool_), rows)
    added: dict[Statistic, list[list[int]]] = {statistic: [] for statistic in Statistic}
    upper = np.triu_indices(COUNT)
    for i in range(count):
        flat = kernel.sum(rows[i : i + 1]).tolist()
        added[Statistic.SCORE].append(flat[:COUNT])
        added[Statistic.NORMS].append(flat[COUNT : COUNT + 13])
        added[Statistic.MEAT].append(flat[COUNT + 13 :])
    assert len(flat) == COUNT + 13 + len(upper[0])
    return added


def moves(statistic: Statistic, rows: list[list[int]], adjacency: Adjacency) -> tuple[int, int]:
    """Return the largest squared L2 move, and the largest in L1, of one row or of one for another, in integers."""
    whole = np.array(rows, dtype=object)
    twice = np.array([1] * whole.shape[1], dtype=object)
    if statistic is Statistic.MEAT:
        first, second = np.triu_indices(COUNT)
        twice[first != second] = 2
    largest = [0, 0]
    for row in whole:
        apart = (whole if adjacency is Adjacency.REPLACE_ONE else np.zeros_like(whole[:1])) - row
        largest[0] = max(largest[0], *(apart * apart * twice).sum(axis=1))
        largest[1] = max(largest[1], *abs(apart).sum(axis=1))
    return largest[0], largest[1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", list(Loss))
def test_no_pair_of_persons_beats_a_bound(loss: Loss, weighted: bool) -> None:
    generator = np.random.default_rng([list(Loss).index(loss), weighted])
    for theta, directions in itertools.product(THETAS, MATRICES):
        kernel = make_kernel(loss, theta, directions, weighted=weighted)
        added = contributions(kernel, generator, 120)
        for statistic, adjacency in itertools.product(Statistic, Adjacency):
            l2_squared, l1 = moves(statistic, added[statistic], adjacency)
            assert l2_squared <= score_l2_squared(statistic, adjacency, 1)
            assert l1 <= score_l1(statistic, COUNT, adjacency, 1)


def test_bounds_are_reached() -> None:
    """With weights that saturate every direction, to within the rounding of one shrunk row."""
    reached = dict.fromkeys(itertools.product(Statistic, Adjacency), 0)
    for seed in range(4):
        kernel = make_kernel(Loss.LINEAR, THETAS[0], MATRICES[0])
        added = contributions(kernel, np.random.default_rng(seed), 300)
        for statistic, adjacency in reached:
            found, _ = moves(statistic, added[statistic], adjacency)
            reached[statistic, adjacency] = max(reached[statistic, adjacency], found)
    for (statistic, adjacency), found in reached.items():
        assert found >= score_l2_squared(statistic, adjacency, 1) * Fraction(99, 100), (statistic, adjacency)


def test_a_person_of_m_rows_moves_m_times_as_far() -> None:
    for statistic, adjacency in itertools.product(Statistic, Adjacency):
        assert score_l2_squared(statistic, adjacency, 5) == 25 * score_l2_squared(statistic, adjacency, 1)
        assert score_l1(statistic, 7, adjacency, 5) == 5 * score_l1(statistic, 7, adjacency, 1)


@given(
    st.lists(st.integers(-WEIGHTS_MAX // 4, WEIGHTS_MAX // 4), min_size=4, max_size=4),
    st.lists(st.integers(-WEIGHTS_MAX // 4, WEIGHTS_MAX // 4), min_size=12, max_size=12).filter(any),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from(list(Loss)),
)
def test_a_contribution_is_short_whatever_is_posted(
    theta: list[int], directions: list[int], bits: int, other: int, loss: Loss
) -> None:
    matrix = tuple(tuple(directions[3 * j : 3 * j + 3]) for j in range(4))
    kernel = make_kernel(loss, Combinations(tuple((w,) for w in theta), bits), Combinations(matrix, other))
    rows = np.empty((40, kernel.width), order="F")
    generator = np.random.default_rng(1)
    stored = {name: generator.choice(HOSTILE, 40).astype(np.int32) for name in kernel.columns}
    kernel.map(stored, np.ones(40, dtype=np.bool_), rows)
    for row in rows[:, :COUNT].tolist():
        assert all(number == int(number) for number in row)
        assert sum(int(number) ** 2 for number in row) <= UNIT**2


def test_a_row_contributes_alone_what_it_does_in_any_batch() -> None:
    generator = np.random.default_rng(5)
    for loss in Loss:
        kernel = make_kernel(loss, THETAS[1], MATRICES[0], weighted=True)
        stored = {name: generator.choice(HOSTILE, 999).astype(np.int32) for name in kernel.columns}
        counted = generator.random(999) < 0.8
        whole = np.full((999, kernel.width), 7.0, order="F")
        kernel.map(stored, counted, whole)
        used = COUNT + 2
        assert not whole[~counted, :used].any()
        for start, stop in ((0, 1), (5, 12), (500, 999)):
            part = np.empty((stop - start, kernel.width), order="F")
            kernel.map({name: values[start:stop] for name, values in stored.items()}, counted[start:stop], part)
            assert np.array_equal(part[:, :used], whole[start:stop, :used])
        pieces = sum(kernel.sum(whole[start : start + 111]) for start in range(0, 999, 111))
        assert np.array_equal(kernel.sum(whole), pieces)


def test_links_are_those_that_requests_name() -> None:
    for loss in (Loss.LOGISTIC, Loss.POISSON):
        assert digest_of(loss) == DIGESTS[loss]
    eta = np.arange(-REACH * STEPS, REACH * STEPS + 1) / STEPS
    assert np.abs(link_table(Loss.LOGISTIC) / 2**30 - 1 / (1 + np.exp(-eta))).max() < 2**-30
    assert np.abs(link_table(Loss.POISSON) / np.exp(eta) - 1).max() < 1e-14


def test_residuals_are_the_targets_less_their_means() -> None:
    eta, y = np.array([-1.0, 0.0, 0.3, 20.0]), np.array([-1.0, 1.0, 0.5, 1.0])
    lattice = residuals(Loss.LINEAR, eta * UNIT, np.rint(y * UNIT)) / UNIT
    assert np.allclose(lattice, y - eta, atol=1e-5)
    flags = np.array([0.0, 1.0, 1.0, 0.0])
    found = residuals(Loss.LOGISTIC, eta * UNIT, flags * UNIT) / UNIT
    assert np.allclose(found, flags - 1 / (1 + np.exp(-np.minimum(eta, 16))), atol=2e-4)
    counts = residuals(Loss.POISSON, eta * UNIT, y * UNIT, center=20.0, scale=20.0) / UNIT
    assert np.allclose(counts, (20 + 20 * y - np.minimum(np.exp(eta), 40)) / 40, atol=2e-4)


def test_edges_of_norms_are_powers_of_eight_fifths() -> None:
    assert np.allclose(np.sqrt(norm_edges()) / UNIT, 1.6 ** np.arange(-8.0, 4.0), rtol=1e-5)
