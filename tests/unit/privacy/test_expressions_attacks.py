"""Attacks on what requests compute: hostile expressions, knots, names and row maps."""

import json
import math
import random
from fractions import Fraction
from typing import Any

import expressions_slowly as slowly
import numpy as np
import pytest

from audit.expressions import COLUMNS, sweep
from curator_service.kinds.features import read_feature, state_feature
from curator_service.kinds.gram import sensitivity
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.privacy import bases
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.bases import Spline, check_basis
from curator_service.privacy.design import Column, ColumnType, MissingRule, count_terms, feature_terms, make_design
from curator_service.privacy.expressions import DerivedColumn, ExpressionError, derive_column, evaluate, parse
from curator_service.privacy.expressions.tree import to_json
from curator_service.privacy.lattice import STORED_UNIT, center_and_scale
from curator_service.privacy.row_maps import Box, Unit, UnitXY
from curator_service.privacy.row_maps.base import RowMap


def test_no_random_feature_fails_exceeds_a_bound_or_depends_on_other_rows() -> None:
    found, accepted = sweep(2_000, seed=3, store=slowly.store)
    assert found == []
    assert accepted > 700


@pytest.mark.slow
def test_none_of_very_many_random_features_does() -> None:
    # From 4,000 on no further branch of the code is taken: see `python -m audit.expressions` for more of the same.
    found, accepted = sweep(5_000, seed=11, store=slowly.store)
    assert found == []
    assert accepted > 2_000


# --- bases ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("natural", [False, True])
@pytest.mark.parametrize(
    "feature",
    [["from_zero", [1e-50, 2e-50]], ["from_zero", [1e-50, 2e-50, 3.0]], ["from_zero", [3.0, math.nextafter(6, 0)]],
     ["plain", [math.nextafter(50, 51), 75.0]], ["plain", [75.0, 75.00000001]]],
)  # fmt: skip
def test_knots_that_are_one_place_are_refused(feature: list[Any], natural: bool) -> None:
    with pytest.raises(ExpressionError, match="a billionth of the range apart"):
        read_feature({"natural_spline" if natural else "spline": feature}, COLUMNS)


def draw_spline(rng: random.Random) -> tuple[Spline, float, float]:
    """Return a spline with knots next to each other and to bounds, and bounds of any size, or a few floats apart."""
    kind, power = rng.randrange(4), 10.0 ** rng.randint(-90, 90)
    lower = rng.choice([0.0, -0.1, 1 / 3, -1e-3, 1e16, -1e99])
    upper = lower + rng.choice([1, 0.3, 1e-3])
    if kind == 1:
        lower, upper = sorted((rng.choice([0.0, -1.0, 1.0]) * power, 10.0 ** rng.randint(-90, 90)))
    elif kind == 2:
        upper = lower
        for _ in range(rng.randint(2, 40)):
            upper = math.nextafter(upper, math.inf)
    span, knots = upper - lower, set()
    for _ in range(rng.randint(0, 6)):
        near = span * 10 ** -rng.uniform(0, 10)
        knots.add(rng.choice([rng.uniform(lower, upper), lower + near, upper - near, math.nextafter(lower, math.inf)]))
    knots |= {knot * (1 + 1e-8) for knot in list(knots)[:1]}
    natural = rng.random() < 0.4
    return Spline(tuple(sorted(knots)), 3 if natural else rng.randint(1, 5), natural), lower, upper


@pytest.mark.parametrize("unit", [1, 2, 7, 64])
def test_functions_of_any_knots_add_up_to_one_at_most(unit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "UNIT", unit)
    monkeypatch.setattr(bases, "_POINTS", np.arange(-unit, unit + 1) / unit)
    rng, tried = random.Random(unit), 0
    for _ in range(3000):
        basis, lower, upper = draw_spline(rng)
        try:
            scaling = center_and_scale(lower, upper)
            check_basis(basis, lower, upper)
        except ValueError:
            continue
        tried += 1
        table = basis.tabulate(*scaling)
        assert len(table) == basis.size
        assert table.min() >= 0
        assert unit - len(table) - 1 <= table.sum(axis=0).min() <= table.sum(axis=0).max() <= unit
        assert (table > 0).sum(axis=0).max() <= basis.support
    assert tried > 500


def test_a_table_that_exceeds_its_bound_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    basis = Spline((70.0, 80.000001))
    wrong = basis.tabulate(75.0, 25.0)
    wrong[0, 5] += 9
    monkeypatch.setattr(Spline, "tabulate", lambda *_: wrong)
    with pytest.raises(AssertionError, match="exceeds its bound"):
        bases.tabulate(basis, 75.0, 25.0)


# --- sensitivity ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", list(Adjacency), ids=str)
@pytest.mark.parametrize("row_map", [Box(), Unit(), UnitXY()], ids=lambda row_map: type(row_map).__name__)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "asked",
    [
        [{"spline": ["around", [0.0], 1]}],
        [{"spline": ["around", []]}],
        [{"natural_spline": ["around", [-1.0, 0.5]]}, "sex"],
        [{"interaction": [{"spline": ["around", [0.0]]}, {"spline": ["from_zero", [2, 3]]}]}],
        [{"interaction": ["sex", {"spline": ["around", [], 2]}]}, "sure"],
    ],
)
def test_no_row_moves_xty_further_than_its_bound_in_l1(
    asked: list[Any], intercept: bool, row_map: RowMap, adjacency: Adjacency
) -> None:
    features = tuple(read_feature(value, COLUMNS) for value in asked)
    design = make_design(features, (COLUMNS["plain"],), intercept=intercept)
    kernel, rng = GramKernel(design, row_map), np.random.default_rng(5)
    stored = {name: rng.integers(-STORED_UNIT, STORED_UNIT, 20_000).astype(np.int32) for name in kernel.columns}
    stored |= {name: rng.integers(0, 3, 20_000).astype(np.int32) for name in {"sex", "sure"} & stored.keys()}
    stored["plain"] = np.where(rng.random(20_000) < 0.5, STORED_UNIT, -STORED_UNIT).astype(np.int32)
    rows = np.empty((20_000, kernel.width), order="F")
    kernel.map(stored, np.ones(20_000, np.bool_), rows)
    moved = np.abs(rows[:, :-1] * rows[:, -1:]).sum(axis=1).max() * (1 + (adjacency is Adjacency.REPLACE_ONE))
    bound = sensitivity.xty_l1(row_map.norm_squared(design), design.supports, adjacency, lengthens=row_map.lengthens)
    assert Fraction(float(moved)) <= bound


# --- bounds -----------------------------------------------------------------------------------------------------------

FAR = [{"add": ["plain", i * 1e99]} for i in range(1, 6)]
BOUNDLESS = [
    {"power": [{"add": ["plain", 1e99]}, 9]},
    {"power": ["large", 9]},
    {"add": ["plain", {"power": [1e99, 9]}]},
    {"multiply": [*FAR, {"sqrt": ["from_zero"]}]},
    {"minimum": ["plain", {"multiply": [*FAR, {"sqrt": ["from_zero"]}]}]},
    {"less": [{"multiply": [*FAR, {"sqrt": ["from_zero"]}]}, 3]},
    {"less": ["larger", 3]},
    {"absolute": ["larger"]},
]


@pytest.mark.parametrize("value", BOUNDLESS)
def test_what_may_be_beyond_a_float_is_refused(value: object) -> None:
    with pytest.raises(ExpressionError, match=r"too large|above 1e\+100"):
        parse(value, COLUMNS)


# --- canonical forms --------------------------------------------------------------------------------------------------


def test_what_is_left_of_sums_is_one_sum() -> None:
    both = {"add": ["plain", "from_zero"]}
    value = {"add": [{"multiply": [2, both]}, {"multiply": [-1, both]}, "around"]}
    assert parse(value, COLUMNS) == parse({"add": ["plain", "from_zero", "around"]}, COLUMNS)
    assert parse({"add": [*value["add"], {"negate": [both]}]}, COLUMNS) == parse("around", COLUMNS)


def nested(depth: int) -> Any:
    value: Any = "plain"
    for _ in range(depth):
        value = {"absolute": [{"subtract": ["around", value]}]}
    return value


def parts(low: float, count: int) -> list[Any]:
    return [{"minimum": ["from_zero", low + i / 100]} for i in range(count)]


BEYOND = [
    (nested(14), "nested at most"),
    ({"add": [{"add": parts(1, 30)}, {"add": parts(2, 30)}]}, "2 to 50 arguments"),
    ({"cut": ["from_zero", [i * 6 / 1001 for i in range(1, 1001)]]}, "1 to 1000 numbers"),
    ({"cut": [{"exp": [{"multiply": [100, {"subtract": ["around", 0]}]}]}, [1]]}, "at least 1e-100"),
]


@pytest.mark.parametrize(("value", "rule"), BEYOND)
def test_what_could_not_be_read_again_from_an_answer_is_refused(value: object, rule: str) -> None:
    with pytest.raises(ExpressionError, match=f"canonical form.*{rule}"):
        parse(value, COLUMNS)


@pytest.mark.parametrize("size", [4, 5])
def test_a_product_of_numbers_is_no_other_number(size: int) -> None:
    """Too small for a float is not 0, and 0 times what is too large is."""
    with pytest.raises(ExpressionError, match="below 1e-100"):
        parse({"add": ["plain", {"multiply": [*[1e-100] * size, *[1e100] * size, "around"]}]}, COLUMNS)
    assert parse({"add": ["plain", {"multiply": [*[-1e100] * size, 0, "around"]}]}, COLUMNS) == parse("plain", COLUMNS)


NUMBERS = [(0.0, -0.0), (1e22, 10**22), (2**53, float(2**53)), (1, 1.0), (0.1, 0.1), (1e16, 10**16)]


@pytest.mark.parametrize(("one", "other"), NUMBERS)
def test_one_number_is_one_expression_however_it_is_written(one: float, other: float) -> None:
    trees = [parse({"less": ["awkward", {"add": ["from_zero", value]}]}, COLUMNS) for value in (one, other)]
    assert trees[0] == trees[1]
    assert json.dumps(to_json(trees[0])) == json.dumps(to_json(trees[1]))


def test_numbers_of_different_floats_are_different_columns() -> None:
    values = [0.1, math.nextafter(0.1, 1), 1e22, math.nextafter(1e22, 0), 1e16, 1e16 + 2]
    columns = {derive_column(parse({"maximum": ["large", value]}, COLUMNS)).name for value in values}
    assert len(columns) == len(values)


def test_levels_of_any_text_do_not_make_one_name_of_two_columns() -> None:
    levels = ("a", 'a", "b', "b", "a, b", "]", '"', "\\", '\\"', "x:y", "é", "e\u0301", "A", "", "1", "1.0", "a)")
    odd = Column("odd", ColumnType.CATEGORICAL, MissingRule.COMPLETE, levels=levels)
    declared = {**COLUMNS, "odd": odd}
    values = [
        *({"in": ["odd", [one]]} for one in levels),
        *({"in": ["odd", [one, other]]} for i, one in enumerate(levels) for other in levels[i + 1 :]),
        *({"reference": ["odd", one]} for one in levels[1:]),
        *({"interaction": ["plain", {"reference": ["odd", one]}]} for one in levels[1:]),
        *({"interaction": ["plain", {"in": ["odd", [one]]}]} for one in levels),
    ]
    features = [read_feature(value, declared) for value in values]
    assert len({feature.name for feature in features}) == len(features) == len(set(features))
    for feature in features:
        assert read_feature(json.loads(json.dumps(state_feature(feature))), declared) == feature
    design = make_design((*features[:40], odd), (), intercept=False)
    assert len({term.name for term in design.terms}) == len(design.terms)


def test_a_column_whose_name_looks_like_a_word_is_itself() -> None:
    names = ["add", "spline", "missing", "in", "nan", "inf", "true", "e5", "plain.in", "a-b", "log_x"]
    declared = {name: Column(name, ColumnType.NUMERIC, MissingRule.COMPLETE, 1.0, 2.0) for name in names}
    values = [*names, *({"log": [name]} for name in names), *({"add": ["add", name]} for name in names)]
    columns = [read_feature(value, declared) for value in values]
    assert len({column.name for column in columns}) == len(columns)
    assert not isinstance(columns[0], DerivedColumn)


# --- size -------------------------------------------------------------------------------------------------------------


def test_terms_are_counted_without_being_made() -> None:
    thousand = [i / 200 for i in range(1, 990)]
    for value in ("sex", "odd", "around", {"spline": ["around", [0]]}, {"interaction": ["sex", "odd", "around"]}):
        for drop in (True, False):
            feature = read_feature(value, COLUMNS)
            assert count_terms(feature, drop_first_level=drop) == len(feature_terms(feature, drop_first_level=drop))
    cuts = [{"cut": [{"multiply": [i, "from_zero"]}, thousand]} for i in range(1, 5)]
    assert count_terms(read_feature({"interaction": cuts}, COLUMNS), drop_first_level=False) == 990**4


def test_the_largest_bodies_are_refused_by_a_bounded_number_of_steps() -> None:
    # Steps, not seconds: how often bounds are asked for of what 64 KiB can hold.
    value: Any = "plain"
    for d in range(14):
        one, other = ({"absolute": [{"subtract": ["from_zero", d * 100 + i]}]} for i in (0.25, 0.75))
        value = {
            "add": [{"absolute": [value]}, *[{"multiply": [one, other, {"minimum": ["around", i]}]} for i in range(30)]]
        }
    assert len(json.dumps(value)) < 64 * 1024
    evaluate.bounds_of.cache_clear()
    with pytest.raises(ExpressionError):
        parse(value, COLUMNS)
    assert evaluate.bounds_of.cache_info().misses < 20_000
