"""Sensitivities are attacked: neighbouring datasets are searched through the code that a release runs.

The bounds under attack are those that `plan_gram` charges, so that a wrong constant, a wrong geometry or a wrong count
of groups turns a test red. Whole releases are in test_privacy_sensitivity_release.py, exhaustive searches on small
lattices in test_privacy_sensitivity_exhaustive.py.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from neighbours import (
    ADD_REMOVE,
    L1,
    L2_SQUARED,
    LAMBDA_MIN,
    REPLACE_ONE,
    XTX,
    XTY,
    YTY,
    Case,
    Norm,
    charged,
    contributions,
    exact_moves,
    first_persons,
    fresh_persons,
    gram,
    label,
    largest_lambda_min_move,
    largest_move,
    mapped,
    plan_of,
    worst_neighbours,
)

from curator_service.kinds.gram import plan as planning
from curator_service.kinds.gram import sensitivity
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.conversions import root_up
from curator_service.privacy.design import Design
from curator_service.privacy.lattice import UNIT, center_and_scale, to_stored
from curator_service.privacy.parts import GaussianPart
from curator_service.privacy.row_maps import Box, Unit
from curator_service.privacy.sums import INT64_CAPACITY_MAX, ROW_CAPACITY_MAX

ALL = "xtx xty yty lambda_min"
MOST = "xtx xty yty"
SINGLES = "xtx+ xtx1 xty yty"  # an odd number of single terms: no two rows of ±1 are orthogonal
MIXED = "xtx+ xty yty"  # wide groups beside single terms: up to a remainder, see docs/privacy.md
BALL = "xtx2 xty2 yty lambda_min"  # L1 under a ball wants all terms of equal size: where that fits, it is named
CASES = [
    Case("n", intercept=False, tight=ALL),
    Case("n", tight=ALL),
    Case("nn", tight=SINGLES + " lambda_min"),
    Case("nnn", tight=ALL),
    Case("n?nn", tight=ALL),
    Case("nnnn", intercept=False, tight=ALL),
    Case("nnnnn", tight=ALL),
    Case("nnnnnn", intercept=False, tight=ALL),
    Case("aw", intercept=False, targets=2, tight=ALL),
    Case("n*h*", targets=2, tight=SINGLES),
    Case("b", intercept=False, tight=ALL),
    Case("bn", tight=SINGLES),
    Case("nb", targets=3, tight=SINGLES),
    Case("1", intercept=False, tight=ALL),
    Case("2", intercept=False, tight=MOST),
    Case("4", intercept=False, tight=MOST),
    Case("32", intercept=False, tight=MOST),
    Case("222", intercept=False, tight=MOST),
    Case("3!3", intercept=False, tight=MOST),
    Case("3", tight=MIXED),
    Case("5?", tight=MIXED),
    Case("34", tight=MIXED),
    Case("33n", tight=MIXED),
    Case("3n", intercept=False, tight=MIXED + " lambda_min"),
    Case("n3!n", intercept=False, tight=MIXED + " xtx2 lambda_min"),
    Case("n!b", tight="yty"),
    Case("n!2!", intercept=False, tight="yty"),
    Case("nz", tight="yty"),
    Case("z", intercept=False, tight="yty"),
    Case("n", 0.6, intercept=False, tight="xtx+ xty yty lambda_min"),
    Case("n", 0.6, tight="xtx2 xtx+ lambda_min"),
    Case("n", 1.0, tight=BALL + " xtx+"),
    Case("n", 1.3, tight=BALL + " xtx+ xty1"),
    Case("nn", 0.8, intercept=False, tight=ALL),
    Case("nn", 0.7, tight="xtx2 xtx+ lambda_min"),
    Case("nn", 1.2, tight=BALL + " xtx+"),
    Case("nnn", 0.5, tight="xtx2 xtx+ lambda_min"),
    Case("nnn", 1.6, tight=BALL + " xtx+"),
    Case("nnnnn", 1.25, tight=BALL + " xtx+"),
    Case("nnnnnn", 1.0, intercept=False, tight=BALL + " xtx+ xty1"),
    Case("n?nb", 1.1, targets=2, tight=BALL + " xtx+"),
    Case("3n", 1.2, tight=BALL + " xtx+"),
    Case("24", 1.0, intercept=False, tight="xtx"),
    Case("n3!", 1.2, intercept=False, tight=BALL + " xtx+"),
    Case("n!n", 1.5, tight=BALL),
    Case("z", 0.9, tight="xtx2+"),
    Case("n", ((300,),), intercept=False, tight="xtx+ xty yty lambda_min"),
    Case("n", ((0, 200), (256, 3)), tight=BALL + " xtx+"),
    Case("nn", ((256, 0), (0, 256)), intercept=False, tight=ALL),
    Case("nn", ((2**20, 7, -999), (-5, 2**21, 2**33)), intercept=False, tight="xtx2 xty2 yty"),
    Case("nnn", ((1, -2), (250, 3), (-4, 300), (31, 2)), targets=2, tight=BALL),
    Case("nn", ((90,), (100,), (40,)), tight="yty"),
    Case("n3b", ((9, 4, 0), (300, 2, 1), (5, 400, 0), (0, -500, 2), (1, 3, 600)), tight="yty"),
    Case("n", "unit", tight="xtx2 xtx+ xty yty lambda_min"),
    Case("nn", "unit", intercept=False, tight=ALL),
    Case("nnn", "unit", tight="xtx2 xty2 yty"),
    Case("3n", "unit", tight="xtx2 xty2 yty"),
    Case("nnnnn", "unit", intercept=False, tight=BALL + " xtx+ xty"),
    Case("z!", "unit", tight="xtx2+ xty2 yty"),
    Case("n", "unit_xy", tight="xtx2 xtx+ xty yty lambda_min"),
    Case("nn", "unit_xy", intercept=False, tight=ALL),
    Case("nnnn", "unit_xy", targets=2, tight="xtx2 xty2 yty"),
    Case("aw3", "unit_xy", intercept=False, targets=3, tight="xtx2 xty2 yty"),
]
BOTH = pytest.mark.parametrize("adjacency", list(Adjacency), ids=str)
NORMS = pytest.mark.parametrize("norm", list(Norm), ids=lambda n: n.value)
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=str)
EVERY_STATISTIC = pytest.mark.parametrize("statistic", list(Statistic), ids=str)


def nearly(norm: Norm) -> Fraction:
    return Fraction(99, 100) ** (2 if norm is L2_SQUARED else 1)


QUESTIONS = list(product(Statistic, Norm))


@BOTH
@EVERY_CASE
def test_no_neighbour_beats_a_bound(case: Case, adjacency: Adjacency) -> None:
    beaten = [q for q in QUESTIONS if largest_move(case, *q, adjacency) > charged(case, *q, adjacency)]
    assert not beaten


@BOTH
@EVERY_CASE
def test_tight_bounds_are_reached_to_one_percent(case: Case, adjacency: Adjacency) -> None:
    tight = [(s, n) for s, n in QUESTIONS if case.is_tight(s, n, adjacency)]
    loose = [q for q in tight if largest_move(case, *q, adjacency) < nearly(q[1]) * charged(case, *q, adjacency)]
    assert not loose


def test_two_groups_beside_a_constant_beat_the_naive_bound() -> None:
    # R² = 3 would understate the triangle's sensitivity: two groups and a constant reach √10.
    reached = largest_move(Case("34"), XTX, L2_SQUARED, REPLACE_ONE)
    assert 9 < reached / UNIT**4 == pytest.approx(10)


@pytest.mark.parametrize("case", [Case("nn"), Case("nn", 1.2), Case("nn", "unit"), Case("nn", "unit_xy")], ids=str)
def test_a_null_row_is_searched(case: Case) -> None:
    persons = first_persons(case, np.random.default_rng(0))
    nothing = (contributions(case, persons) == 0).all(axis=1)
    assert nothing.any()


# --- several rows of one person ---------------------------------------------------------------------------------------

PERSONS_OF_MANY_ROWS = [
    Case("nnn", tight=ALL),
    Case("32", intercept=False, tight=MOST),
    Case("nn", 0.9, intercept=False, targets=2, tight=ALL),
    Case("nn", 1.2, tight=BALL + " xtx+"),
    Case("n", "unit", tight="xtx2 xtx+ xty yty lambda_min"),
    Case("nn", "unit_xy", intercept=False, tight=ALL),
]
MANY = pytest.mark.parametrize("rows_per_person", [2, 3, 5])


@MANY
@BOTH
@pytest.mark.parametrize("case", PERSONS_OF_MANY_ROWS, ids=str)
def test_bounds_grow_with_the_rows_of_a_person_and_are_reached(
    case: Case, adjacency: Adjacency, rows_per_person: int
) -> None:
    for statistic, norm in QUESTIONS:
        bound = charged(case, statistic, norm, adjacency, rows_per_person)
        reached = largest_move(case, statistic, norm, adjacency, rows_per_person)
        assert reached <= bound, (statistic, norm)
        if case.is_tight(statistic, norm, adjacency):
            assert reached >= nearly(norm) * bound, (statistic, norm)
        if statistic is not LAMBDA_MIN:  # whose tolerance does not grow
            power = 2 if norm is L2_SQUARED else 1
            assert bound == charged(case, statistic, norm, adjacency) * rows_per_person**power


@MANY
@BOTH
@pytest.mark.parametrize("case", PERSONS_OF_MANY_ROWS, ids=str)
def test_rows_of_one_person_that_differ_move_no_further(case: Case, adjacency: Adjacency, rows_per_person: int) -> None:
    rng = np.random.default_rng(rows_per_person)
    witnesses = np.concatenate(list(worst_neighbours(case, adjacency).values()))
    persons = np.concatenate([witnesses, fresh_persons(case, 40, rng)])
    added = np.rint(contributions(case, persons) * UNIT**2)
    plus, minus = rng.integers(0, len(persons), size=(2, 4000, rows_per_person))
    # A person may also have fewer rows than the most that count.
    present = rng.random((2, 4000, rows_per_person, 1)) < 0.8
    moved = (added[plus] * present[0]).sum(axis=1)
    if adjacency is REPLACE_ONE:
        moved -= (added[minus] * present[1]).sum(axis=1)
    first, second = np.triu_indices(len(case.design.terms))
    weights = np.where((first != second) & (case.rows != "box"), 2, 1)
    xtx, xty = moved[:, : len(first)], moved[:, len(first) : len(first) + len(case.design.terms)]
    for statistic, norm, found in (
        (XTX, L2_SQUARED, (xtx**2 * weights).sum(axis=1)),
        (XTX, L1, np.abs(xtx).sum(axis=1)),
        (XTY, L2_SQUARED, (xty**2).sum(axis=1)),
        (XTY, L1, np.abs(xty).sum(axis=1)),
        (YTY, L1, np.abs(moved[:, -1])),
    ):
        assert found.max() <= float(charged(case, statistic, norm, adjacency, rows_per_person)) * (1 + 1e-12)


@BOTH
@pytest.mark.parametrize("capacity", [INT64_CAPACITY_MAX, ROW_CAPACITY_MAX])
@pytest.mark.parametrize("rows_per_person", [1, 5])
@pytest.mark.parametrize(
    "case", [Case("n"), Case("nnn"), Case("nn", 1.2), Case("nn", "unit", intercept=False)], ids=str
)
def test_no_neighbour_beats_the_bound_of_lambda_min_at_the_largest_capacity(
    case: Case, rows_per_person: int, capacity: int, adjacency: Adjacency
) -> None:
    moved = largest_lambda_min_move(case, adjacency, rows_per_person, capacity)
    plan = plan_of(case, adjacency, row_capacity=capacity, rows_per_person=rows_per_person)
    part = next(p for p in plan.parts if p.statistic is LAMBDA_MIN)
    assert isinstance(part, GaussianPart)
    assert moved**2 <= part.sensitivity_squared
    assert moved**2 >= nearly(L2_SQUARED) * part.sensitivity_squared


# --- values that a public bound cuts off ------------------------------------------------------------------------------

BEYOND = [-np.inf, -1.7e308, -1e308, -3.0, -5e-324, 0.0, 3.5, 50.0, 1e308, 1.7e308, np.inf, np.nan]


def _dataset(case: Case, values: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.int32]]:
    stored = [to_stored(values[:, j], column.lower, column.upper) for j, column in enumerate(case.columns)]
    return np.stack(stored, axis=1)


@BOTH
@NORMS
@pytest.mark.parametrize(
    "case",
    [Case("aw"), Case("wh", intercept=False), Case("aw", 1.2), Case("a?w", "unit"), Case("ah", "unit_xy")],
    ids=str,
)
def test_values_beyond_asymmetric_bounds_move_no_further(case: Case, norm: Norm, adjacency: Adjacency) -> None:
    values = np.array(list(product(BEYOND, BEYOND, [-1e308, -1.0, 0.0, np.inf, np.nan])))
    stored = _dataset(case, values)
    added = np.rint(contributions(case, stored) * UNIT**2)
    first, second = np.triu_indices(len(case.design.terms))
    scale = np.where((first != second) & (case.rows != "box") & (norm is L2_SQUARED), np.sqrt(2), 1)
    for statistic, entries in ((XTX, added[:, : len(first)] * scale), (XTY, added[:, len(first) : -1])):
        others = np.unique(entries, axis=0) if adjacency is REPLACE_ONE else np.zeros((1, entries.shape[1]))
        differences = np.abs(np.unique(entries, axis=0)[:, None] - others[None])
        moved = (differences**2 if norm is L2_SQUARED else differences).sum(axis=-1).max()
        bound = float(charged(case, statistic, norm, adjacency))
        assert moved <= bound * (1 + 1e-12)
        if case.is_tight(statistic, norm, adjacency):
            assert moved >= float(nearly(norm)) * bound


@pytest.mark.parametrize("beyond", [1e308, np.inf, -np.inf, -1e308])
def test_a_value_far_beyond_its_bounds_counts_as_the_bound(beyond: float) -> None:
    case = Case("aw", intercept=False)
    bound = [10.0, 50.0] if beyond > 0 else [0.0, -3.0]
    one, other = (gram(case, _dataset(case, np.array([[*x, 1.0]]))) for x in (bound, [beyond, beyond]))
    assert not any(move for moves in exact_moves(case, one, other).values() for move in moves.values())
    assert one.xtx.tolist() == [[UNIT**2] * 2] * 2


# --- columns of no width: nothing is divided by zero, and no bound shrinks because of the data ------------------------


@pytest.mark.parametrize("point", [0.0, 3.0, -1e308, 5e-324])
def test_bounds_that_allow_one_point_are_refused(point: float) -> None:
    with pytest.raises(ValueError, match="lower bound"):
        center_and_scale(point, point)


def test_bounds_one_float_apart_still_bound_every_value() -> None:
    lower, upper = 1.0, np.nextafter(1.0, 2.0)
    values = np.array([-np.inf, 0.0, lower, upper, 2.0, np.inf])
    assert set(np.abs(to_stored(values, lower, upper)).tolist()) <= {0, 2**30}


def test_a_midpoint_is_a_null_row_of_the_unit_map() -> None:
    case = Case("n", "unit", intercept=False)
    persons = np.array([[0, 2**30]], dtype=np.int32)
    assert mapped(case, persons).tolist() == [[0, UNIT]]


@BOTH
@pytest.mark.parametrize("rows", ["box", 1.2, "unit", "unit_xy"])
def test_a_column_that_is_constant_in_the_data_is_charged_like_any_other(
    rows: str | float, adjacency: Adjacency
) -> None:
    constant, free = Case("nz", rows), Case("nn", rows)
    for inputs in QUESTIONS:
        assert charged(constant, *inputs, adjacency) == charged(free, *inputs, adjacency)


# --- the search would see a wrong constant -------------------------------------------------------------------------


@pytest.fixture
def uncached_plans() -> Iterator[None]:
    """Plans are remembered: forget them, so that a patched formula is used, and leaves no trace."""
    planning._plan.cache_clear()
    yield
    planning._plan.cache_clear()


def half_of_the_root(norm_squared: int, supports: Sequence[tuple[int, int]], _: Adjacency) -> Fraction:
    places = len(supports)
    return Fraction(root_up(Fraction(norm_squared**2 * places * (places + 3), 4)))


def one_support_less(self: Design) -> tuple[tuple[int, int], ...]:
    return ((1, 1),) * (len({term.group for term in self.terms}) - 1)


def one_group_less(self: Design) -> int:
    """R² read as R² − 1: a group, or the constant, forgotten."""
    return len({term.group for term in self.terms}) - 1


def every_column(self: Design) -> int:
    """A group counted as its columns are."""
    return len(self.terms)


MUTANTS = [
    ("group_count", one_group_less, Case("3n", intercept=False), XTX, L2_SQUARED, ADD_REMOVE),
    ("group_count", one_group_less, Case("nnn"), XTX, L2_SQUARED, REPLACE_ONE),
    ("group_count", one_group_less, Case("nnn"), XTX, L1, ADD_REMOVE),
    ("group_count", one_group_less, Case("nnn"), XTX, L1, REPLACE_ONE),
    ("group_count", one_group_less, Case("nnn"), XTY, L2_SQUARED, REPLACE_ONE),
    ("group_count", one_group_less, Case("nnn"), XTY, L1, ADD_REMOVE),
    ("supports", one_support_less, Case("nn", 0.8, intercept=False), XTX, L1, ADD_REMOVE),
    ("supports", one_support_less, Case("nn", 0.8, intercept=False), XTX, L1, REPLACE_ONE),
    ("supports", one_support_less, Case("nn", 0.8, intercept=False), XTY, L1, REPLACE_ONE),
    ("group_count", one_group_less, Case("nnn"), LAMBDA_MIN, L2_SQUARED, ADD_REMOVE),
    ("wide_group_count", lambda _: 0, Case("34"), XTX, L2_SQUARED, REPLACE_ONE),
    ("wide_group_count", lambda _: 0, Case("32", intercept=False), XTX, L2_SQUARED, REPLACE_ONE),
    ("wide_group_count", lambda _: 0, Case("34"), XTX, L1, REPLACE_ONE),
    ("wide_group_count", lambda _: 0, Case("3n", intercept=False), XTX, L1, REPLACE_ONE),
    ("supports", lambda _: ((1, 1), (1, 1)), Case("24", 1.0, intercept=False), XTX, L1, REPLACE_ONE),
]


@pytest.mark.usefixtures("uncached_plans")
@pytest.mark.parametrize(("name", "wrong", "case", "statistic", "norm", "adjacency"), MUTANTS, ids=label)
def test_the_search_detects_a_wrong_count_of_groups(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    wrong: Callable[[Design], int],
    case: Case,
    statistic: Statistic,
    norm: Norm,
    adjacency: Adjacency,
) -> None:
    found = largest_move(case, statistic, norm, adjacency)
    monkeypatch.setattr(Design, name, property(wrong))
    planning._plan.cache_clear()
    assert found > charged(case, statistic, norm, adjacency)


SQUARE, Q4 = UNIT**2, UNIT**4
PAIR = Case("nn", 0.8, intercept=False)
CODES = Case("24", 1.0, intercept=False)
SIX = Case("nnnnnn", 1.0, intercept=False)
TWO, THREE = Case("32", intercept=False), Case("222", intercept=False)
WRONG_FUNCTIONS = [
    # The table of DESIGN with one constant wrong each.
    ("xtx_box_l2_squared", lambda g, h, a: Fraction(Q4 * g**2, 2), Case("nnn"), XTX, L2_SQUARED, ADD_REMOVE),
    ("xtx_box_l2_squared", lambda g, h, a: Fraction(Q4 * (g**2 + g), 2), Case("nnn"), XTX, L2_SQUARED, REPLACE_ONE),
    ("xtx_box_l2_squared", lambda g, h, a: Fraction(Q4 * g**2), THREE, XTX, L2_SQUARED, REPLACE_ONE),
    ("xtx_norm_l2_squared", lambda r, a: Fraction(r**2, 4), Case("nn", 1.2), XTX, L2_SQUARED, ADD_REMOVE),
    ("xtx_norm_l2_squared", lambda r, a: Fraction(r**2), Case("nn", 1.2), XTX, L2_SQUARED, REPLACE_ONE),
    ("xtx_norm_l2_squared", lambda r, a: Fraction(r**2), Case("nn", "unit"), XTX, L2_SQUARED, REPLACE_ONE),
    ("xty_l2_squared", lambda r, a: Fraction(r * SQUARE, 2), Case("nn"), XTY, L2_SQUARED, ADD_REMOVE),
    ("xty_l2_squared", lambda r, a: Fraction(2 * r * SQUARE), Case("nn"), XTY, L2_SQUARED, REPLACE_ONE),
    ("xty_l2_squared", lambda r, a: Fraction(r**2), PAIR, XTY, L2_SQUARED, ADD_REMOVE),
    ("xtx_box_l1", lambda g, h, a: Fraction(SQUARE * g**2, 2), Case("nnn"), XTX, L1, ADD_REMOVE),
    ("xtx_box_l1", lambda g, h, a: Fraction(SQUARE * g * (g - 1), 2), Case("nnn"), XTX, L1, ADD_REMOVE),
    ("xtx_box_l1", lambda g, h, a: Fraction(SQUARE * g**2, 2), Case("nnn"), XTX, L1, REPLACE_ONE),
    ("xtx_box_l1", lambda g, h, a: Fraction(SQUARE * g * (g + 1), 2), TWO, XTX, L1, REPLACE_ONE),
    ("xtx_box_l1", lambda g, h, a: Fraction(SQUARE * h**2), TWO, XTX, L1, REPLACE_ONE),
    ("xtx_box_l1", lambda g, h, a: SQUARE * Fraction((g - h) * (g - h + 1) + 2 * h * (g - h) + 2 * h**2 + 2 * h, 2),
     Case("33n"), XTX, L1, REPLACE_ONE),
    ("xtx_norm_l1", lambda r, s, a: Fraction(r * len(s), 2), PAIR, XTX, L1, ADD_REMOVE),
    ("xtx_norm_l1", lambda r, s, a: Fraction(r * (len(s) + 1), 2), PAIR, XTX, L1, REPLACE_ONE),
    ("xtx_norm_l1", lambda r, s, a: Fraction(r * (len(s) + 1), 2), CODES, XTX, L1, REPLACE_ONE),
    ("xtx_norm_l1", half_of_the_root, SIX, XTX, L1, REPLACE_ONE),
    ("xty_l1", lambda r, s, a, lengthens: Fraction(root_up(Fraction(r * SQUARE))), Case("nnn"), XTY, L1, ADD_REMOVE),
    ("xty_l1", lambda r, s, a, lengthens: Fraction(root_up(Fraction(len(s) * r * SQUARE))), Case("nnn"), XTY, L1,
     REPLACE_ONE),
    ("xty_l1", lambda r, s, a, lengthens: Fraction(root_up(Fraction(4 * r * SQUARE))), PAIR, XTY, L1, REPLACE_ONE),
    ("yty", lambda: Fraction(SQUARE, 2), Case("nn", 1.2), YTY, L2_SQUARED, REPLACE_ONE),
    ("yty", lambda: Fraction(SQUARE, 2), Case("n", "unit_xy"), YTY, L1, ADD_REMOVE),
    ("lambda_min", lambda r, e, m: Fraction(r // 2 + 2 * e + 1), Case("n"), LAMBDA_MIN, L2_SQUARED, REPLACE_ONE),
    ("lambda_min", lambda r, e, m: Fraction(r // 2), Case("nn", 1.2), LAMBDA_MIN, L1, ADD_REMOVE),
]  # fmt: skip


@pytest.mark.usefixtures("uncached_plans")
@pytest.mark.parametrize(("name", "wrong", "case", "statistic", "norm", "adjacency"), WRONG_FUNCTIONS, ids=label)
def test_the_search_detects_a_wrong_formula(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    wrong: Callable[..., Fraction],
    case: Case,
    statistic: Statistic,
    norm: Norm,
    adjacency: Adjacency,
) -> None:
    monkeypatch.setattr(sensitivity, name, wrong)
    assert largest_move(case, statistic, norm, adjacency) > charged(case, statistic, norm, adjacency)


@pytest.mark.usefixtures("uncached_plans")
@pytest.mark.parametrize("rows", ["unit", "unit_xy"])
@pytest.mark.parametrize("statistic", [XTX, XTY], ids=str)
@BOTH
@NORMS
def test_the_search_detects_a_constant_that_is_not_counted_beside_a_unit_row(
    monkeypatch: pytest.MonkeyPatch, rows: str, statistic: Statistic, norm: Norm, adjacency: Adjacency
) -> None:
    case = Case("n", rows)
    monkeypatch.setattr(Unit, "norm_squared", lambda _self, _design: SQUARE)
    assert largest_move(case, statistic, norm, adjacency) > charged(case, statistic, norm, adjacency)


@pytest.mark.usefixtures("uncached_plans")
def test_the_search_detects_a_box_row_of_norm_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Box, "norm_squared", lambda _self, _design: SQUARE)
    case = Case("nn")
    assert largest_move(case, XTY, L2_SQUARED, ADD_REMOVE) > charged(case, XTY, L2_SQUARED, ADD_REMOVE)


@MANY
@BOTH
@NORMS
@EVERY_STATISTIC
def test_the_search_detects_rows_per_person_that_are_ignored(
    statistic: Statistic, norm: Norm, adjacency: Adjacency, rows_per_person: int
) -> None:
    case = PERSONS_OF_MANY_ROWS[0]
    found = largest_move(case, statistic, norm, adjacency, rows_per_person)
    assert found > charged(case, statistic, norm, adjacency)
    if norm is L2_SQUARED:  # nor is m, where it should be m²
        assert found > rows_per_person * charged(case, statistic, norm, adjacency)


def test_the_search_detects_off_diagonals_that_are_drawn_twice() -> None:
    # The plain Frobenius norm of the box's XᵀX is above what the triangle, each entry once, is charged.
    case = Case("nnn")
    (row,) = mapped(case, worst_neighbours(case, ADD_REMOVE)[XTX, L2_SQUARED])[:, : len(case.design.terms)]
    assert int(row @ row) ** 2 > charged(case, XTX, L2_SQUARED, ADD_REMOVE)
