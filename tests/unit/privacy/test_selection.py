"""Conditions and weights: what a row becomes that a request selects or weighs, in both kinds."""

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rows_on_disk import map_rows
from sums_slowly import rows_of, sum_slowly

from curator_service.datasets.batches import MARK
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.tables import Axis, Table
from curator_service.kinds.features import read_column, read_feature, read_selection
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.privacy.design import Column, ColumnType, MissingRule, make_design
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY

DECLARED = {
    column.name: column
    for column in (
        Column("x", ColumnType.NUMERIC, MissingRule.MIDPOINT, -1.0, 1.0),
        Column("y", ColumnType.NUMERIC, MissingRule.INDICATOR, -1.0, 1.0),
        Column("w", ColumnType.NUMERIC, MissingRule.MIDPOINT, 0.0, 1.0),
        Column("level", ColumnType.CATEGORICAL, MissingRule.INDICATOR, levels=("a", "b", "c")),
    )
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("x", "y", "w"), st.sampled_from([MISSING, 0, 1]) | st.integers(-STORED_UNIT, STORED_UNIT)),
            "level": st.sampled_from([MISSING, -1, 0, 1, 2, 3]),
            MARK: st.sampled_from([0, 1, 1, 2]),
        }
    ),
    min_size=1,
    max_size=15,
)
CONDITIONS = [None, {"less": ["x", "y"]}, {"or": [{"missing": ["w"]}, {"in": ["level", ["b"]]}]}]
WEIGHTS = [None, "w", {"absolute": ["x"]}, {"multiply": ["w", "w"]}]
MAPS: list[RowMap] = [Box(), Ball.of_norm(0.7), Unit(), UnitXY()]
FEATURES = [{"interaction": ["level", {"polynomial": ["x", 2]}]}, {"spline": ["y", [0.0]]}, "x"]


def gram(row_map: RowMap, *, features: Any = ("x",), where: Any = None, weight: Any = None) -> GramKernel:
    design = make_design(tuple(read_feature(f, DECLARED) for f in features), (DECLARED["y"],), intercept=False)
    return GramKernel(design, row_map, read_selection(where, weight, DECLARED))


def counts(column: Any, edges: tuple[float, ...] | None, *, where: Any = None, weight: Any = None) -> CountsKernel:
    tables = (Table((Axis(read_column(column, DECLARED), edges, True), Axis(DECLARED["level"], None, False))),)
    return CountsKernel(tables, read_selection(where, weight, DECLARED))


def sums(kernel: Any, rows: list[dict[str, int]]) -> list[int]:
    stored = {name: np.array([row[name] for row in rows], np.int32) for name in rows[0]}
    mapped = np.empty((len(rows), kernel.width), order="F")
    kernel.map(stored, stored[MARK] == 1, mapped)
    return [int(value) for value in kernel.sum(mapped).ravel()]


@given(ROWS, st.sampled_from(MAPS), st.sampled_from(CONDITIONS), st.sampled_from(WEIGHTS))
def test_grams_are_those_of_the_slow_program(rows: list[Any], row_map: RowMap, where: Any, weight: Any) -> None:
    kernel = gram(row_map, features=FEATURES, where=where, weight=weight)
    assert sums(kernel, rows) == sum_slowly(kernel, rows)


@given(ROWS, st.sampled_from(CONDITIONS), st.sampled_from(WEIGHTS))
def test_counts_are_those_of_the_slow_program(rows: list[Any], where: Any, weight: Any) -> None:
    for column, edges in (({"add": ["x", "w"]}, (-1.0, 0.5, 2.0)), ({"cut": ["y", [-0.5, 0.1]]}, None)):
        kernel = counts(column, edges, where=where, weight=weight)
        assert sums(kernel, rows) == sum_slowly(kernel, rows)


WHOLE, HALF, NOTHING = STORED_UNIT, 0, -STORED_UNIT
"""Stored weights."""


def mapped(kernel: Any, **stored: list[int]) -> list[list[float]]:
    columns = {name: np.array(values, np.int32) for name, values in stored.items()}
    return map_rows(kernel, columns, len(next(iter(stored.values())))).tolist()


def test_only_rows_in_which_a_condition_is_true_count() -> None:
    where = {"less": ["w", 0.5]}
    stored = {"x": [STORED_UNIT] * 4, "y": [STORED_UNIT] * 4, "w": [WHOLE, HALF, NOTHING, MISSING]}
    found = mapped(gram(Box(), where=where), **stored)
    assert found == [[0, 0], [0, 0], [UNIT, UNIT], [0, 0]]
    kernel = counts("x", (-1.0, 1.0), where=where)
    rows = rows_of(stored | {"level": [0] * 4, MARK: [1] * 4})
    assert sum(sums(kernel, [dict(row) for row in rows])) == UNIT**2


def test_a_row_without_its_weight_does_not_count() -> None:
    """Not even for the least that a weight may be."""
    stored, weight = {"x": [STORED_UNIT] * 2, "y": [STORED_UNIT] * 2, "w": [WHOLE, MISSING]}, {"maximum": ["w", 0.5]}
    assert mapped(gram(Box(), weight=weight), **stored) == [[UNIT, UNIT], [0, 0]]
    rows = rows_of(stored | {"level": [0] * 2, MARK: [1] * 2})
    assert sum(sums(counts("x", (-1.0, 1.0), weight=weight), [dict(row) for row in rows])) == UNIT**2


def test_a_row_is_weighed_after_it_was_mapped() -> None:
    """Before it, a row over its norm would not have been weighed at all."""
    stored = {"x": [STORED_UNIT], "y": [STORED_UNIT], "w": [HALF]}
    root = math.trunc((UNIT - 1) * math.sqrt(0.5))  # the map's own rounding leaves q − 1
    assert mapped(gram(Unit(), weight="w"), **stored) == [[root, math.trunc(UNIT * math.sqrt(0.5))]]


def test_a_row_is_multiplied_by_the_root_of_its_weight() -> None:
    stored = {"x": [STORED_UNIT], "y": [-STORED_UNIT], "w": [-STORED_UNIT // 2]}
    assert mapped(gram(Box(), weight="w"), **stored) == [[UNIT // 2, -(UNIT // 2)]]


def test_weighed_rows_are_integers_and_rounded_towards_zero() -> None:
    stored = {"x": [STORED_UNIT, -STORED_UNIT], "y": [0, 0], "w": [HALF, HALF]}
    root = math.isqrt(UNIT**2 // 2)
    assert mapped(gram(Box(), weight="w"), **stored) == [[root, 0], [-root, 0]]


def test_weighed_counts_are_integers_and_rounded_down() -> None:
    stored = {"x": [0, 0, 0], "level": [0, 0, 0], "w": [HALF, HALF, WHOLE]}
    assert [row[-1] for row in mapped(counts("x", (-1.0, 1.0), weight="w"), **stored)] == [
        UNIT**2 // 2,
        UNIT**2 // 2,
        UNIT**2,
    ]


def test_products_are_integers_and_rounded_towards_zero() -> None:
    kernel = gram(Box(), features=[{"interaction": ["x", "w"]}])
    fifth = STORED_UNIT // 5
    stored = {"x": [fifth, -fifth], "w": [fifth] * 2, "y": [0, 0]}
    one = round(fifth * UNIT / STORED_UNIT)
    size = one * one // UNIT
    assert mapped(kernel, **stored) == [[size, 0], [-size, 0]]
    assert one * one % UNIT > 0.5 * UNIT  # the nearest integer is another
