"""Expressions: one tree for what is equal, bounds that hold for every row, and the same integers in every batch."""

import json
import math
import random
from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import expressions_slowly as slowly
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from curator_service.kinds.features import read_feature, state_feature
from curator_service.privacy.bases import Polynomial, Spline, tabulate
from curator_service.privacy.design import Column, ColumnType, Design, MissingRule, TermKind, code_rows, make_design
from curator_service.privacy.expressions import DerivedColumn, ExpressionError, derive_column, elementary, parse
from curator_service.privacy.expressions.evaluate import bounds_of, evaluate
from curator_service.privacy.expressions.tree import to_json
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT, StoredArray, to_stored

DECLARED: Mapping[str, Column] = {
    column.name: column
    for column in (
        Column("age", ColumnType.NUMERIC, MissingRule.COMPLETE, 50.0, 100.0),
        Column("kappa", ColumnType.NUMERIC, MissingRule.OMIT, 0.0, 6.0),
        Column("tiny", ColumnType.NUMERIC, MissingRule.MIDPOINT, 1e-20, 1.0),
        Column("change", ColumnType.NUMERIC, MissingRule.INDICATOR, -3.0, 2.0),
        Column("sex", ColumnType.CATEGORICAL, MissingRule.COMPLETE, levels=("F", "M", "X")),
        Column("stage", ColumnType.CATEGORICAL, MissingRule.INDICATOR, levels=("I", "II")),
        Column("frail", ColumnType.BOOLEAN, MissingRule.OMIT, levels=("no", "yes")),
    )
}
HOSTILE = [
    MISSING, MISSING + 1, -STORED_UNIT - 1, -STORED_UNIT, 1 - STORED_UNIT, -1, 0, 1, 2, 3, 4096, 4097, STORED_UNIT - 1,
    STORED_UNIT, STORED_UNIT + 1, 2**31 - 1,
]  # fmt: skip
SEEDS = st.integers(0, 2**32 - 1)


def rows_between(least: int, most: int) -> st.SearchStrategy[list[dict[str, int]]]:
    """Return a strategy of rows, hostile ones for the most part; each number that Hypothesis drew would take longer."""

    def draw(seed: int, count: int) -> list[dict[str, int]]:
        rng = random.Random(seed)
        kinds = [HOSTILE if rng.random() < 0.6 else range(MISSING, 2**31) for _ in range(count * len(DECLARED))]
        numbers = iter([rng.choice(kind) for kind in kinds])
        return [{name: next(numbers) for name in DECLARED} for _ in range(count)]

    return st.builds(draw, SEEDS, st.integers(least, most))


NUMBERS = st.sampled_from(["age", "kappa", "tiny", "change"])
CONSTANTS = st.sampled_from([0, 1, 2, -1, 0.5, 60, 75.0, 3.3, -1e-3, 1e6])
LEVELS = st.sampled_from(
    [
        {"in": ["sex", ["F"]]},
        {"in": ["sex", ["M", "X"]]},
        {"in": [{"cut": ["age", [60, 75]]}, ["60 to 75"]]},
        {"in": [{"reference": ["sex", "M"]}, ["X", "M"]]},
        {"in": ["stage", ["II"]]},
    ]
)


def _calls(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3)
    truths = st.one_of(LEVELS, st.just("frail"), inner.filter(lambda e: isinstance(e, dict) and {*e} & TRUTHS))
    return st.one_of(
        st.builds(lambda op, args: {op: args}, st.sampled_from(["add", "multiply", "minimum", "maximum"]), several),
        st.builds(lambda op, a, b: {op: [a, b]}, st.sampled_from(["subtract", "divide", *COMPARISONS]), inner, inner),
        st.builds(lambda op, a: {op: [a]}, st.sampled_from(["absolute", "negate", "log", "exp", "sqrt"]), inner),
        st.builds(lambda a, k: {"power": [a, k]}, inner, st.integers(1, 4)),
        st.builds(
            lambda op, args: {op: args}, st.sampled_from(["and", "or"]), st.lists(truths, min_size=2, max_size=3)
        ),
        st.builds(lambda a: {"not": [a]}, truths),
        st.builds(lambda a: {"missing": [a]}, st.sampled_from(list(DECLARED))),
    )


COMPARISONS = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
TRUTHS = {*COMPARISONS, "and", "or", "not", "missing", "in", "between"}
EXPRESSIONS = st.recursive(st.one_of(NUMBERS, CONSTANTS, LEVELS, st.just("frail")), _calls, max_leaves=8)


def derive(value: object) -> Column:
    try:
        return derive_column(parse(value, DECLARED))
    except ExpressionError:
        assume(False)
        raise


def arrays(rows: list[Mapping[str, int]]) -> dict[str, StoredArray]:
    return {name: np.array([row[name] for row in rows], dtype=np.int32) for name in DECLARED}


# --- one tree for what is equal ---------------------------------------------------------------------------------------


@given(EXPRESSIONS)
@settings(max_examples=300)
def test_a_canonical_expression_is_canonical(value: object) -> None:
    column = derive(value)
    if isinstance(column, DerivedColumn):
        again = parse(to_json(column.expression), DECLARED)
        assert again == column.expression
        assert derive_column(again) == column


@pytest.mark.parametrize("operator", ["add", "multiply", "minimum", "maximum"])
def test_the_order_and_the_grouping_of_arguments_mean_nothing(operator: str) -> None:
    parts = ["age", {"log": [{"add": ["kappa", 1]}]}, 2.5]
    found = {parse({operator: list(order)}, DECLARED) for order in permutations(parts)}
    found |= {parse({operator: [{operator: list(order[:2])}, order[2]]}, DECLARED) for order in permutations(parts)}
    assert len(found) == 1


SAME: list[tuple[object, object]] = [
    ({"subtract": ["age", "kappa"]}, {"add": ["age", {"multiply": [-1, "kappa"]}]}),
    ({"add": ["age", "age"]}, {"multiply": [2, "age"]}),
    ({"add": ["age", "kappa", {"negate": ["kappa"]}]}, "age"),
    ({"multiply": ["age", "age", "age"]}, {"power": ["age", 3]}),
    ({"power": [{"power": ["age", 2]}, 2]}, {"power": ["age", 4]}),
    ({"multiply": ["age", 1]}, "age"),
    ({"greater": ["age", 60]}, {"less": [60, "age"]}),
    ({"not": [{"greater": ["age", 60]}]}, {"less_equal": ["age", 60]}),
    ({"not": [{"not": ["frail"]}]}, "frail"),
    ({"between": ["age", 60, 70]}, {"and": [{"greater_equal": ["age", 60]}, {"less_equal": ["age", 70]}]}),
    ({"in": ["sex", ["X", "F", "F"]]}, {"in": ["sex", ["F", "X"]]}),
    ({"in": ["frail", ["yes"]]}, "frail"),
    ({"in": ["frail", ["no"]]}, {"not": ["frail"]}),
    ({"and": ["frail", {"and": ["frail", {"less": ["age", 60]}]}]}, {"and": [{"less": ["age", 60]}, "frail"]}),
    ({"cut": ["age", [60, 70]]}, {"cut": ["age", [50, 60, 70, 100]]}),
    ({"reference": ["sex", "F"]}, "sex"),
    ({"add": [{"multiply": [2, 3]}, "age"]}, {"add": [6, "age"]}),
    ({"divide": ["age", 4]}, {"multiply": [0.25, "age"]}),
    ({"not": [{"and": ["frail", {"less": ["age", 60]}]}]}, {"or": [{"not": ["frail"]}, {"less_equal": [60, "age"]}]}),
    ({"not": [{"in": ["sex", ["F"]]}]}, {"in": ["sex", ["M", "X"]]}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_expressions_are_one_tree(one: object, other: object) -> None:
    assert parse(one, DECLARED) == parse(other, DECLARED)


def is_number(value: Any) -> bool:
    return not any(f'"{name}"' in json.dumps(value) for name in DECLARED)


def rewrite(value: Any, rng: random.Random) -> Any:
    """Return an expression that is written otherwise, by laws of arithmetic and logic, and means the same."""
    if not isinstance(value, dict):
        return value
    ((operator, arguments),) = value.items()
    arguments = [argument if isinstance(argument, list) else rewrite(argument, rng) for argument in arguments]
    first, rest = arguments[0], arguments[1:]
    plain = {operator: arguments}
    match operator:
        case "add" | "multiply" | "minimum" | "maximum" | "and" | "or":
            shuffled = rng.sample(arguments, len(arguments))
            ways = [{operator: shuffled}]
            if len(rest) > 1 and sum(is_number(part) for part in arguments) < 2:  # sums of numbers round
                ways.append({operator: [shuffled[0], {operator: shuffled[1:]}]})
            if operator in {"and", "or"}:
                dual = {"and": "or", "or": "and"}[operator]
                ways.append({"not": [{dual: [{"not": [argument]} for argument in shuffled]}]})
        case "subtract":
            ways = [{"add": [{"negate": rest}, first]}]
        case "divide" if rest == [2]:
            ways = [{"multiply": [0.5, first]}]
        case "negate":
            ways = [{"multiply": [first, -1]}]
        case "power":
            ways = [{"multiply": [first] * rest[0]}] if rest[0] > 1 else [first]
        case "less" | "less_equal" | "greater" | "greater_equal":
            swapped = {"less": "greater", "greater": "less", "less_equal": "greater_equal"}
            turned = {"less": "greater_equal", "greater": "less_equal", "less_equal": "greater"}
            ways = [
                {swapped.get(operator, "less_equal"): arguments[::-1]},
                {"not": [{turned.get(operator, "less"): arguments}]},
            ]
        case "equal" | "not_equal":
            other = {"equal": "not_equal", "not_equal": "equal"}[operator]
            ways = [{operator: arguments[::-1]}, {"not": [{other: arguments}]}]
        case "in" if first == "sex":
            ways = [{"in": ["sex", rest[0][::-1]]}]
            left = [level for level in DECLARED["sex"].levels if level not in rest[0]]
            ways += [{"not": [{"in": ["sex", left]}]}] if left else []
        case "not":
            ways = [{"not": [{"not": [plain]}]}]
        case _:
            ways = []
    return rng.choice([plain, *ways])


@given(EXPRESSIONS, SEEDS.map(random.Random))
@settings(max_examples=700)
def test_what_is_written_otherwise_is_one_tree(value: object, rng: random.Random) -> None:
    column = derive(value)
    assert derive(rewrite(value, rng)) == column


@given(EXPRESSIONS, EXPRESSIONS)
@settings(max_examples=300)
def test_different_expressions_have_different_names(one: object, other: object) -> None:
    columns = derive(one), derive(other)
    assert (columns[0].name == columns[1].name) == (columns[0] == columns[1])


def test_the_order_of_factors_means_nothing() -> None:
    values = [{"interaction": list(order)} for order in permutations(["sex", "age", {"polynomial": ["kappa", 2]}])]
    features = [read_feature(value, DECLARED) for value in values]
    assert len(set(features)) == 1
    assert read_feature(state_feature(features[0]), DECLARED) == features[0]


# --- what is refused --------------------------------------------------------------------------------------------------

REFUSED: list[tuple[object, tuple[str | int, ...], str]] = [
    ("nobody", (), "declares no column"),
    ({"log": ["kappa"]}, ("log",), "above 0"),
    ({"sqrt": ["change"]}, ("sqrt",), "not below 0"),
    ({"divide": ["age", "kappa"]}, ("divide",), "may be 0"),
    ({"exp": [{"multiply": ["age", "age"]}]}, ("exp",), "Divide it first"),
    ({"add": ["age", "sex"]}, ("add", 1), "no number"),
    ({"add": ["age"]}, ("add",), "2 to 50 arguments"),
    ({"and": ["age", "frail"]}, ("and", 0), "a condition is asked for"),
    ({"nonsense": ["age"]}, ("nonsense",), "there are absolute, add"),
    ({"power": ["age", 2.5]}, ("power", 1), "whole number"),
    ({"power": [{"power": ["age", 5]}, 5]}, ("power",), "powers are at most 9"),
    ({"in": ["sex", ["Q"]]}, ("in", 1), "F, M, X"),
    ({"in": ["age", ["Q"]]}, ("in", 0), "a category is asked for"),
    ({"cut": ["age", [40]]}, ("cut", 1), "between the bounds, 50 and 100"),
    ({"add": ["age", 1e300]}, ("add", 1), "at most 1e+100"),
    ({"add": ["age", 10**400]}, ("add", 1), "at most 1e+100"),
    ({"add": ["age", math.nan]}, ("add", 1), "finite"),
    ({"add": ["age", True]}, ("add", 1), "an expression is"),
    ({"less": [1, 2]}, ("less",), "same for every row"),
    ({"add": "age"}, ("add",), "a list"),
    ({"add": ["age", 1], "log": ["age"]}, (), "one member"),
    ({"multiply": [{"power": [{"power": ["age", 9]}, 1]}] * 40}, ("multiply",), "at most 9"),
]


@pytest.mark.parametrize(("value", "place", "rule"), REFUSED)
def test_what_means_nothing_is_refused_at_its_place(value: object, place: tuple[str | int, ...], rule: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        derive_column(parse(value, DECLARED))
    assert caught.value.place == place
    assert rule in caught.value.rule


@pytest.mark.parametrize("value", [3, {"subtract": ["age", "age"]}, {"multiply": ["age", 0]}])
def test_what_is_the_same_for_every_row_is_no_feature(value: object) -> None:
    with pytest.raises(ExpressionError, match="same for every row"):
        derive_column(parse(value, DECLARED))


def test_deep_and_long_expressions_are_refused() -> None:
    deep: Any = "age"
    for _ in range(100):
        deep = {"absolute": [{"add": [deep, "kappa"]}]}
    long = {"add": [{"multiply": ["age", {"log": [{"add": ["kappa", i + 1]}]}]} for i in range(50)]}
    for value, rule in ((deep, "nested at most"), (long, "has at most")):
        with pytest.raises(ExpressionError, match=rule):
            parse(value, DECLARED)


# --- what a row becomes -----------------------------------------------------------------------------------------------


FEATURES = st.one_of(
    EXPRESSIONS,
    st.builds(lambda x, d: {"polynomial": [x, d]}, NUMBERS, st.integers(2, 6)),
    st.just({"spline": ["age", [60, 70, 85]]}),
    st.just({"spline": ["change", [-1, 0], 2]}),
    st.just({"natural_spline": ["kappa", [1, 2.5]]}),
    st.just({"natural_spline": ["tiny", [0.3]]}),
    st.just({"cut": ["age", [60, 70, 80]]}),
    st.sampled_from(["sex", "stage"]),
)
TERMS = st.one_of(FEATURES, st.builds(lambda fs: {"interaction": fs}, st.lists(FEATURES, min_size=2, max_size=3)))


@given(st.lists(TERMS, min_size=1, max_size=3), rows_between(1, 12))
@settings(max_examples=400)
def test_every_row_has_the_integers_of_the_slow_program(values: list[object], rows: list[dict[str, int]]) -> None:
    design = make(values, intercept=True)
    coded = code_rows(arrays(rows), design, len(rows))
    sources = {column.name: column for column in design.sources}
    for row, found in zip(rows, coded, strict=True):
        is_out = any(slowly.store(sources[name], row) == MISSING for name in design.omitting)
        wanted = [0 if is_out else slowly.code(term, sources, row) for term in design.terms]
        assert found.tolist() == wanted


@given(st.lists(TERMS, min_size=1, max_size=4), rows_between(1, 40), st.booleans())
@settings(max_examples=400)
def test_no_row_exceeds_a_bound(values: list[object], rows: list[dict[str, int]], intercept: bool) -> None:
    design = make(values, intercept=intercept)
    coded = code_rows(arrays(rows), design, len(rows))
    check_bounds(design, coded)


def make(values: list[object], *, intercept: bool) -> Design:
    features = {}
    for value in values:
        try:
            feature = read_feature(value, DECLARED)
        except ExpressionError:
            assume(False)
            raise
        features[feature.name] = feature
    return make_design(tuple(features.values()), (), intercept=intercept)


def check_bounds(design: Design, coded: Any) -> None:
    sizes = np.abs(coded)
    assert np.isfinite(coded).all()
    assert (coded == np.rint(coded)).all()
    assert sizes.max(initial=0) <= UNIT
    groups = {
        term.group: [j for j, other in enumerate(design.terms) if other.group == term.group] for term in design.terms
    }
    for members, (size, support) in zip(groups.values(), design.supports, strict=True):
        assert len(members) == size
        assert sizes[:, members].sum(axis=1).max(initial=0) <= UNIT
        assert (coded[:, members] != 0).sum(axis=1).max(initial=0) <= support
    assert (coded**2).sum(axis=1).max(initial=0) <= design.group_count * UNIT**2


@given(st.lists(TERMS, min_size=1, max_size=3), rows_between(2, 40), SEEDS)
@settings(max_examples=200)
def test_batches_and_orders_change_nothing(values: list[object], rows: list[dict[str, int]], seed: int) -> None:
    design = make(values, intercept=True)
    whole = code_rows(arrays(rows), design, len(rows))
    order = np.random.default_rng(seed).permutation(len(rows))
    shuffled = [rows[i] for i in order]
    assert (code_rows(arrays(shuffled), design, len(rows)) == whole[order]).all()
    one_by_one = [code_rows(arrays([row]), design, 1)[0] for row in rows]
    assert (np.array(one_by_one) == whole).all()


def test_a_missing_value_selects_neither_a_comparison_nor_its_opposite() -> None:
    stored = {"kappa": np.array([MISSING, 0], np.int32)}
    for value in ({"less": ["kappa", 2]}, {"not": [{"less": ["kappa", 2]}]}, {"greater_equal": ["kappa", 2]}):
        assert derive_column(parse(value, DECLARED)).read(stored, 2)[0] == MISSING


def test_sums_and_powers_are_within_their_bounds_to_the_last_bit() -> None:
    """With the same rounding, on every version of Python: half of the last digit is a tenth of what is left here."""
    names = {"a": (1e16, 1e16 + 4), "b": (-1e16 - 4, -1e16), "c": (0.0, 1.5), "d": (0.1, 0.7)}
    declared = {name: Column(name, ColumnType.NUMERIC, MissingRule.COMPLETE, *bounds) for name, bounds in names.items()}
    corners = list(product([-STORED_UNIT, STORED_UNIT], repeat=len(names)))
    stored = {name: np.array([corner[i] for corner in corners], np.int32) for i, name in enumerate(names)}
    for value in ({"add": ["a", "b", "c"]}, {"add": ["b", "c", "d", "a"]}, {"power": ["d", 7]}):
        tree = parse(value, declared)
        numbers = evaluate(tree, stored, len(corners)).numbers
        assert (numbers.min(), numbers.max()) == bounds_of(tree)


def test_conditions_and_cut_points_decide_by_whole_ages() -> None:
    declared = {"age": Column("age", ColumnType.NUMERIC, MissingRule.COMPLETE, 50.0, 100.0)}
    ages = np.arange(50.0, 101.0)
    stored = {"age": to_stored(ages, 50.0, 100.0)}

    def told(value: object) -> list[float]:
        return evaluate(parse(value, declared), stored, len(ages)).numbers.tolist()

    for point in (61, 63, 70, 99):
        assert told({"less_equal": [point, "age"]}) == (ages >= point).tolist()
        assert told({"less": [point, "age"]}) == (ages > point).tolist()
        assert told({"equal": ["age", point]}) == (ages == point).tolist()
        assert told({"less_equal": [point - 10, {"add": ["age", -10]}]}) == (ages >= point).tolist()
        assert told({"cut": ["age", [50, point, 100]]}) == (ages >= point).tolist()


def test_a_computed_value_beyond_its_bounds_becomes_the_bound() -> None:
    """Whatever an expression gives: the lattice bounds what a row becomes, and nothing else has to."""
    tree = parse({"add": ["age", "age"]}, DECLARED)
    column = DerivedColumn("x", ColumnType.NUMERIC, MissingRule.COMPLETE, 140.0, 160.0, expression=tree)
    stored = {"age": np.array([-STORED_UNIT, 0, STORED_UNIT], np.int32)}
    assert column.read(stored, 3).tolist() == [-STORED_UNIT, 0, STORED_UNIT]


@pytest.mark.parametrize("value", [{"in": ["sex", ["F"]]}, {"in": ["sex", ["X"]]}, {"not": ["frail"]}])
def test_a_code_that_is_no_level_s_is_none_of_them(value: object) -> None:
    """A cluster holds values that nobody declared."""
    stored = {name: np.array([-1, 3, 2**31 - 1, MISSING], np.int32) for name in ("sex", "frail")}
    assert derive_column(parse(value, DECLARED)).read(stored, 4).tolist() == [MISSING] * 4


# --- elementary functions and bases -----------------------------------------------------------------------------------


@given(st.floats(1e-300, 1e100))
@settings(max_examples=500)
def test_logarithms_are_right_to_three_units_in_the_last_place(x: float) -> None:
    assert elementary.log(np.array([x]))[0] == pytest.approx(math.log(x), rel=7e-16, abs=3e-16)


@given(st.floats(-300, 300))
@settings(max_examples=500)
def test_exponentials_are_right_to_three_units_in_the_last_place(x: float) -> None:
    assert elementary.exp(np.array([x]))[0] == pytest.approx(math.exp(x), rel=7e-16)


def test_polynomials_are_legendre_s_and_within_one() -> None:
    from scipy.special import eval_legendre

    table = tabulate(Polynomial(10), 75.0, 25.0)
    points = np.arange(-UNIT, UNIT + 1) / UNIT
    for k, values in enumerate(table, 1):
        assert np.abs(values - UNIT * eval_legendre(k, points)).max() < 0.51
        assert np.abs(values).max() == UNIT


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("knots", [(60.0, 70.0, 85.0), (99.999,), (50.00001, 50.00002)])
def test_splines_are_b_splines_and_together_at_most_one(knots: tuple[float, ...], degree: int) -> None:
    from scipy.interpolate import BSpline

    table = tabulate(Spline(knots, degree), 75.0, 25.0)
    sums = table.sum(axis=0)
    assert (table.min(), sums.max()) >= (0, UNIT - 2 * len(table))
    assert sums.max() <= UNIT
    assert (table > 0).sum(axis=0).max() <= degree + 1
    points = np.linspace(-UNIT, UNIT, 1001).astype(int)
    whole = np.r_[[50.0] * (degree + 1), knots, [100.0] * (degree + 1)]
    wanted = BSpline.design_matrix(np.clip(75 + 25 * points / UNIT, 50, 100), whole, degree).toarray().T
    if min(np.diff([50.0, *knots, 100.0])) > 1e-2:
        assert np.abs(table[:, points + UNIT] - UNIT * wanted).max() <= 1.01


def test_splines_are_rounded_down() -> None:
    """To the nearest, some would add up to more than 1."""
    table, points = tabulate(Spline((60.0, 70.0, 85.0)), 75.0, 25.0), range(0, 2 * UNIT, 1000)
    term = Column("age", ColumnType.NUMERIC, MissingRule.COMPLETE, 50.0, 100.0)
    for place, values in enumerate(table):
        exact = [slowly.draw(Spline((60.0, 70.0, 85.0)), place, term, Fraction(i - UNIT, UNIT)) for i in points]
        assert values[points].tolist() == exact
    assert table.sum(axis=0).max() == UNIT - 1


@pytest.mark.parametrize("knots", [(75.0,), (60.0, 75.0), (55.0, 60.0, 75.0, 95.0)])
def test_natural_splines_are_not_negative_and_straight_at_both_bounds(knots: tuple[float, ...]) -> None:
    table = tabulate(Spline(knots, natural=True), 75.0, 25.0)
    assert len(table) == len(knots) + 2
    sums = table.sum(axis=0)
    assert table.min() == 0
    assert UNIT - 2 * len(table) <= sums.min() <= sums.max() <= UNIT
    step = 3000  # a cubic's second derivative is a straight line: two of its values give that at the bound
    for values in (table / UNIT, table[:, ::-1] / UNIT):
        first, second, third, fourth = (values[:, k * step] for k in range(4))
        near, far = (first - 2 * second + third, second - 2 * third + fourth)
        assert np.abs(2 * near - far).max() * (UNIT / step) ** 2 < 0.2
    inner = (table[:, UNIT - step] - 2 * table[:, UNIT] + table[:, UNIT + step]) / UNIT * (UNIT / step) ** 2
    assert np.abs(inner).max() > 1


def test_one_indicator_serves_all_that_is_computed_from_a_column() -> None:
    asked = ["change", {"power": ["change", 2]}, {"polynomial": ["change", 2]}, {"add": ["change", "kappa"]}]
    features = tuple(read_feature(value, DECLARED) for value in asked)
    flags = [term for term in make_design(features, (), intercept=True).terms if term.kind is TermKind.MISSING]
    assert [flag.name for flag in flags] == ["change[missing]"]  # a row that misses kappa is out
    for feature in features[:3]:  # alone they have the same one, so that a stored release may serve them
        design = make_design((feature,), (), intercept=True)
        assert flags[0] in design.terms
        assert "change" in design.columns


@pytest.mark.parametrize(
    "value",
    [
        {"or": [{"less": ["change", 0]}, {"less": ["age", 60]}]},  # true for the young, whatever is missing
        {"multiply": ["change", "tiny"]},  # missing where either is
        {"cut": ["change", [0]]},  # one of its own levels
    ],
)
def test_what_is_missing_elsewhere_too_has_an_indicator_of_its_own(value: Any) -> None:
    column = derive(value)
    assert column.flagged is column
    assert f"{column.name}[missing]" in [term.name for term in make_design((column,), (), intercept=True).terms]
