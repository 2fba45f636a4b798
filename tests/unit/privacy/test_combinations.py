"""Combinations of terms are what Python's integers say, in every batch, order and memory layout."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.privacy.combinations import BITS_MAX, LONGEST, WEIGHTS_MAX, Combinations, check_weights
from curator_service.privacy.design import Column, ColumnType, code_rows, combine_terms, make_design
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT
from curator_service.privacy.row_maps import make_row_map

ENTRIES = st.one_of(st.integers(-UNIT, UNIT), st.sampled_from([UNIT, -UNIT, 0]))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[int]], Combinations]:
    """Draw coded rows, and weights as large as are accepted."""
    terms, count = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    most = draw(st.sampled_from([3, 2**10, 2**24, WEIGHTS_MAX // terms]))
    weights = tuple(tuple(draw(st.integers(-most, most)) for _ in range(count)) for _ in range(terms))
    rows = draw(st.lists(st.lists(ENTRIES, min_size=terms, max_size=terms), min_size=1, max_size=6))
    return rows, Combinations(weights, draw(st.integers(0, BITS_MAX)))


def combine_in_python(row: list[int], combinations: Combinations) -> list[int]:
    columns = zip(*combinations.weights, strict=True)
    sums = [sum(w * z for w, z in zip(column, row, strict=True)) for column in columns]
    return [max(-LONGEST, min(LONGEST, round(Fraction(one, 2**combinations.bits)))) for one in sums]


@given(cases())
def test_they_equal_python_integers(case: tuple[list[list[int]], Combinations]) -> None:
    rows, combinations = case
    expected = [combine_in_python(row, combinations) for row in rows]
    for terms in (np.array(rows, dtype=np.float64), np.asfortranarray(np.array(rows, dtype=np.float64))):
        assert combinations.round(terms).tolist() == expected


def test_a_tie_is_rounded_to_the_even_integer() -> None:
    halves = Combinations(((1,),), 1)
    assert halves.round(np.array([[1.0], [3.0], [-1.0], [-3.0], [5.0]])).ravel().tolist() == [0, 2, 0, -2, 2]


def test_the_largest_sums_are_exact() -> None:
    terms = 1000
    each = WEIGHTS_MAX // terms
    combinations = Combinations(tuple((each, -each + (j % 2)) for j in range(terms)), 0)
    rows = np.full((3, terms), float(UNIT))
    rows[1] *= -1
    assert combinations.sums(rows).astype(int).tolist() == [
        [sum(w[k] * int(z) for w, z in zip(combinations.weights, row, strict=True)) for k in range(2)] for row in rows
    ]


def test_a_row_is_combined_alone_as_in_any_batch() -> None:
    generator = np.random.default_rng(7)
    columns = tuple(Column(f"x{j}", ColumnType.NUMERIC, lower=-1.0, upper=1.0) for j in range(6))
    design = make_design(columns[:5], columns[5:], intercept=True)
    weights = tuple(tuple(int(w) for w in row) for row in generator.integers(-(2**30), 2**30, (6, 9)))
    combined = combine_terms(design, Combinations(weights, 30))
    stored = {c.name: generator.integers(-STORED_UNIT, STORED_UNIT, 3000).astype(np.int32) for c in columns}
    stored["x3"][5::7] = MISSING
    stored["x1"][::100] = 2**31 - 1
    row_map = make_row_map({"map": "linear"})
    whole = row_map.apply(code_rows(stored, combined, 3000), combined)
    assert np.sum(whole[:, :9] ** 2, axis=1).max() <= UNIT**2
    assert np.abs(whole).max() <= UNIT
    assert not whole[5::7].any()  # they miss a value, and count for nothing
    for start, stop in ((0, 1), (17, 18), (100, 1133), (2999, 3000)):
        part = code_rows({name: values[start:stop] for name, values in stored.items()}, combined, stop - start)
        assert np.array_equal(row_map.apply(part, combined), whole[start:stop])


@pytest.mark.parametrize("count", [1, 1000])
def test_no_row_is_longer_than_one_whatever_the_weights(count: int) -> None:
    column = Column("x", ColumnType.NUMERIC, lower=-1.0, upper=1.0)
    design = make_design((column,), (), intercept=True)
    row_map = make_row_map({"map": "linear"})
    stored = {"x": np.array([STORED_UNIT, -STORED_UNIT, 1, 0, STORED_UNIT // 3], dtype=np.int32)}
    for weight in (1, 2**8, 2**20, WEIGHTS_MAX // 2):
        combined = combine_terms(design, Combinations(((weight,) * count, (weight - 1,) * count), 3))
        rows = row_map.apply(code_rows(stored, combined, 5), combined)
        assert all(sum(int(v) ** 2 for v in row) <= UNIT**2 for row in rows.tolist())


@pytest.mark.parametrize(
    ("weights", "rule"),
    [
        ([[1, WEIGHTS_MAX], [0, -1]], "combination 2 add up"),
        ([[1, 0], [0, 0]], "combination 2 are all 0"),
        ([[WEIGHTS_MAX, 1]], ""),
    ],
)
def test_weights_that_cannot_be_summed_exactly_are_told(weights: list[list[int]], rule: str) -> None:
    told = check_weights(weights)
    assert rule in (told or "")
    assert bool(told) is bool(rule)
