"""Row maps: the norm bound holds exactly, and the weights come from the terms alone."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.privacy.lattice import UNIT
from curator_service.privacy.rows import Ball, Box, _isqrt

ENTRIES = st.one_of(st.integers(-UNIT, UNIT), st.sampled_from([-UNIT, -1, 0, 1, UNIT]))
ROWS = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(ENTRIES, min_size=width, max_size=width), min_size=1, max_size=8)
)
RADII = st.one_of(st.integers(0, 3 * UNIT), st.sampled_from([0, 1, 2, UNIT - 1, UNIT, UNIT + 1]))


def shrink_in_python(row: list[int], terms: int, radius: int) -> list[int]:
    """Apply the ball to one row, in Python integers."""
    s = sum(z * z for z in row[:terms])
    if s <= radius * radius:
        return row
    return [(1 if z > 0 else -1) * (abs(z) * radius // (math.isqrt(s) + 1)) for z in row]


@given(ROWS, RADII, st.data())
def test_the_ball_equals_python_integers(rows: list[list[int]], radius: int, data: st.DataObject) -> None:
    terms = data.draw(st.integers(0, len(rows[0])))
    mapped = Ball(radius).apply(np.array(rows, dtype=np.int64), terms)
    assert mapped.tolist() == [shrink_in_python(row, terms, radius) for row in rows]


@given(ROWS, RADII)
def test_the_norm_is_at_most_the_radius(rows: list[list[int]], radius: int) -> None:
    for row in Ball(radius).apply(np.array(rows, dtype=np.int64), len(rows[0])).tolist():
        assert sum(z * z for z in row) <= radius**2


def test_the_norm_is_at_most_the_radius_for_every_row_of_a_small_lattice() -> None:
    rows = np.array(list(itertools.product(range(-9, 10), repeat=3)), dtype=np.int64)
    for radius in range(17):
        assert ((Ball(radius).apply(rows, 3) ** 2).sum(axis=1) <= radius**2).all()


@given(ROWS, RADII)
def test_the_ball_is_sign_symmetric(rows: list[list[int]], radius: int) -> None:
    array, ball = np.array(rows, dtype=np.int64), Ball(radius)
    assert (ball.apply(-array, array.shape[1]) == -ball.apply(array, array.shape[1])).all()


@given(ROWS, RADII)
def test_a_mapped_row_does_not_depend_on_its_batch(rows: list[list[int]], radius: int) -> None:
    array, ball = np.array(rows, dtype=np.int64), Ball(radius)
    alone = [ball.apply(array[k : k + 1], array.shape[1])[0].tolist() for k in range(len(array))]
    assert ball.apply(array, array.shape[1]).tolist() == alone


@given(ROWS, RADII)
def test_no_entry_grows(rows: list[list[int]], radius: int) -> None:
    array = np.array(rows, dtype=np.int64)
    assert (np.abs(Ball(radius).apply(array, 1)) <= np.abs(array)).all()


def test_zero_rows_stay_zero() -> None:
    assert Ball(0).apply(np.zeros((2, 3), dtype=np.int64), 2).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_a_target_shrinks_with_the_weight_of_its_row() -> None:
    ball = Ball.of_norm(0.5)
    (row,) = ball.apply(np.array([[UNIT, UNIT // 2, 0, UNIT // 2, UNIT]], dtype=np.int64), 3).tolist()
    assert row[3] == row[1]
    assert row[4] == row[0]


def test_a_target_does_not_change_the_weight() -> None:
    rows = np.array([[UNIT, UNIT, y] for y in (-UNIT, 0, UNIT)], dtype=np.int64)
    assert len({tuple(row[:2]) for row in Ball.of_norm(1.2).apply(rows, 2).tolist()}) == 1


def test_a_row_within_the_ball_is_unchanged() -> None:
    row = np.array([[3, 4, UNIT]], dtype=np.int64)
    assert Ball(5).apply(row, 2).tolist() == [[3, 4, UNIT]]


def test_the_input_is_not_changed() -> None:
    rows = np.array([[UNIT, UNIT]], dtype=np.int64)
    Ball(5).apply(rows, 2)
    assert rows.tolist() == [[UNIT, UNIT]]


def test_the_box_returns_the_rows() -> None:
    rows = np.array([[UNIT, -UNIT]], dtype=np.int64)
    assert Box().apply(rows, 2).tolist() == rows.tolist()


def test_the_radius_is_rounded_down_from_the_exact_float() -> None:
    assert Ball.of_norm(1.0).radius == UNIT
    assert Ball.of_norm(math.nextafter(1.0, 0.0)).radius == UNIT - 1
    assert Ball.of_norm(0.1).radius == UNIT // 10


@pytest.mark.parametrize("norm", [math.nan, math.inf, -math.inf, -1.0])
def test_a_norm_that_is_not_a_positive_number_is_refused(norm: float) -> None:
    with pytest.raises(ValueError, match="norm"):
        Ball.of_norm(norm)


def test_a_huge_radius_changes_nothing_and_does_not_overflow() -> None:
    rows = np.array([[UNIT] * 6], dtype=np.int64)
    assert Ball.of_norm(1e300).apply(rows, 6).tolist() == rows.tolist()


def test_many_terms_do_not_overflow() -> None:
    rows = np.full((2, 2000), UNIT, dtype=np.int64)
    mapped = Ball.of_norm(40.0).apply(rows, 2000).astype(object)
    assert (mapped**2).sum(axis=1).max() <= Ball.of_norm(40.0).radius ** 2


@given(st.integers(1, 2**26 - 1), st.integers(-1, 1))
def test_the_integer_root_is_exact_beside_squares(root: int, offset: int) -> None:
    value = root * root + offset
    assert _isqrt(np.array([value], dtype=np.int64))[0] == math.isqrt(value)


@given(st.integers(0, 2**52 - 1))
def test_the_integer_root_is_exact(value: int) -> None:
    assert _isqrt(np.array([value], dtype=np.int64))[0] == math.isqrt(value)
