"""Row maps: the norm bound holds exactly, and the weights come from the terms of that row alone."""

import itertools
import math
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.privacy.design import Column, ColumnType, Design, make_design
from curator_service.privacy.lattice import UNIT, RowArray
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY
from curator_service.privacy.row_maps.integers import isqrt, root, scale

ENTRIES = st.one_of(st.integers(-UNIT, UNIT), st.sampled_from([-UNIT, -1, 0, 1, UNIT]), st.integers(-9, 9))
ROWS = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(ENTRIES, min_size=width, max_size=width), min_size=1, max_size=8)
)
RADII = st.one_of(st.integers(0, 3 * UNIT), st.sampled_from([0, 1, 2, UNIT - 1, UNIT, UNIT + 1]))
MAPS = st.one_of(st.just(Box()), RADII.map(Ball), st.just(Unit()), st.just(UnitXY()))
UNITS = pytest.mark.parametrize("unit", [Unit(), UnitXY()], ids=repr)


@cache
def design_of(beside: int, targets: int = 0, *, constant: bool = False) -> Design:
    """Return a design of so many numeric terms beside the constant."""
    names = [f"v{i}" for i in range(beside + targets)]
    columns = [Column(name, ColumnType.NUMERIC, lower=-1.0, upper=1.0) for name in names]
    return make_design(tuple(columns[:beside]), tuple(columns[beside:]), intercept=constant)


def lattice(rows: list[list[int]]) -> RowArray:
    return np.array(rows, dtype=np.float64)


@st.composite
def coded(draw: st.DrawFn) -> tuple[list[list[int]], Design]:
    """Draw rows as they are coded, some of them null, and their design."""
    rows = draw(ROWS)
    constant = draw(st.booleans())
    terms = draw(st.integers(0, len(rows[0])))
    design = design_of(terms, len(rows[0]) - terms, constant=constant)
    if constant:
        rows = [[UNIT, *row] for row in rows]
    return [[0] * len(row) if draw(st.integers(0, 9)) == 0 else row for row in rows], design


def shrink_in_python(row: list[int], terms: int, radius: int) -> list[int]:
    """Apply the ball to one row, in Python integers."""
    s = sum(z * z for z in row[:terms])
    if s <= radius * radius:
        return row
    return [(1 if z > 0 else -1) * (abs(z) * radius // (math.isqrt(s) + 1)) for z in row]


def over_norm(z: int, s: int) -> int:
    """Divide one entry by the norm √s of its row, in Python integers, towards zero."""
    return (1 if z > 0 else -1) * (abs(z) * UNIT * 2**8 // (math.isqrt(s * 2**16) + 1))


def unit_in_python(row: list[int], design: Design, *, divide_targets: bool) -> list[int]:
    """Apply Wang's map to one row, in Python integers."""
    first, width = int(design.has_constant), len(design.terms)
    s = sum(z * z for z in row[first:width])
    targets = row[width:]
    if divide_targets:
        targets = [max(-UNIT, min(UNIT, over_norm(y, s))) if s else 0 for y in targets]
    return [*row[:first], *(over_norm(z, s) for z in row[first:width]), *targets]


# --- the ball -------------------------------------------------------------------------------------------------------


@given(coded(), RADII)
def test_the_ball_equals_python_integers(case: tuple[list[list[int]], Design], radius: int) -> None:
    rows, design = case
    mapped = Ball(radius).apply(lattice(rows), design)
    assert mapped.tolist() == [shrink_in_python(row, len(design.terms), radius) for row in rows]


@given(ROWS, RADII)
def test_the_norm_is_at_most_the_radius(rows: list[list[int]], radius: int) -> None:
    for row in Ball(radius).apply(lattice(rows), design_of(len(rows[0]))).tolist():
        assert sum(int(z) ** 2 for z in row) <= radius**2


def test_the_norm_is_at_most_the_radius_for_every_row_of_a_small_lattice() -> None:
    rows = lattice(list(itertools.product(range(-9, 10), repeat=3)))
    for radius in range(17):
        assert ((Ball(radius).apply(rows, design_of(3)) ** 2).sum(axis=1) <= radius**2).all()


def test_the_radius_is_rounded_down_from_the_exact_float() -> None:
    assert Ball.of_norm(1.0).radius == UNIT
    assert Ball.of_norm(math.nextafter(1.0, 0.0)).radius == UNIT - 1
    assert Ball.of_norm(0.1).radius == UNIT // 10


@pytest.mark.parametrize("norm", [math.nan, math.inf, -math.inf, -1.0])
def test_a_norm_that_is_not_a_positive_number_is_refused(norm: float) -> None:
    with pytest.raises(ValueError, match="norm"):
        Ball.of_norm(norm)


@pytest.mark.parametrize("norm", [1e3, 1e30, 1.7e308])
def test_a_huge_radius_changes_nothing_and_does_not_overflow(norm: float) -> None:
    rows = lattice([[UNIT] * 6])
    assert Ball.of_norm(norm).apply(rows, design_of(6)).tolist() == rows.tolist()


def test_many_terms_do_not_overflow() -> None:
    ball = Ball.of_norm(40.0)
    mapped = ball.apply(np.full((2, 2000), UNIT, dtype=np.float64), design_of(2000))
    assert [sum(int(z) ** 2 for z in row) <= ball.radius**2 for row in mapped.tolist()] == [True, True]
    assert mapped[0].tolist() == shrink_in_python([UNIT] * 2000, 2000, ball.radius)


# --- the unit sphere ------------------------------------------------------------------------------------------------


@given(coded())
def test_unit_equals_python_integers(case: tuple[list[list[int]], Design]) -> None:
    rows, design = case
    mapped = Unit().apply(lattice(rows), design).tolist()
    assert mapped == [unit_in_python(row, design, divide_targets=False) for row in rows]


@given(coded())
def test_unit_xy_equals_python_integers(case: tuple[list[list[int]], Design]) -> None:
    rows, design = case
    mapped = UnitXY().apply(lattice(rows), design).tolist()
    assert mapped == [unit_in_python(row, design, divide_targets=True) for row in rows]


@UNITS
@pytest.mark.parametrize("constant", [False, True])
def test_every_row_of_a_small_lattice_is_on_the_unit_sphere_or_within(unit: Unit | UnitXY, constant: bool) -> None:
    beside = lattice(list(itertools.product(range(-9, 10), repeat=3)))
    rows = np.hstack([np.full((len(beside), int(constant)), UNIT), beside])
    design = design_of(3, constant=constant)
    mapped = unit.apply(rows, design)
    norms = (mapped[:, int(constant) :] ** 2).sum(axis=1)
    assert norms.max() <= UNIT**2
    assert (mapped**2).sum(axis=1).max() <= unit.norm_squared(design) == UNIT**2 * (1 + constant)
    # And near the sphere: the +1 of a divisor costs a row of norm 1 less than 1/2^8 of its length.
    assert norms[(beside != 0).any(axis=1)].min() > (1 - 2**-8) ** 2 * UNIT**2


@UNITS
@pytest.mark.parametrize("size", [1, 2, 3, 181, 65_536, UNIT - 1, UNIT])
def test_a_row_of_one_term_stays_within_the_unit(unit: Unit | UnitXY, size: int) -> None:
    # s·2^16 is a square here: without the + 1 a divisor would not be above the norm.
    mapped = unit.apply(lattice([[size], [-size]]), design_of(1)).ravel().tolist()
    assert UNIT * (1 - 2**-8) < mapped[0] < UNIT
    assert mapped[1] == -mapped[0]


@UNITS
def test_a_unit_row_is_bounded_for_every_size_of_the_lattice(unit: Unit | UnitXY) -> None:
    sizes = np.arange(UNIT + 1, dtype=np.float64)
    for others in ([], [sizes[::-1]], [np.full_like(sizes, UNIT)]):
        rows = np.stack([sizes, *others], axis=1)
        assert (unit.apply(rows, design_of(rows.shape[1])) ** 2).sum(axis=1).max() <= UNIT**2


def test_a_row_without_direction_keeps_its_zeros_and_its_constant() -> None:
    rows = lattice([[UNIT, 0, 0, 1234, -UNIT]])
    design = design_of(2, 2, constant=True)
    assert Unit().apply(rows, design).tolist() == [[UNIT, 0, 0, 1234, -UNIT]]
    assert UnitXY().apply(rows, design).tolist() == [[UNIT, 0, 0, 0, 0]]


def test_a_constant_alone_is_left_as_it_is() -> None:
    assert Unit().apply(lattice([[UNIT, -5]]), design_of(0, 1, constant=True)).tolist() == [[UNIT, -5]]
    assert UnitXY().apply(lattice([[UNIT, -5]]), design_of(0, 1, constant=True)).tolist() == [[UNIT, 0]]


def test_every_target_of_a_small_lattice_is_bounded() -> None:
    rows = lattice(list(itertools.product(range(-5, 6), repeat=4)))
    mapped = UnitXY().apply(rows, design_of(2, 2))
    assert np.abs(mapped).max() == UNIT
    assert (mapped[:, :2] == Unit().apply(rows, design_of(2, 2))[:, :2]).all()


@pytest.mark.parametrize("width", [1000, 2000])
def test_many_terms_on_the_unit_sphere_do_not_overflow(width: int) -> None:
    design = design_of(width, 1)
    rows = [[UNIT] * (width + 1), [-UNIT + (i % 2) for i in range(width + 1)]]
    mapped = UnitXY().apply(lattice(rows), design)
    assert mapped.tolist() == [unit_in_python(row, design, divide_targets=True) for row in rows]


# --- every map ------------------------------------------------------------------------------------------------------


@given(coded(), MAPS)
def test_a_mapped_row_is_of_integers_within_its_bounds(case: tuple[list[list[int]], Design], row_map: RowMap) -> None:
    rows, design = case
    mapped = row_map.apply(lattice(rows), design)
    assert mapped.dtype == np.float64
    assert (mapped == np.rint(mapped)).all()
    assert np.abs(mapped).max() <= UNIT
    norms = [sum(int(z) ** 2 for z in row[: len(design.terms)]) for row in mapped.tolist()]
    assert max(norms) <= row_map.norm_squared(design)


def layouts(array: RowArray) -> list[RowArray]:
    """Return the same rows in several memory orders."""
    wide = np.zeros((2 * len(array), array.shape[1] + 3))
    wide[::2, 1:-2] = array
    backwards = np.asfortranarray(array[::-1, ::-1])[::-1, ::-1]
    return [np.ascontiguousarray(array), np.asfortranarray(array), wide[::2, 1:-2], backwards]


@given(coded(), MAPS, st.randoms(use_true_random=False))
def test_a_mapped_row_does_not_depend_on_its_batch_or_memory_order(
    case: tuple[list[list[int]], Design], row_map: RowMap, random: Random
) -> None:
    rows, design = case
    array = lattice(rows)
    alone = [row_map.apply(array[k : k + 1], design).tobytes() for k in range(len(array))]
    chosen = [random.randrange(len(array)) for _ in range(random.randint(1, 40))]
    for batch in layouts(array[chosen]):
        assert [row.tobytes() for row in row_map.apply(batch, design)] == [alone[k] for k in chosen]


@pytest.mark.parametrize("row_map", [Box(), Ball.of_norm(1.3), Unit(), UnitXY()], ids=repr)
def test_rows_of_a_long_batch_are_mapped_as_alone(row_map: RowMap) -> None:
    rng = np.random.default_rng(3)
    size = 10.0 ** rng.uniform(0, math.log10(UNIT), size=(3001, 1))
    array = np.rint(rng.uniform(-1, 1, size=(3001, 17)) * size)
    design = design_of(15, 2)
    alone = b"".join(row_map.apply(array[k : k + 1], design).tobytes() for k in range(len(array)))
    for batch in layouts(array):
        assert np.ascontiguousarray(row_map.apply(batch, design)).tobytes() == alone


@given(coded(), MAPS)
def test_the_input_is_not_changed(case: tuple[list[list[int]], Design], row_map: RowMap) -> None:
    array = lattice(case[0])
    row_map.apply(array, case[1])
    assert array.tolist() == case[0]


def test_the_box_returns_the_rows() -> None:
    rows = lattice([[UNIT, -UNIT]])
    assert Box().apply(rows, design_of(2)).tolist() == rows.tolist()


# --- exact integers -------------------------------------------------------------------------------------------------


@given(st.integers(1, 2**31 - 1), st.integers(-1, 1))
def test_the_integer_root_is_exact_beside_squares(root: int, offset: int) -> None:
    value = root * root + offset
    assert isqrt(np.array([value], dtype=np.int64))[0] == math.isqrt(value)


@given(st.one_of(st.integers(0, 2**62 - 1), st.integers(0, 2**44).map(lambda s: s << 16)))
def test_the_integer_root_is_exact(value: int) -> None:
    assert isqrt(np.array([value], dtype=np.int64))[0] == math.isqrt(value)


@given(st.integers(0, 2**52 - 1))
def test_the_root_in_floats_is_exact(value: int) -> None:
    assert root(np.array([float(value)]))[0] == math.isqrt(value)


@given(st.integers(2**25, 2**26), st.integers(-2, 1))
def test_the_root_in_floats_is_exact_beside_the_largest_squares(length: int, offset: int) -> None:
    value = min(length * length + offset, 2**52 - 1)
    assert root(np.array([float(value)]))[0] == math.isqrt(value)


@given(st.integers(0, UNIT), st.integers(1, 2**26), st.integers(1, 2**31), st.integers(-1, 1))
def test_a_quotient_beside_an_integer_is_floored(z: int, multiplier: int, divisor: int, offset: int) -> None:
    # Products next to a multiple of the divisor are where a rounded quotient could reach the next integer.
    near = max(0, z * multiplier // divisor * divisor + offset)
    for entry, factor in ((z, multiplier), (near, 1)):
        scaled = scale(lattice([[entry, -entry]]), np.array([float(factor)]), np.array([float(divisor)]))[0].tolist()
        assert scaled == [entry * factor // divisor, -(entry * factor // divisor)]
